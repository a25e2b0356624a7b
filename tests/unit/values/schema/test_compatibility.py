# ruff: noqa: E501 - one case a line reads as a table
from __future__ import annotations

import pytest

from cellule.values.schema import Schemas, compare, load, project, wire_codec
from cellule.values.schema import types as t

TEXT, INT = {"text": {}}, {"int": {}}
OLD = {"record": {"a": TEXT}}
NEW = {"record": {"a": TEXT, "b": {"option": INT}}}


def compared(old, new):
    return compare(load(old), load(new))


def nested(make):
    return make(OLD), make(NEW)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        nested(lambda inner: inner),
        nested(lambda inner: {"list": inner}),
        nested(lambda inner: {"option": inner}),
        nested(lambda inner: {"tuple": [INT, inner]}),
        nested(lambda inner: {"map": {"key": TEXT, "value": inner}}),
        nested(lambda inner: {"map": {"key": INT, "value": inner}}),
        nested(lambda inner: {"record": {"x": inner}}),
        nested(lambda inner: {"variant": {"A": inner, "B": {"unit": {}}}}),
    ],
    ids=str,
)
def test_adding_an_optional_field_is_compatible_at_any_depth(old, new):
    comparison = compared(old, new)
    assert comparison.compatible
    assert not comparison.identical
    (change,) = comparison.changes
    assert change.what == "optional field added"
    assert change.path.endswith(".b")


@pytest.mark.parametrize(
    ("old", "new", "path", "reason"),
    [
        (OLD, {"record": {"a": TEXT, "discount": INT}}, "$.discount", "field `discount` was added as required: add it as optional or make a new version with an upcaster"),
        (NEW, OLD, "$.b", "field `b` was removed: keep it, or make a new version with an upcaster"),
        (OLD, {"record": {"a": INT}}, "$.a", "the type changed from text to an integer from -2^64 to 2^64-1: make a new version with an upcaster"),
        (OLD, {"record": {"a": {"option": TEXT}}}, "$.a", "it was required and is now optional: make a new version with an upcaster"),
        ({"list": {"option": TEXT}}, {"list": TEXT}, "$[]", "it was optional and is now required: keep it optional, or make a new version with an upcaster"),
        ({"int": {}, "min": 1}, {"int": {}, "min": 0}, "$", "the bounds changed from an integer of at least 1 to an integer of at least 0: make a new version with an upcaster"),
        ({"list": TEXT, "max_length": 3}, {"list": TEXT}, "$", "the bounds changed from a list of at most 3 items to a list: make a new version with an upcaster"),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, "$", "value 'b' was added, which older code does not know: make a new version with an upcaster"),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, "$", "value 'b' was removed: keep it, or make a new version with an upcaster"),
        ({"tuple": [INT]}, {"tuple": [INT, INT]}, "$", "the tuple had 1 items and now has 2: make a new version with an upcaster"),
        ({"variant": {"A": OLD}}, {"variant": {"A": OLD, "B": OLD}}, "$<B>", "case `B` was added, which older code does not know: make a new version with an upcaster"),
        ({"variant": {"A": OLD, "B": OLD}}, {"variant": {"A": OLD}}, "$<B>", "case `B` was removed: keep it, or make a new version with an upcaster"),
        ({"set": OLD}, {"set": NEW}, "$[].b", "field `b` was added inside the items of a set; without it two could be equal: make a new version with an upcaster"),
        ({"map": {"key": OLD, "value": INT}}, {"map": {"key": NEW, "value": INT}}, "$.key.b", "field `b` was added inside the keys of a map; without it two could be equal: make a new version with an upcaster"),
        ({"set": {"list": OLD}}, {"set": {"list": NEW}}, "$[][].b", "field `b` was added inside the items of a set; without it two could be equal: make a new version with an upcaster"),
        ({"time": {}}, {"duration": {}}, "$", "the type changed from a time in integer nanoseconds since 1970 to a duration in integer nanoseconds: make a new version with an upcaster"),
    ],
)  # fmt: skip
def test_every_other_change_is_incompatible_and_says_why(old, new, path, reason):
    comparison = compared(old, new)
    assert not comparison.compatible
    (change,) = comparison.changes
    assert (change.path, change.reason) == (path, reason)
    assert str(change) == f"{path}: {reason}"


def test_all_changes_are_listed():
    changes = compared(
        {"record": {"a": TEXT, "b": INT, "c": {"list": OLD}}},
        {"record": {"a": INT, "c": {"list": NEW}, "d": {"option": INT}}},
    ).changes
    assert [(change.path, change.compatible) for change in changes] == [
        ("$.a", False),
        ("$.b", False),
        ("$.c[].b", True),
        ("$.d", True),
    ]


def test_equal_schemas_are_identical_whatever_their_refs_are_called():
    old = Schemas.load({"a/Tree@1": {"record": {"kids": {"list": {"ref": "a/Tree@1"}}}}})
    new = Schemas.load({"a/Tree@2": {"record": {"kids": {"list": {"ref": "a/Tree@2"}}}}})
    assert compare(t.Ref("a/Tree@1"), t.Ref("a/Tree@2"), old, new).identical


def test_recursive_schemas_are_compared_and_projected_to_any_depth():
    old = Schemas.load({"a/Tree@1": {"record": {"kids": {"list": {"ref": "a/Tree@1"}}}}})
    new = Schemas.load(
        {"a/Tree@1": {"record": {"kids": {"list": {"ref": "a/Tree@1"}}, "name": {"option": {"text": {}}}}}}
    )
    tree = t.Ref("a/Tree@1")
    comparison = compare(tree, tree, old, new)
    assert comparison.compatible
    assert [change.path for change in comparison.changes] == ["$.name"]
    value = {"name": "root", "kids": [{"name": "leaf", "kids": []}, {"kids": []}]}
    assert project(value, tree, old) == {"kids": [{"kids": []}, {"kids": []}]}


def test_projection_drops_what_the_older_schema_lacks_through_all_containers():
    def document(inner):
        return {
            "record": {
                "list": {"list": inner},
                "map": {"map": {"key": TEXT, "value": inner}},
                "pairs": {"map": {"key": INT, "value": {"option": inner}}},
                "tuple": {"tuple": [inner, INT]},
                "variant": {"variant": {"A": inner, "B": {"unit": {}}}},
                "gone": {"option": inner},
                "set": {"set": TEXT},
            }
        }

    old, new = load(document(OLD)), load(document(NEW))
    assert compare(old, new).compatible
    one, less = {"a": "x", "b": 1}, {"a": "x"}
    value = {
        "list": [one, less],
        "map": {"k": one},
        "pairs": [[1, one], [2, None]],
        "tuple": [one, 5],
        "variant": {"$tag": "A", "$value": one},
        "set": ["x"],
    }
    projected = project(value, old)
    assert projected == {
        "list": [less, less],
        "map": {"k": less},
        "pairs": [[1, less], [2, None]],
        "tuple": [less, 5],
        "variant": {"$tag": "A", "$value": less},
        "set": ["x"],
    }
    assert wire_codec(old).check(projected) == projected
    assert value["list"][0] == one
