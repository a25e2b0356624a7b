"""Exit codes, and errors as people and programs read them. Scripts depend on both: they do not change.

0  done                          3  the surroundings failed, or another process has to do it
1  refused: the request is wrong 4  damaged, or verification found a difference
2  the command line is wrong     5  the step failed, or the event is parked
70 a bug in Cellule              130 interrupted
"""

from __future__ import annotations

import errno
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any

from cellule.errors import (
    CelluleError,
    Corrupted,
    Fenced,
    Rejected,
    StepFailed,
    Unavailable,
)
from cellule.values.schema.text_forms import time_of_text


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    REJECTED = 1
    USAGE = 2
    UNAVAILABLE = 3
    DAMAGED = 4
    FAILED = 5
    BUG = 70
    INTERRUPTED = 130


_CODES: tuple[tuple[type[CelluleError], Exit], ...] = (
    (Rejected, Exit.REJECTED),
    (Unavailable, Exit.UNAVAILABLE),
    (Fenced, Exit.UNAVAILABLE),
    (Corrupted, Exit.DAMAGED),
    (StepFailed, Exit.FAILED),
)

_OF_PATHS = {
    errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.EROFS, errno.EISDIR, errno.ENOTDIR,
    errno.ENOSPC, errno.EDQUOT,
}  # fmt: skip


def exit_code(error: CelluleError) -> Exit:
    """The exit code of an error."""
    if error.code == "cli.usage":
        return Exit.USAGE
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return Exit.BUG


def parsed_time(text: str) -> datetime:
    """A time that a person typed; `cli.usage` shows the form."""
    try:
        time_ns = time_of_text(text)
    except Exception:  # noqa: BLE001 - whatever makes it no time, the person sees the form
        raise usage("{text} is no time", text=text, hint="Write 2026-01-31T12:00:00Z.") from None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_ns // 1_000)


def usage(message: str, hint: str = "", **fields: object) -> Rejected:
    """An error in how a command was written."""
    return Rejected("cli.usage", message, hint=hint, **fields)


def cellule_error(error: BaseException) -> CelluleError | None:
    """The first Cellule error in an exception or group; what the system refuses a path for is one too."""
    if isinstance(error, CelluleError):
        return error
    if isinstance(error, OSError) and error.errno in _OF_PATHS and error.filename is not None:
        return Rejected(
            "cli.file", "{file} cannot be used: {why}", file=str(error.filename), why=error.strerror,
            hint="Check the path, and whether this user may use it.",
        )  # fmt: skip
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            found = cellule_error(each)
            if found is not None:
                return found
    return None


def message_of(error: CelluleError) -> str:
    """An error's text without its hint."""
    text = str(error)
    return text.removesuffix(f" {error.hint}") if error.hint else text


def error_json(error: CelluleError) -> dict[str, Any]:
    """An error as JSON data."""
    return {
        "error": {
            "code": error.code,
            "kind": type(error).__name__,
            "message": message_of(error),
            "hint": error.hint,
            **({"notes": notes} if (notes := list(getattr(error, "__notes__", ()))) else {}),
            "exit_code": int(exit_code(error)),
            "fields": {name: _plain(value) for name, value in error.fields.items()},
        }
    }


def _plain(value: object) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
