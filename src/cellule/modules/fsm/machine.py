"""A contract compiled: for each event and state the transitions to try, as functions over plain values.

Compiled once; a step then looks up its state, asks the guards in the order of the file, and writes the new
state. What is written is proven: the state's name is the contract's own, every assigned value is checked by
the codec of its field, params by the codec of their effect, and all else stood in the state before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cellule.errors import CelluleError, Rejected
from cellule.kernel.manifest.model import TIMER_SET
from cellule.kernel.manifest.system import TIMER_FIRED, TIMER_SET_PARAMS
from cellule.kernel.program import CheckedRequest, StepFault
from cellule.modules.fsm.contract import Contract, EffectTemplate, Placed, Timeout, Transition
from cellule.modules.fsm.document import Problems
from cellule.modules.fsm.interface import state_schema
from cellule.modules.fsm.templates import Arguments, Fill, Templates
from cellule.values.expressions import ExpressionFault
from cellule.values.schema import types as t
from cellule.values.schema.codec import wire_codec
from cellule.values.schema.registry import Schemas

TIMER_MARK: Final = "#"
"""Between the state and the number of the visit in the key of a timeout's timer."""

Make = Callable[[Arguments], CheckedRequest]
Variables = dict[str, t.Schema | None]


class Assignment(NamedTuple):
    """A field, what it is set to, and the check of its values."""

    name: str
    fill: Fill
    check: Callable[[object], Any]


class Move(NamedTuple):
    """One transition on events of one schema."""

    transition: Transition
    guard: Fill | None
    sets: tuple[Assignment, ...]
    effects: tuple[Make, ...]


class Machine:
    """A compiled contract; `moves` are by schema, then by state."""

    def __init__(
        self, contract: Contract, schemas: Schemas, events: Mapping[str, str],
        effects: Mapping[str, str], key: t.Schema | None,
    ) -> None:  # fmt: skip
        self.contract = contract
        self.problems = Problems(contract.file)
        self._schemas = schemas
        self._effects = effects
        self._templates = Templates(self.problems, schemas)
        self._own: Variables = {"data": state_schema(contract), "key": key, "now_ns": t.Time()}
        self._checks = {
            each.name: wire_codec(t.Option(each.schema), schemas).check for each in contract.data.values()
        }
        self.moves: dict[str, dict[str, tuple[Move, ...]]] = {}
        self.start: dict[str, tuple[Assignment, ...]] = {}
        self.entry = {name: self._makes(state.entry, self._own) for name, state in contract.states.items()}
        self.exit = {name: self._makes(state.exit, self._own) for name, state in contract.states.items()}
        self.timers = {
            name: self._timer(name, state.timeout) for name, state in contract.states.items() if state.timeout
        }
        for trigger, schema in events.items():
            self._add(trigger, schema)
        for state in contract.states.values():
            if state.timeout is not None:
                self._add_timeout(state.name, state.timeout)
        if contract.start is not None:
            schema = events[contract.start.trigger]
            self.start[schema] = self._sets(contract.start.sets, self._variables(schema))
        self.problems.check_none()

    @property
    def uses_now(self) -> bool:
        """Whether an expression reads the time."""
        return "now_ns" in self._templates.roots

    @property
    def uses_key(self) -> bool:
        """Whether an expression reads the cell's key."""
        return "key" in self._templates.roots

    def _variables(self, schema: str) -> Variables:
        return {**self._own, "event": t.Ref(schema)}

    def _add(self, trigger: str, schema: str) -> None:
        if schema not in self._schemas:
            line = self.contract.triggers[trigger].line
            self.problems.note(
                "trigger_unknown", line, f"triggers.{trigger}", f"the manifest has no schema {schema}",
                "Declare the event, or leave `event` out: then the contract brings it.",
            )  # fmt: skip
            return
        for state in self.contract.states:
            self._put(schema, state, trigger)

    def _add_timeout(self, state: str, timeout: Timeout) -> None:
        self._put(TIMER_FIRED, state, timeout.trigger)

    def _put(self, schema: str, state: str, trigger: str) -> None:
        chosen = [
            each for each in self.contract.transitions if each.source == state and each.trigger == trigger
        ]
        if chosen:
            variables = self._variables(schema)
            by_state = self.moves.setdefault(schema, {})
            by_state[state] = (*by_state.get(state, ()), *(self._move(each, variables) for each in chosen))
        else:
            self.moves.setdefault(schema, {})

    def _move(self, transition: Transition, variables: Variables) -> Move:
        guard = self._templates.guard(transition.guard, variables)
        sets = self._sets(transition.sets, variables)
        return Move(transition, guard, sets, self._makes(transition.effects, variables))

    def _sets(self, sets: Mapping[str, Placed], variables: Variables) -> tuple[Assignment, ...]:
        return tuple(
            Assignment(name, self._templates.value(placed, variables), self._checks[name])
            for name, placed in sets.items()
        )

    def _makes(self, requests: Sequence[EffectTemplate], variables: Variables) -> tuple[Make, ...]:
        return tuple(self._make(each, variables) for each in requests)

    def _make(self, request: EffectTemplate, variables: Variables) -> Make:
        """A function that makes the request; its params are checked by the schema that the kind declares."""
        kind, slot = request.kind, request.slot
        schema = self._effects.get(kind)
        if schema is None:
            known = ", ".join(sorted(self._effects)) or "none"
            self.problems.note(
                "effect_unknown",
                request.line,
                request.field,
                f"there is no effect {kind}",
                f"There are: {known}.",
            )
            schema = TIMER_SET_PARAMS
        write = wire_codec(t.Ref(schema), self._schemas).encode
        empty = Placed({}, request.line, request.field)
        params = self._templates.value(request.params or empty, variables)
        key = None if request.key is None else self._templates.value(request.key, variables)

        def make(arguments: Arguments) -> CheckedRequest:
            try:
                written = write(params(arguments))
            except CelluleError as error:
                raise StepFault(
                    "fsm.value_invalid", f"line {request.line}: params of {kind}: {error}"
                ) from error
            named = None if key is None else key(arguments)
            if named is not None and type(named) is not str:
                raise StepFault("fsm.value_invalid", f"line {request.line}: the key of {kind} is no text")
            return CheckedRequest(kind, written, slot, named)

        return make

    def _timer(self, state: str, timeout: Timeout) -> Make:
        """A function that makes the request for a state's timer; `visit` is already that of the new state."""
        write = wire_codec(t.Ref(TIMER_SET_PARAMS), self._schemas).encode
        at = None if timeout.at is None else self._templates.value(timeout.at, self._own)
        after = timeout.after_ns

        def make(arguments: Arguments) -> CheckedRequest:
            when = {"after_ns": after} if at is None else {"at_ns": at(arguments)}
            key = timer_key(state, arguments["data"]["visit"])
            try:
                return CheckedRequest(TIMER_SET, write({**when, "key": key}))
            except CelluleError as error:
                raise StepFault("fsm.value_invalid", f"line {timeout.line}: the timeout: {error}") from error

        return make


def timer_key(state: str, visit: int) -> str:
    """The key of the timer of one visit to a state, so that a timer of an earlier visit is told apart."""
    return f"{state}{TIMER_MARK}{visit}"


def assigned(sets: Sequence[Assignment], arguments: Arguments, data: dict[str, Any], line: int) -> None:
    """Set fields of `data`; all are computed over the state as it was before."""
    found: list[tuple[str, Any]] = []
    for name, fill, check in sets:
        try:
            found.append((name, check(fill(arguments))))
        except ExpressionFault as fault:
            raise StepFault("fsm.expression_fault", f"line {line}: set.{name}: {fault}") from fault
        except CelluleError as error:
            raise StepFault("fsm.value_invalid", f"line {line}: set.{name}: {error}") from error
    for name, value in found:
        if value is None:
            data.pop(name, None)
        else:
            data[name] = value


def unknown_state(contract: Contract, state: object) -> Rejected:
    """The refusal of a stored state that the contract does not have any more."""
    return Rejected(
        "fsm.state_gone", "the cell is in {state}, which {file} does not have", state=state,
        file=contract.file,
        hint="Keep the state in the contract until no cell is in it, or move the cell by an upcaster.",
    )  # fmt: skip
