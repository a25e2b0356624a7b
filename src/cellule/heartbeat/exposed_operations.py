"""The enzyme by which cells, workflows, plans and effects show their work as operations: `app.operations()`.

    /op/begin   {for, verb, mode?, ttl?, payload?}    starts the operation of what is done at the path `for`
    /op/tell    {for, state, code?, note?}            tells its state
    /op/end     {for, status?, summary?}              closes it, by default with sts:ok

They are signals without a target: a reducer emits `Signal("/op/begin", payload={...})`; workflows, plans and
effects that are declared with `operation=True` emit them by themselves. The id of the operation stands at
`/operations<for>`. What comes in the beat of its beginning is looked at again in
the next.
"""

from __future__ import annotations

from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.heartbeat.paths import parse_path
from cellule.kernel.heartbeat.shown_operations import BEGIN, END, PLACE, TELL

NAME: Final = "operation"
QUERIES: Final = (BEGIN, TELL, END)
_RETRY: Final = -1
_FIELDS: Final = {
    BEGIN: {"for", "verb", "mode", "ttl", "payload"},
    TELL: {"for", "state", "code", "note"},
    END: {"for", "status", "summary"},
}


def operation(ctx: Any, signal: str | None, target: str | None) -> int | None:
    """Start, tell or close the operation that a signal names by what it is for."""
    del target
    if signal not in _FIELDS:
        return None
    given = _checked(signal, ctx.payload)
    path = parse_path(given.pop("for"), "for")
    place = PLACE + path
    if signal == BEGIN:
        ctx.write(place, ctx.op.start(given.pop("verb"), path, **given))
        return None
    op = ctx.read(place)
    if op is None:
        return _RETRY
    if signal == TELL:
        ctx.op.state(op, given.pop("state"), **given)
    else:
        ctx.op.close(op, **given)
    return None


def _checked(signal: str, given: Any) -> dict[str, Any]:
    needed = {BEGIN: {"for", "verb"}, TELL: {"for", "state"}, END: {"for"}}[signal]
    if not isinstance(given, dict) or not needed <= set(given) <= _FIELDS[signal]:
        raise Rejected(
            "operation.argument", "{do}: {field} is {value}: {why}", do=signal, field="the payload",
            value=repr(given)[:200], why=f"it is a map of {', '.join(sorted(_FIELDS[signal]))}",
        )  # fmt: skip
    return dict(given)
