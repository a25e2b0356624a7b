"""A world with enzymes and plain events: the short ways, a small memory and restores change no byte."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.kernel.heartbeat.paths import tree_key
from cellule.kernel.index.live import Spill
from cellule.kernel.items import ControlItem, EventItem, SignalItem
from cellule.kernel.state.module_cells import Budget
from cellule.values.cbor import decode, encode
from tests.support.enzyme_world import EnzymeWorld
from tests.support.kernel_world import Did

TEXT = {"text": {}}
DOCUMENT = {
    "schemas": {"t/Add@1": {"record": {"who": TEXT, "do": TEXT}}, "t/Sum@1": {"record": {"n": {"int": {}}}}},
    "modules": {
        "t/Sum@1": {
            "kind": "pure", "state": "t/Sum@1", "key": TEXT, "event": ["t/Add@1", "sys/Signal@1"],
            "failure": "skip",
        },
    },
    "routing": {"subscriptions": [{"event": "t/Add@1", "module": "t/Sum@1", "key_field": "who"}]},
}  # fmt: skip
PATHS = ["/a", "/a/b", "/a/b/c", "/d", "/cells/t/Sum/x", "/cells/t/Sum/nobody", "/" + "long" * 200]
WRITABLE = [path for path in PATHS if not path.startswith("/cells")]


def total(state: Any, schema: str, event: Any, ctx: Any) -> Did:
    count = (state or {"n": 0})["n"] + 1
    if event.get("do") == "fail":
        raise ValueError("as told")
    told = [("sys/Signal@1", {"signal": "/s/told", "payload": count})] if event.get("do") == "tell" else []
    return Did({"n": count}, emit=told)


def busy(call: Any, tree: Any) -> Any:
    """Does something that depends on all it sees."""
    seen = [path for path in WRITABLE if tree.read(path) is not None]
    path = WRITABLE[(call.beat + len(seen)) % len(WRITABLE)]
    actions: list[dict[str, Any]] = [{"do": "write", "path": path, "value": [len(seen), call.signal]}]
    match call.signal:
        case "/s/drop":
            actions = [{"do": "delete", "path": path}]
        case "/s/again":
            return -1, actions
        case "/s/late":
            actions.append({"do": "signal", "signal": "/s/drop", "target": "/a", "beat": call.beat + 3})
        case "/s/cell":
            actions.append({"do": "signal", "signal": "/s", "target": "/cells/t/Sum/x", "payload": seen})
        case "/s/bind":
            actions.append({"do": "bind", "path": path, "name": "busy", "propagate": True})
        case "/s/fatal":
            return -2, actions
    return 0, actions


SIGNALS = ["/s", "/s/drop", "/s/again", "/s/late", "/s/cell", "/s/bind", "/s/fatal", "/none"]
ITEM = st.one_of(
    st.tuples(st.just("event"), st.sampled_from("xyz"), st.sampled_from(["add", "add", "tell", "fail"])),
    st.tuples(st.just("signal"), st.sampled_from(SIGNALS), st.none() | st.sampled_from(PATHS)),
    st.tuples(st.just("write"), st.sampled_from(WRITABLE), st.integers(0, 3)),
    st.tuples(st.just("control"), st.sampled_from(["heartbeat.pause", "heartbeat.resume"]), st.none()),
)  # fmt: skip
BEATS = st.lists(st.lists(ITEM, max_size=4), min_size=1, max_size=8)


def item_of(what: str, one: str, other: Any) -> Any:
    match what:
        case "event":
            return EventItem("t/Add@1", encode({"who": one, "do": other}))
        case "signal":
            return SignalItem(one, other)
        case "write":
            return ControlItem("tree.write", "ada", "", {"path": one, "value": other})
    return ControlItem(one, "ada", "")  # type: ignore[arg-type]


class Shelf(Spill):
    """Where cells go that memory has no room for."""

    def __init__(self) -> None:
        self.held: dict[int, bytes] = {}

    def put(self, data: bytes) -> int:
        self.held[len(self.held)] = data
        return len(self.held) - 1

    def get(self, slot: int) -> bytes:
        return self.held[slot]

    def drop(self, slot: int) -> None:
        """What was let go is kept here; nobody asks for it."""


def played(beats: list[list[tuple[str, str, Any]]], *, dies: bool = False, **options: Any) -> EnzymeWorld:
    entry = {"name": "busy", "query": "/s", "match": "prefix", "module": "t/busy", "retry_limit": 2}
    world = EnzymeWorld(
        {"busy": busy}, document=DOCUMENT, steps={"t/Sum": total},
        entries=[entry, {**entry, "name": "twin", "query": "/s/*", "after": ["busy"], "access": "ro"}],
        **options,
    )  # fmt: skip
    world.beat([ControlItem("enzyme.bind", "ada", "", {"path": "/a", "name": "busy", "propagate": True})])
    for items in beats:
        world.beat([item_of(*each) for each in items])
        if dies:
            world.snapshot()
            world.world = world.restored(len(world.snapshots) - 1)
    for _ in range(6):
        world.beat([])
    return world


@settings(deadline=None, max_examples=40)
@given(BEATS)
def test_every_way_through_a_beat_gives_the_same_bytes(beats):
    fast = played(beats)
    assert played(beats, fast=False).frames == fast.frames
    assert played(beats, dies=True, budget=Budget(2, 1, 1), spill=Shelf()).frames == fast.frames
    fast.assert_replays()


@settings(deadline=None, max_examples=40)
@given(BEATS)
def test_the_tree_is_what_its_writes_say(beats):
    """Every node has its parents, and is what the newest Write of it says."""
    world = played(beats)
    for path in WRITABLE:
        state = world.entry("sys/Tree", tree_key(path))
        if state is not None and isinstance(state.state, bytes):
            assert set(decode(state.state)) <= {"value", "path"}
            parent = path.rpartition("/")[0]
            assert not parent or world.entry("sys/Tree", tree_key(parent)) is not None
