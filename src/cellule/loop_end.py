"""The end of a loop whose tasks may be foreign code: it waits for none that goes on when it was cancelled.

`asyncio.run` cancels what is left once, and then waits for it, for ever if need be. A task that catches its
cancellation and goes on would keep a process alive that has done everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

END_S: Final = 5.0  # how long a cancelled task may take to end


async def to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Do work, and end whatever it left running."""
    try:
        await work
    finally:
        await end_tasks()


async def end_tasks() -> None:
    """Cancel every other task of this loop, and wait for those that end; to be called last."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        _, left = await asyncio.wait(left, timeout=END_S)
    for task in left:
        leave(task)


def leave(task: asyncio.Task[Any]) -> None:
    """Let whoever ends the loop not wait for a task that was cancelled and goes on."""
    asyncio._unregister_task(task)  # noqa: SLF001 - documented, for those who extend asyncio
