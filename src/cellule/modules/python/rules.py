"""The determinism rules: what a step must not use, and what to use instead.

A rule matches full names of what code refers to (`datetime.datetime.now`), whatever it is called in the file.
The static guard looks names up here; the runtime guard has its own list of functions that do these things.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Finding(NamedTuple):
    """One place that could not be repeated, and what to do instead."""

    path: str
    line: int
    rule: str
    what: str
    line_end: int

    @property
    def instead(self) -> str:
        """What to write."""
        return INSTEAD[self.rule]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what} [{self.rule}]. {self.instead}"


INSTEAD: Final[dict[str, str]] = {
    "clock": "Use ctx.now or ctx.now_ns; to wait, ask for a timer, or await ctx.sleep in a workflow.",
    "random": "Use ctx.random, or ctx.uuid() for ids.",
    "environment": "Pass the value in an event or keep it in the state.",
    "files": "Read files outside and send their content as an event, or ask for an effect.",
    "network": "Ask for an effect; its receipt comes back as an event.",
    "process": "A step runs alone and never waits: ask for an effect, or emit an event.",
    "waiting": "A step never waits. In a workflow: ctx.sleep, ctx.event, ctx.gather, ctx.race, ctx.spawn.",
    "input": "Send what a person enters as an event.",
    "identity": "It differs between processes: compare values, or use hashlib.",
    "globals": "Keep it in the state: other processes and later runs do not see it.",
    "order": "A set has no fixed order: use sorted(...).",
    "imports": "Write an import statement, so that the module becomes part of the bundle.",
}

_EXACT: Final[dict[str, tuple[str, ...]]] = {
    "clock": (
        "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter",
        "time.perf_counter_ns", "time.process_time", "time.process_time_ns", "time.thread_time", "time.sleep",
        "time.localtime", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today",
        "datetime.date.today",
    ),
    "random": ("os.urandom", "os.getrandom", "uuid.uuid1", "uuid.uuid4", "random.SystemRandom"),
    "environment": (
        "os.environ", "os.environb", "os.getenv", "os.getpid", "os.getppid", "os.getpgrp", "os.getsid",
        "os.getuid", "os.geteuid", "os.getgid", "os.getgroups", "os.getcwd", "os.cpu_count", "os.getlogin",
        "os.getloadavg", "os.times", "os.uname", "sys.argv", "sys.path", "sys.modules", "sys.executable",
        "sys.getrefcount", "sys.getsizeof", "socket.gethostname", "getpass.getuser", "time.tzname",
        "time.timezone",
        "pathlib.Path.cwd", "pathlib.Path.home",
    ),
    "files": (
        "builtins.open", "io.open", "os.open", "os.listdir", "os.scandir", "os.walk", "os.remove",
        "os.unlink",
        "os.rename", "os.replace", "os.mkdir", "os.makedirs", "os.rmdir", "os.stat", "os.path.exists",
        "os.path.isfile", "os.path.isdir", "os.path.getsize", "os.path.getmtime",
    ),
    "process": ("os.system", "os.popen", "os.fork", "os.kill", "os.execv", "os.execvp", "os._exit"),
    "input": ("builtins.input", "sys.stdin"),
    "identity": ("builtins.id",),
    "imports": ("importlib.import_module", "builtins.__import__"),
}  # fmt: skip
_PREFIXES: Final[dict[str, tuple[str, ...]]] = {
    "random": ("secrets", "numpy.random"),
    "environment": ("platform", "locale"),
    "files": ("shutil", "tempfile", "glob", "sqlite3", "fileinput"),
    "network": (
        "socket", "ssl", "http.client", "http.server", "urllib.request", "urllib3", "requests", "httpx",
        "aiohttp", "smtplib", "ftplib", "asyncpg", "psycopg", "psycopg2", "redis", "boto3", "websockets",
        "grpc", "pymongo", "sqlalchemy.create_engine",
    ),
    "process": (
        "subprocess", "multiprocessing", "threading", "concurrent.futures", "signal",
    ),
    "waiting": ("asyncio", "trio", "anyio"),
}  # fmt: skip
_RANDOM_PURE: Final = frozenset({"random.Random"})
_BY_NAME: Final = {name: rule for rule, names in _EXACT.items() for name in names}
_NO_ARGUMENTS: Final = {
    "random.Random": "random",
    "time.gmtime": "clock",
    "time.ctime": "clock",
    "time.asctime": "clock",
}
_ONE_ARGUMENT: Final = {"datetime.datetime.fromtimestamp": "environment", "time.strftime": "clock"}

FILE_METHODS: Final = frozenset({"read_text", "read_bytes", "write_text", "write_bytes", "iterdir"})
"""Methods of `pathlib.Path`, looked for in files that import pathlib."""


def rule_of(name: str) -> str | None:
    """The rule that a reference to this full name breaks."""
    rule = _BY_NAME.get(name)
    if rule is not None:
        return rule
    for rule, prefixes in _PREFIXES.items():
        if any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes):
            return rule
    if name.startswith("random.") and name not in _RANDOM_PURE and not name.startswith("random.Random."):
        return "random"
    return None


def rule_of_call(name: str, arguments: int) -> str | None:
    """The rule that a call of this full name with so many arguments breaks, though a reference does not."""
    if arguments == 0:
        return _NO_ARGUMENTS.get(name)
    return _ONE_ARGUMENT.get(name) if arguments == 1 else None
