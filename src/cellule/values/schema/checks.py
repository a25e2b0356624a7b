"""Functions that check decoded values against schemas and return their canonical form.

Each schema becomes a function that takes a value and returns its canonical form or raises a `Fault`; the
function of a container calls those of its parts. Generated code shares the faults, so all messages read
alike.

Rejected: msgspec wire types. They let 2^64, NaN and duplicate set items pass, and this runs once per foreign
event, next to a JSON parser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from cellule.values import cbor
from cellule.values.cid import Cid
from cellule.values.link import Link
from cellule.values.schema import scalars
from cellule.values.schema import types as t
from cellule.values.schema.fault import (
    Fault,
    duplicate,
    expected,
    key_segment,
    locate,
    mismatch,
    missing_field,
    unknown_field,
    wrong_length,
)
from cellule.values.schema.order import is_single, order_of, pairs_by_encoding
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

Check: TypeAlias = Callable[[Any], Any]

TAG, VALUE = "$tag", "$value"


class Checks:
    """Turns schemas into functions; a ref is looked up when it is called, so it may be recursive."""

    def __init__(self, schemas: Schemas) -> None:
        self.schemas = schemas
        self.named: dict[str, Check] = {}

    def compile(self, schema: Schema) -> Check:
        """Return the function that checks values of `schema`."""
        match schema:
            case t.Ref(name=name):
                return self._ref(name)
            case t.Option(item=item):
                return _option(self.compile(item))
            case t.List(item=item):
                return _list(schema, self.compile(item))
            case t.Set(item=item):
                return _set(schema, self.compile(item), self.schemas)
            case t.Tuple(items=items):
                return _tuple(schema, [self.compile(item) for item in items])
            case t.Map(key=key, value=value):
                make = _text_map if self.schemas.is_text_keyed(schema) else _pair_map
                return make(schema, self.compile(key), self.compile(value), self.schemas)
            case t.Record(fields=fields):
                return _record(
                    {name: (self.compile(field), self.schemas.is_optional(field)) for name, field in fields}
                )
            case t.Variant(cases=cases):
                return _variant(schema, {tag: self.compile(case) for tag, case in cases})
            case _:
                return _scalar(schema)

    def _ref(self, name: str) -> Check:
        if name not in self.named:
            self.named[name] = lambda value: self.named[name](value)  # noqa: PLW0108 - looked up late
            self.named[name] = self.compile(self.schemas[name])
        return self.named[name]


def _scalar(schema: Schema) -> Check:
    match schema:
        case t.Enum(values=values):
            return _enum(schema, frozenset(values))
        case t.Int(min=low, max=high) | t.Float(min=low, max=high):
            read: Check = scalars.ranged if isinstance(schema, t.Int) else scalars.floating
            return read if low is None and high is None else _bounded(schema, read, low, high)
        case t.Text(min_length=low, max_length=high) | t.Bytes(min_length=low, max_length=high):
            read = scalars.text if isinstance(schema, t.Text) else scalars.octets
            return read if low is None and high is None else _sized(schema, read)
        case _:
            return _PLAIN[type(schema)]


def _enum(schema: t.Enum, values: frozenset[str | int]) -> Check:
    kind = str if schema.is_text else int

    def check(value: Any) -> Any:
        if isinstance(value, kind) and not isinstance(value, bool) and value in values:
            return kind(value)
        raise mismatch(expected(schema), value)

    return check


def _bounded(schema: Schema, read: Check, low: float | None, high: float | None) -> Check:
    def check(value: Any) -> Any:
        number = read(value)
        if (low is not None and number < low) or (high is not None and number > high):
            raise mismatch(expected(schema), number)
        return number

    return check


def _sized(schema: Schema, read: Check) -> Check:
    low, high = schema.min_length or 0, schema.max_length  # type: ignore[union-attr]

    def check(value: Any) -> Any:
        content = read(value)
        if len(content) < low or (high is not None and len(content) > high):
            raise wrong_length(expected(schema), len(content))
        return content

    return check


def _any(value: Any) -> Any:
    if value is None:
        raise mismatch(expected(t.Any()), value)
    return _untyped(value)


def _untyped(value: Any) -> Any:
    if value is None or isinstance(value, bool | Link):
        return value
    if isinstance(value, list | tuple):
        return _items(_untyped, value)
    if isinstance(value, Cid):
        raise mismatch("a plain value", value, hint="Wrap the CID in Link to store a link.")
    if isinstance(value, dict):
        return {scalars.text(key): _entry(_untyped, key, item) for key, item in value.items()}
    for kind, read in _BUILTINS:
        if isinstance(value, kind):
            return read(value)
    raise mismatch("a plain value (null, boolean, number, text, bytes, link, list, map)", value)


def _option(item: Check) -> Check:
    def check(value: Any) -> Any:
        return None if value is None else item(value)

    return check


def _items(item: Check, values: Any) -> list[Any]:
    try:
        return [item(value) for value in values]
    except Fault as fault:
        raise locate(fault, item, values) from None


def _entry(check: Check, key: object, value: object) -> Any:
    try:
        return check(value)
    except Fault as fault:
        raise fault.at(key_segment(key)) from None


def _list(schema: t.List, item: Check) -> Check:
    def read(values: Any) -> list[Any]:
        if not isinstance(values, list | tuple):
            raise mismatch(expected(schema), values)
        return _items(item, values)

    return _sized(schema, read)


def _set(schema: t.Set, item: Check, schemas: Schemas) -> Check:
    order, single = order_of(schema.item, schemas), is_single(schema.item, schemas)

    def read(values: Any) -> list[Any]:
        if not isinstance(values, list | tuple | set | frozenset):
            raise mismatch(expected(schema), values)
        items = order(_items(item, values))
        if single:
            repeated = len(set(items)) != len(items)
        else:
            encoded = [cbor.encode(value) for value in items]
            repeated = len(set(encoded)) != len(encoded)
        if repeated:
            raise duplicate("set")
        return items

    return _sized(schema, read)


def _tuple(schema: t.Tuple, items: list[Check]) -> Check:
    def check(values: Any) -> list[Any]:
        if not isinstance(values, list | tuple) or len(values) != len(items):
            raise mismatch(expected(schema), values)
        result = []
        try:
            for item, value in zip(items, values, strict=True):
                result.append(item(value))
        except Fault as fault:
            raise fault.at(len(result)) from None
        return result

    return check


def _text_map(schema: t.Map, key: Check, value: Check, _schemas: Schemas) -> Check:
    def read(values: Any) -> dict[str, Any]:
        if not isinstance(values, dict):
            raise mismatch(expected(schema), values)
        return {_entry(key, name, name): _entry(value, name, item) for name, item in values.items()}

    return _sized(schema, read)


def _pair_map(schema: t.Map, key: Check, value: Check, _schemas: Schemas) -> Check:
    def pair(entry: Any) -> list[Any]:
        if not isinstance(entry, list | tuple) or len(entry) != 2:
            raise mismatch("a pair [key, value]", entry)
        try:
            name = key(entry[0])
        except Fault as fault:
            raise fault.at(0) from None
        try:
            return [name, value(entry[1])]
        except Fault as fault:
            raise fault.at(1) from None

    def read(values: Any) -> list[list[Any]]:
        if not isinstance(values, list | tuple):
            raise mismatch("a map as a list of pairs [key, value]", values)
        pairs = pairs_by_encoding(_items(pair, values))
        if len({cbor.encode(name) for name, _ in pairs}) != len(pairs):
            raise duplicate("map")
        return pairs

    return _sized(schema, read)


def _record(fields: dict[str, tuple[Check, bool]]) -> Check:
    def check(values: Any) -> dict[str, Any]:
        if not isinstance(values, dict):
            raise mismatch("a record", values)
        result = {}
        for name, value in values.items():
            if name not in fields:
                raise unknown_field(name, fields)
            if value is None:
                continue
            try:
                result[name] = fields[name][0](value)
            except Fault as fault:
                raise fault.at(name) from None
        for name, (_, optional) in fields.items():
            if not optional and name not in result:
                raise missing_field(name)
        return result

    return check


def _variant(schema: t.Variant, cases: dict[str, Check]) -> Check:
    def check(value: Any) -> dict[str, Any]:
        tag = variant_tag(value, expected(schema))
        if tag not in cases:
            raise mismatch(f"one of {', '.join(cases)}", tag).at(TAG)
        try:
            return {TAG: tag, VALUE: cases[tag](value.get(VALUE))}
        except Fault as fault:
            raise fault.at(VALUE) from None

    return check


def variant_tag(value: object, allowed: str) -> str:
    """Return the tag of a wrapped variant; `$value` may be missing where it is null."""
    if not isinstance(value, dict) or not isinstance(tag := value.get(TAG), str):
        raise mismatch(allowed, value)
    for name in value:
        if name not in {TAG, VALUE}:
            raise unknown_field(name, (TAG, VALUE))
    return tag


_PLAIN: dict[type, Check] = {
    t.Unit: scalars.unit,
    t.Bool: scalars.boolean,
    t.Time: scalars.ranged,
    t.Duration: scalars.ranged,
    t.Dec: scalars.normal_decimal,
    t.Uuid: lambda value: scalars.uuid_bytes(scalars.uuid_from(value)),
    t.Hash: scalars.link_from,
    t.Any: _any,
}
_BUILTINS: tuple[tuple[type, Check], ...] = (
    (str, scalars.text),
    (int, scalars.ranged),
    (float, scalars.floating),
    (bytes, scalars.octets),
)
