"""Attempts, timeout, deadline, priority and pauses: of an adapter, of a declaration, of one request."""

from __future__ import annotations

import msgspec
import pytest

from cellule import App, Attempt, Receipt, Retry, Step
from cellule.app.effects import form_of
from cellule.app.standard_effects import of_kind
from cellule.errors import Rejected
from cellule.testing import World

SECOND = 1_000_000_000
app = App("limits")


class Charge(msgspec.Struct, frozen=True):
    order: str


class Charged(msgspec.Struct, frozen=True):
    id: str


@app.event(key="order")
class Placed(msgspec.Struct, frozen=True):
    order: str
    hurry: bool = False


class Order(msgspec.Struct, frozen=True):
    status: str


@app.adapter("limits.charge", timeout_s=10, deadline_s=3600, backoff_s=1, backoff_max_s=5)
async def charge(params: Charge, attempt: Attempt) -> Charged:
    raise Retry("closed")


mail = app.effect("limits.mail", params=Charge, receipt=Charged, timeout_s=20, attempts=10, priority=7)
plain = app.effect("limits.plain", params=Charge, receipt=Charged)


@app.reducer(effects=[charge, mail, plain])
def order(state: Order | None, event: Placed | Receipt[Charged]) -> Step[Order]:
    if isinstance(event, Receipt):
        return Step(Order(event.status))
    asked = Charge(event.order)
    if event.hurry:
        hurried = charge(asked, key=event.order, priority=0, timeout_s=2.5, attempts=3, deadline_s=60)
        return Step(Order("charging"), effects=[hurried])
    return Step(Order("charging"), effects=[charge(asked)])


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: charge(Charge("o1"), timeout=5),
        lambda: mail(Charge("o1"), timeout=5),
        lambda: app.effect("limits.other", params=Charge, receipt=Charged, timeout=5),
        lambda: app.adapter("limits.other", timeout=5),
    ],
)
def test_an_option_that_does_not_exist_is_refused_with_those_that_do(mistake):
    """Requests and declarations took it, and it meant nothing."""
    with pytest.raises(Rejected, match=r"there is no option timeout\. There are: timeout_s, attempts"):
        mistake()


def declared(effect):
    form = form_of(effect)
    return form.timeout_ns, form.attempts, form.deadline_ns, form.backoff_ns, form.backoff_max_ns


def test_a_declaration_says_what_its_author_said_and_nothing_else():
    assert declared(charge) == (10 * SECOND, None, 3600 * SECOND, SECOND, 5 * SECOND)
    assert declared(mail) == (20 * SECOND, 10, None, None, None)
    assert form_of(mail).priority == 7
    assert declared(plain) == (None, None, None, None, None)
    assert declared(of_kind("http.request")) == (None, None, None, None, None)  # as the node's adapter has it


@pytest.mark.parametrize("hurry", [False, True])
def test_the_limits_of_a_request_reach_its_row_and_its_record(hurry):
    world = World(app)
    world.send(Placed("o1", hurry))
    [intent] = world.intents
    wanted = {"attempts": 3, "deadline_ns": 60 * SECOND, "priority": 0, "timeout_ns": 2_500_000_000}
    assert dict(intent.limits or {}) == (wanted if hurry else {})
    world.assert_replays()
    world.complete(intent, Charged("c"))
    assert world.state(order, "o1") == Order("ok")
    world.close()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"attempts": 0}, "attempts"),
        ({"attempts": "3"}, "attempts"),
        ({"priority": 10}, "priority"),
        ({"timeout_s": -1}, "timeout_s"),
        ({"deadline_s": float("nan")}, "deadline_s"),
        ({"backoff_s": 5, "backoff_max_s": 1}, "backoff_max_s"),
    ],
)
def test_what_cannot_be_is_refused_where_the_request_is_made(options, name):
    with pytest.raises(Rejected, match=name) as caught:
        charge(Charge("o1"), **options)
    assert caught.value.code == "effects.limit"
