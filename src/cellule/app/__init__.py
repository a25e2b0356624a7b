"""The authoring API: an `App` collects events, reducers and upcasters and builds a manifest of them.

Reading order: `app` (the decorators), `declarations` (what they check at once), `keys` (which cell an event
goes to), `modules` (a reducer as a module); `effects`, `standard_effects`, `rules`, `effects_config`,
`sections` (the effects in its manifest); `builder`, `built_app` (names, codecs and keys for
whoever hosts the app).
"""

from __future__ import annotations

from cellule.app.app import App
from cellule.app.built_app import Built
from cellule.app.effects import DeclaredEffect, timer
from cellule.app.rules import rule
from cellule.modules.python import (
    CascadeStopped,
    Context,
    Effect,
    EffectReceiptRejected,
    Keyed,
    Receipt,
    Refuse,
    Retention,
    Signal,
    Step,
    StepFailed,
    TimerFired,
    WorldStarted,
)

__all__ = [
    "App",
    "Built",
    "CascadeStopped",
    "Context",
    "DeclaredEffect",
    "Effect",
    "EffectReceiptRejected",
    "Keyed",
    "Receipt",
    "Refuse",
    "Retention",
    "Signal",
    "Step",
    "StepFailed",
    "TimerFired",
    "WorldStarted",
    "rule",
    "timer",
]
