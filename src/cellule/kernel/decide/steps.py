"""One step, decided: which code runs on which bytes, and what comes of it. Nothing is changed here.

`compute` is used twice: by the beat, which writes the result down, and by `verify`, which compares it
with what was written. It answers a `Result` for every possible end of a step, failures included.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from cellule.errors import CelluleError, Gone, Rejected
from cellule.kernel.decide.eras import CodeUnavailable, Compiled, Eras
from cellule.kernel.decide.requests import EffectRequest, check, check_cancels
from cellule.kernel.heartbeat.impulses import check_impulse
from cellule.kernel.journal.codes import CONFLICT, DELETED, HALTED, OK, PARKED, REFUSED, SKIPPED
from cellule.kernel.limits import DEPTH_MAX, OUTPUT_BYTES_MAX, SEAL_KEYS_MAX, STEP_EVENTS_MAX
from cellule.kernel.manifest import upcasts
from cellule.kernel.manifest.model import Module, Upcaster
from cellule.kernel.manifest.routes import in_era, wrap
from cellule.kernel.manifest.system import CASCADE_STOPPED, SIGNAL, STEP_FAILED, Ended
from cellule.kernel.need import Need, fetch
from cellule.kernel.program import (
    CODE_UNAVAILABLE,
    Context,
    LogMark,
    Output,
    Program,
    StepFault,
    StepRefusal,
    check_output,
    fault_of,
    recordable,
)
from cellule.kernel.state import log_state as log
from cellule.kernel.state.cells import Entry, Message, Slot
from cellule.kernel.state.expectation import Asker, Call, Expected
from cellule.kernel.state.ledger import Ledger, Target
from cellule.kernel.whole_map import WholeMap, removed_keys
from cellule.values.cbor import encode
from cellule.values.link import Link

TARGET_BYTES = 6  # what naming a cell takes in a record, beside its key


class Emission(NamedTuple):
    """An event that will be delivered in the next beat."""

    depth: int
    schema: str
    value: bytes
    targets: list[Target]
    call: tuple[str, str] | None = None  # see `Emit`


class Result(NamedTuple):
    """How a step ends. `state` is the new state; for a log module, the entries it appends."""

    status: int
    version: int
    born: int  # 0 = this step gives birth
    era: int
    state: bytes | None
    emissions: Sequence[Emission]
    reply: bytes | None
    ann: bytes | None
    upcasts: Sequence[Upcaster]
    code: str
    text: str
    timed_out: bool
    log: bool
    asked: Sequence[EffectRequest] = ()
    cancels: Sequence[str] = ()
    entry: bytes = b""  # the key of the entry of a whole map that the step is of
    removed: frozenset[bytes] = frozenset()  # entries that are gone, and that may wait for receipts
    cut: bool = False  # of a log: its entries before these go
    ended: Ended | None = None  # no call is answered any more


class _Call(NamedTuple):
    """Everything a step is called with; the state of a log is read only where its program asks for it."""

    era: Compiled
    module: Module
    state: bytes | None
    schema: str
    value: bytes
    upcasts: Sequence[Upcaster]
    key: bytes  # the cell's; of a whole map that of the entry which the event is for, empty without one


class _Park(Exception):
    """The cell cannot take the message in its era."""

    def __init__(self, era: int, text: str, remedy: str = "") -> None:
        super().__init__(text + remedy)
        self.era = era
        self.text = text


class Stepper:
    """Decides steps for one world."""

    def __init__(self, ledger: Ledger, eras: Eras, world: bytes) -> None:
        self._ledger = ledger
        self._eras = eras
        self.world = world

    def compute(self, slot: Slot, height: int, entropy: bytes) -> Generator[Need, None, Result]:
        """Decide the step of the first message in the slot's queue; `height` will be the step's."""
        message = slot.queue[0]
        entry = slot.entry
        version = entry.version if entry is not None else 0
        if message.expected is not None and (conflict := conflict_of(message, entry, version)):
            return self._unchanged(slot, CONFLICT, *conflict)
        try:
            call = yield from self._resolve(slot, message)
            program = yield from self._eras.program(call.era, call.module)
        except _Park as park:
            return self._unchanged(slot, PARKED, "kernel.needs_migration", park.text)
        except CodeUnavailable as missing:
            return self._unchanged(slot, PARKED, CODE_UNAVAILABLE, recordable(str(missing)))
        except StepFault as fault:
            return self.failed(slot, fault)
        except Rejected as error:
            return (yield from self._rejected(slot, message, error))
        height += len(call.upcasts)  # their records stand before the step's
        context = None
        if call.module.context:
            context = self.context(call.key, call.module, call.era.number, height, entropy, version)
        try:
            output = self._resumed(slot, call, program, context)
        except BaseException as error:  # noqa: BLE001 - whatever a program raises fails its step
            return self.failed(slot, fault_of(error))
        state = call.state
        if output is None and call.module.log and not self._ledger.keys.in_use:
            state = yield from self._log(slot)
        try:
            if output is None:
                output = program.step(state, call.schema, call.value, call.key, context)
        except BaseException as error:  # noqa: BLE001 - as above
            return self.failed(slot, fault_of(error))
        try:
            check_output(program, output)
            result = self.accepted(slot, call.era, call.module, output, call.upcasts)
            return result if call.module.cell_mode else self._of_entry(slot, call, result)
        except StepFault as fault:
            return self.failed(slot, fault)

    def _resumed(self, slot: Slot, call: _Call, program: Program, context: Context | None) -> Output | None:
        """The answer of a program that kept where its log ends; None where it has to read the log."""
        entry, resume = slot.entry, getattr(program, "resume", None)
        if self._ledger.keys.in_use:  # the log that the program keeps may be sealed where it is stored
            return None
        if not call.module.log or resume is None or entry is None or not isinstance(entry.state, bytes):
            return None
        mark = LogMark(entry.get("log", ()), entry.state)
        answer: Output | None = resume(mark, call.schema, call.value, call.key, context)
        return answer

    # What the step is called with

    def _resolve(self, slot: Slot, message: Message) -> Generator[Need, None, _Call]:
        entry = slot.entry
        current = self._eras.current
        base = slot.cells.base
        era = current
        if entry is not None and entry.state is not None and entry.era != current.number:
            era = yield from self._eras.era(entry.era)
        newest = current.manifest.modules.get(base)
        module = era.manifest.modules.get(base)
        if newest is not None and (module is None or newest.upgrade == "follow"):
            module, target = newest, current
        else:
            target = era
        if module is None:
            raise _Park(target.number, f"module {base} is no longer in the manifest")
        if not module.log:
            state = yield from self._state(slot)
        else:  # read here where it may be erased, else only if its program asks for it
            state = (yield from self._log(slot)) if self._ledger.keys.in_use else None
        chain: list[Upcaster] = []
        if entry is not None and entry.state is not None and era is not target:
            chain, state = yield from self._upcast_state(era, target, base, state or b"")
        sent = yield from self._value(message)
        schema, value = yield from self._event(message.schema, sent, module, target)
        key = slot.key
        if not module.cell_mode:
            key = self._entry_key(target, base, message, ((message.schema, sent), (schema, value)))
        schema, value = wrap(target.manifest, module, schema, value, current.manifest)
        return _Call(target, module, state, schema, value, chain, key)

    def _upcast_state(
        self, era: Compiled, target: Compiled, base: str, state: bytes
    ) -> Generator[Need, None, tuple[list[Upcaster], bytes]]:
        """A state as the target era has it, and the upcasters that it went through."""
        ends = upcasts.state_ends(era.manifest, target.manifest, base)
        chain = [] if ends.old == ends.new else upcasts.path(target.manifest, ends.old, ends.new)
        if chain is None:
            remedy = f": write one (old: {ends.old}) -> {ends.new}, and deploy it"
            raise _Park(era.number, f"no upcaster leads from state {ends.old} to {ends.new}", remedy)
        if chain and target.manifest.modules[base].log:
            raise _Park(era.number, "a log state cannot be upcast")
        return chain, (yield from self._eras.upcast(target, chain, state, by_entry=ends.by_entry))

    def _entry_key(
        self, era: Compiled, base: str, message: Message, forms: Sequence[tuple[str, bytes]]
    ) -> bytes:
        """The key of the entry of a whole map that a message is for; empty where nothing says it.

        An event says it in its value, in the form it was sent in or that it was upcast to.
        """
        if isinstance(message.expected, Asker):
            return message.expected.entry
        for compiled in (era, self._eras.current):
            for schema, value in forms:
                found = compiled.router.entry_key(base, schema, value)
                if found is not None:
                    return found
        return b""

    def migrated_state(self, slot: Slot, target: Compiled) -> Generator[Need, None, bytes | None]:
        """The state a cell has in an era; None where it has none, or is there already."""
        entry, current, base = slot.entry, self._eras.current, slot.cells.base
        if entry is None or entry.state is None or entry.era == target.number:
            return None
        module = target.manifest.modules.get(base)
        era = yield from self._eras.era(entry.era)
        if module is None or base not in era.manifest.modules:
            raise Rejected(
                "kernel.no_module", "module {module} is not in the manifest of era {era}: {key} cannot move",
                module=base, era=target.number, key=slot.key,
            )  # fmt: skip
        try:
            newest = current.manifest.modules.get(base)
            if target is not current and newest is not None and newest.upgrade == "follow":
                raise _Park(era.number, "its module follows: it moves to the current era at its next event")
            state = yield from self._state(slot)
            return (yield from self._upcast_state(era, target, base, state or b""))[1]
        except (_Park, StepFault, CodeUnavailable) as error:
            raise Rejected(
                "kernel.cannot_migrate", "cell {module}/{key}: {why}", module=base, key=slot.key,
                why=error.text if isinstance(error, StepFault) else str(error),
            ) from error  # fmt: skip

    def _rejected(self, slot: Slot, message: Message, error: Rejected) -> Generator[Need, None, Result]:
        """The result of a step that cannot be called: a message that is erased is set aside."""
        if not isinstance(error, Gone):
            return self.failed(slot, StepFault(error.code, str(error)))
        try:
            yield from self._value(message)
        except Gone as erased:
            return self._unchanged(slot, SKIPPED, erased.code, f"the message cannot be read: {erased}")
        return self._unchanged(slot, HALTED, error.code, f"the cell's state cannot be read: {error}")

    def _state(self, slot: Slot) -> Generator[Need, None, bytes | None]:
        if slot.entry is None or slot.entry.state is None:
            return None
        state = yield from self._ledger.state_bytes(slot)
        return (yield from self._ledger.keys.opened(state)) if self._ledger.keys.in_use else state

    def _log(self, slot: Slot) -> Generator[Need, None, bytes | None]:
        """All entries of a log."""
        entry, state = slot.entry, (yield from self._state(slot))
        if entry is None or state is None:
            return None
        chunks = [link.cid for link in entry.get("log", ())]
        blocks = yield from fetch(self._ledger.nodes, tuple(chunks))
        found = log.joined([*(blocks[cid] for cid in chunks), state])
        return (yield from log.opened(found, self._ledger.keys)) if self._ledger.keys.in_use else found

    def _value(self, message: Message) -> Generator[Need, None, bytes]:
        value = message.value
        if isinstance(value, Link):
            found = yield from fetch(self._ledger.nodes, (value.cid,))
            value = found[value.cid]
        return (yield from self._ledger.keys.opened(value)) if self._ledger.keys.in_use else value

    def _event(
        self, schema: str, value: bytes, module: Module, era: Compiled
    ) -> Generator[Need, None, tuple[str, bytes]]:
        """An event in a form that the module takes."""
        if schema in module.events:
            return schema, value
        value = in_era(era.manifest, schema, value, self._eras.current.manifest)
        chain = upcasts.to_any(era.manifest, schema, module.events)
        if chain is None:
            raise _Park(era.number, f"{module.name} of era {era.number} does not take {schema}")
        value = yield from self._eras.upcast(era, chain, value)
        return chain[-1].new, value

    def context(
        self, key: bytes, module: Module, era: int, height: int, entropy: bytes, version: int
    ) -> Context:
        """What the step at `height` may know beside its state and event."""
        ledger = self._ledger
        return Context(
            self.world, module.name, key, ledger.beat, height, ledger.now_ns, entropy, era, version,
            cell_mode=module.cell_mode,
        )  # fmt: skip

    # What comes of it

    def _of_entry(self, slot: Slot, call: _Call, result: Result) -> Result:
        """The result of a step on a whole map: whose requests are opened, and which entries are gone."""
        removed: frozenset[bytes] = frozenset()
        if result.status == OK and self._ledger.has_intents(slot):
            whole = WholeMap.of(call.era.manifest, call.module)
            removed = frozenset(removed_keys(whole, call.state, result.state))
        return result._replace(entry=call.key, removed=removed)

    def accepted(
        self, slot: Slot, era: Compiled, module: Module, output: Output, upcast: Sequence[Upcaster] = ()
    ) -> Result:
        """The result of a step that answered; raises `StepFault` where the answer breaks a rule."""
        state, events, effects, reply, ann, cancels, cut, ended = output
        size = sum(len(part) for part in (state, reply, ann) if part is not None)
        asked: Sequence[EffectRequest] = ()
        if effects:
            asked = check(era, module, effects)
            size += sum(len(each.params) for each in asked)
        if cancels:
            cancels = check_cancels(cancels)
            size += sum(map(len, cancels))
        emissions: Sequence[Emission] = ()
        if events:
            emissions = self._emissions(slot.queue[0], output)
            size += sum(len(emission.value) for emission in emissions)
            _check_targets(emissions)
            if self._ledger.keys.in_use:
                self._check_erasable((slot.cells.base, slot.key), emissions)
        if size > OUTPUT_BYTES_MAX:
            raise StepFault(
                "kernel.output_size", f"the step's output has {size} bytes; at most {OUTPUT_BYTES_MAX}"
            )
        if cut and not module.log:
            raise StepFault("kernel.output_invalid", f"{module.name} is no log module, and has no log to cut")
        entry = slot.entry
        version, born = 0, 0
        if entry is not None and entry.state is not None:
            version, born = entry.version, entry.born
        if state is None:
            version = version + 1 if born else 0
            return Result(
                DELETED, version, born, era.number, None, emissions, reply, ann, upcast, "", "", False, False,
                asked, cancels,
            )  # fmt: skip
        return Result(
            OK, version + 1, born, era.number, state, emissions, reply, ann, upcast, "", "", False,
            module.log, asked, cancels, cut=cut, ended=ended,
        )  # fmt: skip

    def _emissions(self, message: Message, output: Output) -> list[Emission]:
        if len(output.events) > STEP_EVENTS_MAX:
            raise StepFault(
                "kernel.events_count",
                f"the step emits {len(output.events)} events; at most {STEP_EVENTS_MAX}",
            )
        era, depth = self._eras.current, message.depth + 1
        route, older = era.router.targets, era.older
        emissions = []
        for schema, value, key, call in output.events:
            try:
                if schema == SIGNAL:
                    check_signal(era, value, self._ledger.beat)
                    emissions.append(Emission(depth, schema, value, []))
                    continue
                routing = era.targets_of_older if schema in older else route
                targets = routing(schema, value, key)
            except CelluleError as error:
                raise StepFault(error.code, f"emitted {schema}: {error}") from error
            emissions.append(Emission(depth, schema, value, targets, call))
        return emissions

    def _check_erasable(self, cell: Target, emissions: Sequence[Emission]) -> None:
        """Refuse an event that concerns more erasable cells than a value has keys."""
        modules = self._eras.current.manifest.modules
        for each in emissions:
            if len(each.targets) < SEAL_KEYS_MAX:
                continue
            count = sum(modules[base].erasable for base, _ in {cell, *each.targets} if base in modules)
            if count > SEAL_KEYS_MAX:
                text = f"{each.schema} concerns {count} erasable cells; at most {SEAL_KEYS_MAX}"
                raise StepFault("kernel.erasable_targets", text)

    def stopped_cascade(self, slot: Slot, height: int, emission: Emission) -> Emission | None:
        """What is written instead of an event that is too many emits away from the outside.

        It is delivered; what comes of handling it is beyond the limit too, and told to nobody.
        """
        if emission.depth <= DEPTH_MAX:
            return None
        value = encode({
            "module": slot.cells.base, "key": slot.key, "height": height, "depth": emission.depth,
            "schema": emission.schema,
        })  # fmt: skip
        targets = self._eras.current.router.reachable(CASCADE_STOPPED, value)
        return Emission(
            emission.depth, CASCADE_STOPPED, value, targets if emission.depth == DEPTH_MAX + 1 else []
        )

    def failed(self, slot: Slot, fault: StepFault) -> Result:
        """The result of a step that failed, by its module's policy; or that refused its event."""
        if isinstance(fault, StepRefusal):
            return self._unchanged(slot, REFUSED, fault.code, fault.text)
        if fault.code == CODE_UNAVAILABLE:  # it says something about this machine, not about the step
            return self._unchanged(slot, PARKED, CODE_UNAVAILABLE, recordable(fault.text))
        base = slot.cells.base
        module = self._eras.current.manifest.modules.get(base)
        skip = module is not None and module.failure == "skip"
        result = self._unchanged(slot, SKIPPED if skip else HALTED, fault.code, recordable(fault.text))
        return result._replace(timed_out=fault.timed_out)

    def failure_event(self, slot: Slot, message: Message, height: int, result: Result) -> Emission | None:
        """The sys/StepFailed@1 of a failed step; none while handling one."""
        if result.status not in (HALTED, SKIPPED) or message.schema == STEP_FAILED:
            return None
        value = encode({
            "module": slot.cells.base, "key": slot.key, "height": height, "cause": message.height,
            "code": result.code, "text": result.text,
        })  # fmt: skip
        targets = self._eras.current.router.reachable(STEP_FAILED, value)
        return Emission(message.depth + 1, STEP_FAILED, value, targets)

    def _unchanged(self, slot: Slot, status: int, code: str, text: str) -> Result:
        entry = slot.entry
        version, born = (entry.version, entry.born) if entry is not None else (0, 0)
        era = entry.era if entry is not None and entry.state is not None else self._eras.current.number
        return Result(status, version, born, era, None, (), None, None, (), code, text, False, False)


def _check_targets(emissions: Sequence[Emission]) -> None:
    """Refuse events that go to so many cells that their record would not fit a frame."""
    size = sum(TARGET_BYTES + len(key) for each in emissions for _, key in each.targets)
    if size > OUTPUT_BYTES_MAX:
        text = f"its events go to cells that take {size} bytes to name; at most {OUTPUT_BYTES_MAX}"
        raise StepFault("kernel.output_size", text)


def check_signal(era: Compiled, value: bytes, beat: int) -> None:
    """Refuse an emitted signal that is no impulse."""
    given: Any = era.fits(SIGNAL).decode(value)
    check_impulse(given.get("signal"), given.get("target"), given.get("beat"), beat)


def conflict_of(message: Message, entry: Entry | None, version: int) -> tuple[str, str] | None:
    """Why a message is not for the cell as it is: an event of another version, a receipt of another life."""
    if isinstance(message.expected, Call):
        return None
    if isinstance(message.expected, Expected):
        wanted, born = message.expected.version, message.expected.born
        found = entry.born if entry is not None else 0
        if wanted == version and born in (None, found):
            return None
        if born is None:
            return "kernel.version_conflict", f"expected version {wanted}, the cell is at {version}"
        text = f"expected {wanted}@{born} (version@born), the cell is at {version}@{found}"
        return "kernel.version_conflict", text
    asker = message.expected.born if isinstance(message.expected, Asker) else message.expected
    if entry is not None and entry.state is not None and entry.born == asker:
        return None
    return "kernel.receipt_outlived", f"the cell that asked (born at {asker}) was deleted"
