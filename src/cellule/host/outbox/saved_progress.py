"""Progress of running attempts, kept in their rows: the next attempt finds it also after a crash.

The row moves by a nanosecond, so its bytes never come back. What comes of an attempt while its row is being
written waits for that, for it changes the same row.

Rejected: a row of its own for progress. It would have to be removed, repaired and counted beside the others.
"""

from __future__ import annotations

from collections.abc import Callable

from cellule.host.outbox.kind_queue import Entry
from cellule.host.outbox.rows import Stored, store_row
from cellule.host.outbox.settlement import Change
from cellule.host.outbox.window import Window


def progress_change(entry: Entry, progress: bytes) -> Change | None:
    """What keeps progress in a row; None where it does already."""
    row = entry.stored.row
    if row.progress == progress:
        return None
    moved = store_row(row._replace(ready_ns=row.ready_ns + 1, progress=progress))
    return Change(row.intent, entry.stored, entry, moved=moved)


def is_after_save(entry: Entry, act: Callable[[], None]) -> bool:
    """Tell whether `act` has to wait until progress is written; it is called then."""
    if entry.saving:
        entry.after = act
    return entry.saving


def saved(entry: Entry, stored: Stored | None, window: Window) -> None:
    """Progress is written; None where the row was gone, which the end of the attempt finds too."""
    entry.saving = False
    if stored is not None:
        window.replace(entry, stored)
    act, entry.after = entry.after, None
    if act is not None:
        act()
