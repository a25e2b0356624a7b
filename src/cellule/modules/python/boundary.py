"""The end of a call into the author's code: whatever it raised becomes a `StepFault`; nothing else leaves.

Describing an error runs the author's code again: `__str__`, `__repr__`, properties of its class. So that is
done under the watchdog as well, and what cannot be described fails the step all the same. An object of the
author's is touched here only through what no class can replace: `type()`, and the slots of `BaseException`.

One exception passes: the `KeyboardInterrupt` of a signal, which is a person at the keyboard. One that the
code raises by itself is a failed step.
"""

from __future__ import annotations

import dis
import signal
from collections.abc import Callable
from functools import partial
from threading import current_thread, get_ident, main_thread
from types import CodeType
from typing import Any, Final, TypeVar

from cellule.kernel.program import StepFault
from cellule.modules.python.failure import Places, exception_text, innermost, place_text, type_name
from cellule.modules.python.watchdog import StepTimeout, Watchdog, Watched

T = TypeVar("T")
_RAISES: Final = frozenset(
    dis.opmap[name] for name in ("RAISE_VARARGS", "RERAISE", "YIELD_VALUE", "RETURN_GENERATOR")
)
"""Where code raises by itself: the last two are where a generator stands that it throws something into."""


class Boundary:
    """Where calls of one function of the author's end; `what` names it: "step", "upcaster"."""

    __slots__ = ("_places", "_watchdog", "_what")

    def __init__(self, what: str, watchdog: Watchdog, places: Places) -> None:
        self._what = what
        self._watchdog = watchdog
        self._places = places

    def call(
        self, function: Callable[[Watched], T], describe: Callable[[BaseException], StepFault],
        passes: type[BaseException] | None = None,
    ) -> T:  # fmt: skip
        """Call into the author's code, watched; raises nothing but `StepFault`, a person's interrupt aside.

        An exception of the very class `passes` is ours, and goes through as it is.
        The function may set `watched.token` to the next `count`: the watchdog counts from there.
        """
        watched = self._watchdog.slots.get(get_ident()) or self._watchdog.join()
        try:
            watched.token = watched.count = watched.count + 1
            result = function(watched)
            watched.token = 0
            if watched.firing and watched.leave():
                raise StepTimeout
            return result  # noqa: TRY300 - inside, so that nothing can strike between the check and the end
        except BaseException as error:
            watched.token = 0
            try:
                struck = watched.leave()
            except StepTimeout:
                struck = watched.leave() or True
            if type(error) is passes and not struck:
                raise
            fault = self.fault(watched, error, describe, struck=struck)
            if fault is None:
                raise
            raise fault from error

    def fault(
        self, watched: Watched, error: BaseException, describe: Callable[[BaseException], StepFault],
        *, struck: bool,
    ) -> StepFault | None:  # fmt: skip
        """What a call that raised `error` is recorded as; None where a person interrupted it.

        The call itself is watched no more; `describe` is.
        """
        if struck or issubclass(type(error), StepTimeout):
            return self._timed_out(error)
        if is_interrupt(error):
            return None
        try:
            watched.token = watched.count = watched.count + 1
            found = describe(error)
            watched.token = 0
            if watched.firing and watched.leave():
                raise StepTimeout
            return found  # noqa: TRY300 - inside, so that nothing can strike between the check and the end
        except BaseException as broken:  # noqa: BLE001 - describing runs the author's code, which may raise anything
            watched.token = 0
            try:
                struck = watched.leave()
            except StepTimeout:
                struck = watched.leave() or True
            if struck or issubclass(type(broken), StepTimeout):
                return self._timed_out(error)
            return None if is_interrupt(broken) else self._unreadable(error, broken)

    def _timed_out(self, error: BaseException) -> StepFault:
        text = f"the {self._what} ran longer than {self._watchdog.limit_s:g} s and was stopped"
        return StepFault("modules.timed_out", text + place_text(error, self._places), timed_out=True)

    def _unreadable(self, error: BaseException, broken: BaseException) -> StepFault:
        kind, why = self._places.cleaned(type_name(error)), self._places.cleaned(type_name(broken))
        text = f"{kind}: its text cannot be read ({why})"
        return StepFault("modules.exception", text + place_text(error, self._places))


def own_fault(fault: StepFault, places: Places) -> StepFault:
    """A fault that Cellule's own code raised; one that the author made up is an exception like any other."""
    code, text = fault.code, fault.text
    if (
        type(code) is not str
        or type(text) is not str
        or not code.startswith(("modules.", "workflow.", "heartbeat."))
    ):
        return StepFault("modules.exception", exception_text(fault, places))
    if code == "modules.nondeterministic":
        text += place_text(fault, places)
    return StepFault(code, text)


def is_interrupt(error: BaseException) -> bool:
    """Whether a signal raised it: no code said `raise`, unless it is the handler of the signal."""
    if type(error) is not KeyboardInterrupt or current_thread() is not main_thread():
        return False
    trace = innermost(error)
    if trace is None:
        return True
    code = trace.tb_frame.f_code
    return code.co_code[trace.tb_lasti] not in _RAISES or code is _handler_code()


def _handler_code() -> CodeType | None:
    """The code of the handler that is installed for an interrupt, where it is written in Python."""
    handler: Any = signal.getsignal(signal.SIGINT)
    while isinstance(handler, partial):
        handler = handler.func
    return getattr(getattr(handler, "__func__", handler), "__code__", None)
