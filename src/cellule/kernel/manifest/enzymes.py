"""The section `enzymes`: entries that the registry of a world has because of its manifest, in their order.

    [{name, module, query, match?, before?, after?, flags?, access?, retry_limit?, backoff?, depth?,
      signals?}]

Here is checked what a document can show: fields, types, and that the module is one of an enzyme. Queries are
parsed, and numbers bounded, where entries are registered: `kernel/heartbeat/entries.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cellule.kernel.manifest import fields as f
from cellule.kernel.manifest.modules import ModuleDraft
from cellule.kernel.manifest.problems import below, near

_NUMBER_MAX: Final = 1 << 53


def load_enzymes(
    scope: f.Scope, path: str, section: object, modules: Mapping[str, ModuleDraft]
) -> tuple[Mapping[str, Any], ...]:
    """All entries, in their order; what is left out stays out."""
    entries = []
    for place, body in f.items_of(scope.problems, path, [] if section is None else section):
        _, found = f.read_entry(_ENZYME, scope, place, body, required=("name", "module", "query"))
        entries.append({name: each for name, each in found.items() if each is not None and each != []})
        base = found["module"]
        enzymes = [name for name, draft in modules.items() if draft.style == "enzyme"]
        if base is not None and base not in enzymes:
            problem = f"{base} is no module of style `enzyme`"
            scope.problems.add(below(place, "module"), "enzyme_module", problem, near(base, enzymes))
    return tuple(entries)


def _query(fields: f.Fields, field: str) -> str | None:
    """A text, which may be empty: the empty query."""
    return "/" if fields.get(field) == "" else f.text(fields, field)


def _names(fields: f.Fields, field: str) -> list[str]:
    found = (f.text_of(fields.problems, path, item) for path, item in fields.items(field))
    return [each for each in found if each is not None]


def _number(fields: f.Fields, field: str) -> int | None:
    found: int | None = f.whole(0, _NUMBER_MAX)(fields, field)
    return found


_ENZYME: Final[f.Table] = {
    "name": f.text, "module": f.text, "query": _query, "match": f.choice("exact", "prefix"),
    "before": _names, "after": _names, "flags": _names, "access": f.choice("ro", "rw", default="rw"),
    "retry_limit": _number, "backoff": _number, "depth": _number, "signals": _number,
}  # fmt: skip
