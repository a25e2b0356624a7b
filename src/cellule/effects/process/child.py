"""One command under its supervisor, seen from the node: an order goes in, a report comes out.

Whatever ends `run_supervised`, the command and all it started are dead when it returns, and its folder is
gone. The supervisor kills them when its socket closes; one that does not end by itself is killed after
`STOP_SECONDS_MAX`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellule.effects.outcomes import Retry

SUPERVISOR = Path(__file__).with_name("supervisor.py")
STOP_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Report:
    """How a command ended; `fault` says why it could not be started."""

    fault: str
    stopped: str
    exit_code: int | None
    signal: int | None
    cut: bool
    duration_ns: int
    stdout: bytes
    stderr: bytes


async def run_supervised(order: dict[str, Any], stdin: bytes) -> Report:
    """Carry out one order; `Retry` when the supervisor was lost on the way."""
    async with _own_folder() as folder:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                process = await _start(theirs, folder)
            try:
                return await _carried_out({**order, "folder": folder}, stdin, ours)
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                raise Retry("the supervisor of the process was lost") from error
            finally:
                ours.close()
                await _ended(process)


async def _carried_out(order: dict[str, Any], stdin: bytes, ours: socket.socket) -> Report:
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        await _send(writer, order, stdin)
        return await _report(reader)
    finally:
        writer.transport.abort()


async def _start(theirs: socket.socket, folder: str) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(SUPERVISOR), str(theirs.fileno()),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL, cwd=folder, env={}, start_new_session=True,
            pass_fds=[theirs.fileno()],
        )  # fmt: skip
    except OSError as error:
        raise Retry(f"no process could be started: {error.strerror}") from error


async def _send(writer: asyncio.StreamWriter, order: dict[str, Any], stdin: bytes) -> None:
    text = json.dumps({**order, "stdin_size": len(stdin)}).encode()
    writer.write(len(text).to_bytes(4, "big") + text + stdin)
    await writer.drain()


async def _report(reader: asyncio.StreamReader) -> Report:
    size = int.from_bytes(await reader.readexactly(4), "big")
    said = json.loads(await reader.readexactly(size))
    sizes = said.pop("sizes")
    stdout, stderr = [await reader.readexactly(size) for size in sizes]
    return Report(stdout=stdout, stderr=stderr, **said)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Wait until the supervisor is gone, also when this task is cancelled meanwhile."""
    waiting = asyncio.ensure_future(_kill_if_late(process))
    cancelled = False
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


async def _kill_if_late(process: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def _own_folder() -> AsyncIterator[str]:
    folder = tempfile.mkdtemp(prefix="cellule-process-")
    try:
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
