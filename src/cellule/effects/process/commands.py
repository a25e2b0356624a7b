"""From the command a cell names to the program that is started: allowed first, then found.

The name is compared with the grant as it was given, and what is started is what was compared: a path must be
absolute and written in its shortest form, so that no `..`, `.` or `//` leads from an allowed spelling to
another file. A `*` in a pattern never stands for a `/`.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from pathlib import Path

from cellule.effects.attempt import Attempt
from cellule.effects.grant_check import check_allowed
from cellule.effects.outcomes import Failed


def program_of(command: str, attempt: Attempt, folders: Sequence[str]) -> str:
    """Return the absolute path of the program; `Failed` when it is not allowed or not there."""
    check_spelling(command)
    check_allowed(attempt, "command", command, separator="/")
    candidates = [command] if command.startswith("/") else [f"{folder}/{command}" for folder in folders]
    for candidate in candidates:
        if Path(candidate).is_file() and os.access(candidate, os.X_OK):
            return candidate
    where = "" if command.startswith("/") else f" in {', '.join(folders)}"
    raise Failed(
        "effects.command_missing",
        f"There is no program {command!r}{where} on the node that performed this. "
        "Install it there, or correct the name.",
    )


def check_spelling(command: str) -> None:
    """`Failed` unless `command` is a bare name or an absolute path in its shortest form."""
    is_bare = "/" not in command and command not in {"", ".", ".."}
    is_path = (
        command.startswith("/") and not command.startswith("//") and posixpath.normpath(command) == command
    )
    if "\0" in command or not (is_bare or is_path):
        raise Failed(
            "effects.command_spelling",
            f"{command!r} is neither a bare name nor an absolute path in its shortest form. "
            "Write `date` or `/usr/bin/date`.",
        )
