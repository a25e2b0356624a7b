"""What tests of Cellule and of its users run in: virtual time, faults, conformance suites."""

from __future__ import annotations

from cellule.testing.clock import ManualClock, VirtualClock
from cellule.testing.entropy import SeededEntropy
from cellule.testing.faults import CALM, ROUGH, Fate, Fault, FaultPlan, Faults
from cellule.testing.faulty_engine import FaultyEngine
from cellule.testing.loop import DeterministicLoop
from cellule.testing.runs import Run, run
from cellule.testing.simulation import Node, Simulation, seeds_wanted, simulate
from cellule.testing.wire import Wire

__all__ = [
    "CALM",
    "ROUGH",
    "DeterministicLoop",
    "Fate",
    "Fault",
    "FaultPlan",
    "Faults",
    "FaultyEngine",
    "ManualClock",
    "Node",
    "Run",
    "SeededEntropy",
    "Simulation",
    "VirtualClock",
    "Wire",
    "run",
    "seeds_wanted",
    "simulate",
]
