from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.modules.python import describe
from cellule.testing.set_order import Call, check_set_order
from cellule.values import encode

SOURCE = """
from shop.models import Order, Placed

def order(state: Order | None, event: Placed) -> Order:
    names = {f"name {at}" for at in range(event.amount)}
    lines = list(names) if event.order_id == "unsorted" else sorted(names)
    print(lines)
    if event.order_id == "raises":
        raise ValueError(list(names))
    return Order(event.order_id, 0, lines)
"""


def call(order_id, amount):
    return Call(None, "com.acme/Placed@1", encode({"order_id": order_id, "amount": amount}))


def test_steps_that_sort_are_the_same_under_every_seed(load_app, context):
    loaded = load_app(SOURCE, guard=False)
    calls = [call("sorted", amount) for amount in range(40)]
    check_set_order(loaded.description, [*calls, calls[5]._replace(context=context)], seeds=[1])


@pytest.mark.parametrize(("order_id", "part"), [("unsorted", "state"), ("raises", "outcome")])
def test_an_order_that_reaches_the_result_is_found(load_app, order_id, part):
    loaded = load_app(SOURCE, guard=False)
    with pytest.raises(Rejected) as caught:
        check_set_order(loaded.description, [call("sorted", 20), call(order_id, 20)], seeds=[1])
    assert caught.value.code == "modules.order_dependent"
    assert f"call 1 on com.acme/Placed@1 gives another {part}" in str(caught.value)
    assert "sorted(" in str(caught.value)


def test_live_code_cannot_be_checked(shop):
    with pytest.raises(Rejected) as caught:
        check_set_order(describe(shop.order, namespace="com.acme", live=True), [])
    assert caught.value.code == "modules.not_bundled"
