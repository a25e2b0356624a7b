"""The durable operations of the local object writer, and the draft they build.

A draft is a temporary file that becomes an object: written, synced, renamed, and its folder synced, in that
order. Before the rename nothing is visible; after the folder's sync nothing can be lost. The operations are
an object, so that tests can fail each of them in turn and model what a power cut keeps.

Rejected: retrying a failed sync. The kernel may have dropped the pages, and call the second a success.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from threading import Lock
from typing import Protocol

WRITE_BYTES_MAX = 8_000_000


class DiskOperations(Protocol):
    """What the writer asks of a file system; every method raises `OSError`."""

    def make_folder(self, path: Path) -> bool:
        """Create one folder; False if it is already there."""

    def create(self, path: Path) -> int:
        """Create a file that must not exist and open it for writing."""

    def write(self, file: int, data: memoryview) -> int:
        """Write some of `data`, and return how much."""

    def sync(self, file: int) -> None:
        """Make the content of a file durable."""

    def close(self, file: int) -> None:
        """Close a file."""

    def rename(self, source: Path, target: Path) -> None:
        """Give a file its name, replacing what has it."""

    def remove(self, path: Path) -> bool:
        """Remove a file's name; False if there is none."""

    def sync_folder(self, path: Path) -> None:
        """Make the names in a folder durable."""


class Disk:
    """The machine's file system."""

    def make_folder(self, path: Path) -> bool:
        """Create one folder, for this user alone."""
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            return False
        return True

    def create(self, path: Path) -> int:
        """Create and open a file, for this user alone."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, file: int, data: memoryview) -> int:
        """Write some of `data`."""
        return os.write(file, data)

    def sync(self, file: int) -> None:
        """Sync a file."""
        os.fsync(file)

    def close(self, file: int) -> None:
        """Close a file."""
        os.close(file)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file."""
        source.replace(target)

    def remove(self, path: Path) -> bool:
        """Remove a file."""
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        return True

    def sync_folder(self, path: Path) -> None:
        """Sync a folder."""
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)


class Draft:
    """A body being written. Methods block and may be called from different threads, one after another.

    The lock matters after a cancellation: the thread that still writes finishes before the file is closed,
    so no write ever reaches a descriptor that was given to another file.
    """

    def __init__(self, disk: DiskOperations, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._lock = Lock()
        self._file: int | None = disk.create(path)
        self.named = False

    def write(self, data: bytes) -> None:
        """Append all of `data`."""
        with self._lock:
            if self._file is None:
                return
            rest = memoryview(data)
            while rest:
                rest = rest[self._disk.write(self._file, rest[:WRITE_BYTES_MAX]) :]

    def publish(self, target: Path) -> None:
        """Make the body durable under `target`; `named` tells whether it may be visible."""
        with self._lock:
            if self._file is None:
                return
            file, self._file = self._file, None
            try:
                self._disk.sync(file)
            finally:
                self._disk.close(file)
            self.named = True
            self._disk.rename(self._path, target)
            self._disk.sync_folder(target.parent)

    def abandon(self) -> None:
        """Forget the body; what cannot be removed now is a leftover that a later open removes."""
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                with contextlib.suppress(OSError):
                    self._disk.close(file)
            with contextlib.suppress(OSError):
                self._disk.remove(self._path)
