from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.values.schema import Schemas, load, to_document
from cellule.values.schema import types as t

DOCUMENTS = [
    *({kind: {}} for kind in ("unit", "bool", "int", "float", "text", "bytes", "time", "duration")),
    *({kind: {}} for kind in ("dec", "uuid", "hash", "any")),
    {"int": {}, "min": 0, "max": 10},
    {"float": {}, "min": 0.5},
    {"text": {}, "max_length": 20},
    {"enum": ["a", "b"]},
    {"enum": [1, 2]},
    {"list": {"text": {}}, "min_length": 1},
    {"set": {"int": {}}},
    {"tuple": [{"int": {}}, {"text": {}}]},
    {"map": {"key": {"text": {}}, "value": {"int": {}}}, "max_length": 5},
    {"option": {"text": {}}},
    {"record": {"order_id": {"text": {}}, "note": {"option": {"text": {}}}}},
    {"record": {}},
    {"variant": {"Placed": {"ref": "com.acme/Placed@1"}, "Nothing": {"unit": {}}}},
    {"ref": "com.acme/Order@1"},
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_a_document_loads_to_a_schema_that_writes_the_same_document(document):
    assert to_document(load(document)) == document


def test_the_order_of_fields_cases_and_enum_values_is_not_part_of_a_schema():
    assert load({"record": {"a": {"int": {}}, "b": {"text": {}}}}) == load(
        {"record": {"b": {"text": {}}, "a": {"int": {}}}}
    )
    assert load({"variant": {"A": {"unit": {}}, "B": {"unit": {}}}}) == load(
        {"variant": {"B": {"unit": {}}, "A": {"unit": {}}}}
    )
    assert load({"enum": ["b", "a"]}) == load({"enum": ["a", "b"]})


def test_a_float_bound_given_as_integer_is_the_same_bound():
    assert load({"float": {}, "min": 1}) == load({"float": {}, "min": 1.0})


@pytest.mark.parametrize(
    ("document", "path", "problem"),
    [
        (None, "$", "a map with one type"),
        ({}, "$", "a map with one type"),
        ("text", "$", "a map with one type"),
        ({"txt": {}}, "$", "'txt'"),
        ({"text": {}, "int": {}}, "$", "exactly one type"),
        ({"text": {"max": 3}}, "$.text", "empty map"),
        ({"text": {}, "max": 3}, "$", "unknown key 'max'"),
        ({"bool": {}, "min": 3}, "$", "unknown key 'min'"),
        ({"int": {}, "min": "x"}, "$.min", "a number"),
        ({"int": {}, "min": True}, "$.min", "a number"),
        ({"int": {}, "min": 1.5}, "$.min", "an integer"),
        ({"int": {}, "max": 2**64}, "$.max", "an integer"),
        ({"int": {}, "min": 2, "max": 1}, "$", "no value would fit"),
        ({"float": {}, "max": float("inf")}, "$.max", "finite"),
        ({"text": {}, "min_length": -1}, "$.min_length", "not negative"),
        ({"list": {"list": {"nothing": {}}}}, "$.list.list", "'nothing'"),
        ({"record": {"items": {"list": {"x": {}}}}}, "$.record.items.list", "'x'"),
        ({"record": [1]}, "$.record", "a map"),
        ({"record": {"": {"int": {}}}}, "$.record", "printable"),
        ({"record": {"a.b": {"int": {}}}}, "$.record", "key paths"),
        ({"record": {"$tag": {"int": {}}}}, "$.record", "key paths"),
        ({"record": {"a\n": {"int": {}}}}, "$.record", "printable"),
        ({"record": {str(i): {"int": {}} for i in range(1001)}}, "$.record", "1001 entries"),
        ({"variant": {}}, "$.variant", "0 entries"),
        ({"variant": {"A": 1}}, "$.variant.A", "a map with one type"),
        ({"tuple": []}, "$.tuple", "list of 1"),
        ({"tuple": [{"int": {}}, {"bad": {}}]}, "$.tuple[1]", "'bad'"),
        ({"map": {"key": {"int": {}}}}, "$.map", "'key' and 'value'"),
        ({"map": {"key": {"int": {}}, "value": {"x": {}}}}, "$.map.value", "'x'"),
        ({"enum": []}, "$.enum", "list of 1"),
        ({"enum": ["a", 1]}, "$.enum", "all texts"),
        ({"enum": [True]}, "$.enum", "all texts"),
        ({"enum": [2**64]}, "$.enum", "all texts"),
        ({"enum": ["a", "a"]}, "$.enum", "distinct"),
        ({"enum": [{}]}, "$.enum", "all texts"),
        ({"ref": 1}, "$.ref", "a name"),
        ({"ref": "Order"}, "$.ref", "namespace"),
    ],
    ids=str,
)
def test_a_wrong_document_is_refused_naming_its_place(document, path, problem):
    with pytest.raises(Rejected) as caught:
        load(document)
    assert caught.value.code == "schema.document_invalid"
    assert caught.value.fields["path"] == path
    assert problem in str(caught.value)


def test_a_document_nested_too_deeply_is_refused():
    document: dict = {"int": {}}
    for _ in range(100):
        document = {"list": document}
    with pytest.raises(Rejected, match="64 levels"):
        load(document)


def test_children_name_every_part_of_a_schema():
    schema = load({"tuple": [{"option": {"int": {}}}, {"map": {"key": {"text": {}}, "value": {"bool": {}}}}]})
    assert [segment for segment, _ in t.children(schema)] == ["[0]", "[1]"]
    assert t.children(schema.items[0]) == [("?", t.Int())]
    assert t.children(schema.items[1]) == [(".key", t.Text()), (".value", t.Bool())]


class TestSchemas:
    def test_recursive_schemas_resolve_through_refs(self):
        tree = {"record": {"children": {"list": {"ref": "acme/Tree@1"}}}}
        schemas = Schemas.load({"acme/Tree@1": tree})
        assert schemas.resolve(t.Ref("acme/Tree@1")) == load(tree)
        assert schemas.documents() == {"acme/Tree@1": tree}
        assert len(schemas) == 1
        assert list(schemas) == ["acme/Tree@1"]

    def test_the_closure_lists_all_names_reached(self):
        schemas = Schemas.load(
            {
                "a/A@1": {"record": {"b": {"list": {"ref": "a/B@1"}}}},
                "a/B@1": {"option": {"ref": "a/C@1"}},
                "a/C@1": {"record": {"a": {"option": {"ref": "a/A@1"}}}},
                "a/D@1": {"text": {}},
            }
        )
        assert schemas.closure(t.List(t.Ref("a/B@1"))) == ["a/A@1", "a/B@1", "a/C@1"]

    @pytest.mark.parametrize(
        ("documents", "code"),
        [
            ({"a/A@1": {"list": {"ref": "a/B@1"}}}, "schema.ref_unknown"),
            ({"a/A@1": {"ref": "a/A@1"}}, "schema.ref_cycle"),
            ({"a/A@1": {"option": {"ref": "a/B@1"}}, "a/B@1": {"ref": "a/A@1"}}, "schema.ref_cycle"),
            ({"a/A@1": {"option": {"option": {"int": {}}}}}, "schema.option_ambiguous"),
            ({"a/A@1": {"option": {"unit": {}}}}, "schema.option_ambiguous"),
            (
                {"a/A@1": {"list": {"option": {"ref": "a/B@1"}}}, "a/B@1": {"option": {"int": {}}}},
                "schema.option_ambiguous",
            ),
            ({"a/A@1": {"record": {"x": {"unit": {}}}}}, "schema.field_unit"),
            ({"a/A@1": {"record": {"x": {"ref": "a/B@1"}}}, "a/B@1": {"unit": {}}}, "schema.field_unit"),
            ({"A": {"int": {}}}, "names.malformed"),
        ],
        ids=str,
    )
    def test_a_set_that_does_not_fit_together_is_refused(self, documents, code):
        with pytest.raises(Rejected) as caught:
            Schemas.load(documents)
        assert caught.value.code == code

    def test_merging_keeps_both_and_refuses_one_name_for_two_things(self):
        one = Schemas.load({"a/A@1": {"int": {}}})
        two = Schemas.load({"a/A@1": {"int": {}}, "a/B@1": {"ref": "a/A@1"}})
        assert set(one.merged(two)) == {"a/A@1", "a/B@1"}
        with pytest.raises(Rejected) as caught:
            one.merged({"a/A@1": t.Text()})
        assert caught.value.code == "schema.name_conflict"

    def test_a_field_is_optional_if_its_ref_leads_to_an_option(self):
        schemas = Schemas.load({"a/Maybe@1": {"option": {"int": {}}}})
        assert schemas.is_optional(t.Ref("a/Maybe@1"))
        assert not schemas.is_optional(t.Int())
