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


def whole(keys=None, values=None, **fields):
    """The shop's keyed module as one cell with the map of all orders."""
    orders = {"map": {"key": keys or {"text": {}}, "value": values or {"ref": "shop/Order@1"}}}
    fields = {"state": "shop/Orders@1", "cell_mode": False, **fields}
    return {"schemas": {"shop/Orders@1": orders}, **module(**fields)}


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
RULE = {"name": "a", "when": "true", "then": "deny"}


def grant(**fields):
    """A manifest with one grant."""
    body = {"effects": ["pay.card"], **fields}
    return {"effects": {"pay.card": {"params": "shop/Paid@1"}}, "capabilities": {"net": body}}


def rule(**fields):
    """A manifest with a policy of one rule."""
    return {"policy": {"rules": [{**RULE, **fields}]}}


def schedule(**fields):
    """A manifest with one schedule."""
    body = {"cron": "0 3 * * *", "event": "shop/Placed@1", "value": {"order_id": "o", "items": 1}, **fields}
    return {"schedules": {"daily": body}}


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
    "erasable enzyme": (module(style="enzyme", erasable=True), f"{MODULE}.erasable", "erasable"),
    "erasable whole map": (whole(erasable=True), f"{MODULE}.erasable", "erasable"),
    "erasable that is no flag": (module(erasable=1), f"{MODULE}.erasable", "type"),
    "whole map that is no map": (module(cell_mode=False), f"{MODULE}.cell_mode", "cell_mode"),
    "whole map that is no flag": (module(cell_mode=0), f"{MODULE}.cell_mode", "type"),
    "whole map in another style": (whole(style="fsm"), f"{MODULE}.cell_mode", "cell_mode"),
    "whole map that is a log": (whole(state="log"), f"{MODULE}.cell_mode", "cell_mode"),
    "whole map with retention": (whole(retention={"ttl_ns": 5}), f"{MODULE}.cell_mode", "cell_mode"),
    "whole map without a key": (
        {**whole(key=None), "routing": {"subscriptions": {0: {"key_field": None}, 1: {"key_field": None}}}},
        f"{MODULE}.cell_mode", "cell_mode"),
    "whole map with other keys": (whole(keys={"int": {}}), f"{MODULE}.cell_mode", "cell_mode"),
    "whole map of values that may be null": (
        whole(values={"option": {"int": {}}}), f"{MODULE}.cell_mode", "cell_mode"),
    "whole map with a key by the sender": (
        {**whole(), **subscription(0, key_field=None, key_only=True)},
        f"{SUBSCRIPTIONS}[0].key_only", "key_only"),
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
    "effect listed twice": (
        module(effects_emitted=["a.b", "a.b"]), f"{MODULE}.effects_emitted[1]", "duplicate"),
    "effect that is no kind": (
        module(effects_emitted=["Pay"]), f"{MODULE}.effects_emitted[0]", "effect_kind"),
    "effect that is too long": (
        module(effects_emitted=["a." + "b" * 900]), f"{MODULE}.effects_emitted[0]", "effect_kind"),
    "effect that nobody declares": (
        {"effects": {"pay.card": {}}, **module(effects_emitted=["pay.crad"])},
        f"{MODULE}.effects_emitted[0]", "effect_unknown"),
    "slots that are no map": (module(cap_slots=["net"]), f"{MODULE}.cap_slots", "type"),
    "slot of an unknown grant": (
        module(cap_slots={"http": "net"}), f"{MODULE}.cap_slots.http", "grant_unknown"),
    "slot of no text": (module(cap_slots={"http": 1}), f"{MODULE}.cap_slots.http", "type"),
    "subtrees of what is no enzyme": (module(writes=["/x"]), f"{MODULE}.writes", "enzyme_only"),
    "subtree that is no path": (
        module(style="enzyme", writes=["/x//y"]), f"{MODULE}.writes[0]", "tree_path"),
    "enzyme that is no module": (
        {"enzymes": [{"name": "a", "query": "/s", "module": "t/Nope"}]}, "$.enzymes[0].module",
        "enzyme_module"),
    "enzyme without a query": (
        {"enzymes": [{"name": "a", "module": "t/Nope"}]}, "$.enzymes[0]", "missing_field"),
    "no open intents": (module(open_max=0), f"{MODULE}.open_max", "number"),
    "effects of a pure module": (
        module(module_kind="pure", effects_emitted=["a.b"]), f"{MODULE}.effects_emitted", "pure_effects"),
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
    "trigger with a malformed plan": (
        {"triggers": [{"event": "shop/Paid@1", "plan": "flow"}]}, "$.triggers[0].plan", "name"),
    "unknown field of a trigger": (
        {"triggers": [{"event": "shop/Paid@1", "plan": "shop/f@1", "by": "x"}]},
        "$.triggers[0].by", "unknown_field"),
    "failures by a key that not all have": (
        {"modules": {"shop/F@1": {"state": "shop/Audit@1", "key": {"bytes": {}}}},
         **more({"event": "sys/StepFailed@1", "module": "shop/F@1", "key_field": "key"})},
        f"{SUBSCRIPTIONS}[3]", "system_key"),
    "failures by their text": (
        {"modules": {"shop/F@1": {"state": "shop/Audit@1", "key": {"text": {}}}},
         **more({"event": "sys/StepFailed@1", "module": "shop/F@1", "key_field": "text"})},
        f"{SUBSCRIPTIONS}[3]", "system_key"),
    "stopped cascades by a key that nobody gives": (
        {"modules": {"shop/F@1": {"state": "shop/Audit@1", "key": {"text": {}}}},
         **more({"event": "sys/CascadeStopped@1", "module": "shop/F@1", "key_only": True})},
        f"{SUBSCRIPTIONS}[3]", "system_key"),
    "trigger for a plan that is not there": (
        {"triggers": [{"event": "shop/Paid@1", "plan": "shop/f@1"}]}, "$.triggers[0].plan", "plan_unknown"),
    "plan that nothing starts": (
        {"plans": {"shop/flow@1": {"steps": []}}}, '$.plans["shop/flow@1"]', "plan_trigger"),
    "trigger that tells no runs apart": (
        {"plans": {"shop/f@1": {"steps": []}}, "triggers": [{"event": "shop/Paid@1", "plan": "shop/f@1"}]},
        "$.triggers[0]", "correlate_by"),
    "bindings that nothing reads": (
        {"bindings": {"shop/Orders@1": {"http": "net"}}}, "$.bindings", "unused"),
    "section of others of the wrong type": ({"bindings": 3}, "$.bindings", "type"),
    "section of others that is no value": ({"bindings": {"x": object()}}, "$.bindings", "value"),
    "plans that are no map": ({"plans": 3}, "$.plans", "type"),
    "effects that are no map": ({"effects": 3}, "$.effects", "type"),
    "malformed kind": ({"effects": {"charge": {}}}, "$.effects.charge", "effect_kind"),
    "params of an unknown schema": (
        {"effects": {"pay.card": {"params": "shop/Chrge@1"}}},
        '$.effects["pay.card"].params', "schema_unknown"),
    "receipt that may be null": (
        {"schemas": {"shop/May@1": {"option": {"int": {}}}},
         "effects": {"pay.card": {"receipt": "shop/May@1"}}},
        '$.effects["pay.card"].receipt', "effect_receipt"),
    "too few attempts": ({"effects": {"pay.card": {"attempts": -1}}},
        '$.effects["pay.card"].attempts', "number"),
    "priority that does not exist": (
        {"effects": {"pay.card": {"priority": 10}}}, '$.effects["pay.card"].priority', "number"),
    "unknown field of an effect": (
        {"effects": {"pay.card": {"retries": 3}}}, '$.effects["pay.card"].retries', "unknown_field"),
    "timer of other params": (
        {"effects": {"timer.set": {"params": "shop/Paid@1"}}},
        '$.effects["timer.set"].params', "effect_reserved"),
    "timer with a timeout": (
        {"effects": {"timer.set": {"timeout_ns": 5}}},
        '$.effects["timer.set"].timeout_ns', "effect_reserved"),
    "receipt of no effect": (
        {"schemas": {"effect.pay/card@1": {"record": {}}}, "effects": {}},
        '$.schemas["effect.pay/card@1"]', "reserved"),
    "receipt that is not as it is made": (
        {"schemas": {"effect.pay/card@1": {"record": {}}}, "effects": {"pay.card": {}}},
        '$.schemas["effect.pay/card@1"]', "effect_receipt"),
    "grant of nothing": ({"capabilities": {"net": {}}}, "$.capabilities.net", "missing_field"),
    "grant of no effect": (grant(effects=[]), "$.capabilities.net.effects", "length"),
    "grant of an unknown effect": (
        grant(effects=["pay.crad"]), "$.capabilities.net.effects[0]", "effect_unknown"),
    "grant that lists an effect twice": (
        grant(effects=["pay.card", "pay.card"]), "$.capabilities.net.effects[1]", "duplicate"),
    "host with a scheme": (grant(hosts=["https://a.org"]), "$.capabilities.net.hosts[0]", "grant_entry"),
    "host with a path": (grant(hosts=["a.org/x"]), "$.capabilities.net.hosts[0]", "grant_entry"),
    "star inside of a host": (grant(hosts=["a.*.org"]), "$.capabilities.net.hosts[0]", "grant_entry"),
    "port that does not exist": (grant(hosts=["a.org:65536"]), "$.capabilities.net.hosts[0]", "grant_entry"),
    "malformed address": (grant(hosts=["[::g]"]), "$.capabilities.net.hosts[0]", "grant_entry"),
    "address with half a port": (grant(hosts=["[::1]:"]), "$.capabilities.net.hosts[0]", "grant_entry"),
    "address without its bracket": (grant(hosts=["[::1"]), "$.capabilities.net.hosts[0]", "grant_entry"),
    "host listed twice": (grant(hosts=["a.org", "A.ORG"]), "$.capabilities.net.hosts[1]", "duplicate"),
    "hosts that are no list": (grant(hosts="a.org"), "$.capabilities.net.hosts", "type"),
    "method that is none": (grant(methods=["GET /"]), "$.capabilities.net.methods[0]", "grant_entry"),
    "patterns that are no map": (grant(allow=["x"]), "$.capabilities.net.allow", "type"),
    "path that is no text": (grant(allow={1: ["x"]}), "$.capabilities.net.allow", "type"),
    "path that leads nowhere": (grant(allow={"card": ["x"]}), "$.capabilities.net.allow.card", "grant_path"),
    "path that leads to a number": (
        grant(allow={"cents": ["1"]}), "$.capabilities.net.allow.cents", "grant_path"),
    "pattern that is no text": (
        grant(allow={"order_id": [1]}), "$.capabilities.net.allow.order_id[0]", "type"),
    "budget of nothing": (
        grant(budget={"count": 0, "period_ns": 1}), "$.capabilities.net.budget.count", "number"),
    "budget without a period": (grant(budget={"count": 1}), "$.capabilities.net.budget", "missing_field"),
    "grant that expired before time began": (grant(expires_ns=0), "$.capabilities.net.expires_ns", "number"),
    "grant of no bytes": (grant(bytes_max=0), "$.capabilities.net.bytes_max", "number"),
    "unknown field of a grant": (grant(host=["a.org"]), "$.capabilities.net.host", "unknown_field"),
    "policy that does not exist": ({"policy": "reducers-mikro-only"}, "$.policy", "policy_unknown"),
    "policy in a list that does not exist": ({"policies": ["all"]}, "$.policies[0]", "policy_unknown"),
    "malformed rule": (rule(when="effect.kind ="), "$.policy.rules[0].when", "policy_rule"),
    "rule about what does not exist": (
        rule(when="user.name == 'x'"), "$.policy.rules[0].when", "policy_rule"),
    "rule that gives no boolean": (rule(when="effect.kind"), "$.policy.rules[0].when", "policy_rule"),
    "rule without a decision": (
        {"policy": {"rules": [{"name": "a", "when": "true"}]}}, "$.policy.rules[0]", "missing_field"),
    "rule with another decision": (rule(then="maybe"), "$.policy.rules[0].then", "choice"),
    "denial that expires": (rule(then="deny", expires_ns=5), "$.policy.rules[0].expires_ns", "unknown_field"),
    "two rules of one name": (
        {"policy": {"rules": [RULE, RULE]}}, "$.policy.rules[1]", "duplicate"),
    "two defaults": (
        {"policy": [{"default": "deny"}, {"default": "allow"}]}, "$.policy[1].default", "duplicate"),
    "default that asks a person": (
        {"policy": {"default": "require_approval"}}, "$.policy.default", "choice"),
    "too many rules": (
        {"policy": [{"rules": [{**RULE, "name": f"r{n}"} for n in range(1_001)]}]}, "$.policy", "length"),
    "malformed cron": (schedule(cron="0 3 * *"), "$.schedules.daily.cron", "schedule_cron"),
    "unknown zone": (schedule(zone="Europe/Atlantis"), "$.schedules.daily.cron", "schedule_cron"),
    "jitter as long as the interval": (
        schedule(cron=None, every_ns=5, jitter_ns=5), "$.schedules.daily.jitter_ns", "schedule_jitter"),
    "schedule without a time": (schedule(cron=None), "$.schedules.daily", "missing_field"),
    "schedule with two times": (schedule(every_ns=5), "$.schedules.daily.every_ns", "unknown_field"),
    "zone of an interval": (
        schedule(cron=None, every_ns=5, zone="UTC"), "$.schedules.daily.zone", "unknown_field"),
    "start of a cron": (schedule(start_ns=5), "$.schedules.daily.start_ns", "unknown_field"),
    "schedule of an unknown event": (
        schedule(event="shop/Plcd@1"), "$.schedules.daily.event", "schema_unknown"),
    "schedule of an event of Cellule": (
        schedule(event="sys/WorldStarted@1", value={}), "$.schedules.daily.event", "reserved"),
    "schedule of an unfit value": (
        schedule(value={"order_id": 1}), "$.schedules.daily.value", "schedule_value"),
    "schedule of bytes that are no value": (
        schedule(value=b"xx"), "$.schedules.daily.value", "schedule_value"),
    "schedule that goes nowhere": (
        schedule(event="shop/Order@1", value={"items": 1}), "$.schedules.daily", "schedule_route"),
    "key of a schedule that is no bytes": (schedule(key="x"), "$.schedules.daily.key", "type"),
    "limit without backfill": (schedule(limit=5), "$.schedules.daily.limit", "unknown_field"),
    "backfill without end": (
        schedule(catch_up="backfill", limit=10_001), "$.schedules.daily.limit", "number"),
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
        "type", "missing_field", "schema", "schema", "state_missing", "choice", "schema_unknown",
        "module_unknown",
    ]  # fmt: skip


def test_a_broken_schema_causes_no_further_problems(shop, problems):
    found = problems(changed(shop, {"schemas": {"shop/Placed@1": {"record": {"order_id": {"txt": {}}}}}}))
    assert [each[:2] for each in found] == [('$.schemas["shop/Placed@1"].record.order_id', "manifest.schema")]


def test_endless_problems_are_cut(problems):
    document = {"schemas": {f"shop/S{i}@1": {"ref": f"shop/T{i}@1"} for i in range(300)}}
    assert len(problems(document)) == PROBLEMS_MAX


def test_a_manifest_that_is_too_deep_as_a_whole_is_refused(shop, problems):
    deep = []
    for _ in range(123):
        deep = [deep]
    code = shop["modules"]["shop/Orders@1"]["code"]
    code["python"] = deep
    assert load_manifest(shop).modules["shop/Orders"].code == code
    code["python"] = [deep]
    assert [each[:2] for each in problems(shop)] == [("$", "manifest.value")]


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


_NOTES = ("add", "note")


def codes_in(source):
    """The error codes in a module: dotted literals, and the second argument of `add` and `note`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"(manifest|routing)\.[a-z_]+", node.value):
                yield node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _NOTES:
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
