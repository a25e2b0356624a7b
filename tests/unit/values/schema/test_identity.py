from __future__ import annotations

import msgspec

from cellule.values.schema import Schemas, derive, identity, load
from cellule.values.schema import types as t


def record(name, fields, module="somewhere"):
    return msgspec.defstruct(name, fields, module=module)


def id_of(python):
    derived = derive(python, namespace="acme")
    return identity(derived.schema, derived.schemas)


def test_field_order_and_module_do_not_change_the_identity():
    one = record("Order", [("a", int), ("b", str)])
    two = record("Order", [("b", str), ("a", int)], module="elsewhere")
    assert id_of(one) == id_of(two)


def test_names_and_types_of_fields_change_the_identity():
    ids = {
        id_of(record("Order", [("a", int), ("b", str)])),
        id_of(record("Order", [("a", int), ("c", str)])),
        id_of(record("Order", [("a", int), ("b", int)])),
        id_of(record("Order", [("a", int), ("b", str, "")])),
        id_of(record("Order2", [("a", int), ("b", str)])),
    }
    assert len(ids) == 5


def test_a_change_in_a_referenced_schema_changes_the_identity():
    outer = load({"list": {"ref": "a/Item@1"}})
    one = Schemas.load({"a/Item@1": {"text": {}}, "a/Other@1": {"int": {}}})
    two = Schemas.load({"a/Item@1": {"int": {}}})
    three = Schemas.load({"a/Item@1": {"text": {}}})
    assert identity(outer, one) != identity(outer, two)
    assert identity(outer, one) == identity(outer, three)


def test_recursive_schemas_have_an_identity():
    schemas = Schemas.load({"a/Tree@1": {"list": {"ref": "a/Tree@1"}}})
    assert identity(t.Ref("a/Tree@1"), schemas) == identity(t.Ref("a/Tree@1"), schemas)
    assert identity(t.Ref("a/Tree@1"), schemas).codec == "dag-cbor"
