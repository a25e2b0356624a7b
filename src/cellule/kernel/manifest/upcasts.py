"""Chains of upcasters: from the schema a value has to one that is wanted, along exactly one way.

Upcasters never run in a circle (the manifest would not have loaded), so a chain is no longer than their
number. Where two chains lead from one schema to the same goal they might give different values: that is
refused, never decided by order.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from cellule.errors import Rejected
from cellule.kernel.manifest.model import Manifest, Upcaster
from cellule.values.schema import types as t
from cellule.values.schema.compatibility import compare

Edges = Mapping[str, tuple[Upcaster, ...]]


def path(manifest: Manifest, old: str, new: str) -> list[Upcaster] | None:
    """The one chain from `old` to `new`; empty if they are the same, None if there is none."""
    return chain(manifest.upcasters, old, (new,))


class StateEnds(NamedTuple):
    """The schemas between which a state is upcast; `by_entry` where they are those of a map's values."""

    old: str
    new: str
    by_entry: bool = False


def state_ends(old: Manifest, new: Manifest, base: str) -> StateEnds:
    """Between which schemas the states of a module are upcast: of a whole map those of its entries."""
    before, after = old.modules[base].state, new.modules[base].state
    whole = StateEnds(before, after)
    if before == after or new.modules[base].cell_mode:
        return whole
    one, other = map_of(old, before), map_of(new, after)
    if one is None or other is None or not compare(one.key, other.key, old.schemas, new.schemas).identical:
        return whole
    if not isinstance(one.value, t.Ref) or not isinstance(other.value, t.Ref):
        return whole
    return StateEnds(one.value.name, other.value.name, by_entry=True)


def map_of(manifest: Manifest, schema: str) -> t.Map | None:
    """The map that a schema is; None where it is something else."""
    found = manifest.schemas.resolve(t.Ref(schema))
    return found if isinstance(found, t.Map) else None


def to_any(manifest: Manifest, old: str, accepted: Container[str]) -> list[Upcaster] | None:
    """The one chain from `old` to the nearest schema that is `accepted`; None if there is none."""
    return chain(manifest.upcasters, old, accepted)


def older_events(manifest: Manifest) -> dict[str, list[Upcaster]]:
    """The schemas that nobody subscribes to, but that one chain of upcasters leads from to one that has
    subscribers: events of older versions."""
    found: dict[str, list[Upcaster]] = {}
    for schema in manifest.upcasters:
        if schema in manifest.routes:
            continue
        try:
            steps = to_any(manifest, schema, manifest.routes)
        except Rejected:  # two ways: which one is meant is not clear
            continue
        if steps:
            found[schema] = steps
    return found


def chain(upcasters: Edges, old: str, accepted: Container[str]) -> list[Upcaster] | None:
    """The one chain from `old` that ends where it first meets an accepted schema."""
    last: dict[str, Upcaster] = {}
    ways = {old: 1}
    ends: list[str] = []
    for schema in _in_order(upcasters, old, accepted):
        if schema in accepted:
            ends.append(schema)
            continue
        for step in upcasters.get(schema, ()):
            ways[step.new] = ways.get(step.new, 0) + ways[schema]
            last[step.new] = step
    if not ends:
        return None
    if len(ends) > 1 or ways[ends[0]] > 1:
        raise Rejected(
            "manifest.upcast_ambiguous", "more than one chain of upcasters leads from {old} to {ends}",
            old=old, ends=" or ".join(sorted(ends)),
            hint="Remove upcasters until one way is left.",
        )  # fmt: skip
    return _backwards(last, old, ends[0])


def cycle(upcasters: Edges) -> list[str] | None:
    """Schemas that upcasters connect in a circle, each with the next; None if there is no circle."""
    done: set[str] = set()
    for start in upcasters:
        trail: dict[str, int] = {}
        waiting = [(start, False)]
        while waiting:
            schema, leaving = waiting.pop()
            if leaving:
                del trail[schema]
                done.add(schema)
            elif schema in trail:
                return list(trail)[trail[schema] :]
            elif schema not in done:
                trail[schema] = len(trail)
                waiting.append((schema, True))
                waiting.extend((step.new, False) for step in upcasters.get(schema, ()))
    return None


def _in_order(upcasters: Edges, old: str, accepted: Container[str]) -> list[str]:
    """All schemas reached from `old`, each behind all that lead to it; accepted ones lead nowhere."""
    arrivals = {old: 0}
    waiting = [old]
    while waiting:
        schema = waiting.pop()
        for step in () if schema in accepted else upcasters.get(schema, ()):
            if step.new not in arrivals:
                arrivals[step.new] = 0
                waiting.append(step.new)
            arrivals[step.new] += 1
    order = [old]
    for schema in order:
        for step in () if schema in accepted else upcasters.get(schema, ()):
            arrivals[step.new] -= 1
            if arrivals[step.new] == 0:
                order.append(step.new)
    return order


def _backwards(last: Mapping[str, Upcaster], old: str, end: str) -> list[Upcaster]:
    steps: list[Upcaster] = []
    while end != old:
        steps.append(last[end])
        end = last[end].old
    return steps[::-1]
