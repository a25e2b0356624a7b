"""Every cell that exists waits for a named reason."""

from __future__ import annotations

from cellule.kernel.items import EventItem, Pace
from cellule.kernel.need import Nodes, drive
from cellule.kernel.state.wait_reasons import EVENT, PAUSED, TURN, Reason, reason_of, reasons_in
from cellule.values.cbor import decode, encode
from tests.support.stuck import find_stuck, find_waiting


def waiting(world):
    saved = decode(world.cas[world.snapshot()])
    nodes = Nodes(0)
    assert drive(find_stuck(saved, nodes), nodes, world.fetch) == []
    return {
        cell.key: (cell.reason.what, cell.messages)
        for cell in drive(find_waiting(saved, nodes), nodes, world.fetch)
    }


def ping(to):
    return EventItem("shop/Ping@1", encode({"to": to, "left": 0}))


def test_a_cell_at_rest_waits_for_an_event(world):
    world.beat([ping("a")])
    assert waiting(world) == {}
    assert reason_of(world.entry("shop/Pinger", b"a"), is_ready=False, paused=False, is_held=False) == Reason(
        EVENT
    )


def test_a_cell_with_messages_waits_for_its_turn(make_world):
    world = make_world(pace=Pace(quota=1, burst=1))
    world.beat([ping("a"), ping("b"), ping("b")])
    assert waiting(world) == {b"b": (TURN, 2)}


def test_only_a_cell_whose_turn_comes_is_ready(make_world):
    world = make_world(pace=Pace(quota=1, burst=1))
    world.beat([ping("a"), ping("b"), ping("b")])
    ledger = world.world.ledger
    found = {
        (base, key): [each.what for each in drive(reasons_in(ledger, base, key), ledger.nodes, world.fetch)]
        for base, key in (("shop/Pinger", b"a"), ("shop/Pinger", b"b"))
    }
    assert found == {("shop/Pinger", b"a"): [EVENT], ("shop/Pinger", b"b"): [TURN]}


def test_in_a_paused_world_cells_wait_for_the_world(world):
    world.control("pause")
    world.beat([ping("a")] * 20)
    assert waiting(world) == {b"a": (PAUSED, 20)}


def test_a_halted_cell_says_since_when_and_why(world):
    beat = world.send("shop/Failed@1", {"order": "o1", "why": "no money"})
    assert waiting(world) == {b"o1": ("halted", 1)}
    reason = reason_of(world.entry("shop/Order", b"o1"), is_ready=False, paused=False, is_held=False)
    assert reason == Reason("halted", beat.steps[0].height, "shop.failed", "no money")


def test_messages_without_a_turn_would_be_found(world):
    world.control("pause")
    world.beat([ping("a")])
    saved = {**decode(world.cas[world.snapshot()]), "paused": False, "ready": None}
    nodes = Nodes(0)
    [cell] = drive(find_stuck(saved, nodes), nodes, world.fetch)
    assert (cell.module, cell.key, cell.messages, cell.reason) == ("shop/Pinger", b"a", 1, None)
