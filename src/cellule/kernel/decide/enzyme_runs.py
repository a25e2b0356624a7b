"""Enzymes are run: against the tree as it stood when the beat began, and nothing is changed here.

A run that reads what is not in memory is unwound, the nodes are fetched, and it runs again: so a run sees the
same, and does the same, however much of the world is in memory. What it read is remembered, so each attempt
comes further than the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from hashlib import sha256
from typing import Any, NamedTuple

from cellule.kernel.decide.enzyme_actions import Author, Staged, check_actions
from cellule.kernel.decide.eras import CodeUnavailable, Eras
from cellule.kernel.decide.operation_actions import is_start
from cellule.kernel.heartbeat.entries import Entry
from cellule.kernel.limits import LIST_NODES_MAX, RUN_READS_MAX
from cellule.kernel.need import Need, fetch
from cellule.kernel.program import (
    CODE_UNAVAILABLE,
    EnzymeCall,
    EnzymeOutput,
    StepFault,
    Unwound,
    fault_of,
    recordable,
)
from cellule.kernel.state import tree, writes
from cellule.kernel.state.heartbeat_rows import Impulse
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.operations import MODULE as OPERATIONS
from cellule.values.envelope import open_envelope
from cellule.values.link import Link

RETRY = -1
FATAL = -2
CODE_MAX = 1 << 31
INTERVALS_TOLD = 64  # of the newest beats, for code that projects a time onto a beat


class Run(NamedTuple):
    """How a run ended: its code, and what it did; or (`fault`) why it failed."""

    code: int
    staged: Staged | None
    fault: StepFault | None = None


class Runner:
    """Runs the enzymes of one agenda."""

    def __init__(self, ledger: Ledger, eras: Eras, world: bytes, entropy: bytes) -> None:
        self._ledger = ledger
        self._eras = eras
        self._world = world
        self._entropy = entropy
        self._runs = 0
        self._started = 0  # operations that the runs of this agenda start

    def run(self, entry: Entry, impulse: Impulse, height: int) -> Generator[Need, None, Run]:
        """Run an entry on the impulse that was queued at a height."""
        self._runs += 1
        era = self._eras.current
        module = era.manifest.modules.get(entry.module)
        try:
            if module is None or module.style != "enzyme":
                raise StepFault(
                    "heartbeat.enzyme_module", f"{entry.module} is no module of an enzyme any more"
                )
            program: Any = yield from self._eras.program(era, module)
            call = yield from self._call(entry, impulse, height)
            output = yield from self._output(program, call)
            code = _code(output)
            staged = yield from check_actions(self._ledger, Author(entry, era, module), output.actions)
        except CodeUnavailable as missing:
            return Run(FATAL, None, StepFault(CODE_UNAVAILABLE, recordable(str(missing))))
        except StepFault as fault:
            return Run(FATAL, None, fault)
        if code == FATAL:
            return Run(code, None)
        self._started += sum(is_start(action) for action in staged.actions)
        return Run(code, staged)

    def _call(self, entry: Entry, impulse: Impulse, height: int) -> Generator[Need, None, EnzymeCall]:
        payload: bytes | None = None
        if isinstance(impulse.payload, Link):
            payload = (yield from fetch(self._ledger.nodes, (impulse.payload.cid,)))[impulse.payload.cid]
        elif impulse.payload is not None:
            payload = open_envelope(impulse.payload).data
        own = self._entropy + height.to_bytes(8, "big") + entry.number.to_bytes(8, "big")
        return EnzymeCall(
            self._world, entry.name, entry.number, impulse.signal, impulse.target, payload,
            self._ledger.beat, self._ledger.now_ns, sha256(own).digest(), self._runs,
            self._next_operation(), self._intervals(),
        )  # fmt: skip

    def _next_operation(self) -> int:
        heartbeat, beat = self._ledger.heartbeat, self._ledger.beat
        return self._started + (1 if heartbeat is None else heartbeat.operations.next_number(beat))

    def _intervals(self) -> list[int]:
        heartbeat = self._ledger.heartbeat
        newest = [] if heartbeat is None else heartbeat.wall_clock.intervals[-INTERVALS_TOLD:]
        return [interval for _, interval in newest]

    def _output(self, program: Any, call: EnzymeCall) -> Generator[Need, None, EnzymeOutput]:
        view = TreeReader(self._ledger)
        while True:
            view.begin()
            output: Any = None
            fault: StepFault | None = None
            try:
                output = program.run(call, view)
            except Unwound:
                pass
            except BaseException as error:  # noqa: BLE001 - whatever a program raises fails its run
                fault = fault_of(error)
            if view.is_waiting:  # whatever the code made of it
                yield from view.fetch()
                continue
            if view.fault is not None:
                raise view.fault
            if fault is not None:
                raise fault
            if not isinstance(output, EnzymeOutput):
                kind = type(output).__name__
                raise StepFault("heartbeat.actions", f"a run answers an EnzymeOutput, not a {kind}")
            return output


class TreeReader:
    """The tree for one run: reads answer at once, or unwind it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[tuple[Any, ...], Any] = {}
        self._waiting: tuple[tuple[Any, ...], Generator[Need, None, Any], Need] | None = None
        self._reads = 0
        self.fault: StepFault | None = None

    def begin(self) -> None:
        """The run begins, once more."""
        self._reads = 0
        self.fault = None

    @property
    def is_waiting(self) -> bool:
        """Tell whether the run read what has to be fetched."""
        return self._waiting is not None

    def fetch(self) -> Generator[Need, None, None]:
        """Fetch what the run waits for."""
        assert self._waiting is not None
        (key, reading, need), self._waiting = self._waiting, None
        yield need
        self._known[key] = yield from reading

    def read(self, path: str) -> bytes | None:
        """See `TreeView`."""
        found: bytes | None = self._ask(("read", path), lambda: tree.state_at(self._ledger, path))
        return found

    def names(self, path: str, after: str | None, limit: int) -> list[str]:
        """See `TreeView`."""
        if type(limit) is not int or not 1 <= limit <= LIST_NODES_MAX:
            raise StepFault("heartbeat.list_limit", f"a listing has 1 to {LIST_NODES_MAX} names, not {limit}")
        key = ("names", path, after, limit)
        found: list[str] = self._ask(key, lambda: tree.names_below(self._ledger, path, after, limit), limit)
        return list(found)

    def operation(self, key: bytes) -> bytes | None:
        """See `TreeView`."""
        found: bytes | None = self._ask(
            ("operation", key), lambda: writes.state_at(self._ledger, OPERATIONS, key)
        )
        return found

    def _ask(
        self, key: tuple[Any, ...], begin: Callable[[], Generator[Need, None, Any]], weight: int = 1
    ) -> Any:
        if self._waiting is not None:
            raise Unwound
        self._reads += weight
        if self._reads > RUN_READS_MAX:
            self.fault = StepFault("heartbeat.reads_count", f"the run reads more than {RUN_READS_MAX} nodes")
            raise self.fault
        if key in self._known:
            return self._known[key]
        reading = begin()
        try:
            need = next(reading)
        except StopIteration as stop:
            self._known[key] = stop.value
            return stop.value
        self._waiting = (key, reading, need)
        raise Unwound


def _code(output: EnzymeOutput) -> int:
    code = output.code
    if type(code) is not int or not -CODE_MAX <= code < CODE_MAX:
        raise StepFault(
            "heartbeat.return_code",
            f"an enzyme returns None or a whole number of 32 bits, not this {type(code).__name__}",
        )
    return code
