"""`EnzymeProgram`: one enzyme as the kernel calls it. What it did are plain maps, encoded by our own codecs.

Nothing but `StepFault` leaves a run, except `Unwound`: a read of what is not in memory. The kernel then
brings it, and runs the enzyme again from the start; it notices also where the author's code caught that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from cellule.errors import Rejected
from cellule.kernel.program import (
    CODE_UNAVAILABLE,
    Context,
    EnzymeCall,
    EnzymeOutput,
    Output,
    StepFault,
    TreeView,
    Unwound,
)
from cellule.modules.enzyme.context import EnzymeContext
from cellule.modules.python.boundary import Boundary, own_fault
from cellule.modules.python.emissions import Emissions
from cellule.modules.python.failure import Places, exception_text
from cellule.modules.python.interface import Interface
from cellule.modules.python.loader import is_missing
from cellule.modules.python.module_names import Naming
from cellule.modules.python.requests import Requests
from cellule.modules.python.signature import shown_function
from cellule.modules.python.watchdog import Watchdog
from cellule.values.cbor import decode_trusted
from cellule.values.requests import Request
from cellule.values.schema.annotations import shown_type

_PARAMETERS: Final = 3
_BY_POSITION: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def check_enzyme(function: Callable[..., Any]) -> None:
    """Refuse what cannot be run as an enzyme."""
    parameters = list(inspect.signature(function).parameters.values())
    by_position = [each for each in parameters if each.kind in _BY_POSITION]
    needed = [each for each in parameters if each.default is inspect.Parameter.empty]
    if len(by_position) < _PARAMETERS or len(needed) > _PARAMETERS:
        given = ", ".join(each.name for each in parameters)
        raise _wrong(function, f"it takes ({given})")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise _wrong(function, "it is asynchronous, or a generator")


def _wrong(function: Callable[..., Any], problem: str) -> Rejected:
    return Rejected(
        "modules.enzyme_signature", "{function} is no enzyme: {problem}.",
        function=shown_function(function), problem=problem,
        hint="Write `def name(ctx, signal, target)`, which returns None, RETRY, FATAL or another number.",
    )  # fmt: skip


ENZYME: Final = "enzyme"
"""The form of a Python function that is an enzyme."""


def enzyme_program(
    function: Callable[..., Any], interface: Interface, naming: Naming, watchdog: Watchdog, places: Places
) -> EnzymeProgram:
    """The program of an enzyme's function."""
    check_enzyme(function)
    return EnzymeProgram(function, interface, naming, watchdog, places)


class EnzymeProgram:
    """The program of one enzyme."""

    is_canonical = True

    def __init__(
        self, function: Callable[..., Any], interface: Interface, naming: Naming, watchdog: Watchdog,
        places: Places,
    ) -> None:  # fmt: skip
        self._function = function
        self._places = places
        self._boundary = Boundary("run", watchdog, places)
        self._values = Emissions((), interface, naming, places)
        self._requests = Requests(interface, naming, places)

    def step(
        self, state: bytes | None, schema: str, value: bytes, key: bytes, context: Context | None
    ) -> Output:
        """See `Program.step`: an enzyme takes none."""
        del state, schema, value, key, context
        raise StepFault("modules.enzyme_steps", "an enzyme is run by signals, and takes no events")

    def run(self, call: EnzymeCall, tree: TreeView) -> EnzymeOutput:
        """See `EnzymeProgram` of the kernel."""
        actions: list[dict[str, Any]] = []
        context = EnzymeContext(call, tree, actions, self._values.plain, self._request)

        def run(_: object) -> EnzymeOutput:
            return EnzymeOutput(
                _code(self._function(context, call.signal, call.target)), self._plain(actions)
            )

        return self._boundary.call(run, self._described, passes=Unwound)

    def _plain(self, actions: list[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """What the run did, without any object of the author: where the kernel reads it nobody watches."""
        if not actions:
            return ()
        plain: Any = decode_trusted(self._values.plain(actions, "actions"))
        return cast("list[dict[str, Any]]", plain)

    def _request(self, request: Request) -> dict[str, Any]:
        kind, params, slot, key, limits = self._requests.encoded([request])[0]
        return {"kind": kind, "params": params, "slot": slot, "key": key, "limits": limits}

    def _described(self, error: BaseException) -> StepFault:
        """What an error is recorded as."""
        kind, places = type(error), self._places
        if kind is StepFault:
            return own_fault(cast("StepFault", error), places)
        is_gone = issubclass(kind, ImportError) and is_missing(cast("ImportError", error), places)
        return StepFault(CODE_UNAVAILABLE if is_gone else "modules.exception", exception_text(error, places))


def _code(answer: object) -> int:
    """The return code; a number of a class of the author's is the number."""
    if answer is None:
        return 0
    if isinstance(answer, int) and not isinstance(answer, bool):
        return int.__index__(answer)
    raise StepFault(
        "heartbeat.return_code", f"an enzyme returns None or a whole number, not a {shown_type(type(answer))}"
    )
