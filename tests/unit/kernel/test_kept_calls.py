"""Calls that a cell has not answered: what answers them, who is told, and how many it keeps in its entry."""

from __future__ import annotations

import pytest

from cellule.kernel.decide.calls import _beyond
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import EmittedRecord
from cellule.kernel.limits import CELL_CALLS_BYTES_MAX, CELL_CALLS_MAX
from cellule.kernel.state.expectation import Call
from cellule.values.cbor import decode
from cellule.values.envelope import value_of
from tests.support.kernel_world import Did, FunctionPrograms


def calls(count, size):
    return [Call("a/b", b"k" * size, 1, str(number), "a/c@1") for number in range(count)]


@pytest.mark.parametrize(
    ("count", "size", "beyond"),
    [(0, 10, 0), (CELL_CALLS_MAX, 10, 0), (CELL_CALLS_MAX + 1, 10, 1), (110, 500, 0), (1_000, 500, 879)],
)
def test_the_oldest_calls_go_where_they_are_too_many_or_too_long(count, size, beyond):
    """1,000 calls by keys of 500 bytes were half a megabyte in one entry, and no snapshot could be saved."""
    made = calls(count, size)
    assert list(_beyond(made)) == made[:beyond]
    assert sum(len(each.key) for each in made[beyond:]) < CELL_CALLS_BYTES_MAX


SCHEMAS = {
    "call/Begin@1": {"record": {"who": {"text": {}}}},
    "call/Ask@1": {"record": {"clerk": {"text": {}}}},
    "call/Say@1": {
        "record": {
            "clerk": {"text": {}},
            "schema": {"text": {}},
            "to": {"text": {}},
            "go": {"option": {"bool": {}}},
        }
    },
    "call/Told@1": {"record": {"to": {"text": {}}}},
    "call/Other@1": {"record": {"to": {"text": {}}}},
    "call/State@1": {"int": {}},
}
ASKED, SAID = ["call/Begin@1", "call/Told@1", "call/Other@1"], ["call/Ask@1", "call/Say@1"]
MODULE = {"kind": "pure", "state": "call/State@1", "key": {"text": {}}}
FIELDS = {"call/Begin@1": "who", "call/Told@1": "to", "call/Other@1": "to"}


def document():
    """Askers, who call a clerk as they begin; the clerk says what it is told to say."""
    modules = {"call/Asker@1": {**MODULE, "event": ASKED}, "call/Clerk@1": {**MODULE, "event": SAID}}
    routes = [
        {"event": event, "module": module, "key_field": FIELDS.get(event, "clerk")}
        for module, events in (("call/Asker@1", ASKED), ("call/Clerk@1", SAID)) for event in events
    ]  # fmt: skip
    return {"schemas": SCHEMAS, "modules": modules, "routing": {"subscriptions": routes}}


def asker(state, schema, event, _):
    asks = [("call/Ask@1", {"clerk": "c"}, None, ("token", "call/Told@1"))] if "who" in event else []
    return Did((state or 0) + 1, emit=asks)


def clerk(state, schema, event, _):
    said = [(event["schema"], {"to": event["to"]})] if "to" in event else []
    return Did(None if event.get("go") else (state or 0) + 1, emit=said)


@pytest.fixture
def asked(make_world):
    """A clerk whom `ann` and then `bob` have called."""
    world = make_world(document(), FunctionPrograms({"call/Asker": asker, "call/Clerk": clerk}))
    for name in ("ann", "bob"):
        world.send("call/Begin@1", {"who": name})
        world.settle()
    return world


def waiting(world):
    entry = world.entry("call/Clerk", b"c")
    return [key for _, key, *_ in entry.get("calls", ())]


@pytest.mark.parametrize(
    ("schema", "to", "left"),
    [
        ("call/Told@1", "ann", [b"bob"]), ("call/Told@1", "bob", [b"ann"]),
        ("call/Told@1", "cyd", [b"ann", b"bob"]), ("call/Other@1", "ann", [b"ann", b"bob"]),
    ],
)  # fmt: skip
def test_a_call_is_answered_by_the_awaited_event_to_its_caller_and_by_no_other(asked, schema, to, left):
    assert waiting(asked) == [b"ann", b"bob"]
    asked.send("call/Say@1", {"clerk": "c", "schema": schema, "to": to})
    asked.settle()
    assert waiting(asked) == left


@pytest.mark.parametrize("is_last", [False, True])
def test_whoever_waits_when_the_called_cell_is_deleted_is_told_and_nobody_else(asked, is_last):
    """By a person, or by its own step, which still answers one of them."""
    answer = {"clerk": "c", "schema": "call/Told@1", "to": "ann"}
    asked.send("call/Say@1", {**answer, "go": True} if is_last else answer)
    asked.settle()
    if not is_last:
        asked.control("cell.delete", module="call/Clerk", key=b"c")
    assert asked.entry("call/Clerk", b"c") is None
    told = [
        (each.targets, decode(value_of(each.value))["status"])
        for data in asked.frames for _, each in decode_frame(data).of(EmittedRecord)
        if each.schema == "sys/CallFailed@1"
    ]  # fmt: skip
    assert told == [([("call/Asker", b"bob")], "deleted")]
