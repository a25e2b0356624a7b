"""Lives of a kernel world: the same deeds, with and without dying, by the short ways and the general one.

A life that dies forgets all memory before each of its beats and comes back from the journal. Whatever it did,
its frames have to be those of a life that never died.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from cellule.kernel.items import EventItem, Item, ReceiptItem
from cellule.kernel.need import drive
from cellule.kernel.program import Programs
from cellule.values import encode
from tests.support.kernel_world import KernelWorld

Dies = Literal["never", "from the start", "with a snapshot"]


class Receipt(NamedTuple):
    """The receipt of one of the open effects: which, its status, and the value if it is ok."""

    at: int
    status: str
    value: Any = None


class Passed(NamedTuple):
    """Time that passes, with every timer on its way."""

    ns: int


Deed = Sequence[tuple[str, Any]] | Receipt | Passed  # events of one beat, as schemas and values


class Life:
    """One world and its way to die; `world` makes it, `programs` are made anew with each birth."""

    def __init__(self, world: KernelWorld, programs: Callable[[], Programs], *, dies: Dies = "never") -> None:
        self.world = world
        self._programs = programs
        self._dies = dies

    def live(self, deeds: Sequence[Deed]) -> Life:
        """Do all of it, each until the world rests."""
        for deed in deeds:
            if isinstance(deed, Passed):
                self._pass(deed.ns)
            else:
                self.beat(self.items(deed))
                self.settle()
        return self

    def settle(self) -> Any:
        """Beat until the world rests; the last beat."""
        last = self.beat([])
        while last.more:
            last = self.beat([])
        return last

    def beat(self, items: Sequence[Item]) -> Any:
        """One beat, after a death if it is that kind of life."""
        if self._dies != "never":
            if self._dies == "with a snapshot":
                self.world.snapshot()
            self.world.programs = self._programs()
            self.world.world = self.world.restored(len(self.world.snapshots) - 1)
        return self.world.beat(items)

    def items(self, deed: Sequence[tuple[str, Any]] | Receipt) -> list[Item]:
        """What a deed brings in."""
        if not isinstance(deed, Receipt):
            return [EventItem(schema, encode(value)) for schema, value in deed]
        ledger = self.world.world.ledger
        rows = drive(ledger.book.open.scan(b"", None, 1_000), ledger.nodes, self.world.fetch)
        rows = [each for each in rows if each[1].kind != "timer.set"]
        if not rows:
            return []
        place, intent = rows[deed.at % len(rows)]
        value = encode(deed.value) if deed.status == "ok" else None
        return [ReceiptItem(intent.id, int.from_bytes(place[:8], "big"), deed.status, value)]

    def _pass(self, ns: int) -> None:
        until = self.world.now_ns + ns
        wake = self.settle().wake
        while wake is not None and wake <= until:
            self.world.now_ns = max(self.world.now_ns, wake)
            wake = self.settle().wake
        self.world.now_ns = until


def check_lives(make: Callable[[Dies, bool], Life], deeds: Sequence[Deed]) -> Life:
    """Live the deeds every way: no byte differs, and the journal restores and verifies; the life unbroken."""
    whole = make("never", True).live(deeds)
    for dies, fast in (("from the start", True), ("with a snapshot", True), ("never", False)):
        other = make(dies, fast).live(deeds)  # type: ignore[arg-type]
        assert other.world.frames == whole.world.frames, f"dies {dies}, fast={fast}"
    whole.world.assert_replays()
    return whole
