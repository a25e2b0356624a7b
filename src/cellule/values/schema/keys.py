"""Keys of cells: the dotted path that finds a key in an event, and the bytes a key has in the ABI.

`order_id` names a field, `$value.note_id` a field inside a variant's value, the empty path the value itself.
A path is checked once against the event's schema, so reading it later cannot fail on a valid value.

    text -> UTF-8        bytes -> as they are        anything else -> DAG-CBOR
"""

from __future__ import annotations

from typing import Any, NoReturn

from cellule.errors import Rejected
from cellule.values.cbor import encode
from cellule.values.schema import types as t
from cellule.values.schema.checks import VALUE
from cellule.values.schema.codec import wire_codec
from cellule.values.schema.compatibility import compare
from cellule.values.schema.registry import NO_SCHEMAS, Schemas
from cellule.values.schema.types import Schema

PATH_SEGMENTS_MAX = 32


def check_key_path(schema: Schema, schemas: Schemas, path: str) -> Schema:
    """Return the schema of the key that `path` finds in every value of `schema`; raises if there is none."""
    segments = path.split(".") if path else []
    if len(segments) > PATH_SEGMENTS_MAX or "" in segments:
        _refuse(path, f"is not 1 to {PATH_SEGMENTS_MAX} names joined by dots")
    key = _walk(schemas.resolve(schema), schemas, segments, path)
    if isinstance(key, t.Option | t.Unit | t.Any):
        _refuse(path, "may be absent or untyped, but every event must have its key")
    return key


def read_path(value: Any, path: str) -> Any:
    """Return what stands at `path` in a wire value; raises `schema.key_missing` if nothing does."""
    current = value
    for segment in path.split(".") if path else ():
        if not isinstance(current, dict) or current.get(segment) is None:
            raise Rejected(
                "schema.key_missing",
                "The value has nothing at {segment} of the key path {path}.",
                segment=segment,
                path=path,
            )
        current = current[segment]
    return current


def key_bytes(value: Any, schema: Schema, schemas: Schemas = NO_SCHEMAS) -> bytes:
    """Return the ABI bytes of a key, after checking it against its schema."""
    checked = wire_codec(schema, schemas).check(value)
    match schemas.resolve(schema):
        case t.Text():
            return str(checked).encode()
        case t.Bytes():
            return bytes(checked)
        case _:
            return encode(checked)


def _walk(schema: Schema, schemas: Schemas, segments: list[str], path: str) -> Schema:
    if not segments:
        return schema
    segment, *rest = segments
    if isinstance(schema, t.Variant) and segment == VALUE:
        return _same_in_all_cases(schema, schemas, rest, path)
    if not isinstance(schema, t.Record):
        _refuse(path, f"has {segment!r} where there is no record")
    field = dict(schema.fields).get(segment)
    if field is None:
        known = ", ".join(name for name, _ in schema.fields) or "none"
        _refuse(path, f"names the field {segment!r}, which does not exist (there are: {known})")
    return _walk(schemas.resolve(field), schemas, rest, path)


def _same_in_all_cases(schema: t.Variant, schemas: Schemas, rest: list[str], path: str) -> Schema:
    first, *others = [(tag, _walk(schemas.resolve(case), schemas, rest, path)) for tag, case in schema.cases]
    for tag, key in others:
        if not compare(first[1], key, schemas).identical:
            _refuse(path, f"leads to different types in the cases {first[0]} and {tag}")
    return first[1]


def _refuse(path: str, problem: str) -> NoReturn:
    raise Rejected("schema.key_path", "The key path {path!r} {problem}.", path=path, problem=problem)
