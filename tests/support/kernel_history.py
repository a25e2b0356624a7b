"""A long, mixed life of a town, from a seed: what laws about whole worlds are tried on.

The same seed gives the same items in the same beats, in every process; only the host differs by options:
memory, snapshots, evictions. None of those may change a byte of a frame.
"""

from __future__ import annotations

from typing import Any

from cellule.kernel.items import ControlItem, EventItem, Item, Pace, Verb
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.state.module_cells import Budget
from cellule.testing.entropy import SeededEntropy
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support import kernel_town as town
from tests.support.kernel_world import KernelWorld

NOTHING = Budget(hot_cells_max=0, dirty_bytes_max=0, nodes_bytes_max=0)
_DEEDS = ("add", "ask", "delete", "grow", "link", "relay", "repeat", "fan", "wrong", "effect", "fail")
_VERBS: tuple[Verb, ...] = ("cell.resume", "cell.migrate", "resume")


class Scratch:
    """A spill in memory."""

    def __init__(self) -> None:
        self.slots: dict[int, bytes] = {}
        self.made = 0

    def put(self, data: bytes) -> int:
        """See `Spill.put`."""
        self.made += 1
        self.slots[self.made] = data
        return self.made

    def get(self, slot: int) -> bytes:
        """See `Spill.get`."""
        return self.slots[slot]

    def drop(self, slot: int) -> None:
        """See `Spill.drop`."""
        del self.slots[slot]


def live(seed: int, *, beats: int = 40, disturbed: bool = False, **options: Any) -> KernelWorld:
    """A world that has lived through the history of `seed`; `disturbed` = snapshots, evictions, restores."""
    chance = SeededEntropy(seed, "kernel history")
    disturbance = SeededEntropy(seed, "kernel disturbance")
    world = KernelWorld(
        town.document(_edition(chance)), town.PROGRAMS, seed=seed,
        pace=Pace(chance.choice((1, 3, 50)), chance.choice((1, 2, 64))), **options,
    )  # fmt: skip
    world.cas[cid_of(town.BLOB)] = town.BLOB
    for _ in range(beats):
        items = [_item(chance) for _ in range(chance.below(8))]
        if chance.chance(0.15):
            items.insert(chance.below(len(items) + 1), _deploy(world, chance))
        world.beat(items)
        world.now_ns += chance.choice((0, 1, 20, 70)) * town.SECOND_NS
        if disturbed:
            _disturb(world, disturbance)
    return world


def _disturb(world: KernelWorld, chance: SeededEntropy) -> None:
    if chance.chance(0.2):
        world.snapshot()
    if chance.chance(0.3):
        world.world.ledger.nodes.evict()
    if chance.chance(0.2):
        world.world = world.restored(chance.below(len(world.snapshots)))


def _edition(chance: SeededEntropy) -> town.Edition:
    return town.Edition(
        version=chance.choice((1, 2)), upcasts=chance.chance(0.7),
        takes=chance.choice(("one", "both", "two")), upcasts_events=chance.chance(0.7),
        upgrade=chance.choice(("pin", "follow")), failure=chance.choice(("halt", "skip")),
        idle_s=chance.choice((None, 50)), ttl_s=chance.choice((None, 90)), mirror=chance.chance(0.8),
    )  # fmt: skip


def _item(chance: SeededEntropy) -> Item:
    if chance.chance(0.1):
        return ControlItem(chance.choice(_VERBS), "ada", "as planned", {}, durable=True)
    who, count = f"c{chance.below(12)}", chance.below(9)
    value: dict[str, Any] = {"who": who, "do": chance.choice(_DEEDS), "n": count}
    schema, key = "town/Do@1", None
    kind = chance.below(10)
    if kind == 0:
        schema, value = "town/Note@1", {"who": who, "pad": chance.choice((-1, 10, 3_000))}
    elif kind == 1:
        schema, value, key = "town/Pass@1", {"left": count}, chance.choice(town.RELAYS)
    given = f"id-{chance.below(60)}" if chance.chance(0.4) else None
    return EventItem(schema, encode(value), key=key, id=given, explicit=given is not None, durable=True)


def _deploy(world: KernelWorld, chance: SeededEntropy) -> ControlItem:
    manifest = load_manifest(town.document(_edition(chance)))
    world.cas[manifest.cid] = manifest.data
    return ControlItem("deploy", "ada", "a new edition", {"manifest": Link(manifest.cid)})
