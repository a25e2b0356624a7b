"""Tests of the shop: nothing is connected, days pass at once, and every world is replayed at the end."""

from __future__ import annotations

import json

import pytest
import shop
from shop import Order, Placed, Written, order, takings

from cellule.effects.http import HttpResponse
from cellule.testing import World, simulate_app

BANK = "http://127.0.0.1:8080"


@pytest.fixture
def cellule_app():
    return shop.app


def answered(status: int, **said: object) -> HttpResponse:
    return HttpResponse(status=status, url=f"{BANK}/charges", body=json.dumps(said).encode())


def placed(world: World, cents: int = 3_000, bank: str = BANK) -> None:
    world.send(Placed("o1", cents, bank))


def taken(world: World) -> int:
    found = world.state(takings)
    assert found is not None
    return found.cents


def state(world: World) -> Order:
    found = world.state(order, "o1")
    assert found is not None
    return found


def test_an_order_is_charged_and_the_customer_hears_of_it_three_days_later(world: World) -> None:
    placed(world)
    [charge] = world.intents
    assert (charge.kind, charge.key) == ("http.request", "charge o1")
    assert charge.params.json == {"order": "o1", "cents": 3_000}
    world.complete(charge, answered(201, charge="c-1"))
    assert (state(world).status, state(world).charge_id) == ("paid", "c-1")
    world.advance(days=2)
    assert not world.intents.of("shop.write")
    world.advance(days=1)
    [letter] = world.intents
    assert letter.params.text == "Your order o1 came three days ago. How was it?"
    world.complete(letter, Written(1))
    assert state(world).status == "done"
    assert taken(world) == 3_000


def test_the_password_of_the_bank_is_not_in_the_journal(world: World) -> None:
    placed(world)
    assert world.intents[0].params.headers == {"Authorization": "Bearer ${secret:bank}"}


def test_a_large_amount_waits_for_a_person(world: World) -> None:
    placed(world, cents=100_001)
    [parked] = world.approvals
    world.advance(days=6)
    assert state(world).status == "charging"
    world.approve(parked, why="I know them")
    [charge] = world.intents
    world.complete(charge, answered(201, charge="c-1"))
    assert state(world).status == "paid"


def test_a_person_may_refuse(world: World) -> None:
    placed(world, cents=100_001)
    world.deny(world.approvals[0], why="a stolen card")
    assert (state(world).status, state(world).why) == ("denied", "a stolen card")
    assert taken(world) == 0


def test_what_nobody_approves_within_a_week_is_refused(world: World) -> None:
    placed(world, cents=100_001)
    world.advance(days=7)
    assert state(world).status == "denied"


def test_an_order_that_names_a_bank_which_is_not_granted_is_refused(world: World) -> None:
    placed(world, bank="http://bank.example")
    assert state(world).status == "denied"
    assert "bank.example" in state(world).why


def test_a_card_may_be_declined(world: World) -> None:
    placed(world)
    world.complete(world.intents[0], answered(402, error="no money"))
    assert (state(world).status, state(world).why) == ("declined", "no money")


def test_a_bank_that_stays_closed_ends_the_order_and_leaves_a_dead_letter(world: World) -> None:
    placed(world)
    world.fail(world.intents[0], "effects.exhausted", "the bank is closed", exhausted=True)
    assert (state(world).status, state(world).why) == ("failed", "the bank is closed")


def test_no_schedule_crash_or_repeated_receipt_charges_twice() -> None:
    def one_charge_an_order(world: World) -> None:
        keys = [intent.key for intent in world.effects.of("http.request")]
        assert len(keys) == len(set(keys))

    simulate_app(
        shop.app,
        [[Placed("o1", 10, BANK), Placed("o2", 200_000, BANK)], [Placed("o3", 30, BANK)]],
        answers={
            "http.request": lambda _params, chance: answered(201, charge=f"c-{chance.below(9)}"),
            "shop.write": lambda _params, _chance: Written(1),
        },
        check=one_charge_an_order,
        seeds=range(10),
    )
