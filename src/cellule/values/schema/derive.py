"""From Python annotations to schemas: `derive(Order, namespace="com.acme")`.

Every class with named fields becomes a named schema `namespace/ClassName@version`; everything else is
written inline. A union of records becomes a variant whose tags are the records' local names. What cannot
be stored, or could be read back as something else, is refused with the field, the annotation and a way out.

Rejected: inlining nested records. Recursive classes need names, and names read more easily.
Rejected: unions of anything (`int | str`). Which member a value came from would depend on its content.
"""

from __future__ import annotations

import collections.abc
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cellule.errors import Rejected
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.annotations import literal_shape, scalar_shape, shown_type, with_metadata
from cellule.values.schema.document import check_label
from cellule.values.schema.fields import RawField, fields_of, is_record_class, substituted, unsupported
from cellule.values.schema.registry import Schemas
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
    is_hashable,
)
from cellule.values.schema.types import Schema

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Derived(Generic[T]):
    """A Python type with its schema: a ref if the type has a name; `schemas` holds all it reaches."""

    python: type[T]
    name: str | None
    schema: Schema
    schemas: Schemas
    shape: Shape


def derive(
    python: type[T],
    *,
    namespace: str,
    version: int = 1,
    name: str | None = None,
    names: Mapping[type, str] | None = None,
) -> Derived[T]:
    """Derive the schema of a Python type.

    `name` is the local name of the whole type (a class has its own; a union or builtin has none without it).
    `names` gives full names (`com.acme/Item@2`) to classes that are not `namespace/ClassName@version`.
    """
    deriver = _Deriver(namespace, version, dict(names or {}))
    if name is not None and is_record_class(typing.get_origin(python) or python):
        deriver.names[python] = deriver.full_name(name)
    shape = deriver.shape(python, shown_type(python))
    deriver.finish()
    schema: Schema = shape.schema
    if name is not None and not isinstance(schema, t.Ref):
        full = deriver.full_name(name)
        deriver.register(full, schema, shown_type(python))
        schema = t.Ref(full)
    full_name = schema.name if isinstance(schema, t.Ref) else None
    return Derived(python, full_name, schema, Schemas(deriver.schemas), shape)


class _Deriver:
    """One walk over annotations; records are memoised before their fields, so they may be recursive."""

    def __init__(self, namespace: str, version: int, names: dict[Any, str]) -> None:
        self.namespace = namespace
        self.version = version
        self.names = names
        self.schemas: dict[str, Schema] = {}
        self.records: dict[Any, RecordShape] = {}
        self.aliases: list[Any] = []
        self.hashed: list[tuple[Shape, str, str]] = []

    def full_name(self, local: str) -> str:
        return str(Name.parse(f"{self.namespace}/{local}@{self.version}"))

    def register(self, name: str, schema: Schema, where: str) -> None:
        if self.schemas.setdefault(name, schema) != schema:
            raise Rejected(
                "schema.name_conflict",
                "{where}: the name {name} is already given to another class with a different schema.",
                where=where,
                name=name,
                hint="Rename one class, or name it with derive(..., names={Class: 'ns/Other@1'}).",
            )

    def finish(self) -> None:
        """Check what needs all records complete: that set items and dict keys can be hashed."""
        for shape, where, annotation in self.hashed:
            if not is_hashable(shape):
                unsupported(
                    where,
                    annotation,
                    "Python cannot hash its items or keys",
                    "Use frozen classes, tuples and frozensets inside sets and as keys.",
                )

    def shape(self, annotation: Any, where: str) -> Shape:
        if hasattr(annotation, "__supertype__"):
            return self.shape(annotation.__supertype__, where)
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if _is_alias(origin or annotation):
            return self.alias(annotation, where)
        if origin is typing.Annotated:
            shape = self.shape(arguments[0], where)
            for metadata in annotation.__metadata__:
                shape = with_metadata(shape, metadata, where)
            return shape
        if origin in {typing.Union, types.UnionType}:
            return self.union(annotation, where)
        if origin is typing.Literal:
            return literal_shape(list(arguments), where, annotation)
        if is_record_class(origin or annotation):
            return self.record(annotation, origin or annotation, where)
        if origin in _CONTAINERS:
            return _CONTAINERS[origin](self, annotation, arguments, where)
        return scalar_shape(annotation, where)

    def alias(self, annotation: Any, where: str) -> Shape:
        if annotation in self.aliases:
            unsupported(
                where,
                shown_type(annotation),
                "the alias contains itself",
                "Make the repeating part a record (a msgspec.Struct or dataclass).",
            )
        self.aliases.append(annotation)
        shape = self.shape(_alias_value(annotation), where)
        self.aliases.pop()
        return shape

    def union(self, annotation: Any, where: str) -> Shape:
        members = _members(annotation)
        given = [member for member in members if member not in {None, type(None)}]
        if not given:
            return scalar_shape(None, where)
        shape = self.alternatives(given, annotation, where)
        if len(given) == len(members) or isinstance(shape, OptionShape):
            return shape
        return OptionShape(t.Option(shape.schema), shape)

    def alternatives(self, members: list[Any], annotation: Any, where: str) -> Shape:
        if len(members) == 1:
            return self.shape(members[0], where)
        if all(typing.get_origin(member) is typing.Literal for member in members):
            values = [value for member in members for value in typing.get_args(member)]
            return literal_shape(values, where, annotation)
        shapes = [self.shape(member, where) for member in members]
        cases = [shape for shape in shapes if isinstance(shape, RecordShape)]
        if len(cases) != len(shapes):
            self.refuse_union(members, annotation, where)
        return self.variant(cases, annotation, where)

    def refuse_union(self, members: list[Any], annotation: Any, where: str) -> None:
        hint = "Wrap each member in a record of its own (a msgspec.Struct or dataclass), or use one type."
        if set(members) == {int, float}:
            hint = "Use float: an integer in a float field is stored as a float."
        unsupported(where, shown_type(annotation), "only unions of records can be told apart", hint)

    def variant(self, cases: list[RecordShape], annotation: Any, where: str) -> Shape:
        classes = {case.python for case in cases}
        if len(classes) != len(cases) or any(case.is_mapping for case in cases):
            unsupported(
                where,
                shown_type(annotation),
                "its members are the same class at run time",
                "Use a class of its own for each member (not TypedDict, not one generic class).",
            )
        by_tag = {case.tag: case for case in cases}
        if len(by_tag) != len(cases):
            unsupported(
                where,
                shown_type(annotation),
                "two members have the same local name, which is their tag",
                "Rename one class, or name it with derive(..., names=...).",
            )
        return UnionShape(t.variant({tag: case.schema for tag, case in by_tag.items()}), cases)

    def record(self, annotation: Any, python: type, where: str) -> Shape:
        if annotation in self.records:
            return self.records[annotation]
        name = self.names.get(annotation) or self.names.get(python) or self.full_name(_local_name(annotation))
        parsed = Name.parse(name)
        shape = RecordShape(t.Ref(str(parsed)), python, annotation, parsed.local, typing.is_typeddict(python))
        self.records[annotation] = shape
        fields = [self.field(raw, python) for raw in fields_of(annotation, python)]
        schemas = {field.wire: field.schema for field in fields}
        if len(schemas) != len(fields):
            unsupported(where, shown_type(annotation), "two fields have the same wire name", "Rename one.")
        shape.fields.extend(fields)
        self.register(shape.schema.name, t.record(schemas), where)
        return shape

    def field(self, raw: RawField, python: type) -> FieldShape:
        where = f"{python.__qualname__}.{raw.attribute}"
        check_label(raw.wire, "a field name", where)
        shape = self.shape(raw.annotation, where)
        nullable = isinstance(shape, OptionShape)
        default, factory = raw.default, raw.default_is_factory
        if nullable and (raw.may_be_missing or (default is not ABSENT and (factory or default is not None))):
            unsupported(
                where,
                f"{shown_type(raw.annotation)} with another default than None",
                "None is stored as an absent field, and would be read back as the default",
                "Default it to None, or do not allow None.",
            )
        if isinstance(shape, ScalarShape) and shape.kind == "unit":
            unsupported(where, "None", "a field that is always None says nothing", "Remove it, or use bool.")
        inner = shape.item if isinstance(shape, OptionShape) else shape
        if raw.may_be_missing:
            default = None
        return FieldShape(raw.attribute, raw.wire, inner, nullable, default, factory)

    def sequence_of(self, annotation: Any, arguments: tuple[Any, ...], where: str) -> Shape:
        item = self.shape(arguments[0], where)
        accepts = (list,) if typing.get_origin(annotation) is list else (list, tuple)
        return SequenceShape(t.List(item.schema), item, list, accepts)

    def tuple_of(self, annotation: Any, arguments: tuple[Any, ...], where: str) -> Shape:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            item = self.shape(arguments[0], where)
            return SequenceShape(t.List(item.schema), item, tuple, (tuple,))
        if not arguments:
            unsupported(where, shown_type(annotation), "an empty tuple says nothing", "Use None.")
        items = [self.shape(argument, where) for argument in arguments]
        return TupleShape(t.Tuple(tuple(item.schema for item in items)), items)

    def set_of(self, annotation: Any, arguments: tuple[Any, ...], where: str) -> Shape:
        item = self.shape(arguments[0], where)
        self.hashed.append((item, where, shown_type(annotation)))
        origin = typing.get_origin(annotation)
        accepts = (origin,) if origin in {set, frozenset} else (set, frozenset)
        return SetShape(t.Set(item.schema), item, accepts[0], accepts)

    def map_of(self, annotation: Any, arguments: tuple[Any, ...], where: str) -> Shape:
        key, value = (self.shape(argument, where) for argument in arguments)
        self.hashed.append((key, where, shown_type(annotation)))
        return MapShape(t.Map(key.schema, value.schema), key, value)


_Container = Callable[[_Deriver, Any, tuple[Any, ...], str], Shape]
_CONTAINERS: dict[Any, _Container] = {
    list: _Deriver.sequence_of,
    collections.abc.Sequence: _Deriver.sequence_of,
    tuple: _Deriver.tuple_of,
    set: _Deriver.set_of,
    frozenset: _Deriver.set_of,
    collections.abc.Set: _Deriver.set_of,
    dict: _Deriver.map_of,
    collections.abc.Mapping: _Deriver.map_of,
    collections.abc.MutableMapping: _Deriver.map_of,
}


def _members(annotation: Any) -> list[Any]:
    """Flatten a union, also through aliases that stand for unions."""
    if _is_alias(typing.get_origin(annotation) or annotation):
        annotation = _alias_value(annotation)
    if typing.get_origin(annotation) not in {typing.Union, types.UnionType}:
        return [annotation]
    return [part for member in typing.get_args(annotation) for part in _members(member)]


def _is_alias(annotation: Any) -> bool:
    """Whether this is a `type X = ...` alias; by name, since Python 3.11 has no such class."""
    return type(annotation).__name__ == "TypeAliasType"


def _alias_value(annotation: Any) -> Any:
    origin = typing.get_origin(annotation)
    if origin is None:
        return annotation.__value__
    arguments = dict(zip(origin.__type_params__, typing.get_args(annotation), strict=False))
    return substituted(origin.__value__, arguments)


def _local_name(annotation: Any) -> str:
    """`Order`, or `Box_int` for `Box[int]`."""
    origin = typing.get_origin(annotation)
    if origin is None or not hasattr(origin, "__name__"):
        return re.sub(r"\W+", "_", str(getattr(annotation, "__name__", annotation))).strip("_")
    return "_".join([origin.__name__, *(_local_name(part) for part in typing.get_args(annotation))])
