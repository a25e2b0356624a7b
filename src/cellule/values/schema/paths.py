"""Dotted paths into values: whether one can find something in the values of a schema."""

from __future__ import annotations

from collections.abc import Sequence

from cellule.values.schema import types as t
from cellule.values.schema.registry import Schemas


def leads_to(
    schema: t.Schema, schemas: Schemas, steps: Sequence[str], fits: tuple[type, ...] | None = None
) -> bool:
    """Tell whether a path may find a value of one of these kinds; what is not typed may hold anything.

    A text enum counts as text, which is always among them. Without `fits` any value will do.
    """
    schema = schemas.resolve(schema)
    while isinstance(schema, t.Option):
        schema = schemas.resolve(schema.item)
    if isinstance(schema, t.Any):
        return True
    if not steps:
        return fits is None or isinstance(schema, fits) or (isinstance(schema, t.Enum) and schema.is_text)
    if isinstance(schema, t.Map) and schemas.is_text_keyed(schema):
        return leads_to(schema.value, schemas, steps[1:], fits)
    if not isinstance(schema, t.Record):
        return False
    field = dict(schema.fields).get(steps[0])
    return field is not None and leads_to(field, schemas, steps[1:], fits)
