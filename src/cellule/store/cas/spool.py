"""Bytes on their way, kept until their CID is known: in memory up to 1 MB, then in a temporary file.

Only the file is written and read in threads, so what fits in memory also runs in virtual time.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from types import TracebackType
from typing import IO, Self

from cellule.errors import Unavailable

MEMORY_BYTES = 1_000_000
PIECE_BYTES = 1_000_000


class Spool:
    """Written once from begin to end, then read from the begin any number of times."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 - closed by __exit__
        self.size = 0

    async def write(self, piece: bytes) -> None:
        """Append."""
        self.size += len(piece)
        if self.size <= MEMORY_BYTES:
            self._file.write(piece)
        else:
            await asyncio.to_thread(self._write, piece)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield everything that was written."""
        self._file.seek(0)
        while piece := await self._read():
            yield piece

    def opened(self) -> IO[bytes]:
        """Return everything that was written as a file, at its begin."""
        self._file.seek(0)
        return self._file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    async def _read(self) -> bytes:
        if self.size <= MEMORY_BYTES:
            return self._file.read(PIECE_BYTES)
        return await asyncio.to_thread(self._file.read, PIECE_BYTES)

    def _write(self, piece: bytes) -> None:
        try:
            self._file.write(piece)
        except OSError as error:
            raise Unavailable(
                "cas.spool", "a stream cannot be kept in a temporary file: {reason}", reason=error.strerror,
                hint="Free space in the folder for temporary files, or name another in TMPDIR.",
            ) from error  # fmt: skip
