"""`app.aggregate(...)`: an aggregate of an app's events, as data of the manifest.

Events are named by their classes, times are timedeltas; what the aggregate itself means, and all checks of
measures, are in `modules/aggregate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple

from cellule.app.declarations import bad_option, duration_ns
from cellule.app.effects_config import Listed
from cellule.app.modules import check_erasable, check_events, with_events
from cellule.app.styles import BuildScope, DeclaredStyle, StyleDescription
from cellule.kernel.manifest.model import TIMER_SET
from cellule.kernel.manifest.system import AGGREGATE, TIMER_FIRED
from cellule.modules.aggregate.spec import read_spec
from cellule.values.schema.registry import NO_SCHEMAS

_DECLARING: Final = "app.aggregate"
_LIMITS: Final = ("batch", "distinct_max", "windows_max", "on_limit", "items")


class AggregateTimes(NamedTuple):
    """The windows of an aggregate, as an author says them."""

    window: timedelta | None
    at: str | None
    grace: timedelta | None
    ahead: timedelta | None

    def document(self) -> dict[str, Any]:
        """The field `window` of the code; empty without windows."""
        if self.window is None:
            if (self.at, self.grace, self.ahead) != (None, None, None):
                raise bad_option(
                    _DECLARING, "window", None, "a timedelta, where `at`, `grace` or `ahead` stands"
                )
            return {}
        found: dict[str, Any] = {"size_ns": duration_ns(_DECLARING, "window", self.window)}
        if self.at is not None:
            found["time"] = self.at
        for name, given in (("grace", self.grace), ("ahead", self.ahead)):
            if given is not None:
                found[f"{name}_ns"] = duration_ns(_DECLARING, name, given, least=0)
        return {"window": found}


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredAggregate(DeclaredStyle):
    """See `DeclaredModule`."""

    events: tuple[type, ...]
    measures: Mapping[str, str]
    by: str | None
    times: AggregateTimes
    closes: tuple[type, ...]
    fails: tuple[type, ...]
    limits: Mapping[str, Any]
    erasable: bool

    @property
    def where(self) -> str:
        """See `DeclaredModule`."""
        return f'app.aggregate("{self.full.local}")'

    @property
    def effects(self) -> tuple[Listed, ...]:
        """See `DeclaredModule`: its timers need no declaration."""
        return ()

    @property
    def cap_slots(self) -> Mapping[str, str]:
        """See `DeclaredModule`."""
        return {}

    def described(self, scope: BuildScope) -> StyleDescription:
        """See `DeclaredModule`."""
        name = str(self.full)
        check_erasable(self.where, self.erasable)
        taken = (*self.events, *self.closes, *self.fails)
        check_events(scope.app, self.where, taken, "takes", system=())
        names = {event: scope.app.events[event].name for event in taken}
        spec = read_spec(self._code(names), name)
        timers = spec.sets_timers
        schemas = with_events(NO_SCHEMAS, taken, scope.naming)
        entry = {
            "style": "aggregate", "state": AGGREGATE, "context": True, "code": self._code(names),
            "event": [*names.values(), *([TIMER_FIRED] if timers else [])],
            "effects_emitted": [TIMER_SET] if timers else [],
            **({"erasable": True} if self.erasable else {}),
        }  # fmt: skip
        subscriptions = tuple(
            {"event": names[event], "module": name, **self._key(scope, event)} for event in names
        )
        return StyleDescription(self.handle, name, entry, subscriptions, schemas)

    def _code(self, names: Mapping[type, str]) -> dict[str, Any]:
        for option in self.limits:
            if option not in _LIMITS:
                raise bad_option(_DECLARING, option, self.limits[option], f"one of {', '.join(_LIMITS)}")
        ends = {
            field: [names[each] for each in events]
            for field, events in (("closes", self.closes), ("fails", self.fails))
            if events
        }
        return {
            "kind": "aggregate", "measures": dict(self.measures), **self.times.document(), **self.limits,
            **ends,
        }  # fmt: skip

    def _key(self, scope: BuildScope, event: type) -> dict[str, Any]:
        key = self.by or scope.app.events[event].key
        return {} if key is None else {"key_field": key}
