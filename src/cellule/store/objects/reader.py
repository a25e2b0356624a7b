"""A local body being read, piece by piece, by whichever thread is free.

The lock matters after a cancellation: the thread that still reads finishes before the file is closed.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock

PIECE_BYTES = 1_000_000


class BodyReader:
    """An open body; `read` blocks and returns the next piece, empty at the end."""

    def __init__(self, path: Path) -> None:
        self._lock = Lock()
        self._file = path.open("rb", buffering=0)

    def read(self) -> bytes:
        """Return the next piece."""
        with self._lock:
            return self._file.read(PIECE_BYTES)

    def close(self) -> None:
        """Close once the read underway ends."""
        with self._lock:
            self._file.close()
