"""The data folder: one process owns it; the lock ends with the process, so a restart is immediate.

    <folder>/cellule.db     the SQLite file with everything durable
    <folder>/lock           locked by the owner, and names it
    <folder>/scratch-*      spilled cells of the running owner; worthless afterwards

Rejected: a lease in the database. After a crash everybody would have to wait for it to end.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from cellule.errors import Rejected, Unavailable


class FolderLock:
    """An exclusive lock on a data folder, held by an open file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._file: int | None = None

    @property
    def is_held(self) -> bool:
        """Tell whether this process owns the folder."""
        return self._file is not None

    def acquire(self) -> bool:
        """Try to own the folder; False where another process does."""
        if self._file is not None:
            return True
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise folder_error(self._path.parent, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except OSError as error:
            os.close(file)
            raise folder_error(self._path.parent, error) from error
        self._file = file
        with suppress(OSError):  # the number is for messages; a full disk must not keep the owner out
            os.truncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        return True

    def owner(self) -> str:
        """Which process wrote its number into the lock; for messages only."""
        try:
            return self._path.read_text().strip() or "unknown"
        except OSError:
            return "unknown"

    def release(self) -> None:
        """Give the folder up."""
        if self._file is not None:
            with suppress(OSError):
                os.truncate(self._file, 0)  # nobody owns the folder now; after a crash the number stays
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def make_folder(folder: Path) -> None:
    """Make the data folder if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise folder_error(folder, error) from error


def folder_error(folder: Path, error: OSError) -> Rejected | Unavailable:
    """An error of the file system as one of ours."""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        return Rejected(
            "host.folder", "the data folder {folder} cannot be used: {why}",
            folder=str(folder), why=error.strerror, hint="Choose a folder this process may write to.",
        )  # fmt: skip
    return Unavailable(
        "host.folder_unavailable", "the data folder {folder}: {why}", folder=str(folder), why=error.strerror
    )
