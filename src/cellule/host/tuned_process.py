"""How a process runs while it serves nodes: quick switches between threads, and few garbage collections."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cellule.host.limits import COLLECT_EVERY, SWITCH_INTERVAL_S

_tuning = threading.Lock()
_tuned_by: list[None] = []  # one for each node that is tuned; they may live on loops of several threads
_before: list[tuple[float, tuple[int, int, int], int]] = []


@contextmanager
def tuned() -> Iterator[None]:
    """Let the writer thread run promptly, and keep what is loaded out of garbage collections.

    The first node of a process does so, and the last one that ends puts everything back. Where the process
    keeps objects out of collections itself, which ones is its business.
    """
    with _tuning:
        if not _tuned_by:
            _before[:] = [(sys.getswitchinterval(), gc.get_threshold(), gc.get_freeze_count())]
            sys.setswitchinterval(SWITCH_INTERVAL_S)
            gc.set_threshold(COLLECT_EVERY, *gc.get_threshold()[1:])
            if not gc.get_freeze_count():
                gc.collect()
                gc.freeze()
        _tuned_by.append(None)
    try:
        yield
    finally:
        with _tuning:
            _tuned_by.pop()
            if not _tuned_by:
                [(interval_s, thresholds, frozen)] = _before
                if not frozen:
                    gc.unfreeze()
                gc.set_threshold(*thresholds)
                sys.setswitchinterval(interval_s)
