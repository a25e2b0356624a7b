"""The section `ops` through a real world, beat by beat.

What happens before a step are the items of its beat. A snapshot between two of them is what the Write records
of the items before it say; behind the step, it is what the commit left.
"""

from __future__ import annotations

from typing import Any

from cellule.errors import Rejected
from cellule.kernel.decide.operation_actions import check
from cellule.kernel.decide.operations import path_of
from cellule.kernel.heartbeat import operations as rules
from cellule.kernel.heartbeat.operations import Operation
from cellule.kernel.items import Admitted, ControlItem, Outcome
from cellule.kernel.journal.heartbeat_records import SignalRecord, WriteRecord
from cellule.kernel.state.heartbeat_rows import CONTINUATION, WARNING
from cellule.kernel.state.operations import MODULE
from cellule.testing.vectors.cases import OpsAction, OpsCase
from cellule.testing.vectors.worlds import Beaten, CaseWorld, control, is_done, no_code
from cellule.values.cbor import encode

NO_OPERATION = "0-0"


def ops(case: OpsCase) -> list[Any]:
    """What each line of a script gives."""
    script = _Script()
    found: list[Any] = []
    lines: list[OpsAction] = []
    for line in case.script:
        lines.append(line)
        if line.do == "step":
            found += script.step(lines)
            lines = []
    return found + script.step(lines) if lines else found


class _Script:
    """One script: its world, and the ids of its operations."""

    def __init__(self) -> None:
        self._world = CaseWorld((), no_code)
        self._keys: dict[int, bytes] = {}
        self._known: dict[bytes, Operation] = {}
        self._beat = 0
        self._first: int | None = None

    def step(self, lines: list[OpsAction]) -> list[Any]:
        """One beat. An operation that the beat starts gets its id by its number, as the rules say."""
        items, starts = list[ControlItem](), 0
        beat = self._world.next_beat
        for line in lines:
            if line.do == "start" and line.op is not None and _starts(line):
                starts += 1
                self._keys[line.op] = rules.key_of(f"{beat}-{starts}") or b""
            if line.do not in ("snapshot", "step"):
                items.append(self._item(line))
        if self._first is None:
            self._first = beat
        beaten = self._world.step(items)
        found, outcomes, reached = list[Any](), iter(beaten.outcomes), 0
        for line in lines:
            if line.do == "step":
                self._apply(beaten, None)
                found.append(self._told(beaten))
            elif line.do == "snapshot":
                found.append(self._snapshot(line, beaten, reached))
            else:
                outcome: Outcome = next(outcomes)
                if isinstance(outcome, Admitted):
                    reached = outcome.height
                found.append(is_done(outcome))
        self._beat += 1
        return found

    def _item(self, line: OpsAction) -> ControlItem:
        match line.do:
            case "start":
                return control("op.start", **_start(line))
            case "state":
                return control(
                    "op.state", operation=self._id(line), state=line.state, code=line.code, note=line.note
                )
            case "await":
                return control(
                    "op.await", operation=self._id(line), want=line.want, ttl=line.ttl, cont=line.cont,
                    payload=_payload(line),
                )  # fmt: skip
            case _:
                return control("op.close", operation=self._id(line), status=line.status, summary=line.summary)

    def _id(self, line: OpsAction) -> str:
        key = None if line.op is None else self._keys.get(line.op)
        return NO_OPERATION if key is None else rules.id_of(key)

    def _snapshot(self, line: OpsAction, beaten: Beaten, reached: int) -> dict[str, Any] | None:
        known = self._apply(beaten, reached)
        operation = known.get(self._keys.get(line.op or 0, b""))
        if operation is None:
            return None
        return self._dossier(operation)

    def _apply(self, beaten: Beaten, reached: int | None) -> dict[bytes, Operation]:
        """The operations as Write records leave them: of the items up to a height, or of all of the beat."""
        known = self._known if reached is None else dict(self._known)
        for _, record in beaten.of(WriteRecord):
            if record.module == MODULE and (reached is None or 0 < record.cause <= reached):
                known[record.key] = rules.decode(self._world.bytes_of(record.state))
        return known

    def _told(self, beaten: Beaten) -> dict[str, Any]:
        numbers = {path_of(key): op for op, key in self._keys.items()}
        signals = [record for _, record in beaten.of(SignalRecord)]
        fired = [
            {"op": numbers[each.target], "signal": each.signal}
            for each in signals
            if each.extras.get("kind") == CONTINUATION
        ]
        warnings = sum(each.extras.get("kind") == WARNING for each in signals)
        return {"beat": self._beat, "fired": fired, "cei_warnings": warnings}

    def _dossier(self, operation: Operation) -> dict[str, Any]:
        first = self._first or 0
        watchers = [each._asdict() for each in operation.watchers]
        for each in watchers:
            each["deadline"] = None if each["deadline"] is None else each["deadline"] - first
        closed = None
        if operation.close is not None:
            beat = operation.close.closed_beat - first
            closed = operation.close._replace(closed_beat=beat)._asdict()
        return {
            "state": operation.state, "code": operation.code, "note": operation.note,
            "issued_beat": operation.envelope.issued_beat - first,
            "history": [each._replace(beat=each.beat - first)._asdict() for each in operation.history],
            "watchers": watchers, "close": closed,
        }  # fmt: skip


def _starts(line: OpsAction) -> bool:
    try:
        check({**_start(line), "do": "start"})
    except Rejected:
        return False
    return True


def _start(line: OpsAction) -> dict[str, Any]:
    return {
        "verb": line.verb, "target": line.target, "mode": line.mode, "ttl": line.ttl,
        "payload": _payload(line),
    }  # fmt: skip


def _payload(line: OpsAction) -> bytes | None:
    return None if line.payload is None else encode(line.payload)
