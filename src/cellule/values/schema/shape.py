"""Shapes: a schema joined to the Python classes that hold its values. Made by `derive`, read by `generate`.

A schema says what stands on the wire; a shape says in addition which class to check for and to construct,
which attribute a field comes from, and what an absent field becomes. Shapes are never stored.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import msgspec

from cellule.values.schema import types as t
from cellule.values.schema.types import Schema


class Nanoseconds(enum.Enum):
    """What an integer annotated with this counts."""

    TIME = "time"
    DURATION = "duration"


TimeNs = Annotated[int, Nanoseconds.TIME]
"""A time kept as integer nanoseconds since 1970, where the microseconds of `datetime` are too coarse."""

DurationNs = Annotated[int, Nanoseconds.DURATION]
"""A duration kept as integer nanoseconds, where the microseconds of `timedelta` are too coarse."""


class Absent(enum.Enum):
    """Marks a field without a default."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(eq=False, slots=True)
class ScalarShape:
    """A single value; `kind` chooses the statements that convert it, `python` is an enum class or None."""

    schema: Schema
    kind: str
    python: type[enum.Enum] | None = None


@dataclass(eq=False, slots=True)
class SequenceShape:
    """A list, or a tuple of any length; `accepts` are the classes taken, `python` the one made."""

    schema: t.List
    item: Shape
    python: type
    accepts: tuple[type, ...]


@dataclass(eq=False, slots=True)
class SetShape:
    """A set or frozenset."""

    schema: t.Set
    item: Shape
    python: type
    accepts: tuple[type, ...]


@dataclass(eq=False, slots=True)
class TupleShape:
    """A tuple of fixed length."""

    schema: t.Tuple
    items: list[Shape]


@dataclass(eq=False, slots=True)
class MapShape:
    """A dict."""

    schema: t.Map
    key: Shape
    value: Shape


@dataclass(eq=False, slots=True)
class OptionShape:
    """None or the item."""

    schema: t.Option
    item: Shape


@dataclass(frozen=True, eq=False, slots=True)
class FieldShape:
    """One field of a record.

    `nullable`: the attribute may be None, which is absent on the wire. `default`: what an absent field
    becomes (made by calling it if `default_is_factory`); `ABSENT` without one.
    """

    attribute: str
    wire: str
    shape: Shape
    nullable: bool
    default: Any = ABSENT
    default_is_factory: bool = False

    @property
    def is_optional(self) -> bool:
        """Whether the field may be absent on the wire."""
        return self.nullable or self.default is not ABSENT

    @property
    def schema(self) -> Schema:
        """The field's type in the record's schema."""
        return t.Option(self.shape.schema) if self.is_optional else self.shape.schema


@dataclass(eq=False, slots=True)
class RecordShape:
    """A class with named fields; `is_mapping` for a TypedDict, whose values are dicts.

    `annotation` is the class, or its alias with type arguments.
    """

    schema: t.Ref
    python: type
    annotation: Any
    tag: str
    is_mapping: bool = False
    fields: list[FieldShape] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class UnionShape:
    """One of several records, told apart by class here and by tag on the wire."""

    schema: t.Variant
    cases: list[RecordShape]


Shape: TypeAlias = (
    ScalarShape | SequenceShape | SetShape | TupleShape | MapShape | OptionShape | RecordShape | UnionShape
)


def is_hashable(shape: Shape, seen: frozenset[type] = frozenset()) -> bool:
    """Whether values of this shape can stand in a set or be keys of a dict."""
    match shape:
        case ScalarShape(kind=kind):
            return kind != "any"
        case SequenceShape(item=item) | SetShape(item=item):
            return shape.python in {tuple, frozenset} and is_hashable(item, seen)
        case TupleShape(items=items):
            return all(is_hashable(item, seen) for item in items)
        case OptionShape(item=item):
            return is_hashable(item, seen)
        case UnionShape(cases=cases):
            return all(is_hashable(case, seen) for case in cases)
        case RecordShape(python=python, is_mapping=is_mapping, fields=fields):
            if python in seen:
                return True
            inner = seen | {python}
            return (
                not is_mapping
                and _hashes_itself(python)
                and all(is_hashable(each.shape, inner) for each in fields)
            )
        case MapShape():
            return False


def _hashes_itself(python: type) -> bool:
    """Whether objects of the class have a hash; a struct that is not frozen has one that raises."""
    if issubclass(python, msgspec.Struct):
        return python.__struct_config__.frozen or not python.__struct_config__.eq
    return getattr(python, "__hash__", None) is not None
