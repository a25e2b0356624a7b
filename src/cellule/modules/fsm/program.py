"""`FsmProgram`: a compiled contract as the kernel calls it, bytes in, bytes out.

A cell is born in the initial state: its entry effects run, and unless the event is the contract's `start`,
the event is then taken from there, in the same step. A refused event changes nothing and makes no cell.

By hand: `<module>_transition` moves a machine along a transition of its contract, if it is in the state the
sender believes it in. Guards, assignments and effects of the transition need an event of its trigger and are
left out; exit and entry effects and timers see only the state, and run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cellule.errors import CelluleError
from cellule.kernel.manifest.model import Module
from cellule.kernel.manifest.system import TIMER_FIRED, Ended
from cellule.kernel.program import (
    Context,
    Emit,
    Output,
    StepFault,
    StepFunction,
    StepRefusal,
    fault_of,
    recordable,
)
from cellule.modules.fsm.contract import Transition
from cellule.modules.fsm.interface import MANUAL, RECORDS, manual_event, state_schema
from cellule.modules.fsm.limits import ALLOWED_SHOWN_MAX
from cellule.modules.fsm.machine import Assignment, Machine, Move, assigned, timer_key, unknown_state
from cellule.modules.fsm.records import initialized, note_of, transitioned
from cellule.modules.fsm.templates import Arguments
from cellule.values.cbor import decode_trusted, encode
from cellule.values.expressions import ExpressionFault
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.registry import Schemas
from cellule.values.schema.traits import decoder_for, encoder_for

REFUSED = "fsm.transition_invalid"
STALE = "fsm.timeout_stale"


class FsmProgram:
    """One machine with its codecs."""

    is_canonical = True  # our own encoder makes all its bytes

    def __init__(self, machine: Machine, module: Module, schemas: Schemas) -> None:
        self._machine = machine
        self._contract = contract = machine.contract
        name = Name.parse(module.name)
        self._title = name.local
        self._manual = manual_event(name)
        self._schemas = schemas
        form = state_schema(contract)
        self._read, self._write = decoder_for(form, schemas), encoder_for(form, schemas)
        self._read_key: Callable[[bytes], Any] = bytes.decode if module.key == t.Text() else decode_trusted
        self._visits = bool(machine.timers)
        self._uses_key, self._uses_now = machine.uses_key, machine.uses_now
        self._announces = {tag: f"{name.namespace}/{tag}@1" for tag in RECORDS} if contract.announce else {}
        self._defaults = {
            each.name: each.default for each in contract.data.values() if each.default is not None
        }
        self._over = {
            each: Ended("ended", "fsm.ended", f"the machine has come to {each}, its end")
            for each in contract.terminal
        }
        self._notes: dict[tuple[int, str], bytes] = {}
        self._functions: dict[str, StepFunction] = {}

    def step(
        self, state: bytes | None, schema: str, value: bytes, key: bytes, context: Context | None
    ) -> Output:
        """See `Program.step`."""
        answer = self.way(schema)(state, value, None, key, context)
        return Output(answer) if isinstance(answer, bytes) else answer

    def way(self, schema: str) -> StepFunction:
        """See `Program`: the function of events of one schema."""
        found = self._functions.get(schema)
        if found is None:
            found = self._functions[schema] = self._function(schema)
        return found

    def _function(self, schema: str) -> StepFunction:
        read_event = decoder_for(t.Ref(schema), self._schemas)
        by_state, start = self._machine.moves.get(schema, {}), self._machine.start.get(schema)
        manual, timer = schema == self._manual, schema == TIMER_FIRED

        def step(
            state: bytes | None, value: bytes, fields: Mapping[str, Any] | None, key: bytes,
            context: Context | None,
        ) -> Output | bytes:  # fmt: skip
            try:
                event = read_event(value) if fields is None else fields
                data = self._initial() if state is None else self._stored(state)
                arguments = self._arguments(data, event, key, context)
                if manual:
                    return self._by_hand(state is None, arguments, key, context)
                if state is None and start is not None:
                    return self._begin(start, arguments, key, context)
                if timer:
                    self._check_timer(data, event)
                return self._taken(
                    state is None, by_state.get(data["state"], ()), schema, arguments, key, context
                )
            except ExpressionFault as fault:
                raise StepFault("fsm.expression_fault", recordable(str(fault))) from fault
            except CelluleError as error:
                raise StepFault(error.code, recordable(str(error))) from error
            except StepFault:
                raise
            except BaseException as error:
                raise fault_of(error) from error

        return step

    def _initial(self) -> dict[str, Any]:
        data = {"state": self._contract.initial, **self._defaults}
        if self._visits:
            data["visit"] = 0
        return data

    def _stored(self, state: bytes) -> dict[str, Any]:
        data: dict[str, Any] = self._read(state)
        if data["state"] not in self._contract.states:
            raise unknown_state(self._contract, data["state"])
        if self._visits:
            data.setdefault("visit", 0)
        for name, value in self._defaults.items():
            data.setdefault(name, value)
        return data

    def _arguments(self, data: dict[str, Any], event: Any, key: bytes, context: Context | None) -> Arguments:
        arguments: Arguments = {"data": data, "event": event}
        if self._uses_key:
            arguments["key"] = self._read_key(key)
        if self._uses_now and context is not None:
            arguments["now_ns"] = context.now_ns
        return arguments

    def _begin(
        self, sets: tuple[Assignment, ...], arguments: Arguments, key: bytes, context: Context | None
    ) -> Output:
        """A machine that `start` makes: in its initial state, with no transition."""
        assert self._contract.start is not None
        data = dict(arguments["data"])
        assigned(sets, arguments, data, self._contract.start.line)
        effects = self._entered(data, {**arguments, "data": data})
        record = initialized(self._title, data["state"], self._contract.start.trigger)
        return self._output(data, effects, [], [record], [], key, context)

    def _taken(
        self, born: bool, moves: tuple[Move, ...], schema: str, arguments: Arguments, key: bytes,
        context: Context | None,
    ) -> Output:  # fmt: skip
        """Take the first of `moves` whose guard holds; what gave no answer before it is noted."""
        move, faults = _chosen(moves, arguments)
        if move is None:
            raise self._refusal(schema, arguments["data"]["state"], moves, faults)
        return self._moved(
            born, move.transition, move, move.transition.trigger, faults, arguments, key, context
        )

    def choice(
        self, state: bytes | None, schema: str, value: bytes, key: bytes, context: Context | None
    ) -> Transition | None:
        """The transition that an event would take; None where none, or where it only begins a machine."""
        if state is None and schema in self._machine.start:
            return None
        data = self._initial() if state is None else self._stored(state)
        arguments = self._arguments(data, decoder_for(t.Ref(schema), self._schemas)(value), key, context)
        move, _ = _chosen(self._machine.moves.get(schema, {}).get(data["state"], ()), arguments)
        return None if move is None else move.transition

    def _by_hand(self, born: bool, arguments: Arguments, key: bytes, context: Context | None) -> Output:
        event, state = arguments["event"], arguments["data"]["state"]
        source, target = (str(event[name]).upper() for name in ("from_state", "to_state"))
        trigger = event.get("trigger") or MANUAL
        if source != state.upper():
            raise self._refusal_by_hand(state, trigger, f"it is not in {event['from_state']}")
        for each in self._contract.transitions:
            if each.source != state or each.target.upper() != target:
                continue
            if trigger == MANUAL or trigger.upper() == each.trigger.upper():
                return self._moved(born, each, None, trigger, [], arguments, key, context)
        raise self._refusal_by_hand(state, trigger, f"no transition leads to {event['to_state']}")

    def _moved(
        self, born: bool, transition: Transition, move: Move | None, trigger: str, faults: list[str],
        arguments: Arguments, key: bytes, context: Context | None,
    ) -> Output:  # fmt: skip
        """Take a transition: exit, the transition's own, entry; then the timer of the new state."""
        before, line, source = arguments["data"], transition.line, transition.source
        effects: list[Any] = []
        if born and self._machine.entry[source]:
            effects += [make(arguments) for make in self._machine.entry[source]]
        effects += [make(arguments) for make in self._machine.exit[source]]
        cancels = [] if born or source not in self._machine.timers else [timer_key(source, before["visit"])]
        data = dict(before)
        data["state"] = transition.target
        if self._visits:
            data["visit"] = before["visit"] + 1
        if move is not None:
            assigned(move.sets, arguments, data, line)
        arguments = {**arguments, "data": data}
        if move is not None:
            effects += [make(arguments) for make in move.effects]
        effects += self._entered(data, arguments)
        if not (born or faults or self._announces) and trigger == transition.trigger:
            note = self._notes.get((transition.number, source))
            if note is None:
                note = self._notes[transition.number, source] = note_of(
                    [transitioned(self._title, source, transition.target, trigger)], []
                )
            over = self._over.get(data["state"])
            return Output(self._write(data), (), effects, None, note, cancels, ended=over)
        records = [initialized(self._title, source, trigger)] if born else []
        records.append(transitioned(self._title, source, transition.target, trigger))
        return self._output(data, effects, cancels, records, faults, key, context)

    def _entered(self, data: dict[str, Any], arguments: Arguments) -> list[Any]:
        """What entering the state asks for."""
        made = [make(arguments) for make in self._machine.entry[data["state"]]]
        timer = self._machine.timers.get(data["state"])
        return made if timer is None else [*made, timer(arguments)]

    def _output(
        self, data: dict[str, Any], effects: list[Any], cancels: list[str], records: list[dict[str, Any]],
        faults: list[str], key: bytes, context: Context | None,
    ) -> Output:  # fmt: skip
        events: list[Emit] = []
        for record in records if self._announces else ():
            value = dict(record["$value"])
            if self._read_key is bytes.decode:
                value["key"] = key.decode()
            if context is not None:
                value["at_ns"] = context.now_ns
            events.append(Emit(self._announces[record["$tag"]], encode(value), key))
        over, note = self._over.get(data["state"]), note_of(records, faults)
        return Output(self._write(data), events, effects, None, note, cancels, ended=over)

    # Refusals

    def _check_timer(self, data: dict[str, Any], event: Mapping[str, Any]) -> None:
        """Refuse the timer of a visit that is over: it had fired before the step that cancelled it ran."""
        current = timer_key(data["state"], data.get("visit", 0))
        if event.get("key") != current:
            text = f"the timeout {event.get('key')} is over: {self._title} is in {current}"
            raise StepRefusal(STALE, recordable(text))

    def _refusal(self, schema: str, state: str, moves: tuple[Move, ...], faults: list[str]) -> StepRefusal:
        if moves:
            guards = "; ".join(str(each.transition.guard.value) for each in moves if each.transition.guard)
            why = f"no guard of {moves[0].transition.trigger} holds ({guards})"
            why += f"; no answer: {'; '.join(faults)}" if faults else ""
        else:
            why = f"{Name.parse(schema).local} is not possible"
        raise StepRefusal(
            REFUSED, recordable(f"{self._title} is in {state}, where {why}. {self._allowed(state)}")
        )

    def _refusal_by_hand(self, state: str, trigger: str, why: str) -> StepRefusal:
        text = f"{self._title} is in {state}: {why} ({trigger}). {self._allowed(state)}"
        return StepRefusal(REFUSED, recordable(text))

    def _allowed(self, state: str) -> str:
        found = [
            f"{each.trigger} -> {each.target}" for each in self._contract.transitions if each.source == state
        ]
        if not found:
            return "It is terminal: nothing is possible any more."
        more = f" and {len(found) - ALLOWED_SHOWN_MAX} more" if len(found) > ALLOWED_SHOWN_MAX else ""
        return f"Possible are: {', '.join(found[:ALLOWED_SHOWN_MAX])}{more}."


def _chosen(moves: tuple[Move, ...], arguments: Arguments) -> tuple[Move | None, list[str]]:
    """The first whose guard holds, and the guards before it that gave no answer, which do not hold."""
    faults: list[str] = []
    for move in moves:
        if move.guard is None:
            return move, faults
        try:
            if move.guard(arguments):
                return move, faults
        except ExpressionFault as fault:
            faults.append(recordable(f"line {move.transition.line}: {fault}"))
    return None, faults
