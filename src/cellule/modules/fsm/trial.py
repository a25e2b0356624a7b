"""A machine on trial: what can happen to it now, and what it is after that, by its own program.

    Spot --deed--> Spot      an event, the receipt of an effect, time, or a move by hand

It plays the world for one cell: it remembers what the machine has asked for and when its timer is due.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from cellule.errors import CelluleError
from cellule.kernel.manifest.model import TIMER_SET, Manifest, Module
from cellule.kernel.manifest.system import TIMER_FIRED, receipt_event
from cellule.kernel.program import Context, Output, StepFault
from cellule.modules.fsm.contract import Contract, Transition
from cellule.modules.fsm.examples import Literals, examples
from cellule.modules.fsm.interface import MANUAL, derived_events, manual_event
from cellule.modules.fsm.limits import TRIES_MAX
from cellule.modules.fsm.program import FsmProgram
from cellule.values.cbor import decode_trusted
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.codec import wire_codec

_INTENT: Final = "bafy"  # no effect is asked for in earnest


class Deed(NamedTuple):
    """What happens to a machine: an event `sent`, an effect `answered`, time `waited`, a `move` by hand.

    `name` is the event, the kind of effect, or nothing; `value` the event's, the receipt's value or its
    failure (None), the nanoseconds, or the two states.
    """

    how: str
    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Spot:
    """A machine after a walk: its state, what it asked for and waits for, and the time."""

    deeds: tuple[Deed, ...]
    states: tuple[str, ...]
    state: bytes | None
    asked: tuple[str, ...]
    due_ns: int | None
    timer: str
    now_ns: int

    @property
    def identity(self) -> tuple[Any, ...]:
        """What decides how it can go on."""
        left = None if self.due_ns is None else self.due_ns - self.now_ns
        return self.state, self.asked, left


class Trial:
    """One machine, whose cell has one key, from a time on."""

    def __init__(
        self, contract: Contract, program: FsmProgram, manifest: Manifest, module: Module, key: bytes,
        now_ns: int,
    ) -> None:  # fmt: skip
        self.contract = contract
        self.module = module
        self._program = program
        self._manifest = manifest
        self._schemas = manifest.schemas
        self._key = key
        self._begin_ns = now_ns
        self._literals = Literals(contract)
        name = Name.parse(module.name)
        self._events = {**derived_events(contract, name.namespace), **module.code.get("events", {})}
        self._manual = manual_event(name)
        self._key_paths = {
            event: route.key_path
            for event, routes in manifest.routes.items()
            for route in routes
            if route.base == module.base
        }
        self.tries = 0

    @property
    def is_over(self) -> bool:
        """Whether enough was tried."""
        return self.tries >= TRIES_MAX

    @property
    def key_only(self) -> frozenset[str]:
        """The events whose sender has to name the key."""
        return frozenset(event for event, path in self._key_paths.items() if not path)

    def origin(self) -> Spot:
        """The machine before its first event."""
        return Spot((), (), None, (), None, "", self._begin_ns)

    def steps(self, spot: Spot, trigger: str) -> Iterator[tuple[Transition, Spot]]:
        """The transitions that a trigger was found to take, each with the machine after it."""
        taken: set[int] = set()
        for deed, (schema, value) in self._deeds(spot, trigger):
            if self.is_over:
                return
            self.tries += 1
            now_ns = spot.now_ns + (deed.value if deed.how == "waited" else 0)
            try:
                transition = self._program.choice(spot.state, schema, value, self._key, self._context(now_ns))
            except CelluleError:
                continue
            if transition is None or transition.number in taken or transition.trigger != trigger:
                continue
            after = self.after(spot, deed)
            if after is not None:
                taken.add(transition.number)
                yield transition, after

    def _deeds(self, spot: Spot, trigger: str) -> Iterator[tuple[Deed, tuple[str, bytes]]]:
        """What a trigger can be, with the event that the machine then gets."""
        state = self.contract.states[self.state_of(spot)]
        if state.timeout is not None and state.timeout.trigger == trigger and spot.due_ns is not None:
            left = max(0, spot.due_ns - spot.now_ns)
            yield Deed("waited", "", left), self._fired(spot)
        kind = self.contract.triggers[trigger].receipt
        if kind is not None:
            yield from self._answers(spot, kind)
        elif not self.contract.triggers[trigger].is_timer:
            yield from self.event_deeds(spot, trigger)

    def event_deeds(self, spot: Spot, trigger: str) -> Iterator[tuple[Deed, tuple[str, bytes]]]:
        """Events that a trigger can be, with their bytes."""
        schema = self._events[trigger]
        path = self._key_paths.get(schema, ())
        write = wire_codec(t.Ref(schema), self._schemas).encode
        for value in examples(t.Ref(schema), self._schemas, self._literals, spot.now_ns, path[:1]):
            keyed = _with_key(value, path, self._key_value())
            try:
                yield Deed("sent", schema, keyed), (schema, write(keyed))
            except CelluleError:
                continue

    def _answers(self, spot: Spot, kind: str) -> Iterator[tuple[Deed, tuple[str, bytes]]]:
        if kind not in spot.asked:
            return
        schema = receipt_event(kind)
        write = wire_codec(t.Ref(schema), self._schemas).encode
        about = {"intent_id": _INTENT, "kind": kind}
        form = t.Ref(self._manifest.effects[kind].receipt)
        for value in examples(form, self._schemas, self._literals, spot.now_ns):
            try:
                receipt = write({**about, "status": "ok", "value": value})
            except CelluleError:
                continue
            yield Deed("answered", kind, value), (schema, receipt)
        failed = {**about, "status": "failed", "code": "test.failed", "text": "failed by the test"}
        yield Deed("answered", kind, None), (schema, write(failed))

    def _fired(self, spot: Spot) -> tuple[str, bytes]:
        write = wire_codec(t.Ref(TIMER_FIRED), self._schemas).encode
        due_ns = spot.due_ns or spot.now_ns
        return TIMER_FIRED, write(
            {"intent_id": _INTENT, "due_ns": due_ns, "fired_ns": due_ns, "key": spot.timer}
        )

    def after(self, spot: Spot, deed: Deed) -> Spot | None:
        """The machine after a deed; None where its step is refused or fails."""
        schema, value = self._event_of(spot, deed)
        now_ns = spot.now_ns + (deed.value if deed.how == "waited" else 0)
        try:
            output = self._program.step(spot.state, schema, value, self._key, self._context(now_ns))
        except StepFault:
            return None
        asked = spot.asked
        if deed.how == "answered":
            at = asked.index(deed.name)
            asked = asked[:at] + asked[at + 1 :]
        due_ns, timer = (None, "") if deed.how == "waited" else (spot.due_ns, spot.timer)
        if timer in output.cancels:
            due_ns, timer = None, ""
        made = replace(
            spot, deeds=(*spot.deeds, deed), state=output.state, asked=asked, due_ns=due_ns, timer=timer,
            now_ns=now_ns,
        )  # fmt: skip
        made = self._requested(made, output)
        return replace(made, states=(*spot.states, self.state_of(made)))

    def _requested(self, spot: Spot, output: Output) -> Spot:
        """The machine with what its step asked for."""
        for request in output.effects:
            if request.kind != TIMER_SET:
                spot = replace(spot, asked=(*spot.asked, request.kind))
                continue
            params: Any = decode_trusted(request.params)
            due_ns = params.get("at_ns", spot.now_ns + params.get("after_ns", 0))
            spot = replace(spot, due_ns=due_ns, timer=params["key"])
        return spot

    def _event_of(self, spot: Spot, deed: Deed) -> tuple[str, bytes]:
        match deed.how:
            case "sent":
                return deed.name, wire_codec(t.Ref(deed.name), self._schemas).encode(deed.value)
            case "waited":
                return self._fired(spot)
            case "move":
                source, target = deed.value
                value = {"from_state": source, "to_state": target, "trigger": MANUAL}
                value[self.contract.key] = self._key_value()
                return self._manual, wire_codec(t.Ref(self._manual), self._schemas).encode(value)
            case _:
                return next(event for other, event in self._answers(spot, deed.name) if other == deed)

    def state_of(self, spot: Spot) -> str:
        """The state that it is in."""
        data: Any = {} if spot.state is None else decode_trusted(spot.state)
        return str(data.get("state", self.contract.initial))

    def _key_value(self) -> Any:
        schema = self.module.key
        return self._key.decode() if schema is None or schema == t.Text() else decode_trusted(self._key)

    def _context(self, now_ns: int) -> Context | None:
        if not self.module.context:
            return None
        return Context(bytes(16), self.module.base, self._key, 1, 1, now_ns, bytes(16), 0, 1)


def _with_key(value: Any, path: tuple[str, ...], key: Any) -> Any:
    """A value with the key at its place."""
    if not path:
        return value
    inner = value if isinstance(value, dict) else {}
    return {**inner, path[0]: _with_key(inner.get(path[0]), path[1:], key) if path[1:] else key}
