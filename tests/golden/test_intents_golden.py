"""Frozen bytes of records about intents, of a snapshot that holds some, and of an intent's id.

A fixed script of the bank is run again and must write the same bytes. The frames hold texts of refusals:
where only such a text was reworded, freezing the bytes anew is right; any other difference means that stored
worlds can no longer be read. `intents.json` has one frame for each step of the script; long blocks stand by
CID only.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellule.kernel.items import ReceiptItem
from cellule.kernel.journal.codes import Settled, VerdictCode
from cellule.kernel.journal.fields import ScheduleTimer
from cellule.kernel.journal.records import (
    DecisionRecord,
    IntentRecord,
    ReceiptRecord,
    StepRecord,
    TimerRecord,
)
from cellule.kernel.need import Nodes, drive
from cellule.kernel.prove.check import Position, check_frames, reachable
from cellule.kernel.state.intent_id import idempotency_hash, intent_digest, intent_text
from cellule.values.cbor import decode, encode
from tests.support.kernel_bank import HOUR, MINUTE, PROGRAMS, SECOND, Bank, document, every
from tests.support.kernel_world import KernelWorld

FROZEN = Path(__file__).with_name("intents.json")
BLOCK_SHOWN_MAX = 2_000
POLICY = {"rules": [
    {"name": "no", "when": 'effect.kind == "bank.charge" && effect.params.amount > 100', "then": "deny",
     "reason": "too much"},
    {"name": "ask", "when": 'effect.kind == "bank.charge" && effect.params.amount > 10',
     "then": "require_approval", "reason": "over 10", "expires_ns": HOUR},
]}  # fmt: skip
TILL = {
    "till": {"effects": ["bank.charge"], "budget": {"count": 50, "period_ns": HOUR}},
    "cells": {"effects": ["timer.set"], "budget": {"count": 50, "period_ns": HOUR, "by": "cell"}},
}


class Museum:
    """Runs the script and keeps each frame with what it shows."""

    def __init__(self) -> None:
        options = {
            "order": {"open_max": 2, "cap_slots": {"pay": "till", "nap": "cells"}},
            "policy": POLICY,
            "capabilities": TILL,
        }
        self.options = options
        self.bank = Bank(
            KernelWorld(document(**options, schedules=every(HOUR, overlap="buffer")), PROGRAMS, seed=5)
        )
        self.frames = [("a schedule is armed", self.bank.world.frames[0])]

    def rows(self):
        return self.bank.book.open.scan(b"", None, 100)

    def show(self, name: str, beat):
        assert beat.frame is not None, name
        self.frames.append((name, beat.frame))
        return beat


def script(museum: Museum) -> None:
    bank, show = museum.bank, museum.show
    control = bank.world.control
    limits = {"attempts": 3, "priority": 1}
    both = (("bank.charge", {"amount": 1}, "pay", None, limits), ("bank.charge", {"amount": 2}, None, "k"))
    first, second = show("two intents, the module at its limit", bank.ask(*both)).opened
    show("an event that waits for the limit", bank.charge(2, key="k", order="b"))
    gave_up = bank.receive(first, "failed", code="bank.down", text="503", exhausted=True, attempts=3, by="k1")
    letter = show("an adapter gave up, and a held cell asks for the same", gave_up).outcomes[0].height
    show("a receipt for two", bank.receive(second, by="k1", attempts=1))
    show("a late receipt is refused", bank.receive(second))
    show("the same once more", bank.charge(2, key="k", order="c"))
    show("a denied intent, and a receipt of the beat before", bank.charge(500, order="c"))
    timers = (("timer.set", {"after_ns": SECOND, "key": "t"}), ("timer.set", {"after_ns": 99 * HOUR}))
    show("two timers", bank.ask(*timers, order="t"))
    for order in "abcd":
        show(f"{order} asks for an approval", bank.charge(50, order=order))
    [approved] = show("approved", control("effect.approve", intent=bank.intents("a")[-1])).opened
    show("denied", control("effect.deny", intent=bank.intents("b")[-1]))
    show("cancelled", control("effect.cancel", intent=bank.intents("c")[-1]))
    bank.world.now_ns += 2 * SECOND
    show("a timer fires", bank.world.beat())
    show("deleted with an open intent", bank.ask(delete=True, order="d"))
    show("a timer to replace", bank.ask(("timer.set", {"after_ns": HOUR, "key": "t"}), order="t"))
    show("a timer replaces another", bank.ask(("timer.set", {"after_ns": MINUTE, "key": "t"}), order="t"))
    show("a cell cancels its timer", bank.ask(order="t", cancel=["t", "nothing"]))
    [again] = show("tried again", control("effect.retry", letter=letter)).opened
    show("long params, held", bank.charge(1, order="e", pad="x" * 1_100))
    injected = bank.receive(again, value={"id": "y" * 1_100}, who="ada", why="the bank called")
    show("a long receipt from a person", injected)
    show("a schedule is paused", control("schedule.pause", name="tick"))
    show("a schedule goes on", control("schedule.resume", name="tick"))
    show("a request that is held", bank.charge(50, order="f"))
    bank.world.now_ns += HOUR + MINUTE
    show("a schedule is due", bank.world.beat())
    show("a receipt that says no more than how it ended", bank.receive(approved, "timeout"))
    naps = ("timer.set", {"after_ns": 99 * HOUR, "key": "n"})
    show("the cell of the schedule is busy", bank.ask(naps, order="s"))
    bank.world.now_ns += HOUR + MINUTE
    show("a schedule is due, and its run waits", bank.world.beat())
    show("the cell cancels what it waits for", bank.ask(order="s", cancel=["n"]))
    show("the cell hears of it and is idle", bank.world.beat())
    show("the run is sent", bank.world.beat())
    show("parked in the snapshot", bank.charge(50, order="g"))
    [far] = show("a request that others complete", bank.charge(1, slot="pay", order="far")).opened
    near = show("a second, at the limit", bank.charge(1, slot="pay", order="near")).opened
    held = ReceiptItem(far.intent, far.height, "outside", encode(HOUR), by="k1", attempts=1)
    near += show("it waits outside, and the module is below its limit", bank.world.beat([held])).opened
    for each in near:
        show("the second is settled", bank.receive(each))
    twice = [("bank.charge", {"amount": 1}, "pay", "later")] * 2
    show("one waits for the other in the snapshot", bank.ask(*twice, order="h"))
    show("paused, so that the snapshot has cells with messages", control("pause"))
    show("held in the snapshot", bank.charge(1, order="k"))
    more = document(
        **{**museum.options, "order": {"open_max": 9, "cap_slots": {"pay": "till", "nap": "cells"}}}
    )
    museum.held = bank.world.snapshot()
    show("deployed with a higher limit, and without the schedule", bank.world.deploy(more))


def told(cid, data):
    return {"cid": str(cid), "hex": data.hex() if len(data) <= BLOCK_SHOWN_MAX else f"{len(data)} bytes"}


def written() -> dict[str, object]:
    museum = Museum()
    script(museum)
    world = museum.bank.world
    root = museum.held
    nodes = Nodes(0)
    blocks = sorted(drive(reachable([root], nodes), nodes, world.fetch))
    saved = decode(world.cas[root])
    return {
        "frames": [{"name": name, "hex": data.hex()} for name, data in museum.frames],
        "snapshot": {"root": str(root), "blocks": [told(cid, world.cas[cid]) for cid in blocks]},
        "held": [base for base, _ in decode(world.cas[saved["held"][0].cid])[2]],
        "statuses": sorted(row[5] for _, row in drive(museum.rows(), world.world.ledger.nodes, world.fetch)),
        "digest": intent_digest(
            bytes(16), "bank/Order", b"o1", 3, 5, 0, "bank.charge", encode({"amount": 1})
        ).hex(),
        "key": idempotency_hash("bank/Order", "bank.charge", "k").hex(),
    }


@pytest.fixture(scope="module")
def again():
    return written()


@pytest.fixture(scope="module")
def frozen():
    return json.loads(FROZEN.read_text("utf-8"))


def test_every_frame_has_the_frozen_bytes(again, frozen):
    assert [row["name"] for row in again["frames"]] == [row["name"] for row in frozen["frames"]]
    for now, before in zip(again["frames"], frozen["frames"], strict=True):
        assert now == before


def test_the_snapshot_and_its_blocks_have_the_frozen_bytes(again, frozen):
    assert again["snapshot"] == frozen["snapshot"]
    assert (again["held"], again["statuses"]) == (frozen["held"], frozen["statuses"])
    assert set(frozen["statuses"]) == {"open", "outside", "parked", "timer", "waiting"}


def test_ids_and_hashes_of_keys_are_frozen(again, frozen):
    assert (again["digest"], again["key"]) == (frozen["digest"], frozen["key"])
    assert intent_text(bytes.fromhex(frozen["digest"])).startswith("bafyrei")


def test_the_frozen_frames_hold_every_field_of_the_records(frozen):
    frames = [bytes.fromhex(row["hex"]) for row in frozen["frames"]]
    records = [record for frame in check_frames(frames, Position(0, None)) for record in frame.records]
    fields = {kind: set() for kind in (IntentRecord, DecisionRecord, ReceiptRecord)}
    for record in records:
        if type(record) in fields:
            fields[type(record)] |= set(record.extras)
    assert fields[IntentRecord] == {"key", "limits", "slot"}
    assert fields[DecisionRecord] == {
        "rule", "grant", "period", "spender", "due_ns", "code", "text", "same", "over", "under", "by",
        "attempts", "control",
    }  # fmt: skip
    assert fields[ReceiptRecord] == {
        "fired", "by", "attempts", "exhausted", "who", "why", "code", "text", "under", "control", "depth",
        "step",
    }  # fmt: skip
    assert any("cancels" in record.extras for record in records if isinstance(record, StepRecord))
    verdicts = {record.verdict for record in records if isinstance(record, DecisionRecord)}
    assert verdicts == {int(each) for each in VerdictCode}
    ends = {record.status for record in records if isinstance(record, ReceiptRecord)}
    assert ends == {int(each) for each in Settled}
    assert {record.delivery for record in records if isinstance(record, ReceiptRecord)} == {0, 1, 2}
    timers = {type(record.what) for record in records if isinstance(record, TimerRecord) and record.what}
    assert timers == {ScheduleTimer}
    assert {bool(record.what.waiting_ns) for record in records if type(record) is TimerRecord} == {
        True,
        False,
    }
