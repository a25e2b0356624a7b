from __future__ import annotations

import math

import pytest

from cellule.errors import Rejected
from cellule.values.cid import cid_of
from cellule.values.link import Link
from cellule.values.schema import Schemas, load, wire_codec
from cellule.values.schema import types as t

CID = cid_of(b"\xa0")


def check(document, value, schemas=None):
    return wire_codec(load(document), Schemas.load(schemas or {})).check(value)


LINE = {"record": {"sku": {"text": {}}, "price": {"float": {}}, "note": {"option": {"text": {}}}}}


@pytest.mark.parametrize(
    ("document", "value", "canonical"),
    [
        ({"unit": {}}, None, None),
        ({"bool": {}}, True, True),
        ({"int": {}}, 2**64 - 1, 2**64 - 1),
        ({"int": {}}, -(2**64), -(2**64)),
        ({"float": {}}, 1, 1.0),
        ({"text": {}, "max_length": 2}, "éé", "éé"),
        ({"bytes": {}}, b"\x01", b"\x01"),
        ({"time": {}}, 1, 1),
        ({"duration": {}}, -1, -1),
        ({"dec": {}}, "007.50", "7.5"),
        ({"dec": {}}, "-0.0", "0"),
        ({"dec": {}}, "100", "100"),
        ({"dec": {}}, "-0.10", "-0.1"),
        ({"uuid": {}}, bytes(16), bytes(16)),
        ({"hash": {}}, Link(CID), Link(CID)),
        ({"hash": {}}, CID, Link(CID)),
        ({"enum": [1, 2]}, 2, 2),
        ({"list": {"float": {}}}, (1, 2.5), [1.0, 2.5]),
        ({"set": {"int": {}}}, [3, -2, 1, -1, 300], [1, 3, 300, -1, -2]),
        ({"set": {"text": {}}}, ["bb", "a", "é", "c"], ["a", "c", "bb", "é"]),
        ({"set": {"bytes": {}}}, {b"bb", b"c"}, [b"c", b"bb"]),
        ({"set": {"float": {}}}, [1, -1.5, 0.5], [0.5, 1.0, -1.5]),
        ({"set": {"bool": {}}}, [True, False], [False, True]),
        ({"set": {"list": {"int": {}}}}, [[2], [1, 1], []], [[], [2], [1, 1]]),
        ({"tuple": [{"int": {}}, {"float": {}}]}, [1, 2], [1, 2.0]),
        ({"map": {"key": {"text": {}}, "value": {"float": {}}}}, {"a": 1}, {"a": 1.0}),
        ({"map": {"key": {"int": {}}, "value": {"int": {}}}}, [[2, 0], [1, 0]], [[1, 0], [2, 0]]),
        ({"map": {"key": {"enum": ["a"]}, "value": {"int": {}}}}, {"a": 1}, {"a": 1}),
        ({"map": {"key": {"dec": {}}, "value": {"int": {}}}}, [["1.0", 1]], [["1", 1]]),
        ({"option": {"int": {}}}, None, None),
        ({"list": {"option": {"int": {}}}}, [None, 1], [None, 1]),
        (LINE, {"sku": "a", "price": 1, "note": None}, {"sku": "a", "price": 1.0}),
        ({"variant": {"A": {"unit": {}}}}, {"$tag": "A"}, {"$tag": "A", "$value": None}),
        ({"any": {}}, {"a": (1, None, [b"x", Link(CID)])}, {"a": [1, None, [b"x", Link(CID)]]}),
    ],
)
def test_a_valid_value_gets_its_canonical_form(document, value, canonical):
    found = check(document, value)
    assert found == canonical
    assert repr(found) == repr(canonical)
    assert check(document, found) == canonical


@pytest.mark.parametrize(
    ("document", "value", "message"),
    [
        ({"unit": {}}, 0, "$: expected null, got the integer 0."),
        ({"bool": {}}, 1, "$: expected a boolean, got the integer 1."),
        ({"int": {}}, True, "$: expected an integer, got true."),
        ({"int": {}}, 1.0, "$: expected an integer, got the float 1.0."),
        (
            {"int": {}},
            2**64,
            "$: expected an integer from -2^64 to 2^64-1, got the integer 18446744073709551616.",
        ),
        ({"int": {}, "min": 1, "max": 3}, 4, "$: expected an integer from 1 to 3, got the integer 4."),
        ({"float": {}}, math.nan, "$: expected a finite float, got the float nan."),
        ({"float": {}}, -math.inf, "$: expected a finite float, got the float -inf."),
        ({"float": {}}, 10**400, "$: expected a finite float, got an integer of 1329 bits."),
        ({"float": {}}, "1", "$: expected a finite float, got the text '1'."),
        ({"float": {}, "max": 0.5}, 1, "$: expected a finite float of at most 0.5, got the float 1.0."),
        ({"text": {}}, b"a", "$: expected text, got 1 bytes."),
        ({"text": {}}, "\ud800", "$: expected text without lone surrogates, got the text '\\ud800'."),
        ({"text": {}, "min_length": 2}, "a", "$: expected text of at least 2 characters, got a length of 1."),
        ({"bytes": {}}, "a", "$: expected bytes, got the text 'a'."),
        ({"dec": {}}, "1e5", "$: expected a plain decimal as text, like '12.5', got the text '1e5'."),
        ({"dec": {}}, "1.", "$: expected a plain decimal as text, like '12.5', got the text '1.'."),
        ({"dec": {}}, ".5", "$: expected a plain decimal as text, like '12.5', got the text '.5'."),
        ({"dec": {}}, "+1", "$: expected a plain decimal as text, like '12.5', got the text '+1'."),
        ({"dec": {}}, "", "$: expected a plain decimal as text, like '12.5', got the text ''."),
        ({"dec": {}}, "\u0661", "$: expected a plain decimal as text, like '12.5', got the text '\u0661'."),
        ({"uuid": {}}, bytes(15), "$: expected a UUID as 16 bytes, got 15 bytes."),
        ({"hash": {}}, b"x", "$: expected a link, got 1 bytes."),
        ({"enum": ["a", "b"]}, "c", "$: expected one of 'a', 'b', got the text 'c'."),
        ({"enum": [1]}, True, "$: expected one of 1, got true."),
        ({"list": {"int": {}}}, {"a": 1}, "$: expected a list, got a map of 1."),
        ({"list": {"int": {}}}, [1, "x"], "$[1]: expected an integer, got the text 'x'."),
        (
            {"list": {"int": {}}, "max_length": 1},
            [1, 2],
            "$: expected a list of at most 1 items, got a length of 2.",
        ),
        ({"set": {"float": {}}}, [1, 1.0], "$: an item of the set occurs twice."),
        ({"set": {"list": {"int": {}}}}, [[1], [1]], "$: an item of the set occurs twice."),
        ({"tuple": [{"int": {}}]}, [1, 2], "$: expected a list of exactly 1, got a list of 2."),
        ({"tuple": [{"int": {}}, {"int": {}}]}, [1, None], "$[1]: expected an integer, got null."),
        (
            {"map": {"key": {"text": {}}, "value": {"int": {}}}},
            {"a b": ""},
            "$[\"a b\"]: expected an integer, got the text ''.",
        ),
        (
            {"map": {"key": {"text": {}}, "value": {"int": {}}}},
            {1: 1},
            '$["the integer 1"]: expected text, got the integer 1.',
        ),
        (
            {"map": {"key": {"int": {}}, "value": {"int": {}}}},
            {1: 1},
            "$: expected a map as a list of pairs [key, value], got a map of 1.",
        ),
        (
            {"map": {"key": {"int": {}}, "value": {"int": {}}}},
            [[1]],
            "$[0]: expected a pair [key, value], got a list of 1.",
        ),
        (
            {"map": {"key": {"int": {}}, "value": {"int": {}}}},
            [[1, 2], [1, 3]],
            "$: a key of the map occurs twice.",
        ),
        (
            {"map": {"key": {"int": {}}, "value": {"int": {}}}},
            [[1, ""]],
            "$[0][1]: expected an integer, got the text ''.",
        ),
        (LINE, [], "$: expected a record, got a list of 0."),
        (LINE, {"sku": "a"}, "$: the required field 'price' is missing."),
        (LINE, {"sku": "a", "price": None}, "$: the required field 'price' is missing."),
        (LINE, {"sku": "a", "price": 1.0, "x": 1}, "$: unknown field 'x'. The fields are: note, price, sku."),
        (
            {"list": LINE},
            [{"sku": "a", "price": "1"}],
            "$[0].price: expected a finite float, got the text '1'.",
        ),
        (
            {"variant": {"A": {"unit": {}}}},
            {"$tag": "B", "$value": None},
            "$.$tag: expected one of A, got the text 'B'.",
        ),
        (
            {"variant": {"A": {"unit": {}}}},
            {"$value": None},
            "$: expected a variant {'$tag', '$value'} of A, got a map of 1.",
        ),
        (
            {"variant": {"A": {"unit": {}}}},
            {"$tag": "A", "x": 1},
            "$: unknown field 'x'. The fields are: $tag, $value.",
        ),
        (
            {"variant": {"A": LINE}},
            {"$tag": "A", "$value": {}},
            "$.$value: the required field 'price' is missing.",
        ),
        ({"any": {}}, None, "$: expected a value that is not null, got null."),
        (
            {"any": {}},
            {"a": [CID]},
            "$.a[0]: expected a plain value, got 36 bytes. Wrap the CID in Link to store a link.",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_path_and_reason(document, value, message):
    with pytest.raises(Rejected) as caught:
        check(document, value)
    assert str(caught.value) == message
    assert caught.value.code.startswith("schema.")


def test_an_enormous_integer_is_refused_without_writing_it_out():
    with pytest.raises(Rejected, match="got an integer of 16610 bits"):
        check({"int": {}}, 10**5000)


def test_an_untyped_value_holds_only_plain_values():
    with pytest.raises(Rejected, match=r"\$\.a\[1\]: expected a plain value"):
        check({"any": {}}, {"a": [1, object()]})


def test_the_name_of_a_referenced_schema_stands_in_the_message():
    codec = wire_codec(t.Ref("acme/Line@1"), Schemas.load({"acme/Line@1": LINE}))
    with pytest.raises(Rejected, match=r"^acme/Line@1"):
        codec.check({})


def test_a_recursive_schema_checks_values_of_any_depth():
    tree = {"record": {"v": {"int": {}}, "kids": {"list": {"ref": "a/Tree@1"}}}}
    codec = wire_codec(t.Ref("a/Tree@1"), Schemas.load({"a/Tree@1": tree}))
    leaf = {"v": 1, "kids": []}
    assert codec.check({"v": 0, "kids": [leaf, leaf]}) == {"v": 0, "kids": [leaf, leaf]}
    with pytest.raises(Rejected, match=r"\$\.kids\[0\]\.kids\[0\]\.v: expected an integer"):
        codec.check({"v": 0, "kids": [{"v": 1, "kids": [{"v": "x", "kids": []}]}]})


def test_a_value_that_contains_itself_is_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(Rejected) as caught:
        check({"any": {}}, loop)
    assert caught.value.code == "schema.too_deep"


def test_encode_and_decode_go_through_the_canonical_form():
    codec = wire_codec(load({"set": {"int": {}}}))
    data = codec.encode([2, 1])
    assert data == bytes.fromhex("820102")
    assert codec.decode(data) == [1, 2]


def test_a_schema_with_unknown_refs_has_no_codec():
    with pytest.raises(Rejected) as caught:
        wire_codec(t.Ref("a/Nothing@1"))
    assert caught.value.code == "schema.ref_unknown"


def test_the_result_shares_nothing_with_the_input():
    value = {"a": [1]}
    found = check({"any": {}}, value)
    value["a"].append(2)
    assert found == {"a": [1]}
