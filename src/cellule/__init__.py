"""Cellule: a durable runtime for very many small state machines.

The names of the public API are loaded when they are first used: `import cellule` alone reads nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cellule.app import (
        App,
        Built,
        Context,
        Effect,
        Keyed,
        Receipt,
        Refuse,
        Retention,
        Signal,
        Step,
        TimerFired,
        rule,
        timer,
    )
    from cellule.app.standard_effects import blob_get, blob_put, http, llm, process, publish
    from cellule.assembly import Options, open
    from cellule.effects.adapter import Attempt, Failed, Later, Retry
    from cellule.effects.secrets.reference import Secret, secret
    from cellule.errors import (
        CelluleError,
        Corrupted,
        Fenced,
        InvariantBroken,
        OutcomeUnknown,
        Parked,
        Refused,
        Rejected,
        StepFailed,
        TimedOut,
        Unavailable,
        VersionConflict,
    )
    from cellule.heartbeat.mailboxes.mailbox import Mailbox
    from cellule.host.ingress.cell_handle import CellHandle
    from cellule.host.ingress.handles import WorldHandle
    from cellule.host.service import Cellule
    from cellule.modules.aggregate import Aggregates, aggregate
    from cellule.modules.enzyme import FATAL, RETRY, EnzymeContext
    from cellule.modules.fsm import StateChange, state_changes
    from cellule.modules.workflow import (
        CallCancelled,
        CallFailed,
        CallRefused,
        Cancelled,
        EffectCancelled,
        EffectDenied,
        EffectFailed,
        EffectTimedOut,
        Workflow,
        WorkflowRun,
    )
    from cellule.store.store import StoreOptions
    from cellule.sync import open_sync
    from cellule.values.sealed_value import ERASED

__version__ = "0.1.0"

__all__ = [
    "ERASED",
    "FATAL",
    "RETRY",
    "Aggregates",
    "App",
    "Attempt",
    "Built",
    "CallCancelled",
    "CallFailed",
    "CallRefused",
    "Cancelled",
    "CellHandle",
    "Cellule",
    "CelluleError",
    "Context",
    "Corrupted",
    "Effect",
    "EffectCancelled",
    "EffectDenied",
    "EffectFailed",
    "EffectTimedOut",
    "EnzymeContext",
    "Failed",
    "Fenced",
    "InvariantBroken",
    "Keyed",
    "Later",
    "Mailbox",
    "Options",
    "OutcomeUnknown",
    "Parked",
    "Receipt",
    "Refuse",
    "Refused",
    "Rejected",
    "Retention",
    "Retry",
    "Secret",
    "Signal",
    "StateChange",
    "Step",
    "StepFailed",
    "StoreOptions",
    "TimedOut",
    "TimerFired",
    "Unavailable",
    "VersionConflict",
    "Workflow",
    "WorkflowRun",
    "WorldHandle",
    "aggregate",
    "blob_get",
    "blob_put",
    "http",
    "llm",
    "open",
    "open_sync",
    "process",
    "publish",
    "rule",
    "secret",
    "state_changes",
    "timer",
]

_HOMES = {
    "cellule.app": (
        "App", "Built", "Context", "Effect", "Keyed", "Receipt", "Refuse", "Retention", "Signal", "Step",
        "TimerFired", "rule", "timer",
    ),
    "cellule.app.standard_effects": ("blob_get", "blob_put", "http", "llm", "process", "publish"),
    "cellule.effects.adapter": ("Attempt", "Failed", "Later", "Retry"),
    "cellule.effects.secrets.reference": ("Secret", "secret"),
    "cellule.assembly": ("Options", "open"),
    "cellule.host.ingress.cell_handle": ("CellHandle",),
    "cellule.heartbeat.mailboxes.mailbox": ("Mailbox",),
    "cellule.host.ingress.handles": ("WorldHandle",),
    "cellule.host.service": ("Cellule",),
    "cellule.modules.aggregate": ("Aggregates", "aggregate"),
    "cellule.modules.enzyme": ("FATAL", "RETRY", "EnzymeContext"),
    "cellule.modules.fsm": ("StateChange", "state_changes"),
    "cellule.modules.workflow": (
        "CallCancelled", "CallFailed", "CallRefused", "Cancelled", "EffectCancelled", "EffectDenied",
        "EffectFailed", "EffectTimedOut", "Workflow", "WorkflowRun",
    ),
    "cellule.store.store": ("StoreOptions",),
    "cellule.sync": ("open_sync",),
    "cellule.values.sealed_value": ("ERASED",),
    "cellule.errors": (
        "CelluleError", "Corrupted", "Fenced", "InvariantBroken", "OutcomeUnknown", "Parked", "Refused",
        "Rejected", "StepFailed", "TimedOut", "Unavailable", "VersionConflict",
    ),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'cellule' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
