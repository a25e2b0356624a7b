"""The differences of two manifests that concern the outside: effects, grants, policy, schedules.

Limits, grants, rules and schedules apply to what comes next, so changing them is always compatible. Params
and receipts outlive a manifest: an intent that is open now was made with the old params and gets its receipt
under the new manifest. They are compared like events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cellule.kernel.manifest.model import EffectKind, Manifest
from cellule.kernel.manifest.problems import below
from cellule.values.schema import types as t
from cellule.values.schema.compatibility import Change
from cellule.values.schema.compatibility import compare as compare_schemas

_LIMITS: Final = ("timeout_ns", "attempts", "priority", "needs_grant")


def outside_changes(old: Manifest, new: Manifest) -> Iterator[Change]:
    """Every change from `old` to `new`."""
    for kind in sorted({*old.effects, *new.effects}):
        yield from _effect(kind, old, new)
    yield from _entries("$.capabilities", "grant", old.grants, new.grants, "applies to the next intents")
    yield from _entries("$.schedules", "schedule", old.schedules, new.schedules, "is armed anew")
    if old.policy != new.policy:
        yield Change("$.policy", "policy changed", True, "other rules apply to the next intents")


def _effect(kind: str, old: Manifest, new: Manifest) -> Iterator[Change]:
    path = below("$.effects", kind)
    before, after = old.effects.get(kind), new.effects.get(kind)
    if before is None or after is None:
        if before is None:
            yield Change(path, "effect added", True, f"modules may ask for {kind}")
        else:
            yield Change(path, "effect removed", True, f"{kind} can no longer be asked for")
        return
    for part in ("params", "receipt"):
        yield from _schema(f"{path}.{part}", part, (before, old), (after, new))
    for name in _LIMITS:
        if getattr(before, name) != getattr(after, name):
            yield Change(f"{path}.{name}", f"{name} changed", True, f"{name} applies to the next intents")


def _schema(
    path: str, part: str, before: tuple[EffectKind, Manifest], after: tuple[EffectKind, Manifest]
) -> Iterator[Change]:
    """The changes of a schema that goes by another name now; under the same one it is compared already."""
    old, new = (getattr(each, part) for each in (before[0], after[0]))
    if old == new:
        return
    found = compare_schemas(t.Ref(old), t.Ref(new), before[1].schemas, after[1].schemas)
    if found.compatible:
        yield Change(path, f"{part} changed", True, f"{old} became {new}, which can be read as it")
        return
    for change in found.changes:
        if not change.compatible:
            reason = f"{change.reason}; intents may be open with {old}: keep it, or make a new kind"
            yield Change(path + change.path.removeprefix("$"), f"{part} changed", False, reason)


def _entries(
    path: str, what: str, old: Mapping[str, Any], new: Mapping[str, Any], applies: str
) -> Iterator[Change]:
    for name in sorted({*old, *new}):
        place = below(path, name)
        if name not in old:
            yield Change(place, f"{what} added", True, f"{what} {name} is new")
        elif name not in new:
            yield Change(place, f"{what} removed", True, f"{what} {name} is no longer there")
        elif old[name] != new[name]:
            yield Change(place, f"{what} changed", True, f"{what} {name} {applies}")
