"""Verification: the recorded steps are run again, and every difference is reported.

Restore trusts the records; verify asks whether the code still says the same. It replays frames and, before
each recorded step is applied, computes that step anew from the same state and message, and compares
status, state, reply, annotation, emitted events and requested effects. A step recorded as timed out, or
as waiting for code that could not be loaded, is not run again: both say something about a machine.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cellule.errors import CelluleError
from cellule.kernel.decide.steps import Emission, Result
from cellule.kernel.journal.codes import EMITTED, INTENT, STEP, UPCAST, Status
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.table import Row as Record
from cellule.kernel.need import Need
from cellule.kernel.program import CODE_UNAVAILABLE
from cellule.kernel.prove.replay import Witness
from cellule.kernel.state.cells import Slot
from cellule.kernel.world import World
from cellule.values.cbor import decode_trusted
from cellule.values.cid import cid_of
from cellule.values.envelope import open_envelope
from cellule.values.link import Link


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where running the code again gives something else."""

    world: UUID
    height: int
    cell: tuple[str, bytes]
    event: tuple[int, str]
    field: str
    recorded: object
    computed: object
    code: object

    def __str__(self) -> str:
        base, key = self.cell
        height, schema = self.event
        return (
            f"world {self.world}, height {self.height}: {base} {_readable(key)} on {schema} "
            f"(height {height}) differs in {self.field}: recorded {self.recorded!r}, "
            f"computed {self.computed!r} by code {self.code}"
        )


class Verifier:
    """A witness that computes each step anew; `difference` is the first disagreement."""

    def __init__(self) -> None:
        self.difference: Difference | None = None
        self.steps = 0
        self.skipped = 0

    def witness(self, world: World) -> Witness:
        """The function `Replay` calls before it applies a step."""

        def look(frame: Frame, height: int, slot: Slot) -> Generator[Need, None, None]:
            if self.difference is None:
                yield from self._look(world, frame, height, slot)

        return look

    def _look(self, world: World, frame: Frame, height: int, slot: Slot) -> Generator[Need, None, None]:
        position = height - frame.header.first
        record = frame.rows[position]
        more = record[10] or {}
        if more.get("timed_out") or more.get("code") == CODE_UNAVAILABLE:
            self.skipped += 1
            return
        yield from _current_era(world)
        upcasts = _upcasts_before(frame, position)
        result = yield from world.stepper.compute(slot, height - len(upcasts), frame.header.entropy)
        self.steps += 1
        found = _differs(world, frame, position, slot, result, upcasts)
        if found is not None:
            message = slot.queue[0]
            field, recorded, computed = found
            self.difference = Difference(
                world.world_id, height, (slot.cells.base, slot.key), (message.height, message.schema),
                field, recorded, computed, _code(world, slot, result.era),
            )  # fmt: skip


def _current_era(world: World) -> Generator[Need, None, None]:
    """A frame may begin an era: the stepper works under the newest of the table."""
    count = len(world.ledger.eras)
    if not world.eras.is_open() or world.eras.current.number != count - 1:
        yield from world.eras.open()


def _upcasts_before(frame: Frame, position: int) -> list[Record]:
    start = position
    while start and frame.rows[start - 1][0] == UPCAST:
        start -= 1
    return frame.rows[start:position]


def _differs(
    world: World, frame: Frame, position: int, slot: Slot, result: Result, upcasts: list[Record]
) -> tuple[str, object, object] | None:
    record = frame.rows[position]
    _, _, _, _, _, era, status, version, _, state, more = record
    more = more or {}
    computed_upcasts = [[step.old, step.new] for step in result.upcasts]
    pairs: list[tuple[str, object, object]] = [
        ("status", Status(status).name, Status(result.status).name),
        ("error", more.get("code", ""), result.code),
        ("era", era, result.era),
        ("version", version, result.version),
        ("upcasts", [[frame.names[step[4]], frame.names[step[5]]] for step in upcasts], computed_upcasts),
        ("state", _bytes_of(state), _as_recorded(state, result.state)),
        ("reply", _bytes_of(more.get("reply")), result.reply),
        ("ann", _bytes_of(more.get("ann")), result.ann),
    ]
    for field, recorded, computed in pairs:
        if recorded != computed:
            return _field(field, recorded, computed)
    return _emissions_differ(world, frame, position, slot, result) or _requests_differ(
        frame, position, result
    )


def _requests_differ(frame: Frame, position: int, result: Result) -> tuple[str, object, object] | None:
    """Whether the step asks for other effects than recorded; what was decided is not asked anew."""
    height = frame.header.first + position
    recorded = []
    for record in frame.rows[position + 1 :]:
        if record[0] in (STEP, UPCAST):
            break
        if record[0] == INTENT and record[1] == height:
            recorded.append(record)
    for at in range(max(len(recorded), len(result.asked))):
        before = _recorded_request(frame, recorded[at]) if at < len(recorded) else None
        after = None
        if at < len(result.asked):
            asked = result.asked[at]
            params = recorded[at][7] if at < len(recorded) else None
            after = [asked.effect.kind, _as_recorded(params, asked.params), asked.slot, asked.key]
        if before is None or after is None:
            return f"effects[{at}]", _shown_request(before), _shown_request(after)
        for name, one, other in zip(_REQUEST, before, after, strict=True):
            if one != other:
                return _field(f"effects[{at}].{name}", one, other)
    return None


_REQUEST = ("kind", "params", "slot", "key")


def _recorded_request(frame: Frame, record: Record) -> list[object]:
    more = record[8] or {}
    return [frame.names[record[6]], _bytes_of(record[7]), more.get("slot"), more.get("key")]


def _shown_request(request: list[Any] | None) -> object:
    if request is None:
        return None
    kind, params, slot, key = request
    shown = decode_trusted(params) if isinstance(params, bytes) else params
    return {"kind": kind, "params": shown, "slot": slot, "key": key}


def _emissions_differ(
    world: World, frame: Frame, position: int, slot: Slot, result: Result
) -> tuple[str, object, object] | None:
    height = frame.header.first + position
    stepper = world.stepper
    expected: list[Emission] = []
    failure = stepper.failure_event(slot, slot.queue[0], height, result)
    if failure is not None:
        expected.append(failure)
    expected.extend(stepper.stopped_cascade(slot, height, event) or event for event in result.emissions)
    recorded = []
    for record in frame.rows[position + 1 :]:
        if record[0] == STEP or record[0] == UPCAST:
            break
        if record[0] == EMITTED and record[1] == height:
            recorded.append(record)
    for at in range(max(len(recorded), len(expected))):
        before = _emitted(frame, recorded[at]) if at < len(recorded) else None
        after = list(expected[at]) if at < len(expected) else None
        if before != after:
            return f"emitted[{at}]", _shown_event(before), _shown_event(after)
    return None


def _emitted(frame: Frame, record: Record) -> list[Any]:
    targets = [(frame.names[position], key) for position, key in record[5]]
    return [record[2], frame.names[record[3]], _bytes_of(record[4]), targets]


def _bytes_of(held: Any) -> object:
    if held is None or isinstance(held, Link):
        return held
    return open_envelope(held).data


def _as_recorded(recorded: Any, state: bytes | None) -> object:
    """A long state is recorded as a link: compare identities."""
    return Link(cid_of(state)) if isinstance(recorded, Link) and state is not None else state


def _field(field: str, recorded: object, computed: object) -> tuple[str, object, object]:
    """Name the innermost field where two encoded values differ."""
    if not isinstance(recorded, bytes) or not isinstance(computed, bytes):
        return field, recorded, computed
    return _inner(field, decode_trusted(recorded), decode_trusted(computed))


def _inner(path: str, before: Any, after: Any) -> tuple[str, object, object]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            if name not in before or name not in after or before[name] != after[name]:
                return _inner(f"{path}.{name}", before.get(name), after.get(name))
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, (one, other) in enumerate(zip(before, after, strict=True)):
            if one != other:
                return _inner(f"{path}[{at}]", one, other)
    return path, before, after


def _shown_event(event: list[Any] | None) -> object:
    if event is None:
        return None
    depth, schema, value, targets = event
    shown = decode_trusted(value) if isinstance(value, bytes) else value
    return {"depth": depth, "schema": schema, "value": shown, "targets": targets}


def _code(world: World, slot: Slot, era: int) -> object:
    try:
        module = world.eras.current.manifest.modules[slot.cells.base]
    except (CelluleError, KeyError):
        return f"era {era}"
    return {"module": module.name, "era": era, "code": dict(module.code)}


def _readable(key: bytes) -> str:
    try:
        return repr(key.decode())
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
