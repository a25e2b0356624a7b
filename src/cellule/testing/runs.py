"""Running one coroutine to its end in a fresh deterministic loop, and saying exactly what happened.

Invariant: a run succeeds only if the coroutine returned and nothing was left behind: no failed callback, no
exception that nobody looked at, no coroutine that was never awaited, no error in a finalizer. The collector
runs only at the end, since when it would run by itself depends on all that the process did before.

Rejected: leaving garbage collection on. It closes abandoned generators and reports lost exceptions in the
middle of a run, at a step that no seed decides.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cellule.testing.loop import STEPS_MAX, DeterministicLoop, Unhandled, check_no_running_loop

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run(Generic[T]):
    """What a run returned and which way it took; equal digests mean the identical schedule."""

    result: T
    digest: str
    steps: int
    now_ns: int


@dataclass(frozen=True, slots=True)
class Attempt(Generic[T]):
    """A run that may have failed; `trace` has one line a step if it was asked for."""

    run: Run[T | None]
    error: BaseException | None
    trace: tuple[str, ...]


def run(
    main: Callable[[], Coroutine[Any, Any, T]],
    *,
    seed: int | None,
    steps_max: int = STEPS_MAX,
    eager: bool = False,
) -> Run[T]:
    """Run `main()` in a fresh loop and return its result, or raise what it raised.

    `seed` decides the order of callbacks that are ready at the same moment; `None` means first in, first
    out. `steps_max` bounds the run; `eager` starts tasks at once, as `asyncio.eager_task_factory` does.
    """
    attempted = attempt(main, seed=seed, steps_max=steps_max, eager=eager)
    if attempted.error is not None:
        raise attempted.error
    done = attempted.run
    return Run(done.result, done.digest, done.steps, done.now_ns)  # type: ignore[arg-type]


def attempt(
    main: Callable[[], Coroutine[Any, Any, T]],
    *,
    seed: int | None,
    steps_max: int = STEPS_MAX,
    eager: bool = False,
    traced: bool = False,
) -> Attempt[T]:
    """Run `main()` in a fresh loop and return its result or its error, with the schedule it took."""
    check_no_running_loop()
    loop = DeterministicLoop(seed, steps_max=steps_max, traced=traced)  # type: ignore[abstract]
    if eager:
        loop.set_task_factory(getattr(asyncio, "eager_task_factory", None))
    with _nothing_lost(loop):
        result, error = _complete(loop, main)
    if error is None and loop.unhandled:
        error = _error_of(loop.raise_unhandled)
    elif error is not None:
        _add_notes(error, loop)
    done = Run(result, loop.digest, loop.steps, loop.now_ns)
    return Attempt(done, error, tuple(loop.trace or ()))


def _complete(
    loop: DeterministicLoop, main: Callable[[], Coroutine[Any, Any, T]]
) -> tuple[T | None, BaseException | None]:
    result: T | None = None
    error: BaseException | None = None
    try:
        result = loop.run_until_complete(main())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as raised:  # noqa: BLE001 - returned: cancellation and pytest's outcomes are no Exceptions
        error = raised
    finally:
        loop.shut_down()
        for task in loop.tasks_unheard():
            loop.unhandled.append(
                Unhandled(f"nobody looked at the exception of {task.label}", task.exception())
            )
    return result, error


@contextmanager
def _nothing_lost(loop: DeterministicLoop) -> Iterator[None]:
    """Collect garbage only at the end, and send what finalizers report to `loop`."""
    collects, hook = gc.isenabled(), sys.unraisablehook
    gc.disable()  # so that the last collection, of the youngest, looks at all that this run made
    sys.unraisablehook = lambda report: loop.unhandled.append(
        Unhandled(report.err_msg or "an error in a finalizer", report.exc_value)
    )
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "coroutine .* was never awaited", RuntimeWarning)
            yield
            gc.collect(0)
    finally:
        sys.unraisablehook = hook
        if collects:
            gc.enable()


def _error_of(action: Callable[[], object]) -> BaseException | None:
    try:
        action()
    except Exception as error:  # noqa: BLE001 - returned
        return error
    return None


def _add_notes(error: BaseException, loop: DeterministicLoop) -> None:
    for lost in loop.unhandled:
        if lost.error is not error and lost.error is not error.__cause__:
            error.add_note(f"also: {lost.message}: {lost.error!r}")
