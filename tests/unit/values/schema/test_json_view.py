# ruff: noqa: E501 - one case a line reads as a table
from __future__ import annotations

import json

import pytest

from cellule.errors import Rejected
from cellule.values.cid import cid_of
from cellule.values.json_view import from_json, to_json
from cellule.values.link import Link
from cellule.values.schema import Schemas, load
from cellule.values.schema import types as t

CID = cid_of(b"\xa0")


@pytest.mark.parametrize(
    ("value", "view"),
    [
        (None, None),
        (True, True),
        (2**64 - 1, 18446744073709551615),
        (1.0, 1.0),
        ("x", "x"),
        (b"hi", {"/": {"bytes": "aGk"}}),
        (Link(CID), {"/": str(CID)}),
        ([1, [b""]], [1, [{"/": {"bytes": ""}}]]),
        ({"a": None}, {"a": None}),
        ({"/": 1}, {"//": 1}),
        ({"//": 1}, {"///": 1}),
        ({"/": {"bytes": "aGk"}}, {"//": {"bytes": "aGk"}}),
        ({"/": 1, "a": 2}, {"/": 1, "a": 2}),
        ({"": 1}, {"": 1}),
    ],
    ids=str,
)
def test_an_untyped_value_has_this_view_and_comes_back(value, view):
    assert to_json(value) == view
    found = from_json(json.loads(json.dumps(view)))
    assert found == value
    assert type(found) is type(value)


LINE = {"record": {"at": {"time": {}}, "took": {"option": {"duration": {}}}}}


@pytest.mark.parametrize(
    ("document", "value", "view"),
    [
        ({"time": {}}, 0, "1970-01-01T00:00:00Z"),
        ({"time": {}}, 1_709_208_000_000_000_001, "2024-02-29T12:00:00.000000001Z"),
        ({"time": {}}, -1, "1969-12-31T23:59:59.999999999Z"),
        ({"time": {}}, 1_500_000_000, "1970-01-01T00:00:01.500Z"),
        ({"time": {}}, 2**64 - 1, "2554-07-21T23:34:33.709551615Z"),
        ({"time": {}}, -(2**64), "1385-06-12T00:25:26.290448384Z"),
        ({"duration": {}}, 0, "0s"),
        ({"duration": {}}, 5_400_000_000_000, "1h30m"),
        ({"duration": {}}, -90_000_000_000, "-1m30s"),
        ({"duration": {}}, 1_002_003_004, "1s2ms3us4ns"),
        ({"duration": {}}, 172_800_000_000_000, "48h"),
        ({"dec": {}}, "12.5", "12.5"),
        ({"uuid": {}}, bytes(16), "00000000-0000-0000-0000-000000000000"),
        ({"bytes": {}}, b"hi", "aGk="),
        ({"hash": {}}, Link(CID), str(CID)),
        ({"int": {}}, 2**60, 2**60),
        ({"set": {"bytes": {}}}, [b"a", b"b"], ["YQ==", "Yg=="]),
        ({"map": {"key": {"text": {}}, "value": {"duration": {}}}}, {"a": 1000}, {"a": "1us"}),
        ({"map": {"key": {"uuid": {}}, "value": {"time": {}}}}, [[bytes(16), 0]], [["00000000-0000-0000-0000-000000000000", "1970-01-01T00:00:00Z"]]),
        ({"tuple": [{"time": {}}, {"int": {}}]}, [0, 0], ["1970-01-01T00:00:00Z", 0]),
        ({"list": {"option": {"time": {}}}}, [None, 0], [None, "1970-01-01T00:00:00Z"]),
        (LINE, {"at": 0}, {"at": "1970-01-01T00:00:00Z"}),
        (LINE, {"at": 0, "took": 1}, {"at": "1970-01-01T00:00:00Z", "took": "1ns"}),
        ({"variant": {"A": LINE}}, {"$tag": "A", "$value": {"at": 0}}, {"$tag": "A", "$value": {"at": "1970-01-01T00:00:00Z"}}),
        ({"variant": {"A": {"unit": {}}}}, {"$tag": "A", "$value": None}, {"$tag": "A", "$value": None}),
        ({"any": {}}, {"x": b"hi"}, {"x": {"/": {"bytes": "aGk"}}}),
    ],
)  # fmt: skip
def test_a_typed_value_has_this_view_and_comes_back(document, value, view):
    schema = load(document)
    assert to_json(value, schema) == view
    assert from_json(json.loads(json.dumps(view)), schema) == value


@pytest.mark.parametrize(
    ("document", "view", "value"),
    [
        ({"time": {}}, "2024-02-29t12:00:00.5+05:30", 1_709_188_200_500_000_000),
        ({"time": {}}, "2024-02-29 12:00:00z", 1_709_208_000_000_000_000),
        ({"duration": {}}, "90s", 90_000_000_000),
        ({"duration": {}}, "250ms", 250_000_000),
        ({"duration": {}}, "1.5h", 5_400_000_000_000),
        ({"duration": {}}, "+2d", 172_800_000_000_000),
        ({"duration": {}}, "5µs", 5_000),
        ({"duration": {}}, "1h0.5s", 3_600_500_000_000),
        ({"dec": {}}, "1.50", "1.5"),
        ({"bytes": {}}, "aGk", b"hi"),
        ({"uuid": {}}, "ABCDEF00-0000-0000-0000-000000000000", b"\xab\xcd\xef" + bytes(13)),
        ({"int": {}}, "18446744073709551615", 2**64 - 1),
        ({"int": {}}, "-9007199254740993", -9007199254740993),
        ({"float": {}}, 1, 1.0),
        ({"set": {"int": {}}}, [2, 1], [1, 2]),
        (LINE, {"at": "1970-01-01T00:00:00Z", "took": None}, {"at": 0}),
        ({"variant": {"A": {"unit": {}}}}, {"$tag": "A"}, {"$tag": "A", "$value": None}),
    ],
    ids=str,
)
def test_other_spellings_are_read_too(document, view, value):
    assert from_json(view, load(document)) == value


@pytest.mark.parametrize(
    ("document", "view", "message"),
    [
        ({"time": {}}, "2024-02-30T12:00:00Z", "a time that exists"),
        ({"time": {}}, "2024-02-29T12:00:00", "expected a time like"),
        ({"time": {}}, "2024-02-29T12:00:60Z", "a time that exists"),
        ({"time": {}}, "2024-02-29T12:00:00.0123456789Z", "expected a time like"),
        ({"time": {}}, "0001-01-01T00:00:00+14:00", "from -2^64 to 2^64-1"),
        ({"time": {}}, "9999-12-31T00:00:00Z", "from -2^64 to 2^64-1"),
        ({"time": {}}, 5, "expected a time like"),
        ({"duration": {}}, "1", "expected a duration like"),
        ({"duration": {}}, "", "expected a duration like"),
        ({"duration": {}}, "1s1h", "units descend"),
        ({"duration": {}}, "1s1s", "units descend"),
        ({"duration": {}}, "0.5ns", "whole nanoseconds"),
        ({"duration": {}}, "999999999999d", "from -2^64 to 2^64-1"),
        ({"duration": {}}, "1h" * 500, "expected a duration like"),
        ({"dec": {}}, 1.5, "plain decimal"),
        ({"bytes": {}}, "a*k=", "base64"),
        ({"bytes": {}}, "aGl", "base64"),
        ({"bytes": {}}, "a", "base64"),
        ({"bytes": {}}, 5, "base64"),
        ({"uuid": {}}, "urn:uuid:00000000-0000-0000-0000-000000000000", "a UUID"),
        ({"hash": {}}, "bafy", "CID text"),
        ({"hash": {}}, 5, "CID text"),
        ({"int": {}}, "5", "an integer"),
        ({"int": {}}, 1.0, "an integer"),
        ({"list": {"time": {}}}, ["x"], "$[0]: expected a time"),
        ({"list": {"time": {}}}, {}, "$: expected a list"),
        ({"tuple": [{"time": {}}]}, [], "$: expected a list of exactly 1"),
        ({"map": {"key": {"text": {}}, "value": {"time": {}}}}, {"a b": 1}, '$["a b"]: expected a time'),
        ({"map": {"key": {"time": {}}, "value": {"int": {}}}}, [["x", 1]], "$[0][0]: expected a time"),
        ({"map": {"key": {"time": {}}, "value": {"int": {}}}}, {"x": 1}, "list of pairs"),
        (LINE, {"at": "x"}, "$.at: expected a time"),
        (LINE, {"at": "1970-01-01T00:00:00Z", "x": 1}, "unknown field 'x'"),
        (LINE, [], "expected a record"),
        ({"variant": {"A": LINE}}, {"$tag": "B", "$value": 1}, "$.$tag: expected one of A"),
        ({"variant": {"A": LINE}}, {"$tag": "A", "$value": {"at": 1}}, "$.$value.at: expected a time"),
        ({"variant": {"A": LINE}}, {}, "expected a variant"),
        ({"any": {}}, {"a": [{"/": 5}]}, '$.a[0]: expected {"/": CID}'),
        ({"any": {}}, {"/": {"bytes": "*"}}, "base64"),
        ({"any": {}}, {"/": "x"}, "CID text"),
        ({"any": {}}, {"a": {1: 2}}, "$.a: expected a map with text keys"),
        ({"map": {"key": {"text": {}}, "value": {"int": {}}}}, {1: 2}, "expected text"),
    ],
)
def test_a_wrong_view_is_refused_with_its_path(document, view, message):
    with pytest.raises(Rejected) as caught:
        from_json(view, load(document))
    assert message in str(caught.value)


def test_refs_are_followed_and_named_in_messages():
    schemas = Schemas.load({"a/When@1": {"list": {"time": {}}}})
    assert to_json([0], t.Ref("a/When@1"), schemas) == ["1970-01-01T00:00:00Z"]
    with pytest.raises(Rejected, match=r"^a/When@1 \$\[0\]"):
        from_json([1], t.Ref("a/When@1"), schemas)


def test_a_view_nested_too_deeply_is_refused():
    view: list = []
    for _ in range(100_000):
        view = [view]
    with pytest.raises(Rejected) as caught:
        from_json(view)
    assert caught.value.code == "schema.too_deep"
