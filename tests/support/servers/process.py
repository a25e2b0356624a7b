"""One server process for tests, on a port of 127.0.0.1 that it keeps over restarts.

It can be stopped, killed, frozen and started again. What program it is, and how it tells that it is up, is
said by a class for each kind of server. Blocking; for use in fixtures.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from cellule.errors import Unavailable

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
POLL_S = 0.02
PORT_TRIES = 5


def program_path(name: str) -> Path | None:
    """Return a server's program: beside this interpreter, or on the path."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    return Path(found) if found else None


class ServerProcess(ABC):
    """A server over a folder, which also holds its log; `start` and `kill` may alternate."""

    program: str  # its file name
    package: str  # what installs it
    missing: str  # the error's code where it is not installed
    failing: str  # and where it does not start

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self, program: Path) -> list[str | Path]:
        """The command that serves on `port`."""

    def environment(self) -> dict[str, str]:
        """What the server finds in its environment beside this process's own."""
        return {}

    def greets(self, connection: socket.socket) -> bool:
        """Tell whether a new connection is to a server that is up."""
        return True

    def start(self) -> None:
        """Start the server and wait until it is up."""
        program = program_path(self.program)
        if program is None:
            raise Unavailable(
                self.missing, "{program} is not installed", program=self.program,
                hint=f"Install {self.package}.",
            )  # fmt: skip
        for _ in range(PORT_TRIES):
            self.port = self.port or _free_port()
            self._process = self._spawn(program)
            if self._wait_until_up():
                return
            self.kill()
            self.port = 0
        raise Unavailable(
            self.failing, "{program} did not start: {log}", program=self.program, log=self.log()[-500:]
        )

    def stop(self) -> None:
        """End the server in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server at once."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Let the server accept connections and answer nothing; all its threads stand still on return."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)
            os.waitpid(self._process.pid, os.WUNTRACED)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def log(self) -> str:
        """Return what the server wrote."""
        path = self.folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _spawn(self, program: Path) -> subprocess.Popen[bytes]:
        command, environment = self.command(program), {**os.environ, **self.environment()}
        with (self.folder / "server.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def _wait_until_up(self) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                if self.greets(probe):
                    return True
            time.sleep(POLL_S)
        return False

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
