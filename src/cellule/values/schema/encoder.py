"""Generated functions from Python objects to wire values, with every check that the encoder does not make.

Ranges of integers, NaN, surrogates and the content of untyped values are left to the encoder, which looks at
them anyway; `Codec` then finds their place.
"""

from __future__ import annotations

from cellule.values.schema import types as t
from cellule.values.schema.checks import TAG, VALUE
from cellule.values.schema.fault import expected
from cellule.values.schema.order import is_single, order_of
from cellule.values.schema.shape import (
    FieldShape,
    MapShape,
    OptionShape,
    RecordShape,
    ScalarShape,
    SequenceShape,
    SetShape,
    Shape,
    TupleShape,
    UnionShape,
)
from cellule.values.schema.source import Source, at_field, guarded, indented, is_kept, kept, look

_CALLS = {
    "datetime": "time_ns",
    "timedelta": "duration_ns",
    "decimal": "decimal_text",
    "uuid": "uuid_bytes",
    "cid": "link_from",
}


class Encoding:
    """Writes the functions `to_N`; `exact` ones refuse subclasses of plain types instead of reading them."""

    def __init__(self, source: Source, *, exact: bool = False) -> None:
        self.source = source
        self.exact = exact

    def function(self, shape: Shape) -> str:
        """Return the name of the function that turns values of `shape` into wire values."""
        return self.source.function("exact" if self.exact else "to", shape, self._body)

    def _body(self, shape: Shape, _name: str) -> list[str]:
        """Write the body for `v`."""
        match shape:
            case ScalarShape():
                return [*self._statements(shape, "v"), "return v"]
            case OptionShape(item=item):
                return ["if v is None: return None", *self._statements(item, "v"), "return v"]
            case SequenceShape():
                return self._sequence(shape)
            case SetShape():
                return self._set(shape)
            case TupleShape():
                return self._tuple(shape)
            case MapShape():
                return self._map(shape)
            case UnionShape():
                return self._union(shape)
            case RecordShape():
                return self._record(shape)

    def _statements(self, shape: Shape, variable: str) -> list[str]:
        """Write the statements that replace `variable` by its wire value."""
        if not isinstance(shape, ScalarShape):
            return [f"{variable} = {self.function(shape)}({variable})"]
        if shape.kind == "enum":
            python = self.source.share("class", shape.python)
            return [
                f"if {variable}.__class__ is not {python}: raise wrong_class({variable}, {python})",
                f"{variable} = {variable}._value_",
            ]
        if shape.kind == "literal":
            return literal(self.source, shape, variable)
        if shape.kind in _CALLS:
            return [f"{variable} = {_CALLS[shape.kind]}({variable})"]
        closer = f"if {kept(shape, variable)}: raise inexact()" if self.exact else look(shape.kind, variable)
        return [closer, *self.source.bounds(shape, variable)]

    def _sequence(self, shape: SequenceShape) -> list[str]:
        return [*self._container(shape), *self._items(shape.item, "return {0}")]

    def _set(self, shape: SetShape) -> list[str]:
        order = self.source.share("order", order_of(shape.schema.item, self.source.schemas))
        return [*self._container(shape), *self._items(shape.item, f"return {order}({{0}})")]

    def _container(self, shape: SequenceShape | SetShape) -> list[str]:
        names = ", ".join(self.source.share("class", each) for each in shape.accepts)
        test = f"v.__class__ is not {names}" if len(shape.accepts) == 1 else f"v.__class__ not in ({names})"
        return [f"if {test}: raise wrong_class(v, {names})", *self.source.bounds(shape, "v")]

    def _items(self, item: Shape, use: str) -> list[str]:
        each = self.function(item)
        convert = guarded([use.format(f"[{each}(x) for x in v]")], f"locate(fault, {each}, v)")
        if not is_kept(item):
            return convert
        return ["for x in v:", f"    if {kept(item, 'x')}: break", f"else: {use.format('v')}", *convert]

    def _tuple(self, shape: TupleShape) -> list[str]:
        names = [f"a{index}" for index in range(len(shape.items))]
        lines = [
            f"if v.__class__ is not tuple or len(v) != {len(names)}:",
            f"    raise mismatch('a tuple of exactly {len(names)}', v)",
            f"{', '.join(names)}, = v",
        ]
        for index, (name, item) in enumerate(zip(names, shape.items, strict=True)):
            lines += guarded(self._statements(item, name), f"fault.at({index})")
        return [*lines, f"return [{', '.join(names)}]"]

    def _map(self, shape: MapShape) -> list[str]:
        lines = ["if v.__class__ is not dict: raise wrong_class(v, dict)", *self.source.bounds(shape, "v")]
        lines += kept_map(self.source, shape)
        loop = [
            "for k, x in v.items():",
            *indented(["n = k", *self._statements(shape.key, "k"), *self._statements(shape.value, "x")]),
        ]
        if self.source.schemas.is_text_keyed(shape.schema):
            loop.append("    r[k] = x")
            return [*lines, "r = {}", "n = None", *guarded(loop, "fault.at(key_segment(n))"), "return r"]
        if is_single(shape.schema.key, self.source.schemas):
            loop.append("    r[k] = x")
            order = self.source.share("order", order_of(shape.schema.key, self.source.schemas))
            start, end = "r = {}", f"return [[k, r[k]] for k in {order}(r)]"
        else:
            loop.append("    r.append([k, x])")
            start, end = "r = []", "return pairs_by_encoding(r)"
        return [*lines, start, "n = None", *guarded(loop, "fault.at(key_segment(n))"), end]

    def _union(self, shape: UnionShape) -> list[str]:
        lines = ["c = v.__class__"]
        for case in shape.cases:
            python, convert = self.source.share("class", case.python), self.function(case)
            lines.append(f"if c is {python}: return {{{TAG!r}: {case.tag!r}, {VALUE!r}: {convert}(v)}}")
        classes = ", ".join(self.source.share("class", case.python) for case in shape.cases)
        return [*lines, f"raise wrong_class(v, {classes})"]

    def _record(self, shape: RecordShape) -> list[str]:
        python = "dict" if shape.is_mapping else self.source.share("class", shape.python)
        lines = [f"if v.__class__ is not {python}: raise wrong_class(v, {python})"]
        if shape.is_mapping:
            fields = self.source.share("fields", frozenset(field.attribute for field in shape.fields))
            lines.append(f"if not v.keys() <= {fields}: unknown(v, {fields})")
        always = [field for field in shape.fields if not field.nullable and not _may_be_missing(shape, field)]
        for index, field in enumerate(always):
            get = _get(shape, field)
            convert = self._statements(field.shape, f"a{index}")
            lines += guarded([f"a{index} = {get}", *convert], at_field(field.attribute))
        entries = ", ".join(f"{field.wire!r}: a{index}" for index, field in enumerate(always))
        lines.append(f"r = {{{entries}}}")
        for field in shape.fields:
            if field not in always:
                lines += self._nullable(shape, field)
        return [*lines, "return r"]

    def _nullable(self, shape: RecordShape, field: FieldShape) -> list[str]:
        convert = [*self._statements(field.shape, "x"), f"r[{field.wire!r}] = x"]
        return [
            f"x = {_get(shape, field)}",
            "if x is not None:",
            *indented(guarded(convert, at_field(field.attribute))),
        ]


def kept_map(source: Source, shape: MapShape) -> list[str]:
    """Write the short way for maps whose keys and values are the same on both sides, in either direction."""
    if not (source.schemas.is_text_keyed(shape.schema) and is_kept(shape.key) and is_kept(shape.value)):
        return []
    return [
        "for k, x in v.items():",
        f"    if {kept(shape.key, 'k')} or {kept(shape.value, 'x')}: break",
        "else: return v",
    ]


def literal(source: Source, shape: ScalarShape, variable: str) -> list[str]:
    """Write the check of a value that must be one of a few texts or integers, in either direction."""
    assert isinstance(shape.schema, t.Enum)
    kind = "str" if shape.schema.is_text else "int"
    values, words = (
        source.share("values", frozenset(shape.schema.values)),
        source.share("words", expected(shape.schema)),
    )
    return [
        f"if {variable}.__class__ is not {kind} or {variable} not in {values}:",
        f"    raise mismatch({words}, {variable})",
    ]


def _get(shape: RecordShape, field: FieldShape) -> str:
    return f"v.get({field.attribute!r})" if shape.is_mapping else f"v.{field.attribute}"


def _may_be_missing(shape: RecordShape, field: FieldShape) -> bool:
    return shape.is_mapping and field.is_optional
