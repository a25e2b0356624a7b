"""`Contract`: an FSM as its author wrote it, every name resolved, with the lines for later complaints.

    YAML -> read_contract -> Contract -> compile_machine -> Machine (a program)

Plain data. Names of states and triggers are compared without regard to case, and keep the spelling of their
declaration. A text in `guard`, `set`, `params`, `key` or `at` is CEL; numbers, booleans and null stand for
themselves, maps and lists for what their parts give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, Final, NamedTuple

from cellule.values.schema.types import Schema

ANY: Final = "*"
"""In `from_state`: every state that is not terminal."""


class Placed(NamedTuple):
    """A value of the contract with the place it stands at."""

    value: Any
    line: int
    field: str


@dataclass(frozen=True, slots=True)
class EffectTemplate:
    """A request for an effect; params and key are templates."""

    kind: str
    line: int
    field: str
    params: Placed | None = None
    key: Placed | None = None
    slot: str | None = None


@dataclass(frozen=True, slots=True)
class Timeout:
    """What happens after a time in a state: `after_ns` of it, or `at` a time that CEL gives."""

    trigger: str
    line: int
    field: str
    after_ns: int | None = None
    at: Placed | None = None


@dataclass(frozen=True, slots=True)
class State:
    """One state."""

    name: str
    line: int
    description: str = ""
    entry: tuple[EffectTemplate, ...] = ()
    exit: tuple[EffectTemplate, ...] = ()
    timeout: Timeout | None = None


@dataclass(frozen=True, slots=True)
class Transition:
    """One transition; `number` is its place in the file, and the first that fits is taken."""

    source: str
    target: str
    trigger: str
    number: int
    line: int
    field: str
    guard: Placed | None = None
    sets: Mapping[str, Placed] = dataclass_field(default_factory=dict)
    effects: tuple[EffectTemplate, ...] = ()


@dataclass(frozen=True, slots=True)
class Trigger:
    """What makes a transition: an event, named by `schema` or derived, or the `receipt` of an effect."""

    name: str
    line: int
    schema: str | None = None
    receipt: str | None = None
    fields: Mapping[str, Schema] | None = None
    key: str | None = None
    is_timer: bool = False  # only timeouts fire it


@dataclass(frozen=True, slots=True)
class DataField:
    """A field of the state beside its name; absent where it has no default and nothing was set."""

    name: str
    schema: Schema
    default: Any
    line: int


@dataclass(frozen=True, slots=True)
class Start:
    """The trigger that makes a cell in its initial state, and no transition."""

    trigger: str
    line: int
    sets: Mapping[str, Placed] = dataclass_field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contract:
    """A whole contract that fits together."""

    file: str
    source: bytes
    title: str
    initial: str
    key: str
    states: Mapping[str, State]
    transitions: tuple[Transition, ...]
    terminal: frozenset[str]
    triggers: Mapping[str, Trigger]
    data: Mapping[str, DataField]
    start: Start | None = None
    announce: bool = False

    def allowed(self, state: str) -> list[str]:
        """The triggers that lead out of a state, in the order of the file."""
        return list(dict.fromkeys(each.trigger for each in self.transitions if each.source == state))

    def effect_kinds(self) -> tuple[str, ...]:
        """The kinds of effects it asks for, and `timer.set` where a state has a timeout."""
        found = {each.kind for each in self.requests()}
        if any(state.timeout for state in self.states.values()):
            found.add("timer.set")
        return tuple(sorted(found))

    def requests(self) -> list[EffectTemplate]:
        """All requests for effects."""
        found = [each for state in self.states.values() for each in (*state.entry, *state.exit)]
        return [*found, *(each for transition in self.transitions for each in transition.effects)]
