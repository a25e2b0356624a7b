"""Why an effect that was dispatched has not happened yet, in words: never just "pending".

What other intents wait for, the world tells (`kernel/state/wait_reasons.py`).
"""

from __future__ import annotations

from typing import Literal, assert_never

from cellule.host.outbox.listing import ListedRow
from cellule.host.read.effects.model import Attempts, EffectView
from cellule.values.schema.text_forms import time_text

Performed = Literal["here", "elsewhere", "nowhere"]
"""Whether effects are performed by this process, by another one, or by none at the moment."""


def attempts_of(row: ListedRow) -> Attempts:
    """What an outbox row says of its effect."""
    if row.row is None:
        return Attempts(row.state, 0, 0, 0, row.reason)
    return Attempts(row.state, row.row.tried, row.row.attempts, row.row.ready_ns, row.row.error or "")


def dispatch_reason(view: EffectView, performed: Performed, now_ns: int) -> str:
    """Why an effect that an adapter may perform has no receipt yet."""
    attempts = view.attempts
    if attempts is None:
        return "its receipt is on its way; if that does not come, its row is lost: cellule effect repair"
    match attempts.state:
        case "running":
            return f"attempt {attempts.tried + 1}{_of(attempts.most)} is running"
        case "no adapter":
            return f"no adapter for {view.kind} on this node"
        case "unreadable":
            return f"its outbox row cannot be read: cellule effect repair ({attempts.error})"
        case "retrying":
            when = f"retrying at {moment(attempts.next_ns)}"
            failed = f"after attempt {attempts.tried}{_of(attempts.most)} failed: {attempts.error}"
            return f"{when} {failed}{_idle(performed)}"
        case _:
            return _not_begun(view, attempts, performed, now_ns)


def _of(limit: int) -> str:
    """How many attempts there are at most, where that was said."""
    return f" of {limit}" if limit else ""


def _not_begun(view: EffectView, attempts: Attempts, performed: Performed, now_ns: int) -> str:
    if attempts.next_ns > now_ns:
        return f"its first attempt at {moment(attempts.next_ns)}{_idle(performed)}"
    due = f"due since {moment(attempts.next_ns)}"
    match performed:
        case "here":
            return f"{due}: every place of its adapter is taken"
        case "elsewhere":
            return (
                f"{due}: it runs, or the owner of the folder has no adapter for {view.kind} or no free place"
            )
        case "nowhere":
            return f"{due}: no process performs effects of this folder now"
    assert_never(performed)


def _idle(performed: Performed) -> str:
    return ", once a process performs effects of this folder" if performed == "nowhere" else ""


def moment(time_ns: int) -> str:
    """A time in UTC, to the millisecond."""
    return time_text(time_ns // 1_000_000 * 1_000_000)
