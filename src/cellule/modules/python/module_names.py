"""How a module's classes are named as schemas, and the check that code and manifest mean the same.

The same `Naming` applied to the author's classes and to the copies in a bundle gives the same schemas; a
manifest stores it beside the code. Where the classes of a bundle say something else than the manifest, the
code is refused when it is loaded, before any value is read with the wrong meaning.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cellule.errors import Rejected
from cellule.modules.python.system import SYSTEM_NAMES
from cellule.values.schema import types as t
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.codec import Codec, codec_for
from cellule.values.schema.derive import Derived, derive
from cellule.values.schema.fields import is_record_class
from cellule.values.schema.registry import Schemas
from cellule.values.schema.shape import (
    MapShape,
    OptionShape,
    RecordShape,
    SequenceShape,
    SetShape,
    Shape,
    TupleShape,
    UnionShape,
)

_EFFECTS: Final = "cellule.effects."


@dataclass(frozen=True, slots=True)
class Naming:
    """Classes are `namespace/ClassName@version`, but for those in `names` and those of built-in effects."""

    namespace: str
    version: int = 1
    names: Mapping[Any, str] = field(default_factory=dict)

    def derived(self, python: Any, full_name: str | None = None) -> Derived[Any]:
        """The schema of a type; `full_name` is what the type as a whole must be called."""
        names = {**SYSTEM_NAMES, **self.names}
        if full_name is not None and is_record_class(typing.get_origin(python) or python):
            names[python] = full_name
        found: Derived[Any] = derive(python, namespace=self.namespace, version=self.version, names=names)
        shared = {record: shared_name(record) for record in record_classes(found.shape) if is_shared(record)}
        if shared:
            names = {**shared, **names}
            found = derive(python, namespace=self.namespace, version=self.version, names=names)
        if full_name is None or found.name == full_name:
            return found
        schemas = found.schemas.merged({full_name: found.schema})
        return Derived(python, full_name, t.Ref(full_name), schemas, found.shape)

    def codec(self, python: Any, schemas: Schemas, full_name: str | None = None) -> Codec[Any]:
        """The codec of a type whose schemas must all be those of the manifest."""
        found = self.derived(python, full_name)
        check_same(found, schemas)
        return codec_for(found)


def is_shared(record: type) -> bool:
    """Whether a class belongs to a built-in effect, and has the same name in every app."""
    return record.__module__.startswith(_EFFECTS)


def shared_name(record: type) -> str:
    """The name of a built-in effect's class: by its package, so that files there may be moved.

    `cellule.http/HttpRequest@1` is the class `HttpRequest` of `cellule.effects.http`.
    """
    package = record.__module__.removeprefix(_EFFECTS).partition(".")[0]
    return f"cellule.{package}/{record.__name__}@1"


def record_classes(shape: Shape) -> set[type]:
    """All record classes that a type holds."""
    found: set[type] = set()
    waiting = [shape]
    while waiting:
        match waiting.pop():
            case RecordShape(python=python, fields=fields):
                if python not in found:
                    found.add(python)
                    waiting += [each.shape for each in fields]
            case SequenceShape(item=item) | SetShape(item=item) | OptionShape(item=item):
                waiting.append(item)
            case TupleShape(items=items):
                waiting += items
            case UnionShape(cases=cases):
                waiting += cases
            case MapShape(key=key, value=value):
                waiting += [key, value]
            case _:
                pass
    return found


def check_same(derived: Derived[Any], schemas: Mapping[str, t.Schema]) -> None:
    """Refuse a type that the manifest does not know, or knows otherwise."""
    for name, schema in derived.schemas.items():
        if name not in schemas:
            raise Rejected(
                "modules.schema_unknown", "{python} is the schema {name}, which the manifest does not have.",
                python=shown_type(derived.python), name=name,
                hint="Declare it: as an event the module takes, or in `@reducer(emits=...)`.",
            )  # fmt: skip
        if schemas[name] != schema:
            raise Rejected(
                "modules.schema_differs", "{python}: its schema {name} is not the one of the manifest.",
                python=shown_type(derived.python), name=name,
                hint="Build the manifest from the same code, or give the changed class a new version.",
            )  # fmt: skip
