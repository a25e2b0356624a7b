from __future__ import annotations

import gc
import random
import sys
import time
from datetime import datetime

import pytest

from cellule.kernel.program import StepFault
from cellule.modules.python.runtime_guard import runtime_guard

SOURCE = """
import datetime, os, pathlib, random, secrets, socket, subprocess, threading, uuid
from random import randint
from time import sleep, time
from shop.models import Order, Placed

def tries(function):
    try:
        function()
    except Exception:
        pass

ACTS = {
    "time": lambda: time(),
    "sleep": lambda: sleep(0),
    "now": lambda: datetime.datetime.now(datetime.UTC),
    "utcnow": lambda: datetime.datetime.today(),
    "today": lambda: datetime.date.today(),
    "random": lambda: random.random(),
    "randint": lambda: randint(1, 6),
    "unseeded": lambda: random.Random().random(),
    "shuffle": lambda: random.shuffle([1, 2]),
    "uuid4": lambda: uuid.uuid4(),
    "uuid1": lambda: uuid.uuid1(),
    "secrets": lambda: secrets.token_hex(),
    "urandom": lambda: os.urandom(4),
    "environ": lambda: os.environ["PATH"],
    "getenv": lambda: os.getenv("PATH"),
    "in environ": lambda: list(os.environ),
    "open": lambda: open("/etc/hosts"),
    "read_text": lambda: pathlib.Path("/etc/hosts").read_text(),
    "exists": lambda: pathlib.Path("/etc/hosts").exists(),
    "listdir": lambda: os.listdir("/"),
    "socket": lambda: socket.socket(),
    "connect": lambda: socket.create_connection(("127.0.0.1", 9)),
    "run": lambda: subprocess.run(["true"]),
    "system": lambda: os.system("true"),
    "thread": lambda: threading.Thread(target=print).start(),
    "swallowed": lambda: tries(time),
    "seeded": lambda: random.Random(5).random(),
    "typed": lambda: uuid.UUID(int=1),
    "fixed": lambda: datetime.datetime.fromtimestamp(5, datetime.UTC),
    "import": lambda: __import__("colorsys"),
    "print": lambda: print("x"),
    "getppid": lambda: os.getppid(),
    "hash": lambda: hash("x"),
    "id": lambda: id("x"),
    "hashed": lambda: {Keyed(): 1},
}

class Keyed:
    def __hash__(self):
        return hash("x")

def order(state: Order | None, event: Placed) -> Order:
    ACTS[event.order_id]()
    return Order(event.order_id)
"""
RULES = {
    "clock": ["time", "sleep", "now", "utcnow", "today", "swallowed"],
    "random": ["random", "randint", "unseeded", "shuffle", "uuid4", "uuid1", "secrets", "urandom"],
    "environment": ["environ", "getenv", "in environ", "getppid"],
    "identity": ["hash", "id"],
    "files": ["open", "read_text", "exists", "listdir"],
    "network": ["socket", "connect"],
    "process": ["run", "system", "thread"],
}
ALLOWED = ["seeded", "typed", "fixed", "import", "print", "hashed"]


def test_whatever_cannot_be_repeated_fails_the_step_and_the_rest_passes(load_app):
    loaded = load_app(SOURCE, guard=False, guarded=True)
    for rule, acts in RULES.items():
        for act in acts:
            with pytest.raises(StepFault) as caught:
                loaded.step("Placed", order_id=act, amount=1)
            assert caught.value.code == "modules.nondeterministic", act
            assert f"[{rule}]" in caught.value.text, act
            assert act == "swallowed" or "shop/orders.py:" in caught.value.text, act
    for act in ALLOWED:
        assert loaded.state("Placed", order_id=act, amount=1)["order_id"] == act


def test_the_guard_leaves_everything_as_it_was():
    def profile(*_): ...

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        with runtime_guard():
            pass
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(before)
    assert time.time() > 0
    assert random.random() < 1
    assert datetime.now().astimezone().year > 2000


def test_a_guard_that_found_something_is_over_afterwards():
    with pytest.raises(StepFault), runtime_guard():
        time.time()
    assert sys.getprofile() is None or not type(sys.getprofile()).__module__.startswith("cellule")
    assert time.time() > 0


def test_other_errors_pass_the_guard():
    with pytest.raises(ZeroDivisionError), runtime_guard():
        _ = 1 / 0


def test_a_collection_of_garbage_inside_a_step_is_not_the_steps_doing():
    """A callback of the collector that reads a clock made a harmless step fail."""
    looked = []

    def look(phase, info):
        looked.append(time.time())

    gc.callbacks.append(look)
    try:
        with runtime_guard():
            assert len([[] for _ in range(20_000)]) == 20_000
    finally:
        gc.callbacks.remove(look)
    assert gc.isenabled()
