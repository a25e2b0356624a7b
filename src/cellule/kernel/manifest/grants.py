"""The section `capabilities`: grants, each saying what a slot that is bound to it may do.

Everything that restricts is optional, and nothing said means no restriction. What is wrong in a grant is
found here and not at the first intent: hosts that are addresses with a path, methods that do not exist,
patterns for params that no effect of the grant has. Deciding about an intent is the business of the beat.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from cellule.kernel.manifest import fields as f
from cellule.kernel.manifest.limits import BYTES_MAX_MAX, COUNT_MAX
from cellule.kernel.manifest.model import Grant, GrantBudget
from cellule.kernel.manifest.problems import below, near
from cellule.values.hosts import BadHost, host_pattern
from cellule.values.schema import types as t
from cellule.values.schema.fault import shown
from cellule.values.schema.paths import leads_to

BY_CELL: Final = "cell"
"""A budget of each cell; any other text is a path into the params."""

_is_method = re.compile(r"[A-Z]+", re.ASCII).fullmatch


def load_grants(scope: f.Scope, path: str, section: object) -> dict[str, Grant]:
    """All grants by name, sorted."""
    grants: dict[str, Grant] = {}
    for name, place, body in f.named_of(scope.problems, path, section):
        if f.text_of(scope.problems, place, name) is None:
            continue
        fields, found = f.read_entry(_GRANT, scope, place, body, required=("effects",))
        if fields.get("effects") in ([], ()):
            fields.note("effects", "length", "a grant without effects grants nothing")
        for pattern in found["allow"]:
            _check_path(fields, pattern, found["effects"])
        budget = found["budget"]
        if budget is not None:
            known = budget["count"] is not None and budget["period_ns"] is not None
            found["budget"] = (
                GrantBudget(budget["count"], budget["period_ns"], budget["by"]) if known else None
            )
            if budget["by"] not in (None, BY_CELL):
                _check_path(fields, budget["by"], found["effects"], "budget", "by", is_counted=True)
        grants[name] = Grant(name, **found)
    return dict(sorted(grants.items()))


def _kind(fields: f.Fields, path: str, kind: str) -> str | None:
    kinds = fields.scope.kinds or {}
    if kind not in kinds:
        fields.problems.add(path, "effect_unknown", f"there is no effect {kind}", near(kind, kinds))
    return kind if kind in kinds else None


def _texts(what: str, normal: Callable[[str], str | None], hint: str) -> f.Reader:
    """A list of texts in their normal form; None where there is none, which is no restriction."""

    def check(fields: f.Fields, path: str, given: str) -> str | None:
        found = normal(given)
        if found is None:
            fields.problems.add(path, "grant_entry", f"{shown(given)} is none of {what}", hint)
        return found

    read = f.distinct(check)
    return lambda fields, name: None if fields.get(name) is None else read(fields, name)


def _host(given: str) -> str | None:
    try:
        return str(host_pattern(given))
    except BadHost:
        return None


def _method(given: str) -> str | None:
    return given.upper() if _is_method(given.upper()) else None


def _allow(fields: f.Fields, name: str) -> dict[str, tuple[str, ...]]:
    """Patterns by path into the params."""
    problems, place, value = fields.problems, fields.at(name), fields.get(name)
    allowed: dict[str, tuple[str, ...]] = {}
    for path, patterns in f.map_of(problems, place, {} if value is None else value).items():
        if not isinstance(path, str):
            problems.add(place, "type", f"a path is text, not {shown(path)}")
            continue
        texts = [
            f.text_of(problems, at, each) for at, each in f.items_of(problems, below(place, path), patterns)
        ]
        first, dot, rest = path.partition(".")
        name = f"{first}{dot}{rest.lower()}" if first == "headers" else path  # names of headers have no case
        if name in allowed:
            problems.add(below(place, path), "duplicate", f"{shown(path)} is named already", "Name it once.")
        allowed[name] = tuple(sorted({each for each in texts if each is not None}))
    return dict(sorted(allowed.items()))


_GRANT: Final[f.Table] = {
    "effects": f.distinct(_kind),
    "hosts": _texts("hosts", _host, "Write example.org, *.example.org, example.org:8080, example.org:*."),
    "methods": _texts("methods", _method, "Write GET, POST and the like."),
    "allow": _allow,
    "bytes_max": f.whole(1, BYTES_MAX_MAX),
    "budget": f.entry(("count", "period_ns"), count=f.whole(1, COUNT_MAX), period_ns=f.positive, by=f.text),
    "expires_ns": f.positive,
    "private": f.flag,
}


def _check_path(
    fields: f.Fields, path: str, effects: tuple[str, ...], part: str = "allow", last: str = "", *,
    is_counted: bool = False,
) -> None:  # fmt: skip
    """A path has to lead to text, or to what can be counted, in the params of an effect of the grant."""
    kinds, schemas = fields.scope.kinds or {}, fields.scope.schemas
    params = [t.Ref(kinds[kind].params) for kind in effects]
    fits = (t.Text, t.Int, t.Uuid, t.Bytes) if is_counted else (t.Text,)
    if params and not any(leads_to(each, schemas, path.split("."), fits) for each in params):
        wanted = "text, number or id" if is_counted else "text"
        fields.note(
            part, "grant_path", f"{shown(path)} leads to no {wanted} in the params of {', '.join(effects)}",
            "Name a field of the params, such as url or to.name.", at=below(fields.at(part), last or path),
        )  # fmt: skip
