"""The section `schemas`: named documents, loaded and checked as one closed set together with the system's.

A schema that cannot be used is reported and stands in as `any`, so that the others are checked too.
"""

from __future__ import annotations

from collections.abc import Mapping

from cellule.errors import Rejected
from cellule.kernel.manifest.fields import KIND_FIELD, Fields, Scope, name_of, named_of
from cellule.kernel.manifest.limits import PROBLEMS_MAX
from cellule.kernel.manifest.problems import Problems
from cellule.kernel.manifest.system import EFFECTS, SYSTEM_SCHEMAS
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.document import load
from cellule.values.schema.registry import NO_SCHEMAS, Schemas
from cellule.values.schema.types import Schema


def load_schemas(problems: Problems, path: str, section: object) -> Schemas:
    """Load all schemas of the section; the result holds the system's too."""
    found: dict[str, Schema] = {}
    places: dict[str, str] = {}
    for name, place, body in named_of(problems, path, section):
        if not check_own_name(problems, place, name):
            continue
        places[name] = place
        found[name] = _load_one(problems, place, body)
    return _closed(problems, found, places)


def is_receipt(name: str) -> bool:
    """Tell whether a schema's name is one of those that are made for receipts."""
    return name.startswith(EFFECTS)


def check_own_name(problems: Problems, path: str, name: str) -> bool:
    """Tell whether `name` is well formed and free for users to declare; if not, note the problem."""
    if name_of(problems, path, name) is None:
        return False
    if Name.parse(name).is_reserved:
        hint = "Choose a namespace of your own, such as com.acme."
        problems.add(path, "reserved", f"{name} is in the namespace `sys`, which only Cellule declares", hint)
        return False
    return True


def check_kind(fields: Fields, kind: str) -> None:
    """Check the `$kind` of a node, where it is given."""
    if fields.get(KIND_FIELD) not in (None, kind):
        fields.note(KIND_FIELD, "choice", f"the {KIND_FIELD} of this is {kind!r}")


def _load_one(problems: Problems, path: str, body: object) -> Schema:
    document, place = body, path
    if isinstance(body, Mapping) and ("type" in body or KIND_FIELD in body):
        fields = Fields(Scope(problems, NO_SCHEMAS), path, body, ("type", KIND_FIELD))
        check_kind(fields, "defschema")
        fields.required("type")
        if fields.get("type") is None:
            return t.Any()
        document, place = fields.get("type"), fields.at("type")
    try:
        return load(document, place)
    except Rejected as error:
        problems.add(str(error.fields.get("path", place)), "schema", str(error.fields.get("problem", error)))
        return t.Any()


def _closed(problems: Problems, found: dict[str, Schema], places: Mapping[str, str]) -> Schemas:
    """The closed set of all that can be used; each turn of the loop reports and replaces one schema."""
    while True:
        try:
            return Schemas({**SYSTEM_SCHEMAS, **found})
        except Rejected as error:
            name = _name_at_start(str(error.fields["path"]))
            problems.add(places[name], "schema", str(error))
            found[name] = t.Any()
        if len(problems) >= PROBLEMS_MAX:
            return Schemas({**SYSTEM_SCHEMAS, **dict.fromkeys(found, t.Any())})


def _name_at_start(path: str) -> str:
    """The schema's name that a path inside it begins with; it ends with the digits of its version."""
    end = path.index("@") + 1
    while end < len(path) and path[end].isdigit():
        end += 1
    return path[:end]
