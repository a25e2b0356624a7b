"""The section `capabilities`: grants, each saying what a slot that is bound to it may do.

Everything that restricts is optional, and nothing said means no restriction. What is wrong in a grant is
found here and not at the first intent: hosts that are addresses with a path, methods that do not exist,
patterns for params that no effect of the grant has. Deciding about an intent is the business of the beat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from cellule.kernel.manifest.effects import Kinds
from cellule.kernel.manifest.fields import Fields, items_of, named_of, text_of
from cellule.kernel.manifest.limits import BYTES_MAX_MAX, COUNT_MAX
from cellule.kernel.manifest.model import Grant
from cellule.kernel.manifest.problems import Problems, below, near
from cellule.values.hosts import BadHost, host_pattern
from cellule.values.schema import types as t
from cellule.values.schema.fault import shown
from cellule.values.schema.registry import Schemas

_FIELDS: Final = (
    "effects", "hosts", "methods", "allow", "bytes_max", "budget", "expires_ns", "private",
)  # fmt: skip
_is_method = re.compile(r"[A-Z]+", re.ASCII).fullmatch

Check = Callable[[str], str | None]
"""The normal form of a text, or None where it has none."""


def load_grants(
    problems: Problems, path: str, section: object, kinds: Kinds, schemas: Schemas
) -> dict[str, Grant]:
    """All grants by name, sorted."""
    grants: dict[str, Grant] = {}
    for name, place, body in named_of(problems, path, section):
        if text_of(problems, place, name) is not None:
            grants[name] = _GrantReader(problems, place, body, kinds, schemas).grant(name)
    return dict(sorted(grants.items()))


def normal_grants(grants: Mapping[str, Grant]) -> dict[str, Any]:
    """The section of the normal form."""
    return {
        name: {field: part for field, part in grant.as_data().items() if field != "name"}
        for name, grant in grants.items()
    }


class _GrantReader:
    """Reads one entry."""

    def __init__(self, problems: Problems, path: str, body: object, kinds: Kinds, schemas: Schemas) -> None:
        self.problems = problems
        self.fields = Fields(problems, path, body, _FIELDS)
        self.kinds = kinds
        self.schemas = schemas

    def grant(self, name: str) -> Grant:
        fields = self.fields
        fields.required("effects")
        effects = self._effects()
        return Grant(
            name, effects,
            self._texts("hosts", _host, "Write example.org, *.example.org, example.org:8080, example.org:*."),
            self._texts("methods", _method, "Write GET, POST and the like."),
            self._allow(effects), fields.whole("bytes_max", 1, BYTES_MAX_MAX, None), self._budget(),
            fields.positive("expires_ns"), fields.flag("private"),
        )  # fmt: skip

    def _effects(self) -> tuple[str, ...]:
        found: list[str] = []
        for path, item in self.fields.items("effects"):
            kind = text_of(self.problems, path, item)
            if kind is None:
                continue
            if kind in found:
                self.problems.add(path, "duplicate", f"{kind} is listed twice")
            elif kind in self.kinds:
                found.append(kind)
            else:
                self.problems.add(
                    path, "effect_unknown", f"there is no effect {kind}", near(kind, self.kinds)
                )
        if self.fields.get("effects") in ([], ()):
            self.problems.add(self.fields.at("effects"), "length", "a grant without effects grants nothing")
        return tuple(sorted(found))

    def _texts(self, name: str, check: Check, hint: str) -> tuple[str, ...] | None:
        """A list of texts in their normal form, sorted; None where there is none."""
        if self.fields.get(name) is None:
            return None
        found: list[str] = []
        for path, item in self.fields.items(name):
            text = text_of(self.problems, path, item)
            if text is None:
                continue
            normal = check(text)
            if normal is None:
                self.problems.add(path, "grant_entry", f"{shown(text)} is none of {name}", hint)
            elif normal in found:
                self.problems.add(path, "duplicate", f"{normal} is listed twice")
            else:
                found.append(normal)
        return tuple(sorted(found))

    def _allow(self, effects: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        value, place = self.fields.get("allow"), self.fields.at("allow")
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.problems.add(place, "type", f"a map is needed here, not {shown(value)}")
            return {}
        allowed: dict[str, tuple[str, ...]] = {}
        for path, patterns in value.items():
            if not isinstance(path, str):
                self.problems.add(place, "type", f"a path is text, not {shown(path)}")
                continue
            where = below(place, path)
            self._check_path(where, path, effects)
            texts = [
                text_of(self.problems, at, each) for at, each in items_of(self.problems, where, patterns)
            ]
            allowed[path] = tuple(sorted({text for text in texts if text is not None}))
        return dict(sorted(allowed.items()))

    def _check_path(self, where: str, path: str, effects: tuple[str, ...]) -> None:
        """A path has to lead to text in the params of at least one effect of the grant."""
        names = [self.kinds[kind].params for kind in effects]
        if names and not any(_leads_to_text(t.Ref(name), self.schemas, path.split(".")) for name in names):
            text = f"{shown(path)} leads to no text in the params of {', '.join(effects)}"
            self.problems.add(
                where, "grant_path", text, "Name a field of the params, such as url or to.name."
            )

    def _budget(self) -> tuple[int, int] | None:
        value = self.fields.get("budget")
        if value is None:
            return None
        fields = Fields(self.problems, self.fields.at("budget"), value, ("count", "period_ns"))
        fields.required("count")
        fields.required("period_ns")
        count, period = fields.whole("count", 1, COUNT_MAX, None), fields.positive("period_ns")
        return None if count is None or period is None else (count, period)


def _host(text: str) -> str | None:
    try:
        return str(host_pattern(text))
    except BadHost:
        return None


def _method(text: str) -> str | None:
    upper = text.upper()
    return upper if _is_method(upper) else None


def _leads_to_text(schema: t.Schema, schemas: Schemas, steps: list[str]) -> bool:
    """Tell whether a path may find text in a value; what is not typed may hold anything."""
    schema = schemas.resolve(schema)
    while isinstance(schema, t.Option):
        schema = schemas.resolve(schema.item)
    if isinstance(schema, t.Any):
        return True
    if not steps:
        return isinstance(schema, t.Text) or (isinstance(schema, t.Enum) and schema.is_text)
    if isinstance(schema, t.Map) and schemas.is_text_keyed(schema):
        return _leads_to_text(schema.value, schemas, steps[1:])
    if not isinstance(schema, t.Record):
        return False
    field = dict(schema.fields).get(steps[0])
    return field is not None and _leads_to_text(field, schemas, steps[1:])
