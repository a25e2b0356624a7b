"""Schemas as documents: the JSON and DAG-CBOR form that manifests store.

```
{"text": {}}   {"int": {}, "min": 0}   {"enum": ["paid", "placed"]}   {"ref": "com.acme/Order@1"}
{"list": S}    {"set": S}    {"option": S}    {"tuple": [S, ...]}    {"map": {"key": S, "value": S}}
{"record": {"order_id": S, ...}}    {"variant": {"Placed": S, ...}}
```

One key names the type; bounds stand beside it. Loading checks everything that one document can show and
names the place; what needs other documents (refs, options of options) is checked by `registry`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NoReturn

from cellule.errors import CelluleError, Rejected
from cellule.values.limits import INT_MAX, INT_MIN
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.fault import shown
from cellule.values.schema.types import Schema

DEPTH_MAX = 64
ENTRIES_MAX = 1_000
"""Fields of a record, cases of a variant, values of an enum, items of a tuple."""
NAME_LENGTH_MAX = 128

Document = dict[str, object]

_SCALARS: dict[str, Callable[..., Schema]] = {
    "unit": t.Unit,
    "bool": t.Bool,
    "int": t.Int,
    "float": t.Float,
    "text": t.Text,
    "bytes": t.Bytes,
    "time": t.Time,
    "duration": t.Duration,
    "dec": t.Dec,
    "uuid": t.Uuid,
    "hash": t.Hash,
    "any": t.Any,
}
_NESTED: dict[str, Callable[..., Schema]] = {"list": t.List, "set": t.Set, "option": t.Option}
_STRUCTURED = ("tuple", "map", "record", "variant", "enum", "ref")
_KINDS = (*_SCALARS, *_NESTED, *_STRUCTURED)
_BOUNDS: dict[str, tuple[str, str]] = {
    "int": ("min", "max"),
    "float": ("min", "max"),
    **dict.fromkeys(("text", "bytes", "list", "set", "map"), ("min_length", "max_length")),
}
_KIND_OF: dict[type, str] = {
    **{kind: name for name, kind in (_SCALARS | _NESTED).items() if isinstance(kind, type)},
    t.Tuple: "tuple",
    t.Map: "map",
    t.Record: "record",
    t.Variant: "variant",
    t.Enum: "enum",
    t.Ref: "ref",
}


def to_document(schema: Schema) -> Document:
    """Write `schema` as a document; equal schemas give equal documents."""
    kind = _KIND_OF[type(schema)]
    document: Document = {kind: _body(schema)}
    for bound in _BOUNDS.get(kind, ()):
        value = getattr(schema, bound)
        if value is not None:
            document[bound] = value
    return document


def load(document: object, path: str = "$") -> Schema:
    """Read a document; raises `schema.document_invalid` naming the place and the problem."""
    return _load(document, path, DEPTH_MAX)


def check_label(label: object, what: str, path: str) -> str:
    """Check the name of a field or the tag of a case, and return it."""
    if not isinstance(label, str) or not label or len(label) > NAME_LENGTH_MAX or not label.isprintable():
        _refuse(path, f"{what} must be 1 to {NAME_LENGTH_MAX} printable characters, not {shown(label)}")
    if what == "a field name" and (label.startswith("$") or "." in label):
        _refuse(path, f"the field name {label!r} must not begin with '$' or contain '.', which key paths use")
    return label


def _body(schema: Schema) -> object:
    match schema:
        case t.List(item=item) | t.Set(item=item) | t.Option(item=item):
            return to_document(item)
        case t.Map(key=key, value=value):
            return {"key": to_document(key), "value": to_document(value)}
        case t.Tuple(items=items):
            return [to_document(item) for item in items]
        case t.Record(fields=entries) | t.Variant(cases=entries):
            return {name: to_document(entry) for name, entry in entries}
        case t.Enum(values=values):
            return list(values)
        case t.Ref(name=name):
            return name
        case _:
            return {}


def _load(document: object, path: str, depth: int) -> Schema:
    if depth == 0:
        _refuse(path, f"documents nest at most {DEPTH_MAX} levels")
    if not isinstance(document, Mapping) or not document:
        _refuse(path, f'a schema is a map with one type, like {{"text": {{}}}}, not {shown(document)}')
    kinds = [key for key in document if key in _KINDS]
    if len(kinds) != 1:
        found = ", ".join(repr(key) for key in document)
        _refuse(path, f"exactly one type is needed, found {found}; the types are {', '.join(_KINDS)}")
    kind = kinds[0]
    bounds = _load_bounds(document, kind, path)
    return _load_body(kind, document[kind], bounds, f"{path}.{kind}", depth - 1)


def _load_body(kind: str, body: object, bounds: dict[str, object], path: str, depth: int) -> Schema:
    if kind in _SCALARS:
        if body != {}:
            _refuse(path, f"must be an empty map, not {shown(body)}; bounds stand beside the type")
        return _SCALARS[kind](**bounds)
    if kind in _NESTED:
        return _NESTED[kind](_load(body, path, depth), **bounds)
    match kind:
        case "map":
            if not isinstance(body, Mapping) or set(body) != {"key", "value"}:
                _refuse(path, "must be a map of exactly 'key' and 'value'")
            key, value = (_load(body[part], f"{path}.{part}", depth) for part in ("key", "value"))
            return t.Map(key, value, **bounds)  # type: ignore[arg-type]
        case "tuple":
            items = _load_list(body, path)
            return t.Tuple(tuple(_load(item, f"{path}[{i}]", depth) for i, item in enumerate(items)))
        case "record":
            return t.record(_load_entries(body, "a field name", path, depth))
        case "variant":
            return t.variant(_load_entries(body, "a tag", path, depth))
        case "enum":
            return load_enum(_load_list(body, path), path)
        case _:
            return t.Ref(_load_name(body, path))


def load_enum(values: list[object], path: str) -> t.Enum:
    """Check the values of an enum: distinct, and all texts or all integers in range."""
    texts = [value for value in values if isinstance(value, str)]
    integers = [
        value
        for value in values
        if isinstance(value, int) and not isinstance(value, bool) and INT_MIN <= value <= INT_MAX
    ]
    if len(values) not in (len(texts), len(integers)):
        _refuse(path, "values must be all texts, or all integers of -2^64..2^64-1")
    if len(set(values)) != len(values):
        _refuse(path, "values must be distinct")
    return t.Enum(tuple(sorted(texts)) or tuple(sorted(integers)))


def _load_entries(body: object, what: str, path: str, depth: int) -> dict[str, Schema]:
    if not isinstance(body, Mapping):
        _refuse(path, f"must be a map, not {shown(body)}")
    if len(body) > ENTRIES_MAX or (what == "a tag" and not body):
        _refuse(
            path, f"has {len(body)} entries; allowed are {'1' if what == 'a tag' else '0'} to {ENTRIES_MAX}"
        )
    entries: dict[str, Schema] = {}
    for label, entry in body.items():
        name = check_label(label, what, path)
        entries[name] = _load(entry, f"{path}.{name}", depth)
    return entries


def _load_list(body: object, path: str) -> list[object]:
    if not isinstance(body, list | tuple) or not 1 <= len(body) <= ENTRIES_MAX:
        _refuse(path, f"must be a list of 1 to {ENTRIES_MAX}, not {shown(body)}")
    return list(body)


def _load_name(body: object, path: str) -> str:
    if not isinstance(body, str):
        _refuse(path, f"must be a name like 'com.acme/Order@1', not {shown(body)}")
    try:
        return str(Name.parse(body))
    except CelluleError as error:
        _refuse(path, str(error), cause=error)


def _load_bounds(document: Mapping[str, object], kind: str, path: str) -> dict[str, object]:
    allowed = _BOUNDS.get(kind, ())
    bounds: dict[str, object] = {}
    for key, value in document.items():
        if key == kind:
            continue
        if key not in allowed:
            known = f"; {kind} knows {' and '.join(allowed)}" if allowed else ""
            _refuse(path, f"unknown key {key!r} beside {kind!r}{known}")
        bounds[key] = _load_bound(value, kind, f"{path}.{key}")
    low, high = (bounds.get(name) for name in allowed or ("min", "max"))
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        _refuse(path, f"the lower bound {low} is above the upper bound {high}: no value would fit")
    return bounds


def _load_bound(value: object, kind: str, path: str) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(path, f"must be a number, not {shown(value)}")
    if kind == "float":
        if not math.isfinite(value):
            _refuse(path, "must be finite")
        return float(value) + 0.0
    if not isinstance(value, int) or not INT_MIN <= value <= INT_MAX:
        _refuse(path, f"must be an integer of -2^64..2^64-1, not {shown(value)}")
    if kind != "int" and value < 0:
        _refuse(path, "a length is not negative")
    return value


def _refuse(path: str, problem: str, *, cause: Exception | None = None) -> NoReturn:
    raise Rejected(
        "schema.document_invalid", "Schema document at {path}: {problem}.", path=path, problem=problem
    ) from cause
