"""Laws of manifests: one identity for one meaning, and only Cellule's errors for anything else."""

from __future__ import annotations

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.errors import Rejected
from cellule.kernel.manifest.compare import compare_manifests
from cellule.kernel.manifest.load import load_manifest
from cellule.values import decode

unhurried = settings(deadline=None)
SCALARS = [{"text": {}}, {"bytes": {}}, {"int": {}}, {"uuid": {}}]
NAMES = [f"m/M{n}@{n + 1}" for n in range(4)]
EVENTS = [f"e/E{n}@1" for n in range(4)]


@st.composite
def documents(draw):
    """Valid documents: a few events with a key each, a few modules, some of them keyed."""
    key = draw(st.sampled_from(SCALARS))
    fields = {"id": key, "note": {"option": {"text": {}}}}
    schemas = {name: {"record": fields} for name in EVENTS} | {"s/S@1": {"record": {"n": {"int": {}}}}}
    keyed = {name: draw(st.booleans()) for name in draw(st.sets(st.sampled_from(NAMES), min_size=1))}
    modules = {}
    for name in sorted(keyed):
        modules[name] = {
            "state": "s/S@1", "failure": draw(st.sampled_from(["halt", "skip"])),
            "style": draw(st.sampled_from(["reducer", "workflow", "plan", "fsm"])),
            "effects_emitted": draw(st.lists(st.sampled_from(["a.b", "c.d"]), unique=True)),
            "context": draw(st.booleans()),
        }  # fmt: skip
        if keyed[name]:
            modules[name]["key"] = key
    pairs = draw(st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from(sorted(keyed))), unique=True))
    subscriptions = [
        {"event": event, "module": module} | ({"key_field": "id"} if keyed[module] else {})
        for event, module in pairs
    ]
    document = {"schemas": schemas, "modules": modules, "routing": {"subscriptions": subscriptions}}
    return document | draw(outsides(subscriptions, key))


@st.composite
def outsides(draw, subscriptions, key):
    """Sections about the outside that fit: effects that modules list, grants, rules, schedules."""
    if draw(st.booleans()):
        return {}
    schemas = st.sampled_from(["s/S@1", *EVENTS])
    effects = {
        kind: {
            "params": draw(schemas), "receipt": draw(schemas), "attempts": draw(st.integers(1, 9)),
            "needs_grant": draw(st.booleans()),
        }
        for kind in ("a.b", "c.d")
    }  # fmt: skip
    grants = {
        name: {
            "effects": draw(st.lists(st.sampled_from(["a.b", "c.d"]), unique=True, min_size=1)),
            "hosts": draw(st.lists(st.sampled_from(["a.org", "*.b.org", "c:80"]), unique=True)),
        }
        for name in draw(st.sets(st.sampled_from(["g", "h"])))
    }
    rules = [
        {"name": name, "when": draw(st.sampled_from(["true", "effect.kind == 'a.b'"])), "then": "deny"}
        for name in draw(st.lists(st.sampled_from(["r", "q"]), unique=True))
    ]
    events = sorted({route["event"] for route in subscriptions})
    value = {"id": {"text": "t", "bytes": b"b", "int": 5, "uuid": bytes(16)}[next(iter(key))]}
    schedules = {
        name: {"every_ns": draw(st.integers(1, 9)), "event": event, "value": value}
        for name, event in zip(draw(st.lists(st.sampled_from("xy"), unique=True)), events, strict=False)
    }
    policy = {"rules": rules, "default": draw(st.sampled_from(["allow", "deny"]))}
    return {"effects": effects, "capabilities": grants, "policy": policy, "schedules": schedules}


def shuffled(value, random):
    """The same value with all map keys in another order."""
    if isinstance(value, list):
        return [shuffled(item, random) for item in value]
    if not isinstance(value, dict):
        return value
    keys = list(value)
    random.shuffle(keys)
    return {key: shuffled(value[key], random) for key in keys}


def aliased(document, random):
    """The same manifest, written with aliases wherever there is one, and with lists of nodes."""
    modules = []
    for name, module in document["modules"].items():
        inside = {key: module[key] for key in ("state", "effects_emitted", "context")}
        outside = {key: part for key, part in module.items() if key not in inside and key != "key"}
        if "key" in module and random.random() < 0.5:
            outside["key_schema"] = module["key"]
        elif "key" in module:
            outside["key"] = module["key"]
        modules.append({"$kind": "defmodule", "name": name, **outside, "abi": {"reducer": inside}})
    random.shuffle(modules)
    routes = [
        {"reducer" if key == "module" else key: part for key, part in entry.items()}
        for entry in document["routing"]["subscriptions"]
    ]
    schemas = [
        {"$kind": "defschema", "name": name, "type": part} for name, part in document["schemas"].items()
    ]
    random.shuffle(schemas)
    aliases = {"capabilities": "caps", "policy": "policies"}
    rest = {
        aliases.get(name, name): part
        for name, part in document.items()
        if name not in ("schemas", "modules", "routing")
    }
    kinds = {"$kind": "manifest", "schemas": schemas, "modules": modules, "routing": {"events": routes}}
    return {**kinds, **rest}


@unhurried
@given(documents(), st.randoms(use_true_random=False))
def test_neither_order_of_map_keys_nor_aliases_change_the_identity(document, random):
    manifest = load_manifest(document)
    assert load_manifest(shuffled(document, random)) == manifest
    assert load_manifest(aliased(document, random)) == manifest
    assert load_manifest(manifest.data) == manifest
    assert load_manifest(shuffled(decode(manifest.data), random)) == manifest


@unhurried
@given(documents(), documents())
def test_manifests_are_alike_exactly_if_they_have_one_identity(one, other):
    first, second = load_manifest(one), load_manifest(other)
    assert compare_manifests(first, first).identical
    assert compare_manifests(first, second).identical == (first.cid == second.cid or is_same(one, other))


def is_same(one, other):
    """Whether two documents differ only in the order among subscriptions of different events."""
    routes = [document["routing"]["subscriptions"] for document in (one, other)]
    by_event = [{event: [r for r in each if r["event"] == event] for event in EVENTS} for each in routes]
    parts = [load_manifest({**document, "routing": {}, "schedules": {}}).data for document in (one, other)]
    schedules = [document.get("schedules", {}) for document in (one, other)]
    return by_event[0] == by_event[1] and parts[0] == parts[1] and schedules[0] == schedules[1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(NAMES + EVENTS),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["state", "key", "event", "module", "key_field", "abi", "reducer", "record", "text", "ref",
                 "code", "retention", "ttl_ns", "$kind", "name", "type", "source", "effects", "hosts",
                 "allow", "budget", "rules", "when", "then", "cron", "every_ns", "value", "params",
                 "receipt", "a.b", *NAMES, *EVENTS]
            ) | st.text(max_size=3),
            inner, max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip
SECTIONS = st.sampled_from(
    [
        "schemas",
        "modules",
        "routing",
        "upcasters",
        "triggers",
        "effects",
        "capabilities",
        "policy",
        "schedules",
        "format",
        "plans",
    ]
)


@unhurried
@given(st.dictionaries(SECTIONS | st.text(max_size=4), JSON, max_size=5))
def test_any_document_is_a_manifest_or_is_refused_with_its_problems(document):
    manifest, error = loaded(document)
    if error is None:
        assert load_manifest(manifest.data) == manifest
    else:
        assert error.code == error.fields["problems"][0][1]
        assert all(path.startswith("$") for path, _, _ in error.fields["problems"])
        assert str(error)


@unhurried
@given(documents(), st.data())
def test_one_broken_place_is_refused_or_harmless(document, data):
    document = copy.deepcopy(document)
    places = list(_places(document))
    container, key = places[data.draw(st.integers(0, len(places) - 1))]
    container[key] = data.draw(JSON)
    manifest, error = loaded(document)
    assert manifest is not None or error.code.startswith("manifest.")


@unhurried
@given(st.binary(max_size=60))
def test_bytes_are_a_manifest_or_refused(data):
    manifest, _ = loaded(data)
    assert manifest is None or manifest.data == data


def loaded(document):
    """The manifest, or the refusal; anything else passes through."""
    try:
        return load_manifest(document), None
    except Rejected as error:
        return None, error


def _places(value):
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, part in entries:
        yield value, key
        yield from _places(part)
