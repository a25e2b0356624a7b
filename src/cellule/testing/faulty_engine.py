"""An engine whose surroundings fail: it wraps any `Engine` and does what a `FaultSource` decides.

Invariant: everything it does is allowed by the engine contract. Chance comes from `SeededEntropy`, waiting is
`asyncio.sleep`, so under the deterministic loop a seed replays exactly. One handle is one node's connection:
`crash` ends it as the end of a process would, and a restarted node takes a new one.

What is injected: `Unavailable`; unknown outcomes of commits that were applied, were lost, or arrive later;
delays on both ways, slow reads among them; stamps that become visible after larger ones; watches that
return for nothing; commits cut off by a crash or by cancelling the caller; frozen handles.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from typing import NoReturn

from cellule.errors import CelluleError, OutcomeUnknown, Unavailable
from cellule.store.engine import Batch, Engine, Page, Row, Stamp, check_batch
from cellule.store.families import check_one_family
from cellule.store.resource import Resource
from cellule.testing.entropy import SeededEntropy
from cellule.testing.faults import CALM, Fate, Fault, FaultPlan, Faults, Operation
from cellule.testing.wire import Wire

RESERVED_PREFIX = b"\x02faults\x00"
"""Where rows stand for a moment while a stamp is taken early."""


class FaultyEngine(Resource):
    """See the module. Handles of the same store share a `wire`."""

    def __init__(
        self,
        engine: Engine,
        faults: Faults | FaultPlan = CALM,
        *,
        entropy: SeededEntropy | None = None,
        wire: Wire | None = None,
    ) -> None:
        self.engine = engine
        self.wire = Wire() if wire is None else wire
        self._faults = faults
        self._entropy = SeededEntropy(0) if entropy is None else entropy
        self._counts: Counter[Operation] = Counter()
        self._leaving: dict[int, Batch] = {}
        self._leaving_numbers = itertools.count()
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._crashed = asyncio.Event()
        self._committing = 0
        self._quiet = asyncio.Event()
        self._closed = False

    def count(self, operation: Operation) -> int:
        """How many operations of this kind were begun."""
        return self._counts[operation]

    async def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `Engine.read`."""
        fault = await self._begin("read")
        values = await self.engine.read(keys)
        await self._travel(fault.after_ns)
        return values

    async def scan(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Page:
        """See `Engine.scan`."""
        fault = await self._begin("scan")
        page = await self.engine.scan(begin, end, limit=limit, reverse=reverse)
        await self._travel(fault.after_ns)
        return page

    async def rows(self) -> AsyncGenerator[list[Row], None]:
        """See `Engine.rows`."""
        fault = await self._begin("scan")
        async for page in self.engine.rows():
            await self._travel(fault.after_ns)
            yield page

    async def commit(self, batch: Batch) -> list[Stamp]:
        """See `Engine.commit`. If the caller is cancelled, the seed decides whether it is still applied."""
        check_batch(batch)
        for begin, end in batch.clear_range:
            check_one_family(begin, end)
        fault = self._next_fault("commit")
        self._committing += 1
        try:
            return await self._commit(batch, fault)
        finally:
            self._committing -= 1
            if not self._committing:
                self._quiet.set()

    async def watch(self, key: bytes, seen: bytes | None) -> None:
        """See `Engine.watch`."""
        fault = self._next_fault("watch")
        await self._travel(fault.before_ns)
        if fault.fate is Fate.CRASH_LOST:
            await self._crash_here()
        if fault.fate is Fate.ANSWERED:
            await self.engine.watch(key, seen)
        else:
            await self._watch_until(key, seen, fault)
        await self._travel(fault.after_ns)

    async def close(self) -> None:
        """Wait for what is under way, then close the wrapped engine."""
        self._closed = True
        while self._committing and not self._crashed.is_set():
            self._quiet.clear()
            await self._quiet.wait()
        await self.wire.settle()
        await self.engine.close()

    def freeze(self) -> None:
        """Hold every call and every answer until `heal`: a partition, or a process that is not scheduled."""
        self._thawed.clear()

    def heal(self) -> None:
        """Let what was frozen go on."""
        self._thawed.set()

    def crash(self) -> None:
        """End this handle as the end of its process would.

        Commits that were leaving are applied (perhaps later) or lost, by the seed. Nobody who waits for an
        answer gets one: cancel those tasks. Later calls raise `Unavailable`.
        """
        self._crashed.set()
        self._quiet.set()
        for number in list(self._leaving):
            self._cut_off(number)

    def has_crashed(self) -> bool:
        """Tell whether this handle has crashed."""
        return self._crashed.is_set()

    async def wait_crashed(self) -> None:
        """Return once this handle has crashed."""
        await self._crashed.wait()

    def _next_fault(self, operation: Operation) -> Fault:
        if self._crashed.is_set():
            raise Unavailable(
                "testing.crashed", "this engine handle has crashed", hint="A restarted node takes a new one."
            )
        if self._closed:
            raise Unavailable("store.closed", "the engine is closed", hint="Open a new one.")
        self._counts[operation] += 1
        return self._faults.fault(operation, self._counts[operation], self._entropy)

    async def _begin(self, operation: Operation) -> Fault:
        fault = self._next_fault(operation)
        await self._travel(fault.before_ns)
        if fault.fate is Fate.CRASH_LOST:
            await self._crash_here()
        if fault.fate is Fate.UNAVAILABLE:
            raise _unavailable(operation)
        return fault

    async def _commit(self, batch: Batch, fault: Fault) -> list[Stamp]:
        if fault.rival is not None:
            await self.wire.deliver(self.engine, fault.rival)
        sent, early = (
            await self._stamped_early(batch) if fault.stamped_early and batch.ordered else (batch, None)
        )
        await self._leave(sent, fault)
        stamps = await self._arrive(sent, fault)
        await self._travel(fault.after_ns)
        return stamps if early is None else early

    async def _stamped_early(self, batch: Batch) -> tuple[Batch, list[Stamp]]:
        """Take the stamps of `batch` now, so that whatever commits before it arrives has larger ones."""
        order = await self.wire.errand(self._reserve())
        stamps = [Stamp(order + place.to_bytes(2, "big")) for place in range(len(batch.ordered))]
        rows = {prefix + stamp: value for (prefix, value), stamp in zip(batch.ordered, stamps, strict=True)}
        sent = Batch(batch.expect, {**batch.set, **rows}, batch.clear, batch.clear_range, batch.add)
        return sent, stamps

    async def _reserve(self) -> bytes:
        stamp = (await self.engine.commit(Batch(ordered=[(RESERVED_PREFIX, b"")])))[0]
        await self.engine.commit(Batch(clear=[RESERVED_PREFIX + stamp]))
        return stamp[:-2]

    async def _leave(self, batch: Batch, fault: Fault) -> None:
        number = next(self._leaving_numbers)
        self._leaving[number] = batch
        try:
            await self._travel(fault.before_ns)
        except BaseException:
            self._cut_off(number)
            raise
        del self._leaving[number]

    def _cut_off(self, number: int) -> None:
        batch = self._leaving.pop(number, None)
        arrives, delay_ns = self._entropy.chance(0.5), self._faults.late_ns(self._entropy)
        if batch is not None and arrives:
            self.wire.send_late(self.engine, batch, delay_ns)

    async def _arrive(self, batch: Batch, fault: Fault) -> list[Stamp]:
        match fault.fate:
            case Fate.UNAVAILABLE:
                raise _unavailable("commit")
            case Fate.UNKNOWN_LOST:
                await self._travel(fault.after_ns)
                raise _unknown()
            case Fate.UNKNOWN_LATE:
                self.wire.send_late(self.engine, batch, fault.after_ns + fault.late_ns)
                await self._travel(fault.after_ns)
                raise _unknown()
            case Fate.CRASH_LOST:
                await self._crash_here()
            case Fate.UNKNOWN_APPLIED | Fate.CRASH_APPLIED:
                await self._apply_unheard(batch, fault)
            case _:
                pass
        return await self.wire.deliver(self.engine, batch)

    async def _apply_unheard(self, batch: Batch, fault: Fault) -> NoReturn:
        lost: CelluleError | None = None
        try:
            await self.wire.deliver(self.engine, batch)
        except CelluleError as error:
            lost = error  # a conflict's answer is lost like any other
        if fault.fate is Fate.CRASH_APPLIED:
            await self._crash_here()
        await self._travel(fault.after_ns)
        raise _unknown() from lost

    async def _watch_until(self, key: bytes, seen: bytes | None, fault: Fault) -> None:
        try:
            async with asyncio.timeout(fault.late_ns / 1e9):
                await self.engine.watch(key, seen)
        except TimeoutError:
            if fault.fate is Fate.UNAVAILABLE:
                raise _unavailable("watch") from None

    async def _travel(self, delay_ns: int) -> None:
        """Be under way for `delay_ns` and as long as the handle is frozen; after a crash, for ever."""
        if delay_ns:
            await asyncio.sleep(delay_ns / 1e9)
        await self._thawed.wait()
        if self._crashed.is_set():
            await _never_answered()

    async def _crash_here(self) -> NoReturn:
        self.crash()
        await _never_answered()


async def _never_answered() -> NoReturn:
    while True:
        await asyncio.get_running_loop().create_future()


def _unavailable(operation: Operation) -> Unavailable:
    return Unavailable(
        "testing.unavailable", "injected: {operation} did not get through", operation=operation
    )


def _unknown() -> OutcomeUnknown:
    return OutcomeUnknown("testing.outcome_unknown", "injected: the answer to a commit was lost")
