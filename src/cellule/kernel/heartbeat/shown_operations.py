"""The signals by which cells and effects show their work as operations, as values of `sys/Signal`.

    /op/begin   {for, verb, payload?}         what is done at the path `for` has begun
    /op/tell    {for, state, note?}           its state
    /op/end     {for, status, summary?}       it has ended

An enzyme of the app takes them (`cellule.heartbeat.exposed_operations`); a world without it does nothing.
"""

from __future__ import annotations

from typing import Any, Final

from cellule.kernel.limits import OPERATION_TEXT_MAX

BEGIN: Final = "/op/begin"
TELL: Final = "/op/tell"
END: Final = "/op/end"
PLACE: Final = "/operations"
"""Below it stands, for each path, the id of its newest operation."""
OK: Final = "sts:ok"
FAIL: Final = "sts:fail"
CANCELLED: Final = "sts:cnl"
WAIT: Final = "ist:wait"
RUN: Final = "ist:run"


def begin(path: str, verb: str, payload: Any = None) -> dict[str, Any]:
    """What is done at a path begins."""
    return _signal(BEGIN, path, verb=verb, payload=payload)


def tell(path: str, state: str, note: str | None = None) -> dict[str, Any]:
    """What is done at a path is in a state."""
    return _signal(TELL, path, state=state, note=note)


def end(path: str, status: str, summary: str | None = None) -> dict[str, Any]:
    """What is done at a path has ended."""
    return _signal(
        END, path, status=status, summary=None if summary is None else summary[:OPERATION_TEXT_MAX]
    )


def _signal(signal: str, path: str, **fields: Any) -> dict[str, Any]:
    said = {name: value for name, value in fields.items() if value is not None}
    return {"signal": signal, "payload": {"for": path, **said}}
