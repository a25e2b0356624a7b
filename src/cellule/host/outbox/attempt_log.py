"""What is logged of attempts that failed: which one, why and where, and what happens next."""

from __future__ import annotations

import logging

from cellule.host.outbox.attempts import Again
from cellule.host.outbox.rows import Row
from cellule.kernel.state.intent_id import intent_text

_log = logging.getLogger("cellule.effects")


def log_failure(row: Row, again: Again, pause_s: float | None) -> None:
    """Log an attempt that failed; without a pause it was the last one."""
    level = logging.ERROR if pause_s is None else logging.WARNING
    then = "given up, and kept as a dead letter" if pause_s is None else f"tried again in {pause_s:g} s"
    _log.log(
        level, "attempt %d of %s for %s %r (intent %s) failed, %s: %s%s", row.tried + 1, row.kind, row.module,
        row.cell, intent_text(row.intent), then, again.reason, f"\n{again.trace}" if again.trace else "",
    )  # fmt: skip
