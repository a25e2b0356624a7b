"""`Schemas`: a closed set of named schemas, checked as a whole when made.

In a `Schemas` every ref leads to a schema of the set, no chain of refs and options runs in a circle, an
option never holds another option or a unit (null could mean two things), and no record field is a unit.
So the rest of the package resolves refs without looking for errors. `identity` names a schema by its content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self, cast

from cellule.errors import Rejected
from cellule.values.cbor import encode
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Value
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.document import Document, load, to_document
from cellule.values.schema.types import Schema


class Schemas(Mapping[str, Schema]):
    """Named schemas whose refs all resolve; immutable.

    >>> shop = Schemas.load({"acme/Tree@1": {"record": {"left": {"option": {"ref": "acme/Tree@1"}}}}})
    >>> shop.resolve(t.Ref("acme/Tree@1")) == shop["acme/Tree@1"]
    True
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, Schema] | None = None) -> None:
        self._entries = dict(entries or {})
        for name, schema in self._entries.items():
            Name.parse(name)
            self.check(schema, name)

    @classmethod
    def load(cls, documents: Mapping[str, object]) -> Self:
        """Load documents by name; raises `schema.document_invalid`, `schema.ref_unknown` and the like."""
        return cls({str(Name.parse(name)): load(document, name) for name, document in documents.items()})

    def documents(self) -> dict[str, Document]:
        """Return all documents by name, sorted."""
        return {name: to_document(self._entries[name]) for name in sorted(self._entries)}

    def __getitem__(self, name: str) -> Schema:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"Schemas({sorted(self._entries)})"

    def resolve(self, schema: Schema) -> Schema:
        """Follow refs until something else stands there."""
        while isinstance(schema, t.Ref):
            schema = self._entries[schema.name]
        return schema

    def merged(self, other: Mapping[str, Schema]) -> Schemas:
        """Return both sets as one; raises `schema.name_conflict` where a name means two things."""
        for name, schema in other.items():
            if self._entries.get(name, schema) != schema:
                raise Rejected(
                    "schema.name_conflict",
                    "The name {name} is given to two different schemas.",
                    name=name,
                    hint="Give one of them another name or version.",
                )
        return Schemas({**self._entries, **other})

    def closure(self, schema: Schema) -> list[str]:
        """Return the sorted names of all schemas that `schema` reaches."""
        reached: set[str] = set()
        waiting = [schema]
        while waiting:
            current = waiting.pop()
            if isinstance(current, t.Ref):
                if current.name in reached:
                    continue
                reached.add(current.name)
                waiting.append(self._entries[current.name])
            waiting.extend(child for _, child in t.children(current))
        return sorted(reached)

    def check(self, schema: Schema, path: str = "$") -> None:
        """Check that `schema` keeps the rules of this module; raises naming the place."""
        waiting = [(path, schema)]
        while waiting:
            path, current = waiting.pop()
            self._check_chain(current, path)
            if isinstance(current, t.Record):
                self._check_fields(current, path)
            waiting.extend((path + segment, child) for segment, child in t.children(current))

    def is_optional(self, field: Schema) -> bool:
        """Whether a record's field of this type may be absent."""
        return isinstance(self.resolve(field), t.Option)

    def is_text_keyed(self, schema: t.Map) -> bool:
        """Whether the map is a map on the wire too, not a list of pairs."""
        key = self.resolve(schema.key)
        return isinstance(key, t.Text) or (isinstance(key, t.Enum) and key.is_text)

    def _check_chain(self, schema: Schema, path: str) -> None:
        """Check the refs and options from here up to the first type that holds a value itself."""
        seen: set[str] = set()
        options = 0
        while isinstance(schema, t.Ref | t.Option):
            if isinstance(schema, t.Option):
                options += 1
                schema = schema.item
                continue
            if schema.name not in self._entries:
                raise Rejected(
                    "schema.ref_unknown",
                    "Schema {path} refers to {name}, which is not defined.",
                    path=path,
                    name=schema.name,
                    hint="Define it beside this schema, or correct the name.",
                )
            if schema.name in seen:
                raise Rejected(
                    "schema.ref_cycle",
                    "Schema {path} refers to itself through {name} with no record or list between.",
                    path=path,
                    name=schema.name,
                )
            seen.add(schema.name)
            schema = self._entries[schema.name]
        if options > 1 or (options and isinstance(schema, t.Unit)):
            raise Rejected(
                "schema.option_ambiguous",
                "Schema {path} is an option of {inner}: null would mean two things.",
                path=path,
                inner="a unit" if options == 1 else "an option",
                hint="Use one option, or a variant with a case for each meaning.",
            )

    def _check_fields(self, schema: t.Record, path: str) -> None:
        for name, field in schema.fields:
            self._check_chain(field, f"{path}.{name}")
            if isinstance(self.resolve(field), t.Unit):
                raise Rejected(
                    "schema.field_unit",
                    "The field {path}.{name} is a unit, which says nothing: null in a field means absent.",
                    path=path,
                    name=name,
                    hint="Leave the field out, or use a bool.",
                )


NO_SCHEMAS = Schemas()


def identity(schema: Schema, schemas: Schemas = NO_SCHEMAS) -> Cid:
    """Return the CID of `schema` and everything it reaches in `schemas`."""
    return cid_of(identity_bytes(schema, schemas))


def identity_bytes(schema: Schema, schemas: Schemas = NO_SCHEMAS) -> bytes:
    """Return the canonical bytes that `identity` hashes."""
    refs = {name: to_document(schemas[name]) for name in schemas.closure(schema)}
    return encode(cast("Value", {"schema": to_document(schema), "refs": refs}))
