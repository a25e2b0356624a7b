"""The same events go to the order in every style, and it comes to the same."""

from __future__ import annotations

from typing import Any

import orders as example
import pytest
from orders import (
    Charge,
    Charged,
    Letter,
    Order,
    Placed,
    Sent,
    Shipped,
    in_fsm,
    in_plan,
    in_python,
    in_workflow,
    sales,
)


@pytest.fixture
def cellule_app() -> Any:
    return example.app


def test_an_order_is_charged_shipped_and_told_in_every_style(world: Any) -> None:
    world.send(Placed("o1", "berlin", 30))
    assert {each.params for each in world.intents} == {Charge("o1", 30)}
    for asked in world.intents:
        world.complete(asked, Charged("r1"))
    world.send(Shipped("o1", "p7"))
    assert {each.params for each in world.intents} == {Letter("o1", "p7")}
    for asked in world.intents:
        world.complete(asked, Sent())
    assert world.state(in_python, "o1") == Order("done", 30, "r1", "p7")
    assert world.state(in_fsm, "o1") == {"state": "done", "cents": 30, "reference": "r1", "parcel": "p7"}
    assert world.state(in_plan, "o1")["result"] == "done"
    run = world.state(in_workflow, "o1")
    assert run is not None
    assert run.result == Order("done", 30, "r1", "p7")
    assert world.state(sales, "berlin")["windows"][0]["results"] == {"orders": 1, "cents": 30}
