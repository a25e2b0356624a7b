"""How a module's classes are named as schemas, and the check that code and manifest mean the same.

The same `Naming` applied to the author's classes and to the copies in a bundle gives the same schemas; a
manifest stores it beside the code. Where the classes of a bundle say something else than the manifest, the
code is refused when it is loaded, before any value is read with the wrong meaning.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cellule.errors import Rejected
from cellule.modules.python.system import SYSTEM_NAMES
from cellule.values.schema import types as t
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.codec import Codec, codec_for
from cellule.values.schema.derive import Derived, derive
from cellule.values.schema.fields import is_record_class
from cellule.values.schema.registry import Schemas


@dataclass(frozen=True, slots=True)
class Naming:
    """Classes are `namespace/ClassName@version`, but for those in `names`."""

    namespace: str
    version: int = 1
    names: Mapping[Any, str] = field(default_factory=dict)

    def derived(self, python: Any, full_name: str | None = None) -> Derived[Any]:
        """The schema of a type; `full_name` is what the type as a whole must be called."""
        names = {**SYSTEM_NAMES, **self.names}
        if full_name is not None and is_record_class(typing.get_origin(python) or python):
            names[python] = full_name
        found: Derived[Any] = derive(python, namespace=self.namespace, version=self.version, names=names)
        if full_name is None or found.name == full_name:
            return found
        schemas = found.schemas.merged({full_name: found.schema})
        return Derived(python, full_name, t.Ref(full_name), schemas, found.shape)

    def codec(self, python: Any, schemas: Schemas, full_name: str | None = None) -> Codec[Any]:
        """The codec of a type whose schemas must all be those of the manifest."""
        found = self.derived(python, full_name)
        check_same(found, schemas)
        return codec_for(found)


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
