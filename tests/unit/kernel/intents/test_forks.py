"""What was open at a fork: how the fork deals with it, in how many beats, and journals that lie about it."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.items import Admitted, ReceiptItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import ControlRecord, ForkRecord, ReceiptRecord
from cellule.values.cbor import encode
from tests.support.frames import encode_records
from tests.support.kernel_bank import HOUR, Bank


@pytest.fixture
def fork(monkeypatch):
    """Fork a bank; every fork must replay when the test is over."""
    made = []

    def make(bank, *how, **options):
        made.append(bank.world.fork(7, *how, **options))
        return Bank(made[-1])

    yield make
    for world in made:
        world.assert_replays()


def held_outside(bank, opening):
    bank.world.beat([ReceiptItem(opening.intent, opening.height, "outside", encode(HOUR))])


def test_what_waited_outside_is_open_in_a_fork_that_keeps_it_and_counts_for_its_module(make_bank, fork):
    bank = make_bank(order={"open_max": 1})
    [opening] = bank.charge(order="a").opened
    held_outside(bank, opening)
    child = fork(bank, "keep", live=True)
    assert [each.cell for each in child.world.first.opened] == [b"a"]
    assert (child.book.counts, child.book.over, child.book.timers) == ({"bank/Order": 1}, {"bank/Order"}, 0)
    assert child.charge(order="b").opened == []
    beats = [child.receive(child.world.first.opened[0]), *child.world.settle()]
    assert [each.cell for beat in beats for each in beat.opened] == [b"b"]
    assert bank.book.counts == {}


def test_what_was_open_counts_once_in_a_fork_that_keeps_it(make_bank, fork):
    bank = make_bank(order={"open_max": 2})
    bank.charge(order="a")
    child = fork(bank, "keep", live=True)
    assert (child.book.counts, child.book.over) == ({"bank/Order": 1}, set())
    assert [each.cell for each in child.charge(order="b").opened] == [b"b"]
    assert child.book.over == {"bank/Order"}


@pytest.mark.parametrize("effects", ["drop", "keep"])
@pytest.mark.parametrize(("count", "told"), [(1, [2]), (3, [2, 1]), (4, [2, 1, 1])])
def test_a_fork_deals_with_so_many_in_a_beat_and_goes_on_where_it_was(
    bank, fork, monkeypatch, effects, count, told
):
    monkeypatch.setattr("cellule.kernel.decide.forks.FORK_INTENTS_PER_BEAT", 2)
    for number in range(count):
        bank.charge(order=f"o{number}")
    child = fork(bank, effects, live=True)
    beats = [child.world.first, *child.world.settle()]
    frames = [decode_frame(beat.frame) for beat in beats if beat.frame is not None]
    records = [sum(1 for _ in frame.of(ForkRecord)) for frame in frames]
    assert [each for each in records if each] == told
    assert child.world.world.ledger.branch.next == 0
    opened = [each.cell for beat in beats for each in beat.opened]
    assert opened == ([f"o{number}".encode() for number in range(count)] if effects == "keep" else [])
    if effects == "drop":
        assert [child.last(f"o{number}")[1]["status"] for number in range(count)] == ["cancelled"] * count


def test_what_waited_for_an_approval_is_held_by_a_fork_once_it_is_approved(make_bank, fork):
    rule = {"name": "ask", "when": "effect.params.amount > 10", "then": "require_approval", "reason": "much"}
    bank = make_bank(policy={"rules": [rule]}, order={"open_max": 1})
    bank.charge(50, order="a")
    child = fork(bank, "keep")
    [height] = child.intents("a")
    assert child.world.control("effect.approve", intent=height).opened == []
    assert (child.book.counts, child.book.parked) == ({"bank/Order": 1}, 0)
    assert child.world.control("effect.deny", intent=1).outcomes[0].error.code == "kernel.intent_not_open"
    assert [each.height for each in child.world.control("effect.approve", intent=height).opened] == [height]
    assert child.book.over == {"bank/Order"}
    code = child.world.control("effect.approve", intent=height).outcomes[0].error.code
    assert code == "kernel.intent_not_parked"


def test_a_fork_goes_live_once_and_dispatches_from_then_on(bank, fork):
    child = fork(bank, "keep")
    assert child.charge(order="before").opened == []
    assert isinstance(child.world.control("fork.live").outcomes[0], Admitted)
    assert [each.cell for each in child.charge(order="after").opened] == [b"after"]
    assert child.world.control("fork.live").outcomes[0].error.code == "kernel.is_live"
    assert bank.world.control("fork.live").outcomes[0].error.code == "kernel.is_live"


# Journals that lie


def journal_with(world, kind, nth, **changes):
    """The frames with a changed record in the last one."""
    frame = decode_frame(world.frames[-1])
    records = list(frame.records)
    at = [at for at, each in enumerate(records) if type(each) is kind][nth]
    records[at] = records[at]._replace(**changes)
    return [*world.frames[:-1], encode_records(frame.header, records, frame.names)]


LIES = {
    "another record": (ForkRecord, 1, {"cause": 1}, "goes on with a fork that is not this world's"),
    "another height": (ForkRecord, 1, {"height": 3}, "goes on with a fork that is not this world's"),
    "a fork of another height": (ForkRecord, 0, {"height": 3}, "a fork at 3 does not begin here"),
    "a second fork": (ForkRecord, 1, {"cause": 0}, "does not begin here"),
    "an intent that is another's": (ReceiptRecord, 0, {"key": b"b"}, "is not of the cell recorded"),
}


@pytest.mark.parametrize("case", LIES)
def test_a_journal_that_lies_about_a_fork_is_corrupted(bank, fork, case):
    kind, nth, changes, what = LIES[case]
    bank.charge(order="a")
    child = fork(bank, "drop")
    assert len(child.world.frames) == 1
    with pytest.raises(Corrupted, match=what) as found:
        child.world.restored(frames=journal_with(child.world, kind, nth, **changes))
    assert found.value.code == "kernel.journal_contradicts"


def test_a_world_that_is_no_fork_neither_goes_on_nor_goes_live(bank, fork):
    bank.charge(order="a")
    child = fork(bank, "drop")
    [_, goes_on] = [each for _, each in decode_frame(child.world.frames[0]).of(ForkRecord)]
    bank.world.control("pause")
    frame = decode_frame(bank.world.frames[-1])
    records = [
        goes_on._replace(cause=frame.header.first - 1) if type(each) is ControlRecord else each
        for each in frame.records
    ]
    frames = [*bank.world.frames[:-1], encode_records(frame.header, records, frame.names)]
    with pytest.raises(Corrupted, match="goes on with a fork that is not this world's"):
        bank.world.restored(frames=frames)
    with pytest.raises(Corrupted, match="only a fork goes live"):
        bank.world.restored(frames=journal_with(bank.world, ControlRecord, 0, verb="fork.live"))
