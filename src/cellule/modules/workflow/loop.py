"""`Loop`: the tasks of one run, one at a time, in the order in which they became ready.

It runs them until all wait, which is when a step ends. A task that fails while nobody waits for it fails the
run: its error is raised in the main task, where that waits. A run ends when its last task has; once the main
task is done the others are cancelled.

When a run is let go (its coroutine is only a cache), its tasks are closed: `GeneratorExit` is raised where
they wait, and again by every call of the context, so that their `finally` blocks do nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from inspect import iscoroutine
from typing import Any, Final

from cellule.kernel.program import StepFault
from cellule.modules.python.watchdog import StepTimeout
from cellule.modules.workflow.limits import ASIDE_MAX, DEAD_CALLS_MAX, TASKS_MAX
from cellule.modules.workflow.tasks import Cancelled, Pending, Task, no_result

_FATAL: Final = (StepTimeout, KeyboardInterrupt)
_ASIDE: Final[deque[object]] = deque(maxlen=ASIDE_MAX)  # coroutines that went on although they were closed


class LetGo(GeneratorExit):
    """The run is let go: whatever a `finally` block asks for now is not done."""


class Loop:
    """The tasks of one run; `fault` is what ends the step at once, whoever may have caught it."""

    def __init__(self) -> None:
        self.current: Task[Any] | None = None
        self.main: Task[Any] | None = None
        self.failure: BaseException | None = None  # of a task, after the main one was done
        self.fault: StepFault | None = None
        self._ready: deque[Task[Any]] = deque()
        self._tasks: dict[Task[Any], None] = {}
        self._is_dead = False
        self._dead_calls = 0

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> Task[Any]:
        """Begin a task; it runs once the one at work waits."""
        if self._is_dead:
            coroutine.close()
            raise LetGo
        if len(self._tasks) >= TASKS_MAX:
            coroutine.close()
            raise self.failed("workflow.tasks_max", f"the run has {TASKS_MAX} tasks already")
        task: Task[Any] = Task(self, coroutine)
        self._tasks[task] = None
        self._ready.append(task)
        return task

    def pendings(self, given: Iterable[object]) -> list[Pending[Any]]:
        """Coroutines become tasks; what is pending stays as it is."""
        found: list[Pending[Any]] = []
        waiting = deque(given)
        try:
            while waiting:
                each = waiting.popleft()
                if isinstance(each, Pending):
                    found.append(each)
                elif iscoroutine(each):
                    found.append(self.spawn(each))
                else:
                    no_result(each)
        finally:
            for each in waiting:  # those that a mistake left over never begin
                if iscoroutine(each):
                    each.close()
        return found

    def make_ready(self, task: Task[Any]) -> None:
        """Let a task go on."""
        self._ready.append(task)

    def run(self) -> None:
        """Run tasks until all wait or have ended."""
        while self._ready:
            self._advance(self._ready.popleft())
            if self.fault is not None:
                raise self.fault

    @property
    def is_over(self) -> bool:
        """Whether all tasks have ended."""
        return not self._tasks

    def failed(self, code: str, text: str) -> StepFault:
        """The fault that ends the step; raise it, so that the code stops here."""
        self.fault = self.fault or StepFault(code, text)
        return self.fault

    def check_alive(self) -> None:
        """Stop code that runs because the run is let go."""
        if self._is_dead:
            self._dead_calls += 1
            if self._dead_calls <= DEAD_CALLS_MAX:
                raise LetGo

    def let_go(self) -> None:
        """From now on, whatever code of the run asks for is not done."""
        self._is_dead = True

    def close(self) -> None:
        """Let the run go: its tasks end where they wait, without doing anything more."""
        self.let_go()
        tasks, self._tasks = list(self._tasks), {}
        self._ready.clear()
        for task in tasks:
            try:
                task.coroutine.close()
            except _FATAL:
                raise
            except BaseException as error:  # noqa: BLE001 - a finally block that raises changes nothing any more
                if isinstance(error, RuntimeError):
                    _ASIDE.append(task.coroutine)

    def _advance(self, task: Task[Any]) -> None:
        self.current = task
        try:
            awaited = task.advance()
        except StopIteration as done:
            self._ended(task)
            task.give(done.value)
        except _FATAL:
            raise
        except BaseException as error:  # noqa: BLE001 - a task may end with anything
            self._ended(task)
            self._raised(task, error)
        else:
            if not isinstance(awaited, Pending) or not awaited.belongs_to(self):
                raise self.failed(
                    "workflow.foreign_await",
                    f"the workflow awaits {_named(awaited)}, which is not of this run. Await what ctx gives: "
                    "ctx.sleep, ctx.event, ctx.effect, ctx.gather, ctx.race; nothing of asyncio runs here",
                )
            task.wait_for(awaited)

    def _ended(self, task: Task[Any]) -> None:
        del self._tasks[task]
        if task is self.main:
            for other in list(self._tasks):
                other.cancel_for(None)

    def _raised(self, task: Task[Any], error: BaseException) -> None:
        is_alone = not task.is_awaited and task is not self.main and not isinstance(error, Cancelled)
        task.end(error)
        if not is_alone:
            return
        assert self.main is not None
        if self.main.is_done:
            self.failure = self.failure or error
        else:
            self.main.interrupt(error)


def _named(awaited: object) -> str:
    kind = type(awaited)
    with suppress(Exception):
        return f"a {kind.__module__}.{kind.__qualname__}"
    return "something"
