"""Those who wait for one receipt are answered over as many beats as their frames take."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import ReceiptRecord, TimerRecord
from cellule.kernel.limits import FRAME_BYTES_CLOSE, FRAME_BYTES_MAX
from cellule.kernel.need import drive
from cellule.kernel.world import World
from tests.support.frames import with_change
from tests.support.kernel_bank import PROGRAMS

ROOM = 3_000
DAY = 86_400_000_000_000


@pytest.fixture
def small(monkeypatch):
    """Frames that are full soon."""
    for place in ("journal.writer", "decide.rounds", "fast.steps"):
        monkeypatch.setattr(f"cellule.kernel.{place}.FRAME_BYTES_CLOSE", ROOM)


def waiting(bank, keys, count):
    """A cell with keyed intents, and others that wait for the same."""
    asked = [("bank.charge", {"amount": 1}, None, key) for key in keys]
    openings = bank.ask(*asked, order="first").opened
    for number in range(count):
        bank.ask(*asked, order=f"w{number}")
    bank.world.settle()
    return openings


def receipts(frame):
    return [record for _, record in decode_frame(frame).of(ReceiptRecord)]


def test_the_waiters_of_a_deleted_cell_are_answered_over_beats(bank, small):
    """Deleting a cell with 1,000 keys for which 100 others waited each made one frame of 30 MB."""
    waiting(bank, "abcd", 20)
    before = len(bank.world.frames)
    bank.world.control("cell.delete", module="bank/Order", key=b"first")
    bank.world.snapshot()
    bank.world.world = bank.world.restored(len(bank.world.snapshots) - 1)
    bank.world.settle()
    frames = bank.world.frames[before:]
    assert len(frames) > 5
    assert max(map(len, frames)) < 3 * ROOM
    assert sum(len(receipts(frame)) for frame in frames) == 4 + 4 * 20
    assert all(len(bank.heard(f"w{number}")) == 5 for number in range(20))
    assert all(not known.waiters for known in keys_of(bank))
    assert bank.intents("w7") == []


def keys_of(bank):
    world = bank.world
    rows = drive(bank.book.keys.scan(b"", None, 1_000), world.world.ledger.nodes, world.fetch)
    return [known for _, known in rows]


def test_long_receipts_reach_all_who_wait_in_frames_that_fit(bank):
    [opening] = waiting(bank, "k", 30)
    before = len(bank.world.frames)
    bank.receive(opening, value={"id": "x" * 300_000})
    bank.world.settle()
    frames = bank.world.frames[before:]
    assert max(sum(len(bank.world.cas[each.value.cid]) for each in receipts(frame)) for frame in frames) < (
        FRAME_BYTES_MAX
    )
    assert sum(len(receipts(frame)) for frame in frames) == 31
    # whoever is answered in a later beat is no further from the outside than the first
    assert {each.extras.get("depth", 0) for frame in frames for each in receipts(frame)} == {0}
    assert len([frame for frame in frames if receipts(frame)]) >= 31 * 300_000 // FRAME_BYTES_CLOSE - 1
    assert len(bank.heard("w29")) == 2


def test_the_key_is_remembered_until_all_are_answered_however_long_that_takes(bank, small):
    [opening] = waiting(bank, "k", 20)
    bank.receive(opening)
    bank.world.control("pause")
    bank.world.now_ns += 10 * DAY
    bank.world.control("resume")
    bank.charge(key="other", order="x")
    bank.world.settle()
    assert all(len(bank.heard(f"w{number}")) == 2 for number in range(20))


def test_one_who_is_deleted_meanwhile_is_passed_over(bank, small):
    [opening] = waiting(bank, "k", 20)
    bank.receive(opening)
    bank.world.control("cell.delete", module="bank/Order", key=b"w19")
    bank.world.settle()
    assert all(len(bank.heard(f"w{number}")) == 2 for number in range(19))
    assert keys_of(bank)[0].waiters == []


def test_a_journal_that_drops_the_timer_too_early_is_corrupted(bank, small):
    """Those who wait would wait for ever."""
    [opening] = waiting(bank, "k", 80)
    bank.receive(opening)
    world = bank.world
    snapshot, before = world.snapshot(), len(world.frames)
    world.settle()
    first = world.frames[before]
    position = next(
        at for at, record in enumerate(decode_frame(first).records) if isinstance(record, TimerRecord)
    )

    def drop(fields):
        fields.update(due_ns=0, what=None)

    forged = with_change(first, position, drop)
    opening_world = World.restore(snapshot, world.world.world_id, PROGRAMS)
    opened = drive(opening_world.open(), opening_world.nodes, world.fetch)
    with pytest.raises(Corrupted, match="waits for a receipt that has come"):
        drive(opened.apply(forged), opening_world.nodes, world.fetch)
