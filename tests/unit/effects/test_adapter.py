"""Adapters: the decorator, what it refuses, the request it makes, the registry, the attempt."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypedDict

import msgspec
import pytest

from cellule.effects.adapter import Adapter, AdapterLimits, Adapters, Attempt, Failed, Retry, adapter
from cellule.effects.http.adapter import HttpAdapter, HttpOptions
from cellule.effects.kinds import STANDARD
from cellule.effects.llm.adapter import LlmAdapter
from cellule.effects.process.adapter import ProcessAdapter
from cellule.effects.publish.adapter import NatsAdapter
from cellule.effects.publish.options import NatsOptions
from cellule.effects.secrets import secret
from cellule.errors import Rejected
from cellule.values.requests import Request


class Charge(msgspec.Struct, frozen=True):
    amount: int


@dataclass(frozen=True)
class Charged:
    id: str


class Pair(NamedTuple):
    left: int
    right: int


class Loose(TypedDict):
    left: int


@adapter("payments.charge", timeout_s=10, attempts=3, priority=0)
async def charge(params: Charge, attempt: Attempt) -> Charged:
    return Charged(f"{attempt.key}/{params.amount}")


@adapter("math.swap")
async def swap(params: Pair) -> Pair:
    return Pair(params.right, params.left)


def test_the_decorated_function_is_an_adapter_typed_by_its_annotations():
    assert isinstance(charge, Adapter)
    assert (charge.kind, charge.params, charge.receipt) == ("payments.charge", Charge, Charged)
    assert charge.limits == AdapterLimits(timeout_s=10, attempts=3, priority=0)


@pytest.mark.parametrize(
    "make", [LlmAdapter, ProcessAdapter, partial(NatsAdapter, NatsOptions(("nats://127.0.0.1:4222",)))]
)
def test_adapters_that_come_with_cellule_take_limits_of_a_node(make):
    """A node that makes one of its own could not say how much of it at a time."""
    given = AdapterLimits(timeout_s=5, concurrency=2, needs_grant=True)
    made = make(limits=given)
    assert made.limits == given
    assert Adapters([made]).find(made.kind).limits == given
    assert make().limits == next(each.limits for each in STANDARD.values() if each.kind == made.kind)


@pytest.mark.parametrize(
    "make",
    [
        lambda limits: HttpAdapter(HttpOptions(limits=limits)), lambda limits: LlmAdapter(limits=limits),
        lambda limits: ProcessAdapter(limits=limits),
        lambda limits: NatsAdapter(NatsOptions(("nats://127.0.0.1:4222",)), limits=limits),
    ],
)  # fmt: skip
def test_limits_of_a_node_do_not_take_the_need_of_a_grant_away(make):
    """Listed at a reducer, the adapter of other limits reached any host without a grant."""
    made = make(AdapterLimits(concurrency=2))
    assert (made.limits.needs_grant, made.limits.concurrency) == (True, 2)


async def test_perform_calls_the_function_with_or_without_the_attempt(make_attempt):
    assert await charge.perform(Charge(5), make_attempt(key="k")) == Charged("k/5")
    assert await swap.perform(Pair(1, 2), make_attempt()) == Pair(2, 1)
    await charge.close()


async def test_an_async_function_behind_a_plain_decorator_is_awaited(make_attempt):
    """It looks like one that blocks: its coroutine was taken for the receipt, and never awaited."""

    def logged(function):
        @functools.wraps(function)
        def call(*given):
            return function(*given)

        return call

    @adapter("payments.logged")
    @logged
    async def charge_logged(params: Charge, attempt: Attempt) -> Charged:
        return Charged(f"{attempt.key} {params.amount}")

    assert await charge_logged.perform(Charge(5), make_attempt(key="k")) == Charged("k 5")


def test_calling_it_makes_a_request_and_performs_nothing():
    assert charge(Charge(5)) == Request("payments.charge", Charge(5), None, None)
    assert charge(Charge(5), key="order-1", slot="bank") == Request(
        "payments.charge", Charge(5), "bank", "order-1"
    )


def test_calling_it_with_other_params_is_refused():
    with pytest.raises(Rejected, match=r"payments.charge takes Charge, not Pair.*charge\(Charge\(") as caught:
        charge(Pair(1, 2))
    assert caught.value.code == "effects.params"


def test_limits_by_a_field_that_the_params_do_not_have_are_refused():
    """A typing error in the path let all requests share one limit."""

    @adapter("payments.slow", concurrency_by={"amuont": 1})
    async def slow(params: Charge) -> Charged:
        return Charged("")

    with pytest.raises(Rejected, match=r"concurrency_by of payments\.slow counts by 'amuont'") as caught:
        Adapters([slow])
    assert caught.value.code == "effects.limit_path"


def test_limits_that_are_none_are_refused():
    class Lazy:
        kind, params, receipt, limits = "payments.lazy", Charge, Charged, {"timeout_s": 5}

        async def perform(self, params, attempt):
            return Charged("")

        async def close(self):
            pass

    with pytest.raises(Rejected, match="no AdapterLimits"):
        Adapters([Lazy()])


def test_its_repr_names_kind_and_function():
    assert repr(charge) == "<adapter payments.charge by charge>"


def _sync(params: Charge) -> Charged:
    return Charged("")


def _yields(params: Charge) -> Charged:
    yield Charged("")


async def _bare(params, attempt) -> Charged:
    return Charged("")


async def _no_result(params: Charge):
    return Charged("")


async def _text_params(params: str) -> Charged:
    return Charged("")


async def _any_result(params: Charge) -> Any:
    return None


async def _typed_dict(params: Loose) -> Charged:
    return Charged("")


async def _union(params: Charge | Pair) -> Charged:
    return Charged("")


async def _three(params: Charge, attempt: Attempt, more: int) -> Charged:
    return Charged("")


async def _variadic(*params: Charge) -> Charged:
    return Charged("")


async def _other_attempt(params: Charge, attempt: int) -> Charged:
    return Charged("")


async def _unknown_name(params: Missing) -> Charged:  # noqa: F821 - that it is missing is the point
    return Charged("")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_yields, "no function that returns once"),
        (_bare, "'params' has no annotation"),
        (_no_result, "the result has no annotation"),
        (_text_params, "'params' is str, which has no fields"),
        (_any_result, "the result is"),
        (_typed_dict, "'params' is Loose, which has no fields"),
        (_union, "has no fields"),
        (_three, "takes other parameters"),
        (_variadic, "takes other parameters"),
        (_other_attempt, "'attempt' is no Attempt"),
        (_unknown_name, "'Missing' of its annotations is not known"),
        (3, "no function that returns once"),
    ],
)
def test_a_function_that_cannot_be_an_adapter_is_refused_with_the_reason(function, said):
    with pytest.raises(Rejected, match=said) as caught:
        adapter("a.b")(function)
    assert caught.value.code == "effects.function"
    assert caught.value.hint


@pytest.mark.parametrize(
    "kind", ["charge", "Payments.charge", "a..b", ".a.b", "a.b.", "a.1b", "a b.c", "", 7, "a." * 70 + "b"]
)
def test_a_malformed_kind_is_refused(kind):
    with pytest.raises(Rejected) as caught:
        adapter(kind)
    assert caught.value.code == "effects.kind"


@pytest.mark.parametrize(
    "limits",
    [
        {"timeout_s": 0}, {"timeout_s": float("nan")}, {"timeout_s": "9"}, {"attempts": 0}, {"attempts": 1.5},
        {"attempts": True}, {"concurrency": 0}, {"priority": 10}, {"rate_per_s": 0}, {"backoff_s": -1},
        {"backoff_s": 5, "backoff_max_s": 4},
    ],
)  # fmt: skip
def test_limits_out_of_bounds_are_refused_by_name(limits):
    with pytest.raises(Rejected) as caught:
        adapter("a.b", **limits)
    assert caught.value.code == "effects.limit"
    assert caught.value.fields["name"] in limits


def test_the_registry_finds_adapters_by_kind():
    adapters = Adapters([charge, swap])
    assert adapters.find("math.swap") is swap
    assert list(adapters) == ["payments.charge", "math.swap"]
    assert len(adapters) == 2
    assert adapters["payments.charge"] is charge


def test_an_unknown_kind_is_refused_with_the_nearest_ones():
    with pytest.raises(Rejected, match=r"Did you mean payments\.charge\?") as caught:
        Adapters([charge, swap]).find("payment.charge")
    assert caught.value.code == "effects.kind_unknown"
    with pytest.raises(Rejected, match="Give the node an adapter"):
        Adapters().find("payments.charge")


def test_a_kind_has_one_adapter():
    @adapter("payments.charge")
    async def other(params: Charge) -> Charged:
        return Charged("")

    with pytest.raises(Rejected, match=r"two adapters.*charge.*other") as caught:
        Adapters([charge, other])
    assert caught.value.code == "effects.kind_taken"
    Adapters([charge, charge])


def test_something_else_than_an_adapter_is_refused():
    with pytest.raises(Rejected) as caught:
        Adapters([_sync])
    assert caught.value.code == "effects.adapter"


def test_failed_and_retry_say_what_they_carry():
    assert str(Failed("a.b", "no")) == "a.b: no"
    assert (Retry("later", 3.0).reason, Retry("later", 3.0).after_s, str(Retry("later"))) == (
        "later",
        3.0,
        "later",
    )


async def test_notes_are_passed_on_without_secrets(make_attempt):
    attempt = make_attempt(secrets={"stripe": "sk_live_12345"})
    token = await attempt.secrets.resolve(secret("stripe"))
    attempt.note({"at": 1, "said": f"using {token}", "list": [token.encode(), None, Pair(1, 2)]})
    assert attempt.on_note.kept == [
        {"at": 1, "said": "using <secret stripe>", "list": [b"<secret stripe>", None, [1, 2]]}
    ]


async def test_the_repr_of_an_attempt_shows_no_secret(make_attempt):
    attempt = make_attempt(secrets={"stripe": "sk_live_12345"})
    await attempt.secrets.resolve(secret("stripe"))
    assert "sk_live" not in repr(attempt)
    assert attempt.scrub("sk_live_12345!") == "<secret stripe>!"
