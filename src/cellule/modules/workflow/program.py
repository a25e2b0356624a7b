"""`WorkflowProgram`: a workflow as the kernel calls it. Its state is its history; its coroutine is a cache.

A step gives one answer to a run and lets it work until it waits. The coroutine is kept for the next step,
beside the place where the log ends by then; where the log ends elsewhere (after a restart, a step that
failed, in a fork), the run is made anew from its history. Both ways the same bytes come out.

An event that starts a run, while there is one or after it has ended, changes nothing, and its step says so:
the same event often goes to other modules, too, whose sender must not hear of a refusal.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

from cellule.kernel.limits import STEP_CANCELS_MAX
from cellule.kernel.manifest.system import Ended
from cellule.kernel.program import (
    CODE_UNAVAILABLE,
    Context,
    Emit,
    LogMark,
    Output,
    StepFault,
    StepRefusal,
)
from cellule.kernel.state.log_state import NOTHING, advanced
from cellule.modules.python.boundary import Boundary, own_fault
from cellule.modules.python.failure import Places, exception_text
from cellule.modules.python.interface import Interface
from cellule.modules.python.loader import is_missing
from cellule.modules.python.module_names import Naming
from cellule.modules.python.watchdog import Watchdog, Watched
from cellule.modules.workflow import history
from cellule.modules.workflow.answers import Input, give, replay
from cellule.modules.workflow.code import WorkflowCode
from cellule.modules.workflow.commands import Sent
from cellule.modules.workflow.failure import GoesOn
from cellule.modules.workflow.life import Life
from cellule.modules.workflow.limits import AGAIN_MAX, WARM_MAX
from cellule.modules.workflow.run import Run
from cellule.modules.workflow.signature import CANCEL, RERUN, read_workflow
from cellule.modules.workflow.start import Start, key_of
from cellule.values.cbor import decode_trusted, encode

T = TypeVar("T")

WORKFLOW: Final = "workflow"
"""The form of a Python function that is a workflow."""
UNCHANGED: Final = history.joined([])
_RUNNING: Final = encode({"ignored": "the run of this cell is under way already"})
_OVER: Final = Ended("ended", "workflow.ended", "its run has ended before")
_ENDED: Final = encode({"ignored": "the run of this cell has ended; it is final"})


def workflow_program(
    function: Callable[..., Any], interface: Interface, naming: Naming, watchdog: Watchdog, places: Places
) -> WorkflowProgram:
    """The program of a workflow's function."""
    return WorkflowProgram(WorkflowCode(read_workflow(function), interface, naming, places), watchdog)


class Warm(NamedTuple):
    """A run that is kept, and where its log ends."""

    run: Run
    mark: LogMark


class WorkflowProgram:
    """The program of one workflow."""

    is_canonical = True

    def __init__(self, code: WorkflowCode, watchdog: Watchdog) -> None:
        self._code = code
        self._life = Life(code)
        self._boundary = Boundary("step", watchdog, code.places)
        self._warm: OrderedDict[tuple[bytes, bytes], Warm] = OrderedDict()
        self._mark: LogMark | None = None  # where the log ends that the next `step` gets

    # The kernel's view

    def resume(
        self, mark: LogMark, schema: str, value: bytes, key: bytes, context: Context | None
    ) -> Output | None:
        """See `Program`: take a step with the run that is kept, if its log ends there."""
        assert context is not None
        self._mark, reruns = mark, self._reruns(schema, value)
        warm = self._warm.pop((context.world, key), None)
        if warm is None:
            return None
        is_there = warm.mark.tail == mark.tail and list(warm.mark.chunks) == list(mark.chunks)
        if reruns or not is_there:
            self._let_go(warm.run)
            return None
        return self._stepped(warm.run, mark, Input(schema, value, key, context))

    def step(
        self, state: bytes | None, schema: str, value: bytes, key: bytes, context: Context | None
    ) -> Output:
        """See `Program.step`: take a step with a run made from its history."""
        assert context is not None
        mark, self._mark = (self._mark or NOTHING) if state is not None else NOTHING, None
        given = Input(schema, value, key, context)
        if state is None:
            if schema not in self._code.starts:
                return Output(None)  # nobody waits for it: no cell is made
            start = Start(
                1, context.now_ns, context.journal_height, context.entropy, schema, decode_trusted(value), []
            )  # fmt: skip
            return self._begun(start, given, self._life.begun(key))
        entries: Any = decode_trusted(state)
        if self._reruns(schema, value):
            return self._rerun(entries, given)
        if entries[-1][0] == history.END:
            return Output(UNCHANGED, ann=_ENDED if schema in self._code.starts else None, ended=_OVER)
        run = Run(self._code, Start(*entries[0][1:]), key)
        try:
            self._watched(lambda watched: replay(run, entries, watched, self._code.places))
        except BaseException:
            self._let_go(run)
            raise
        return self._stepped(run, mark, given)

    def forget(self) -> None:
        """See `Program`: the next steps make their runs from their histories."""
        while self._warm:
            self._let_go(self._warm.popitem()[1].run)

    def forget_world(self, world: bytes) -> None:
        """See `Program`: a world leaves memory."""
        for cell in [each for each in self._warm if each[0] == world]:
            self._let_go(self._warm.pop(cell).run)

    # A step

    def _reruns(self, schema: str, value: bytes) -> bool:
        if schema != self._code.order:
            return False
        order: Any = decode_trusted(value)
        if order["verb"] not in (CANCEL, RERUN):
            text = f"a run can be told to {CANCEL} or to {RERUN}, not to {order['verb']!r:.50}"
            raise StepRefusal("workflow.order", text)
        return bool(order["verb"] == RERUN)

    def _rerun(self, entries: list[list[Any]], given: Input) -> Output:
        """Begin anew with what the cell began with; what its run asked for is taken back."""
        before, context = Start(*entries[0][1:]), given.context
        asked = sum(each[0] == history.ASK for each in entries)
        open_keys = [key_of(before, number + 1) for number in range(asked)][-STEP_CANCELS_MAX:]
        start = before._replace(
            number=before.number + 1, now_ns=context.now_ns, height=context.journal_height,
            entropy=context.entropy,
        )  # fmt: skip
        is_over = entries[-1][0] == history.END
        output = self._begun(start, given, self._life.begun_again(given.key, is_over=is_over))
        return output._replace(cut=True, cancels=[*open_keys, *output.cancels][:STEP_CANCELS_MAX])

    def _begun(self, start: Start, given: Input, shown: Sequence[Emit]) -> Output:
        run = Run(self._code, start, given.key)
        run.commands.record(start.entry())
        output = self._taken(run, NOTHING, given, run.begin)
        return output._replace(events=[*shown, *output.events]) if shown else output

    def _stepped(self, run: Run, mark: LogMark, given: Input) -> Output:
        output = self._taken(run, mark, given, partial(give, run, given))
        if output.state == UNCHANGED and given.schema in self._code.starts:
            return output._replace(ann=_RUNNING)
        return output

    def _taken(self, run: Run, mark: LogMark, given: Input, first: Callable[[], object]) -> Output:
        """Let a run work on what it was just given, and keep it if it goes on."""
        runs = [run]

        def work(watched: Watched) -> Output:
            first()
            return self._worked(runs, given, watched)

        try:
            output = self._watched(work)
        except BaseException:
            for each in runs:
                self._let_go(each)
            raise
        if not runs[-1].loop.is_over:
            assert output.state is not None
            after, _ = advanced(NOTHING if output.cut else mark, output.state)
            self._keep(given, Warm(runs[-1], after))
        return output

    def _worked(self, runs: list[Run], given: Input, watched: Watched) -> Output:
        """Let a run work until it waits or ends; where it goes on anew, the next one, too."""
        run, carried, ended = runs[-1], deque[tuple[str, Any]](), None
        sent = run.commands.sent
        while True:
            if run.settle():
                run.commands.end_timers()
                error = run.error
                if not isinstance(error, GoesOn):
                    sent.entries, ended = run.ending()
                    break
                if len(runs) > AGAIN_MAX:
                    raise StepFault(
                        "workflow.endless", f"the run went on anew {AGAIN_MAX} times and never waited"
                    )
                carried = deque([*run.kept, *carried])
                run = _anew(run, error, given, self._code)
                runs.append(run)
                sent.entries, run.commands.sent = [run.start.entry()], sent
                watched.token = watched.count = watched.count + 1
                run.begin()
            elif carried:
                schema, value = carried.popleft()
                run.commands.record(history.entry(history.EVENT, given.context.now_ns, schema, value))
                run.give_event(schema, value)
            else:
                run.commands.record_waits()
                break
        run.commands.sent = Sent()
        if run.loop.is_over:
            sent.events += self._life.ended(given.key, sent.entries[-1])
        is_cut = given.context.version > 0 and (len(runs) > 1 or run.loop.is_over)
        state = history.joined(sent.entries)
        return Output(state, sent.events, sent.effects, None, None, sent.cancels, is_cut, ended)

    # What is kept

    def _keep(self, given: Input, warm: Warm) -> None:
        self._warm[given.context.world, given.key] = warm
        if len(self._warm) > WARM_MAX:
            self._let_go(self._warm.popitem(last=False)[1].run)

    def _let_go(self, run: Run) -> None:
        """End a coroutine; what its code makes of that concerns nobody."""
        with suppress(StepFault):
            self._watched(lambda _: run.loop.close())

    # The author's code

    def _watched(self, call: Callable[[Watched], T]) -> T:
        """Call into the author's code; nothing but `StepFault` leaves it."""
        return self._boundary.call(call, self._described)

    def _described(self, error: BaseException) -> StepFault:
        """What an error is recorded as."""
        kind, places = type(error), self._code.places
        if kind is StepRefusal:
            return cast("StepFault", error)
        if kind is StepFault:
            return own_fault(cast("StepFault", error), places)
        code = "modules.recursion" if issubclass(kind, RecursionError) else "modules.exception"
        if issubclass(kind, ImportError) and is_missing(cast("ImportError", error), places):
            code = CODE_UNAVAILABLE
        return StepFault(code, exception_text(error, places))


def _anew(run: Run, goes_on: GoesOn, given: Input, code: WorkflowCode) -> Run:
    """The next run of a cell."""
    context = given.context
    schema, value, arguments = goes_on.arguments
    number, height = run.start.number + 1, context.journal_height
    start = Start(number, context.now_ns, height, context.entropy, schema, value, arguments)
    return Run(code, start, given.key)
