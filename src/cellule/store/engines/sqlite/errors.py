"""SQLite's result codes, mapped once to the error tree.

Which class an error gets depends on when it came: before COMMIT everything was rolled back, so the batch was
not applied; an error of COMMIT itself leaves the outcome unknown, because a complete commit record may
already stand in the log and be found there after a crash. Only numbers are used, never the drivers' texts.
"""

from __future__ import annotations

from cellule.errors import CelluleError, Corrupted, InvariantBroken, OutcomeUnknown, Unavailable

BUSY, LOCKED, NO_MEMORY, READ_ONLY, IO, CORRUPT, FULL, CANNOT_OPEN, PROTOCOL, NOT_A_DATABASE = (
    5, 6, 7, 8, 10, 11, 13, 14, 15, 26,
)  # fmt: skip
IO_DATA = IO | 32 << 8
IO_CORRUPT_FILESYSTEM = IO | 33 << 8

_DAMAGED = (
    "store.file_damaged", "{path} is damaged (SQLite result {result})",
    "Stop writing, copy the file with its -wal, check the whole database, and restore from a backup.",
)  # fmt: skip
_BUSY = (
    "store.busy", "{path} stayed locked by another process (SQLite result {result})",
    "Retry; if it lasts, find the program that keeps a transaction open on this file.",
)  # fmt: skip
_TEXTS = {
    BUSY: _BUSY,
    LOCKED: _BUSY,
    PROTOCOL: _BUSY,
    NO_MEMORY: ("store.no_memory", "SQLite found no memory for {path} (result {result})", "Retry later."),
    READ_ONLY: (
        "store.read_only", "{path} cannot be written (SQLite result {result})",
        "Check the permissions of the file and its folder, and whether the disk is mounted read-only.",
    ),
    IO: (
        "store.io", "the disk failed under {path} (SQLite result {result})",
        "Check the disk and the system log, then retry.",
    ),
    FULL: (
        "store.disk_full", "the disk that holds {path} is full (SQLite result {result})",
        "Free some space; commits work again as soon as there is room.",
    ),
    CANNOT_OPEN: (
        "store.cannot_open", "{path} cannot be opened (SQLite result {result})",
        "Check that the folder exists and may be written, and that the path names a file.",
    ),
}  # fmt: skip


def result_code(error: BaseException) -> int | None:
    """Return SQLite's extended result code, or `None` for an error that is not SQLite's."""
    if isinstance(error, UnicodeDecodeError):
        # All our texts are ASCII: this one was read from a damaged page, or quotes one in an error message.
        return CORRUPT
    for name in ("sqlite_errorcode", "extendedresult"):
        code = getattr(error, name, None)
        if isinstance(code, int):
            return code
    return None


def is_busy(error: BaseException) -> bool:
    """Tell whether another connection held a lock, so that the same step may work in a moment."""
    code = result_code(error)
    return code is not None and code & 0xFF in (BUSY, LOCKED, PROTOCOL)


def is_full(error: BaseException) -> bool:
    """Tell whether there was no room on the disk, or in the file."""
    code = result_code(error)
    return code is not None and code & 0xFF == FULL


def mapped(error: Exception, path: str, *, committing: bool = False) -> CelluleError:
    """Return the error to raise for an error of SQLite."""
    code = result_code(error) or 0
    primary = code & 0xFF
    if primary in (CORRUPT, NOT_A_DATABASE) or code in (IO_DATA, IO_CORRUPT_FILESYSTEM):
        return _built(Corrupted, _DAMAGED, path, code)
    if primary in _TEXTS:
        return _built(OutcomeUnknown if committing else Unavailable, _TEXTS[primary], path, code)
    return InvariantBroken(
        "store.sqlite", "SQLite refused a statement on {path}: {text} (result {result})",
        path=path, result=code, text=str(error),
    )  # fmt: skip


def told(error: Exception) -> CelluleError:
    """Return what the callers of a thread hear when it met `error`."""
    if isinstance(error, CelluleError):
        return error
    failure = InvariantBroken("store.thread", "the SQLite engine failed: {text}", text=repr(error))
    failure.__cause__ = error
    return failure


def may_be_one_batch(error: Exception) -> bool:
    """Tell whether one batch of a group may have caused `error` while the others would succeed."""
    return isinstance(error, Corrupted) or (
        isinstance(error, Unavailable) and error.code == "store.disk_full"
    )


def _built(kind: type[CelluleError], texts: tuple[str, str, str], path: str, result: int) -> CelluleError:
    code, message, hint = texts
    return kind(code, message, hint=hint, path=path, result=result)
