"""The effects of an app, seen with the whole of it: effects by kind, grants of reducers, manifest sections.

Here is refused what no single declaration shows: kinds and grants that nobody declared, one kind with two
meanings, an effect that needs a grant and has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from cellule.app import standard_effects
from cellule.app.declarations import DeclaredReducer, taken
from cellule.app.effects import EffectLike, form_of
from cellule.app.effects_config import DeclaredSchedule, Listed
from cellule.app.enzyme_module import enzyme_entries
from cellule.app.styles import DeclaredModule, TellsPlaces
from cellule.effects.adapter import Adapter, check_limits_of
from cellule.errors import Rejected
from cellule.kernel.manifest.problems import near
from cellule.modules.python import EffectForm
from cellule.modules.python.effects import effect_documents
from cellule.modules.python.module_names import Naming
from cellule.values.cbor import encode
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.codec import codec_for

if TYPE_CHECKING:
    from cellule.app.app import App


def effects_of(app: App) -> dict[str, EffectLike]:
    """All effects of an app by kind: declared on it, or listed by a module or grant."""
    found = dict(app.effect_declarations.effects)
    listed = [each for module in app.modules.values() for each in module.effects]
    listed += [each for grant in app.effect_declarations.grants.values() for each in grant.effects]
    for each in listed:
        if isinstance(each, str):
            shipped = None if each in found else standard_effects.of_kind(each)
            if shipped is not None:
                found[each] = shipped
            continue
        known = found.setdefault(each.kind, each)
        if (known.params, known.receipt) != (each.params, each.receipt):
            raise taken(f"the effect {each.kind}", repr(known), repr(each))
    return found


def adapters_of(app: App, effects: Mapping[str, EffectLike]) -> dict[str, Adapter]:
    """The adapters of an app by kind: declared on it, or listed as effects."""
    listed = {kind: each for kind, each in effects.items() if isinstance(each, Adapter)}
    found = {**listed, **app.effect_declarations.adapters}
    for each in found.values():
        check_limits_of(each)
    return found


def forms_of(
    app: App, reducer: DeclaredReducer | DeclaredModule, effects: Mapping[str, EffectLike]
) -> list[EffectForm]:
    """The effects of a reducer, checked against the grants it has."""
    kinds = [_kind(each, effects, _place(reducer, each)) for each in reducer.effects]
    granted = _granted(app, reducer, effects)
    for kind in kinds:
        if effects[kind].limits.needs_grant and kind not in granted:
            raise Rejected(
                "app.grant_missing", "{function} asks for {kind}, which needs a grant, and has none for it.",
                function=_place(reducer, kind), kind=kind,
                hint=f'Declare app.grant("name", effects=["{kind}"], ...) and give it to the reducer: '
                'grants=["name"]; its requests then say slot="name".',
            )  # fmt: skip
    return [form_of(effects[kind]) for kind in dict.fromkeys(kinds)]


def _place(reducer: DeclaredReducer | DeclaredModule, listed: Listed) -> str:
    if isinstance(listed, str) and isinstance(reducer, TellsPlaces):
        return reducer.place_of(listed)
    return reducer.where


def _granted(
    app: App, reducer: DeclaredReducer | DeclaredModule, effects: Mapping[str, EffectLike]
) -> set[str]:
    """All kinds that the grants of a reducer allow."""
    where = reducer.where
    granted: set[str] = set()
    for name in reducer.cap_slots.values():
        grant = app.effect_declarations.grants.get(name)
        if grant is None:
            hint = (
                near(name, app.effect_declarations.grants)
                or f'Declare it: app.grant("{name}", effects=[...]).'
            )
            raise Rejected(
                "app.grant_unknown", "{function} has the grant {name!r}, which {app} does not declare.",
                function=where, name=name, app=app, hint=hint,
            )  # fmt: skip
        granted |= {_kind(each, effects, f"the grant {name!r}") for each in grant.effects}
    return granted


def _kind(listed: Listed, effects: Mapping[str, EffectLike], where: str) -> str:
    if not isinstance(listed, str):
        return listed.kind
    if listed not in effects:
        known = [*effects, *standard_effects.KINDS]
        raise Rejected(
            "app.effect_unknown", "{where} names the effect {kind!r}, which nobody declares.",
            where=where, kind=listed,
            hint=near(listed, known) or f'Declare it: app.effect("{listed}", params=..., receipt=...).',
        )  # fmt: skip
    return listed


def sections_of(app: App, effects: Mapping[str, EffectLike], naming: Naming) -> dict[str, Any]:
    """The sections of the manifest about effects and enzymes."""
    declared = app.effect_declarations
    grants = {
        grant.name: {**grant.entry, "effects": _kinds(grant.effects, effects, grant.name)}
        for grant in declared.grants.values()
    }
    return {
        "effects": effect_documents(map(form_of, effects.values()), naming), "capabilities": grants,
        "policy": declared.policies.document(),
        "enzymes": enzyme_entries(app.modules.values()),
        "schedules": {each.name: _schedule(app, each, naming) for each in declared.schedules.values()},
    }  # fmt: skip


def _kinds(listed: Iterable[Listed], effects: Mapping[str, EffectLike], name: str) -> list[str]:
    return list(dict.fromkeys(_kind(each, effects, f"the grant {name!r}") for each in listed))


def _schedule(app: App, declared: DeclaredSchedule, naming: Naming) -> dict[str, Any]:
    python = declared.event.__class__
    if python not in app.events:
        is_class = declared.event in app.events
        raise Rejected(
            "app.event_unknown", "the schedule {name!r} sends {event}, which is no event of {app}.",
            name=declared.name, app=app,
            event=f"the class {declared.event.__name__}" if is_class else f"a {shown_type(python)}",
            hint=f"Give an object: event={declared.event.__name__}(...)." if is_class
            else "Give an object of a class with @app.event.",
        )  # fmt: skip
    value = codec_for(naming.derived(python)).encode(declared.event)
    entry = {**declared.entry, "event": app.events[python].name, "value": value}
    return entry if declared.key is None else {**entry, "key": _key(declared.key)}


def _key(key: object) -> bytes:
    match key:
        case str():
            return key.encode()
        case bytes():
            return key
        case UUID():
            return encode(key.bytes)
        case _:
            return encode(key)  # type: ignore[arg-type]
