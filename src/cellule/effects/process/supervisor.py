"""The small program between a node and a command: starts it, watches its limits, leaves nothing behind.

Run as a script by the node with the number of one end of a socket pair; imports nothing but the standard
library. The node sends an order and then only listens; when the socket closes, because the attempt was
cancelled or the node died, everything is killed. The command runs in a session of its own; on Linux this
program adopts its orphans, so a child that left the process group is found and killed too.

    order   u32 big-endian: length | JSON {path, argv, env, folder, limits, ...} | `stdin_size` bytes
    report  u32 big-endian: length | JSON {status, stopped, cut, ...} | stdout | stderr

Rejected: limits set between fork and exec in the node. A node has threads, and they may hold locks then.
Rejected: output through pipes to the node. A flood would be read, and thrown away, on the node's loop.
Rejected: RLIMIT_AS. Many runtimes reserve far more addresses than the memory they ever touch.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any, NoReturn

LOOK_SECONDS = 0.1
KILL_SECONDS = 0.01
CANCELLED = "cancelled"
KILL_SECONDS_MAX = 5.0
READ_BYTES = 65_536
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38


class Output:
    """One stream of the command: what is kept, and whether more came."""

    def __init__(self, pipe: int, bytes_max: int) -> None:
        self.pipe = pipe
        self.kept = bytearray()
        self.cut = False
        self.open = True
        self._bytes_max = bytes_max
        os.set_blocking(pipe, False)

    def take(self) -> bool:
        """Read once; false when there is nothing more to read now."""
        try:
            data = os.read(self.pipe, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.open = False
            return False
        room = self._bytes_max - len(self.kept)
        self.kept += data[:room]
        self.cut = self.cut or len(data) > room
        return True


class Command:
    """The running command and its limits; `stopped` says which limit ended it, if one did."""

    def __init__(self, order: dict[str, Any], given: bytes, control: int) -> None:
        self.order = order
        self.stopped = ""
        self.status: int | None = None
        self.fault = ""
        self._given = memoryview(given)
        self._control = control
        self._wake = wake_on_signals()
        ends = [os.pipe() for _ in range(4)]
        self.pid = os.fork()
        if self.pid == 0:
            become(order, ends[0][0], ends[1][1], ends[2][1], ends[3][1])
        for end in (ends[0][0], ends[1][1], ends[2][1], ends[3][1]):
            os.close(end)
        self._stdin: int | None = ends[0][1]
        os.set_blocking(self._stdin, False)
        self.outputs = [Output(ends[1][0], order["output_max"]), Output(ends[2][0], order["output_max"])]
        self.fault = os.read(ends[3][0], READ_BYTES).decode()

    def watch(self) -> None:
        """Return once the command has ended or a limit was met."""
        now = time.monotonic()
        deadline, look = now + self.order["timeout_s"], now
        while not self.stopped:
            node_is_there = self._move(max(0.0, min(look, deadline) - now))
            if self.has_ended():
                return
            now = time.monotonic()
            if not node_is_there:
                self.stopped = CANCELLED
            elif now >= deadline:
                self.stopped = "time"
            elif now >= look:
                self.stopped = self._over_limit()
                look = now + LOOK_SECONDS

    def end(self) -> None:
        """Kill all that is left, then read what it had written."""
        deadline = time.monotonic() + KILL_SECONDS_MAX
        while time.monotonic() < deadline:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            for pid in descendants(os.getpid()):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if not self.reap():
                break
            select.select([self._wake], [], [], KILL_SECONDS)
            drain(self._wake)
        for output in self.outputs:
            while len(output.kept) < self.order["output_max"] and output.take():
                pass
            output.cut = output.cut or (output.open and output.take())

    def reap(self) -> bool:
        """Collect the children that ended; false when there is none left, alive or dead."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.pid:
                self.status = status

    def has_ended(self) -> bool:
        """Whether the command itself has ended, whatever it left running."""
        self.reap()
        return self.status is not None

    def _move(self, seconds: float) -> bool:
        """Wait for news, hand over input and take output; false when the node is gone."""
        reading = [output.pipe for output in self.outputs if output.open]
        writing = [self._stdin] if self._stdin is not None else []
        ready, free, _ = select.select([self._control, self._wake, *reading], writing, [], seconds)
        drain(self._wake)
        for output in self.outputs:
            if output.pipe in ready:
                output.take()
        if free:
            self._feed()
        return self._control not in ready

    def _feed(self) -> None:
        assert self._stdin is not None
        with contextlib.suppress(BlockingIOError):
            try:
                self._given = self._given[os.write(self._stdin, self._given) :]
            except BrokenPipeError:
                self._given = self._given[:0]
        if not self._given:
            os.close(self._stdin)
            self._stdin = None

    def _over_limit(self) -> str:
        processes = descendants(os.getpid())
        if len(processes) > self.order["processes_max"]:
            return "processes"
        most = self.order["memory_max"]
        # What is shared counts for each that shares it, so the costly exact number is asked for only then.
        if sum(map(resident_bytes, processes)) > most and sum(map(own_bytes, processes)) > most:
            return "memory"
        return ""


def become(order: dict[str, Any], stdin: int, stdout: int, stderr: int, fault: int) -> NoReturn:
    """Turn this forked process into the command; what prevents it is written to `fault`."""
    try:
        os.setsid()
        for source, target in ((stdin, 0), (stdout, 1), (stderr, 2)):
            os.dup2(source, target)
        control_process(PR_SET_PDEATHSIG, signal.SIGKILL)
        control_process(PR_SET_NO_NEW_PRIVS, 1)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o077)
        os.chdir(order["folder"])
        limit(resource.RLIMIT_CORE, 0)
        limit(resource.RLIMIT_FSIZE, order["file_max"])
        limit(resource.RLIMIT_DATA, order["memory_max"])
        os.execve(order["path"], order["argv"], order["env"])  # noqa: S606 (no shell is the point)
    except OSError as error:
        os.write(fault, (error.strerror or "unknown error").encode())
    except ValueError as error:
        os.write(fault, str(error).encode())
    os._exit(127)


def limit(name: int, bound: int) -> None:
    """Lower a resource limit for good."""
    _, hard = resource.getrlimit(name)
    bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
    resource.setrlimit(name, (bound, bound))


def control_process(option: int, value: int) -> None:
    """Set a property of this process, where the system has it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def wake_on_signals() -> int:
    """Return a pipe that becomes readable when a child ends."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def drain(pipe: int) -> None:
    """Empty the pipe of signals."""
    with contextlib.suppress(BlockingIOError):
        os.read(pipe, READ_BYTES)


def descendants(root: int) -> list[int]:
    """The children of `root` and theirs; empty where the system does not tell."""
    found: list[int] = []
    waiting = [root]
    while waiting:
        folder = f"/proc/{waiting.pop()}/task"
        with contextlib.suppress(OSError):
            for task in os.listdir(folder):  # noqa: PTH208 (pathlib would double the start-up time)
                with open(f"{folder}/{task}/children", "rb") as children:  # noqa: PTH123 (as above)
                    pids = [int(pid) for pid in children.read().split()]
                found += pids
                waiting += pids
    return found


def resident_bytes(pid: int) -> int:
    """The memory a process holds now; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:  # noqa: PTH123 (as above)
            return int(statm.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def own_bytes(pid: int) -> int:
    """The memory a process holds now, a share of what it shares; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as smaps:  # noqa: PTH123 (as above)
            return sum(int(line.split()[1]) * 1024 for line in smaps if line.startswith(b"Pss:"))
    except OSError:
        return 0


def read_exactly(control: int, size: int) -> bytes:
    """Read `size` bytes; ends the program when the node is gone."""
    data = bytearray()
    while len(data) < size:
        part = os.read(control, size - len(data))
        if not part:
            raise SystemExit(1)
        data += part
    return bytes(data)


def report_of(command: Command, began_ns: int) -> dict[str, Any]:
    """Describe how the command ended."""
    status = command.status
    return {
        "fault": command.fault,
        "stopped": command.stopped,
        "exit_code": os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None,
        "signal": os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
        "cut": any(output.cut for output in command.outputs),
        "sizes": [len(output.kept) for output in command.outputs],
        "duration_ns": time.monotonic_ns() - began_ns,
    }


def remove(folder: str) -> None:
    """Remove the command's folder, for a node that may be gone."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Take one order, carry it out, report."""
    control = int(sys.argv[1])
    os.set_inheritable(control, False)
    order = json.loads(read_exactly(control, int.from_bytes(read_exactly(control, 4), "big")))
    given = read_exactly(control, order["stdin_size"])
    control_process(PR_SET_CHILD_SUBREAPER, 1)
    began_ns = time.monotonic_ns()
    command = Command(order, given, control)
    command.watch()
    command.end()
    if command.stopped == CANCELLED:
        remove(order["folder"])
    text = json.dumps(report_of(command, began_ns)).encode()
    answer = memoryview(len(text).to_bytes(4, "big") + text + b"".join(o.kept for o in command.outputs))
    with contextlib.suppress(BrokenPipeError):
        while answer:
            answer = answer[os.write(control, answer) :]


if __name__ == "__main__":
    main()
