"""Verification: the recorded steps are run again, and every difference is reported.

Restore trusts the records; verify asks whether the code still says the same. It replays frames and, before
each recorded step is applied, computes that step anew from the same state and message, and compares
status, state, reply, annotation, cancelled keys, emitted events and requested effects. A step recorded as
timed out, or as waiting for code that could not be loaded, is not run again: both say something about a
machine. So does code that cannot be loaded here, because a library is missing or of another version: its
steps are counted apart, with the reason. So are steps of which something was erased.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from cellule.errors import CelluleError, Gone
from cellule.kernel.decide import calls
from cellule.kernel.decide.eras import Eras
from cellule.kernel.decide.step_records import calls_made
from cellule.kernel.decide.steps import Emission, Result, Stepper
from cellule.kernel.journal.codes import REFUSED, Status
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.heartbeat_records import AgendaRecord
from cellule.kernel.journal.records import EmittedRecord, IntentRecord, StepRecord
from cellule.kernel.key_ring import UNREADABLE
from cellule.kernel.lineage import Lineage
from cellule.kernel.need import Need
from cellule.kernel.program import CODE_UNAVAILABLE
from cellule.kernel.prove.recorded_step import RecordedStep
from cellule.kernel.prove.replay import Witness
from cellule.kernel.prove.verify_agenda import check_agenda
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.ledger import Ledger
from cellule.values.cbor import decode_trusted
from cellule.values.cid import cid_of
from cellule.values.envelope import value_of
from cellule.values.link import Link

REASONS_MAX = 20  # why steps could not be run


class Code(Protocol):
    """What verifying needs of a world: its code at the height it was replayed to."""

    world_id: UUID
    lineage: Lineage
    ledger: Ledger
    eras: Eras
    stepper: Stepper


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
        self.erased = 0  # steps whose state, message or outcome nobody can read any more
        self.not_run: Counter[str] = Counter()  # steps whose code cannot be loaded here, by the reason

    def witness(self, world: Code) -> Witness:
        """The function `Replay` calls before it applies a step."""

        def look(
            frame: Frame, height: int, record: StepRecord | AgendaRecord, slot: Slot | None
        ) -> Generator[Need, None, None]:
            if self.difference is None and isinstance(record, AgendaRecord):
                yield from self._look_agenda(world, frame)
            elif self.difference is None and isinstance(record, StepRecord) and slot is not None:
                yield from self._look(world, RecordedStep.of(frame, height, record), frame, slot)

        return look

    def _look_agenda(self, world: Code, frame: Frame) -> Generator[Need, None, None]:
        yield from _current_era(world)
        world.eras.forget()
        runs, found = yield from check_agenda(world.ledger, world.eras, world.world_id.bytes, frame)
        self.skipped += runs is None
        self.steps += runs or 0
        if found is not None:
            self.difference = Difference(
                world.world_id, found.height, found.entry, found.impulse, found.field, found.recorded,
                found.computed, found.entry[0],
            )  # fmt: skip

    def _look(
        self, world: Code, recorded: RecordedStep, frame: Frame, slot: Slot
    ) -> Generator[Need, None, None]:
        extras = recorded.step.extras
        if extras.get("timed_out") or extras.get("code") == CODE_UNAVAILABLE:
            self.skipped += 1
            return
        try:
            recorded = yield from recorded.opened(world.ledger)
        except Gone:
            self.erased += 1
            return
        yield from _current_era(world)
        world.eras.forget()  # so that what an object kept in place of its bytes had shown, is seen
        height = recorded.height - len(recorded.upcasts)
        world.stepper.world = world.lineage.world_at(height).bytes
        result = yield from world.stepper.compute(slot, height, frame.header.entropy)
        if result.code == CODE_UNAVAILABLE:  # says something about this machine: a library of another version
            self.not_run[result.text if len(self.not_run) < REASONS_MAX else "other reasons"] += 1
            return
        if result.code in UNREADABLE:
            self.erased += 1
            return
        self.steps += 1
        found = _differs(world, recorded, slot, result)
        if found is not None:
            message = slot.queue[0]
            field, before, computed = found
            self.difference = Difference(
                world.world_id, recorded.height, (slot.cells.base, slot.key),
                (message.height, message.schema), field, before, computed, _code(world, slot, result.era),
            )  # fmt: skip


def _current_era(world: Code) -> Generator[Need, None, None]:
    """A frame may begin an era: the stepper works under the newest of the table."""
    count = len(world.ledger.eras)
    if not world.eras.is_open() or world.eras.current.number != count - 1:
        yield from world.eras.open()
    if not world.eras.current.is_prepared:
        yield from world.eras.prepare()


def _differs(
    world: Code, recorded: RecordedStep, slot: Slot, result: Result
) -> tuple[str, object, object] | None:
    step, extras = recorded.step, recorded.step.extras
    upcasts = [[each.schema_from, each.schema_to] for each in recorded.upcasts]
    pairs: list[tuple[str, object, object]] = [
        ("status", Status(step.status).name, Status(result.status).name),
        ("error", extras.get("code", ""), result.code),
        ("era", step.era, result.era),
        ("version", step.version, result.version),
        ("upcasts", upcasts, [[each.old, each.new] for each in result.upcasts]),
        ("state", _bytes_of(step.state), _as_recorded(step.state, result.state)),
        ("reply", _bytes_of(extras.get("reply")), result.reply),
        ("ann", _bytes_of(extras.get("ann")), result.ann),
        ("cancel", list(extras.get("cancels", ())), list(result.cancels)),
        ("cut", extras.get("cut", False), result.cut),
        ("calls", list(extras.get("calls", ())), calls_made(result)),
    ]
    if step.status == REFUSED:  # the text of a failure names lines of code, which may move
        pairs.append(("reason", extras.get("text", ""), result.text))
    for field, before, computed in pairs:
        if before != computed:
            return _field(field, before, computed)
    return _emissions_differ(world, recorded, slot, result) or _requests_differ(recorded.asked, result)


def _requests_differ(recorded: list[IntentRecord], result: Result) -> tuple[str, object, object] | None:
    """Whether the step asks for other effects than recorded; what was decided is not asked anew."""
    for at in range(max(len(recorded), len(result.asked))):
        before = _recorded_request(recorded[at]) if at < len(recorded) else None
        after = None
        if at < len(result.asked):
            asked = result.asked[at]
            params = recorded[at].params if at < len(recorded) else None
            after = [
                asked.effect.kind,
                _as_recorded(params, asked.params),
                asked.slot,
                asked.key,
                asked.limits,
                result.entry or None,
            ]
        if before is None or after is None:
            return f"effects[{at}]", _shown_request(before), _shown_request(after)
        for name, one, other in zip(_REQUEST, before, after, strict=True):
            if one != other:
                return _field(f"effects[{at}].{name}", one, other)
    return None


_REQUEST = ("kind", "params", "slot", "key", "limits", "entry")


def _recorded_request(record: IntentRecord) -> list[object]:
    extras = record.extras
    return [
        record.kind, _bytes_of(record.params), extras.get("slot"), extras.get("key"), extras.get("limits"),
        extras.get("entry"),
    ]  # fmt: skip


def _shown_request(request: list[Any] | None) -> object:
    if request is None:
        return None
    kind, params, slot, key, limits, _ = request
    shown = decode_trusted(params) if isinstance(params, bytes) else params
    return {"kind": kind, "params": shown, "slot": slot, "key": key, **({"limits": limits} if limits else {})}


def _emissions_differ(
    world: Code, recorded: RecordedStep, slot: Slot, result: Result
) -> tuple[str, object, object] | None:
    height, stepper, emitted = recorded.height, world.stepper, recorded.emitted
    expected: list[Emission] = []
    failure = stepper.failure_event(slot, slot.queue[0], height, result)
    if failure is not None:
        expected.append(failure)
    expected.extend(stepper.stopped_cascade(slot, height, event) or event for event in result.emissions)
    module = world.eras.current.manifest.modules.get(slot.cells.base)
    is_told_why = module is None or not module.erasable
    expected.extend(calls.failures(slot, slot.queue[0], height, result, is_told_why=is_told_why))
    for at in range(max(len(emitted), len(expected))):
        before = _emission(emitted[at]) if at < len(emitted) else None
        after = [*expected[at][:4]] if at < len(expected) else None
        if before != after:
            return f"emitted[{at}]", _shown_event(before), _shown_event(after)
    return None


def _emission(record: EmittedRecord) -> list[Any]:
    return [record.depth, record.schema, _bytes_of(record.value), record.targets]


def _bytes_of(stored: Any) -> object:
    return None if stored is None else value_of(stored)


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


def _code(world: Code, slot: Slot, era: int) -> object:
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
