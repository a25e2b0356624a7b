"""Journals that lie about cells, timers and eras are corrupted, and each lie is named for what it is.

A story makes a world's last frame; one of its records is then changed, in a frame that hashes right again.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from cellule.errors import Corrupted
from cellule.kernel.items import EventItem
from cellule.kernel.journal.codes import DROPPED
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import (
    ControlRecord,
    ExpiredRecord,
    ManifestRecord,
    StepRecord,
    TimerRecord,
)
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.frames import encode_records

SECOND = 1_000_000_000
O1 = {"module": "shop/Order", "key": b"o1"}


def event(name, order="o1", **more):
    return EventItem(f"shop/{name}@1", encode({"order": order, **more}))


# Stories: what the last frame tells


def two_cells(world):
    world.beat([event("Paid", "o1"), event("Paid", "o2")])


def two_steps(world):
    world.beat([event("Paid")])
    world.beat([event("Paid"), event("Paid")])


def an_expiry(world):
    world.beat([event("Paid")])
    world.now_ns += 60 * SECOND
    world.beat()


def a_birth(world):
    world.beat([event("Paid", "other")])
    world.beat([event("Paid")])


def a_timer_put_off(world):
    world.beat([event("Paid")])
    world.now_ns += 30 * SECOND
    world.beat([event("Paid")])
    world.now_ns += 30 * SECOND
    world.beat()


def a_halt(world):
    world.beat([event("Paid"), event("Failed", why="no")])
    world.settle()
    world.control("cell.resume", **O1)
    world.settle()
    world.control("pause")


def a_drop(world):
    world.beat([event("Paid"), event("Failed", why="no"), event("Paid")])
    world.settle()
    world.control("cell.drop", **O1)


def a_deploy(world):
    world.beat([event("Paid")])
    world.deploy({**world.document, "policy": {"rules": [], "default": "deny"}})


# Lies


def _of(kind, nth=0, **changes):
    def lie(records):
        at = [at for at, record in enumerate(records) if type(record) is kind][nth]
        records[at] = records[at]._replace(**changes)

    return lie


def _swapped(records):
    first, second = (at for at, record in enumerate(records) if type(record) is StepRecord)
    records[first], records[second] = records[second], records[first]


def _sized(records):
    at = next(at for at, record in enumerate(records) if type(record) is StepRecord)
    records[at] = records[at]._replace(state=Link(cid_of(b"x" * 9)))


def _what(**changes):
    def lie(records):
        at = next(at for at, record in enumerate(records) if type(record) is TimerRecord)
        records[at] = records[at]._replace(what=records[at].what._replace(**changes))

    return lie


def _control(verb, **arguments):
    return _of(ControlRecord, verb=verb, arguments=arguments)


LIES = {
    "another cell's turn": (two_cells, _swapped, "is not the next to run"),
    "another message": (two_steps, _of(StepRecord, cause=2), "the queue's first is"),
    "not the step before": (two_steps, _of(StepRecord, prev=1), "does not follow the cell's previous step"),
    "a first step after another": (two_cells, _of(StepRecord, prev=1), "does not follow the cell's previous"),
    "a step that was dropped": (
        two_cells, _of(StepRecord, status=DROPPED), "a step cannot end with status 7"),
    "an era that is not there": (
        two_cells, _of(StepRecord, era=1), "a step cannot end with status 0 in era 1"),
    "a linked state without its size": (two_cells, _sized, "its size is missing"),
    "a cut of what is no log": (
        two_cells, _of(StepRecord, extras={"cut": True}), "cuts a log, and its cell has none"),
    "a timer for nothing": (a_birth, _what(rule="lost"), "a timer cannot be for 'lost'"),
    "a timer of an intent": (a_birth, _what(rule="intent"), "a timer cannot be for 'intent'"),
    "a timer that is not armed": (a_timer_put_off, _of(TimerRecord, fired=bytes(16)), "no timer .* is armed"),
    "another rule": (a_timer_put_off, _what(rule="ttl"), "is for .*idle.*, not .*ttl"),
    "another life": (a_timer_put_off, _what(born=1), "is for .*, not "),
    "a removal of another life": (an_expiry, _of(ExpiredRecord, born=1), "was not born at 1"),
    "a removal of another cell": (an_expiry, _of(ExpiredRecord, key=b"o2"), "was not born at"),
    "a removal by no timer": (an_expiry, _of(ExpiredRecord, fired=bytes(16)), "no timer .* is armed"),
    "a letter that is not there": (
        a_halt, _control("letter.dismiss", letter=1), "there is no such dead letter"),
    "a letter to redrive": (a_halt, _control("letter.redrive", letter=1), "there is no such dead letter"),
    "a letter of no effect": (a_halt, _control("effect.retry", letter=1), "no such dead letter of an effect"),
    "a cell that is halted twice": (
        a_halt, _control("cell.halt", cells=[["shop/Order", b"o1"]]), "was stopped before"),
    "a module below no limit": (
        a_halt, _control("deploy", under=["shop/Order"]), "is not at its limit of open"),
    "another message dropped": (a_drop, _of(StepRecord, cause=1), "is not the first of a stopped cell"),
    "an era out of turn": (a_deploy, _of(ManifestRecord, era=2), "era 2 does not follow the table of 1"),
    "the era that was": (a_deploy, _of(ManifestRecord, era=0), "era 0 does not follow the table of 1"),
}  # fmt: skip


def journal_with(world, lie):
    """The frames with a lie in the last one."""
    frame = decode_frame(world.frames[-1])
    records = list(frame.records)
    lie(records)
    assert records != list(frame.records)
    return [*world.frames[:-1], encode_records(frame.header, records, frame.names)]


@pytest.mark.parametrize("case", LIES)
def test_a_journal_that_lies_is_corrupted(make_world, shop, case):
    story, lie, what = LIES[case]
    document = shop(Order={"retention": {"idle_ns": 60 * SECOND}})
    world = make_world(document)
    world.document = document
    story(world)
    with pytest.raises(Corrupted, match=what) as found:
        world.restored(frames=journal_with(world, lie))
    assert found.value.code == "kernel.journal_contradicts"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"prev": bytes(32)}, "kernel.chain_broken"),
        ({"now_ns": 1}, "kernel.chain_time"),
        ({"beat": 1}, "kernel.chain_time"),
        ({"beat": 99}, "kernel.chain_time"),
    ],
)
def test_a_frame_that_does_not_follow_is_corrupted(world, change, code):
    two_steps(world)
    frame = decode_frame(world.frames[-1])
    lie = encode_records(replace(frame.header, **change), frame.records, frame.names)
    with pytest.raises(Corrupted) as found:
        world.restored(frames=[*world.frames[:-1], lie])
    assert found.value.code == code


def test_a_frame_that_is_left_out_is_corrupted(world):
    two_steps(world)
    with pytest.raises(Corrupted) as found:
        world.restored(frames=[*world.frames[:-2], world.frames[-1]])
    assert found.value.code == "kernel.chain_gap"
