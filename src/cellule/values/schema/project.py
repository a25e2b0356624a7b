"""Projecting a value of a newer, compatible schema onto an older one: drop the fields the older one lacks.

The value must be valid for a schema that `compare` calls compatible with the older one; nothing is checked.
Set items and map keys never differ between compatible schemas, so orders stay as they are.
"""

from __future__ import annotations

from typing import Any

from cellule.values.schema import types as t
from cellule.values.schema.checks import TAG, VALUE
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
