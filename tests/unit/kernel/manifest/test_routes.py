"""Where events go: keys from values, explicit keys, nobody there; and what a step is given."""

from __future__ import annotations

from uuid import UUID

import pytest

from cellule.errors import CelluleError, Rejected
from cellule.kernel.manifest.limits import KEY_BYTES_MAX
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.routes import Router, wrap
from cellule.kernel.manifest.system import CASCADE_STOPPED, STEP_FAILED
from cellule.values import Link, cid_of, decode, encode

PLACED, PAID = "shop/Placed@1", "shop/Paid@1"


@pytest.fixture
def router(shop):
    return Router(load_manifest(shop))


def refused(call, *arguments):
    """The code of the error that `call` raises."""
    with pytest.raises(Rejected) as caught:
        call(*arguments)
    assert arguments[0] in str(caught.value)
    return caught.value.code


def keyed_by(schema, *, bounds=None):
    """A router for one event with a field `id` of that schema, keyed by it."""
    return Router(
        load_manifest({
            "schemas": {"a/E@1": {"record": {"id": schema, "more": {"option": {"float": {}}}}}},
            "modules": {"a/M@1": {"state": "log", "key": bounds or schema}},
            "routing": {"subscriptions": [{"event": "a/E@1", "module": "a/M@1", "key_field": "id"}]},
        })
    )  # fmt: skip


def test_an_event_goes_to_all_subscribers_in_manifest_order(router):
    assert router.route(PLACED, encode({"order_id": "o1", "items": 2}), None) == [
        ("shop/Orders", b"o1"), ("shop/Audits", b""),
    ]  # fmt: skip
    assert router.route(PAID, encode({"order_id": "é", "cents": 2}), None) == [("shop/Orders", "é".encode())]


def test_events_to_unkeyed_modules_are_not_even_decoded(shop):
    shop["routing"]["subscriptions"] = [{"event": PLACED, "module": "shop/Audits@1"}]
    router = Router(load_manifest(shop))
    first = router.route(PLACED, b"", None)
    first.clear()
    assert router.route(PLACED, b"", None) == [("shop/Audits", b"")]


def test_several_modules_may_share_one_key_field(shop):
    shop["modules"]["shop/Bills@1"] = {"state": "shop/Audit@1"}
    shop["routing"]["subscriptions"].append({"event": PAID, "module": "shop/Bills", "key_field": "order_id"})
    router = Router(load_manifest(shop))
    value = encode({"order_id": "o1", "cents": 2})
    expected = [("shop/Orders", b"o1"), ("shop/Bills", b"o1")]
    assert router.route(PAID, value, None) == expected
    assert router.route(PAID, value, b"o1") == expected
    assert refused(router.route, PAID, encode({"cents": 2}), None) == "routing.key_missing"


@pytest.mark.parametrize(
    ("schema", "value", "key"),
    [
        ({"text": {}}, "o1", b"o1"),
        ({"bytes": {}}, b"\x00\xff", b"\x00\xff"),
        ({"int": {}}, 300, encode(300)),
        ({"uuid": {}}, UUID(int=7).bytes, encode(UUID(int=7).bytes)),
        ({"enum": ["a", "b"]}, "a", encode("a")),
        ({"tuple": [{"text": {}}, {"int": {}}]}, ["x", 1], encode(["x", 1])),
        ({"hash": {}}, Link(cid_of(b"x")), encode(Link(cid_of(b"x")))),
    ],
)
def test_a_key_is_text_or_bytes_as_they_are_and_otherwise_canonical_bytes(schema, value, key):
    router = keyed_by(schema)
    data = encode({"id": value})
    assert router.route("a/E@1", data, None) == [("a/M", key)]
    assert router.route("a/E@1", data, key) == [("a/M", key)]
    assert router.targets("a/E@1", data, key) == [("a/M", key)]


def test_keys_are_checked_against_the_bounds_of_the_module():
    router = keyed_by({"text": {}}, bounds={"text": {}, "max_length": 3})
    assert router.route("a/E@1", encode({"id": "abc"}), None) == [("a/M", b"abc")]
    assert refused(router.route, "a/E@1", encode({"id": "abcd"}), None) == "routing.key_type"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({}, "routing.key_missing"),
        ({"id": None}, "routing.key_missing"),
        (["id"], "routing.key_missing"),
        (7, "routing.key_missing"),
        (None, "routing.key_missing"),
        ({"id": ""}, "routing.key_empty"),
        ({"id": 7}, "routing.key_type"),
        ({"id": b"o1"}, "routing.key_type"),
        ({"id": Link(cid_of(b"x"))}, "routing.key_type"),
        ({"id": "x" * (KEY_BYTES_MAX + 1)}, "routing.key_too_long"),
    ],
)
def test_an_event_without_a_usable_key_is_refused(value, code):
    assert refused(keyed_by({"text": {}}).route, "a/E@1", encode(value), None) == code


def test_the_longest_key_is_taken():
    key = "x" * KEY_BYTES_MAX
    assert keyed_by({"text": {}}).route("a/E@1", encode({"id": key}), None) == [("a/M", key.encode())]


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xa1\x62id", b"\xa1\x62id\x61x\x00"])
def test_a_value_that_cannot_be_read_is_refused(data):
    assert refused(keyed_by({"text": {}}).route, "a/E@1", data, None) == "routing.value_unreadable"


def test_an_explicit_key_must_be_that_of_the_value(router):
    value = encode({"order_id": "o1", "cents": 2})
    assert router.route(PAID, value, b"o1") == [("shop/Orders", b"o1")]
    assert refused(router.route, PAID, value, b"o2") == "routing.key_differs"
    assert refused(router.route, PAID, encode({"cents": 2}), b"o1") == "routing.key_missing"


def test_an_explicit_key_is_not_taken_where_routes_do_not_share_one_key_schema(router, shop):
    value = encode({"order_id": "o1", "items": 2})
    assert refused(router.route, PLACED, value, b"o1") == "routing.key_not_taken"
    shop["routing"]["subscriptions"] = [{"event": PLACED, "module": "shop/Audits@1"}]
    unkeyed = Router(load_manifest(shop))
    assert refused(unkeyed.route, PLACED, value, b"o1") == "routing.key_not_taken"
    shop["routing"]["subscriptions"] = [
        {"event": PLACED, "module": "shop/Orders@1", "key_field": "order_id"},
        {"event": PLACED, "module": "shop/Audits@1", "key_field": "items"},
    ]
    mixed = Router(load_manifest(shop))
    assert mixed.route(PLACED, value, None) == [("shop/Orders", b"o1"), ("shop/Audits", encode(2))]
    assert refused(mixed.route, PLACED, value, b"o1") == "routing.key_not_taken"


@pytest.mark.parametrize(
    ("schema", "key", "code"),
    [
        ({"text": {}}, b"\xff", "routing.key_type"),
        ({"text": {}}, b"", "routing.key_empty"),
        ({"text": {}}, b"x" * 513, "routing.key_too_long"),
        ({"text": {}}, "text", "routing.key_type"),
        ({"text": {}, "max_length": 1}, b"xy", "routing.key_type"),
        ({"bytes": {}, "min_length": 2}, b"x", "routing.key_type"),
        ({"int": {}}, b"\x18\x01", "routing.key_type"),
        ({"int": {}}, b"\x61x", "routing.key_type"),
        ({"int": {}}, b"\x01\x01", "routing.key_type"),
        ({"set": {"int": {}}}, b"\x82\x02\x01", "routing.key_type"),
    ],
)
def test_an_explicit_key_must_be_the_canonical_bytes_of_a_key(schema, key, code):
    router = Router(
        load_manifest({
            "schemas": {"a/E@1": {"record": {}}},
            "modules": {"a/M@1": {"state": "log", "key": schema}},
            "routing": {"subscriptions": [{"event": "a/E@1", "module": "a/M@1", "key_only": True}]},
        })
    )  # fmt: skip
    assert refused(router.route, "a/E@1", encode({}), key) == code


def test_a_key_only_route_takes_the_senders_key_and_needs_it():
    router = Router(
        load_manifest({
            "schemas": {"a/E@1": {"record": {"id": {"int": {}}}}},
            "modules": {
                "a/M@1": {"state": "log", "key": {"int": {}}}, "a/N@1": {"state": "log", "key": {"int": {}}},
            },
            "routing": {"subscriptions": [
                {"event": "a/E@1", "module": "a/M@1", "key_only": True},
                {"event": "a/E@1", "module": "a/N@1", "key_field": "id"},
            ]},
        })
    )  # fmt: skip
    value = encode({"id": 5})
    assert router.route("a/E@1", value, encode(5)) == [("a/M", encode(5)), ("a/N", encode(5))]
    assert refused(router.route, "a/E@1", value, encode(6)) == "routing.key_differs"
    assert refused(router.route, "a/E@1", value, None) == "routing.key_required"


def test_an_event_without_subscriber_is_refused_at_the_edge_and_goes_nowhere_from_a_step(router):
    assert refused(router.route, "shop/Order@1", encode({"items": 1}), None) == "routing.no_subscriber"
    assert router.targets("shop/Order@1", encode({"items": 1}), None) == []
    assert router.targets(STEP_FAILED, b"", None) == []
    assert refused(router.route, CASCADE_STOPPED, b"", None) == "routing.no_subscriber"


def test_an_undeclared_schema_is_always_refused_with_the_nearest_names(router):
    assert refused(router.targets, "shop/Payed@1", b"", None) == "routing.schema_unknown"
    with pytest.raises(Rejected, match=r"Did you mean shop/Paid@1") as caught:
        router.route("shop/Payd@1", b"", None)
    assert caught.value.code == "routing.schema_unknown"


def test_inboxes_are_routed_by_source(shop):
    world = UUID(int=9)
    shop["modules"]["shop/Mail@1"] = {"state": "shop/Audit@1"}
    shop["routing"]["inboxes"] = {"mailbox://a": {"module": "shop/Mail@1", "key_field": "from_world"}}
    router = Router(load_manifest(shop))
    value = encode({
        "from_universe": world.bytes, "from_world": world.bytes, "from_height": 3, "payload": b"",
        "headers": {},
    })  # fmt: skip
    assert router.inbox("mailbox://a", value, None) == [("shop/Mail", encode(world.bytes))]
    assert refused(router.inbox, "mailbox://b", value, None) == "routing.no_inbox"


# What a step is given


def wrapping(shop):
    shop["schemas"]["shop/Event@1"] = {"variant": {"Placed": {"ref": PLACED}, "Paid": {"ref": PAID}}}
    shop["modules"]["shop/Orders@1"]["event"] = "shop/Event@1"
    return load_manifest(shop)


def test_an_event_is_given_as_it_is_where_nothing_wraps_it(shop):
    manifest = load_manifest(shop)
    value = encode({"order_id": "o1", "cents": 2})
    found = wrap(manifest, manifest.modules["shop/Orders"], PAID, value, manifest)
    assert found == (PAID, value)
    assert found[1] is value


def test_a_member_of_a_variant_is_wrapped_in_canonical_bytes(shop):
    manifest = wrapping(shop)
    module = manifest.modules["shop/Orders"]
    value = {"order_id": "o1", "cents": 2}
    schema, data = wrap(manifest, module, PAID, encode(value), manifest)
    assert schema == "shop/Event@1"
    assert decode(data) == {"$tag": "Paid", "$value": value}
    assert wrap(manifest, module, "shop/Event@1", data, manifest) == ("shop/Event@1", data)


def test_a_newer_event_is_projected_onto_the_schema_of_the_cells_era(shop):
    old = wrapping(shop)
    shop["schemas"][PAID]["record"]["note"] = {"option": {"text": {}}}
    new = load_manifest(shop)
    value = encode({"order_id": "o1", "cents": 2, "note": "thanks"})
    schema, data = wrap(old, old.modules["shop/Orders"], PAID, value, new)
    assert (schema, decode(data)) == (
        "shop/Event@1", {"$tag": "Paid", "$value": {"order_id": "o1", "cents": 2}},
    )  # fmt: skip
    assert decode(wrap(new, new.modules["shop/Orders"], PAID, value, new)[1])["$value"]["note"] == "thanks"


def test_an_event_of_another_era_with_the_same_schema_is_left_alone(shop):
    old = load_manifest(shop)
    shop["modules"]["shop/Orders@1"]["failure"] = "skip"
    new = load_manifest(shop)
    value = encode({"order_id": "o1", "cents": 2})
    assert wrap(old, old.modules["shop/Orders"], PAID, value, new)[1] is value


def test_an_event_that_does_not_fit_the_era_is_refused_and_nothing_else_is_raised(shop):
    old = load_manifest(shop)
    shop["schemas"][PLACED] = {"list": {"text": {}}}
    del shop["routing"]
    new = load_manifest(shop)
    with pytest.raises(CelluleError) as caught:
        wrap(old, old.modules["shop/Orders"], PLACED, encode(7), new)
    assert caught.value.code == "routing.not_projectable"
