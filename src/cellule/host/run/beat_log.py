"""What is logged of the beats of one world: steps that failed, and what people did to it.

Lines are gathered while a beat is accounted for, and written when it is durable: a beat that is lost was
nothing. Events that went well leave nothing here, and a beat whose steps all fail a bounded number of lines.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from cellule.errors import readable
from cellule.host.limits import LOGGED_STEPS_MAX
from cellule.kernel.items import ControlItem, Stepped, StepRow
from cellule.kernel.journal.codes import HALTED, PARKED, SKIPPED
from cellule.kernel.state.ledger import Ledger

_steps = logging.getLogger("cellule.steps")
_host = logging.getLogger("cellule.host")

Line = tuple[logging.Logger, int, str, tuple[Any, ...]]

_ENDS: Final = {
    HALTED: (logging.ERROR, "the cell is halted and keeps its messages"),
    PARKED: (logging.ERROR, "the cell waits for a migration and keeps its messages"),
    SKIPPED: (logging.WARNING, "the event is a dead letter"),
}


class BeatLog:
    """The lines of the beat that is being accounted for."""

    def __init__(self, world: str) -> None:
        self._world = world
        self._lines: list[Line] = []
        self._failed = 0

    def stepped(self, row: StepRow) -> None:
        """A step did not go well; only one that failed is told."""
        step = Stepped._make(row)
        if step.status not in _ENDS:
            return
        self._failed += 1
        if self._failed > LOGGED_STEPS_MAX:
            return
        level, end = _ENDS[step.status]
        cell = f"{step.module}/{readable(step.key)}" if step.key else step.module
        given = (self._world, step.height, cell, step.cause, end, step.text, step.code)
        text = "world %s: the step at height %d of %s for the event at height %d failed, %s: %s [%s]"
        self._lines.append((_steps, level, text, given))

    def controlled(self, item: ControlItem, height: int, ledger: Ledger) -> None:
        """Somebody did this to the world."""
        done: str = item.verb
        if item.verb == "deploy":
            era = next(number for number, era in enumerate(ledger.eras) if era.height > height)
            done = f"deploy of {ledger.eras[era].manifest}, which begins era {era},"
        given = (self._world, done, item.who, height, item.why)
        self._lines.append((_host, logging.INFO, "world %s: %s by %s at height %d: %s", given))

    def take(self) -> Sequence[Line]:
        """The lines of this beat; the next begins."""
        if not self._lines:
            return ()
        lines, left = self._lines, self._failed - LOGGED_STEPS_MAX
        if left > 0:
            given = (self._world, left)
            lines.append((_steps, logging.ERROR, "world %s: %d more steps of this beat failed", given))
        self._lines, self._failed = [], 0
        return lines


def write_lines(lines: Sequence[Line]) -> None:
    """Their beat is durable."""
    for logger, level, text, given in lines:
        logger.log(level, text, *given)
