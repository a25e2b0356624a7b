"""The JSON view of values for people and programs, and back: `from_json(to_json(x)) == x`.

Both functions deal in JSON data (what a JSON parser gives), not in JSON text. With a schema, values look
natural: times as RFC 3339, durations as `1h30m`, bytes as base64, links as CID text. Without one, as DAG-
JSON:

    link    {"/": "bafy..."}            bytes   {"/": {"bytes": "base64, unpadded"}}
    a map whose only key is "/", "//", ... gets one more slash, so that it is not taken for these

Integers stay integers of any size; a typed integer beyond 2^53 may also be given as text. Untyped, a float is
told from an integer by its JSON text (1.0 and 1), which the parser must keep.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias
from uuid import UUID

from cellule.errors import CelluleError
from cellule.values.cid import Cid
from cellule.values.link import Link
from cellule.values.schema import types as t
from cellule.values.schema.checks import TAG, VALUE, variant_tag
from cellule.values.schema.codec import too_deep, wire_codec
from cellule.values.schema.fault import Fault, expected, mismatch
from cellule.values.schema.registry import NO_SCHEMAS, Schemas
from cellule.values.schema.text_forms import duration_of_text, duration_text, time_of_text, time_text
from cellule.values.schema.types import Schema
from cellule.values.sealed_value import ERASED

Json: TypeAlias = Any

INT_EXACT_MAX = 2**53 - 1
"""The largest integer that every JSON reader holds exactly."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LARGE_INT = re.compile(r"-?[1-9][0-9]{15,19}")
_UNTYPED = t.Option(t.Any())


def to_json(value: Any, schema: Schema | None = None, schemas: Schemas = NO_SCHEMAS) -> Json:
    """Return the JSON view of a valid wire value; without `schema`, as DAG-JSON."""
    return _show(value, schema or _UNTYPED, schemas)


def from_json(view: Json, schema: Schema | None = None, schemas: Schemas = NO_SCHEMAS) -> Any:
    """Read a JSON view and return the canonical wire value; raises `Rejected` naming the path."""
    codec = wire_codec(schema or _UNTYPED, schemas)
    try:
        value = _read(view, schema or _UNTYPED, schemas)
    except Fault as fault:
        raise fault.rejected(codec.name) from fault.__cause__
    except RecursionError:
        raise too_deep(codec.name) from None
    return codec.check(value)


def _show(value: Any, schema: Schema, schemas: Schemas) -> Json:
    schema = schemas.resolve(schema)
    if value is None:
        return None
    if value is ERASED:
        return {"erased": True}
    match schema:
        case t.Option(item=item):
            return _show(value, item, schemas)
        case t.List(item=item) | t.Set(item=item):
            return [_show(each, item, schemas) for each in value]
        case t.Tuple(items=items):
            return [_show(each, item, schemas) for each, item in zip(value, items, strict=True)]
        case t.Map(value=item) if isinstance(value, dict):
            return {key: _show(each, item, schemas) for key, each in value.items()}
        case t.Map(key=key, value=item):
            return [[_show(name, key, schemas), _show(each, item, schemas)] for name, each in value]
        case t.Record(fields=fields):
            return {name: _show(value[name], field, schemas) for name, field in fields if name in value}
        case t.Variant(cases=cases):
            return {TAG: value[TAG], VALUE: _show(value.get(VALUE), dict(cases)[value[TAG]], schemas)}
        case _:
            show = _SHOWN.get(type(schema))
            return show(value) if show else value


def _read(view: Json, schema: Schema, schemas: Schemas) -> Any:
    """Turn what looks different in JSON into its wire form; whether it fits is checked afterwards."""
    schema = schemas.resolve(schema)
    if view is None:
        return None
    match schema:
        case t.Option(item=item):
            return _read(view, item, schemas)
        case t.List(item=item) | t.Set(item=item) if isinstance(view, list):
            return _read_each((item for _ in view), view, schemas)
        case t.Tuple(items=items) if isinstance(view, list) and len(view) == len(items):
            return _read_each(items, view, schemas)
        case t.Map() if isinstance(view, dict) and schemas.is_text_keyed(schema):
            return {key: _read_at(key, each, schema.value, schemas) for key, each in view.items()}
        case t.Map(key=key, value=item) if isinstance(view, list):
            return _read_each((t.Tuple((key, item)) for _ in view), view, schemas)
        case t.Record(fields=fields) if isinstance(view, dict):
            types = dict(fields)
            return {
                name: _read_at(name, each, types[name], schemas) if name in types else each
                for name, each in view.items()
            }
        case t.Variant(cases=cases):
            return _read_variant(view, schema, dict(cases), schemas)
        case _:
            read = _READ.get(type(schema))
            return read(view) if read else view


def _read_each(items: Iterable[Schema], views: list[Json], schemas: Schemas) -> list[Any]:
    return [
        _read_at(index, view, item, schemas)
        for index, (view, item) in enumerate(zip(views, items, strict=True))
    ]


def _read_at(segment: str | int, view: Json, schema: Schema, schemas: Schemas) -> Any:
    try:
        return _read(view, schema, schemas)
    except Fault as fault:
        raise fault.at(segment) from fault.__cause__


def _read_variant(view: Json, schema: t.Variant, cases: dict[str, Schema], schemas: Schemas) -> Any:
    tag = variant_tag(view, expected(schema))
    if tag not in cases:
        return view
    return {TAG: tag, VALUE: _read_at(VALUE, view.get(VALUE), cases[tag], schemas)}


class ByteText(str):
    """Bytes as base64, which remembers them: programs read the one, people are shown the text they may be."""

    __slots__ = ("raw",)
    raw: bytes

    @classmethod
    def of(cls, raw: bytes) -> ByteText:
        """The base64 of these bytes."""
        text = cls(base64.b64encode(raw).decode())
        text.raw = raw
        return text


def _show_untyped(value: Any) -> Json:
    match value:
        case Link():
            return {"/": str(value.cid)}
        case bytes():
            return {"/": {"bytes": base64.b64encode(value).decode().rstrip("=")}}
        case list() | tuple():
            return [_show_untyped(each) for each in value]
        case dict():
            escape = "/" if _is_slashes(value) else ""
            return {key + escape: _show_untyped(each) for key, each in value.items()}
        case _:
            return value


def _read_untyped(view: Json) -> Any:
    match view:
        case list():
            return [_read_at_untyped(index, each) for index, each in enumerate(view)]
        case {"/": special, **rest} if not rest:
            return _read_special(special)
        case dict():
            if not all(isinstance(key, str) for key in view):
                raise mismatch("a map with text keys", view)
            cut = -1 if _is_slashes(view) else None
            return {key[:cut]: _read_at_untyped(key, each) for key, each in view.items()}
        case _:
            return view


def _read_at_untyped(segment: str | int, view: Json) -> Any:
    try:
        return _read_untyped(view)
    except Fault as fault:
        raise fault.at(segment) from fault.__cause__


def _is_slashes(value: dict[str, Any]) -> bool:
    """Whether the map has one key, of slashes only: the shape that links and bytes take."""
    if len(value) != 1:
        return False
    (key,) = value
    return key != "" and not key.strip("/")


def _read_special(special: Json) -> Any:
    match special:
        case str():
            return _read_link(special)
        case {"bytes": str() as text, **rest} if not rest:
            return _read_bytes(text)
        case _:
            hint = 'Write a map whose only key is "/" with one more slash: {"//": ...}.'
            raise mismatch('{"/": CID} or {"/": {"bytes": base64}}', special, hint=hint)


def _read_bytes(text: Json) -> bytes:
    if isinstance(text, str):
        bare = text.rstrip("=")
        try:
            data = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
        except (binascii.Error, ValueError):
            data = None
        if data is not None and base64.b64encode(data).decode().rstrip("=") == bare:
            return data
    raise mismatch("bytes as base64 text", text)


def _read_link(text: Json) -> Link:
    if not isinstance(text, str):
        raise mismatch("a link as CID text", text)
    try:
        return Link(Cid.parse(text))
    except CelluleError as error:
        raise mismatch("a link as CID text", text) from error


def _read_uuid(text: Json) -> bytes:
    if isinstance(text, str) and _UUID.fullmatch(text):
        return UUID(text).bytes
    raise mismatch("a UUID as text", text)


def _read_int(view: Json) -> Any:
    """Accept text for integers that many JSON readers would round."""
    if isinstance(view, str) and _LARGE_INT.fullmatch(view) and abs(int(view)) > INT_EXACT_MAX:
        return int(view)
    return view


_SHOWN: dict[type, Callable[[Any], Json]] = {
    t.Any: _show_untyped,
    t.Bytes: ByteText.of,
    t.Dec: str,
    t.Duration: duration_text,
    t.Hash: lambda value: str(value.cid),
    t.Time: time_text,
    t.Uuid: lambda value: str(UUID(bytes=value)),
}
_READ: dict[type, Callable[[Json], Any]] = {
    t.Any: _read_untyped,
    t.Bytes: _read_bytes,
    t.Duration: duration_of_text,
    t.Hash: _read_link,
    t.Int: _read_int,
    t.Time: time_of_text,
    t.Uuid: _read_uuid,
}
