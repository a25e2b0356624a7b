"""What a validated manifest is. Loading and errors are in `load.py`, routing in `routes.py`.

A manifest is immutable and has an identity: the CID of its normal form. An era is a manifest's place in a
world's table of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from cellule.kernel.manifest.limits import OPEN_MAX_DEFAULT
from cellule.values.cid import Cid
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

Kind = Literal["workflow", "pure"]
Style = Literal["reducer", "workflow", "plan", "fsm", "aggregate", "enzyme"]
Failure = Literal["halt", "skip"]
Upgrade = Literal["pin", "follow"]
VerdictCode = Literal["allow", "deny", "require_approval"]
CatchUp = Literal["skip", "once", "backfill"]
Overlap = Literal["allow", "skip", "buffer"]

TIMER_SET: Final = "timer.set"
BLOBS: Final = "blob."
"""How the kinds begin that reach no further than the objects of the universe: a fork need not hold them."""


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
    cap_slots: Mapping[str, str] = field(default_factory=dict)  # the grant behind each slot
    open_max: int = OPEN_MAX_DEFAULT  # open external intents before the module's events wait
    writes: tuple[str, ...] | None = None  # the subtrees that an enzyme may write; None: all
    cell_mode: bool = True  # False: one cell, whose state is the map of all keys
    erasable: bool = False  # what its cells write is sealed, under a key of each

    @property
    def cell_key(self) -> Schema | None:
        """The schema of its cells' keys; None where it has one cell, with the empty key."""
        return self.key if self.cell_mode else None


@dataclass(frozen=True, slots=True)
class EffectKind:
    """A kind of effect that modules may ask for. `event` is the schema of its receipts."""

    kind: str
    params: str
    receipt: str
    event: str
    timeout_ns: int  # 0: as the adapter has it, and so with attempts and deadline
    attempts: int
    priority: int  # 0 is served first, 9 last
    needs_grant: bool = False
    deadline_ns: int = 0
    backoff_ns: int | None = None  # None: as the adapter has it
    backoff_max_ns: int | None = None
    operation: bool = False  # it shows its life as an operation

    @property
    def external(self) -> bool:
        """Whether an adapter performs it, and not the kernel."""
        return self.kind != TIMER_SET


class GrantBudget(NamedTuple):
    """So many intents in every period: of the world, or `by` each cell, or by each value of a param."""

    intents: int
    period_ns: int
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """What a slot that is bound to it may do. None = not restricted."""

    name: str
    effects: tuple[str, ...]
    hosts: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    allow: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by path into the params
    bytes_max: int | None = None  # of the encoded params
    budget: GrantBudget | None = None
    expires_ns: int | None = None
    private: bool = False  # may reach private addresses

    def as_data(self) -> dict[str, Any]:
        """The grant as plain data, with its name."""
        return plain(self)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a policy: where `when` holds, `then` decides."""

    name: str
    when: str
    then: VerdictCode
    reason: str = ""
    expires_ns: int | None = None  # how long an approval is waited for


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules in their order: the first that matches decides, or else the default."""

    rules: tuple[Rule, ...] = ()
    default: VerdictCode = "allow"


@dataclass(frozen=True, slots=True)
class Schedule:
    """An event that the kernel sends by the calendar or at an interval."""

    name: str
    cron: str | None
    zone: str
    every_ns: int | None
    start_ns: int | None
    event: str
    value: bytes
    key: bytes | None
    catch_up: CatchUp
    limit: int
    overlap: Overlap
    jitter_ns: int | None = None  # each due time is put off by up to this


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
    extra: Mapping[str, Any]  # bindings as given
    effects: Mapping[str, EffectKind] = field(default_factory=dict)  # by kind, with `timer.set`
    grants: Mapping[str, Grant] = field(default_factory=dict)  # by name
    policy: Policy = field(default_factory=Policy)
    schedules: Mapping[str, Schedule] = field(default_factory=dict)  # by name
    enzymes: tuple[Mapping[str, Any], ...] = ()  # entries of the registry, in their order

    @property
    def is_erasable(self) -> bool:
        """Whether a module of it asks for erasure."""
        return any(module.erasable for module in self.modules.values())


def plain(entry: Any, *left_out: str) -> dict[str, Any]:
    """An entry as it stands in the normal form: what is at its default, or None, is left out."""
    found: dict[str, Any] = {}
    for name, default in _defaults(entry.__class__):
        value = getattr(entry, name)
        if value is None or value == default or name in left_out:
            continue
        if isinstance(value, GrantBudget):
            by = {} if value.by is None else {"by": value.by}
            value = {"count": value.intents, "period_ns": value.period_ns, **by}
        elif isinstance(value, tuple):
            value = list(value)
        elif isinstance(value, dict):
            value = {key: list(each) if isinstance(each, tuple) else each for key, each in value.items()}
        found[name] = value
    return found


@cache
def _defaults(kind: Any) -> list[tuple[str, Any]]:
    """The fields of a class with their defaults; None stands for no default too, as it is left out anyway."""
    return [
        (each.name, None if each.default is MISSING else each.default)
        if each.default_factory is MISSING
        else (each.name, each.default_factory())
        for each in fields(kind)
    ]
