"""Laws of routing: keys are those of the schema layer, and whatever comes in is routed or refused."""

from __future__ import annotations

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.errors import Rejected
from cellule.kernel.manifest.limits import KEY_BYTES_MAX
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.routes import Router, wrap
from cellule.values import Link, cid_of, decode, encode
from cellule.values.schema import key_bytes, read_path, types, wire_codec

unhurried = settings(deadline=None)
KEYS = {
    "text": ({"text": {}}, st.text(min_size=1, max_size=40)),
    "bytes": ({"bytes": {}}, st.binary(min_size=1, max_size=40)),
    "int": ({"int": {}}, st.integers(-(1 << 64), (1 << 64) - 1)),
    "uuid": ({"uuid": {}}, st.binary(min_size=16, max_size=16)),
    "enum": ({"enum": ["a", "b"]}, st.sampled_from(["a", "b"])),
    "time": ({"time": {}}, st.integers(0, 1 << 62)),
    "hash": ({"hash": {}}, st.binary(max_size=4).map(lambda data: Link(cid_of(data)))),
    "bounded": ({"text": {}, "max_length": 60}, st.text(min_size=1, max_size=40)),
    "tuple": (
        {"tuple": [{"int": {}}, {"text": {}}]}, st.tuples(st.integers(0, 9), st.text(max_size=9)).map(list)),
}  # fmt: skip
PATHS = ("id", "a.id", "a.b.id", "$value.id")


@cache
def manifest_of(kind, path):
    schema = KEYS[kind][0]
    key = {"text": {}} if kind == "bounded" else schema
    inner = schema
    for step in reversed(path.split(".")):
        case = {"record": {step: inner, "other": {"option": {"text": {}}}}}
        inner = {"variant": {"A": inner, "B": inner}} if step == "$value" else case
    return load_manifest({
        "schemas": {"a/E@1": inner},
        "modules": {"a/M@1": {"state": "log", "key": key}, "a/N@1": {"state": "log"}},
        "routing": {"subscriptions": [
            {"event": "a/E@1", "module": "a/M@1", "key_field": path}, {"event": "a/E@1", "module": "a/N@1"},
        ]},
    })  # fmt: skip


@cache
def router_of(kind, path):
    return Router(manifest_of(kind, path))


def event_of(key, path, tag):
    value = key
    for step in reversed(path.split(".")):
        value = {"$tag": tag, "$value": value} if step == "$value" else {step: value, "other": "x"}
    return value


@unhurried
@given(st.sampled_from(sorted(KEYS)), st.sampled_from(PATHS), st.sampled_from("AB"), st.data())
def test_a_routed_key_is_what_the_schema_layer_reads_at_the_path(kind, path, tag, data):
    manifest = manifest_of(kind, path)
    value = event_of(data.draw(KEYS[kind][1]), path, tag)
    checked = wire_codec(types.Ref("a/E@1"), manifest.schemas).check(value)
    key = key_bytes(read_path(checked, path), manifest.modules["a/M"].key, manifest.schemas)
    expected = [("a/M", key), ("a/N", b"")]
    assert router_of(kind, path).route("a/E@1", encode(checked), None) == expected
    assert router_of(kind, path).targets("a/E@1", encode(checked), None) == expected


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 64), (1 << 64) - 1) | st.text(max_size=5)
    | st.binary(max_size=5) | st.text(min_size=500, max_size=520)
    | st.binary(max_size=3).map(lambda data: Link(cid_of(data))),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["id", "a", "b", "$tag", "$value"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@unhurried
@given(
    st.sampled_from(sorted(KEYS)), st.sampled_from(PATHS), ANY.map(encode) | st.binary(max_size=20),
    st.none() | st.binary(max_size=20) | ANY.map(encode),
)  # fmt: skip
def test_a_router_answers_with_keys_or_refuses(kind, path, value, key):
    found, error = routed(router_of(kind, path), value, key)
    if error is not None:
        assert error.code.startswith("routing.")
        assert "a/E@1" in str(error)
    else:
        assert [base for base, _ in found] == ["a/M", "a/N"]
        assert 0 < len(found[0][1]) <= KEY_BYTES_MAX


def routed(router, value, key):
    """The targets, or the refusal; anything else passes through."""
    try:
        return router.route("a/E@1", value, key), None
    except Rejected as error:
        return None, error


@cache
def wrapping():
    return load_manifest({
        "schemas": {
            "a/X@1": {"any": {}}, "a/E@1": {"variant": {"Some-Tag": {"ref": "a/X@1"}, "B": {"unit": {}}}},
        },
        "modules": {"a/M@1": {"state": "log", "event": "a/E@1"}},
        "routing": {"subscriptions": [{"event": "a/X@1", "module": "a/M@1"}]},
    })  # fmt: skip


@unhurried
@given(ANY)
def test_wrapping_bytes_is_encoding_the_wrapped_value(value):
    manifest = wrapping()
    schema, data = wrap(manifest, manifest.modules["a/M"], "a/X@1", encode(value), manifest)
    assert schema == "a/E@1"
    assert data == encode({"$tag": "Some-Tag", "$value": value})
    assert decode(data)["$value"] == value
