"""Closing an adapter: in a task of its own, as an attempt, so that nothing it does ends anything else.

One that takes too long is cancelled, and one that goes on then is left behind: a node ends all the same.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import copy_context

from cellule.effects.adapter import Adapter
from cellule.effects.child_tasks import begin_attempt
from cellule.effects.failure import error_text
from cellule.host.outbox.limits import STUBBORN_S
from cellule.loop_end import leave

_log = logging.getLogger("cellule.effects")


async def close_adapter(adapter: Adapter, kind: str) -> None:
    """Close an adapter; what goes wrong with that is told in the log."""
    context = copy_context()
    context.run(begin_attempt)
    task = asyncio.get_running_loop().create_task(_close(adapter, kind), context=context)
    try:
        _, late = await asyncio.wait([task], timeout=STUBBORN_S)
    finally:
        task.cancel()
    if not late:
        return
    _, left = await asyncio.wait(late, timeout=STUBBORN_S)
    ends = ", and goes on although it was cancelled" if left else ""
    _log.warning("closing the adapter of %s took longer than %g s%s", kind, STUBBORN_S, ends)
    if left:
        leave(task)


async def _close(adapter: Adapter, kind: str) -> None:
    try:
        await adapter.close()
    except asyncio.CancelledError:
        return
    except BaseException as error:  # noqa: BLE001 - foreign code
        _log.warning("closing the adapter of %s failed: %s", kind, error_text(error))
