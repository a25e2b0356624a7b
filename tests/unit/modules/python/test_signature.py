from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest

from cellule.errors import Rejected
from cellule.modules.python import Context, Step, reducer
from cellule.modules.python.signature import read_signature, read_upcaster

if TYPE_CHECKING:
    from decimal import Decimal as Hidden


class Order(msgspec.Struct):
    total: int = 0


@dataclass
class Placed:
    amount: int


class Paid(NamedTuple):
    amount: int


def whole(state: Order | None, event: Placed | Paid, ctx: Context) -> Step[Order]: ...
def bare(state: Order | None, event: Placed) -> Order: ...
def both(state: Order | None, event: Placed) -> Step[Order] | Order: ...
def plain_step(state: Order | None, event: Placed) -> Step: ...
def unannotated_context(state: Order | None, event: Placed, ctx) -> Order: ...
def counting(state: int | None, event: Placed) -> int: ...
def either(state: Order | Placed | None, event: Paid) -> Step[Order | Placed]: ...


@pytest.mark.parametrize(
    ("function", "state", "events", "takes_context"),
    [
        (whole, Order, (Placed, Paid), True),
        (bare, Order, (Placed,), False),
        (both, Order, (Placed,), False),
        (plain_step, Order, (Placed,), False),
        (unannotated_context, Order, (Placed,), True),
        (counting, int, (Placed,), False),
        (either, Order | Placed, (Paid,), False),
    ],
)
def test_a_signature_is_read_from_annotations(function, state, events, takes_context):
    found = read_signature(function)
    assert (found.state, found.events, found.takes_context) == (state, events, takes_context)


def test_the_decorator_declares_replies_and_emitted_events():
    @reducer(reply=int, emits=[Paid, Placed | Order])
    def order(state: Order | None, event: Placed) -> Order: ...

    found = read_signature(order)
    assert found.reply is int
    assert found.emits == (Paid, Placed, Order)


async def waits(state: Order | None, event: Placed) -> Order: ...
def generates(state: Order | None, event: Placed) -> Order:
    yield state


def no_state(state, event: Placed) -> Order: ...
def no_event(state: Order | None, event) -> Order: ...
def no_return(state: Order | None, event: Placed): ...
def not_optional(state: Order, event: Placed) -> Order: ...
def only_none(state: None, event: Placed) -> Step: ...
def plain_event(state: Order | None, event: int) -> Order: ...
def mixed_events(state: Order | None, event: Placed | str) -> Order: ...
def optional_event(state: Order | None, event: Placed | None) -> Order: ...
def returns_none(state: Order | None, event: Placed) -> Order | None: ...
def returns_other(state: Order | None, event: Placed) -> Step[Placed]: ...
def one_parameter(state: Order | None) -> Order: ...
def four_parameters(state: Order | None, event: Placed, ctx: Context, more: int) -> Order: ...
def any_number(state: Order | None, event: Placed, *rest: int) -> Order: ...
def by_name(state: Order | None, event: Placed, *, ctx: Context) -> Order: ...
def with_default(state: Order | None, event: Placed, ctx: Context = None) -> Order: ...
def other_context(state: Order | None, event: Placed, ctx: int) -> Order: ...
def unknown_name(state: Order | None, event: Hidden) -> Order: ...


class Holder:
    def method(self, state: Order | None, event: Placed) -> Order: ...


@reducer(emits=[int])
def emits_int(state: Order | None, event: Placed) -> Order: ...


@pytest.mark.parametrize(
    ("function", "code", "words"),
    [
        (waits, "async_function", "never waits"),
        (generates, "not_a_function", "yield"),
        (lambda state, event: state, "not_a_function", "lambda"),
        (functools.partial(bare, None), "not_a_function", "partial"),
        (Order, "not_a_function", "no function"),
        ("order", "not_a_function", "no function"),
        (Holder().method, "not_a_function", "method"),
        (Holder.method, "not_a_function", "method"),
        (no_state, "annotation_missing", "'state'"),
        (no_event, "annotation_missing", "'event'"),
        (no_return, "annotation_missing", "return value"),
        (not_optional, "state_not_optional", "Write `state: Order | None`"),
        (only_none, "state_type", "never anything"),
        (plain_event, "event_type", "int, which is no record"),
        (mixed_events, "event_type", "str, which is no record"),
        (optional_event, "event_type", "may be None"),
        (returns_none, "return_type", "Step.delete()"),
        (returns_other, "return_type", "returns Placed"),
        (one_parameter, "parameters", "1 parameters"),
        (four_parameters, "parameters", "4 parameters"),
        (any_number, "parameters", "any number"),
        (by_name, "parameters", "by name only"),
        (with_default, "parameters", "default"),
        (other_context, "parameters", "not Context"),
        (unknown_name, "annotation_unknown", "Hidden"),
        (emits_int, "event_type", "int"),
    ],
)
def test_a_mistake_in_a_signature_is_named_with_a_way_out(function, code, words):
    with pytest.raises(Rejected) as caught:
        read_signature(function)
    assert caught.value.code == f"modules.{code}"
    assert words in str(caught.value)
    assert caught.value.hint


def up(old: Order) -> Placed: ...
def up_two(old: Order, more: int) -> Placed: ...
def up_bare(old) -> Placed: ...
def up_no_return(old: Order): ...
def up_optional(old: Order | None) -> Placed: ...


def test_an_upcaster_takes_one_value_and_answers_another():
    found = read_upcaster(up)
    assert (found.old, found.new) == (Order, Placed)


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (up_two, "parameters"),
        (up_bare, "annotation_missing"),
        (up_no_return, "annotation_missing"),
        (up_optional, "upcaster_type"),
        (waits, "async_function"),
    ],
)
def test_a_mistake_in_an_upcaster_is_named(function, code):
    with pytest.raises(Rejected) as caught:
        read_upcaster(function)
    assert caught.value.code == f"modules.{code}"
