"""What tests of Cellule and of its users run in: worlds of apps, virtual time, faults, conformance suites.

The names for authors of apps are loaded when they are first used: tests of engines need none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cellule.testing.clock import ManualClock, VirtualClock
from cellule.testing.entropy import SeededEntropy
from cellule.testing.faults import CALM, ROUGH, Fate, Fault, FaultPlan, Faults
from cellule.testing.faulty_engine import FaultyEngine
from cellule.testing.loop import DeterministicLoop
from cellule.testing.runs import Run, run
from cellule.testing.simulation import Node, Simulation, seeds_wanted, simulate
from cellule.testing.wire import Wire

if TYPE_CHECKING:
    from cellule.testing.answers import Cell, Events, Failure, Letter, Sent, Version
    from cellule.testing.app_simulation import AppRun, simulate_app
    from cellule.testing.effects import Intent, Intents, new_attempt
    from cellule.testing.recordings import Recording, replay_export
    from cellule.testing.world import World

__all__ = [
    "CALM",
    "ROUGH",
    "AppRun",
    "Cell",
    "DeterministicLoop",
    "Events",
    "Failure",
    "Fate",
    "Fault",
    "FaultPlan",
    "Faults",
    "FaultyEngine",
    "Intent",
    "Intents",
    "Letter",
    "ManualClock",
    "Node",
    "Recording",
    "Run",
    "SeededEntropy",
    "Sent",
    "Simulation",
    "Version",
    "VirtualClock",
    "Wire",
    "World",
    "new_attempt",
    "replay_export",
    "run",
    "seeds_wanted",
    "simulate",
    "simulate_app",
]

_LATER = {
    "cellule.testing.answers": ("Cell", "Events", "Failure", "Letter", "Sent", "Version"),
    "cellule.testing.app_simulation": ("AppRun", "simulate_app"),
    "cellule.testing.effects": ("Intent", "Intents", "new_attempt"),
    "cellule.testing.recordings": ("Recording", "replay_export"),
    "cellule.testing.world": ("World",),
}
_HOME_OF = {name: home for home, names in _LATER.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'cellule.testing' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value
