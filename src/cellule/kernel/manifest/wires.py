"""The sections `routing` and `upcasters`: what goes where, as read.

Here is checked that what an entry names exists; whether events and keys fit their modules is in `fitting.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.manifest import fields as f
from cellule.kernel.manifest import upcasts
from cellule.kernel.manifest.model import Route, Upcaster
from cellule.kernel.manifest.modules import ModuleDraft
from cellule.kernel.manifest.problems import Problems, near
from cellule.kernel.manifest.system import FABRIC_MESSAGE
from cellule.values.schema import types as t
from cellule.values.schema.keys import check_key_path
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

_KEY_FIELDS: Final = ("module", "key_field", "key_only")
_ALIASES: Final = {"reducer": "module"}
_UPCASTER: Final[f.Table] = {"from": f.schema, "to": f.schema, "code": f.opaque_map}


@dataclass(slots=True)
class RouteDraft:
    """A subscription or inbox as read."""

    path: str
    key_place: str
    event: str
    module: ModuleDraft
    key_field: str | None
    key_only: bool

    def route(self) -> Route:
        """The finished route."""
        steps = tuple(self.key_field.split(".")) if self.key_field else ()
        return Route(self.module.base, steps, self.key_only)

    def normal(self) -> dict[str, Any]:
        """The fields of the normal form that subscriptions and inboxes share."""
        parts = {"module": self.module.name, "key_field": self.key_field, "key_only": self.key_only}
        return {name: part for name, part in parts.items() if part}


class WiringReader:
    """Reads the sections that connect schemas and modules."""

    def __init__(self, scope: f.Scope, modules: Mapping[str, ModuleDraft]) -> None:
        self.scope = scope
        self.problems = scope.problems
        self.modules = modules
        self._names = {draft.name: draft for draft in modules.values()}

    def subscriptions(self, routing: f.Fields) -> list[RouteDraft]:
        """The subscriptions in their order."""
        drafts: list[RouteDraft] = []
        places: dict[tuple[str, str], str] = {}
        for path, item in routing.items("subscriptions"):
            fields = f.Fields(self.scope, path, item, ("event", *_KEY_FIELDS), _ALIASES)
            fields.required("event")
            event = f.schema(fields, "event")
            draft = self._route(fields, event or "")
            if draft is None or event is None:
                continue
            earlier = places.setdefault((draft.event, draft.module.base), path)
            if earlier == path:
                drafts.append(draft)
                continue
            self.problems.add(
                path, "duplicate", f"{draft.event} already goes to {draft.module.name} by {earlier}",
                "A module gets an event once; emit further events for further cells.",
            )  # fmt: skip
        return drafts

    def inboxes(self, routing: f.Fields) -> dict[str, RouteDraft]:
        """The inboxes by source."""
        drafts: dict[str, RouteDraft] = {}
        section, place = routing.get("inboxes"), routing.at("inboxes")
        for source, path, body in f.named_of(self.problems, place, section, "source"):
            draft = self._route(f.Fields(self.scope, path, body, _KEY_FIELDS, _ALIASES), FABRIC_MESSAGE)
            if not source:
                self.problems.add(path, "length", "the source of an inbox is not empty")
            elif draft is not None:
                drafts[source] = draft
        return drafts

    def _route(self, fields: f.Fields, event: str) -> RouteDraft | None:
        key_only, key_field = f.flag(fields, "key_only"), f.text(fields, "key_field")
        if key_only and key_field is not None:
            problem = "the key comes from `key_field` or the sender, not both"
            fields.note("key_only", "key_only", problem, "Leave one of the two out.")
        fields.required("module")
        module = self._module(fields.at("module"), fields.get("module"))
        if module is None:
            return None
        return RouteDraft(fields.path, fields.at("key_field"), event, module, key_field, key_only)

    def _module(self, path: str, value: object) -> ModuleDraft | None:
        """The module that a route names, with or without its version."""
        name = None if value is None else f.name_of(self.problems, path, value, bare=True)
        if name is None:
            return None
        found = self._names.get(name) or self.modules.get(name)
        if found is None:
            hint = near(name, self._names)
            self.problems.add(path, "module_unknown", f"there is no module {name}", hint)
        return found

    def upcasters(self, root: f.Fields) -> dict[str, tuple[Upcaster, ...]]:
        """The upcasters by the schema they start from, sorted."""
        found: dict[tuple[str, str], Upcaster] = {}
        for path, item in root.items("upcasters"):
            _, row = f.read_entry(_UPCASTER, self.scope, path, item, required=("from", "to"))
            old, new = row["from"], row["to"]
            if old is None or new is None:
                continue
            if (old, new) in found:
                self.problems.add(path, "duplicate", f"there are two upcasters from {old} to {new}")
            found[old, new] = Upcaster(old, new, row["code"])
        grouped: dict[str, tuple[Upcaster, ...]] = {}
        for _, upcaster in sorted(found.items()):
            grouped[upcaster.old] = (*grouped.get(upcaster.old, ()), upcaster)
        circle = upcasts.cycle(grouped)
        if circle is not None:
            problem = f"upcasters run in a circle: {' -> '.join([*circle, circle[0]])}"
            root.note("upcasters", "upcast_cycle", problem)
            return {}
        return grouped


def key_at(problems: Problems, place: str, event: str, path: str, schemas: Schemas) -> Schema | None:
    """The schema of what stands at `path` in every event, or a problem."""
    try:
        return check_key_path(t.Ref(event), schemas, path)
    except Rejected as error:
        problem = error.fields.get("problem", error)
        problems.add(place, "key_field", f"the path {path!r} into {event} {problem}")
        return None
