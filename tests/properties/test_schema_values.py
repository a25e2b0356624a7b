"""Laws of all schemas and all their values, with both drawn at random."""

from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from cellule.errors import Rejected
from cellule.values import cbor
from cellule.values.cid import Cid, cid_of
from cellule.values.json_view import from_json, to_json
from cellule.values.link import Link
from cellule.values.schema import Schemas, compare, identity, load, project, to_document, wire_codec
from cellule.values.schema import types as t

LABELS = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters="$."),
    min_size=1,
    max_size=4,
)
INTS = st.integers(-(2**64), 2**64 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
LINKS = st.binary(max_size=3).map(lambda data: Link(cid_of(data)))
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3).map(
    lambda number: format(number, "f")
)
BYTES = st.one_of(
    st.binary(max_size=5), st.just(b"\x01\x00\x00\x00"), st.binary(max_size=2).map(cid_of).map(bytes)
)
UNTYPED = st.recursive(
    st.one_of(st.none(), st.booleans(), INTS, FLOATS, TEXTS, BYTES, LINKS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.sampled_from(["/", "//"]), inner, max_size=3)
    ),
    max_leaves=6,
)

TREE = {"record": {"value": {"int": {}}, "kids": {"list": {"ref": "test/Tree@1"}}}}
SCHEMAS = Schemas.load(
    {
        "test/Tree@1": TREE,
        "test/Maybe@1": {"option": {"time": {}}},
        "test/Key@1": {"ref": "test/Text@1"},
        "test/Text@1": {"text": {}},
    }
)

SCALARS = st.sampled_from(
    [
        t.Bool(),
        t.Int(),
        t.Int(min=-2, max=2),
        t.Float(),
        t.Float(min=0.5),
        t.Text(),
        t.Text(max_length=2),
        t.Bytes(),
        t.Bytes(min_length=1, max_length=2),
        t.Time(),
        t.Duration(),
        t.Dec(),
        t.Uuid(),
        t.Hash(),
        t.Any(),
        t.Enum(("a", "b", "ccc")),
        t.Enum((-5, 0, 300)),
        t.Ref("test/Tree@1"),
        t.Ref("test/Key@1"),
    ]
)


def larger(inner):
    """Schemas one level up; `inner` is never a unit or an option."""
    loose = st.one_of(inner, inner.map(t.Option), st.just(t.Unit()), st.just(t.Ref("test/Maybe@1")))
    field = st.one_of(inner, inner.map(t.Option), st.just(t.Ref("test/Maybe@1")))
    return st.one_of(
        loose.map(t.List),
        loose.map(t.Set),
        st.lists(loose, min_size=1, max_size=3).map(lambda items: t.Tuple(tuple(items))),
        st.tuples(loose, loose).map(lambda pair: t.Map(*pair)),
        st.dictionaries(LABELS, field, max_size=3).map(t.record),
        st.dictionaries(LABELS, loose, min_size=1, max_size=3).map(t.variant),
    )


DEFINITE = st.recursive(SCALARS, larger, max_leaves=5)
ANY_SCHEMA = st.one_of(DEFINITE, DEFINITE.map(t.Option), st.just(t.Unit()))


def distinct(items, schema):
    """Keep one of each group of items that have the same canonical form."""
    encode = wire_codec(schema, SCHEMAS).encode
    return list({encode(item): item for item in items}.values())


def values(schema, depth=0):  # noqa: C901 - one line per member of a closed union
    """A strategy of canonical values of `schema`, apart from the order of sets and pairs."""
    schema = SCHEMAS.resolve(schema)
    size = 3 if depth < 4 else 0
    match schema:
        case t.Unit():
            return st.none()
        case t.Bool():
            return st.booleans()
        case t.Int(min=low, max=high):
            return INTS if low is None else st.integers(low, high)
        case t.Float(min=low):
            return FLOATS if low is None else FLOATS.map(lambda number: max(abs(number), low))
        case t.Text(max_length=most):
            return TEXTS if most is None else TEXTS.map(lambda text: text[:most])
        case t.Bytes(max_length=most):
            return BYTES if most is None else st.binary(min_size=1, max_size=most)
        case t.Time() | t.Duration():
            return INTS
        case t.Dec():
            return DECIMALS.map(wire_codec(schema).check)
        case t.Uuid():
            return st.one_of(st.binary(min_size=16, max_size=16), st.just(b"\x01\x71\x12\x0c" + bytes(12)))
        case t.Hash():
            return LINKS
        case t.Any():
            return UNTYPED.filter(lambda value: value is not None)
        case t.Enum(values=members):
            return st.sampled_from(members)
        case t.Option(item=item):
            return st.one_of(st.none(), values(item, depth))
        case t.List() | t.Set() if not size:
            return st.just([])
        case t.List(item=item):
            return st.lists(values(item, depth + 1), max_size=size)
        case t.Set(item=item):
            return st.lists(values(item, depth + 1), max_size=size).map(lambda items: distinct(items, item))
        case t.Tuple(items=items):
            return st.tuples(*(values(item, depth + 1) for item in items)).map(list)
        case t.Map(key=key, value=value) if SCHEMAS.is_text_keyed(schema):
            return st.dictionaries(values(key), values(value, depth + 1), max_size=size)
        case t.Map(key=key, value=value):
            keys = st.lists(values(key, depth + 1), max_size=size).map(lambda names: distinct(names, key))
            pair = values(value, depth + 1)
            return keys.flatmap(
                lambda names: st.tuples(*(st.tuples(st.just(name), pair).map(list) for name in names))
            ).map(list)
        case t.Record(fields=fields):
            entries = {name: values(field, depth + 1) for name, field in fields}
            return st.fixed_dictionaries(entries).map(
                lambda made: {k: v for k, v in made.items() if v is not None}
            )
        case t.Variant(cases=cases):
            return st.sampled_from(cases).flatmap(
                lambda case: values(case[1], depth + 1).map(lambda value: {"$tag": case[0], "$value": value})
            )
        case _:
            raise AssertionError(schema)


SCHEMAS_WITH_VALUES = ANY_SCHEMA.flatmap(lambda schema: st.tuples(st.just(schema), values(schema)))


def shuffled(value, schema, chance):
    """Write `value` in another order wherever order has no meaning."""
    schema = SCHEMAS.resolve(schema)
    match schema:
        case t.Option(item=item):
            return None if value is None else shuffled(value, item, chance)
        case t.Set(item=item) | t.List(item=item):
            items = [shuffled(each, item, chance) for each in value]
            return chance.sample(items, len(items)) if isinstance(schema, t.Set) else items
        case t.Map(key=key, value=item) if isinstance(value, list):
            pairs = [[shuffled(name, key, chance), shuffled(each, item, chance)] for name, each in value]
            return chance.sample(pairs, len(pairs))
        case t.Map(value=item):
            names = chance.sample(sorted(value), len(value))
            return {name: shuffled(value[name], item, chance) for name in names}
        case t.Tuple(items=items):
            return [shuffled(each, item, chance) for each, item in zip(value, items, strict=True)]
        case t.Record(fields=fields):
            types = dict(fields)
            names = chance.sample(sorted(types), len(types))
            return {
                name: None if name not in value else shuffled(value[name], types[name], chance)
                for name in names
            }
        case t.Variant(cases=cases):
            return {
                "$value": shuffled(value["$value"], dict(cases)[value["$tag"]], chance),
                "$tag": value["$tag"],
            }
        case _:
            return value


@given(ANY_SCHEMA)
def test_a_schema_equals_its_document_round_trip_and_keeps_its_identity(schema):
    document = json.loads(json.dumps(to_document(schema)))
    assert load(document) == schema
    assert identity(load(document), SCHEMAS) == identity(schema, SCHEMAS)
    assert isinstance(identity(schema, SCHEMAS), Cid)
    assert compare(schema, load(document), SCHEMAS).identical


@given(SCHEMAS_WITH_VALUES)
def test_checking_is_idempotent_and_the_wire_round_trips(drawn):
    schema, value = drawn
    codec = wire_codec(schema, SCHEMAS)
    canonical = codec.check(value)
    assert repr(codec.check(canonical)) == repr(canonical)
    assert codec.decode(codec.encode(value)) == canonical
    assert cbor.encode(canonical) == codec.encode(value)


@given(SCHEMAS_WITH_VALUES, st.randoms(use_true_random=False))
def test_the_bytes_do_not_depend_on_the_order_in_which_sets_and_maps_were_filled(
    drawn, chance: random.Random
):
    schema, value = drawn
    codec = wire_codec(schema, SCHEMAS)
    assert codec.encode(shuffled(value, schema, chance)) == codec.encode(value)


@given(SCHEMAS_WITH_VALUES)
def test_the_json_view_round_trips_through_text(drawn):
    schema, value = drawn
    canonical = wire_codec(schema, SCHEMAS).check(value)
    view = json.loads(json.dumps(to_json(canonical, schema, SCHEMAS)))
    assert cbor.encode(from_json(view, schema, SCHEMAS)) == cbor.encode(canonical)


@given(UNTYPED)
def test_the_untyped_json_view_round_trips_through_text(value):
    view = json.loads(json.dumps(to_json(value)))
    assert cbor.encode(from_json(view)) == cbor.encode(value)


@given(SCHEMAS_WITH_VALUES)
def test_projecting_onto_the_same_schema_changes_nothing(drawn):
    schema, value = drawn
    canonical = wire_codec(schema, SCHEMAS).check(value)
    assert project(canonical, schema, SCHEMAS) == canonical


def grown(schema):
    """Add an optional field to every record outside sets and keys."""
    match schema:
        case t.Record(fields=fields):
            return t.record({**{name: grown(field) for name, field in fields}, "zz_added": t.Option(t.Int())})
        case t.List(item=item):
            return t.List(grown(item))
        case t.Option(item=item):
            return t.Option(grown(item))
        case t.Tuple(items=items):
            return t.Tuple(tuple(grown(item) for item in items))
        case t.Map(key=key, value=value):
            return t.Map(key, grown(value))
        case t.Variant(cases=cases):
            return t.variant({tag: grown(case) for tag, case in cases})
        case _:
            return schema


@given(ANY_SCHEMA.flatmap(lambda old: st.tuples(st.just(old), values(grown(old)))))
def test_values_of_a_grown_schema_project_onto_valid_values_of_the_old_one(drawn):
    old, value = drawn
    new = grown(old)
    assert compare(old, new, SCHEMAS).compatible
    canonical = wire_codec(new, SCHEMAS).check(value)
    projected = project(canonical, old, SCHEMAS)
    assert wire_codec(old, SCHEMAS).check(projected) == projected


@given(ANY_SCHEMA, ANY_SCHEMA.flatmap(values))
def test_checking_any_value_against_any_schema_either_canonicalises_or_rejects(schema, value):
    codec = wire_codec(schema, SCHEMAS)
    try:
        canonical = codec.check(value)
    except Rejected as error:
        canonical, refused = None, error
    else:
        refused = None
    if refused is None:
        assert codec.check(canonical) == canonical
    else:
        assert refused.code.startswith("schema.")
        assert "$" in str(refused)
