"""The door for short ways: what a beat may do in one pass where nothing needs a closer look.

Each method does what it can and tells how far it came; the rest goes the general way, which knows every case.
Frames, outcomes and the world are the same with and without. `GENERAL` has no short way at all; `fast/` has
them, and `World(fast=True)` hands them in.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Protocol

from cellule.kernel.decide.requests import Asking, EffectRequest, Origin
from cellule.kernel.decide.steps import Result
from cellule.kernel.items import BatchResult, Item, Outcome, StepRow
from cellule.kernel.need import Need
from cellule.kernel.state.cells import Slot


class Stepping(Protocol):
    """What takes the steps of a beat the general way; `asking` is what the last one left to do."""

    asking: Asking | None
    steps: list[StepRow]

    def take(self, slot: Slot) -> Generator[Need, None, None]:
        """Take the step of the ring's first slot, whatever it may be."""

    def write(self, slot: Slot, result: Result) -> None:
        """Write a decided step of the ring's first slot down, and make it so."""

    def ask(self) -> Generator[Need, None, None]:
        """Do what the last step left to do about intents."""


class ShortWays(Protocol):
    """The short ways of one beat."""

    def admit(self, items: Sequence[Item]) -> Generator[Need, None, int]:
        """Admit plain events from the front; returns how many."""

    def leave(self) -> Sequence[Outcome]:
        """There is more in this beat than plain events: what was admitted enters the ring. Its outcomes."""

    def settle(self, items: Sequence[Item], start: int, outcomes: list[Outcome]) -> int:
        """Settle intents by plain receipts from `start` on; returns the position of the first other item."""

    def open(self, slot: Slot, origin: Origin, asked: Sequence[EffectRequest]) -> int:
        """Open plain requests from the front; returns the position of the first that is not one."""

    def first_round(self, rounds: Stepping) -> Generator[Need, None, int]:
        """Take steps that are due before the ring's; returns how many turns the first round still has."""

    def ring_step(self, rounds: Stepping) -> Callable[[Slot], bool]:
        """A function that takes the step of the ring's first slot if it is plain; tells whether it did."""

    def result(self) -> BatchResult | None:
        """What became of a beat whose items were all plain events; None for any other."""


class GeneralWay:
    """No short way: everything goes the general way."""

    def __init__(self, ring: Sequence[Slot]) -> None:
        self._ring = ring

    def admit(self, _: Sequence[Item]) -> Generator[Need, None, int]:
        """See `ShortWays`."""
        yield from ()
        return 0

    def leave(self) -> Sequence[Outcome]:
        """See `ShortWays`."""
        return ()

    def settle(self, _items: Sequence[Item], start: int, _outcomes: list[Outcome]) -> int:
        """See `ShortWays`."""
        return start

    def open(self, _slot: Slot, _origin: Origin, _asked: Sequence[EffectRequest]) -> int:
        """See `ShortWays`."""
        return 0

    def first_round(self, _: Stepping) -> Generator[Need, None, int]:
        """See `ShortWays`."""
        yield from ()
        return len(self._ring)

    def ring_step(self, _: Stepping) -> Callable[[Slot], bool]:
        """See `ShortWays`."""
        return lambda _slot: False

    def result(self) -> BatchResult | None:
        """See `ShortWays`."""
        return None
