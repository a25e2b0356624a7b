"""Python reducers as cells: plain functions, bundled into the CAS and run from there.

Authors use `Step`, `Refuse`, `Context`, `Keyed`, `Effect`, `Receipt`, `reducer`; `describe` makes a manifest
entry of a function, `PythonPrograms` gives the code to the kernel. Reading order: `step`, `signature`,
`program` (one step), `requests` and `system` (effects and receipts), `collect` and `bundle` (code as
blocks), `loader` (running it), `programs`; then the guards.
"""

from __future__ import annotations

from cellule.modules.python.bundle import Bundle
from cellule.modules.python.collect import bundle
from cellule.modules.python.context import Context
from cellule.modules.python.describe import (
    Description,
    ModuleDescription,
    ModuleOptions,
    Retention,
    UpcasterDescription,
    describe,
    describe_upcaster,
    manifest_document,
)
from cellule.modules.python.effects import TIMER, EffectForm
from cellule.modules.python.loader import check_not_loading, is_loading
from cellule.modules.python.programs import PythonPrograms, live_program
from cellule.modules.python.signature import reducer
from cellule.modules.python.step import Effect, Keyed, Refuse, Step
from cellule.modules.python.system import (
    CascadeStopped,
    EffectReceiptRejected,
    Signal,
    StepFailed,
    TimerFired,
    TimerSet,
    WorldStarted,
)
from cellule.values.requests import Receipt

__all__ = [
    "TIMER",
    "Bundle",
    "CascadeStopped",
    "Context",
    "Description",
    "Effect",
    "EffectForm",
    "EffectReceiptRejected",
    "Keyed",
    "ModuleDescription",
    "ModuleOptions",
    "PythonPrograms",
    "Receipt",
    "Refuse",
    "Retention",
    "Signal",
    "Step",
    "StepFailed",
    "TimerFired",
    "TimerSet",
    "UpcasterDescription",
    "WorldStarted",
    "bundle",
    "check_not_loading",
    "describe",
    "describe_upcaster",
    "is_loading",
    "live_program",
    "manifest_document",
    "reducer",
]
