"""Whether what is routed fits: events to modules, keys to key schemas. Completes the drafts of modules.

A module takes the event schemas it declares, the members of the variant it declares (then wrapped), and
what upcasters turn into one of these; a module that declares none takes whatever is subscribed to it.
A module has one key. If it does not declare the key's schema, that of its subscriptions' key fields is it.

Rejected: requiring every key path to lead to exactly the module's key schema. Bounds often differ between
events; the router checks such keys one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cellule.errors import Rejected
from cellule.kernel.manifest import upcasts
from cellule.kernel.manifest.modules import ModuleDraft
from cellule.kernel.manifest.problems import Problems, below
from cellule.kernel.manifest.system import CASCADE_STOPPED, STEP_FAILED, WORLD_STARTED
from cellule.kernel.manifest.wires import RouteDraft, key_at
from cellule.values.schema import types as t
from cellule.values.schema.checks import VALUE
from cellule.values.schema.compatibility import compare
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema


class Fitting:
    """Fits routes to modules; every misfit becomes a problem."""

    def __init__(self, problems: Problems, schemas: Schemas, edges: upcasts.Edges) -> None:
        self.problems = problems
        self.schemas = schemas
        self.edges = edges

    def fit(
        self, modules: Iterable[ModuleDraft], subscriptions: Sequence[RouteDraft],
        inboxes: Sequence[RouteDraft],
    ) -> None:  # fmt: skip
        """Complete the modules by their routes, and check that events and keys fit."""
        routes, modules = [*subscriptions, *inboxes], list(modules)
        for module in modules:
            self._declare_events(module)
        for route in routes:
            self._take(route)
        for route in routes:
            self._fit_key(route)
        for route in routes:
            self._check_key(route)
        for module in modules:
            self._check_whole(module)
        self._check_shared(subscriptions)
        self._check_system(modules, subscriptions)

    def _check_system(self, modules: Iterable[ModuleDraft], routes: Sequence[RouteDraft]) -> None:
        """Check that what Cellule itself sends has a key wherever its route looks for one."""
        unkeyed = [module.name for module in modules if module.key is None or not module.cell_mode]
        for route in routes:
            if route.event not in (STEP_FAILED, CASCADE_STOPPED, WORLD_STARTED):
                continue
            problem = ""
            if route.key_only:
                problem = "is sent by Cellule, which gives no key"
            elif route.key_field == "key" and unkeyed:
                problem = f"has an empty key where it is about {unkeyed[0]}, which has none"
            elif route.key_field == "text":
                problem = "has a text of up to 4,000 characters, which is no key"
            if problem:
                self.problems.add(
                    route.path, "system_key", f"{route.event} {problem}",
                    "Route it by `module`, or to a module without a key.",
                )  # fmt: skip

    def _declare_events(self, module: ModuleDraft) -> None:
        """Fill in what the module takes by its own declaration."""
        module.events = dict.fromkeys(module.event)
        variant = self._variant(module)
        if variant is None:
            return
        module.wrapped = module.event[0]
        for tag, case in variant.cases:
            if isinstance(case, t.Ref) and self._tags(module, case.name) == [tag]:
                module.events.setdefault(case.name, tag)

    def _variant(self, module: ModuleDraft) -> t.Variant | None:
        """The variant that the module declares as its one event."""
        if len(module.event) != 1:
            return None
        schema = self.schemas.resolve(t.Ref(module.event[0]))
        return schema if isinstance(schema, t.Variant) else None

    def _tags(self, module: ModuleDraft, event: str) -> list[str]:
        """The tags under which the module's variant holds `event`."""
        variant = self._variant(module)
        return [] if variant is None else [tag for tag, case in variant.cases if case == t.Ref(event)]

    def _take(self, route: RouteDraft) -> None:
        """Check that the module takes the route's event."""
        module, event = route.module, route.event
        if event in module.events:
            return
        if not module.event:
            module.events[event] = None
            return
        tags = self._tags(module, event)
        if len(tags) > 1:
            text = f"{module.event[0]} holds {event} as {' and as '.join(tags)}: which one is not clear"
            self.problems.add(route.path, "wrap_ambiguous", text)
            return
        try:
            if upcasts.chain(self.edges, event, module.events) is not None:
                return
        except Rejected as error:
            self.problems.add(route.path, "upcast_ambiguous", str(error))
            return
        self.problems.add(
            route.path, "event_not_taken",
            f"{module.name} does not take {event}; it takes {', '.join(module.events)}",
            "Add it to the module's `event`, or add an upcaster.",
        )  # fmt: skip

    def _fit_key(self, route: RouteDraft) -> None:
        """Check the route's key path against the module's key, or infer the latter."""
        module = route.module
        if route.key_field is None:
            return
        if module.unkeyed:
            text = f"{module.name} has no key, so none is looked for"
            self.problems.add(route.key_place, "key_field_unexpected", text)
            return
        route.key_field = self._unwrapped_path(route, route.key_field)
        found = key_at(self.problems, route.key_place, route.event, route.key_field, self.schemas)
        if found is None:
            return
        if module.key is None:
            module.key = found
        elif not is_same_kind(module.key, found, self.schemas):
            text = f"{route.key_field!r} of {route.event} has another type than the key of {module.name}"
            self.problems.add(route.key_place, "key_mismatch", text)

    def _unwrapped_path(self, route: RouteDraft, path: str) -> str:
        """Read `$value.x` of an event that is wrapped on delivery as what it is before: `x`."""
        head, _, rest = path.partition(".")
        is_wrapped = route.module.events.get(route.event) is not None
        inner = self.schemas.resolve(t.Ref(route.event))
        return rest if is_wrapped and rest and head == VALUE and not isinstance(inner, t.Variant) else path

    def _check_key(self, route: RouteDraft) -> None:
        """Check that a key is found exactly where the module has one."""
        module = route.module
        if module.key is None:
            if route.key_only:
                self.problems.add(
                    below(route.path, "key_only"), "key_only", f"{module.name} has no key",
                    "Declare the module's `key`, or leave `key_only` out.",
                )  # fmt: skip
        elif route.key_only and not module.cell_mode:
            self.problems.add(
                below(route.path, "key_only"), "key_only",
                f"{module.name} is one cell for all keys, which finds the key of {route.event} in its value",
                "Name its `key_field`.",
            )  # fmt: skip
        elif route.key_field is None and not route.key_only:
            self.problems.add(
                route.path, "key_field_missing",
                f"{module.name} is keyed, so `key_field` has to say where the key of {route.event} stands",
                'Name a field, or write "key_only": true if senders give the key.',
            )  # fmt: skip

    def _check_whole(self, module: ModuleDraft) -> None:
        """Check that the keys of a whole map are those that its routes find in events."""
        if module.cell_mode or not module.state or module.log:
            return
        state = self.schemas.resolve(t.Ref(module.state))
        if not isinstance(state, t.Map):
            return
        place, problem = below(module.path, "cell_mode"), ""
        if module.key is None:
            problem = f"{module.name} has no key, so nothing says to which entry an event belongs"
        elif not is_same_kind(module.key, state.key, self.schemas):
            problem = f"the keys of {module.state} have another type than those of {module.name}"
        elif isinstance(self.schemas.resolve(state.value), t.Option | t.Unit):
            problem = f"the values of {module.state} may be null, which stands for an entry that is gone"
        if problem:
            self.problems.add(place, "cell_mode", problem, "Name the `key_field` of its subscriptions.")

    def _check_shared(self, routes: Sequence[RouteDraft]) -> None:
        """Check that where senders have to give the key, all routes of the event take the same one."""
        for route in routes:
            others = (
                [other.module for other in routes if other.event == route.event] if route.key_only else ()
            )
            for other in others:
                if not is_same_key(route.module.key, other.key, self.schemas):
                    self.problems.add(
                        below(route.path, "key_only"), "key_only",
                        f"{route.event} goes to {other.name} too, whose key is another",
                        "An event whose sender gives the key has one key schema for all its routes.",
                    )  # fmt: skip


def is_same_key(one: Schema | None, other: Schema | None, schemas: Schemas) -> bool:
    """Tell whether two modules have the same key schema, or both none."""
    if one is None or other is None:
        return one is other
    return compare(one, other, schemas).identical


def is_same_kind(key: Schema, found: Schema, schemas: Schemas) -> bool:
    """Tell whether two key schemas are equal but for the bounds of a scalar."""
    key, found = schemas.resolve(key), schemas.resolve(found)
    if type(key) is type(found) and isinstance(key, t.Int | t.Float | t.Text | t.Bytes):
        return True
    return compare(key, found, schemas).identical
