"""The JSON of the design documents loads as it is written there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cellule.errors import Rejected
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import Route
from cellule.kernel.manifest.routes import Router
from cellule.values import encode
from cellule.values.schema import types as t

FIXTURES = Path(__file__).parents[3] / "fixtures" / "manifests"


def document(name: str) -> dict[str, Any]:
    """One of the documents, as it is written."""
    found: dict[str, Any] = json.loads((FIXTURES / name).read_text())
    return found


def test_keyed_reducers_load_verbatim():
    written = document("keyed_reducers.json")
    manifest = load_manifest(written)
    module = manifest.modules["com.acme/OrderSM"]
    assert (module.name, module.kind, module.key) == ("com.acme/OrderSM@2", "workflow", t.Text())
    assert module.effects_emitted == ("blob.put", "timer.set")
    assert manifest.routes["com.acme/ChargeRequested@1"] == (
        Route("com.acme/OrderSM", ("key",), False),
        Route("com.acme/charge_flow", ("key",), False),
    )
    plan = manifest.modules["com.acme/charge_flow"]
    assert (plan.name, plan.style, plan.upgrade, plan.key) == (
        "com.acme/charge_flow@3", "plan", "pin", t.Text(),
    )  # fmt: skip
    assert load_manifest(manifest.data) == manifest


def test_a_trigger_for_a_plan_that_is_not_there_is_refused():
    written = document("keyed_reducers.json")
    del written["plans"]
    with pytest.raises(Rejected, match=r"triggers\[0\].plan: there is no plan com.acme/charge_flow@3"):
        load_manifest(written)


def test_keyed_workflows_load_verbatim():
    manifest = load_manifest(document("keyed_workflows.json"))
    module = manifest.modules["notes/Note"]
    assert (module.context, module.event) == (True, "notes/Event@1")
    assert manifest.routes["notes/Event@1"] == (Route("notes/Note", ("$value", "note_id"), False),)
    value = encode({"$tag": "Opened", "$value": {"note_id": "n1"}})
    assert Router(manifest).route("notes/Event@1", value, None) == [("notes/Note", b"n1")]
