"""Whatever the author's objects do where they are touched, the step fails, and only the step."""

from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

from cellule.kernel.program import StepFault

HEAD = """
from typing import Any
import msgspec
from cellule.kernel.program import StepFault
from cellule.modules.python import Keyed, Step
from cellule.values.requests import Request
from shop.models import Order, Placed, Shipped
"""
EXCEPTIONS = {
    "exits": ("raise SystemExit(3)", "SystemExit"),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "generator": ("raise GeneratorExit", "GeneratorExit"),
    "group": ("raise BaseExceptionGroup('g', [SystemExit()])", "BaseExceptionGroup"),
    "itself": ("raise self", "Bad"),
    "no text": ("return 5", "TypeError"),
    "recursive": ("return str(self)", "RecursionError"),
}


def failure(loaded, **fields):
    with pytest.raises(StepFault) as caught:
        loaded.step("Placed", **{"order_id": "o", "amount": 1, **fields})
    fault = caught.value
    assert (type(fault.code), type(fault.text)) == (str, str)
    assert loaded.state("Placed", order_id="o", amount=0)["order_id"] == "o"
    return fault


def order(body, above=""):
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return (
        f"{HEAD}\n{above}\n"
        "def order(state: Order | None, event: Placed) -> Step[Order] | Order:\n"
        f"    if not event.amount: return Order('o')\n{lines}\n"
    )


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_an_exception_whose_text_cannot_be_made_fails_the_step(load_app, name):
    body, why = EXCEPTIONS[name]
    above = f"class Bad(Exception):\n    def __str__(self):\n        {body}\n"
    fault = failure(load_app(order("raise Bad()", above)))
    assert fault.code == "modules.exception"
    assert fault.text.startswith(f"Bad: its text cannot be read ({why}) (shop/orders.py:")


def test_an_exception_whose_text_is_never_made_is_stopped(load_app):
    above = "class Bad(Exception):\n    def __str__(self):\n        while True: pass\n"
    fault = failure(load_app(order("raise Bad()", above), limit_s=0.2))
    assert (fault.code, fault.timed_out) == ("modules.timed_out", True)
    assert "in order)" in fault.text


HOSTILE_TEXT = """
class Text(str):
    def __getitem__(self, at): raise SystemExit
    def __str__(self): raise SystemExit
    def __len__(self): raise SystemExit
    def __format__(self, spec): raise SystemExit
    def __bool__(self): raise SystemExit
    def encode(self, *given): return 5
    def __hash__(self): return str.__hash__(self)
    def __eq__(self, other): return str.__eq__(self, other)


class Data(bytes):
    def __len__(self): raise SystemExit


class Bad(Exception):
    def __str__(self): return Text("mine")
"""


def test_a_text_that_is_no_plain_text_is_copied(load_app):
    fault = failure(load_app(order("raise Bad()", HOSTILE_TEXT)))
    assert fault.text.startswith("Bad: mine (shop/orders.py:")


CLASSES = {
    "class": "class Bad(Exception):\n    @property\n    def __class__(self): raise SystemExit",
    "traceback": "class Bad(Exception):\n    @property\n    def __traceback__(self): raise SystemExit",
    "metaclass": (
        "class Meta(type):\n    def __getattribute__(cls, name): raise SystemExit\n"
        "    def __hash__(cls): raise SystemExit\n"
        "class Bad(Exception, metaclass=Meta):\n    pass"
    ),
}


@pytest.mark.parametrize("name", CLASSES)
def test_attributes_of_an_exception_are_not_believed(load_app, name):
    fault = failure(load_app(order("raise Bad('why')", CLASSES[name])))
    assert fault.text.startswith("Bad: why (shop/orders.py:")


RAISED = ["SystemExit(3)", "GeneratorExit()", "KeyboardInterrupt()", "BaseException('b')"]


@pytest.mark.parametrize("raised", RAISED)
def test_whatever_a_step_raises_is_its_failure(load_app, raised):
    fault = failure(load_app(order(f"raise {raised}")))
    assert fault.code == "modules.exception"
    assert fault.text.startswith(raised.partition("(")[0])


THROWN = """
def waiting():
    yield
made = waiting()
{first}made.throw(KeyboardInterrupt)
"""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="a signal may arrive there, too")
@pytest.mark.parametrize("first", ["", "next(made)\n"])
def test_an_interrupt_that_the_code_throws_into_a_generator_is_its_failure(load_app, first):
    """It ended the node, and where it came from a durable event, every time it was started again."""
    fault = failure(load_app(order(THROWN.format(first=first).strip())))
    assert fault.code == "modules.exception"
    assert fault.text.startswith("KeyboardInterrupt (shop/orders.py:")


def test_a_signal_is_no_outcome_of_a_step(load_app):
    """It is told from an exception that code raises by where it comes from."""
    loaded = load_app(order("while True: pass"))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            loaded.step("Placed", order_id="o", amount=1)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_a_fault_that_the_code_makes_up_is_an_exception(load_app):
    for made in ("'kernel.code_unavailable', 'x'", "5, 6", "'modules.a', []"):
        assert failure(load_app(order(f"raise StepFault({made})"))).code == "modules.exception"


ANSWERS = {
    "equality": "class Odd:\n    def __eq__(self, other): raise SystemExit\nreturn Odd()",
    "class": "class Odd:\n    @property\n    def __class__(self): raise SystemExit\nreturn Odd()",
    "attribute": "class Odd:\n    def __getattribute__(self, name): raise SystemExit\nreturn Odd()",
    "repr": "class Odd:\n    def __repr__(self): raise SystemExit\nreturn Order('o', Odd())",
    "list": "class Odd(list):\n    def __iter__(self): raise SystemExit\nreturn Order('o', 1, Odd())",
    "emit": (
        "class Odd(list):\n    def __iter__(self): raise SystemExit\nreturn Step(Order('o'), emit=Odd([1]))"
    ),
    "truth": (
        "class Odd(list):\n    def __bool__(self): raise SystemExit\nreturn Step(Order('o'), emit=Odd())"
    ),
    "hash": (
        "class Odd(str):\n    def __hash__(self): raise SystemExit\n"
        "return Step(Order('o'), effects=[Request(Odd('http.request'))])"
    ),
    "reply": "class Odd:\n    def __repr__(self): raise SystemExit\nreturn Step(Order('o'), reply=Odd())",
    "ann": "class Odd(dict):\n    def items(self): raise SystemExit\nreturn Step(Order('o'), ann={1: Odd()})",
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_cannot_be_read_fails_the_step(load_app, name):
    assert failure(load_app(order(ANSWERS[name]))).code.startswith("modules.")


@pytest.mark.parametrize("method", ["__repr__", "__getattribute__"])
def test_an_answer_that_is_never_read_is_stopped(load_app, method):
    body = f"class Odd:\n    def {method}(self, *given):\n        while True: pass\nreturn Order('o', Odd())"
    assert failure(load_app(order(body), limit_s=0.2)).timed_out


def test_what_leaves_a_step_is_bytes_and_text_of_our_own(load_app):
    body = """
keys = [Text("k"), Data(b"d")]
emit = [Keyed(Placed("o", 0), key) for key in keys]
return Step(Order(Text("o")), emit=emit, reply=Text("r"), ann=[Data(b"a")])"""
    output = load_app(order(body, HOSTILE_TEXT)).step("Placed", order_id="o", amount=1)
    assert [type(output.state), type(output.reply), type(output.ann)] == [bytes] * 3
    assert [(type(event.value), event.key, type(event.key)) for event in output.events] == [
        (bytes, b"k", bytes), (bytes, b"d", bytes),
    ]  # fmt: skip


def test_a_hook_that_reads_an_event_fails_the_step(load_app):
    """A KeyError there was told as an event that the module does not take."""
    above = """
class Opened(msgspec.Struct):
    order_id: str
    amount: int
    def __post_init__(self):
        if self.amount: raise KeyError("hook")
"""
    source = order("return Order('o')", above).replace("event: Placed", "event: Opened")
    loaded = load_app(source)
    with pytest.raises(StepFault) as caught:
        loaded.step("Opened", order_id="o", amount=1)
    assert caught.value.code != "modules.event_not_taken"
    assert "hook" in caught.value.text
