"""An operation: a sealed envelope, a state with its history, watchers that wait for a state, a close record.

Pure functions over a value that nobody changes: each takes an operation and gives the next one, or None where
the rules say false. When the beat is committed `due` takes out the watchers whose time has come: the armed
ones fire their continuation, then the late ones `op/tmo`, each group in the order of installation. An event
in the beat of the deadline has armed the watcher by then, so it wins over the timeout.

An operation is the state of a cell of `sys/Operation`; `encode` and `decode` are its only form. Its id is the
beat that started it and its number among those of that beat, so it follows from the journal, and the order of
keys is the order of creation.

Rejected: ids from the height of the record. An enzyme knows the id before its records have heights.
Rejected: a cell for each watcher. An operation has few, and they are read and changed together.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from cellule.errors import Corrupted
from cellule.kernel.index.keys import pair_key, pair_of
from cellule.values import cbor
from cellule.values.link import Link

MODES: Final = ("opm:direct", "opm:states")
RUN: Final = "ist:run"
Held = Link | list[Any] | None
"""A payload as records hold it: a link, or an envelope."""
FINAL: Final = {"sts:ok": "ist:ok", "sts:fail": "ist:fail", "sts:cnl": "ist:cnl"}
"""The states that a close sets, by status."""
TIMEOUT_SIGNAL: Final = "/op/tmo"
_ID_DIGITS_MAX: Final = 19


class Envelope(NamedTuple):
    """What was asked for; sealed. `ttl` is in beats, told to whoever reads it and enforced by nobody."""

    verb: str
    target: str
    mode: str
    ttl: int
    issued_beat: int
    payload: Held = None


class HistoryEntry(NamedTuple):
    """The operation came into a state; `unix_ns` is the time of that beat."""

    state: str
    beat: int
    code: int
    note: str | None = None
    unix_ns: int | None = None


class Watcher(NamedTuple):
    """Somebody waits for a state or a status; `deadline` is a beat, None to wait for ever."""

    want: str
    cont: str
    armed: bool
    deadline: int | None
    payload: Held = None


class CloseRecord(NamedTuple):
    """How it ended; sealed."""

    status: str
    closed_beat: int
    summary: str | None = None


class Operation(NamedTuple):
    """All of one operation."""

    envelope: Envelope
    state: str
    code: int
    note: str | None
    history: tuple[HistoryEntry, ...]
    watchers: tuple[Watcher, ...] = ()
    close: CloseRecord | None = None

    @property
    def deadlines(self) -> set[int]:
        """The beats in which a watcher that is not armed gives up."""
        return {each.deadline for each in self.watchers if each.deadline is not None and not each.armed}

    @property
    def is_armed(self) -> bool:
        """Tell whether a watcher fires when this beat is committed."""
        return any(each.armed for each in self.watchers)


class Fired(NamedTuple):
    """What a watcher queues for the next beat as it goes; `late`: it gave up, and a warning goes first."""

    signal: str
    payload: Held
    late: bool


def start(envelope: Envelope) -> Operation | None:
    """Begin an operation; None for an empty verb or target, a mode that does not exist, a negative ttl."""
    if not envelope.verb or not envelope.target or envelope.mode not in MODES or envelope.ttl < 0:
        return None
    return Operation(envelope, RUN, 0, None, (HistoryEntry(RUN, envelope.issued_beat, 0),))


def state_set(operation: Operation, state: str, code: int, note: str | None, beat: int) -> Operation | None:
    """Set state and code, and the note if one is given; None when it is closed or the state is empty."""
    if operation.close is not None or not state:
        return None
    was = operation.state
    operation = operation._replace(
        state=state, code=code, note=operation.note if note is None else note
    )  # fmt: skip
    if state == was and _ends_with(operation, state, beat):
        return operation
    history = (*operation.history, HistoryEntry(state, beat, code, note))
    return operation._replace(history=history, watchers=_armed(operation.watchers, {state} - FINAL.keys()))


def wait(operation: Operation, want: str, ttl: int, cont: str, payload: Held, beat: int) -> Operation | None:
    """Install a watcher, on a closed operation, too; None for an empty `want` or `cont`, a negative ttl."""
    if not want or not cont or ttl < 0:
        return None
    satisfied = _holds(operation, want)
    deadline = None if satisfied or not ttl else beat + ttl
    return operation._replace(
        watchers=(*operation.watchers, Watcher(want, cont, satisfied, deadline, payload))
    )


def close(operation: Operation, status: str, summary: str | None, beat: int) -> Operation | None:
    """Seal the operation; the same status again changes nothing; None for another or an unknown one."""
    if status not in FINAL:
        return None
    if operation.close is not None:
        return operation if operation.close.status == status else None
    state = FINAL[status]
    history = operation.history
    if not _ends_with(operation, state, beat):
        history = (*history, HistoryEntry(state, beat, 0))
    return operation._replace(
        state=state,
        history=history,
        watchers=_armed(operation.watchers, {state, status}),
        close=CloseRecord(status, beat, summary),
    )


def timed(operation: Operation, beat: int, unix_ns: int) -> Operation:
    """The operation with the time of the beat on the entry of its history that the beat made."""
    tail = operation.history[-1]
    if tail.beat != beat or tail.unix_ns is not None:
        return operation
    return operation._replace(history=(*operation.history[:-1], tail._replace(unix_ns=unix_ns)))


def due(operation: Operation, beat: int) -> tuple[Operation, list[Fired]]:
    """Take out the watchers whose time has come at the end of a beat, and tell what they queue."""
    late = [each for each in operation.watchers if _is_late(each, beat)]
    fired = [Fired(each.cont, each.payload, late=False) for each in operation.watchers if each.armed]
    fired += [Fired(TIMEOUT_SIGNAL, each.payload, late=True) for each in late]
    if not fired:
        return operation, fired
    rest = tuple(each for each in operation.watchers if not each.armed and not _is_late(each, beat))
    return operation._replace(watchers=rest), fired


def _holds(operation: Operation, want: str) -> bool:
    if want in FINAL:
        return operation.close is not None and operation.close.status == want
    return operation.state == want


def _ends_with(operation: Operation, state: str, beat: int) -> bool:
    tail = operation.history[-1]
    return tail.state == state and tail.beat == beat


def _armed(watchers: tuple[Watcher, ...], wants: set[str]) -> tuple[Watcher, ...]:
    return tuple(each._replace(armed=True) if each.want in wants else each for each in watchers)


def _is_late(watcher: Watcher, beat: int) -> bool:
    return not watcher.armed and watcher.deadline is not None and watcher.deadline <= beat


# The form of a cell's state, and of ids.


def encode(operation: Operation) -> bytes:
    """Canonical bytes: a map, in which what is not there is left out."""
    fields: dict[str, Any] = _map(operation)
    fields["envelope"] = _map(operation.envelope)
    fields["history"] = [_map(each) for each in operation.history]
    fields["watchers"] = [_map(each) for each in operation.watchers]
    if operation.close is not None:
        fields["close"] = _map(operation.close)
    return cbor.encode(fields)


def decode(data: bytes) -> Operation:
    """The operation of a cell's state, which only `encode` wrote."""
    try:
        fields: Any = cbor.decode(data)
        close_fields = fields.get("close")
        return Operation(
            Envelope(**fields["envelope"]),
            fields["state"],
            fields["code"],
            fields.get("note"),
            tuple(HistoryEntry(**each) for each in fields["history"]),
            tuple(Watcher(**{"deadline": None, **each}) for each in fields["watchers"]),
            None if close_fields is None else CloseRecord(**close_fields),
        )
    except (AttributeError, KeyError, TypeError) as damage:
        raise Corrupted(
            "kernel.operation_damaged", "the state of an operation is not one: {reason}", reason=str(damage)
        ) from damage


def _map(part: Any) -> dict[str, Any]:
    return {name: value for name, value in part._asdict().items() if value is not None}


def id_of(key: bytes) -> str:
    """The id of an operation, from the key of its cell: `<beat>-<number>`."""
    beat, number = pair_of(key)
    return f"{beat}-{number}"


def key_of(text: str) -> bytes | None:
    """The key of the operation with an id; None for a text that is no id."""
    beat, _, number = text.partition("-")
    if not _is_count(beat) or not _is_count(number):
        return None
    return pair_key(int(beat), int(number))


def _is_count(text: str) -> bool:
    if not text.isascii() or not text.isdigit() or len(text) > _ID_DIGITS_MAX:
        return False
    return text == str(int(text)) and int(text) < 2**63
