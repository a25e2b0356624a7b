"""Changed cells that left memory: a scratch file of the running owner, worthless once it ends.

Slots are offsets in an append-only file, made when it is first needed; when everything in it was dropped it
starts again from the front. The file has no name: it is gone with the process, however that ends.
"""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path
from typing import IO

from cellule.errors import Unavailable
from cellule.kernel.index.live import Spill


class FileSpill:
    """The kernel's `Spill` over one unnamed temporary file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._sizes: dict[int, int] = {}
        self._end = 0

    def put(self, data: bytes) -> int:
        """Keep bytes, and return where."""
        slot = self._end
        try:
            file = self._file or self._open()
            file.seek(slot)
            file.write(data)
        except OSError as error:
            raise Unavailable(
                "host.scratch", "the scratch file in {folder} cannot be written: {why}",
                folder=str(self._folder), why=error.strerror, hint="Make room on the disk.",
            ) from error  # fmt: skip
        self._sizes[slot] = len(data)
        self._end = slot + max(1, len(data))
        return slot

    def get(self, slot: int) -> bytes:
        """The bytes kept there."""
        assert self._file is not None
        self._file.seek(slot)
        return self._file.read(self._sizes[slot])

    def drop(self, slot: int) -> None:
        """Forget them."""
        del self._sizes[slot]
        if not self._sizes:
            self._end = 0

    def close(self) -> None:
        """Give the file back; a world that is only dropped gives it back when it is collected."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._sizes.clear()
            self._end = 0

    def _open(self) -> IO[bytes]:
        file: IO[bytes] = tempfile.TemporaryFile(prefix="scratch-", dir=self._folder)  # noqa: SIM115 - `close` ends it
        self._file = file
        weakref.finalize(self, file.close)
        return file


def close_spill(spill: Spill | None) -> None:
    """Let go of what a world spilled to, if it has a file."""
    close = getattr(spill, "close", None)
    if close is not None:
        close()
