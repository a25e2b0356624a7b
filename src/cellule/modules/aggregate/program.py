"""A step of an aggregate: items into the windows of their namespace, and what is told about it.

    first item of a window     sys/AggregationStarted@1
    each `batch` items         sys/BatchProcessed@1
    the window ends            sys/AggregationCompleted@1, with the results; the window leaves the state
    it cannot go on            sys/AggregationFailed@1; it takes no more items, and leaves when it ends

An event is taken whole or refused: an item that is late, or does not fit a limit, changes nothing. With
`on_limit: fail` it ends its window as failed instead.
"""

from __future__ import annotations

from typing import Any, Final

from cellule.kernel.manifest.model import TIMER_SET
from cellule.kernel.manifest.system import (
    AGGREGATION_COMPLETED,
    AGGREGATION_FAILED,
    AGGREGATION_STARTED,
    BATCH_PROCESSED,
    TIMER_FIRED,
)
from cellule.kernel.program import CheckedRequest, Context, Emit, Output, refusal
from cellule.modules.aggregate.limits import END_BYTES, ENDS_BYTES_MAX, STATE_BYTES_MAX
from cellule.modules.aggregate.measures import AggregateLimit
from cellule.modules.aggregate.spec import Spec, read_decimal, reader
from cellule.modules.aggregate.windows import (
    Namespace,
    Window,
    aggregation_id,
    read_namespace,
    span,
    write_namespace,
)
from cellule.values.cbor import decode_trusted, encode

FAILED_BY_EVENT: Final = "aggregate.failed_by_event"
_OF_ONE_ITEM: Final = ("aggregate.late", "aggregate.ahead", "aggregate.no_time")
"""Limits that say something about the item, not about its aggregation."""


class AggregateProgram:
    """The program of one aggregate module."""

    is_canonical = True

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._items = reader(spec.items)
        self._time = reader(spec.time)
        self._measures = [(each, reader(each.path), each.name in spec.decimals) for each in spec.measures]

    def step(
        self, state: bytes | None, schema: str, value: bytes, key: bytes, context: Context | None
    ) -> Output:
        """See `Program.step`."""
        assert context is not None
        try:
            return self._taken(
                _Step(self._spec, read_namespace(state, self._spec), key, context), schema, value
            )
        except AggregateLimit as limit:
            if not self._spec.fails_at_limit or limit.code in _OF_ONE_ITEM:
                raise refusal(limit.text, limit.code) from limit
            step = _Step(self._spec, read_namespace(state, self._spec), key, context)
            return step.failed_at_limit(limit)

    def _taken(self, step: _Step, schema: str, value: bytes) -> Output:
        spec = self._spec
        if schema in spec.fails:
            step.fail_all(FAILED_BY_EVENT, f"{schema} ended it")
        elif schema in spec.closes:
            step.close_all()
        elif schema != TIMER_FIRED:
            event = decode_trusted(value)
            for item in self._items(event) or () if spec.items else (event,):
                time_ns = self._time(item) if spec.time else step.now_ns
                try:
                    self._add(step, item, time_ns)
                except AggregateLimit as limit:
                    limit.time_ns = time_ns
                    raise
        step.close_due()
        return step.output()

    def _add(self, step: _Step, item: Any, time_ns: int | None) -> None:
        window = step.window_at(time_ns)
        window.items += 1
        partials = window.partials
        for measure, read, is_decimal in self._measures:
            found = read(item) if measure.path else True
            if found is None:
                continue
            if is_decimal and measure.operation != "count":
                found = read_decimal(found)
            partials[measure.name] = measure.added(partials.get(measure.name), found)
        step.count_batch(window)


class _Step:
    """The state under a step, and what the step says."""

    def __init__(self, spec: Spec, state: Namespace, key: bytes, context: Context) -> None:
        self._spec = spec
        self._state = state
        self._key = key
        self._context = context
        self._events: list[Emit] = []
        self._requests: list[CheckedRequest] = []
        self._names = {"module": context.module, "namespace": key.decode("utf-8", "replace")}
        self.now_ns = context.now_ns

    def window_at(self, time_ns: int | None) -> Window:
        """The window of an item of this time, open; raises `AggregateLimit` where it takes none."""
        if time_ns is None:
            raise AggregateLimit("aggregate.no_time", f"the item has no {'.'.join(self._spec.time)}")
        # One item from far ahead would close every window before it.
        if self._spec.time and time_ns > self.now_ns + self._spec.ahead_ns:
            raise AggregateLimit("aggregate.ahead", f"{time_ns} is too far ahead of world time {self.now_ns}")
        size, state = self._spec.size_ns, self._state
        start = None if size is None else time_ns // size * size
        end = None if start is None or size is None else start + size
        if end is not None and state.closed_ns is not None and end <= state.closed_ns:
            text = f"the window from {start} to {end} is over: windows up to {state.closed_ns} are closed"
            raise AggregateLimit("aggregate.late", text)
        if self._spec.time and (state.latest_ns is None or time_ns > state.latest_ns):
            state.latest_ns = time_ns
        window = next((each for each in state.windows if each.start_ns == start), None) or self._open(
            start, end
        )
        if window.failed is not None:
            raise AggregateLimit("aggregate.failed", f"the aggregation failed: {window.failed}")
        return window

    def _open(self, start: int | None, end: int | None) -> Window:
        state, context = self._state, self._context
        if len(state.windows) >= self._spec.windows_max:
            text = f"{len(state.windows)} windows are open; at most {self._spec.windows_max}"
            raise AggregateLimit("aggregate.windows_full", text)
        # One step may have to end them all, and its output has a limit.
        told = 2 * (END_BYTES + sum(len(each.encode()) for each in self._names.values()))
        if (len(state.windows) + 1) * told > ENDS_BYTES_MAX:
            text = f"{len(state.windows)} windows are open; with so long a key no more can end together"
            raise AggregateLimit("aggregate.windows_full", text)
        found = aggregation_id(context.world, context.module, self._key, start, state.ended)
        window = Window(found, start, end, self.now_ns)
        state.windows.append(window)
        state.windows.sort(key=lambda each: each.start_ns or 0)
        self._tell(AGGREGATION_STARTED, window, started_ns=self.now_ns)
        if self._spec.sets_timers:
            self._requests.append(CheckedRequest(TIMER_SET, encode({"at_ns": end, "key": f"window-{start}"})))
        return window

    def count_batch(self, window: Window) -> None:
        """Tell about a batch, if enough items came since the last one."""
        if window.items - window.batched >= self._spec.batch:
            self._tell_batch(window)

    def _tell_batch(self, window: Window) -> None:
        items = window.items - window.batched
        window.batches += 1
        window.batched = window.items
        self._tell(BATCH_PROCESSED, window, batch=window.batches, items=items, total_items=window.items)

    def close_due(self) -> None:
        """End the windows whose time is over."""
        spec, state = self._spec, self._state
        if spec.size_ns is None:
            return
        until = state.latest_ns if spec.time else self.now_ns
        if until is None:
            return
        closed = (until - spec.grace_ns) // spec.size_ns * spec.size_ns
        state.closed_ns = closed if state.closed_ns is None else max(closed, state.closed_ns)
        limit = state.closed_ns
        self._end([each for each in state.windows if each.end_ns is not None and each.end_ns <= limit])

    def close_all(self) -> None:
        """End all windows; what is in time for them comes too late from now on."""
        ends = [each.end_ns for each in self._state.windows if each.end_ns is not None]
        if ends:
            self._state.closed_ns = max([*ends, *filter(None, [self._state.closed_ns])])
        self._end(list(self._state.windows))

    def _end(self, windows: list[Window]) -> None:
        for window in windows:
            self._state.windows.remove(window)
            self._state.ended += 1
            if window.failed is not None:
                continue
            if window.items > window.batched:
                self._tell_batch(window)
            duration = self.now_ns - window.opened_ns
            self._tell(
                AGGREGATION_COMPLETED, window, total_items=window.items, batches=window.batches,
                duration_ns=duration, results=window.results(self._spec),
            )  # fmt: skip

    def fail_all(self, code: str, text: str) -> None:
        """End all windows as failed; of a window that has no end the next item begins another."""
        for window in self._state.windows:
            if window.failed is None:
                self._fail(window, code, text)
        if self._spec.size_ns is None:
            self._end(list(self._state.windows))

    def failed_at_limit(self, limit: AggregateLimit) -> Output:
        """The answer to an event that does not fit: its window ends as failed, or it is refused as well."""
        try:
            self._fail(self.window_at(limit.time_ns or self.now_ns), limit.code, limit.text)
            self.close_due()
            return self.output()
        except AggregateLimit:
            raise refusal(limit.text, limit.code) from limit

    def _fail(self, window: Window, code: str, text: str) -> None:
        window.failed = text
        window.partials = {}
        duration = self.now_ns - window.opened_ns
        self._tell(
            AGGREGATION_FAILED, window, total_items=window.items, duration_ns=duration, code=code, text=text
        )

    def _tell(self, schema: str, window: Window, **parts: Any) -> None:
        self._events.append(Emit(schema, encode({**span(window), **self._names, **parts})))

    def output(self) -> Output:
        """The answer of the step."""
        state = write_namespace(self._state, self._spec)
        if len(state) > STATE_BYTES_MAX:
            text = f"the namespace has {len(state)} bytes; at most {STATE_BYTES_MAX}"
            raise AggregateLimit("aggregate.state_size", text)
        return Output(state, self._events, self._requests)
