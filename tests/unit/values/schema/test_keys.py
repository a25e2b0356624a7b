# ruff: noqa: E501 - one case a line reads as a table
from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.values.schema import Schemas, check_key_path, key_bytes, load, read_path
from cellule.values.schema import types as t

SCHEMAS = Schemas.load(
    {
        "a/Placed@1": {"record": {"order_id": {"text": {}}, "note": {"option": {"text": {}}}, "n": {"int": {}}}},
        "a/Paid@1": {"record": {"order_id": {"text": {}}, "who": {"record": {"id": {"uuid": {}}}}, "n": {"text": {}}}},
        "a/Event@1": {"variant": {"Placed": {"ref": "a/Placed@1"}, "Paid": {"ref": "a/Paid@1"}}},
        "a/Id@1": {"text": {}},
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        ("a/Placed@1", "order_id", t.Text()),
        ("a/Paid@1", "who.id", t.Uuid()),
        ("a/Paid@1", "who", t.record({"id": t.Uuid()})),
        ("a/Event@1", "$value.order_id", t.Text()),
        ("a/Id@1", "", t.Text()),
    ],
)
def test_a_key_path_leads_to_the_schema_of_the_key(name, path, expected):
    assert check_key_path(t.Ref(name), SCHEMAS, path) == expected


@pytest.mark.parametrize(
    ("name", "path", "problem"),
    [
        ("a/Placed@1", "orderId", "'orderId', which does not exist (there are: n, note, order_id)"),
        ("a/Placed@1", "note", "may be absent"),
        ("a/Placed@1", "order_id.x", "no record"),
        ("a/Placed@1", "a..b", "joined by dots"),
        ("a/Placed@1", ".".join(["a"] * 33), "1 to 32"),
        ("a/Event@1", "order_id", "no record"),
        ("a/Event@1", "$value.n", "different types in the cases Paid and Placed"),
        ("a/Event@1", "$value.who", "'who', which does not exist"),
    ],
)
def test_a_path_that_does_not_always_find_a_key_is_refused(name, path, problem):
    with pytest.raises(Rejected) as caught:
        check_key_path(t.Ref(name), SCHEMAS, path)
    assert caught.value.code == "schema.key_path"
    assert problem in str(caught.value)


def test_a_path_reads_its_key_from_a_value():
    assert read_path({"order_id": "o1"}, "order_id") == "o1"
    assert read_path({"$tag": "Paid", "$value": {"who": {"id": b"x"}}}, "$value.who.id") == b"x"
    assert read_path("o1", "") == "o1"


@pytest.mark.parametrize("value", [{}, {"order_id": None}, [], None])
def test_a_missing_key_is_refused(value):
    with pytest.raises(Rejected) as caught:
        read_path(value, "order_id")
    assert caught.value.code == "schema.key_missing"


@pytest.mark.parametrize(
    ("document", "value", "expected"),
    [
        ({"text": {}}, "é", "é".encode()),
        ({"text": {}}, "", b""),
        ({"bytes": {}}, b"\x01\x02", b"\x01\x02"),
        ({"int": {}}, 10, b"\x0a"),
        ({"uuid": {}}, bytes(16), b"\x50" + bytes(16)),
        ({"enum": ["a"]}, "a", b"\x61a"),
        ({"tuple": [{"int": {}}, {"text": {}}]}, [1, "a"], b"\x82\x01\x61a"),
    ],
    ids=str,
)
def test_a_key_has_these_bytes(document, value, expected):
    assert key_bytes(value, load(document)) == expected


def test_the_key_of_a_ref_has_the_bytes_of_what_it_leads_to():
    assert key_bytes("x", t.Ref("a/Id@1"), SCHEMAS) == b"x"


def test_a_key_that_does_not_fit_its_schema_is_refused():
    with pytest.raises(Rejected) as caught:
        key_bytes(5, t.Text())
    assert caught.value.code == "schema.mismatch"
