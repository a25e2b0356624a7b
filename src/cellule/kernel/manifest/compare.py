"""What a deploy would change: the differences of two manifests, and whether cells survive them.

Cells outlive manifests. A change is compatible if every cell and every message on its way can go on: pinned
cells keep their era, following ones are read by the new code, keys still lead to the same cells. All that
is not compatible needs a new version, an upcaster or a migration, and a deploy refuses it with these reasons.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from cellule.errors import Rejected
from cellule.kernel.manifest import upcasts
from cellule.kernel.manifest.compare_outside import outside_changes
from cellule.kernel.manifest.model import Manifest, Module, Route
from cellule.kernel.manifest.problems import below
from cellule.values.schema import types as t
from cellule.values.schema.compatibility import Change
from cellule.values.schema.compatibility import compare as compare_schemas

_PLAIN_FIELDS: Final = (
    "kind",
    "style",
    "context",
    "effects_emitted",
    "retention",
    "failure",
    "upgrade",
    "code",
    "cap_slots",
    "open_max",
)


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """All differences between two manifests."""

    changes: tuple[Change, ...]
    removed: tuple[str, ...]  # base names of modules that are no longer there

    @property
    def compatible(self) -> bool:
        """Whether every change is compatible."""
        return all(change.compatible for change in self.changes)

    @property
    def identical(self) -> bool:
        """Whether there is no difference that matters to cells."""
        return not self.changes

    def check_compatible(self) -> None:
        """Raise `Rejected` with all reasons, if a change is not compatible."""
        reasons = [str(change) for change in self.changes if not change.compatible]
        if reasons:
            raise Rejected(
                "manifest.incompatible", "the new manifest does not fit the world's cells: {reasons}",
                reasons="; ".join(reasons), changes=self.changes, removed=self.removed,
            )  # fmt: skip


def compare_manifests(old: Manifest, new: Manifest, inhabited: Collection[str] = ()) -> ManifestChange:
    """List every change from `old` to `new`; `inhabited` are the base names of modules that have cells."""
    comparer = _Comparer(old, new)
    comparer.schemas()
    removed = tuple(base for base in old.modules if base not in new.modules)
    for base in removed:
        comparer.removed(old.modules[base], is_inhabited=base in inhabited)
    for base, module in new.modules.items():
        if base in old.modules:
            comparer.module(old.modules[base], module)
        else:
            comparer.add(_module_path(module), "module added", "new cells may be born")
    comparer.routes()
    comparer.inboxes()
    comparer.upcasters()
    comparer.changes.extend(outside_changes(old, new))
    comparer.extra()
    return ManifestChange(tuple(comparer.changes), removed)


class _Comparer:
    """Collects changes section by section."""

    def __init__(self, old: Manifest, new: Manifest) -> None:
        self.old = old
        self.new = new
        self.changes: list[Change] = []

    def add(self, path: str, what: str, reason: str, *, compatible: bool = True) -> None:
        self.changes.append(Change(path, what, compatible, reason))

    def schemas(self) -> None:
        for name, identity in self.old.schema_ids.items():
            path = below("$.schemas", name)
            if name not in self.new.schema_ids:
                self.add(path, "schema removed", f"{name} is no longer there; older eras keep it")
            elif self.new.schema_ids[name] != identity:
                found = compare_schemas(t.Ref(name), t.Ref(name), self.old.schemas, self.new.schemas)
                for change in found.changes:
                    where = path + change.path.removeprefix("$")
                    self.add(where, change.what, change.reason, compatible=change.compatible)
        for name in self.new.schema_ids:
            if name not in self.old.schema_ids:
                self.add(below("$.schemas", name), "schema added", f"{name} is new")

    def removed(self, module: Module, *, is_inhabited: bool) -> None:
        reason = f"{module.name} is no longer there"
        if is_inhabited:
            reason += ": its cells would get no more events; keep it, or delete them first"
        self.add(_module_path(module), "module removed", reason, compatible=not is_inhabited)

    def module(self, old: Module, new: Module) -> None:
        path = _module_path(new)
        if old.name != new.name:
            self.add(path, "version changed", f"{old.name} became {new.name}")
        self._key(old, new, f"{path}.key")
        self._state(old, new, f"{path}.state")
        if old.log != new.log:
            reason = "a log state and an ordinary one are kept differently: make a new module"
            self.add(f"{path}.log", "log changed", reason, compatible=False)
        self._events(old, new, f"{path}.event")
        for name in _PLAIN_FIELDS:
            if getattr(old, name) != getattr(new, name):
                self.add(f"{path}.{name}", f"{name} changed", f"{name} applies from the next step on")

    def _key(self, old: Module, new: Module, path: str) -> None:
        if old.key is None and new.key is None:
            return
        if old.key is None or new.key is None:
            reason = f"the module was {'un' if old.key is None else ''}keyed: this requires migration"
            self.add(path, "key changed", reason, compatible=False)
            return
        for change in compare_schemas(old.key, new.key, self.old.schemas, self.new.schemas).changes:
            where = path + change.path.removeprefix("$")
            reason = f"{change.reason}; a key schema requires migration to change"
            self.add(where, "key changed", reason, compatible=False)

    def _state(self, old: Module, new: Module, path: str) -> None:
        if old.state == new.state:
            return
        if new.upgrade == "pin":
            reason = f"cells that are there keep {old.state} and their era; new ones have {new.state}"
            self.add(path, "state changed", reason)
            return
        try:
            chain = upcasts.path(self.new, old.state, new.state)
        except Rejected as error:
            self.add(path, "state changed", str(error), compatible=False)
            return
        if chain is None:
            reason = f"cells follow, but no upcaster leads from {old.state} to {new.state}: add one"
            self.add(path, "state changed", reason, compatible=False)
        elif new.log:
            self.add(path, "state changed", "a log state cannot be upcast", compatible=False)
        else:
            steps = " -> ".join([old.state, *(step.new for step in chain)])
            self.add(path, "state changed", f"cells are upcast at their next event: {steps}")

    def _events(self, old: Module, new: Module, path: str) -> None:
        for schema in old.events:
            try:
                if upcasts.to_any(self.new, schema, new.events) is None:
                    reason = f"{schema} is no longer taken: messages of it that still wait need a migration"
                    self.add(path, "event removed", reason)
            except Rejected as error:
                self.add(path, "event ambiguous", str(error), compatible=False)
        for schema in new.events:
            if schema not in old.events:
                self.add(path, "event added", f"{schema} is now taken")

    def routes(self) -> None:
        for event, routes in self.old.routes.items():
            after = {route.base: route for route in self.new.routes.get(event, ())}
            for route in routes:
                self._route(event, route, after.get(route.base))
        for event, routes in self.new.routes.items():
            before = {route.base for route in self.old.routes.get(event, ())}
            for route in routes:
                if route.base not in before:
                    reason = f"{event} now goes to {route.base}"
                    self.add("$.routing.subscriptions", "subscription added", reason)

            if event in self.old.routes and _is_reordered(self.old.routes[event], routes):
                reason = f"{event} now goes to its modules in another order"
                self.add("$.routing.subscriptions", "order changed", reason)

    def _route(self, event: str, old: Route, new: Route | None) -> None:
        path = "$.routing.subscriptions"
        if new is None:
            self.add(path, "subscription removed", f"{event} no longer goes to {old.base}")
        elif old.key_path != new.key_path or old.key_only != new.key_only:
            reason = f"the key of {event} for {old.base} comes from elsewhere: this requires migration"
            self.add(path, "key field changed", reason, compatible=False)

    def inboxes(self) -> None:
        for source in sorted({*self.old.inboxes, *self.new.inboxes}):
            path = below("$.routing.inboxes", source)
            old, new = self.old.inboxes.get(source), self.new.inboxes.get(source)
            if old is None or new is None:
                what = "inbox added" if old is None else "inbox removed"
                self.add(path, what, f"messages from {source} find an inbox only in one of the two")
            elif old.base != new.base:
                self.add(path, "inbox changed", f"messages from {source} now go to {new.base}")
            elif old != new:
                reason = f"the key of messages from {source} comes from elsewhere: this requires migration"
                self.add(path, "key field changed", reason, compatible=False)

    def upcasters(self) -> None:
        before = {(step.old, step.new): step for group in self.old.upcasters.values() for step in group}
        after = {(step.old, step.new): step for group in self.new.upcasters.values() for step in group}
        for ends, step in before.items():
            text = f"the upcaster from {step.old} to {step.new}"
            if ends not in after:
                reason = f"{text} was removed, which cells of older eras may need: keep it"
                self.add("$.upcasters", "upcaster removed", reason, compatible=False)
            elif after[ends] != step:
                self.add("$.upcasters", "upcaster changed", f"{text} has other code")
        for ends in after:
            if ends not in before:
                self.add("$.upcasters", "upcaster added", f"the upcaster from {ends[0]} to {ends[1]} is new")

    def extra(self) -> None:
        for name in sorted({*self.old.extra, *self.new.extra}):
            if self.old.extra.get(name) != self.new.extra.get(name):
                self.add(below("$", name), f"{name} changed", f"{name} of the new manifest apply")


def _is_reordered(old: Sequence[Route], new: Sequence[Route]) -> bool:
    """Tell whether the modules that stayed are served in another order."""
    both = {route.base for route in old} & {route.base for route in new}
    return [route.base for route in old if route.base in both] != [
        route.base for route in new if route.base in both
    ]


def _module_path(module: Module) -> str:
    return below("$.modules", module.name)
