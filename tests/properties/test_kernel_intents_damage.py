"""Journals that lie about intents: a changed record is found, or gives a sound world; never a wrong one.

A bank lives through everything its records can tell. Then each field of each Intent, Decision, Receipt and
schedule Timer is changed in turn, in a frame made to hash right again. The whole chain of proofs is asked:
`check` of the frames, restore, `check` of the state, and running the steps again.
"""

from __future__ import annotations

import os
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.errors import Corrupted
from cellule.kernel.index.keys import pair_of
from cellule.kernel.index.read import scan_all
from cellule.kernel.items import EventItem
from cellule.kernel.journal.fields import RetentionTimer, ScheduleTimer
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import (
    ControlRecord,
    DecisionRecord,
    IntentRecord,
    ReceiptRecord,
    TimerRecord,
)
from cellule.kernel.need import Need, Nodes, drive
from cellule.kernel.prove.check import Position, check_frames, check_snapshot, reachable
from cellule.kernel.prove.verify import Verifier
from cellule.kernel.world import World
from cellule.values.cbor import decode, encode, links_of
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.frames import fields_of, rows_of, with_change
from tests.support.kernel_bank import HOUR, MINUTE, PROGRAMS, SECOND, Bank, document, every
from tests.support.kernel_world import KernelWorld

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "150"))
KINDS = (IntentRecord, DecisionRecord, ReceiptRecord, TimerRecord, ControlRecord)
NOWHERE = Link(cid_of(encode("nobody has this block")))
JUNK = [
    None,
    True,
    0,
    1,
    2,
    3,
    7,
    999,
    -1,
    1.5,
    "",
    "x",
    b"",
    b"x",
    b"x" * 16,
    [],
    [b"\xa0"],
    {},
    {"a": 1},
    NOWHERE,
]
POLICY = {"rules": [
    {"name": "no", "when": 'effect.kind == "bank.charge" && effect.params.amount > 100', "then": "deny"},
    {"name": "ask", "when": 'effect.kind == "bank.charge" && effect.params.amount > 10',
     "then": "require_approval", "reason": "over 10", "expires_ns": HOUR},
]}  # fmt: skip


@lru_cache
def lived() -> Bank:
    """One bank for all examples; it is only read."""
    options = {
        "order": {"open_max": 3, "cap_slots": {"pay": "till"}}, "clerk": {"open_max": 3, "cap_slots": {}},
        "policy": POLICY,
        "capabilities": {"till": {"effects": ["bank.charge"], "budget": {"count": 50, "period_ns": HOUR}}},
    }  # fmt: skip
    bank = Bank(KernelWorld(document(**options, schedules=every(HOUR)), PROGRAMS))
    bank.ask(("bank.charge", {"amount": 1}), schema="bank/Tell@1")
    both = (("bank.charge", {"amount": 1}, "pay"), ("bank.charge", {"amount": 2}, None, "k"))
    first, second = bank.ask(*both).opened
    bank.charge(2, key="k", order="b")
    bank.receive(first, "failed", code="bank.down", text="503", exhausted=True, attempts=3, by="k1")
    bank.receive(second, by="k1", attempts=1)
    bank.charge(2, key="k", order="c")
    bank.charge(500, order="c")
    timers = (("timer.set", {"after_ns": SECOND, "key": "t"}), ("timer.set", {"after_ns": 99 * HOUR}))
    bank.ask(*timers, order="b")
    for order in "bcd":
        bank.charge(50, order=order)
    bank.world.control("effect.approve", intent=bank.intents("b")[-1])
    bank.world.control("effect.deny", intent=bank.intents("c")[-1])
    bank.world.advance(2 * MINUTE)
    bank.ask(delete=True, order="d")
    letter = next(height for height, record in enumerate(bank.records(), 1) if _is_letter(record))
    [again] = bank.world.control("effect.retry", letter=letter).opened
    for order in "efgh":
        bank.charge(1, order=order, pad="x" * 2_000)
    bank.receive(again, value={"id": 7})
    bank.charge(1, order="d", key="later", slot="pay")
    bank.world.control("schedule.pause", name="tick")
    bank.world.control("schedule.resume", name="tick")
    bank.world.advance(HOUR + MINUTE)
    bank.world.deploy(document(**{**options, "order": {**options["order"], "open_max": 9}}))
    bank.world.snapshot()
    return bank


def _is_letter(record):
    return isinstance(record, ReceiptRecord) and "exhausted" in record.extras


def places():
    """Where records about intents stand: (frame, record, field or a part of it)."""
    found = []
    for at, data in enumerate(lived().world.frames):
        for position, (record, row) in enumerate(zip(decode_frame(data).records, rows_of(data), strict=True)):
            if not isinstance(record, KINDS) or isinstance(getattr(record, "what", None), RetentionTimer):
                continue
            for field, value in fields_of(row).items():
                found.append((at, position, (field,)))
                if isinstance(value, dict):
                    found += [(at, position, (field, name)) for name in value]
                if field == "what" and value is not None:
                    found += [(at, position, (field, part)) for part in range(4)]
    return found


def lying(place, change):
    """The journal up to a frame in which one place is changed; nothing follows that could tell."""
    at, position, path = place
    frames = lived().world.frames

    def changed(fields):
        holder, name = (fields, path[0]) if len(path) == 1 else (fields[path[0]], path[1])
        change(holder, name)
        if path[0] in fields and fields[path[0]] == {} and len(path) == 2:
            fields[path[0]] = None

    return [*frames[:at], with_change(frames[at], position, changed)]


def verdict(frames):
    """What the chain of proofs says of a journal: who found it, or the restored world."""
    world = lived().world
    try:
        list(check_frames(frames, Position(0, None)))
    except Corrupted as error:
        return "check", error
    try:
        restored = world.restored(frames=frames)
    except Corrupted as error:
        return "restore", error
    nodes = Nodes(10_000_000)
    try:
        drive(check_snapshot(world.snapshot(restored), nodes), nodes, world.fetch)
    except Corrupted as error:  # a message that waits, whose value nobody has
        assert error.code == "kernel.node_missing"  # noqa: PT017 - any other is a wrong snapshot
        return "check", error
    verifier = Verifier()
    try:
        world._restore(0, frames, verifier.witness)
    except Corrupted as error:  # a value that nobody has, which only a step reads
        return "verify", error
    return ("verify", verifier.difference) if verifier.difference is not None else ("sound", None)


@settings(max_examples=2 * EXAMPLES, deadline=None, database=None)
@given(data=st.data(), junk=st.sampled_from(JUNK))
def test_a_changed_field_is_found_or_the_world_is_sound(data, junk):
    def change(holder, name):
        holder[name] = junk

    verdict(lying(data.draw(st.sampled_from(places())), change))


@settings(max_examples=EXAMPLES, deadline=None, database=None)
@given(data=st.data())
def test_a_field_that_is_cut_is_found_or_the_world_is_sound(data):
    def change(holder, name):
        if isinstance(holder, dict):
            del holder[name]
        else:
            holder.pop(name)

    place = data.draw(st.sampled_from(places()))
    found, _ = verdict(lying(place, change))
    if len(place[2]) == 1:
        assert found == "check"


@settings(max_examples=EXAMPLES, deadline=None, database=None)
@given(data=st.data())
def test_a_record_that_is_left_out_is_found_or_the_world_is_sound(data):
    at, position, _ = data.draw(st.sampled_from(places()))
    frames = lived().world.frames
    header, names, records = decode(frames[at])
    if len(records) == 1:
        return
    kept = [record for index, record in enumerate(records) if index != position]
    header["last"] -= 1
    verdict([*frames[:at], encode([header, names, kept])])


# What must be found, field by field: a world that looks right would be wrong


def _first(kind, where=lambda record: True):
    for at, data in enumerate(lived().world.frames):
        for height, record in decode_frame(data).of(kind):
            if where(record):
                return at, height - decode_frame(data).header.first
    raise AssertionError("the bank has lived through no such record")


def _with(name):
    return lambda record: name in record.extras


def _put(field, value):
    return lambda fields: fields.update({field: value})


def _extra(name, value):
    return lambda fields: fields["extras"].update({name: value})


def _moved(field, by):
    return lambda fields: fields.update({field: fields[field] + by})


def _as(field, other):
    return lambda fields: fields.update({field: fields[other]})


def _ends(status, delivery=None):
    return lambda record: record.status == status and delivery in (None, record.delivery)


def _armed(record):
    return isinstance(record.what, ScheduleTimer) and record.fired is not None


def _verb(verb):
    return lambda record: record.verb == verb


def _timed(record):
    return record.verdict == 0 and "due_ns" in record.extras


def _kept(record):
    return record.verdict == 0 and not record.extras


CASES = {
    "intent: another step": (IntentRecord, None, _moved("cause", -1)),
    "intent: another place": (IntentRecord, None, _put("position", 5)),
    "intent: another module": (IntentRecord, None, _as("module", "kind")),
    "intent: another cell": (IntentRecord, None, _put("key", b"zz")),
    "intent: another incarnation": (IntentRecord, None, _moved("born", 1)),
    "intent: another kind": (IntentRecord, None, _as("kind", "module")),
    "intent: other params": (IntentRecord, None, _put("params", [encode({"amount": 9})])),
    "intent: another key": (IntentRecord, _with("key"), _extra("key", "kk")),
    "intent: another slot": (IntentRecord, _with("slot"), _extra("slot", "odd")),
    "decision: of another intent": (DecisionRecord, None, _moved("cause", -1)),
    "decision: denied without a receipt": (DecisionRecord, _kept, _put("verdict", 1)),
    "decision: the same as nobody": (DecisionRecord, _kept, _put("verdict", 3)),
    "decision: unknown": (DecisionRecord, None, _put("verdict", 9)),
    "decision: a charge with a time": (DecisionRecord, _kept, _put("extras", {"due_ns": 1 << 62})),
    "decision: a timer without": (DecisionRecord, _timed, _put("extras", None)),
    "decision: the same as another": (DecisionRecord, _with("same"), _extra("same", 1)),
    "decision: a period without a grant": (
        DecisionRecord, _with("period"), lambda fields: fields["extras"].pop("grant"),
    ),
    "receipt: of another intent": (ReceiptRecord, None, _moved("cause", -1)),
    "receipt: another module": (ReceiptRecord, None, _as("module", "schema")),
    "receipt: another cell": (ReceiptRecord, None, _put("key", b"zz")),
    "receipt: another incarnation": (ReceiptRecord, None, _moved("born", 1)),
    "receipt: an unknown end": (ReceiptRecord, None, _put("status", 9)),
    "receipt: a denied one that went well": (ReceiptRecord, _ends(4, 2), _put("status", 0)),
    "receipt: another schema": (ReceiptRecord, None, _as("schema", "module")),
    "receipt: no value": (ReceiptRecord, None, _put("value", [b"\xff"])),
    "receipt: told in another way": (ReceiptRecord, _ends(0, 1), _put("delivery", 2)),
    "receipt: told to nobody": (ReceiptRecord, _ends(0, 1), _put("delivery", 0)),
    "receipt: told to a cell that is gone": (ReceiptRecord, _ends(5), _put("delivery", 1)),
    "receipt: another timer": (ReceiptRecord, _with("fired"), _extra("fired", b"x" * 16)),
    "receipt: no timer": (ReceiptRecord, _with("fired"), _put("extras", None)),
    "receipt: a letter of what went well": (ReceiptRecord, _ends(0), _put("extras", {"exhausted": True})),
    "receipt: below no limit": (ReceiptRecord, _ends(0), _put("extras", {"under": True})),
    "schedule: another name": (
        TimerRecord, _armed, lambda fields: fields["what"].__setitem__(1, fields["what"][1] + 1),
    ),
    "schedule: armed twice": (TimerRecord, _armed, _put("fired", None)),
    "schedule: another timer": (TimerRecord, _armed, _put("fired", b"x" * 16)),
    "retry: another letter": (
        ControlRecord, _verb("effect.retry"), lambda fields: fields["arguments"].update(letter=1),
    ),
    "deploy: below no limit": (
        ControlRecord, _verb("deploy"), lambda fields: fields["arguments"].update(under=["x"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_record_that_would_give_a_wrong_world_is_found(case):
    kind, where, change = CASES[case]
    at, position = _first(kind, where or (lambda record: True))
    frames = lived().world.frames
    found, what = verdict([*frames[:at], with_change(frames[at], position, change)])
    assert found != "sound"
    if found in ("check", "restore"):
        assert "height" in str(what)
    else:
        assert what.field.startswith("effects[")


# Snapshots


def replaced(cas, root, old, data):
    """Put changed bytes in the place of `old`, and everything above it anew; returns the new root."""
    new = cid_of(data)
    cas[new] = data
    if old == root:
        return new
    for cid, held in list(cas.items()):
        if cid not in (old, new) and cid.codec == "dag-cbor" and old in links_of(held):
            return replaced(cas, root, cid, encode(relinked(decode(held), old, new)))
    return root


def relinked(value, old, new):
    if isinstance(value, Link):
        return Link(new) if value.cid == old else value
    if isinstance(value, list):
        return [relinked(item, old, new) for item in value]
    if isinstance(value, dict):
        return {name: relinked(item, old, new) for name, item in value.items()}
    return value


def walk(value, path=()):
    yield path
    items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for at, item in items:
        yield from walk(item, (*path, at))


def put(value, path, junk):
    if not path:
        return junk
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = put(value[path[0]], path[1:], junk)
    return copy


@settings(max_examples=2 * EXAMPLES, deadline=None, database=None)
@given(data=st.data(), junk=st.sampled_from(JUNK))
def test_a_changed_snapshot_of_intents_is_corrupted_or_works(data, junk):
    world = lived().world
    root = world.snapshots[-1][1]
    nodes = Nodes(10_000_000)
    graph = drive(reachable([root], nodes), nodes, world.fetch)
    saved = decode(world.cas[root])
    names = ("intents", "timers", "dead_letters", "pending", "ready", "held", "schedules")
    indexes = [saved[name] for name in names] + [*saved["idempotency"].values()]
    indexes += [saved["budgets"][name] for name in ("open", "spent")]
    parts = [root, *(index[0].cid for index in indexes if index is not None)]
    cid = data.draw(st.sampled_from(parts))
    value = decode(world.cas[cid])
    path = data.draw(st.sampled_from(list(walk(value))))
    cas = {cid: world.cas[cid] for cid in graph}
    bad = replaced(cas, root, cid, encode(put(value, path, junk)))

    def fetch(cids):
        return {cid: cas[cid] for cid in cids if cid in cas}

    nodes = Nodes(10_000_000)
    try:
        drive(check_snapshot(bad, nodes), nodes, fetch)
        restoring = World.restore(bad, world.world_id, world.programs)
        opened = drive(restoring.open(), restoring.nodes, fetch)
        found = drive(opened.world(), restoring.nodes, fetch)
        tick = EventItem("bank/Tick@1", encode({"order": "new"}))
        answer = found.beat([tick], world.now_ns + 200 * HOUR, bytes(16))
        while isinstance(answer, Need):
            answer = found.resume(fetch(answer.cids))
    except Corrupted:
        return
    assert answer.frame is not None


def test_a_snapshot_with_intents_above_its_height_is_corrupted():
    world = lived().world
    root = world.snapshots[-1][1]
    nodes = Nodes(10_000_000)
    graph = drive(reachable([root], nodes), nodes, world.fetch)
    saved = decode(world.cas[root])
    open_intents = drive(scan_all(saved["intents"][0].cid, nodes), nodes, world.fetch)
    height = pair_of(open_intents[-1][0])[0] - 1
    cas = {cid: world.cas[cid] for cid in graph}
    bad = replaced(cas, root, root, encode({**saved, "height": height}))
    with pytest.raises(Corrupted, match=f"an intent or timer is of a record above height {height}"):
        drive(check_snapshot(bad, nodes), nodes, lambda cids: {cid: cas[cid] for cid in cids})
