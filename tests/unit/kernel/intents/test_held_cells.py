"""Cells that wait because their module is at its limit: out of memory, in their order, and not too many."""

from __future__ import annotations

import pytest

from cellule.kernel.items import EventItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import ControlRecord, RefusedRecord
from cellule.values.cbor import encode


def tick(order, **more):
    return EventItem("bank/Tick@1", encode({"order": order}), **more)


def slots(bank):
    return bank.world.world.ledger.cells("bank/Order").slots


def held(bank):
    return list(bank.world.world.ledger.held.get("bank/Order", ()))


@pytest.fixture
def full(make_bank):
    """A bank whose orders may have one open intent, and have it."""
    bank = make_bank(order={"open_max": 1})
    [opening] = bank.charge(order="first").opened
    return bank, opening


def test_they_leave_memory_and_come_back_in_their_order(full):
    bank, opening = full
    names = [f"o{number}" for number in range(50)]
    bank.world.beat([tick(name) for name in names])
    assert slots(bank) == {}
    bank.world.beat([tick("o7"), tick("o3")])  # read again, and behind what waits there
    assert slots(bank) == {}
    assert held(bank) == [name.encode() for name in names]
    assert len(bank.world.entry("bank/Order", b"o7").get("queue")) == 2
    assert slots(bank) == {}
    bank.receive(opening)
    bank.world.settle()
    assert held(bank) == []
    assert [len(bank.heard(name)) for name in ("o3", "o7", "o8")] == [2, 2, 1]


def test_cells_of_the_ring_leave_memory_when_their_module_comes_to_its_limit(make_bank):
    bank = make_bank(order={"open_max": 1})
    bank.world.control("pause")
    bank.ask(("bank.charge", {"amount": 1}), order="first")
    bank.world.beat([tick(f"o{number}") for number in range(20)])
    bank.world.control("resume")
    bank.world.settle()
    assert len(held(bank)) + sum(bool(bank.heard(f"o{number}")) for number in range(20)) == 20
    assert held(bank)
    assert slots(bank) == {}


def test_a_held_cell_that_is_halted_and_resumed_waits_once(full):
    bank, opening = full
    bank.world.beat([tick(name) for name in "abc"])
    bank.world.control("cell.halt", module="bank/Order", key=b"b")
    assert held(bank) == [b"a", b"c"]
    bank.world.control("cell.resume", module="bank/Order", key=b"b")
    assert held(bank) == [b"a", b"c", b"b"]
    bank.receive(opening)
    bank.world.settle()
    assert [len(bank.heard(name)) for name in "abc"] == [1, 1, 1]


def test_events_for_more_cells_than_may_wait_are_refused(full, monkeypatch):
    """The short way for plain events did not look at the limit."""
    for place in ("decide.admission", "fast.ways"):
        monkeypatch.setattr(f"cellule.kernel.{place}.HELD_CELLS_MAX", 3)
    bank, opening = full
    outcomes = bank.world.beat([tick(name) for name in "abcd"]).outcomes
    assert [getattr(outcome, "error", None) is None for outcome in outcomes] == [True, True, True, False]
    assert outcomes[3].error.code == "kernel.held_full"
    assert "3 cells of its module wait already" in str(outcomes[3].error)
    assert bank.world.beat([tick("a")]).outcomes[0].height  # it waits already
    beat = bank.world.beat([tick("e", id="i", explicit=True, durable=True)])
    [(_, record)] = decode_frame(beat.frame).of(RefusedRecord)
    assert (record.id, record.code) == ("i", "kernel.held_full")
    bank.receive(opening)
    bank.world.settle()
    assert bank.world.beat([tick("d")]).last
    bank.world.settle()
    assert len(bank.heard("d")) == 1


def test_a_module_far_over_its_limit_is_held_until_it_is_below(make_bank):
    """One step may ask for more than the limit leaves: each receipt but the last leaves it at the limit."""
    bank = make_bank(order={"open_max": 2})
    openings = bank.ask(*[("bank.charge", {"amount": 1})] * 4, order="first").opened
    bank.world.beat([tick("a")])
    for opening in openings[:2]:
        bank.receive(opening)
        bank.world.settle()
        assert held(bank) == [b"a"]
    bank.receive(openings[2])
    bank.world.settle()
    assert held(bank) == []
    assert len(bank.heard("a")) == 1


def test_a_deploy_lets_only_those_go_on_whose_module_is_below_its_limit_now(full, bank_document):
    bank, _ = full
    bank.world.beat([tick("waits")])
    bank.world.deploy(bank_document(order={"open_max": 1}))
    assert held(bank) == [b"waits"]
    [(_, deploy)] = decode_frame(bank.world.frames[-1]).of(ControlRecord)
    assert "under" not in deploy.arguments
