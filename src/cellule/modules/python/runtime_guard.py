"""The determinism guard at run time: inside `runtime_guard()`, what a step must not do raises.

The interpreter tells a profile function about each call, also of functions in C, before it happens: so it
does not matter under which name a function was imported. While a module is being imported everything is
allowed. A finding that the code swallowed is raised when the guard ends. For tests: every call costs more.

Rejected: replacing `time.time` and its kind. `from time import time` keeps the original, and `datetime.now`
belongs to a class that cannot be changed.
Rejected: `sys.addaudithook`. It can never be removed, and knows neither clocks nor chance.
"""

from __future__ import annotations

import builtins
import datetime as dt
import gc
import inspect
import io
import os
import random
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from types import CodeType, FrameType
from typing import Any, Final

from cellule.kernel.program import Context as KernelContext
from cellule.kernel.program import (
    EnzymeCall,
    EnzymeOutput,
    LogMark,
    Output,
    Program,
    StepFault,
    TreeView,
    forget_kept,
)
from cellule.modules.python.loader import PACKAGE
from cellule.modules.python.rules import INSTEAD

_C_FUNCTIONS: Final[dict[str, tuple[str, ...]]] = {
    "clock": (
        "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
        "process_time_ns", "thread_time", "localtime", "sleep",
    ),
    "random": ("urandom", "getrandom"),
    "environment": (
        "getpid", "getppid", "getpgrp", "getsid", "getuid", "geteuid", "getgid", "getgroups", "getcwd",
        "uname", "getlogin", "getloadavg", "times", "cpu_count", "putenv", "unsetenv",
    ),
    "files": (
        "open", "listdir", "scandir", "stat", "lstat", "remove", "unlink", "rename", "replace",
        "mkdir", "rmdir",
    ),
    "process": ("system", "fork", "kill", "posix_spawn", "execv", "execve"),
}  # fmt: skip


def _functions() -> dict[Any, tuple[str, str]]:
    """Functions in C, by identity, with their rule and name."""
    found: dict[Any, tuple[str, str]] = {
        builtins.open: ("files", "open()"),
        io.open_code: ("files", "open()"),
        builtins.input: ("input", "input()"),
        dt.datetime.now: ("clock", "datetime.now()"),
        dt.datetime.utcnow: ("clock", "datetime.utcnow()"),
        dt.datetime.today: ("clock", "datetime.today()"),
        dt.date.today: ("clock", "date.today()"),
        random.random: ("random", "random.random()"),
        random.getrandbits: ("random", "random.getrandbits()"),
    }
    for rule, names in _C_FUNCTIONS.items():
        for module in (time, os):
            for name in names:
                function = getattr(module, name, None)
                if function is not None and not hasattr(function, "__code__"):
                    found[function] = (rule, f"{module.__name__}.{name}()")
    return found


def _codes() -> dict[CodeType, tuple[str, str]]:
    """Functions in Python, by their code."""
    named: dict[Callable[..., Any], tuple[str, str]] = {
        type(os.environ).__getitem__: ("environment", "os.environ"),
        type(os.environ).__setitem__: ("environment", "os.environ"),
        type(os.environ).__iter__: ("environment", "os.environ"),
        uuid.uuid1: ("random", "uuid.uuid1()"),
        uuid.uuid4: ("random", "uuid.uuid4()"),
        socket.socket.__init__: ("network", "a socket"),
        socket.getaddrinfo: ("network", "a name look-up"),
        subprocess.Popen.__init__: ("process", "a subprocess"),
        Thread.start: ("process", "a thread"),
        os.fdopen: ("files", "os.fdopen()"),
    }
    return {function.__code__: rule for function, rule in named.items()}


_FUNCTIONS: Final = _functions()
_CODES: Final = _codes()
_SEED: Final = random.Random.seed.__code__
_IMPORTING: Final = "<frozen importlib"
_OWN: Final = "cellule."


class _Watch:
    """The profile function of one guarded stretch of code."""

    def __init__(self, top: FrameType | None) -> None:
        self.fault: StepFault | None = None
        self._top = top

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            found = _FUNCTIONS.get(argument)
            if found is None and (argument is hash or argument is id) and _is_authors(frame.f_code):
                found = ("identity", f"{argument.__name__}()")
        elif event == "call":
            found = _CODES.get(frame.f_code)
            if found is None and frame.f_code is _SEED and frame.f_locals.get("a") is None:
                found = ("random", "random.Random() without a seed")
        else:
            return
        if found is not None and not self._is_exempt(frame, event):
            rule, what = found
            text = f"the step uses {what} [{rule}], which could not be repeated. {INSTEAD[rule]}"
            self.fault = StepFault("modules.nondeterministic", text)
            raise self.fault

    def _is_exempt(self, frame: FrameType | None, event: str) -> bool:
        """Whether Cellule itself calls, or a module is being imported."""
        if frame is not None and event == "call":
            frame = frame.f_back
        if frame is not None and frame.f_globals.get("__name__", "").startswith(_OWN):
            return True
        while frame is not None and frame is not self._top:
            if frame.f_code.co_filename.startswith(_IMPORTING):
                return True
            frame = frame.f_back
        return False


def _is_authors(code: CodeType) -> bool:
    """Whether this is code of a bundle; a `__hash__` may use what the interpreter asks it for."""
    return code.co_filename.startswith(PACKAGE) and code.co_name != "__hash__"


@contextmanager
def runtime_guard() -> Iterator[None]:
    """Raise `StepFault` (`modules.nondeterministic`) from whatever cannot be repeated, in this thread.

    Garbage is not collected meanwhile: a collection runs other people's callbacks and finalizers, which may
    well look at a clock, in the middle of a step that does not.
    """
    before = sys.getprofile()
    collects = gc.isenabled()
    gc.disable()
    watch = _Watch(inspect.currentframe())
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    if watch.fault is not None:
        raise watch.fault


class GuardedProgram:
    """A program whose every step runs inside the runtime guard."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def forget(self) -> None:
        """See `forget_kept`."""
        forget_kept(self.program)

    def forget_world(self, world: bytes) -> None:
        """See `forget_kept`."""
        forget_kept(self.program, world)

    def step(
        self, state: bytes | None, schema: str, value: bytes, key: bytes, context: KernelContext | None
    ) -> Output:
        """Take one step, or raise `StepFault`."""
        with runtime_guard():
            return self.program.step(state, schema, value, key, context)

    def run(self, call: EnzymeCall, tree: TreeView) -> EnzymeOutput:
        """See `EnzymeProgram`."""
        run: Callable[[EnzymeCall, TreeView], EnzymeOutput] = self.program.run  # type: ignore[attr-defined]
        with runtime_guard():
            return run(call, tree)

    def resume(
        self, mark: LogMark, schema: str, value: bytes, key: bytes, context: KernelContext | None
    ) -> Output | None:
        """See `Program`."""
        resume = getattr(self.program, "resume", None)
        if resume is None:
            return None
        with runtime_guard():
            answer: Output | None = resume(mark, schema, value, key, context)
            return answer
