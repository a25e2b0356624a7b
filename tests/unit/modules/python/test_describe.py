from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from cellule.errors import Rejected
from cellule.kernel.manifest.load import load_manifest
from cellule.modules.python import (
    Context,
    ModuleOptions,
    Retention,
    Step,
    describe,
    describe_upcaster,
    manifest_document,
    reducer,
)
from cellule.values import Link


class Order(msgspec.Struct):
    total: int = 0


class OrderV1(msgspec.Struct):
    sum: int = 0


class Placed(msgspec.Struct):
    order_id: str


class Paid(msgspec.Struct):
    number: str


class Moved(msgspec.Struct):
    place: int


@reducer(emits=[Moved])
def order(state: Order | None, event: Placed | Paid, ctx: Context) -> Step[Order]:
    return Step(Order())


def up(old: OrderV1) -> Order:
    return Order(old.sum)


def described(**options):
    return describe(order, namespace="com.acme", live=True, **options)


def test_a_description_is_a_manifest_that_loads():
    description = described(key={Placed: "order_id", Paid: "number"})
    manifest = load_manifest(manifest_document([description]))
    module = manifest.modules["com.acme/order"]
    assert (module.name, module.state, module.context) == ("com.acme/order@1", "com.acme/Order@1", True)
    assert set(module.events) == {"com.acme/Placed@1", "com.acme/Paid@1"}
    assert [route.key_path for route in manifest.routes["com.acme/Paid@1"]] == [("number",)]
    assert "com.acme/Moved@1" in manifest.schemas
    assert description.events == {Placed: "com.acme/Placed@1", Paid: "com.acme/Paid@1"}


def test_options_stand_in_the_entry():
    options = ModuleOptions(
        kind="workflow", failure="skip", upgrade="pin", effects_emitted=("timer.set",),
        retention=Retention(ttl=timedelta(days=1), idle=timedelta(microseconds=5)),
    )  # fmt: skip
    description = described(name="Sale", version=3, options=options, key={Placed: "order_id", Paid: None})
    module = load_manifest(manifest_document([description])).modules["com.acme/Sale"]
    assert (module.name, module.failure, module.upgrade) == ("com.acme/Sale@3", "skip", "pin")
    assert (module.retention.ttl_ns, module.retention.idle_ns) == (86_400 * 10**9, 5_000)
    assert module.effects_emitted == ("timer.set",)
    assert description.subscriptions[1]["key_only"] is True


def test_classes_may_be_named_one_by_one():
    description = described(schema_version=2, names={Placed: "com.shared/PlacedOrder@7"})
    assert description.events[Placed] == "com.shared/PlacedOrder@7"
    assert description.events[Paid] == "com.acme/Paid@2"


def test_an_unkeyed_module_has_no_key():
    module = load_manifest(manifest_document([described()])).modules["com.acme/order"]
    assert module.key is None


def test_a_key_is_needed_for_every_event():
    with pytest.raises(Rejected) as caught:
        described(key={Placed: "order_id"})
    assert caught.value.code == "modules.key_missing"
    assert "Paid" in str(caught.value)


def test_stored_code_is_a_link_with_an_entry(shop):
    description = describe(shop.order, namespace="com.acme", key="order_id")
    assert description.entry["code"] == {
        "kind": "python",
        "entry": "shop.orders:order",
        "bundle": Link(description.bundle.root),
        "namespace": "com.acme",
        "schema_version": 1,
    }
    assert description.bundle.root in description.blocks


def test_an_upcaster_is_described_between_two_names():
    description = describe_upcaster(
        up, namespace="com.acme", old="com.acme/Order@1", new="com.acme/Order@2", live=True
    )
    assert (description.entry["from"], description.entry["to"]) == ("com.acme/Order@1", "com.acme/Order@2")
    assert set(description.schemas) == {"com.acme/Order@1", "com.acme/Order@2"}


def test_an_upcaster_leads_to_another_schema():
    with pytest.raises(Rejected) as caught:
        describe_upcaster(up, namespace="com.acme", old="com.acme/Order@1", live=True)
    assert caught.value.code == "modules.upcaster_type"


def test_descriptions_with_conflicting_schemas_are_refused():
    first = described()
    other = describe(
        order,
        namespace="com.acme",
        name="other",
        live=True,
        names={Paid: "com.acme/Placed@1", Placed: "com.acme/P@1"},
    )
    with pytest.raises(Rejected) as caught:
        manifest_document([first, other])
    assert caught.value.code == "schema.name_conflict"
