"""What single annotations mean: builtins, enums, literals and the bounds of `msgspec.Meta`.

Everything here is one annotation, one shape; containers, records and unions are put together in `derive`.
"""

from __future__ import annotations

import enum
import math
import typing
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec

from cellule.errors import Rejected
from cellule.values.cid import Cid
from cellule.values.link import Link
from cellule.values.schema import types as t
from cellule.values.schema.document import load_enum
from cellule.values.schema.fields import unsupported
from cellule.values.schema.shape import Nanoseconds, OptionShape, ScalarShape, Shape
from cellule.values.schema.types import Schema
from cellule.values.words import class_name, printed

_SCALARS: dict[Any, tuple[Callable[[], Schema], str]] = {
    None: (t.Unit, "unit"),
    type(None): (t.Unit, "unit"),
    bool: (t.Bool, "bool"),
    int: (t.Int, "int"),
    float: (t.Float, "float"),
    str: (t.Text, "text"),
    bytes: (t.Bytes, "bytes"),
    datetime: (t.Time, "datetime"),
    timedelta: (t.Duration, "timedelta"),
    Decimal: (t.Dec, "decimal"),
    UUID: (t.Uuid, "uuid"),
    Link: (t.Hash, "link"),
    Cid: (t.Hash, "cid"),
}
_HINTS: dict[Any, str] = {
    list: "Say of what, like list[str].",
    dict: "Say of what, like dict[str, int].",
    set: "Say of what, like set[str].",
    frozenset: "Say of what, like frozenset[str].",
    tuple: "Say of what, like tuple[str, ...] or tuple[int, str].",
    object: "Use typing.Any for untyped values.",
    complex: "Use a record of two floats.",
    bytearray: "Use bytes.",
    memoryview: "Use bytes.",
    date: "Use datetime for a moment, or str for a calendar day like '2024-02-29'.",
    time: "Use timedelta since midnight, or str.",
    msgspec.UnsetType: "Use None: an absent field is read as None.",
}
_RECORD_HINT = "Use a msgspec.Struct, a dataclass, a NamedTuple, a TypedDict or a builtin type."


def scalar_shape(annotation: Any, where: str) -> Shape:  # noqa: RET503 - unsupported() never returns
    """Return the shape of a class that is neither a container nor a record."""
    if annotation in _SCALARS:
        schema, kind = _SCALARS[annotation]
        return ScalarShape(schema(), kind)
    if annotation is typing.Any:
        return OptionShape(t.Option(t.Any()), ScalarShape(t.Any(), "any"))
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return enum_shape(annotation, where)
    if isinstance(annotation, typing.TypeVar):
        unsupported(
            where, shown_type(annotation), "its type argument is not given", "Give it, like Box[int]."
        )
    hint = _HINTS.get(annotation, _RECORD_HINT)
    if isinstance(annotation, type) and issubclass(annotation, PurePath):
        hint = "Use str."
    problem = "it is a Pydantic model" if hasattr(annotation, "__pydantic_fields__") else "it has no schema"
    unsupported(where, shown_type(annotation), problem, hint)


def enum_shape(python: type[enum.Enum], where: str) -> Shape:
    """Return the shape of an enum class; its values stand on the wire, not its names."""
    if issubclass(python, enum.Flag):
        unsupported(where, shown_type(python), "flags combine freely", "Use set[...] of an Enum, or int.")
    return ScalarShape(_enum([member.value for member in python], where, python), "enum", python)


def literal_shape(values: list[Any], where: str, annotation: Any) -> Shape:
    """Return the shape of `Literal[...]`."""
    given = [value for value in values if value is not None]
    if not given:
        return ScalarShape(t.Unit(), "unit")
    schema = _enum(list(dict.fromkeys(given)), where, annotation)
    shape = ScalarShape(schema, "literal")
    return shape if len(given) == len(values) else OptionShape(t.Option(schema), shape)


def with_metadata(shape: Shape, metadata: object, where: str) -> Shape:
    """Apply one item of `Annotated` to a shape; foreign metadata has no meaning here."""
    if isinstance(shape, OptionShape):
        item = with_metadata(shape.item, metadata, where)
        return OptionShape(t.Option(item.schema), item)
    if isinstance(metadata, Nanoseconds):
        if not isinstance(shape, ScalarShape) or shape.kind != "int":
            unsupported(where, str(metadata), "only an int counts nanoseconds", "Use TimeNs or DurationNs.")
        return ScalarShape(t.Time() if metadata is Nanoseconds.TIME else t.Duration(), "int")
    if isinstance(metadata, msgspec.Meta):
        return _bounded(shape, metadata, where)
    return shape


def shown_type(annotation: Any) -> str:
    """Write an annotation as its author would."""
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return class_name(annotation)
    return printed(annotation).replace("typing.", "")


def _enum(values: list[Any], where: str, annotation: Any) -> t.Enum:
    if not values:
        unsupported(where, shown_type(annotation), "it has no values", "Give it at least one.")
    try:
        return load_enum(values, where)
    except (Rejected, TypeError) as error:
        unsupported(
            where,
            shown_type(annotation),
            "its values are not all texts or all integers",
            "Use str or int values of one kind.",
            cause=error,
        )


def _bounded(shape: Shape, meta: msgspec.Meta, where: str) -> Shape:
    for name in ("multiple_of", "pattern"):
        if getattr(meta, name) is not None:
            unsupported(
                where, f"Meta({name}=...)", "schemas have no such bound", "Check it in your own code."
            )
    if meta.tz is False:
        unsupported(where, "Meta(tz=False)", "times without a zone name no moment", "Use aware datetimes.")
    bounds = _number_bounds(shape.schema, meta) | _length_bounds(meta)
    if not bounds:
        return shape
    fields = getattr(shape.schema, "__struct_fields__", ())
    if not set(bounds) <= set(fields):
        unsupported(where, str(meta), f"{type(shape.schema).__name__} has no such bound", "Remove it.")
    shape.schema = msgspec.structs.replace(shape.schema, **bounds)
    return shape


def _length_bounds(meta: msgspec.Meta) -> dict[str, Any]:
    given = {"min_length": meta.min_length, "max_length": meta.max_length}
    return {name: bound for name, bound in given.items() if bound is not None}


def _number_bounds(schema: Schema, meta: msgspec.Meta) -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    if meta.ge is not None:
        bounds["min"] = meta.ge
    if meta.gt is not None:
        bounds["min"] = _next(schema, meta.gt, math.inf)
    if meta.le is not None:
        bounds["max"] = meta.le
    if meta.lt is not None:
        bounds["max"] = _next(schema, meta.lt, -math.inf)
    return (
        {name: float(bound) + 0.0 for name, bound in bounds.items()}
        if isinstance(schema, t.Float)
        else bounds
    )


def _next(schema: Schema, bound: float, towards: float) -> float:
    """Turn an exclusive bound into the inclusive one next to it; both kinds of numbers are discrete."""
    if isinstance(schema, t.Int):
        return bound + (1 if towards > 0 else -1)
    return math.nextafter(bound, towards)
