"""Workflows: an `async def` whose awaits are effects, timers and events. Its state is its history.

Authors use `Workflow`, `EffectFailed`, `CallFailed`, `Cancelled`. Reading order: `history` (what the log
says), `tasks` and `loop` (tasks without asyncio), `commands` and `run` (one run), `program` (a step: warm, or
from the history), `view` (what readers see).
"""

from __future__ import annotations

from cellule.modules.workflow.failure import (
    CallCancelled,
    CallFailed,
    CallRefused,
    EffectCancelled,
    EffectDenied,
    EffectFailed,
    EffectTimedOut,
)
from cellule.modules.workflow.flow import Deadline, Workflow
from cellule.modules.workflow.tasks import Cancelled, Pending, Task, Won
from cellule.modules.workflow.view import Wait, WorkflowRun

__all__ = [
    "CallCancelled",
    "CallFailed",
    "CallRefused",
    "Cancelled",
    "Deadline",
    "EffectCancelled",
    "EffectDenied",
    "EffectFailed",
    "EffectTimedOut",
    "Pending",
    "Task",
    "Wait",
    "Won",
    "Workflow",
    "WorkflowRun",
]
