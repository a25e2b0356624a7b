"""The JSON of the design documents loads as it is written there."""

from __future__ import annotations

import json

from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import Route
from cellule.kernel.manifest.routes import Router
from cellule.values import encode
from cellule.values.schema import types as t

ROUTING_ENTRY = """
{ "event": "com.acme/ChargeRequested@1", "reducer": "com.acme/OrderSM@2", "key_field": "key" }
"""
TRIGGER = """
{ "event": "com.acme/ChargeRequested@1", "plan": "com.acme/charge_flow@3", "correlate_by": "key" }
"""
KEYED_REDUCERS = """
{
  "$kind": "manifest",
  "schemas": [
    { "$kind": "defschema", "name": "com.acme/OrderState@1",
      "type": { "record": { "paid": { "bool": {} } } } },
    { "$kind": "defschema", "name": "com.acme/ChargeRequested@1",
      "type": { "record": { "key": { "text": {} }, "order_id": { "text": {} } } } }
  ],
  "modules": [
    { "$kind": "defmodule", "name": "com.acme/OrderSM@2", "module_kind": "reducer",
      "abi": { "reducer": { "state": "com.acme/OrderState@1", "event": "com.acme/ChargeRequested@1",
                            "effects_emitted": ["fs.blob.put", "timer.set"] } } }
  ],
  "routing": { "events": [ %s ] },
  "triggers": [ %s ]
}
""" % (ROUTING_ENTRY, TRIGGER)  # noqa: UP031 - braces stand in the JSON
KEYED_WORKFLOWS = """
{
  "schemas": {
    "notes/State@1": { "record": { "text": { "text": {} } } },
    "notes/Opened@1": { "record": { "note_id": { "text": {} } } },
    "notes/Closed@1": { "record": { "note_id": { "text": {} } } },
    "notes/Event@1": {
      "variant": { "Opened": { "ref": "notes/Opened@1" }, "Closed": { "ref": "notes/Closed@1" } } }
  },
  "modules": [
    { "$kind": "defmodule", "name": "notes/Note@1", "module_kind": "workflow", "key_schema": { "text": {} },
      "abi": { "reducer": { "state": "notes/State@1", "event": "notes/Event@1",
                            "context": "sys/ReducerContext@1", "effects_emitted": [] } } }
  ],
  "routing": { "subscriptions": [
    { "event": "notes/Event@1", "module": "notes/Note@1", "key_field": "$value.note_id" }
  ] }
}
"""


def test_keyed_reducers_load_verbatim():
    manifest = load_manifest(json.loads(KEYED_REDUCERS))
    module = manifest.modules["com.acme/OrderSM"]
    assert (module.name, module.kind, module.key) == ("com.acme/OrderSM@2", "workflow", t.Text())
    assert module.effects_emitted == ("fs.blob.put", "timer.set")
    assert manifest.routes == {"com.acme/ChargeRequested@1": (Route("com.acme/OrderSM", ("key",), False),)}
    assert manifest.extra == {"triggers": [json.loads(TRIGGER)]}


def test_keyed_workflows_load_verbatim():
    manifest = load_manifest(json.loads(KEYED_WORKFLOWS))
    module = manifest.modules["notes/Note"]
    assert (module.context, module.event) == (True, "notes/Event@1")
    assert manifest.routes["notes/Event@1"] == (Route("notes/Note", ("$value", "note_id"), False),)
    value = encode({"$tag": "Opened", "$value": {"note_id": "n1"}})
    assert Router(manifest).route("notes/Event@1", value, None) == [("notes/Note", b"n1")]
