"""A run from its trigger to its end, and two runs that do not hear each other."""

from __future__ import annotations

from typing import Any

import charge as example
import pytest
from charge import Charged, ChargeRequested, Order, Shipped, charge_flow, order


@pytest.fixture
def cellule_app() -> Any:
    return example.app


def test_a_run_charges_applies_and_waits_for_the_parcel(world: Any) -> None:
    world.send(ChargeRequested("o1", 30))
    world.send(ChargeRequested("o2", 40))
    (intent,) = [each for each in world.intents if each.params.order_id == "o1"]
    world.complete(intent, Charged("r1"))
    assert world.state(order, "o1") == Order(30, paid=True)
    assert world.state(order, "o2") == Order(40)
    world.send(Shipped("o1", "p7"))
    assert world.state(charge_flow, "o1")["result"] == {"parcel": "p7"}
    assert world.state(charge_flow, "o2")["at"] == "receipt"
