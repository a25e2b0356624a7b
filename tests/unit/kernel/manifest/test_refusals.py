"""Every way in which a manifest can be wrong, with the path and the code of its problem."""

from __future__ import annotations

import ast
import copy
import re
from pathlib import Path

import pytest

from cellule.errors import Rejected
from cellule.kernel.manifest.limits import PROBLEMS_MAX
from cellule.kernel.manifest.load import load_manifest

EVENT = {"variant": {"Placed": {"ref": "shop/Placed@1"}, "Paid": {"ref": "shop/Paid@1"}}}
PAID_TO_AUDITS = {"event": "shop/Paid@1", "module": "shop/Audits@1"}
PLACED_3 = {"shop/Placed@2": {"record": {}}, "shop/Placed@3": {"record": {}}}


def module(**fields):
    """Fields of the shop's keyed module."""
    return {"modules": {"shop/Orders@1": fields}}


def subscription(position, **fields):
    """Fields of one of the shop's subscriptions."""
    return {"routing": {"subscriptions": {position: fields}}}


def more(*entries):
    """Further subscriptions."""
    return {"routing": {"subscriptions": {"more": list(entries)}}}


def upcasters(*ends):
    """Upcasters between schemas."""
    return {"schemas": PLACED_3, "upcasters": [{"from": old, "to": new} for old, new in ends]}


MODULE = '$.modules["shop/Orders@1"]'
SUBSCRIPTIONS = "$.routing.subscriptions"
CASES = {
    "unknown section": ({"shemas": {}}, "$.shemas", "unknown_field"),
    "section of the wrong type": ({"modules": 7}, "$.modules", "type"),
    "section of names that are no text": ({"modules": {7: {}}}, "$.modules", "type"),
    "entry without name": ({"upcasters": None, "modules": [{"state": "log"}]}, "$.modules[0]", "type"),
    "kind of another node": ({"$kind": "defplan"}, "$.$kind", "choice"),
    "newer format": ({"format": 1}, "$.format", "format"),
    "format that is no number": ({"format": False}, "$.format", "format"),
    "field name that is no text": ({"routing": {3: []}}, "$.routing", "type"),
    "schema document": ({"schemas": {"shop/X@1": {"txt": {}}}}, '$.schemas["shop/X@1"]', "schema"),
    "schema document inside": (
        {"schemas": {"shop/X@1": {"list": {"int": 3}}}}, '$.schemas["shop/X@1"].list.int', "schema"),
    "schema node without type": (
        {"schemas": {"shop/X@1": {"$kind": "defschema"}}}, '$.schemas["shop/X@1"]', "missing_field"),
    "schema node of another kind": (
        {"schemas": {"shop/X@1": {"$kind": "defmodule", "type": {"int": {}}}}},
        '$.schemas["shop/X@1"].$kind', "choice"),
    "unknown ref": ({"schemas": {"shop/X@1": {"ref": "shop/Y@1"}}}, '$.schemas["shop/X@1"]', "schema"),
    "ref in a circle": ({"schemas": {"shop/X@12": {"ref": "shop/X@12"}}}, '$.schemas["shop/X@12"]', "schema"),
    "schema's name": ({"schemas": {"Order": {"int": {}}}}, "$.schemas.Order", "name"),
    "reserved schema": (
        {"schemas": {"sys/StepFailed@1": {"int": {}}}}, '$.schemas["sys/StepFailed@1"]', "reserved"),
    "reserved module": ({"modules": {"sys.x/M@1": {"state": "log"}}}, '$.modules["sys.x/M@1"]', "reserved"),
    "module's name": ({"modules": {"shop/M": {"state": "log"}}}, '$.modules["shop/M"]', "name"),
    "two versions of a module": (
        {"modules": {"shop/Orders@2": {"state": "log"}}}, '$.modules["shop/Orders@2"]', "module_versions"),
    "module that is no map": ({"modules": {"shop/M@1": []}}, '$.modules["shop/M@1"]', "type"),
    "unknown field of a module": (module(keyschema={}), f"{MODULE}.keyschema", "unknown_field"),
    "unknown field of the abi": (
        module(abi={"reducer": {"sttae": "log"}}), f"{MODULE}.abi.reducer.sttae", "unknown_field"),
    "unknown abi": (module(abi={"wasm": {}}), f"{MODULE}.abi.wasm", "unknown_field"),
    "field and alias": (module(key_schema={"text": {}}), f"{MODULE}.key_schema", "duplicate"),
    "field and abi": (
        module(abi={"reducer": {"state": "log"}}), f"{MODULE}.abi.reducer.state", "duplicate"),
    "module node of another kind": (module(**{"$kind": "defschema"}), f"{MODULE}.$kind", "choice"),
    "no state": (module(state=None), MODULE, "state_missing"),
    "unknown state": (module(state="shop/Ordr@1"), f"{MODULE}.state", "schema_unknown"),
    "state that is no name": (module(state={"int": {}}), f"{MODULE}.state", "type"),
    "malformed state": (module(state="order"), f"{MODULE}.state", "name"),
    "log of a record": (module(log=True), f"{MODULE}.state", "log_state"),
    "log that is no flag": (module(log=1), f"{MODULE}.log", "type"),
    "unknown kind": (module(kind="lambda"), f"{MODULE}.kind", "choice"),
    "unknown style": (module(style="actor"), f"{MODULE}.style", "choice"),
    "unknown failure": (module(failure="retry"), f"{MODULE}.failure", "choice"),
    "unknown upgrade": (module(upgrade="never"), f"{MODULE}.upgrade", "choice"),
    "unknown context": (module(context="shop/Order@1"), f"{MODULE}.context", "choice"),
    "context of the wrong type": (module(context=3), f"{MODULE}.context", "type"),
    "unknown event": (module(event="shop/Nothing@1"), f"{MODULE}.event", "schema_unknown"),
    "event listed twice": (
        module(event=["shop/Placed@1", "shop/Paid@1", "shop/Paid@1"]), f"{MODULE}.event[2]", "duplicate"),
    "event that is no name": (module(event=[3]), f"{MODULE}.event[0]", "type"),
    "effects that are no list": (module(effects_emitted="http"), f"{MODULE}.effects_emitted", "type"),
    "effect that is no text": (module(effects_emitted=[1]), f"{MODULE}.effects_emitted[0]", "type"),
    "empty effect": (module(effects_emitted=[""]), f"{MODULE}.effects_emitted[0]", "length"),
    "effect listed twice": (module(effects_emitted=["a", "a"]), f"{MODULE}.effects_emitted[1]", "duplicate"),
    "effects of a pure module": (
        module(module_kind="pure", effects_emitted=["a"]), f"{MODULE}.effects_emitted", "pure_effects"),
    "retention of zero": (module(retention={"ttl_ns": 0}), f"{MODULE}.retention.ttl_ns", "number"),
    "negative retention": (module(retention={"idle_ns": -1}), f"{MODULE}.retention.idle_ns", "number"),
    "retention that is no integer": (
        module(retention={"idle_ns": 1.5}), f"{MODULE}.retention.idle_ns", "number"),
    "retention that is a flag": (module(retention={"ttl_ns": True}), f"{MODULE}.retention.ttl_ns", "number"),
    "retention beyond all time": (
        module(retention={"ttl_ns": 1 << 63}), f"{MODULE}.retention.ttl_ns", "number"),
    "unknown retention": (module(retention={"ttl": 1}), f"{MODULE}.retention.ttl", "unknown_field"),
    "code that is no map": (module(code="x"), f"{MODULE}.code", "type"),
    "code that is no value": (module(code={"x": {1, 2}}), f"{MODULE}.code", "value"),
    "key that may be absent": (
        {"schemas": {"shop/Id@1": {"option": {"text": {}}}}, **module(key="shop/Id@1")},
        f"{MODULE}.key", "key_schema"),
    "key of no type": (
        {"schemas": {"shop/Id@1": {"any": {}}}, **module(key="shop/Id@1")}, f"{MODULE}.key", "key_schema"),
    "key of an unknown schema": (module(key="shop/Id@1"), f"{MODULE}.key", "key_schema"),
    "key that is no schema": (module(key=7), f"{MODULE}.key", "key_schema"),
    "unknown field of routing": ({"routing": {"topics": []}}, "$.routing.topics", "unknown_field"),
    "routing that is no map": ({"routing": []}, "$.routing", "type"),
    "subscriptions that are no list": ({"routing": {"subscriptions": 3}}, SUBSCRIPTIONS, "type"),
    "subscriptions by two names": ({"routing": {"events": []}}, "$.routing.events", "duplicate"),
    "subscription that is no map": (more("x"), f"{SUBSCRIPTIONS}[3]", "type"),
    "unknown field of a subscription": (
        subscription(1, keyfield="x"), f"{SUBSCRIPTIONS}[1].keyfield", "unknown_field"),
    "subscription without event": (subscription(2, event=None), f"{SUBSCRIPTIONS}[2]", "missing_field"),
    "subscription without module": (subscription(2, module=None), f"{SUBSCRIPTIONS}[2]", "missing_field"),
    "subscription to an unknown schema": (
        subscription(2, event="shop/Place@1"), f"{SUBSCRIPTIONS}[2].event", "schema_unknown"),
    "subscription of an unknown module": (
        subscription(2, module="shop/Orders@2"), f"{SUBSCRIPTIONS}[2].module", "module_unknown"),
    "module of a subscription that is no name": (
        subscription(2, module="audits"), f"{SUBSCRIPTIONS}[2].module", "name"),
    "the same subscription twice": (
        more({"event": "shop/Placed@1", "module": "shop/Audits"}), f"{SUBSCRIPTIONS}[3]", "duplicate"),
    "no key field for a keyed module": (
        subscription(1, key_field=None), f"{SUBSCRIPTIONS}[1]", "key_field_missing"),
    "key field for an unkeyed module": (
        module(key=None), f"{SUBSCRIPTIONS}[0].key_field", "key_field_unexpected"),
    "key field on one of two subscriptions of an undeclared key": (
        more(PAID_TO_AUDITS | {"key_field": "order_id"}), f"{SUBSCRIPTIONS}[2]", "key_field_missing"),
    "key field that is not there": (
        subscription(1, key_field="id"), f"{SUBSCRIPTIONS}[1].key_field", "key_field"),
    "key field of another type": (
        subscription(1, key_field="cents"), f"{SUBSCRIPTIONS}[1].key_field", "key_mismatch"),
    "key field into a text": (
        subscription(1, key_field="order_id.x"), f"{SUBSCRIPTIONS}[1].key_field", "key_field"),
    "empty key field": (subscription(1, key_field=""), f"{SUBSCRIPTIONS}[1].key_field", "length"),
    "key field that is no text": (subscription(1, key_field=["a"]), f"{SUBSCRIPTIONS}[1].key_field", "type"),
    "key field that may be absent": (
        {"schemas": {"shop/May@1": {"record": {"id": {"option": {"text": {}}}}}},
         **more({"event": "shop/May@1", "module": "shop/Orders@1", "key_field": "id"})},
        f"{SUBSCRIPTIONS}[3].key_field", "key_field"),
    "key field not in every case": (
        {"schemas": {"shop/E@1": {"variant": {"A": {"ref": "shop/Placed@1"}, "B": {"record": {}}}}},
         **more({"event": "shop/E@1", "module": "shop/Orders@1", "key_field": "$value.order_id"})},
        f"{SUBSCRIPTIONS}[3].key_field", "key_field"),
    "key field of different types in the cases": (
        {"schemas": {"shop/E@1": {"variant": {
            "A": {"ref": "shop/Placed@1"}, "B": {"record": {"order_id": {"int": {}}}}}}},
         **more({"event": "shop/E@1", "module": "shop/Orders@1", "key_field": "$value.order_id"})},
        f"{SUBSCRIPTIONS}[3].key_field", "key_field"),
    "key_only with a key field": (subscription(1, key_only=True), f"{SUBSCRIPTIONS}[1].key_only", "key_only"),
    "key_only of an unkeyed module": (
        more(PAID_TO_AUDITS | {"key_only": True}), f"{SUBSCRIPTIONS}[3].key_only", "key_only"),
    "key_only beside another key": (
        subscription(0, key_field=None, key_only=True), f"{SUBSCRIPTIONS}[0].key_only", "key_only"),
    "key_only that is no flag": (subscription(1, key_only="yes"), f"{SUBSCRIPTIONS}[1].key_only", "type"),
    "event that the module does not take": (
        module(event="shop/Placed@1"), f"{SUBSCRIPTIONS}[1]", "event_not_taken"),
    "event that is in the variant twice": (
        {"schemas": {"shop/E@1": {"variant": {
            "A": {"ref": "shop/Placed@1"}, "B": {"ref": "shop/Placed@1"}, "C": {"ref": "shop/Paid@1"}}}},
         **module(event="shop/E@1")},
        f"{SUBSCRIPTIONS}[0]", "wrap_ambiguous"),
    "inbox without source": (
        {"routing": {"inboxes": [{"module": "shop/Audits@1"}]}}, "$.routing.inboxes[0]", "type"),
    "inbox of an empty source": (
        {"routing": {"inboxes": {"": {"module": "shop/Audits@1"}}}}, '$.routing.inboxes[""]', "length"),
    "inbox given twice": (
        {"routing": {"inboxes": [{"source": "a", "module": "shop/Audits@1"}] * 2}},
        "$.routing.inboxes[1].source", "duplicate"),
    "inbox of an unknown module": (
        {"routing": {"inboxes": {"a": {"module": "shop/Audit@1"}}}},
        "$.routing.inboxes.a.module", "module_unknown"),
    "inbox of a keyed module without key field": (
        {"routing": {"inboxes": {"a": {"module": "shop/Orders@1"}}}},
        "$.routing.inboxes.a", "key_field_missing"),
    "inbox of a module that takes other events": (
        {**module(event=["shop/Placed@1", "shop/Paid@1"]),
         "routing": {"inboxes": {"a": {"module": "shop/Orders@1", "key_only": True}}}},
        "$.routing.inboxes.a", "event_not_taken"),
    "upcasters that are no list": ({"upcasters": {}}, "$.upcasters", "type"),
    "upcaster of an unknown schema": (
        upcasters(("shop/Placed@1", "shop/Placed@9")), "$.upcasters[0].to", "schema_unknown"),
    "upcaster without end": ({"upcasters": [{"from": "shop/Placed@1"}]}, "$.upcasters[0]", "missing_field"),
    "upcaster given twice": (
        upcasters(*[("shop/Placed@1", "shop/Placed@2")] * 2), "$.upcasters[1]", "duplicate"),
    "upcaster to itself": (upcasters(("shop/Placed@1", "shop/Placed@1")), "$.upcasters", "upcast_cycle"),
    "upcasters in a circle": (
        upcasters(
            ("shop/Placed@1", "shop/Placed@2"), ("shop/Placed@2", "shop/Placed@3"),
            ("shop/Placed@3", "shop/Placed@2")),
        "$.upcasters", "upcast_cycle"),
    "two ways of upcasting a subscribed event": (
        {**upcasters(("shop/Placed@1", "shop/Placed@2"), ("shop/Placed@1", "shop/Placed@3")),
         **module(event=["shop/Placed@2", "shop/Placed@3", "shop/Paid@1"])},
        f"{SUBSCRIPTIONS}[0]", "upcast_ambiguous"),
    "trigger without plan": ({"triggers": [{"event": "shop/Paid@1"}]}, "$.triggers[0]", "missing_field"),
    "trigger of an unknown event": (
        {"triggers": [{"event": "shop/Pay@1", "plan": "shop/f@1"}]}, "$.triggers[0].event", "schema_unknown"),
    "trigger with a malformed plan": (
        {"triggers": [{"event": "shop/Paid@1", "plan": "flow"}]}, "$.triggers[0].plan", "name"),
    "trigger that correlates by nothing": (
        {"triggers": [{"event": "shop/Paid@1", "plan": "shop/f@1", "correlate_by": "x"}]},
        "$.triggers[0].correlate_by", "key_field"),
    "unknown field of a trigger": (
        {"triggers": [{"event": "shop/Paid@1", "plan": "shop/f@1", "by": "x"}]},
        "$.triggers[0].by", "unknown_field"),
    "section of others of the wrong type": ({"effects": 3}, "$.effects", "type"),
    "section of others that is no value": ({"policies": {"x": object()}}, "$.policies", "value"),
    "too many entries of a list": ({"upcasters": [{}] * 10_001}, "$.upcasters", "length"),
    "too many entries of a map": (
        {"schemas": {f"shop/S{i}@1": {"int": {}} for i in range(10_001)}}, "$.schemas", "length"),
}  # fmt: skip


def changed(document, change):
    """`document` with the fields of `change`; a number in it is a place in a list, null stays null."""
    if not isinstance(change, dict) or not isinstance(document, dict | list):
        return change
    if isinstance(document, list):
        further = change.get("more", [])
        return [changed(item, change.get(place, {})) for place, item in enumerate(document)] + further
    return document | {key: changed(document.get(key), part) for key, part in change.items()}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_manifest_is_refused_with_the_path_of_the_problem(case, shop, problems):
    change, path, code = CASES[case]
    before = copy.deepcopy(shop)
    found = problems(changed(shop, change))
    assert (path, f"manifest.{code}") in [(each[0], each[1]) for each in found]
    assert shop == before


@pytest.mark.parametrize("document", [None, 3, [], "manifest", [("schemas", {})]])
def test_what_is_no_map_is_no_manifest(document, problems):
    assert [each[:2] for each in problems(document)] == [("$", "manifest.type")]


def test_all_problems_are_listed_at_once(shop, problems):
    found = problems(
        changed(shop, {
            "schemas": {"shop/Bad@1": {"txt": {}}, "shop/Lost@1": {"ref": "shop/Gone@1"}},
            "modules": {"shop/Orders@1": {"failure": "retry", "state": None}},
            "routing": {"subscriptions": {"more": [{"event": "shop/Gone@1", "module": "shop/Nobody@1"}]}},
            "triggers": [3],
        })
    )  # fmt: skip
    assert [each[1].removeprefix("manifest.") for each in found] == [
        "schema", "schema", "state_missing", "choice", "schema_unknown", "module_unknown", "type",
    ]  # fmt: skip


def test_a_broken_schema_causes_no_further_problems(shop, problems):
    found = problems(changed(shop, {"schemas": {"shop/Placed@1": {"record": {"order_id": {"txt": {}}}}}}))
    assert [each[:2] for each in found] == [('$.schemas["shop/Placed@1"].record.order_id', "manifest.schema")]


def test_endless_problems_are_cut(problems):
    document = {"schemas": {f"shop/S{i}@1": {"ref": f"shop/T{i}@1"} for i in range(300)}}
    assert len(problems(document)) == PROBLEMS_MAX


def test_a_manifest_that_is_too_deep_as_a_whole_is_refused(problems):
    deep = []
    for _ in range(126):
        deep = [deep]
    assert load_manifest({"effects": deep}).extra["effects"] == deep
    assert [each[:2] for each in problems({"effects": [deep]})] == [("$", "manifest.value")]


def test_a_near_miss_is_suggested(shop, problems):
    shop["modules"]["shop/Orders@1"]["state"] = "shop/Ordre@1"
    assert "Did you mean shop/Order@1?" in problems(shop)[0][2]
    shop["modules"]["shop/Orders@1"]["state"] = "shop/Order@1"
    shop["modules"]["shop/Orders@1"]["retension"] = {}
    assert "Did you mean retention?" in problems(shop)[0][2]


def test_long_names_do_not_flood_the_message(problems):
    found = problems({"x" * 100_000: 1, "modules": {"y" * 100_000: {}}})
    assert all(len(path) + len(text) < 2_000 for path, _, text in found)


def test_an_error_reads_as_a_sentence(shop):
    shop["routing"]["subscriptions"][2]["key_field"] = "order"
    with pytest.raises(Rejected) as caught:
        load_manifest(shop)
    assert str(caught.value) == (
        "manifest at $.routing.subscriptions[2].key_field: the path 'order' into shop/Placed@1 names the "
        "field 'order', which does not exist (there are: items, order_id)"
    )


def codes_in(source):
    """The error codes in a module: dotted literals, and the second argument of `problems.add`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"(manifest|routing)\.[a-z_]+", node.value):
                yield node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add":
            code = node.args[1] if len(node.args) > 2 else None
            if isinstance(code, ast.Constant) and re.fullmatch(r"[a-z_]+", code.value):
                yield f"manifest.{code.value}"


def test_every_code_is_documented_and_every_documented_code_exists():
    root = Path(__file__).parents[4]
    sources = (root / "src/cellule/kernel/manifest").glob("*.py")
    raised = {code for path in sources for code in codes_in(path.read_text())}
    pages = [root / "docs/errors" / f"{area}.md" for area in ("manifest", "routing")]
    documented = {code for page in pages for code in re.findall(r"(?m)^## (\S+)$", page.read_text())}
    assert documented == raised


def test_every_code_of_loading_has_a_case():
    root = Path(__file__).parents[4]
    sources = (root / "src/cellule/kernel/manifest").glob("*.py")
    raised = {code for path in sources for code in codes_in(path.read_text()) if code.startswith("manifest.")}
    elsewhere = {"manifest.not_normal", "manifest.incompatible"}
    assert raised - elsewhere == {f"manifest.{code}" for _, _, code in CASES.values()}
