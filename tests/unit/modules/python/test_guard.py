from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.modules.python.bundle import make_bundle
from cellule.modules.python.guard import allowances, check_deterministic, find_hazards
from cellule.modules.python.rules import INSTEAD


def hazards(source, **others):
    files = {"app.py": source, **{f"{name}.py": text for name, text in others.items()}}
    bundle = make_bundle("app:f", {path: text.encode() for path, text in files.items()}, {})
    return [(finding.path, finding.line, finding.rule) for finding in find_hazards(bundle)]


def rules_of(statement, before=""):
    """The rules a reducer breaks that consists of this statement."""
    body = "\n".join(f"    {line}" for line in statement.splitlines())
    return {rule for _, _, rule in hazards(f"{before}\ndef f(state, event, ctx):\n{body}\n")}


@pytest.mark.parametrize(
    ("before", "statement", "rule"),
    [
        ("import time", "time.time()", "clock"),
        ("import time as t", "t.monotonic_ns()", "clock"),
        ("from time import perf_counter as pc", "return pc()", "clock"),
        ("import time", "time.sleep(1)", "clock"),
        ("import time", "time.strftime('%Y')", "clock"),
        ("import time", "time.gmtime()", "clock"),
        ("import datetime", "datetime.datetime.now(datetime.UTC)", "clock"),
        ("from datetime import datetime", "datetime.utcnow()", "clock"),
        ("from datetime import date as d", "d.today()", "clock"),
        ("import datetime as dt", "make = dt.datetime.now\nmake()", "clock"),
        ("", "import time\ntime.time()", "clock"),
        ("", "from datetime import datetime\nreturn datetime.now()", "clock"),
        ("import random", "random.random()", "random"),
        ("import random", "random.shuffle(state)", "random"),
        ("from random import choice", "choice(state)", "random"),
        ("import random", "random.Random()", "random"),
        ("import random", "random.SystemRandom(1)", "random"),
        ("import uuid", "uuid.uuid4()", "random"),
        ("from uuid import uuid1", "uuid1()", "random"),
        ("import secrets", "secrets.token_hex()", "random"),
        ("import os", "os.urandom(8)", "random"),
        ("import numpy as np", "np.random.rand()", "random"),
        ("import os", "os.environ['X']", "environment"),
        ("import os", "os.environ.get('X')", "environment"),
        ("from os import getenv", "getenv('X')", "environment"),
        ("import platform", "platform.node()", "environment"),
        ("from datetime import datetime", "datetime.fromtimestamp(5)", "environment"),
        ("", "event.at.astimezone()", "environment"),
        ("", "open('x')", "files"),
        ("", "with open('x') as file: return file.read()", "files"),
        ("from pathlib import Path", "Path('x').read_text()", "files"),
        ("import pathlib", "pathlib.Path('x').write_bytes(b'')", "files"),
        ("import os", "os.listdir('.')", "files"),
        ("import shutil", "shutil.rmtree('x')", "files"),
        ("import sqlite3", "sqlite3.connect('x')", "files"),
        ("import socket", "socket.socket()", "network"),
        ("import urllib.request", "urllib.request.urlopen('x')", "network"),
        ("import requests", "requests.get('x')", "network"),
        ("import httpx", "httpx.get('x')", "network"),
        ("from http.client import HTTPConnection", "HTTPConnection('x')", "network"),
        ("import subprocess", "subprocess.run(['x'])", "process"),
        ("import os", "os.system('x')", "process"),
        ("import threading", "threading.Thread()", "process"),
        ("import asyncio", "asyncio.run(state)", "waiting"),
        ("from concurrent.futures import ThreadPoolExecutor", "ThreadPoolExecutor()", "process"),
        ("", "input()", "input"),
        ("import sys", "sys.stdin.read()", "input"),
        ("", "id(state)", "identity"),
        ("", "hash(event.name)", "identity"),
        ("", "return sorted(state, key=id)", "identity"),
        ("import importlib", "importlib.import_module('x')", "imports"),
        ("COUNT = 0", "global COUNT\nCOUNT += 1", "globals"),
        ("SEEN = []", "SEEN.append(1)", "globals"),
        ("SEEN = {}", "SEEN[event.id] = 1", "globals"),
        ("SEEN = {}", "del SEEN[event.id]", "globals"),
        ("SEEN = set()", "SEEN.add(1)", "globals"),
        ("from collections import defaultdict\nSEEN = defaultdict(list)", "SEEN[1].append(2)", "globals"),
        ("SEEN: dict[str, int] = {}", "SEEN.setdefault('a', 1)", "globals"),
        ("class Order:\n    count = 0", "Order.count += 1", "globals"),
        ("", "return list({'a', 'b'})", "order"),
        ("", "return tuple(set(event.names))", "order"),
        ("", "names = set(event.names)\nreturn [name for name in names]", "order"),
        ("", "names = set(event.names) | {'x'}\nreturn ','.join(names)", "order"),
        ("", "names: set[str] = event.names\nreturn [*names]", "order"),
        ("", "names = {n for n in event.names}\nfor name in names:\n    state.append(name)", "order"),
        ("", "names = frozenset(event.names)\nreturn enumerate(names - {'x'})", "order"),
        ("", "return set(event.names).pop()", "order"),
        ("", "text = ''\nfor name in set(event.names):\n    text += name", "order"),
        ("", "text = b''\nfor name in set(event.names):\n    text = text + name", "order"),
        ("", "s = set(event.names)\nreturn ','.join(x for x in s)", "order"),
        ("", "s = set(event.names)\nreturn list(x for x in s)", "order"),
        ("", "s = set(event.names)\nreturn sorted(s, key=len)", "order"),
        ("", "return max(set(event.names), key=str.lower)", "order"),
        ("", "s = set(event.names)\nreturn f'{s}'", "order"),
        ("", "s = set(event.names)\nreturn f'{s!r:>5}'", "order"),
        ("", "s = set(event.names)\nreturn str(s)", "order"),
        ("", "s = set(event.names)\nreturn '%s' % s", "order"),
        ("", "s = set(event.names)\nreturn '%s %s' % (1, s)", "order"),
        ("", "s = set(event.names)\nreturn '{}'.format(s)", "order"),
        ("", "s = set(event.names)\nreturn dict.fromkeys(s)", "order"),
        ("import pickle", "return pickle.dumps(set(event.names))", "order"),
        ("from pickle import dumps as d", "return d(set(event.names))", "order"),
        ("import itertools", "return itertools.islice(set(event.names), 3)", "order"),
        ("def names(event):\n    return {n for n in event}", "return list(names(event))", "order"),
        (
            "def names(event) -> set[str]:\n    return event",
            "s = names(event)\nreturn [x for x in s]",
            "order",
        ),
        ("", "return list(map(hash, event.names))", "identity"),
        ("", "key = hash\nreturn key(event)", "identity"),
        ("import os", "return os.getppid()", "environment"),
        ("", "names = set(event.names)\nreturn next(iter(names))", "order"),
    ],
)
def test_what_could_not_be_repeated_is_found(before, statement, rule):
    assert rules_of(statement, before) >= {rule}


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        (
            "from datetime import datetime, timedelta, UTC",
            "return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(1)",
        ),
        ("from datetime import datetime", "at: datetime = event.at\nreturn at.isoformat()"),
        (
            "from datetime import datetime, UTC",
            "return datetime.fromtimestamp(5, UTC), datetime.fromtimestamp(5, tz=UTC)",
        ),
        ("from datetime import UTC", "return event.at.astimezone(UTC)"),
        ("import datetime", "return isinstance(event.at, datetime.date)"),
        ("import time", "return time.gmtime(5), time.strftime('%Y', time.gmtime(5))"),
        ("import uuid", "return uuid.UUID(int=1), uuid.uuid5(uuid.NAMESPACE_DNS, 'x')"),
        ("from uuid import UUID", "return UUID(event.text)"),
        ("import random", "return random.Random(5).random()"),
        ("from random import Random", "chance: Random = ctx.random\nreturn chance.random()"),
        ("", "return ctx.now, ctx.uuid(), ctx.random.choice([1])"),
        ("", "time = event.time\nreturn time.time()"),
        ("", "random = state\nreturn random.choice()"),
        ("", "return [open.x for open in event.doors]"),
        ("", "def open(x): return x\nreturn open('x')"),
        ("import os", "return os.path.join('a', 'b'), os.sep, os.path.basename(event.path)"),
        ("from pathlib import PurePath", "return PurePath('a') / 'b'"),
        ("", "return event.read_text"),
        ("", "print('x')"),
        ("", "return f'{1.5:.2f}', repr(1.5), round(1.5)"),
        ("RATES = {'a': 1}", "return RATES['a'] + len(RATES) + RATES.get('b', 0)"),
        ("RATES = {'a': 1}", "RATES = {}\nRATES['a'] = 2\nreturn RATES"),
        ("NAMES = ['a']", "names = list(NAMES)\nnames.append('b')\nreturn names"),
        ("", "seen = []\ndef add(x):\n    seen.append(x)\nadd(1)\nreturn seen"),
        ("", "count = 0\ndef add():\n    nonlocal count\n    count += 1\nadd()\nreturn count"),
        ("", "return sorted({'a', 'b'}), sorted(set(event.names)), sorted(x for x in {'a'})"),
        ("", "return sum(x for x in {1, 2}), len({1}), max({1, 2}), any([x for x in {1}])"),
        ("", "names = set(event.names)\nreturn 'a' in names, names | {'b'}"),
        ("", "names = set(event.names)\ntotal = 0\nfor name in names:\n    total += len(name)\nreturn total"),
        ("", "names = set(event.names)\nnames = sorted(names)\nreturn [name for name in names]"),
        ("", "return {name: 1 for name in set(event.names)}, {name for name in set(event.names)}"),
        (
            "from math import pi\nimport json, re, hashlib, decimal",
            "return pi, json.dumps({}), hashlib.sha256(b'')",
        ),
        ("from typing import Any", "x: Any = event\nreturn x"),
        ("import threading", "def inner(lock: threading.Lock): return lock\nreturn inner"),
        (
            "class P:\n    def __hash__(self): return hash((1, 2))\n    def __eq__(self, other): return True",
            "return P()",
        ),
        ("import logging", "logging.getLogger('x').info('step')"),
        ("from functools import lru_cache\n@lru_cache\ndef rate(x): return x", "return rate(1)"),
    ],
)
def test_common_code_raises_no_alarm(before, statement):
    assert rules_of(statement, before) == set()


def test_only_what_the_reducer_reaches_is_read():
    source = """
import asyncio, httpx, time

def f(state, event):
    return helper(state)

def helper(state):
    return Order(state).total()

class Order:
    def __init__(self, state): self.state = state
    def total(self): return time.time()

async def adapter(params):
    await asyncio.sleep(1)
    return httpx.get("x")

class Unused:
    def now(self): return time.time()

if __name__ == "__main__":
    asyncio.run(adapter(time.time()))
"""
    assert hazards(source) == [("app.py", 12, "clock")]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_code_of_an_adapter_runs_elsewhere(kind):
    """A reducer that asks for a blocking adapter was refused for what the adapter does."""
    head, body = "import time\n@app.adapter('x')\n", "def f(state, event): return call(1)\n"
    source = f"{head}{kind} call(params):\n    time.sleep(1)\n{body}"
    assert hazards(source) == []
    assert hazards(source.replace("@app.adapter('x')\n", "")) != []


def test_other_files_are_followed_however_names_are_imported():
    others = {
        "rates": "import time\nfrom chance import roll as again\ndef rate(): time.time()\ndef fine(): ...",
        "chance": "import random\ndef roll(): return random.random()\nSEEN = []",
    }
    assert hazards("from rates import fine\ndef f(state, event): return fine()", **others) == []
    assert hazards("import rates\ndef f(state, event): return rates.rate()", **others) == [
        ("rates.py", 3, "clock")
    ]
    assert hazards("from rates import again as x\ndef f(s, e): return x()", **others) == [
        ("chance.py", 2, "random")
    ]
    assert hazards("import chance\ndef f(s, e): chance.SEEN.append(1)", **others) == [
        ("app.py", 2, "globals")
    ]
    assert hazards("import chance\ndef f(s, e): chance.limit = 1", **others) == [("app.py", 2, "globals")]


def test_values_and_defaults_at_the_top_level_are_followed():
    source = """
import time, uuid, msgspec
START = time.time()
UNUSED = uuid.uuid4()

class Order(msgspec.Struct):
    id: str = msgspec.field(default_factory=uuid.uuid4)

def f(state: Order | None, event, seen=[]):
    seen.append(START)
"""
    assert hazards(source) == [("app.py", 3, "clock"), ("app.py", 7, "random"), ("app.py", 10, "globals")]


def test_a_closure_with_a_state_of_its_own_is_found():
    source = """
def counter():
    count = 0
    def add():
        nonlocal count
        count += 1
        return count
    return add

add = counter()
def f(state, event): return add()
"""
    assert hazards(source) == [("app.py", 5, "globals")]


def test_fields_that_are_sets_are_known():
    source = """
import msgspec
class Order(msgspec.Struct):
    tags: set[str]
    lines: list[str]

def f(state: Order | None, event):
    a = [tag for tag in state.tags]
    b = [line for line in state.lines]
    return a, b, sorted(state.tags)
"""
    assert hazards(source) == [("app.py", 8, "order")]


@pytest.mark.parametrize(
    ("line", "passes"),
    [
        ("    x = time.time()  # cellule: allow clock - only logged", True),
        ("    x = time.time()  # cellule: allow clock, random: only logged", True),
        ("    # cellule: allow clock (only logged)\n    x = time.time()", True),
        ("    x = f(\n        time.time(),  # cellule: allow clock - only logged\n    )", True),
        ("    x = time.time()  # cellule: allow clock", False),
        ("    x = time.time()  # cellule: allow random - wrong rule", False),
        ("    x = time.time()  # allow clock", False),
        ("    y = 1  # cellule: allow clock - wrong line\n    x = time.time()", False),
        ("    x = '# cellule: allow clock - a text', time.time()", False),
    ],
)
def test_a_line_passes_with_the_rule_and_a_reason(line, passes):
    assert (hazards(f"import time\ndef f(state, event):\n{line}\n") == []) is passes


def test_unknown_rules_allow_nothing():
    assert allowances("x = 1  # cellule: allow everything - please\n") == {1: set()}


def test_the_error_lists_each_place_with_what_to_use():
    source = b"import time, random\ndef f(state, event):\n    time.time()\n    return random.random()\n"
    with pytest.raises(Rejected) as caught:
        check_deterministic(make_bundle("app:f", {"app.py": source}, {}))
    text = str(caught.value)
    assert caught.value.code == "modules.nondeterministic"
    assert "app.py:3: time.time [clock]. Use ctx.now" in text
    assert "app.py:4: random.random [random]. Use ctx.random" in text
    assert "# cellule: allow" in text
    assert len(caught.value.fields["findings"]) == 2


def test_describing_runs_the_guard(import_app):
    from cellule.modules.python import describe

    source = """
    import time, msgspec
    class Hit(msgspec.Struct):
        by: int
    def f(state: int | None, event: Hit) -> int:
        return time.time_ns()
    """
    function = import_app({"app.py": source}, "app").f
    with pytest.raises(Rejected):
        describe(function, namespace="com.acme")
    assert describe(function, namespace="com.acme", guard=False).bundle is not None


def test_every_rule_says_what_to_use_instead():
    assert all(text.endswith(".") for text in INSTEAD.values())


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        ("", "total = 0\nfor x in set(event.names):\n    total += 1\nreturn total"),
        ("", "return sorted(set(event.names), key=lambda x: (len(x), x))"),
        ("", "return sorted(x for x in set(event.names))"),
        ("", "s = sorted(set(event.names))\nreturn f'{s}'"),
        ("", "return str(len(set(event.names)))"),
        ("", "return '%d' % len(set(event.names))"),
        ("def names(event):\n    return sorted({*event})", "return list(names(event))"),
        ("def names(event) -> list[str]:\n    return event", "return list(names(event))"),
        ("class K:\n    def __hash__(self):\n        return hash(1)", "return K()"),
    ],
)
def test_what_has_no_order_to_show_passes(before, statement):
    assert rules_of(statement, before) == set()
