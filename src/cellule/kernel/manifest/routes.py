"""Routing: which cells an event goes to, as a function of the manifest and the event's bytes.

A router compiles each subscribed schema once, into `EventRoutes`. The rules of keys are there; here are the
events that go nowhere, and `wrap`, which turns an event into what a step of a cell's era is called with.
"""

from __future__ import annotations

from cellule.errors import CelluleError, Rejected
from cellule.kernel.manifest.event_routes import EventRoutes, Targets
from cellule.kernel.manifest.model import Manifest, Module
from cellule.kernel.manifest.problems import near
from cellule.kernel.manifest.system import FABRIC_MESSAGE, OWN_EVENTS
from cellule.values.cbor import decode_trusted, encode
from cellule.values.schema import types as t
from cellule.values.schema.checks import TAG, VALUE
from cellule.values.schema.compatibility import project


class Router:
    """Routes the events of one manifest; immutable."""

    def __init__(self, manifest: Manifest) -> None:
        self._schemas = manifest.schemas
        compiled = {event: EventRoutes(manifest, event, routes) for event, routes in manifest.routes.items()}
        self._events = {event: routes.fastest() for event, routes in compiled.items()}
        self._routes = compiled
        singles = {event: routes.single_text() for event, routes in compiled.items()}
        self.singles = {
            event: single
            for event, single in singles.items()
            if single is not None and not event.startswith(OWN_EVENTS)
        }
        """Events that go to one module by one text field: both names."""
        self._inboxes = {
            source: EventRoutes(manifest, FABRIC_MESSAGE, (route,)).fastest()
            for source, route in manifest.inboxes.items()
        }

    def route(self, schema: str, value: bytes, key: bytes | None) -> Targets:
        """The cells an event goes to; an event that nobody subscribed to is refused."""
        compiled = self._events.get(schema)
        if compiled is None:
            self._check_known(schema)
            raise Rejected(
                "routing.no_subscriber", "no module of the manifest subscribes to {schema}", schema=schema,
                hint=near(schema, self._events) or "Add it to routing.subscriptions.",
            )  # fmt: skip
        return compiled(value, key)

    def has_route(self, schema: str) -> bool:
        """Tell whether somebody subscribes to the events of a schema."""
        return schema in self._events

    def targets(self, schema: str, value: bytes, key: bytes | None) -> Targets:
        """The same, but an event of a known schema may go nowhere."""
        compiled = self._events.get(schema)
        if compiled is None:
            self._check_known(schema)
            return []
        return compiled(value, key)

    def reachable(self, schema: str, value: bytes, key: bytes | None = None) -> Targets:
        """The cells that an event which nobody sent can go to: never raises, whatever the routes are.

        A beat has to end, and there is nobody to tell: what has no key goes nowhere, and is recorded so.
        """
        routes = self._routes.get(schema)
        return [] if routes is None else routes.reachable(value, key)

    def entry_key(self, base: str, schema: str, value: bytes) -> bytes | None:
        """The key that an event has for a module with one cell for all; None where no route says it."""
        routes = self._routes.get(schema)
        return None if routes is None else routes.entry_key(base, value)

    def inbox(self, source: str, value: bytes, key: bytes | None) -> Targets:
        """The cell that a sys/FabricMessage@1 from `source` goes to."""
        compiled = self._inboxes.get(source)
        if compiled is None:
            raise Rejected(
                "routing.no_inbox", "no inbox of the manifest takes messages from {source}", source=source,
                hint=near(source, self._inboxes) or "Add it to routing.inboxes.",
            )  # fmt: skip
        return compiled(value, key)

    def _check_known(self, schema: str) -> None:
        if schema not in self._schemas:
            raise Rejected(
                "routing.schema_unknown", "the manifest has no schema {schema}", schema=schema,
                hint=near(schema, self._schemas),
            )  # fmt: skip


def wrap(
    era_manifest: Manifest, module: Module, schema: str, value: bytes, current_manifest: Manifest
) -> tuple[str, bytes]:
    """What a step of `module` gets for an event: in its era's schema, and wrapped if that is a variant."""
    value = in_era(era_manifest, schema, value, current_manifest)
    tag = module.events.get(schema)
    if tag is None or module.event is None:
        return schema, value
    return module.event, encode({TAG: tag, VALUE: None})[:-1] + value


def in_era(era_manifest: Manifest, schema: str, value: bytes, current_manifest: Manifest) -> bytes:
    """An event's value as an older era knows its schema: fields that came later are left out."""
    if era_manifest is current_manifest:
        return value
    here = era_manifest.schema_ids.get(schema)
    if here is None or here == current_manifest.schema_ids.get(schema):
        return value
    return _projected(era_manifest, schema, value)


def _projected(manifest: Manifest, schema: str, value: bytes) -> bytes:
    try:
        fitting: bytes = encode(project(decode_trusted(value), t.Ref(schema), manifest.schemas))
    except (CelluleError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise Rejected(
            "routing.not_projectable", "the event cannot be read as {schema} of the cell's era: {problem}",
            schema=schema, problem=str(error),
            hint="Migrate the cell, or give the changed schema a new version.",
        ) from error  # fmt: skip
    return fitting
