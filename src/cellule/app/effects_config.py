"""What an app declares about effects: their kinds, adapters, grants, policy and schedules, as collected.

Like events and reducers, everything is kept on the app and checked twice: what a declaration alone can show
is refused where it stands, what needs the whole app when it is built (`sections.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, get_args

from cellule.app.declarations import bad_option, duration_ns, is_redefined, taken, time_ns
from cellule.app.effects import DeclaredEffect, EffectLike, is_effect
from cellule.app.rules import Policies
from cellule.effects.adapter import Adapter
from cellule.errors import Rejected
from cellule.kernel.manifest.model import TIMER_SET, CatchUp, Overlap
from cellule.modules.python.signature import shown_function

Budget = tuple[int, timedelta]
Grants = Mapping[str, "str | DeclaredGrant"] | Iterable["str | DeclaredGrant"]
Listed = str | EffectLike
"""An effect as it may be listed: a declaration, an adapter, or the kind of one of them."""

_CATCH_UPS: Final = get_args(CatchUp)
_OVERLAPS: Final = get_args(Overlap)


@dataclass(frozen=True, slots=True)
class DeclaredGrant:
    """A grant: what a slot of a reducer may do. `entry` is that of the manifest, without the effects."""

    name: str
    effects: tuple[Listed, ...]
    entry: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeclaredSchedule:
    """An event by the calendar; `entry` is that of the manifest, without the event."""

    name: str
    event: Any
    key: Any
    entry: Mapping[str, Any]


class EffectDeclarations:
    """The collection."""

    def __init__(self) -> None:
        self.effects: dict[str, EffectLike] = {}
        self.adapters: dict[str, Adapter] = {}
        self.grants: dict[str, DeclaredGrant] = {}
        self.policies = Policies()
        self.schedules: dict[str, DeclaredSchedule] = {}

    def add_effect(self, declared: DeclaredEffect[Any, Any]) -> None:
        """Declare an effect; its kind may be declared once, beside the adapter that performs it."""
        _check_not_timer(declared.kind)
        known = self.effects.get(declared.kind)
        adapter = self.adapters.get(declared.kind)
        is_other = known is not None and known is not adapter
        if known is not None and is_other and not is_redefined(known.params, declared.params):
            raise taken(f"the effect {declared.kind}", _shown(known), _shown(declared))
        _check_same_types(adapter, declared)
        self.effects[declared.kind] = declared

    def add_adapter(self, adapter: Adapter) -> None:
        """Declare an adapter, and its effect where that is not declared already."""
        _check_not_timer(adapter.kind)
        known = self.adapters.get(adapter.kind)
        if known is not None and not is_redefined(known.params, adapter.params):
            raise taken(f"the adapter of {adapter.kind}", repr(known), repr(adapter))
        declared = self.effects.get(adapter.kind)
        if declared is None or declared is known:
            self.effects[adapter.kind] = adapter
        else:
            _check_same_types(adapter, declared)
        self.adapters[adapter.kind] = adapter

    def add_grant(
        self, name: str, effects: Iterable[Listed], budget: Budget | None, by: str | None,
        expires: datetime | None, parts: Mapping[str, Any],
    ) -> DeclaredGrant:  # fmt: skip
        """Declare a grant; `parts` are what stands in the manifest as it is given."""
        listed = check_listed("App.grant", effects)
        _check_name("App.grant", name, "stripe")
        if not listed:
            raise bad_option(
                "App.grant", "effects", effects, "at least one: a grant of nothing grants nothing"
            )
        if by is not None and budget is None:
            raise bad_option("App.grant", "budget_by", by, "it beside budget=(100, timedelta(hours=1))")
        if name in self.grants:
            raise taken(f"the grant {name!r}", "declared", "declared again")
        entry = {
            **parts,
            "budget": None if budget is None else _budget(budget, by),
            "expires_ns": None if expires is None else time_ns("App.grant", "expires", expires),
        }
        found = DeclaredGrant(name, listed, {key: part for key, part in entry.items() if part is not None})
        self.grants[name] = found
        return found

    def add_schedule(
        self, name: str, event: object, key: object, parts: Mapping[str, Any], every: timedelta | None,
        start: datetime | None,
    ) -> None:  # fmt: skip
        """Declare a schedule; `parts` are what stands in the manifest as it is given."""
        _check_name("App.schedule", name, "nightly")
        if name in self.schedules:
            raise taken(f"the schedule {name!r}", "declared", "declared again")
        _check_choices(parts)
        if (parts.get("cron") is None) == (every is None):
            given = "neither is" if every is None else "both are"
            raise Rejected(
                "app.schedule_time", "the schedule {name!r} needs `cron` or `every`: {given} given.",
                name=name, given=given,
                hint='Write cron="0 3 * * *", zone="Europe/Berlin", or every=timedelta(minutes=5).',
            )  # fmt: skip
        entry = {
            **parts,
            "every_ns": None if every is None else duration_ns("App.schedule", "every", every),
            "start_ns": None if start is None else time_ns("App.schedule", "start", start),
        }
        kept = {part: value for part, value in entry.items() if value is not None}
        self.schedules[name] = DeclaredSchedule(name, event, key, kept)


def check_listed(where: str, effects: object) -> tuple[Listed, ...]:
    """A list of effects as an author gives it."""
    if isinstance(effects, str) or is_effect(effects) or not isinstance(effects, Iterable):
        raise bad_option(where, "effects", effects, "a list: effects=[charge, timer]")
    listed = tuple(effects)
    for each in listed:
        if not isinstance(each, str) and not is_effect(each):
            raise bad_option(
                where,
                "effects",
                each,
                "effects: what app.effect or @app.adapter gave, `timer`, or their kind",
            )
    return listed


def check_grants(grants: object) -> dict[str, str]:
    """The grants of a reducer by slot; a list names the slots after the grants."""
    if isinstance(grants, str | DeclaredGrant):
        raise bad_option("@app.reducer", "grants", grants, 'a list or a map: grants=["stripe"]')
    if isinstance(grants, Mapping):
        pairs = list(grants.items())
    else:
        pairs = [(each.name if isinstance(each, DeclaredGrant) else each, each) for each in _items(grants)]
    found: dict[str, str] = {}
    for slot, grant in pairs:
        name = grant.name if isinstance(grant, DeclaredGrant) else grant
        if not isinstance(slot, str) or not isinstance(name, str) or not slot or not name:
            raise bad_option("@app.reducer", "grants", grants, 'names: grants=["stripe"]')
        found[slot] = name
    return found


def _items(grants: object) -> list[Any]:
    if not isinstance(grants, Iterable):
        raise bad_option("@app.reducer", "grants", grants, 'a list or a map: grants=["stripe"]')
    return list(grants)


def _check_not_timer(kind: str) -> None:
    if kind == TIMER_SET:
        raise Rejected(
            "app.effect_reserved", "{kind} is performed by the kernel itself.", kind=kind,
            hint="Take it from Cellule: `from cellule import timer`.",
        )  # fmt: skip


def _check_same_types(adapter: Adapter | None, declared: EffectLike) -> None:
    if adapter is None or (adapter.params, adapter.receipt) == (declared.params, declared.receipt):
        return
    raise Rejected(
        "app.adapter_types",
        "the adapter of {kind} takes {params} and gives {receipt}; declared is {declared}.",
        kind=declared.kind, params=shown_function(adapter.params), receipt=shown_function(adapter.receipt),
        declared=_shown(declared), hint="Give both the same classes.",
    )  # fmt: skip


def _check_name(where: str, name: object, example: str) -> None:
    if not isinstance(name, str) or not name:
        raise bad_option(where, "name", name, f'a name, such as "{example}"')


def _check_choices(parts: Mapping[str, Any]) -> None:
    for option, choices in (("catch_up", _CATCH_UPS), ("overlap", _OVERLAPS)):
        if parts.get(option) not in choices:
            raise bad_option("App.schedule", option, parts.get(option), " or ".join(map(repr, choices)))


def _budget(given: object, by: object) -> dict[str, int | str]:
    if not isinstance(given, tuple) or len(given) != 2 or type(given[0]) is not int or given[0] < 1:
        raise bad_option("App.grant", "budget", given, "a number and a time: (100, timedelta(hours=1))")
    if by is not None and (not isinstance(by, str) or not by):
        raise bad_option("App.grant", "budget_by", by, '"cell", or a field of the params: "tenant"')
    counted: dict[str, int | str] = {} if by is None else {"by": by}
    return {"count": given[0], "period_ns": duration_ns("App.grant", "budget", given[1]), **counted}


def _shown(effect: EffectLike) -> str:
    return f"{shown_function(effect.params)} -> {shown_function(effect.receipt)}"
