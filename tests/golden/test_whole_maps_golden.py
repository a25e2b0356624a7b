"""Frozen bytes of a whole map: intents of its entries, receipts that wait for it, its move to cells.

A fixed script writes the same frames and the same snapshot again (docs/formats/frames.md, snapshots.md).
"""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest

from cellule.kernel.decide import spills
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import ControlRecord, IntentRecord, StepRecord
from cellule.kernel.manifest.load import load_manifest
from cellule.values import Link
from tests.support.kernel_world import KernelWorld
from tests.unit.kernel.test_spills import PROGRAMS, SECOND, edition, paid

FROZEN = Path(__file__).with_name("whole_maps.json")


def written() -> tuple[dict[str, str], KernelWorld]:
    """The script: an entry with a timer, a map that halts with a receipt and an event waiting, the move."""
    world = KernelWorld(edition(), PROGRAMS, seed=9)
    parts = {}
    world.beat([paid("a", 9), paid("b", 1)])
    parts["an intent of an entry"] = world.frames[-1].hex()
    world.beat([paid("b", 13)])
    world.advance(2 * SECOND)
    world.beat([paid("new", 2)])
    parts["a snapshot with a receipt for an entry"] = str(world.snapshot())
    loaded = load_manifest(edition(whole=False, retention={"idle_ns": 60 * SECOND}))
    world.cas[loaded.cid] = loaded.data
    with mock.patch.object(spills, "SPILL_CELLS_PER_BEAT", 1):
        world.control("cell.spill", manifest=Link(loaded.cid))
        parts["the first beat of the move to cells"] = world.frames[-1].hex()
        parts["a snapshot in the middle of it"] = str(world.snapshot())
        world.beat()
        parts["its last beat"] = world.frames[-1].hex()
    world.settle()
    parts["the snapshot after it"] = str(world.snapshot())
    return parts, world


@pytest.fixture(scope="module")
def again() -> tuple[dict[str, str], KernelWorld]:
    return written()


def test_the_script_writes_the_frozen_bytes_again(again):
    assert again[0] == json.loads(FROZEN.read_text())
    again[1].assert_replays()


def test_frozen_frames_say_what_they_are_frozen_for():
    frozen = json.loads(FROZEN.read_text())
    [(_, intent)] = decode_frame(bytes.fromhex(frozen["an intent of an entry"]), prove=True).of(IntentRecord)
    assert intent.extras["entry"] == b"a"
    first, last = (
        decode_frame(bytes.fromhex(frozen[name]), prove=True)
        for name in ("the first beat of the move to cells", "its last beat")
    )
    [(height, control)] = first.of(ControlRecord)
    assert control.arguments["cells"] == [["shop/Order", b""]]
    [(_, further)] = last.of(ControlRecord)
    assert further.cause == height
    assert [key for _, _, key in further.arguments["queue"]] == [b"new", b"a", b"b"]
    assert [step.key for _, step in first.of(StepRecord) if "control" in step.extras] == [b"a"]
    assert [step.key for _, step in last.of(StepRecord) if "control" in step.extras] == [b"b", b""]
