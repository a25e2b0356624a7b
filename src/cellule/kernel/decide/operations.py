"""Operations in a beat: what people and enzymes do to them, and the commit at the end.

An action is a map, `{"do": "start" | "state" | "await" | "close", ...}`; `act` does one, by a Write of the
operation's cell, or refuses it with nothing changed. When the beat is committed, `commit` lets the watchers
fire whose time has come: signals for the next beat, with the operation as target; a warning goes ahead of
each timeout.

A refusal of the rules ("false") is an error here: whoever asked hears what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.decide import impulses, writes
from cellule.kernel.decide import operation_actions as actions
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.heartbeat import operations as rules
from cellule.kernel.heartbeat.operations import Held, Operation
from cellule.kernel.index.keys import pair_key
from cellule.kernel.items import Admitted, ControlItem
from cellule.kernel.limits import (
    OPERATION_BYTES_MAX,
    OPERATION_HISTORY_MAX,
    OPERATION_WATCHERS_MAX,
)
from cellule.kernel.need import Need
from cellule.kernel.state.heartbeat import Heartbeat
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.operations import MODULE
from cellule.kernel.state.writes import entries_at, entry_at, state_of

OPS_PATH: Final = "/rt/ops"


def path_of(key: bytes) -> str:
    """Where an operation stands in the tree."""
    return f"{OPS_PATH}/{rules.id_of(key)}"


def act(context: BeatContext, cause: int, action: Mapping[str, Any]) -> Generator[Need, None, str]:
    """Do one action; returns the operation's id. `cause` is the height of the record that asks for it."""
    key, changed = yield from _decide(context, action)
    if changed is not None:
        yield from writes.write(context, cause, MODULE, key, rules.encode(changed))
    return rules.id_of(key)


class Costs:
    """What the actions of one run on operations take in its frame: each writes all of its operation anew."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[Any, Operation | None] = {}
        self._started: list[Operation] = []  # which the run has not named yet

    def of(self, action: Mapping[str, Any]) -> Generator[Need, None, int]:
        """The bytes of one action, which was checked; none where it cannot be done."""
        beat, name = self._ledger.beat, action.get("operation")
        if action["do"] == "start":
            begun = rules.start(actions.envelope_of(action, beat, None))
            assert begun is not None
            self._started.append(begun)
            return len(rules.encode(begun))
        if name not in self._known:
            key = rules.key_of(name.removeprefix(f"{OPS_PATH}/")) if isinstance(name, str) else None
            found = None if key is None else (yield from find(self._ledger, key))
            self._known[name] = found or (self._started.pop(0) if self._started else None)
        changed = self._changed(self._known[name], action, beat)
        if changed is None:
            return 0
        self._known[name] = changed
        return len(rules.encode(changed))

    def _changed(self, known: Operation | None, action: Mapping[str, Any], beat: int) -> Operation | None:
        match action["do"]:
            case _ if known is None:
                return None
            case "state":
                return rules.state_set(known, *actions.state_of(action), beat)
            case "await":
                want, ttl, cont = actions.await_of(action)
                return rules.wait(known, want, ttl, cont, None, beat)
            case _:
                return rules.close(known, *actions.close_of(action), beat)


def perform(
    context: BeatContext, item: ControlItem, recorded: Callable[[dict[str, Any]], Admitted]
) -> Generator[Need, None, Admitted]:
    """Do what a person asks for by a verb `op.*`; the Control record names one that it starts."""
    action = {**item.arguments, "do": item.verb.removeprefix("op.")}
    key, changed = yield from _decide(context, action)
    admitted = recorded({"operation": rules.id_of(key)} if item.verb == "op.start" else {})
    if changed is not None:
        yield from writes.write(context, admitted.height, MODULE, key, rules.encode(changed))
    return admitted


def _decide(
    context: BeatContext, action: Mapping[str, Any]
) -> Generator[Need, None, tuple[bytes, Operation | None]]:
    """The operation's key, and what it becomes; None where it stays as it is."""
    actions.check(action)
    do, beat = action["do"], context.ledger.beat
    operation: Operation | None = None
    if do == "start":
        heartbeat = context.ledger.heartbeat
        key = pair_key(beat, 1 if heartbeat is None else heartbeat.operations.next_number(beat))
        changed = rules.start(actions.envelope_of(action, beat, (yield from _held(context, action))))
        assert changed is not None
    else:
        key, operation = yield from _known(context, action.get("operation"))
        match do:
            case "state":
                changed = _state(operation, action, beat)
            case "await":
                changed = yield from _await(context, operation, action, beat)
            case _:
                changed = _close(operation, action, beat)
    if changed is operation:
        return key, None
    changed = rules.timed(changed, beat, (yield from _now_ns(context)))
    if do in ("state", "await"):
        _check_size(changed)
    return key, changed


def _now_ns(context: BeatContext) -> Generator[Need, None, int]:
    """The wall clock of this beat."""
    ledger = context.ledger
    published = (
        None if ledger.heartbeat is None else (yield from ledger.heartbeat.wall_clock.find(ledger.beat))
    )
    return ledger.now_ns if published is None else published


def commit(context: BeatContext, heartbeat: Heartbeat) -> Generator[Need, None, None]:
    """Let the watchers fire whose time has come, as impulses of the next beat."""
    beat = context.ledger.beat
    keys = yield from heartbeat.operations.ready(beat)
    yield from entries_at(context.ledger, MODULE, keys)  # read together
    for key in keys:
        if context.writer.is_full():
            return  # the rest stays ready
        operation = yield from find(context.ledger, key)
        assert operation is not None
        rest, fired = rules.due(operation, beat)
        height = yield from writes.write(context, 0, MODULE, key, rules.encode(rest))
        for each in fired:
            if each.late:
                yield from impulses.warn(context, height, _about(key), 0)
            yield from impulses.queue(
                context, height, each.signal, path_of(key), each.payload, kind="continuation"
            )


def _about(key: bytes) -> dict[str, Any]:
    return {
        "code": "operation.timeout",
        "operation": rules.id_of(key),
        "text": "what was awaited did not come",
    }


def has_due(heartbeat: Heartbeat, beat: int) -> Generator[Need, None, bool]:
    """Tell whether a beat has anything to run or to fire."""
    return (yield from heartbeat.has_due(beat)) or (yield from heartbeat.operations.has_armed())


def has_later(heartbeat: Heartbeat, beat: int) -> Generator[Need, None, bool]:
    """Tell whether anything waits for a beat behind this one."""
    if (yield from heartbeat.has_later(beat)):
        return True
    return (yield from heartbeat.operations.next_deadline()) is not None


def find(ledger: Ledger, key: bytes) -> Generator[Need, None, Operation | None]:
    """The operation of a key, as it is now."""
    if MODULE not in ledger.modules:
        return None
    entry = yield from entry_at(ledger, MODULE, key)
    return None if entry is None else rules.decode((yield from state_of(ledger, entry)))


def exists(ledger: Ledger, path: str) -> Generator[Need, None, bool]:
    """Tell whether an operation stands at a path."""
    key = rules.key_of(path.removeprefix(f"{OPS_PATH}/"))
    return key is not None and (yield from find(ledger, key)) is not None


def check_place(ledger: Ledger, path: str) -> Generator[Need, None, None]:
    """Refuse a path below that of operations where there is none; what is bound there reaches them."""
    if path != OPS_PATH and not (yield from exists(ledger, path)):
        raise Rejected(
            "operation.unknown", "there is no operation {id}", id=actions.shown(path),
            hint="`cellule op list` names those there are.",
        )  # fmt: skip


def _known(context: BeatContext, given: Any) -> Generator[Need, None, tuple[bytes, Operation]]:
    text = given.removeprefix(f"{OPS_PATH}/") if isinstance(given, str) else ""
    key = rules.key_of(text)
    operation = None if key is None else (yield from find(context.ledger, key))
    if key is None or operation is None:
        raise Rejected(
            "operation.unknown", "there is no operation {id}", id=actions.shown(given),
            hint="`cellule op list` names those there are.",
        )  # fmt: skip
    return key, operation


def _state(operation: Operation, action: Mapping[str, Any], beat: int) -> Operation:
    changed = rules.state_set(operation, *actions.state_of(action), beat)
    if changed is None:
        raise _closed(operation, "takes no further state", "Start another operation.")
    if len(changed.history) > OPERATION_HISTORY_MAX:
        raise Rejected(
            "operation.history_full", "the operation has {limit} entries of history and takes only its close",
            limit=OPERATION_HISTORY_MAX, hint="Close it, and start another for what follows.",
        )  # fmt: skip
    return changed


def _await(
    context: BeatContext, operation: Operation, action: Mapping[str, Any], beat: int
) -> Generator[Need, None, Operation]:  # fmt: skip
    if len(operation.watchers) >= OPERATION_WATCHERS_MAX:
        raise Rejected(
            "operation.watchers_full", "the operation has {limit} watchers already",
            limit=OPERATION_WATCHERS_MAX, hint="Wait with one watcher whose handler tells the others.",
        )  # fmt: skip
    want, ttl, cont = actions.await_of(action)
    changed = rules.wait(operation, want, ttl, cont, (yield from _held(context, action)), beat)
    assert changed is not None
    return changed


def _close(operation: Operation, action: Mapping[str, Any], beat: int) -> Operation:
    status, summary = actions.close_of(action)
    changed = rules.close(operation, status, summary, beat)
    if changed is None:
        raise _closed(operation, f"cannot be closed with {status}", "The first close stands.")
    return changed


def _check_size(operation: Operation) -> None:
    """Refuse what makes an operation too long; it can always be closed."""
    size = len(rules.encode(operation))
    if size > OPERATION_BYTES_MAX:
        raise Rejected(
            "operation.size", "the operation would have {size} bytes; at most {limit}",
            size=size, limit=OPERATION_BYTES_MAX, hint="Close it, and start another for what follows.",
        )  # fmt: skip


def _held(context: BeatContext, action: Mapping[str, Any]) -> Generator[Need, None, Held]:
    """A payload as records hold it: its bytes are a value, and there."""
    given = action.get("payload")
    if given is None:
        return None
    held: Held = context.hold_value((yield from context.given_value(given, "payload")))
    return held


def _closed(operation: Operation, what: str, hint: str) -> Rejected:
    assert operation.close is not None
    return Rejected(
        "operation.closed", "the operation was closed with {status} in beat {beat} and {what}",
        status=operation.close.status, beat=operation.close.closed_beat, what=what, hint=hint,
    )  # fmt: skip
