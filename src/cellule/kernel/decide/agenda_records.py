"""A decided agenda becomes records, and changes of the ledger.

    Agenda   the impulse: resolved entries, return codes; then what each run did, in its order
    ...      Signal, Write, Enzyme, Binding, Intent with Decision; a retry behind what its own run emitted

All of it takes effect here, behind all runs: nobody in this agenda sees it, everybody in the next one does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.decide import impulses, operations, writes
from cellule.kernel.decide.agenda import Agenda, Handled, Line, retries_of
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.enzyme_actions import text_of
from cellule.kernel.decide.enzyme_runs import RETRY
from cellule.kernel.decide.intents import open as opening
from cellule.kernel.decide.operations import OPS_PATH
from cellule.kernel.decide.registry import add_entry
from cellule.kernel.decide.requests import Origin
from cellule.kernel.heartbeat.entries import parse_entry
from cellule.kernel.heartbeat.impulses import DIAGNOSTICS, check_impulse, place_text
from cellule.kernel.heartbeat.paths import is_below, parse_path
from cellule.kernel.journal.codes import LOCAL, PROPAGATING, TOMBSTONE
from cellule.kernel.journal.heartbeat_records import (
    AgendaExtras,
    AgendaRecord,
    BindingRecord,
)
from cellule.kernel.journal.records import (
    EventRecord,
)
from cellule.kernel.limits import BINDINGS_PER_NODE_MAX
from cellule.kernel.manifest.system import SIGNAL
from cellule.kernel.need import Need
from cellule.kernel.program import TIMED_OUT, StepFault, recordable
from cellule.kernel.state import heartbeat_rows as state
from cellule.kernel.state.cells import EVENT_MESSAGE, Message
from cellule.kernel.state.heartbeat import Heartbeat
from cellule.values.cbor import decode_trusted, encode
from cellule.values.envelope import value_of

DIGEST_BYTES: Final = 16


def run(context: BeatContext, heartbeat: Heartbeat) -> Generator[Need, None, bool]:
    """Decide the agenda of this beat and make it so; tells whether it had any impulse."""
    begun = context.writer.size
    agenda = Agenda(context.ledger, heartbeat, context.eras, context.world, context.entropy, begun)
    handled = yield from agenda.decide()
    for at, each in enumerate(handled):
        if at and context.writer.is_full():
            break  # the rest is due in the next beat, and runs again there
        yield from _write(context, heartbeat, each)
    return bool(handled)


def _write(context: BeatContext, heartbeat: Heartbeat, handled: Handled) -> Generator[Need, None, None]:
    impulse = handled.impulse
    counts = retries_of(handled)
    tired = exhausted_of(handled, counts)
    record = record_of(handled, tired)
    height = context.writer.add(record)
    yield from heartbeat.finish(handled.beat, handled.height, impulse)
    if handled.cell is not None:
        yield from _deliver(context, height, handled)
        return
    applied = _Applied(context, height, handled)
    for line in handled.lines:
        if line.staged is not None:
            yield from applied.apply(line)
        if line.ran and line.code == RETRY and line.entry.number not in tired:
            beat = context.ledger.beat + 1 + line.entry.backoff
            yield from impulses.queue(
                context, height, impulse.signal, impulse.target, impulse.payload, kind=state.RETRY, beat=beat,
                depth=impulse.depth, retries=sorted(counts.items()),
            )  # fmt: skip
    yield from _tell(context, height, handled, tired)


def exhausted_of(handled: Handled, counts: Mapping[int, int]) -> list[int]:
    """The entries that would send the impulse again, and did so as often as they may."""
    return [
        line.entry.number
        for line in handled.lines
        if line.ran and line.code == RETRY and counts[line.entry.number] > line.entry.retry_limit
    ]


def record_of(handled: Handled, exhausted: Sequence[int]) -> AgendaRecord:
    """The Agenda record of an impulse."""
    impulse = handled.impulse
    extras: AgendaExtras = {}
    if impulse.payload is not None:
        extras["payload"] = impulse.payload
    if impulse.kind:
        extras["kind"] = impulse.kind
    if handled.cycle:
        extras["cycle"] = True
    if handled.over:
        extras["over"] = handled.over
    if handled.dropped:
        extras["dropped"] = [entry.number for entry in handled.dropped]
    failed = [
        [line.entry.number, _code_of(line.fault), recordable(line.fault.text)]
        for line in handled.lines
        if line.fault is not None
    ]
    if failed:
        extras["failed"] = failed
    if exhausted:
        extras["exhausted"] = list(exhausted)
    if handled.cell is not None:
        extras["cell"] = True
    done: list[Any] = [
        [line.entry.number, line.staged.data] for line in handled.lines if line.staged is not None
    ]
    if any(line.staged is not None and line.staged.actions for line in handled.lines):
        extras["digest"] = sha256(encode(done)).digest()[:DIGEST_BYTES]
    lines = [(line.entry.number, line.code, line.ran) for line in handled.lines]
    return AgendaRecord(handled.height, impulse.signal, impulse.target, lines, extras)


def _code_of(fault: StepFault) -> str:
    return TIMED_OUT if fault.timed_out else fault.code


def _deliver(context: BeatContext, height: int, handled: Handled) -> Generator[Need, None, None]:
    """The impulse becomes a message of the cell that it targets, or is refused with a warning."""
    assert handled.cell is not None
    impulse, (base, key) = handled.impulse, handled.cell
    module = context.eras.current.manifest.modules.get(base)
    slot = None
    event: dict[str, Any] = {"target": impulse.target}
    if impulse.signal is not None:
        event["signal"] = impulse.signal
    if impulse.payload is not None:
        event["payload"] = decode_trusted((yield from context.value_of(impulse.payload)))
    value = _encoded(event)
    if module is not None and SIGNAL in module.events and bool(key) is (module.key is not None):
        slot = yield from context.slot(base, key)
    if slot is None or value is None or not slot.has_room(len(value)):
        why = "takes no signals" if slot is None else "has a full queue"
        why = why if value is not None else "takes no payload that nests so deep"
        text = f"cell {impulse.target} {why}"
        yield from _warn(context, height, handled, "heartbeat.cell_refuses", text)
        return
    extras: Any = {"depth": impulse.depth} if impulse.depth else {}
    keys = yield from context.sealer.keys_of([(base, key)])
    value = context.sealer.value(keys, value)
    stored = context.hold_value(value)  # a long one is a block: many of them must not fill the frame
    at = context.writer.add(EventRecord(height, None, SIGNAL, stored, [(base, key)], extras))
    message = Message(at, EVENT_MESSAGE, SIGNAL, value_of(stored), impulse.depth, None)
    context.ledger.deliver(slot, message)


def _encoded(event: dict[str, Any]) -> bytes | None:
    """The event around a payload; None where that nests as deep as a value may."""
    try:
        return encode(event)
    except Rejected:
        return None


def _tell(
    context: BeatContext, height: int, handled: Handled, exhausted: Sequence[int]
) -> Generator[Need, None, None]:
    """Warn of what went wrong with an impulse, as far as the frame has room; never with a diagnostic."""
    place = place_text(handled.impulse.signal, handled.impulse.target)
    if handled.cycle:
        text = f"the enzymes for {place} run ahead of each other: none of them ran"
        yield from _warn(context, height, handled, "heartbeat.cycle", text)
    if handled.over:
        text = f"{handled.over} enzymes and more take {place}: none of them ran"
        yield from _warn(context, height, handled, "heartbeat.candidates_count", text)
    for line in handled.lines:
        if context.writer.is_full():
            return
        if line.entry.number in exhausted:
            text = f"enzyme {line.entry.name} retried {line.entry.retry_limit} times for {place}"
            yield from _warn(context, height, handled, "heartbeat.retries_exhausted", text)
        if line.ran and line.fault is not None:
            text = f"enzyme {line.entry.name} failed for {place}: {line.fault.text}"
            yield from _warn(context, height, handled, line.fault.code, text, impulses.ERROR)


def _warn(
    context: BeatContext, height: int, handled: Handled, code: str, text: str, signal: str = impulses.WARN
) -> Generator[Need, None, None]:
    impulse = handled.impulse
    if impulse.signal is not None and is_below(impulse.signal, DIAGNOSTICS):
        return
    about = {"code": code, "text": recordable(text), "signal": impulse.signal, "target": impulse.target}
    yield from impulses.warn(context, height, about, impulse.depth + 1, signal)


class _Applied:
    """What the runs of one impulse did, made so; `position` counts the effects they ask for."""

    def __init__(self, context: BeatContext, height: int, handled: Handled) -> None:
        self._context = context
        self._height = height
        self._impulse = handled.impulse
        self._position = 0

    def apply(self, line: Line) -> Generator[Need, None, None]:
        """Make one run so."""
        assert line.staged is not None
        asked = iter(line.staged.asked)
        for action in line.staged.actions:
            if action["do"] == "effect":
                yield from self._effect(line, action, next(asked))
            else:
                yield from _DOES[action["do"]](self, line, action)

    def write(self, _: Line, action: Mapping[str, Any]) -> Generator[Need, None, None]:
        """Write a node."""
        path = parse_path(action["path"])
        yield from writes.write_node(self._context, self._height, path, action.get("value"))

    def delete(self, _: Line, action: Mapping[str, Any]) -> Generator[Need, None, None]:
        """Delete a node and what is below it."""
        yield from writes.delete_node(self._context, self._height, parse_path(action["path"]))

    def signal(self, line: Line, action: Mapping[str, Any]) -> Generator[Need, None, None]:
        """Queue an impulse."""
        signal, target, beat = check_impulse(
            action.get("signal"), action.get("target"), action.get("beat"), self._context.ledger.beat
        )
        payload = None if action.get("payload") is None else encode(action["payload"])
        depth = self._impulse.depth + 1
        yield from impulses.emit(
            self._context, self._height, signal, target, payload, beat, depth, line.entry.depth
        )

    def report(self, line: Line, action: Mapping[str, Any]) -> Generator[Need, None, None]:
        """Emit a diagnostic."""
        signal = f"{DIAGNOSTICS}/{action['severity']}"
        about: dict[str, Any] = {
            "enzyme": line.entry.name, "text": recordable(text_of(action)),
            "signal": self._impulse.signal, "target": self._impulse.target,
        }  # fmt: skip
        depth = self._impulse.depth + 1
        yield from impulses.emit(
            self._context, self._height, signal, None, encode(about), None, depth, line.entry.depth
        )

    def bind(self, _: Line, action: Mapping[str, Any]) -> Generator[Need, None, None]:
        """Bind a name."""
        how = PROPAGATING if action.get("propagate") else LOCAL
        yield from bind(self._context, self._height, parse_path(action["path"]), action["name"], how)

    def unbind(self, _: Line, action: Mapping[str, Any]) -> Generator[Need, None, None]:
        """Set a tombstone."""
        yield from bind(self._context, self._height, parse_path(action["path"]), action["name"], TOMBSTONE)

    def op(self, line: Line, action: Mapping[str, Any]) -> Generator[Need, None, None]:
        """Start or change an operation; what was done to it meanwhile may make that impossible."""
        try:
            yield from operations.act(self._context, self._height, action["op"])
        except Rejected as error:
            about = {"code": error.code, "enzyme": line.entry.name, "text": recordable(str(error))}
            yield from impulses.warn(self._context, self._height, about, self._impulse.depth + 1)

    def register(self, _: Line, action: Mapping[str, Any]) -> Generator[Need, None, None]:
        """Register an entry."""
        try:
            yield from add_entry(self._context, self._height, parse_entry(0, action["entry"]))
        except Rejected as error:
            about: dict[str, Any] = {"code": error.code, "text": str(error)}
            yield from impulses.warn(self._context, self._height, about, self._impulse.depth + 1)

    def _effect(self, line: Line, action: Mapping[str, Any], asked: Any) -> Generator[Need, None, None]:
        context, depth = self._context, self._impulse.depth
        target = action.get("target", self._impulse.target)
        key = encode([action.get("then"), target])
        slot = yield from context.slot(line.entry.module, key)
        origin = Origin(self._height, 0, depth, context.eras.current.number)
        yield from opening.open_one(context, slot, origin, self._position, asked)
        self._position += 1


def bind(context: BeatContext, cause: int, path: str, name: str, kind: int) -> Generator[Need, None, bool]:
    """Bind a name to a node, which is made where it is missing; false where the node has too many."""
    ledger = context.ledger
    bound = yield from ledger.open_heartbeat().bound_at(path)
    if name not in bound and len(bound) >= BINDINGS_PER_NODE_MAX:
        text = f"{path} has {len(bound)} bindings already"
        yield from impulses.warn(context, cause, {"code": "heartbeat.bindings_full", "text": text}, 0)
        return False
    if not is_below(path, OPS_PATH):  # operations are no nodes of the tree; who binds at one has seen it
        yield from writes.write_node(context, cause, path, only_if_missing=True)
    context.writer.add(BindingRecord(cause, path, name, kind))
    ledger.open_heartbeat().bind(path, name, kind)
    return True


_Does = Callable[[_Applied, Line, Mapping[str, Any]], Generator[Need, None, None]]
_DOES: Final[dict[str, _Does]] = {
    "write": _Applied.write, "delete": _Applied.delete, "signal": _Applied.signal,
    "report": _Applied.report, "bind": _Applied.bind, "unbind": _Applied.unbind,
    "register": _Applied.register, "op": _Applied.op,
}  # fmt: skip
