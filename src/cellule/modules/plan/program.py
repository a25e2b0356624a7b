"""A plan at work: each event lets one run take steps until it waits or ends. A run is a cell.

    state  {status: "open" | "ended", at, input, trigger, correlation, started, local, step, counts,
            early: [[schema, value], ...], receipts: {key: value}, result?}

A run begins with a trigger's event. While it is open, and once it has ended, a further trigger event for its
correlation changes nothing, and its step says so: the same event often goes to a reducer, too, whose sender
must not hear of a refusal. Events that the plan awaits are kept in their order until the run comes to them;
events for no run, or for one that has ended, change nothing. A request carries a key made of the height at
which the run began, its step and its turn, so a receipt finds the step that it belongs to.

Rejected: a log of steps as state. A plan does not re-run from its history; its place and names are enough.
"""

from __future__ import annotations

from typing import Any, Final

from cellule.errors import CelluleError
from cellule.kernel.heartbeat.cell_paths import cell_path
from cellule.kernel.heartbeat.shown_operations import OK, begin, end
from cellule.kernel.manifest.event_routes import UNREADABLE
from cellule.kernel.manifest.model import TIMER_SET
from cellule.kernel.manifest.schemas import is_receipt
from cellule.kernel.manifest.system import SIGNAL, TIMER_FIRED, Ended
from cellule.kernel.program import Context, Emit, Output, Request, StepFault, StepRefusal
from cellule.modules.plan.compile import CompiledPlan, Step
from cellule.modules.plan.expr import Seen
from cellule.modules.plan.limits import ADVANCE_MAX, EARLY_MAX, VALUE_BYTES_MAX
from cellule.values.cbor import decode_trusted, encode

OPEN: Final = "open"
ENDED: Final = "ended"


class PlanProgram:
    """The program of one plan."""

    is_canonical = True

    def __init__(self, plan: CompiledPlan) -> None:
        self._plan = plan

    def step(
        self,
        state: bytes | None,
        schema: str,
        value: bytes,
        key: bytes,
        context: Context | None,
    ) -> Output:
        """See `Program.step`."""
        output = self._step(state, schema, decode_trusted(value), context)
        return self._shown(state, output, key) if self._plan.operation else output

    def _step(self, state: bytes | None, schema: str, event: Any, context: Context | None) -> Output:
        plan = self._plan
        run: dict[str, Any] | None = None if state is None else decode_trusted(state)  # type: ignore[assignment]
        if schema == TIMER_FIRED or is_receipt(schema):
            return self._receipt(run, state, event)
        if run is None:
            if schema not in plan.triggers:
                return Output(None)  # nobody waits for it: no cell is made
            assert context is not None
            return self._go(self._begun(schema, event, context.journal_height))
        if schema not in plan.awaited:
            return Output(state, ann=_IGNORED[run["status"]], ended=_ended(run))
        if run["status"] != OPEN:
            return Output(state, ended=_ended(run))
        if len(run["early"]) >= EARLY_MAX:
            text = f"the run keeps {EARLY_MAX} events already that it has not come to"
            raise StepRefusal("plan.early_full", text)
        run["early"].append([schema, event])
        return self._go(run)

    def _shown(self, before: bytes | None, output: Output, key: bytes) -> Output:
        """The answer with the signals by which a run shows that it begins and ends."""
        if output.state is None:
            return output
        run: Any = decode_trusted(output.state)
        path = cell_path(self._plan.module, key)
        signals = []
        if before is None:
            signals.append(begin(path, f"plan/{self._plan.module}"))
        if run["status"] == ENDED and (before is None or before != output.state):
            signals.append(end(path, OK))
        return output._replace(events=[*output.events, *(Emit(SIGNAL, encode(each)) for each in signals)])

    def _begun(self, schema: str, event: Any, height: int) -> dict[str, Any]:
        found = event
        for part in self._plan.triggers[schema]:
            found = found.get(part) if isinstance(found, dict) else None
        return {
            "status": OPEN, "at": self._plan.first, "input": event, "trigger": schema, "correlation": found,
            "started": height, "local": {}, "step": {}, "counts": {}, "early": [], "receipts": {},
        }  # fmt: skip

    def _receipt(self, run: dict[str, Any] | None, state: bytes | None, event: Any) -> Output:
        if run is None or run["status"] != OPEN or event.get("key") is None:
            return Output(state)
        run["receipts"][event["key"]] = event
        return self._go(run)

    def _go(self, run: dict[str, Any]) -> Output:
        """Take steps until the run waits or ends."""
        turn = _Turn(run)
        steps = self._plan.steps
        for _ in range(ADVANCE_MAX):
            step = steps[run["at"]]
            if not turn.take(step):
                return turn.output()
            if run["status"] == ENDED:
                return turn.output()
            turn.follow(step)
            if run["status"] == ENDED:
                return turn.output()
        raise StepFault("plan.endless", f"the run took {ADVANCE_MAX} steps for one event")


_IGNORED: Final = {
    OPEN: encode({"ignored": "a run with this correlation is open already"}),
    ENDED: encode({"ignored": "the run with this correlation has ended; it is final"}),
}


def _ended(run: dict[str, Any]) -> Ended | None:
    """What callers hear of a run that has ended: whom it has not answered, it never will."""
    return _OVER if run["status"] == ENDED else None


_OVER: Final = Ended("ended", "plan.ended", "its run ended without this answer")


class _Turn:
    """What one event brings a run to do."""

    def __init__(self, run: dict[str, Any]) -> None:
        self._run = run
        self._seen = Seen(run["input"], run["correlation"], run["local"], run["step"])
        self._events: list[Emit] = []
        self._effects: list[Request] = []

    def output(self) -> Output:
        """The step's answer."""
        return Output(encode(self._run), self._events, self._effects, ended=_ended(self._run))

    def take(self, step: Step) -> bool:
        """Take a step; false where the run has to wait at it."""
        match step.op:
            case "assign":
                assert step.value is not None
                self._bind(step, step.value(self._seen))
            case "emit_effect":
                self._emit(step)
            case "raise_event":
                self._raise(step)
            case "await_receipt":
                return self._await_receipt(step)
            case "await_event":
                return self._await_event(step)
            case _:
                self._end(None if step.value is None else step.value(self._seen))
        return True

    def follow(self, step: Step) -> None:
        """Go along the first edge whose guard holds."""
        if not step.edges:
            self._end(None)
            return
        for when, to in step.edges:
            if when is None:
                self._run["at"] = to
                return
            found = when(self._seen)
            if type(found) is not bool:
                raise StepFault("plan.value", f"an edge of {step.id}: `when` gives {found!r:.100}, no bool")
            if found:
                self._run["at"] = to
                return
        raise StepFault("plan.no_edge", f"no edge of {step.id} holds; give it one without `when`")

    def _end(self, result: Any) -> None:
        self._run["status"] = ENDED
        self._run["at"] = ""
        self._run["early"], self._run["receipts"] = [], {}
        if result is not None:
            self._run["result"] = result

    def _bind(self, step: Step, value: Any) -> None:
        if step.bind is None:
            return
        try:
            size = len(encode(value))
        except CelluleError as error:
            raise StepFault("plan.value", f"{step.path}: {error}") from error
        if step.op == "assign" and size > VALUE_BYTES_MAX:
            text = f"{step.path}: the local {step.bind} has {size} bytes; at most {VALUE_BYTES_MAX}"
            raise StepFault("plan.value", text)
        self._run["local"][step.bind] = value

    def _encoded(self, step: Step, value: Any) -> bytes:
        assert step.codec is not None
        try:
            return step.codec.encode(value)
        except CelluleError as error:
            raise StepFault("plan.value", f"{step.path}: {error}") from error

    def _emit(self, step: Step) -> None:
        assert step.value is not None
        counts = self._run["counts"]
        counts[step.id] = counts.get(step.id, 0) + 1
        key, params = self._key(step.id), step.value(self._seen)
        if step.name == TIMER_SET and isinstance(params, dict):
            params = {**params, "key": key}
        self._effects.append(Request(step.name, self._encoded(step, params), step.slot, key))
        self._bind(step, key)

    def _key(self, id: str) -> str:
        return f"{self._run['started']}/{id}/{self._run['counts'].get(id, 0)}"

    def _await_receipt(self, step: Step) -> bool:
        found = self._run["receipts"].pop(self._key(step.name), None)
        if found is None:
            return False
        self._run["step"][step.id] = found
        self._bind(step, found)
        return True

    def _await_event(self, step: Step) -> bool:
        early = self._run["early"]
        for at, (schema, event) in enumerate(early):
            if schema != step.name:
                continue
            if step.value is not None and step.value(self._seen._replace(event=event)) is not True:
                continue
            del early[at]
            self._run["step"][step.id] = event
            self._bind(step, event)
            return True
        return False

    def _raise(self, step: Step) -> None:
        assert step.value is not None
        value = step.value(self._seen)
        key = None
        if step.key is not None and step.key_form is not None:
            key = self._target_key(step, value)
        self._events.append(Emit(step.name, self._encoded(step, value), key))

    def _target_key(self, step: Step, value: Any) -> bytes | None:
        """The key for a route that takes the sender's; else none, once it is the one in the value."""
        assert step.key is not None
        assert step.key_form is not None
        try:
            given = step.key_form.of(step.key(self._seen), step.name, "key")
            if step.key_only:
                return given
            found = value
            for part in step.key_path:
                found = found[part]
            own = step.key_form.of(found, step.name, ".".join(step.key_path))
        except UNREADABLE as error:
            raise StepFault("plan.value", f"{step.path}.key: {error}") from error
        if own != given:
            text = f"{step.path}.key: the key is {given!r}, and the event's own {own!r}"
            raise StepFault("plan.key_differs", text)
        return None
