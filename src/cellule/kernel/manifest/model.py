"""What a validated manifest is. Loading and errors are in `load.py`, routing in `routes.py`.

A manifest is immutable and has an identity: the CID of its normal form. An era is a manifest's place in a
world's table of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cellule.values.cid import Cid
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

Kind = Literal["workflow", "pure"]
Style = Literal["reducer", "workflow", "plan", "fsm", "aggregate", "enzyme"]
Failure = Literal["halt", "skip"]
Upgrade = Literal["pin", "follow"]


@dataclass(frozen=True, slots=True)
class Retention:
    """When the kernel removes a cell by itself: after birth, or after its last step."""

    ttl_ns: int | None = None
    idle_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Module:
    """One module of a manifest. `events` maps each schema it takes to the tag that wraps it, or None."""

    name: str
    base: str
    kind: Kind
    style: Style  # how it is written; decides the default of `upgrade`
    state: str
    events: Mapping[str, str | None]
    event: str | None  # the variant schema that wrapped events are delivered as
    key: Schema | None  # the key's schema; None = unkeyed, one cell with the empty key
    context: bool
    effects_emitted: tuple[str, ...]
    retention: Retention
    failure: Failure
    upgrade: Upgrade
    log: bool  # the state only grows: a step returns entries
    code: Mapping[str, Any]  # opaque to the kernel: what `Programs` needs to find the code


@dataclass(frozen=True, slots=True)
class Route:
    """A subscription: events of one schema go to cells of one module."""

    base: str
    key_path: tuple[str, ...]  # where the key stands in the value; empty = unkeyed or key_only
    key_only: bool  # the sender's explicit key is the truth


@dataclass(frozen=True, slots=True)
class Upcaster:
    """Pure code that turns values of schema `old` into values of schema `new`."""

    old: str
    new: str
    code: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A whole, validated manifest."""

    cid: Cid
    data: bytes  # the normal form
    schemas: Schemas  # by name, with those of `system.py`
    schema_ids: Mapping[str, Cid]  # identity of each schema with all it refers to
    modules: Mapping[str, Module]  # by base name (no version)
    routes: Mapping[str, tuple[Route, ...]]  # by event schema, in manifest order
    inboxes: Mapping[str, Route]  # by source
    upcasters: Mapping[str, tuple[Upcaster, ...]]  # by old schema
    extra: Mapping[str, Any]  # effects, capabilities, policy, schedules, triggers, bindings, plans as given
