from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import msgspec
import pytest

from cellule import App, Context, Rejected, Retention, Step
from cellule.app import StepFailed


class Placed(msgspec.Struct, frozen=True):
    order_id: str
    customer_id: str
    total: int


@dataclass(frozen=True)
class Paid:
    order_id: str


class Seen(NamedTuple):
    page: str


class Order(msgspec.Struct, frozen=True):
    total: int
    paid: bool = False


class Count(msgspec.Struct, frozen=True):
    count: int


def order(state: Order | None, event: Placed | Paid) -> Step[Order]:
    return Step(Order(event.total)) if isinstance(event, Placed) else Step(Order(state.total, paid=True))


def by_customer(state: Count | None, event: Placed) -> Count:
    return Count(1 if state is None else state.count + 1)


def everything(state: Count | None, event: Placed | Paid | Seen | StepFailed, ctx: Context) -> Count:
    return Count(ctx.version + 1)


@pytest.fixture
def app() -> App:
    app = App("shop")
    app.event(key="order_id")(Placed)
    app.event(key="order_id")(Paid)
    app.event(Seen)
    return app


def routes_of(app: App) -> dict[str, list[tuple[str, str]]]:
    manifest = app.build(live=True).manifest
    return {
        event: [(route.base, ".".join(route.key_path)) for route in routes]
        for event, routes in manifest.routes.items()
    }


def test_decorators_give_back_what_they_were_given(app):
    assert app.event(name="Other")(Order) is Order
    assert app.state(version=2)(Count) is Count
    assert app.reducer(order) is order
    assert app.reducer(key="customer_id")(by_customer) is by_customer


def test_subscriptions_and_keys_follow_from_annotations_and_events(app):
    app.reducer(order)
    assert routes_of(app) == {
        "shop/Placed@1": [("shop/order", "order_id")],
        "shop/Paid@1": [("shop/order", "order_id")],
    }


def test_a_reducer_may_name_another_key_for_one_event_or_for_all(app):
    app.reducer(key={Placed: "customer_id"})(by_customer)
    app.reducer(key="customer_id", name="also")(by_customer)
    assert routes_of(app)["shop/Placed@1"] == [
        ("shop/by_customer", "customer_id"),
        ("shop/also", "customer_id"),
    ]


def test_a_reducer_without_keys_is_one_cell_for_all_events_even_keyed_ones(app):
    app.reducer(keyed=False)(everything)
    assert routes_of(app)["shop/Placed@1"] == [("shop/everything", "")]
    assert routes_of(app)["sys/StepFailed@1"] == [("shop/everything", "")]
    assert app.build(live=True).module(everything).key is None


def test_a_key_may_come_from_the_sender(app):
    def visits(state: Count | None, event: Seen | Placed) -> Count:
        return Count(0)

    app.reducer(key={Seen: None, Placed: "customer_id"})(visits)
    routes = app.build(live=True).manifest.routes
    assert routes["shop/Seen@1"][0].key_only
    assert not routes["shop/Placed@1"][0].key_only


def test_names_and_versions_of_events_states_and_reducers_can_be_chosen():
    app = App("com.acme", version=3)
    app.event(key="order_id", version=2)(Placed)
    app.event(key="order_id", name="Settled")(Paid)
    app.state(name="TheOrder", version=7)(Order)
    app.reducer(name="Orders")(order)
    app.reducer(version=9)(by_customer)
    manifest = app.build(live=True).manifest
    assert {module.name for module in manifest.modules.values()} == {
        "com.acme/Orders@3",
        "com.acme/by_customer@9",
    }
    assert manifest.modules["com.acme/Orders"].state == "com.acme/TheOrder@7"
    assert set(manifest.modules["com.acme/Orders"].events) == {"com.acme/Placed@2", "com.acme/Settled@1"}


def test_policies_of_a_reducer_reach_the_manifest(app):
    retention = Retention(ttl=timedelta(days=1), idle=timedelta(hours=1))
    app.reducer(failure="skip", upgrade="pin", retention=retention)(order)
    module = app.build(live=True).module(order)
    assert (module.failure, module.upgrade) == ("skip", "pin")
    assert module.retention.ttl_ns == 86_400 * 10**9
    assert module.retention.idle_ns == 3_600 * 10**9


def test_every_declared_event_is_in_the_manifest_even_if_no_reducer_takes_it(app):
    app.reducer(order)
    assert "shop/Seen@1" in app.build(live=True).manifest.schemas


def test_a_build_is_made_once_until_something_is_added(app):
    app.reducer(order)
    first = app.build(live=True)
    assert app.build(live=True) is first
    app.reducer(keyed=False)(everything)
    assert app.build(live=True) is not first
    assert app.build(live=True).manifest.cid != first.manifest.cid


def test_two_apps_do_not_know_of_each_other(app):
    other = App("other")
    other.event(key="order_id", version=5)(Placed)
    assert app.events[Placed].name == "shop/Placed@1"
    assert other.events[Placed].name == "other/Placed@5"
    assert not other.modules


def test_the_same_app_built_twice_is_the_same_manifest():
    def make() -> App:
        app = App("shop")
        app.event(key="order_id")(Placed)
        app.event(key="order_id")(Paid)
        app.reducer(order)
        return app

    assert make().build(live=True).manifest.cid == make().build(live=True).manifest.cid


def test_a_namespace_is_checked_at_once():
    with pytest.raises(Rejected) as refused:
        App("no spaces")
    assert refused.value.code == "names.malformed"
    with pytest.raises(Rejected) as refused:
        App("sys.mine")
    assert refused.value.code == "names.reserved"
    with pytest.raises(Rejected) as refused:
        App("shop", version=0)
    assert refused.value.code == "names.version"


def test_importing_the_package_alone_loads_no_part_of_it():
    import subprocess
    import sys

    code = "import sys, cellule; print([name for name in sys.modules if name.startswith('cellule.')])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_public_names_are_found_and_unknown_ones_are_not():
    import cellule

    assert cellule.App is App
    assert "Step" in dir(cellule)
    assert all(getattr(cellule, name) is not None for name in cellule.__all__)
    with pytest.raises(AttributeError, match="Stap"):
        _ = cellule.Stap
