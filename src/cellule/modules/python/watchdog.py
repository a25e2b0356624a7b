"""The watchdog: ends a step that runs too long, and never anything else.

One thread looks at all watched calls a few times per limit. A call costs a few attribute writes: it has no
clock of its own; the watchdog measures how long it sees the same call. It interrupts by an exception raised
asynchronously in the calling thread, so code inside C (a sleep, a long regular expression) is ended only when
it comes back to Python. The exception is no `Exception`, and a call that swallows it is struck again.

Why it strikes inside the call only: the watchdog writes `firing`, then reads `token`; the call, when it ends,
writes `token`, then reads `firing`. Under the interpreter lock these are ordered, so one of them sees the
other: either the watchdog finds the call gone and does nothing, or the call finds itself fired at, waits for
the watchdog's lock, and lets an exception that is still on its way arrive before it ends.

Rejected: signal.setitimer. Signals reach only the main thread, and worlds may run on others.
Rejected: taking an exception back by raising null. CPython 3.11 then keeps its mark that something is
pending for ever, which slows every call, and a traced call never ends.
Rejected: a timer thread per step, or a clock read per step. Both cost more than a small step.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from threading import Event, Lock, Thread, get_ident
from typing import Final

LIMIT_S: Final = 10.0
LOOKS_PER_LIMIT: Final = 8
ARRIVAL_CHECKS: Final = 100
INTERVAL_S_MIN: Final = 0.01
INTERVAL_S_MAX: Final = 1.0

_raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in_thread.argtypes = (ctypes.c_ulong, ctypes.py_object)


class StepTimeout(BaseException):
    """Raised inside a step that runs too long."""


class Watched:
    """The calls of one thread: `token` numbers the one under way; 0 = none."""

    __slots__ = ("count", "firing", "ident", "lock", "token")

    def __init__(self, ident: int) -> None:
        self.ident = ident
        self.lock = Lock()
        self.count = 0
        self.token = 0
        self.firing = 0

    def leave(self) -> bool:
        """End the call under way; nothing can strike after this. Tells whether the watchdog struck."""
        while True:
            try:
                self.token = 0
                if not self.firing:
                    return False
                with self.lock:
                    struck = self.firing != 0
                    self.firing = 0
                for _ in range(ARRIVAL_CHECKS):  # an exception on its way arrives at a jump back
                    pass
            except StepTimeout:
                self.firing = self.count
                continue
            return struck

    def strike(self, token: int) -> None:
        """Raise `StepTimeout` in the call with this token, if it is still under way."""
        with self.lock:
            self.firing = token
            if self.token != token:
                self.firing = 0
                return
            _raise_in_thread(self.ident, StepTimeout)


class Watchdog:
    """Watches calls of any number of threads; `limit_s=None` never strikes.

    A caller takes the `Watched` of its thread (`slots.get(get_ident()) or watchdog.join()`), sets its `token`
    to the next `count`, and must call `leave()` on every way out.
    """

    def __init__(self, limit_s: float | None = LIMIT_S) -> None:
        self.limit_s = limit_s
        self.slots: dict[int, Watched] = {}
        self._stop = Event()
        self._starting = Lock()
        self._thread: Thread | None = None
        weakref.finalize(self, self._stop.set)

    def join(self) -> Watched:
        """Make the calling thread a watched one."""
        watched = self.slots.setdefault(get_ident(), Watched(get_ident()))
        if self.limit_s is not None:
            self._start(self.limit_s)
        return watched

    def close(self) -> None:
        """End the watching thread; calls are no longer watched."""
        self._stop.set()
        if self._thread is not None and self._thread.ident != get_ident():
            self._thread.join()

    def _start(self, limit_s: float) -> None:
        with self._starting:
            if self._thread is not None:
                return
            thread = Thread(
                target=_watch, args=(self.slots, self._stop, limit_s), name="cellule-watchdog", daemon=True
            )
            thread.start()
            self._thread = thread


def _watch(slots: dict[int, Watched], stop: Event, limit_s: float) -> None:
    """Look at all slots until stopped; knows nothing of the `Watchdog`, so that one can be collected."""
    interval_s = min(max(limit_s / LOOKS_PER_LIMIT, INTERVAL_S_MIN), INTERVAL_S_MAX)
    seen: dict[int, tuple[int, float]] = {}
    while not stop.wait(interval_s):
        now = time.monotonic()
        for watched in list(slots.values()):
            token = watched.token
            since = seen.get(watched.ident)
            if token == 0 or since is None or since[0] != token:
                seen[watched.ident] = (token, now)
            elif now - since[1] >= limit_s:
                watched.strike(token)
                seen[watched.ident] = (token, now - limit_s + interval_s)
