"""Generated functions from wire values to Python objects.

A record takes the short way if its whole tree holds only what msgspec reads exactly as we do: one conversion
in C, then a count of fields (see `direct`). Whatever msgspec refuses is read again by the function with all
checks, which finds the place, or accepts what msgspec cannot (a null for a field that has a default).
"""

from __future__ import annotations

import inspect

import msgspec

from cellule.values.schema.checks import TAG, VALUE
from cellule.values.schema.direct import Counts, is_direct
from cellule.values.schema.encoder import kept_map, literal
from cellule.values.schema.fault import expected
from cellule.values.schema.shape import (
    ABSENT,
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
    "datetime": "time_from",
    "timedelta": "duration_from",
    "decimal": "decimal_from",
    "uuid": "uuid_from",
    "cid": "cid_from",
}


class Decoding:
    """Writes the functions `from_N`."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._counts = Counts(source)
        self._direct: dict[int, bool] = {}

    def function(self, shape: Shape) -> str:
        """Return the name of the function that turns wire values of `shape` into Python objects."""
        return self.source.function("from", shape, self._body)

    def _body(self, shape: Shape, name: str) -> list[str]:
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
                return self._short_way(shape, name) if is_direct(shape, self._direct) else self._record(shape)

    def _statements(self, shape: Shape, variable: str) -> list[str]:
        """Write the statements that replace the wire value in `variable` by its Python object."""
        if not isinstance(shape, ScalarShape):
            return [f"{variable} = {self.function(shape)}({variable})"]
        if shape.kind == "literal":
            return literal(self.source, shape, variable)
        if shape.kind == "enum":
            assert shape.python is not None
            members = self.source.share("members", {member.value: member for member in shape.python})
            return [*literal(self.source, shape, variable), f"{variable} = {members}[{variable}]"]
        if shape.kind in _CALLS:
            return [f"{variable} = {_CALLS[shape.kind]}({variable})"]
        return [look(shape.kind, variable), *self.source.bounds(shape, variable)]

    def _sequence(self, shape: SequenceShape) -> list[str]:
        make = "{0}" if shape.python is list else "tuple({0})"
        return [*self._list_check(shape), *self._items(shape.item, make), "return r"]

    def _set(self, shape: SetShape) -> list[str]:
        make = "frozenset({0})" if shape.python is frozenset else "set({0})"
        count = "if len(r) != len(v): raise duplicate('set')"
        return [*self._list_check(shape), *self._items(shape.item, make), count, "return r"]

    def _list_check(self, shape: SequenceShape | SetShape) -> list[str]:
        words = self.source.share("words", expected(shape.schema))
        return [f"if v.__class__ is not list: raise mismatch({words}, v)", *self.source.bounds(shape, "v")]

    def _items(self, item: Shape, make: str) -> list[str]:
        each = self.function(item)
        convert = guarded([f"r = {make.format(f'[{each}(x) for x in v]')}"], f"locate(fault, {each}, v)")
        if not is_kept(item):
            return convert
        return [
            "for x in v:",
            f"    if {kept(item, 'x')}:",
            *indented(convert, 2),
            "        break",
            f"else: r = {make.format('v')}",
        ]

    def _tuple(self, shape: TupleShape) -> list[str]:
        names = [f"a{index}" for index in range(len(shape.items))]
        words = self.source.share("words", expected(shape.schema))
        lines = [
            f"if v.__class__ is not list or len(v) != {len(names)}: raise mismatch({words}, v)",
            f"{', '.join(names)}, = v",
        ]
        for index, (name, item) in enumerate(zip(names, shape.items, strict=True)):
            lines += guarded(self._statements(item, name), f"fault.at({index})")
        return [*lines, f"return ({', '.join(names)},)"]

    def _map(self, shape: MapShape) -> list[str]:
        words = self.source.share("words", expected(shape.schema))
        bounds = self.source.bounds(shape, "v")
        convert = [*self._statements(shape.key, "k"), *self._statements(shape.value, "x"), "r[k] = x"]
        if self.source.schemas.is_text_keyed(shape.schema):
            loop = ["for k, x in v.items():", *indented(["n = k", *convert])]
            return [
                f"if v.__class__ is not dict: raise mismatch({words}, v)",
                *bounds,
                *kept_map(self.source, shape),
                "r = {}",
                "n = None",
                *guarded(loop, "fault.at(key_segment(n))"),
                "return r",
            ]
        pair = "if p.__class__ is not list or len(p) != 2: raise mismatch('a pair [key, value]', p)"
        loop = ["for p in v:", *indented(["n += 1", pair, "k, x = p", *convert])]
        return [
            f"if v.__class__ is not list: raise mismatch({words}, v)",
            *bounds,
            "r = {}",
            "n = -1",
            *guarded(loop, "fault.at(n)"),
            "if len(r) != len(v): raise duplicate('map')",
            "return r",
        ]

    def _union(self, shape: UnionShape) -> list[str]:
        words = self.source.share("words", expected(shape.schema))
        lines = [f"t = variant_tag(v, {words})"]
        for case in shape.cases:
            convert = guarded([f"return {self.function(case)}(v.get({VALUE!r}))"], at_field(VALUE))
            lines += [f"if t == {case.tag!r}:", *indented(convert)]
        return [*lines, f"raise mismatch({words}, t).at({TAG!r})"]

    def _short_way(self, shape: RecordShape, name: str) -> list[str]:
        """Convert in C, then count fields; anything unusual goes to the function with all checks."""
        full = f"full_{name}"
        self.source.lines += [f"def {full}(v):", *indented(self._record(shape)), ""]
        python = self.source.share("class", shape.annotation)
        return [
            f"try: r = convert(v, {python})",
            f"except ValidationError: return {full}(v)",
            *self._counts.lines(shape, "v", f"return {full}(v)", 0),
            "return r",
        ]

    def _record(self, shape: RecordShape) -> list[str]:
        fields = self.source.share("fields", frozenset(field.wire for field in shape.fields))
        required = sum(not field.is_optional for field in shape.fields)
        lines = ["if v.__class__ is not dict: raise mismatch('a record', v)", f"n = {required}"]
        for index, field in enumerate(shape.fields):
            lines += (
                self._optional(field, f"a{index}")
                if field.is_optional
                else self._required(field, f"a{index}")
            )
        lines.append(f"if len(v) != n: unknown(v, {fields})")
        return [*lines, *self._construct(shape)]

    def _required(self, field: FieldShape, variable: str) -> list[str]:
        return [
            f"try: {variable} = v[{field.wire!r}]",
            f"except KeyError: {variable} = None",
            *guarded(self._statements(field.shape, variable), f"field_fault(fault, v, {field.wire!r})"),
        ]

    def _optional(self, field: FieldShape, variable: str) -> list[str]:
        default = "None"
        if field.default is not ABSENT and field.default is not None:
            default = self.source.share("default", field.default) + ("()" if field.default_is_factory else "")
        return [
            f"{variable} = v.get({field.wire!r})",
            f"if {variable} is None: {variable} = {default}",
            "else:",
            *indented(["n += 1", *guarded(self._statements(field.shape, variable), at_field(field.wire))]),
        ]

    def _construct(self, shape: RecordShape) -> list[str]:
        if shape.is_mapping:
            return mapping_result(shape)
        python = self.source.share("class", shape.python)
        kinds = {name: each.kind for name, each in inspect.signature(shape.python).parameters.items()}
        arguments = [
            f"{field.attribute}=a{index}"
            if kinds[field.attribute] is inspect.Parameter.KEYWORD_ONLY
            else f"a{index}"
            for index, field in enumerate(shape.fields)
        ]
        arguments.sort(key=lambda argument: "=" in argument)
        make = f"return {python}({', '.join(arguments)})"
        if issubclass(shape.python, msgspec.Struct) and not hasattr(shape.python, "__post_init__"):
            return [make]
        return [f"try: {make}", f"except Exception as error: raise not_made(error, {python}) from error"]


def mapping_result(shape: RecordShape) -> list[str]:
    """Write the dict of a TypedDict; keys that may be missing are left out where absent."""
    lines = []
    always = []
    for index, field in enumerate(shape.fields):
        if field.nullable or not field.is_optional:
            always.append(f"{field.attribute!r}: a{index}")
        else:
            lines.append(f"if a{index} is not None: r[{field.attribute!r}] = a{index}")
    return [f"r = {{{', '.join(always)}}}", *lines, "return r"]
