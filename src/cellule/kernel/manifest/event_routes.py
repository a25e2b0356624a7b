"""The routes of one event schema, compiled: from an event's bytes to (module, key), in manifest order.

A value is decoded at most once. Values were validated at the edge or come from steps, so canonicity is not
proven again; whatever cannot be read or has no key is refused, naming the event and the field.

The key rules: the value's key is the truth. A key that the sender gives is taken only if all routes of the
event share one key schema; it must fit it and equal the value's key. Only a `key_only` route takes the
sender's key as it is, and needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from cellule.errors import CelluleError, Rejected
from cellule.kernel.manifest.fit import is_same_key
from cellule.kernel.manifest.keys import KeyForm
from cellule.kernel.manifest.limits import KEY_BYTES_MAX
from cellule.kernel.manifest.model import Manifest, Route
from cellule.values.cbor import decode_linked, decode_trusted
from cellule.values.schema import types as t
from cellule.values.schema.compatibility import compare
from cellule.values.schema.keys import check_key_path

Targets = list[tuple[str, bytes]]
Compiled = Callable[[bytes, bytes | None], Targets]

UNREADABLE: Final = (CelluleError, LookupError, TypeError, AttributeError, ValueError)


class _Way(NamedTuple):
    """One route, ready to follow."""

    base: str
    steps: tuple[str, ...]
    field: str
    form: KeyForm | None  # None = unkeyed
    key_only: bool
    whole: bool  # one cell for all keys: the key only says to which entry the event belongs


class EventRoutes:
    """All routes of one event schema."""

    def __init__(self, manifest: Manifest, event: str, routes: Sequence[Route]) -> None:
        self._event = event
        self._manifest = manifest
        self._ways = [self._way(route) for route in routes]
        self._shared = self._shared_form()

    def _way(self, route: Route) -> _Way:
        module = self._manifest.modules[route.base]
        form = None if module.key is None else KeyForm(module.key, self._manifest.schemas)
        field = ".".join(route.key_path)
        return _Way(route.base, route.key_path, field, form, route.key_only, not module.cell_mode)

    def _shared_form(self) -> KeyForm | None:
        """The key schema that all routes have; None where they differ or one is unkeyed."""
        first = self._ways[0].form
        if first is None:
            return None
        keys = [None if way.form is None else way.form.schema for way in self._ways]
        same = all(is_same_key(first.schema, key, self._manifest.schemas) for key in keys)
        return first if same else None

    def fastest(self) -> Compiled:
        """The quickest function that answers exactly as `targets` does."""
        if all(way.form is None for way in self._ways):
            return self._unkeyed()
        first = self._ways[0]
        is_simple = all(
            len(way.steps) == 1 and way.steps == first.steps and self._is_typed(way, t.Text)
            for way in self._ways
        )
        if not is_simple:
            return self.targets
        return self._one_text() if len(self._ways) == 1 else self._many_text()

    def single_text(self) -> tuple[str, str] | None:
        """Module and field, where one text field is all there is to the event's routes; else None."""
        way = self._ways[0]
        if len(self._ways) != 1 or way.key_only or len(way.steps) != 1 or not self._is_typed(way, t.Text):
            return None
        return way.base, way.steps[0]

    def _is_typed(self, way: _Way, kind: type) -> bool:
        """Tell whether the event's schema alone promises a key of that kind in the module's bounds."""
        if way.form is None or way.whole or way.form.kind is not kind:
            return False
        schemas = self._manifest.schemas
        found = check_key_path(t.Ref(self._event), schemas, way.field)
        return compare(way.form.schema, found, schemas).identical

    def _unkeyed(self) -> Compiled:
        found = [(way.base, b"") for way in self._ways]
        targets = self.targets

        def unkeyed(value: bytes, key: bytes | None) -> Targets:
            return found[:] if key is None else targets(value, key)

        return unkeyed

    def _one_text(self) -> Compiled:
        base, (field,), *_ = self._ways[0]
        targets = self.targets

        def one_text(value: bytes, key: bytes | None) -> Targets:
            if key is None:
                try:
                    found = decode_linked(value)[field].encode()  # type: ignore[index, union-attr, call-overload]
                except UNREADABLE:
                    return targets(value, key)
                if 0 < len(found) <= KEY_BYTES_MAX:
                    return [(base, found)]
            return targets(value, key)

        return one_text

    def _many_text(self) -> Compiled:
        bases = [way.base for way in self._ways]
        one_text = self._one_text()
        targets = self.targets

        def many_text(value: bytes, key: bytes | None) -> Targets:
            if key is not None:
                return targets(value, key)
            found = one_text(value, None)[0][1]
            return [(base, found) for base in bases]

        return many_text

    def targets(self, value: bytes, key: bytes | None) -> Targets:
        """The cells an event goes to, checking everything."""
        if key is not None:
            self._check_given(key)
        found = ((way, self._key(way, value, key)) for way in self._ways)
        return [(way.base, b"" if way.whole else key) for way, key in found]

    def entry_key(self, base: str, value: bytes) -> bytes | None:
        """The key that an event has for a module, whether it has a cell for it or not; None without one."""
        for way in self._ways:
            if way.base == base and way.form is not None and not way.key_only:
                return self._key(way, value, None)
        return None

    def reachable(self, value: bytes, key: bytes | None) -> Targets:
        """The cells an event can go to: a route that has no key for it is left out, and nothing is raised."""
        found: Targets = []
        for way in self._ways:
            try:
                if key is not None:
                    self._check_given(key)
                own = self._key(way, value, key)
                found.append((way.base, b"" if way.whole else own))
            except CelluleError:
                continue
        return found

    def _key(self, way: _Way, value: bytes, key: bytes | None) -> bytes:
        if way.form is None:
            return b""
        if way.key_only:
            return self._needed(key)
        return self._own_key(way, way.form, self._decoded(value), key)

    def _check_given(self, key: bytes) -> None:
        if self._shared is None:
            raise Rejected(
                "routing.key_not_taken",
                "event {event} takes no explicit key: its routes do not share one key schema",
                event=self._event, hint="Send it without a key; each module finds its own in the value.",
            )  # fmt: skip
        self._shared.check(key, self._event)

    def _needed(self, key: bytes | None) -> bytes:
        if key is None:
            raise Rejected(
                "routing.key_required", "event {event} is routed by the sender's key, and none was given",
                event=self._event, hint="Send it with its key.",
            )  # fmt: skip
        return key

    def _decoded(self, value: bytes) -> Any:
        try:
            return decode_trusted(value)
        except (CelluleError, TypeError) as error:
            raise Rejected(
                "routing.value_unreadable", "event {event}: the value cannot be read: {problem}",
                event=self._event, problem=str(error),
            ) from error  # fmt: skip

    def _own_key(self, way: _Way, form: KeyForm, decoded: Any, given: bytes | None) -> bytes:
        """The key in the value, which a given one must equal."""
        found = decoded
        for step in way.steps:
            found = found.get(step) if isinstance(found, dict) else None
            if found is None:
                raise Rejected(
                    "routing.key_missing", "event {event} has no key at {field}",
                    event=self._event, field=way.field,
                )  # fmt: skip
        key = form.of(found, self._event, way.field)
        if given is not None and key != given:
            raise Rejected(
                "routing.key_differs", "event {event} has key {key} at {field}, but was sent with {given}",
                event=self._event, given=given, field=way.field, key=key,
                hint="Send it without a key, or with the value's own.",
            )  # fmt: skip
        return key
