"""Frozen bytes of typed values and identities of schemas: a change here is a change of the stored format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellule.values.json_view import from_json, to_json
from cellule.values.schema import Schemas, identity, identity_bytes, load, wire_codec

GOLDEN = json.loads(Path(__file__).with_name("schema.json").read_text(encoding="utf-8"))
SCHEMAS = Schemas.load(GOLDEN["schemas"])


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: json.dumps(case["view"])[:40])
def test_a_typed_value_has_its_frozen_bytes(case):
    schema = load(case["schema"])
    value = from_json(case["view"], schema, SCHEMAS)
    data = bytes.fromhex(case["bytes"])
    codec = wire_codec(schema, SCHEMAS)
    assert codec.encode(value).hex() == case["bytes"]
    assert codec.decode(data) == value
    assert from_json(to_json(value, schema, SCHEMAS), schema, SCHEMAS) == value


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: json.dumps(case["schema"])[:40])
def test_a_schema_has_its_frozen_identity(case):
    schema = load(case["schema"])
    assert identity_bytes(schema, SCHEMAS).hex() == case["identity_bytes"]
    assert str(identity(schema, SCHEMAS)) == case["identity"]
