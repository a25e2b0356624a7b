"""The invariants of the design that the kernel keeps, one or more named tests for each."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import pytest

import cellule.kernel
from cellule.errors import Corrupted, InvariantBroken
from cellule.kernel.items import Admitted, ControlItem, Duplicate, EventItem, Pace, RefusedItem
from cellule.kernel.journal.codes import HALTED, OK
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import EmittedRecord, StepRecord
from cellule.kernel.manifest.routes import Router
from cellule.kernel.need import Need
from cellule.kernel.program import Output
from cellule.kernel.state.cells import Message, Slot
from cellule.kernel.state.module_cells import Budget
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Link
from tests.support.kernel_world import Did, FunctionPrograms

KERNEL = Path(cellule.kernel.__file__).parent
SOURCES = sorted(KERNEL.rglob("*.py"))
PURE = {
    "__future__", "array", "base64", "bisect", "cellule", "collections", "dataclasses", "difflib", "enum",
    "functools", "hashlib", "heapq", "ipaddress", "itertools", "json", "msgspec", "operator", "re", "typing",
    "urllib.parse", "uuid", "zlib",
}  # fmt: skip
IMPURE_CALLS = {
    "open", "print", "input", "hash", "id", "exec", "eval", "compile", "globals", "vars", "__import__",
}  # fmt: skip


def ping(to: str, left: int = 0) -> EventItem:
    return EventItem("shop/Ping@1", encode({"to": to, "left": left}))


def paid(order: str = "o1", **options: object) -> EventItem:
    return EventItem("shop/Paid@1", encode({"order": order}), **options)


def failed(order: str = "o1") -> EventItem:
    return EventItem("shop/Failed@1", encode({"order": order, "why": "no"}))


# 1. The journal is authoritative, append-only and contiguous


def test_1_heights_count_from_one_without_gaps_across_beats_and_restores(world):
    for turn in range(4):
        world.beat([ping("a", left=turn), failed(f"o{turn}"), paid()])
        world.beat([])
        world.world = world.restored()
    headers = [decode_frame(frame).header for frame in world.frames]
    assert headers[0].first == 1
    for before, after in pairwise(headers):
        assert after.first == before.last + 1
        assert after.beat == before.beat + 1
    assert world.world.ledger.height == headers[-1].last


def test_1_the_journal_alone_gives_the_world(world):
    world.beat([ping("a", left=3), paid(), failed("o2")])
    world.settle()
    assert world.snapshot(world.restored(0)) == world.snapshot()


# 2. Every persisted value is canonical bytes; identity is a CID


def test_2_every_frame_and_block_is_canonical_and_is_what_its_cid_says(world):
    world.beat([paid(), failed("o2"), paid("o2", id="x", explicit=True), ping("a", left=2)])
    world.snapshot()
    for frame in world.frames:
        decode_frame(frame, prove=True)
    for cid, data in world.cas.items():
        assert cid == cid_of(data)
        assert encode(decode(data)) == data


def test_2_a_node_that_does_not_hash_to_its_cid_is_never_taken(make_world):
    world = make_world(budget=Budget(0, 0, 0))
    world.beat([paid()])
    world.snapshot()
    answer = world.world.look("shop/Order", b"o1")
    assert isinstance(answer, Need)
    with pytest.raises(Corrupted):
        world.world.resume(dict.fromkeys(answer.cids, b"\xa0"))
    world.world = world.restored()


# 3. The kernel is pure


def test_3_the_kernel_imports_nothing_that_waits_reads_clocks_or_draws_chance():
    assert SOURCES
    imported = {
        (name if name in PURE else name.partition(".")[0], path.name)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _imported(node)
    }
    assert {row for row in imported if row[0] not in PURE} == set()


def test_3_the_kernel_calls_nothing_that_depends_on_the_process():
    called = {
        (node.func.id, f"{path.name}:{node.lineno}")
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert {row for row in called if row[0] in IMPURE_CALLS} == set()


CHANGES = {
    "append", "appendleft", "extend", "extendleft", "pop", "popleft", "clear", "insert", "remove", "put",
    "delete",
}  # fmt: skip
PARTS = {
    "ring",
    "held",
    "pending",
    "active",
    "sealed",
    "eras",
    "timers",
    "stopped",
    "dead_letters",
    "live",
    "queue",
}
FIELDS = {
    "entry",
    "dirty",
    "active",
    "stopped",
    "paused",
    "now_ns",
    "frame",
    "height",
    "beat",
    "pending",
    "slots",
}


def _changes_a_world(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        part = node.func.value
        return node.func.attr in CHANGES and isinstance(part, ast.Attribute) and part.attr in PARTS
    if not isinstance(node, ast.Assign):
        return False
    for target in node.targets:
        place = target.value if isinstance(target, ast.Subscript) else target
        if isinstance(place, ast.Attribute) and place.attr in FIELDS:
            owner = place.value
            name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            if name in ("slot", "cells", "ledger", "_ledger"):
                return True
    return False


def test_4_only_state_changes_a_world():
    found = [
        f"{path.relative_to(KERNEL)}:{node.lineno}"
        for path in SOURCES
        if path.parent.name in ("decide", "intents", "fast", "prove") or path.name == "world.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if _changes_a_world(node)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda ledger: ledger.begin_beat(ledger.beat + 2, ledger.now_ns), "kernel.beat_order"),
        (lambda ledger: ledger.begin_beat(ledger.beat + 1, ledger.now_ns - 1), "kernel.time_order"),
        (
            lambda ledger: ledger.emit(Message(ledger.height, 0, "a", b"", 0, None), [("a", b"")]),
            "kernel.emit_height",
        ),
        (
            lambda ledger: ledger.emit(Message(ledger.height + 1, 0, "a", b"", 0, None), []),
            "kernel.emit_targets",
        ),
        (lambda ledger: ledger.put_first([Slot(ledger.cells("a"), b"")]), "kernel.ring_empty"),
    ],
)
def test_4_a_change_that_cannot_be_breaks_the_invariant(world, act, code):
    with pytest.raises(InvariantBroken) as caught:
        act(world.world.ledger)
    assert caught.value.code == code


def test_3_the_kernel_takes_no_more_of_uuid_than_the_type_and_of_itself_only_what_is_below():
    names = {
        (node.module, alias.name)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    assert {name for module, name in names if module == "uuid"} <= {"UUID"}
    layers = {".".join(module.split(".")[:2]) for module, _ in names if module.startswith("cellule")}
    assert layers <= {"cellule.kernel", "cellule.values", "cellule.errors"}


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


# 4. A beat commits all or nothing; what is emitted in beat N is delivered in N+1


def test_4_a_beat_dropped_at_any_point_leaves_nothing_behind(make_world):
    """Drop the world after the n-th request for nodes, for every n: the journal restores to what it was."""
    world = make_world(budget=Budget(0, 0, 0))
    world.beat([paid("o1"), ping("a", left=2), failed("o2")])
    world.snapshot()
    before = world.snapshots[-1][1]
    items = [paid("o1"), paid("o2"), ping("a"), ControlItem("cell.resume", "ada", "", {})]
    asked = 0
    while True:
        answer = world.world.beat(items, world.now_ns, bytes(16))
        for _ in range(asked):
            if isinstance(answer, Need):
                answer = world.world.resume(world.fetch(answer.cids))
        done = not isinstance(answer, Need)
        world.world = world.restored(len(world.snapshots) - 1)
        assert world.snapshot(world.restored(len(world.snapshots) - 1)) == before
        if done:
            break
        asked += 1
    assert asked >= 2


def test_4_what_is_emitted_is_delivered_in_the_next_beat_and_never_earlier(make_world):
    world = make_world(pace=Pace(quota=4, burst=2))
    world.beat([ping(name, left=4) for name in "abc"])
    world.settle()
    emitted_in: dict[int, int] = {}
    stepped_in: dict[int, int] = {}
    for frame in map(decode_frame, world.frames):
        for height, record in frame.numbered():
            if isinstance(record, EmittedRecord):
                emitted_in[height] = frame.header.beat
            elif isinstance(record, StepRecord):
                stepped_in[record.cause] = frame.header.beat
    assert len(emitted_in) == 12
    assert all(stepped_in[height] > beat for height, beat in emitted_in.items())


def test_4_an_emitted_event_waits_exactly_one_beat_when_nothing_else_does(world):
    beat = world.beat([ping("a", left=1)])
    assert [step.key for step in beat.steps] == [b"a"]
    assert [step.key for step in world.beat().steps] == [b"ax"]


def test_4_a_chunk_of_a_log_is_in_reach_before_its_frame_is_durable(make_world, shop):
    """A log sealed and read again in one beat, or before its commit, used to ask for a block nobody had."""

    def append(state, schema, event, ctx):
        return [{"n": len(state or []), "pad": "x" * 20_000}]

    world = make_world(shop(Order={"state": "log"}), FunctionPrograms({"shop/Order": append}))
    beats = []
    for _ in range(3):
        answer = world.world.beat([paid(), paid(), paid(), paid()], world.now_ns, bytes(16))
        assert not isinstance(answer, Need)
        assert [step.status for step in answer.steps] == [OK] * 4
        assert answer.blocks
        beats.append(answer)
    for beat in beats:
        world.cas.update(beat.blocks)
        world.frames.append(beat.frame)


def test_4_a_beat_that_finds_only_halted_cells_changes_nothing_and_delivers_once_later(make_world):
    """What was emitted for a halted cell waits: without a frame there is no delivery to be repeated."""

    def picky(state, schema, event, ctx):
        if event["to"] == "ax" and event["left"] != 7:
            raise ValueError("not now")
        emit = [("shop/Ping@1", {"to": event["to"] + "x", "left": 0})] if event["left"] else []
        return Did({"count": 1}, emit=emit)

    world = make_world(programs=FunctionPrograms({"shop/Pinger": picky}))
    world.beat([ping("ax")])
    world.settle()
    world.beat([ping("a", left=1)])
    root = world.snapshot()
    for _ in range(3):
        beat = world.beat()
        assert (beat.frame, beat.more) == (None, False)
        assert world.snapshot() == root
    world.beat([ping("other")])
    assert len(world.entry("shop/Pinger", b"ax").get("queue")) == 2


# 7. The same event id is never applied twice within the dedupe window


@pytest.mark.parametrize("then", ["nothing", "snapshot", "restart", "snapshot and restart"])
def test_7_the_same_id_is_never_applied_twice(world, then):
    first = world.beat([paid(id="once", explicit=True)]).outcomes[0]
    if "snapshot" in then:
        world.snapshot()
    if "restart" in then:
        world.world = world.restored(len(world.snapshots) - 1)
    again = world.beat([paid(id="once", explicit=True), paid(id="twice", explicit=True)])
    assert again.outcomes[0] == Duplicate(first.height)
    assert isinstance(again.outcomes[1], Admitted)
    assert world.state("shop/Order", b"o1")["seen"] == 2


def test_7_a_refused_id_may_be_used_again(world):
    refused = EventItem("shop/Nope@1", encode({}), id="mine", explicit=True, durable=True)
    assert isinstance(world.beat([refused]).outcomes[0], RefusedItem)
    assert isinstance(world.beat([paid(id="mine", explicit=True)]).outcomes[0], Admitted)


# 8. Restore never runs user code, routing or policy


class Untouchable:
    """Programs that must not be asked for anything."""

    def program(self, *_):
        raise AssertionError("restore asked for code")

    def upcaster(self, *_):
        raise AssertionError("restore asked for an upcaster")


def test_8_restore_runs_no_code_and_no_routing(world, monkeypatch):
    world.beat([ping("a", left=3), paid(), failed("o2"), EventItem("shop/Nope@1", b"\xa0", durable=True)])
    world.control("cell.resume")
    world.settle()
    root = world.snapshot()
    programs = world.programs

    def touched(*_):
        raise AssertionError("restore routed")

    with monkeypatch.context() as patch:
        patch.setattr(Router, "route", touched)
        patch.setattr(Router, "targets", touched)
        world.programs = Untouchable()
        restored = world.restored(0)
        assert world.snapshot(restored) == root
    world.programs = programs


def test_8_restore_keeps_what_was_decided_although_the_code_decides_otherwise_now(make_world):
    world = make_world()
    world.send("shop/Placed@1", {"order": "o1", "total": 3})
    world.programs = FunctionPrograms(
        {"shop/Order": lambda *_: Did(None), "shop/Stats": lambda *_: Did(None)}
    )
    world.world = world.restored(0)
    assert world.state("shop/Order", b"o1")["total"] == 3
    assert world.verify().field == "status"
    world.same_code = False


# 10. A failing step changes nothing but the record of its failure, and never stops its world


def test_10_a_failing_step_leaves_the_cell_as_it_was_and_the_others_go_on(world):
    world.send("shop/Placed@1", {"order": "o1", "total": 3})
    before = world.entry("shop/Order", b"o1")
    beat = world.beat([failed("o1"), paid("o2"), paid("o1")])
    after = world.entry("shop/Order", b"o1")
    assert [(step.key, step.status) for step in beat.steps] == [(b"o1", HALTED), (b"o2", OK)]
    assert after.changed(last=0, extras=None) == before.changed(last=0, extras=None)
    assert after.last == beat.steps[0].height
    assert {name: after.get(name) for name in ("status", "since", "code", "text")} == {
        "status": "halted", "since": beat.steps[0].height, "code": "shop.failed", "text": "no",
    }  # fmt: skip
    assert world.state("shop/Order", b"o2")["paid"]


def test_10_a_step_that_fails_late_has_emitted_nothing(make_world):
    def late(state, schema, event, ctx):
        return Did({"count": 1}, emit=[("shop/Ping@1", {"to": "z", "left": 0}), ("shop/Nowhere@1", {})])

    world = make_world(programs=FunctionPrograms({"shop/Pinger": late}))
    beat = world.beat([ping("a")])
    frame = decode_frame(beat.frame)
    told = [emitted.schema for _, emitted in frame.of(EmittedRecord)]
    assert told == ["sys/StepFailed@1"]
    world.settle()
    assert world.state("shop/Pinger", b"z") is None


def test_10_every_kind_of_exception_is_a_record_and_the_world_goes_on(make_world):
    def moody(state, schema, event, ctx):
        if event["left"] == 0:
            return {"count": 1}
        raise (KeyError, RecursionError, ZeroDivisionError, UnicodeError)[event["left"] % 4]("x")

    world = make_world(programs=FunctionPrograms({"shop/Pinger": moody}))
    beat = world.beat([*(ping(f"p{left}", left) for left in range(1, 5)), ping("good")])
    assert [step.status for step in beat.steps] == [HALTED] * 4 + [OK]


class Unreadable(BaseException):
    """An error whose text cannot be made."""

    def __str__(self):
        raise SystemExit("no text")


ANYTHING = [SystemExit(1), GeneratorExit(), BaseExceptionGroup("g", [SystemExit()]), Unreadable()]
ANYTHING += [InvariantBroken("a.b", "c"), StopIteration(3), Corrupted("a.b", "c"), ValueError("\ud800")]


class Raising:
    """Programs whose steps and upcasters raise what no program should."""

    def __init__(self, error):
        self.error = error

    def check(self, *_):
        """All code is fine."""

    def program(self, *_):
        yield from ()
        return self

    def upcaster(self, *_):
        yield from ()
        return self.upcast

    def step(self, state, schema, value, key, context):
        if key == b"good":
            return Output(encode({"count": 1}))
        raise self.error

    def upcast(self, data):
        raise self.error


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("error", ANYTHING, ids=lambda error: type(error).__name__)
def test_10_whatever_a_program_raises_fails_its_step_alone(make_world, error, fast):
    """Only a `StepFault` was caught: anything else left the beat, at every later try."""
    world = make_world(programs=Raising(error), fast=fast)
    beat = world.beat([ping("bad"), ping("good"), ping("bad")])
    assert [(step.key, step.status) for step in beat.steps] == [(b"bad", HALTED), (b"good", OK)]
    halted = world.entry("shop/Pinger", b"bad")
    assert halted.get("code") == "kernel.program_trap"
    assert halted.get("text").startswith(f"the program stopped: {type(error).__name__}: ")
    assert {step.status for step in world.control("cell.resume").steps} == {HALTED}
    assert [step.status for step in world.beat([ping("good")]).steps] == [OK]


@pytest.mark.parametrize("fast", [True, False])
def test_10_an_interrupt_is_no_outcome_of_a_step(make_world, fast):
    world = make_world(programs=Raising(KeyboardInterrupt()), fast=fast)
    frames = list(world.frames)
    with pytest.raises(KeyboardInterrupt):
        world.beat([ping("bad")])
    assert world.frames == frames
    world.world = world.restored(0)
    assert world.beat([ping("good")]).steps[0].status == OK


# 11. All that a step sees derives from the journal


def test_11_running_the_journal_again_shows_every_step_the_same_context(make_world):
    seen: list[tuple[object, ...]] = []

    def look(state, schema, event, ctx):
        seen.append(tuple(getattr(ctx, name) for name in (
            "world", "module", "key", "cell_mode", "beat", "journal_height", "now_ns", "era", "version",
            "entropy",
        )))  # fmt: skip
        return {"total": 0, "paid": True, "seen": 0}

    world = make_world(programs=FunctionPrograms({"shop/Order": look}))
    for turn in range(5):
        world.beat([paid("o1"), paid(f"o{turn}")])
        world.now_ns += 7
        if turn == 2:
            world.snapshot()
    live = list(seen)
    assert len({row[-1] for row in live}) == len(live) == 10
    seen.clear()
    assert world.verify(0) is None
    assert seen == live
    seen.clear()
    assert world.verify(1) is None
    assert seen == live[6:]


def test_11_each_step_has_entropy_of_its_own_that_follows_from_the_frames(make_world):
    drawn: list[bytes] = []

    def draw(state, schema, event, ctx):
        drawn.append(ctx.entropy)
        return {"total": 0, "paid": True, "seen": 0}

    for seed in (1, 1, 2):
        make_world(programs=FunctionPrograms({"shop/Order": draw}), seed=seed).beat([paid(), paid()])
    assert drawn[0:2] == drawn[2:4]
    assert len({*drawn}) == 4


# 12. Bad input is refused at the edge with a clear error naming the field, and nothing is changed

MISSING = Link(cid_of(b"nobody has this"))
BAD_EVENTS = {
    "an unknown schema": (EventItem("shop/Nope@1", encode({})), "routing.schema_unknown"),
    "no subscriber": (EventItem("shop/Order@1", encode({"total": 1})), "routing.no_subscriber"),
    "no key": (EventItem("shop/Paid@1", encode({})), "routing.key_missing"),
    "a key of another type": (EventItem("shop/Paid@1", encode({"order": 5})), "routing.key_type"),
    "another key than the value's": (paid(key=b"o2"), "routing.key_differs"),
    "a value that is no value": (EventItem("shop/Paid@1", b"\xff"), "routing.value_unreadable"),
    "no value": (EventItem("shop/Paid@1", b""), "routing.value_unreadable"),
    "a link for a value": (EventItem("shop/Paid@1", MISSING), "kernel.linked_event"),
    "a negative version": (paid(expected_version=-1), "kernel.expected_version"),
    "a version of many": (
        EventItem("shop/Placed@1", encode({"order": "o", "total": 1}), expected_version=1),
        "kernel.expected_version_targets",
    ),
    "no id where one is promised": (paid(explicit=True), "kernel.id_missing"),
    "an id used for another event": (paid("o9", id="taken", explicit=True), "kernel.id_reused"),
}  # fmt: skip
BAD_CONTROLS = {
    "an unknown verb": (ControlItem("dance", "ada", "", {}), "kernel.verb_unknown"),
    "arguments that are no values": (ControlItem("pause", "ada", "", {"x": {1, 2}}), "values."),
    "what the kernel writes itself": (ControlItem("pause", "ada", "", {"cells": []}), "kernel.argument"),
    "a deploy of nothing": (ControlItem("deploy", "ada", "", {}), "kernel.argument"),
    "a deploy of what is not there": (
        ControlItem("deploy", "ada", "", {"manifest": MISSING}), "kernel.manifest_missing",
    ),
    "a cell that is not stopped": (
        ControlItem("cell.resume", "ada", "", {"module": "shop/Order", "key": b"o1"}), "kernel.not_stopped",
    ),
    "a cell that is not there": (
        ControlItem("cell.migrate", "ada", "", {"module": "shop/Order", "key": b"none"}), "kernel.no_cell",
    ),
    "a key that is no key": (
        ControlItem("cell.resume", "ada", "", {"module": "shop/Order", "key": 5}), "kernel.argument",
    ),
    "a snapshot without its height": (
        ControlItem("snapshot", "ada", "", {"snapshot": MISSING}), "kernel.argument",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", [*BAD_EVENTS, *BAD_CONTROLS])
def test_12_bad_input_is_refused_and_changes_nothing(world, case):
    item, code = {**BAD_EVENTS, **BAD_CONTROLS}[case]
    world.beat([paid(id="taken", explicit=True), failed("o2")])
    world.settle()
    before = world.snapshot()
    beat = world.beat([item])
    assert isinstance(beat.outcomes[0], RefusedItem)
    assert beat.outcomes[0].error.code.startswith(code)
    assert beat.frame is None
    assert world.snapshot() == before


def test_12_a_refused_item_does_not_disturb_its_neighbours(world):
    bad = [item for item, _ in (*BAD_EVENTS.values(), *BAD_CONTROLS.values())]
    items = [paid("o1", id="taken", explicit=True), *bad, paid("o2")]
    beat = world.beat(items)
    kinds = [type(outcome) for outcome in beat.outcomes]
    assert kinds == [Admitted, *([RefusedItem] * len(bad)), Admitted]
    assert [step.key for step in beat.steps] == [b"o1", b"o2"]


def test_12_errors_name_the_field(world):
    outcome = world.beat([EventItem("shop/Paid@1", encode({}))]).outcomes[0]
    assert "order" in str(outcome.error)
    assert "shop/Paid@1" in str(outcome.error)


def test_12_lost_storage_is_never_taken_for_bad_input_or_a_failed_step(make_world, shop):
    """A state whose block was lost used to be recorded as a failed step of the cell."""

    def grow(state, schema, event, ctx):
        return {"total": 1, "why": "x" * 5_000}

    manifest = shop()
    manifest["schemas"] = {
        **manifest["schemas"], "shop/Order@1": {"record": {"total": {"int": {}}, "why": {"text": {}}}},
    }  # fmt: skip
    world = make_world(manifest, FunctionPrograms({"shop/Order": grow}))
    beat = world.send("shop/Paid@1", {"order": "o1"})
    world.snapshot()
    (lost,) = (cid for cid in beat.blocks if isinstance(cid, Cid))
    kept = world.cas.pop(lost)
    world.world = world.restored(len(world.snapshots) - 1)
    with pytest.raises(Corrupted) as caught:
        world.beat([paid()])
    assert caught.value.code == "kernel.node_missing"
    world.cas[lost] = kept
    world.world = world.restored(len(world.snapshots) - 1)
