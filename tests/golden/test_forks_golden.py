"""Frozen bytes of what forks write: their records, and the part of a snapshot that only they have.

As for `intents.json`: where only a text was reworded, freezing anew is right.
"""

from __future__ import annotations

import json
from pathlib import Path

from cellule.kernel.journal.codes import Settled
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import DecisionRecord, ForkRecord, ReceiptRecord
from cellule.kernel.journal.table import BY_CLASS
from cellule.kernel.state.branch import Answer, answer_key
from cellule.kernel.state.intent_id import dispatch_id
from cellule.values.cbor import decode, encode
from cellule.values.envelope import seal
from tests.support.kernel_bank import PROGRAMS, Bank, document
from tests.support.kernel_world import KernelWorld

FROZEN = Path(__file__).with_name("forks.json")
ANSWER = Answer(int(Settled.OK), seal(encode({"id": "c-9"})), "", "", always=False)
FAILED = Answer(int(Settled.FAILED), None, "bank.down", "503", always=True)


def parent() -> Bank:
    bank = Bank(KernelWorld(document(), PROGRAMS, seed=5))
    bank.charge(1, order="a")
    bank.charge(2, order="b")
    return bank


def written() -> dict[str, object]:
    bank = parent()
    answers = {
        answer_key(("bank/Order", b"a"), "bank.charge", None, 0): ANSWER,
        answer_key(None, "bank.charge", None, 1): FAILED,
    }
    forks = {
        "dropped": bank.world.fork(11),
        "kept and held": bank.world.fork(12, "keep"),
        "kept and live": bank.world.fork(13, "keep", live=True),
        "answered": bank.world.fork(14, "scripted", answers=answers),
    }
    Bank(forks["kept and held"]).charge(3, order="c")
    Bank(forks["answered"]).charge(3, order="c")
    frames = [{"name": name, "hex": [each.hex() for each in fork.frames]} for name, fork in forks.items()]
    saved = {name: decode(fork.cas[fork.snapshot()])["fork"] for name, fork in forks.items()}
    for each in [bank.world, *forks.values()]:
        each.assert_replays()
    return {
        "frames": frames,
        "snapshots": {name: encode(part).hex() for name, part in saved.items()},
        "keys": [key.hex() for key in answers],
        "dispatched": dispatch_id(bytes(16), bytes(32)).hex(),
    }


def test_forks_write_the_frozen_bytes():
    frozen = json.loads(FROZEN.read_text("utf-8"))
    again = written()
    assert again["keys"] == frozen["keys"]
    assert again["dispatched"] == frozen["dispatched"]
    for now, before in zip(again["frames"], frozen["frames"], strict=True):
        assert now == before
    assert again == frozen


def test_the_frozen_frames_hold_every_field_that_forks_write():
    frozen = json.loads(FROZEN.read_text("utf-8"))
    records = [
        record
        for row in frozen["frames"]
        for frame in row["hex"]
        for record in decode_frame(bytes.fromhex(frame), prove=True).records
    ]
    found = {kind: set() for kind in (ForkRecord, DecisionRecord, ReceiptRecord)}
    for record in records:
        if type(record) in found:
            found[type(record)] |= set(record.extras)
    assert found[ForkRecord] == set(BY_CLASS[ForkRecord].extras)
    assert {"held", "fork"} <= found[DecisionRecord]
    assert {"fork", "answer"} <= found[ReceiptRecord]
