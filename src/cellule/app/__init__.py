"""The authoring API: an `App` collects events, reducers and upcasters and builds a manifest of them.

Reading order: `app` (the decorators), `declared` (what they check at once), `keys` (which cell an event goes
to), `modules` (a reducer as a module), `build`, `built` (names, codecs and keys for whoever hosts the app).
"""

from __future__ import annotations

from cellule.app.app import App
from cellule.app.built import Built
from cellule.modules.python import (
    CascadeStopped,
    Context,
    Effect,
    Keyed,
    Retention,
    Step,
    StepFailed,
    WorldStarted,
)

__all__ = [
    "App",
    "Built",
    "CascadeStopped",
    "Context",
    "Effect",
    "Keyed",
    "Retention",
    "Step",
    "StepFailed",
    "WorldStarted",
]
