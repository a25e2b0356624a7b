"""Whether values of a newer schema can be read by code that knows the older one, and if not, why not.

Adding an optional field is compatible, at any depth except inside set items and map keys, where dropping it
could make two items equal. Everything else needs a new version and an upcaster. Names of refs do not matter,
only what they lead to. `project` drops what the older schema does not know; `completed` adds nulls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cellule.values.schema import types as t
from cellule.values.schema.checks import TAG, VALUE
from cellule.values.schema.fault import expected
from cellule.values.schema.registry import NO_SCHEMAS, Schemas
from cellule.values.schema.types import Schema


def project(value: Any, old: Schema, schemas: Schemas = NO_SCHEMAS) -> Any:
    """Return `value` with only the fields that `old` knows, at every depth; the input is not changed."""
    old = schemas.resolve(old)
    if value is None:
        return None
    match old:
        case t.Option(item=item):
            return project(value, item, schemas)
        case t.Record(fields=fields):
            return {name: project(value[name], field, schemas) for name, field in fields if name in value}
        case t.Variant(cases=cases):
            return {TAG: value[TAG], VALUE: project(value.get(VALUE), dict(cases)[value[TAG]], schemas)}
        case t.List(item=item):
            return [project(each, item, schemas) for each in value]
        case t.Tuple(items=items):
            return [project(each, item, schemas) for each, item in zip(value, items, strict=True)]
        case t.Map(value=item) if isinstance(value, dict):
            return {key: project(each, item, schemas) for key, each in value.items()}
        case t.Map(value=item):
            return [[key, project(each, item, schemas)] for key, each in value]
        case _:
            return value


def completed(value: Any, schema: Schema, schemas: Schemas = NO_SCHEMAS) -> Any:
    """Return `value` with null for every field that it could have, at every depth; the input is not changed.

    What is not a value of the schema is returned as it is.
    """
    schema = schemas.resolve(schema)
    match schema:
        case t.Option(item=item) if value is not None:
            return completed(value, item, schemas)
        case t.Record(fields=fields) if isinstance(value, dict):
            known = {name: completed(value.get(name), field, schemas) for name, field in fields}
            return {**value, **known}
        case t.Variant(cases=cases) if isinstance(value, dict) and value.get(TAG) in dict(cases):
            return {TAG: value[TAG], VALUE: completed(value.get(VALUE), dict(cases)[value[TAG]], schemas)}
        case t.List(item=item) if isinstance(value, list):
            return [completed(each, item, schemas) for each in value]
        case t.Tuple(items=items) if isinstance(value, list) and len(value) == len(items):
            return [completed(each, item, schemas) for each, item in zip(value, items, strict=True)]
        case t.Map(value=item) if isinstance(value, dict):
            return {key: completed(each, item, schemas) for key, each in value.items()}
        case _:
            return value


_ADVICE = "make a new version with an upcaster"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: where, what, whether it is compatible, and the reason in words."""

    path: str
    what: str
    compatible: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences between two schemas."""

    changes: tuple[Change, ...]

    @property
    def compatible(self) -> bool:
        """Whether every change is compatible."""
        return all(change.compatible for change in self.changes)

    @property
    def identical(self) -> bool:
        """Whether there is no change at all."""
        return not self.changes


def compare(
    old: Schema, new: Schema, old_schemas: Schemas = NO_SCHEMAS, new_schemas: Schemas | None = None
) -> Comparison:
    """List every change from `old` to `new`; without `new_schemas` both resolve in `old_schemas`."""
    comparer = _Comparer(old_schemas, old_schemas if new_schemas is None else new_schemas)
    comparer.walk(old, new, "$", fixed="")
    return Comparison(tuple(comparer.changes))


class _Comparer:
    """Walks both schemas side by side; pairs of refs already begun are not walked again."""

    def __init__(self, old_schemas: Schemas, new_schemas: Schemas) -> None:
        self.old_schemas = old_schemas
        self.new_schemas = new_schemas
        self.changes: list[Change] = []
        self.begun: set[tuple[Schema, Schema, bool]] = set()

    def add(self, path: str, what: str, reason: str, *, compatible: bool = False) -> None:
        self.changes.append(Change(path, what, compatible, reason))

    def walk(self, old: Schema, new: Schema, path: str, fixed: str) -> None:
        """Compare one pair; `fixed` names the set or key around it, in which nothing may change."""
        if isinstance(old, t.Ref) or isinstance(new, t.Ref):
            if (old, new, bool(fixed)) in self.begun:
                return
            self.begun.add((old, new, bool(fixed)))
        old, new = self.old_schemas.resolve(old), self.new_schemas.resolve(new)
        if type(old) is not type(new):
            self.retyped(old, new, path)
            return
        match old, new:
            case (t.Record(), t.Record()):
                self.fields(old, new, path, fixed)
            case (t.Variant(), t.Variant()):
                self.cases(old, new, path, fixed)
            case (t.Enum(), t.Enum()):
                self.values(old, new, path)
            case (t.Tuple(), t.Tuple()) if len(old.items) != len(new.items):
                self.add(path, "tuple length changed", self.sizes(len(old.items), len(new.items)))
            case _:
                self.parts(old, new, path, fixed)

    def sizes(self, old: int, new: int) -> str:
        return f"the tuple had {old} items and now has {new}: {_ADVICE}"

    def retyped(self, old: Schema, new: Schema, path: str) -> None:
        if isinstance(new, t.Option):
            self.add(path, "made optional", f"it was required and is now optional: {_ADVICE}")
        elif isinstance(old, t.Option):
            self.add(
                path, "made required", f"it was optional and is now required: keep it optional, or {_ADVICE}"
            )
        else:
            reason = f"the type changed from {expected(old)} to {expected(new)}: {_ADVICE}"
            self.add(path, "type changed", reason)

    def parts(self, old: Schema, new: Schema, path: str, fixed: str) -> None:
        """Compare bounds, then the parts of containers, which have the same number on both sides."""
        if expected(old) != expected(new) and not isinstance(old, t.Option):
            reason = f"the bounds changed from {expected(old)} to {expected(new)}: {_ADVICE}"
            self.add(path, "bounds changed", reason)
        for (segment, before), (_, after) in zip(t.children(old), t.children(new), strict=True):
            where = path if segment == "?" else path + segment
            self.walk(before, after, where, _fixed(old, segment) or fixed)

    def fields(self, old: t.Record, new: t.Record, path: str, fixed: str) -> None:
        before, after = dict(old.fields), dict(new.fields)
        for name, field in old.fields:
            if name in after:
                self.walk(field, after[name], f"{path}.{name}", fixed)
            else:
                reason = f"field `{name}` was removed: keep it, or {_ADVICE}"
                self.add(f"{path}.{name}", "field removed", reason)
        for name, field in new.fields:
            if name not in before:
                self.added(name, f"{path}.{name}", fixed, optional=self.new_schemas.is_optional(field))

    def added(self, name: str, path: str, fixed: str, *, optional: bool) -> None:
        if optional and not fixed:
            reason = f"field `{name}` was added as optional: older code does not see it"
            self.add(path, "optional field added", reason, compatible=True)
        elif optional:
            reason = f"field `{name}` was added inside {fixed}; without it two could be equal: {_ADVICE}"
            self.add(path, f"field added inside {fixed}", reason)
        else:
            reason = f"field `{name}` was added as required: add it as optional or {_ADVICE}"
            self.add(path, "required field added", reason)

    def cases(self, old: t.Variant, new: t.Variant, path: str, fixed: str) -> None:
        before, after = dict(old.cases), dict(new.cases)
        for tag, case in old.cases:
            if tag in after:
                self.walk(case, after[tag], f"{path}<{tag}>", fixed)
            else:
                self.add(f"{path}<{tag}>", "case removed", f"case `{tag}` was removed: keep it, or {_ADVICE}")
        for tag in after:
            if tag not in before:
                reason = f"case `{tag}` was added, which older code does not know: {_ADVICE}"
                self.add(f"{path}<{tag}>", "case added", reason)

    def values(self, old: t.Enum, new: t.Enum, path: str) -> None:
        for value in old.values:
            if value not in new.values:
                self.add(path, "value removed", f"value {value!r} was removed: keep it, or {_ADVICE}")
        for value in new.values:
            if value not in old.values:
                reason = f"value {value!r} was added, which older code does not know: {_ADVICE}"
                self.add(path, "value added", reason)


def _fixed(schema: Schema, segment: str) -> str:
    if isinstance(schema, t.Set):
        return "the items of a set"
    return "the keys of a map" if segment == ".key" else ""
