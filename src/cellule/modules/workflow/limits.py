"""The limits of workflows. Beyond one, a step of one cell fails, or one event is refused."""

from __future__ import annotations

from typing import Final

TASKS_MAX: Final = 10_000  # that one run has at a time
EVENTS_KEPT_MAX: Final = 1_000  # events of one run that nothing has awaited yet
AGAIN_MAX: Final = 100  # runs that one step begins anew, one after the other
WARM_MAX: Final = 4_096  # coroutines that one program keeps between steps
WAITS_SHOWN_MAX: Final = 20  # of what a run waits for, as its state tells
DEAD_CALLS_MAX: Final = 100  # that a coroutine may make while it is let go, before it is set aside
ASIDE_MAX: Final = 1_000  # coroutines that would not end when they were let go
VALUE_BYTES_MAX: Final = 500_000  # of a result, of what is published, and of the arguments of a new run
