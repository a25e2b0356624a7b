"""What a document means: defaults, aliases, the normal form and the identity."""

from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import Retention, Route, Upcaster
from cellule.kernel.manifest.system import FABRIC_MESSAGE, LOG, SYSTEM_SCHEMAS
from cellule.values import cid_of, decode, encode
from cellule.values.schema import types as t


def test_an_empty_document_is_a_manifest_that_knows_the_system_schemas():
    manifest = load_manifest({})
    assert decode(manifest.data) == {"format": 0}
    assert dict(manifest.schemas) == dict(SYSTEM_SCHEMAS)
    assert not manifest.modules
    assert not manifest.routes


def test_a_module_has_the_defaults_of_a_reducer(shop):
    module = load_manifest(shop).modules["shop/Audits"]
    assert (module.name, module.kind, module.style) == ("shop/Audits@1", "workflow", "reducer")
    assert (module.failure, module.upgrade, module.log, module.context) == ("halt", "follow", False, False)
    assert (module.key, module.event, module.effects_emitted) == (None, None, ())
    assert (module.retention, module.code) == (Retention(), {})


@pytest.mark.parametrize(
    ("style", "upgrade"),
    [("reducer", "follow"), ("fsm", "follow"), ("aggregate", "follow"), ("enzyme", "follow"),
     ("workflow", "pin"), ("plan", "pin")],
)  # fmt: skip
def test_the_style_of_a_module_decides_whether_its_cells_are_pinned(shop, style, upgrade):
    shop["modules"]["shop/Orders@1"]["style"] = style
    assert load_manifest(shop).modules["shop/Orders"].upgrade == upgrade


def test_everything_a_module_says_is_kept(shop):
    shop["modules"]["shop/Orders@1"] |= {
        "kind": "workflow", "context": True, "effects_emitted": ["timer.set", "http.request"],
        "retention": {"ttl_ns": 5, "idle_ns": 7}, "failure": "skip", "upgrade": "pin",
    }  # fmt: skip
    module = load_manifest(shop).modules["shop/Orders"]
    assert module.context
    assert module.effects_emitted == ("http.request", "timer.set")
    assert module.retention == Retention(5, 7)
    assert (module.failure, module.upgrade) == ("skip", "pin")
    assert module.code == {"python": "shop:order"}


def test_subscriptions_keep_their_order(shop):
    assert load_manifest(shop).routes == {
        "shop/Placed@1": (Route("shop/Orders", ("order_id",), False), Route("shop/Audits", (), False)),
        "shop/Paid@1": (Route("shop/Orders", ("order_id",), False),),
    }
    shop["routing"]["subscriptions"].reverse()
    assert [route.base for route in load_manifest(shop).routes["shop/Placed@1"]] == [
        "shop/Audits", "shop/Orders",
    ]  # fmt: skip


def test_the_order_of_subscriptions_is_part_of_the_identity(shop):
    before = load_manifest(shop).cid
    shop["routing"]["subscriptions"].reverse()
    assert load_manifest(shop).cid != before


def test_the_normal_form_loads_as_the_same_manifest(shop):
    manifest = load_manifest(shop)
    assert manifest.cid == cid_of(manifest.data)
    assert load_manifest(manifest.data) == manifest
    assert load_manifest(decode(manifest.data)) == manifest
    assert load_manifest(memoryview(manifest.data)) == manifest


def test_bytes_that_are_not_the_normal_form_are_refused(shop):
    with pytest.raises(Rejected) as caught:
        load_manifest(encode(shop))
    assert caught.value.code == "manifest.not_normal"


def test_bytes_that_are_not_canonical_are_refused():
    with pytest.raises(Rejected) as caught:
        load_manifest(b"\xa1\x66format\x18\x00")
    assert caught.value.code.startswith("values.")


def test_the_normal_form_leaves_out_what_is_empty_and_writes_out_what_is_chosen(shop):
    normal = decode(load_manifest(shop).data)
    assert set(normal) == {"format", "schemas", "modules", "routing"}
    assert normal["modules"]["shop/Audits@1"] == {
        "kind": "workflow", "style": "reducer", "state": "shop/Audit@1", "failure": "halt",
        "upgrade": "follow",
    }  # fmt: skip
    assert set(normal["routing"]) == {"subscriptions"}


def test_aliases_and_lists_give_the_same_identity(shop):
    plain = load_manifest(shop)
    module = shop["modules"]["shop/Orders@1"]
    aliased = {
        "$kind": "manifest",
        "format": 0,
        "schemas": [
            {"$kind": "defschema", "name": name, "type": document}
            for name, document in reversed(shop["schemas"].items())
        ],
        "modules": [
            {"name": "shop/Audits@1", "abi": {"reducer": {"state": {"ref": "shop/Audit@1"}}}, "event": None},
            {
                "$kind": "defmodule", "name": "shop/Orders@1", "module_kind": "workflow",
                "key_schema": {"text": {}}, "code": module["code"], "abi": {"workflow": {
                    "state": "shop/Order@1", "effects_emitted": []}},
            },
        ],
        "routing": {"inboxes": {}, "events": [
            {"event": {"ref": "shop/Placed@1"}, "reducer": "shop/Orders@1", "key_field": "order_id"},
            {"event": "shop/Paid@1", "reducer": "shop/Orders", "key_field": "order_id", "key_only": False},
            {"event": "shop/Placed@1", "module": "shop/Audits"},
        ]},
        "triggers": [],
        "upcasters": None,
    }  # fmt: skip
    assert load_manifest(aliased).data == plain.data


def test_an_entry_of_a_map_may_repeat_its_name(shop):
    plain = load_manifest(shop).cid
    shop["modules"]["shop/Orders@1"]["name"] = "shop/Orders@1"
    assert load_manifest(shop).cid == plain


def test_a_key_schema_may_be_named(shop):
    shop["schemas"]["shop/Id@1"] = {"text": {}}
    shop["modules"]["shop/Orders@1"]["key"] = "shop/Id@1"
    named = load_manifest(shop)
    assert named.modules["shop/Orders"].key == t.Ref("shop/Id@1")
    shop["modules"]["shop/Orders@1"]["key"] = {"ref": "shop/Id@1"}
    assert load_manifest(shop).cid == named.cid


def test_a_module_without_key_takes_that_of_its_key_fields(shop):
    declared = load_manifest(shop)
    del shop["modules"]["shop/Orders@1"]["key"]
    inferred = load_manifest(shop)
    assert inferred.modules["shop/Orders"].key == t.Text()
    assert inferred.cid == declared.cid


def test_keys_of_one_module_may_differ_in_bounds(shop):
    shop["schemas"]["shop/Paid@1"]["record"]["order_id"] = {"text": {}, "max_length": 9}
    assert load_manifest(shop).modules["shop/Orders"].key == t.Text()


@pytest.mark.parametrize("context", [True, "sys/Context@1", "sys/ReducerContext@1"])
def test_a_context_is_declared_by_its_schema_or_by_true(shop, context):
    shop["modules"]["shop/Orders@1"]["context"] = True
    expected = load_manifest(shop).cid
    shop["modules"]["shop/Orders@1"]["context"] = context
    assert load_manifest(shop).cid == expected


def test_a_log_is_declared_by_its_state_or_by_a_flag(shop):
    shop["modules"]["shop/Audits@1"]["state"] = "log"
    manifest = load_manifest(shop)
    assert (manifest.modules["shop/Audits"].state, manifest.modules["shop/Audits"].log) == (LOG, True)
    assert load_manifest(manifest.data) == manifest
    shop["schemas"]["shop/Lines@1"] = {"list": {"text": {}}}
    shop["modules"]["shop/Audits@1"] = {"state": "shop/Lines@1", "log": True}
    assert load_manifest(shop).modules["shop/Audits"].log


def test_a_variant_event_wraps_its_members(shop):
    shop["schemas"]["shop/Event@1"] = {
        "variant": {
            "Placed": {"ref": "shop/Placed@1"},
            "Paid": {"ref": "shop/Paid@1"},
            "Nothing": {"unit": {}},
        }
    }
    shop["modules"]["shop/Orders@1"]["event"] = "shop/Event@1"
    module = load_manifest(shop).modules["shop/Orders"]
    assert module.event == "shop/Event@1"
    assert module.events == {"shop/Event@1": None, "shop/Paid@1": "Paid", "shop/Placed@1": "Placed"}


def test_a_path_through_the_wrapper_is_the_path_inside_it(shop):
    shop["schemas"]["shop/Event@1"] = {
        "variant": {"Placed": {"ref": "shop/Placed@1"}, "Paid": {"ref": "shop/Paid@1"}}
    }
    shop["modules"]["shop/Orders@1"]["event"] = "shop/Event@1"
    plain = load_manifest(shop)
    shop["routing"]["subscriptions"][0]["key_field"] = "$value.order_id"
    assert load_manifest(shop).cid == plain.cid


def test_a_variant_itself_is_keyed_through_its_value(shop):
    shop["schemas"]["shop/Event@1"] = {
        "variant": {"Placed": {"ref": "shop/Placed@1"}, "Paid": {"ref": "shop/Paid@1"}}
    }
    shop["modules"]["shop/Orders@1"]["event"] = "shop/Event@1"
    shop["routing"]["subscriptions"] = [
        {"event": "shop/Event@1", "module": "shop/Orders@1", "key_field": "$value.order_id"}
    ]
    assert load_manifest(shop).routes["shop/Event@1"][0].key_path == ("$value", "order_id")


def test_a_module_may_list_several_events_that_are_not_wrapped(shop):
    shop["modules"]["shop/Orders@1"]["events"] = ["shop/Placed@1", "shop/Paid@1"]
    module = load_manifest(shop).modules["shop/Orders"]
    assert (module.event, module.events) == (None, {"shop/Placed@1": None, "shop/Paid@1": None})
    before = load_manifest(shop).cid
    shop["modules"]["shop/Orders@1"]["events"].reverse()
    assert load_manifest(shop).cid == before


def test_an_event_may_reach_a_module_by_upcasters(shop):
    shop["schemas"]["shop/Placed@2"] = shop["schemas"]["shop/Placed@1"]
    shop["modules"]["shop/Orders@1"]["events"] = ["shop/Placed@2", "shop/Paid@1"]
    shop["upcasters"] = [{"from": "shop/Placed@1", "to": "shop/Placed@2", "code": {"python": "shop:placed2"}}]
    manifest = load_manifest(shop)
    assert "shop/Placed@1" not in manifest.modules["shop/Orders"].events
    assert manifest.upcasters == {
        "shop/Placed@1": (Upcaster("shop/Placed@1", "shop/Placed@2", {"python": "shop:placed2"}),)
    }
    assert load_manifest(manifest.data) == manifest


def test_users_subscribe_to_system_events_like_to_their_own(shop):
    shop["modules"]["shop/Failures@1"] = {"state": "shop/Audit@1", "key": {"text": {}}}
    shop["routing"]["subscriptions"] += [
        {"event": "sys/StepFailed@1", "module": "shop/Failures@1", "key_field": "module"},
        {"event": "sys/WorldStarted@1", "module": "shop/Audits@1"},
    ]
    manifest = load_manifest(shop)
    assert manifest.routes["sys/StepFailed@1"] == (Route("shop/Failures", ("module",), False),)
    assert "sys/WorldStarted@1" in manifest.modules["shop/Audits"].events


def test_inboxes_are_lists_or_maps_by_source(shop):
    shop["modules"]["shop/Mail@1"] = {"state": "shop/Audit@1", "key": {"uuid": {}}}
    shop["routing"]["inboxes"] = [
        {"source": "mailbox://b", "reducer": "shop/Audits@1"},
        {"source": "mailbox://a", "module": "shop/Mail@1", "key_field": "from_world"},
    ]
    manifest = load_manifest(shop)
    assert manifest.inboxes == {
        "mailbox://a": Route("shop/Mail", ("from_world",), False),
        "mailbox://b": Route("shop/Audits", (), False),
    }
    assert FABRIC_MESSAGE in manifest.modules["shop/Mail"].events
    shop["routing"]["inboxes"] = {
        "mailbox://a": {"module": "shop/Mail@1", "key_field": "from_world"},
        "mailbox://b": {"module": "shop/Audits@1"},
    }
    assert load_manifest(shop).cid == manifest.cid


def test_each_inbox_has_a_key_of_its_own(shop):
    shop["routing"]["inboxes"] = {
        "mailbox://a": {"module": "shop/Orders@1", "key_only": True},
        "mailbox://b": {"module": "shop/Audits@1"},
    }
    assert load_manifest(shop).inboxes["mailbox://a"] == Route("shop/Orders", (), True)


def test_empty_sections_for_what_is_to_come_are_left_out(shop):
    manifest = load_manifest({**shop, "module_bindings": {}, "plans": {}, "triggers": []})
    assert manifest == load_manifest(shop)
    assert manifest.extra == {}


def test_a_manifest_does_not_change_with_the_document_it_was_loaded_from(shop):
    shop["effects"] = {"http.request": {}}
    shop["capabilities"] = {"net": {"effects": ["http.request"], "hosts": ["a"]}}
    manifest = load_manifest(shop)
    shop["capabilities"]["net"]["hosts"].append("b")
    shop["modules"]["shop/Orders@1"]["code"]["python"] = "other"
    assert manifest.grants["net"].hosts == ("a",)
    assert manifest.modules["shop/Orders"].code == {"python": "shop:order"}


def test_schema_identities_follow_what_a_schema_refers_to(shop):
    shop["schemas"]["shop/Basket@1"] = {"list": {"ref": "shop/Placed@1"}}
    before = load_manifest(shop).schema_ids
    shop["schemas"]["shop/Placed@1"]["record"]["note"] = {"option": {"text": {}}}
    after = load_manifest(shop).schema_ids
    assert {name for name in before if before[name] != after[name]} == {"shop/Placed@1", "shop/Basket@1"}
