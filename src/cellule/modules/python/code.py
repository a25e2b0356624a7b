"""What a manifest stores as the `code` of a Python module or upcaster.

    {kind: "python", bundle: link, entry: "shop.orders:order", namespace: "com.acme", schema_version: 1,
     names?: {"shop.models:OrderV1": "com.acme/Order@1"}, form?: "workflow"}

`namespace`, `schema_version` and `names` say how the bundle's classes are named as schemas. Code that runs
live, without a bundle, has the kind "python-live" and no bundle: no other process can run it. `form` says
what kind of function it is: a reducer, where it is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NoReturn

from cellule.errors import Rejected
from cellule.values.cid import Cid
from cellule.values.link import Link

PYTHON: Final = "python"
LIVE: Final = "python-live"
REDUCER: Final = "reducer"
_FIELDS: Final = {"kind", "bundle", "entry", "namespace", "schema_version", "names", "form"}


@dataclass(frozen=True, slots=True)
class PythonCode:
    """The `code` of a manifest entry, read."""

    kind: Literal["python", "python-live"]
    entry: str
    namespace: str
    schema_version: int = 1
    names: Mapping[str, str] = field(default_factory=dict)  # schema names by "module:qualified.name"
    bundle: Cid | None = None
    form: str = REDUCER

    def document(self) -> dict[str, Any]:
        """The map that stands in the manifest."""
        parts: dict[str, Any] = {
            "kind": self.kind, "entry": self.entry, "namespace": self.namespace,
            "schema_version": self.schema_version,
        }  # fmt: skip
        if self.names:
            parts["names"] = dict(self.names)
        if self.form != REDUCER:
            parts["form"] = self.form
        if self.bundle is not None:
            parts["bundle"] = Link(self.bundle)
        return parts


def read_code(code: Mapping[str, Any], what: str) -> PythonCode:
    """Read the code of a module or upcaster; raises `modules.code_invalid` naming the field."""
    kind = code.get("kind")
    if kind != PYTHON and kind != LIVE:
        _refuse(what, f"its kind is {kind!r}, not {PYTHON!r}")
    unknown = set(code) - _FIELDS
    if unknown:
        _refuse(what, f"it has unknown fields: {', '.join(sorted(unknown))}")
    entry, namespace, version = (
        read_entry(code, what), code.get("namespace"), code.get("schema_version", 1),
    )  # fmt: skip
    if not isinstance(namespace, str) or type(version) is not int:
        _refuse(what, "its namespace is not text or its schema_version no number")
    names = code.get("names", {})
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        _refuse(what, "its names are not schema names by class")
    bundle = code.get("bundle")
    if (kind == PYTHON) != isinstance(bundle, Link):
        _refuse(what, "its bundle is not a link" if kind == PYTHON else "live code has no bundle")
    form = code.get("form", REDUCER)
    if not isinstance(form, str):
        _refuse(what, "its form is not text")
    cid = bundle.cid if isinstance(bundle, Link) else None
    return PythonCode(kind, entry, namespace, version, names, cid, form)


def read_entry(code: Mapping[str, Any], what: str) -> str:
    """The entry: the module and the name of a function in it."""
    entry = code.get("entry")
    if not isinstance(entry, str) or not all(entry.partition(":")):
        _refuse(what, "its entry is not text like 'shop.orders:order'")
    return entry


def _refuse(what: str, problem: str) -> NoReturn:
    raise Rejected("modules.code_invalid", "the code of {what}: {problem}.", what=what, problem=problem)
