"""The adapter `process.run`: checks what is asked, runs it once under a supervisor, answers how it ended.

Any end of the command is an ok receipt, also a non-zero exit code or a limit it met: the cell decides what
that means. `Failed` is for what was never started; `Retry` for a node that could not start anything.

The command's name is compared with the grant as it was given, and what is started is what was compared: a
path must be absolute and in its shortest form, so that no `..` leads from an allowed spelling to another
file. A `*` in a pattern never stands for a `/`.

Rejected: secrets in arguments. Every user of a machine can read the arguments of every process.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from cellule.effects.adapter_limits import AdapterLimits
from cellule.effects.attempt import Attempt
from cellule.effects.grant_check import check_allowed
from cellule.effects.kinds import limits_of
from cellule.effects.outcomes import Failed
from cellule.effects.process.child import Report, run_supervised
from cellule.effects.process.types import INLINE_BYTES, ProcessEnded, ProcessRun, Stopped
from cellule.effects.secrets.reference import MARK, TEMPLATE
from cellule.values.cid import Cid


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


FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin")
ATTEMPT_SHARE = 0.9
"""Of an attempt's time that a command may use, so that its end is still reported within the attempt."""

_STOPPED: dict[str, Stopped] = {"time": "time", "memory": "memory", "processes": "processes"}


class ProcessAdapter:
    """Runs commands; `folders` are where bare names are looked up, in this order."""

    kind: Literal["process.run"] = "process.run"
    params = ProcessRun
    receipt = ProcessEnded

    def __init__(self, folders: Sequence[str] = FOLDERS, *, limits: AdapterLimits | None = None) -> None:
        self.limits = limits_of("process", limits)
        self._folders = tuple(folders)

    async def perform(self, params: ProcessRun, attempt: Attempt) -> ProcessEnded:
        """Run the command to its end, or to the first limit it meets."""
        check_arguments(params)
        order = {
            "path": program_of(params.command, attempt, self._folders),
            "argv": [params.command, *params.args],
            "env": await attempt.secrets.resolve(params.env),
            "timeout_s": min(params.timeout_s, attempt.timeout_s * ATTEMPT_SHARE),
            "memory_max": params.memory_max,
            "file_max": params.file_max,
            "output_max": params.output_max,
            "processes_max": params.processes_max,
        }
        report = await run_supervised(order, params.stdin)
        if report.fault:
            raise Failed("effects.command_start", f"{params.command!r} could not be started: {report.fault}.")
        return await _ended(report, attempt)

    async def close(self) -> None:
        """Nothing is kept between attempts."""


def check_arguments(params: ProcessRun) -> None:
    """`Failed` when an argument or variable cannot be passed on, or must not."""
    if MARK in params.env:
        raise Failed(
            "effects.command_text",
            f"`env` maps names of variables to texts, and {MARK} is none. "
            'Write {"TOKEN": "${secret:NAME}"} for a variable that holds a secret.',
        )
    for text in (*params.args, *params.env, *params.env.values()):
        if "\0" in text:
            raise Failed(
                "effects.command_text",
                "An argument or variable of the command contains a zero byte. Remove it.",
            )
    for name in params.env:
        if not name or "=" in name:
            raise Failed(
                "effects.command_text", f"{name!r} cannot name a variable. Use letters, digits and _."
            )
    for text in (params.command, *params.args):
        if TEMPLATE.search(text):
            raise Failed(
                "effects.secret_in_argument",
                "An argument holds a secret, and arguments can be read by every user of the machine. "
                "Give it in `env`.",
            )


async def _ended(report: Report, attempt: Attempt) -> ProcessEnded:
    stdout, stdout_blob = await _kept(report.stdout, attempt)
    stderr, stderr_blob = await _kept(report.stderr, attempt)
    return ProcessEnded(
        exit_code=report.exit_code, signal=report.signal, stopped=_STOPPED.get(report.stopped),
        cut=report.cut, stdout=stdout, stderr=stderr, stdout_blob=stdout_blob, stderr_blob=stderr_blob,
        duration_ns=report.duration_ns,
    )  # fmt: skip


async def _kept(data: bytes, attempt: Attempt) -> tuple[bytes | None, Cid | None]:
    data = attempt.secrets.redactor.scrub_bytes(data)
    if len(data) <= INLINE_BYTES:
        return data, None
    return None, await attempt.blobs.put(data)
