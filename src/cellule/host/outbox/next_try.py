"""When a row whose attempt failed is tried again, if ever, and what is logged of the attempt.

As its request says, else as its adapter does. A row that moves stands at a later time always, so its bytes
never come back. Pure given chance; how long pauses are is `backoff.py`'s.
"""

from __future__ import annotations

import logging

from cellule.effects.adapter_limits import AdapterLimits
from cellule.errors import readable
from cellule.host.outbox.attempts import Again
from cellule.host.outbox.backoff import SECOND_NS, jitter_ns
from cellule.host.outbox.rows import Row
from cellule.kernel.state.intent_id import intent_text
from cellule.sources import Entropy


def next_try(row: Row, limits: AdapterLimits, again: Again, now_ns: int, entropy: Entropy) -> Row | None:
    """The row at its next time, None if there is none.

    Its deadline is written down with the first failure where nobody but the adapter says one.
    """
    most = row.attempts or limits.attempts
    until_ns = row.until_ns
    if until_ns is None:
        until_ns = (row.ready_ns if row.tried == 0 else now_ns) + int(limits.deadline_s * SECOND_NS)
    if again.is_last or (most is not None and row.tried + 1 >= most) or now_ns >= until_ns:
        return None
    first_ns = limits.backoff_s * SECOND_NS if row.backoff_ns is None else row.backoff_ns
    longest_ns = limits.backoff_max_s * SECOND_NS if row.backoff_max_ns is None else row.backoff_max_ns
    drawn_ns = jitter_ns(int(first_ns), int(longest_ns), row.delay_ns, entropy.bytes(8))
    delay_ns = drawn_ns if again.after_s is None else int(again.after_s * SECOND_NS)
    return row._replace(
        ready_ns=max(now_ns + delay_ns, row.ready_ns + 1), tried=row.tried + 1, delay_ns=drawn_ns,
        error=again.reason, until_ns=until_ns, progress=again.progress or row.progress,
    )  # fmt: skip


_log = logging.getLogger("cellule.effects")


def log_failure(row: Row, again: Again, pause_s: float | None) -> None:
    """Log an attempt that failed; without a pause it was the last one."""
    level = logging.ERROR if pause_s is None else logging.WARNING
    then = "given up, and kept as a dead letter" if pause_s is None else f"tried again in {pause_s:g} s"
    cell = f"{row.module}/{readable(row.cell)}"
    _log.log(
        level, "attempt %d of %s for %s (intent %s) failed, %s: %s%s", row.tried + 1, row.kind, cell,
        intent_text(row.intent), then, again.reason, f"\n{again.trace}" if again.trace else "",
    )  # fmt: skip
