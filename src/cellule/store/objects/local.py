"""Objects in a local folder, with our own durable writer.

The files are those of `folder.py`. An object is a draft that was synced, renamed and whose folder was synced
(`disk.py`). Blocking calls run in the store's own threads. Leftover drafts of crashed writers are invisible,
and removed at open once old.

Rejected: obstore's local store. It does not sync, so an acknowledged body can be lost with the power.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import os
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import ParamSpec, Self, TypeVar

from cellule.errors import OutcomeUnknown, Rejected
from cellule.sources import Clock, Entropy, SystemClock, SystemEntropy
from cellule.store.object_store import (
    WHOLE_BYTES_MAX,
    ObjectInfo,
    ObjectPage,
    Source,
    check_list,
    check_name,
    closed,
    not_found,
    too_large,
)
from cellule.store.objects.disk import Disk, DiskOperations, Draft
from cellule.store.objects.folder import (
    DRAFTS,
    MARKER,
    MARKER_TEXT,
    check_marker,
    entries_of,
    failed,
    names_below,
    path_of,
    reason_of,
)
from cellule.store.resource import Resource

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


DRAFT_AGE_MAX_NS = 24 * 3600 * 1_000_000_000
THREADS = 8

P = ParamSpec("P")
T = TypeVar("T")


class LocalObjects(Resource):
    """An object store in a folder; made by `open`. Several processes may use one folder."""

    remote = False

    def __init__(self, folder: Path, disk: DiskOperations, clock: Clock, entropy: Entropy) -> None:
        self._root = folder
        self._disk = disk
        self._clock = clock
        self._entropy = entropy
        self._durable_folders: set[Path] = set()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="cellule-objects")
        self._closed = False

    @classmethod
    async def open(
        cls,
        folder: Path | str,
        *,
        create: bool = True,
        disk: DiskOperations | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> Self:
        """Open a folder, making it if `create` (its parent must exist), and remove old leftovers.

        With `create=False` a folder without its marker is `Unavailable`: it may be a disk not yet mounted.
        """
        store = cls(Path(folder), disk or Disk(), clock or SystemClock(), entropy or SystemEntropy())
        try:
            await store._run("open", "", store._prepare, create)
        except BaseException:
            await store.close()
            raise
        return store

    async def put(self, name: str, data: Source) -> None:
        """Store a body; see the contract."""
        check_name(name)
        if isinstance(data, bytes):
            await self._run("put", name, self._put, name, data)
            return
        draft = await self._run("put", name, self._draft)
        try:
            async for piece in data:
                await self._run("put", name, draft.write, piece)
            await self._run("put", name, self._publish, draft, name)
        except BaseException:
            # Not in the store's threads: it must happen while the store is being closed, too.
            await asyncio.to_thread(draft.abandon)
            raise

    async def get(self, name: str, *, bytes_max: int = WHOLE_BYTES_MAX) -> bytes:
        """Return a whole body; see the contract."""
        check_name(name)
        return await self._run("get", name, self._get, name, bytes_max)

    async def stream(self, name: str) -> AsyncGenerator[bytes, None]:
        """Yield a body in pieces; see the contract."""
        check_name(name)
        reader = await self._run("get", name, BodyReader, path_of(self._root, name))
        try:
            while piece := await self._run("get", name, reader.read):
                yield piece
        finally:
            await asyncio.to_thread(reader.close)

    async def size(self, name: str) -> int:
        """Return the size of a body; see the contract."""
        check_name(name)
        return (await self._run("size", name, os.stat, path_of(self._root, name))).st_size

    async def delete(self, name: str) -> None:
        """Remove a body; see the contract."""
        check_name(name)
        await self._run("delete", name, self._delete, name)

    async def list(self, prefix: str, *, limit: int, start_after: str = "") -> ObjectPage:
        """Return a page of names; see the contract. Each page walks the folder, in memory for one page."""
        check_list(prefix, limit)
        return await self._run("list", prefix, self._list, prefix, limit, start_after)

    async def close(self) -> None:
        """Finish what runs and refuse further calls."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)

    async def _run(self, verb: str, name: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking call in a thread, and map its `OSError`."""
        if self._closed:
            raise closed()
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, lambda: call(*args, **kwargs)
            )
        except FileNotFoundError as error:
            if verb in ("get", "size") and self._is_present():
                raise not_found(name) from error
            raise failed(verb, name, self._root, error) from error
        except OSError as error:
            raise failed(verb, name, self._root, error) from error

    # What follows blocks, and runs in a thread.

    def _prepare(self, create: bool) -> None:
        if self._is_present():
            check_marker(self._root)
        elif create:
            self._make()
        else:
            raise FileNotFoundError(self._root / MARKER)
        self._make_durable(self._root / DRAFTS)
        self._remove_leftovers()

    def _make(self) -> None:
        self._disk.make_folder(self._root)
        foreign = [entry for entry in entries_of(self._root) if entry.name not in (MARKER, DRAFTS)]
        if foreign:
            raise Rejected(
                "objects.foreign_folder", "the folder {folder} is no object store and holds {entry!r}",
                folder=str(self._root), entry=foreign[0].name, hint="Choose an empty folder.",
            )  # fmt: skip
        self._disk.sync_folder(self._root.parent)
        self._make_durable(self._root / DRAFTS)
        draft = self._draft()
        try:
            draft.write(MARKER_TEXT)
            draft.publish(self._root / MARKER)
        except OSError:
            draft.abandon()
            raise

    def _remove_leftovers(self) -> None:
        oldest_ns = self._clock.now_ns() - DRAFT_AGE_MAX_NS
        for entry in entries_of(self._root / DRAFTS):
            # Another process may publish or remove its draft at any moment.
            with contextlib.suppress(FileNotFoundError):
                if entry.stat().st_mtime_ns < oldest_ns:
                    self._disk.remove(Path(entry.path))

    def _put(self, name: str, data: bytes) -> None:
        draft = self._draft()
        try:
            draft.write(data)
            self._publish(draft, name)
        except BaseException:
            draft.abandon()
            raise

    def _draft(self) -> Draft:
        return Draft(self._disk, self._root / DRAFTS / self._entropy.bytes(16).hex())

    def _publish(self, draft: Draft, name: str) -> None:
        target = path_of(self._root, name)
        try:
            self._make_durable(target.parent)
            draft.publish(target)
        except OSError as error:
            if not draft.named:
                raise
            raise OutcomeUnknown(
                "objects.outcome_unknown", "it is unknown whether the object {name} is durable: {reason}",
                name=name, reason=reason_of(error), hint="Put it again.",
            ) from error  # fmt: skip

    def _get(self, name: str, bytes_max: int) -> bytes:
        with path_of(self._root, name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > bytes_max:
                raise too_large(name, size, bytes_max)
            return file.read()

    def _delete(self, name: str) -> None:
        path = path_of(self._root, name)
        if self._disk.remove(path):
            self._disk.sync_folder(path.parent)
        elif not self._is_present():
            raise FileNotFoundError(self._root / MARKER)
        elif path.parent.exists():
            # Another process may have removed it and not yet synced; gone must mean durably gone.
            self._disk.sync_folder(path.parent)

    def _list(self, prefix: str, limit: int, start_after: str) -> ObjectPage:
        names = heapq.nsmallest(limit + 1, names_below(self._root, "", prefix, start_after))
        items = []
        for name in names[:limit]:
            with contextlib.suppress(FileNotFoundError):
                items.append(ObjectInfo(name, path_of(self._root, name).stat().st_size))
        if not items and not self._is_present():
            raise FileNotFoundError(self._root / MARKER)
        if names and not items:
            # All of them were deleted meanwhile, and a page without a name could not be continued.
            return self._list(prefix, limit, names[-1])
        return ObjectPage(items, len(names) > limit)

    def _make_durable(self, folder: Path) -> None:
        """Make a folder below the root and everything above it durable.

        A folder that exists is synced too: the process that made it may not have come to that yet.
        """
        if folder == self._root or folder in self._durable_folders:
            return
        self._make_durable(folder.parent)
        self._disk.make_folder(folder)
        self._disk.sync_folder(folder.parent)
        self._durable_folders.add(folder)

    def _is_present(self) -> bool:
        return (self._root / MARKER).exists()
