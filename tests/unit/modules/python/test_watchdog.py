from __future__ import annotations

import gc
import threading
import weakref

import pytest

from cellule.kernel.program import StepFault
from cellule.modules.python.runtime_guard import runtime_guard
from cellule.modules.python.watchdog import StepTimeout, Watchdog

HEAD = "from shop.models import Order, Placed\n"


def order(body):
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{HEAD}\ndef order(state: Order | None, event: Placed) -> Order:\n{lines}\n"


def test_a_step_that_never_ends_is_stopped_and_says_where(load_app):
    loaded = load_app(order("while event.amount: pass\nreturn Order('o')"), limit_s=0.2)
    for _ in range(2):
        with pytest.raises(StepFault) as caught:
            loaded.step("Placed", order_id="o", amount=1)
        assert caught.value.code == "modules.timed_out"
        assert caught.value.timed_out
        assert (
            caught.value.text == "the step ran longer than 0.2 s and was stopped (shop/orders.py:5 in order)"
        )
    assert loaded.state("Placed", order_id="o", amount=0)["order_id"] == "o"


def test_a_step_that_swallows_everything_is_struck_until_it_ends_and_has_timed_out(load_app):
    body = """
count = 0
while count < 3:
    try:
        while True: pass
    except BaseException:
        count += 1
return Order('o')"""
    loaded = load_app(order(body), limit_s=0.1)
    with pytest.raises(StepFault) as caught:
        loaded.step("Placed", order_id="o", amount=1)
    assert caught.value.timed_out


def test_a_step_that_turns_the_timeout_into_an_error_has_timed_out(load_app):
    body = """
try:
    while True: pass
except BaseException:
    raise ValueError("mine")"""
    loaded = load_app(order(body), limit_s=0.1)
    with pytest.raises(StepFault) as caught:
        loaded.step("Placed", order_id="o", amount=1)
    assert caught.value.timed_out


def test_nothing_strikes_outside_of_a_call():
    """Calls that last about as long as the limit end in every possible order with the watchdog's strike."""
    watchdog = Watchdog(limit_s=0.01)
    watched = watchdog.join()
    struck = 0
    for _ in range(40):
        try:
            watched.token = watched.count = watched.count + 1
            for _ in range(150_000):
                pass
            watched.token = 0
            if watched.firing and watched.leave():
                struck += 1
        except StepTimeout:
            watched.leave()
            struck += 1
        for _ in range(2_000):
            assert watched.token == 0
    watchdog.close()
    assert watched.firing == 0


def test_a_strike_on_its_way_arrives_before_the_call_ends():
    watchdog = Watchdog(limit_s=None)
    watched = watchdog.join()
    watched.token = watched.count = 1
    thread = threading.Thread(target=_strike, args=(watched, 1))
    try:
        thread.start()
        thread.join()
        arrived = watched.leave()
    except StepTimeout:
        arrived = watched.leave()
    assert arrived
    assert watched.leave() is False


def test_calls_can_be_traced_after_a_strike():
    """Raising null to take an exception back left CPython's mark set: a traced call never ended."""
    watchdog = Watchdog(limit_s=None)
    watched = watchdog.join()
    for count in range(1, 20):
        try:
            watched.token = watched.count = count
            thread = threading.Thread(target=_strike, args=(watched, count))
            thread.start()
            thread.join()
        except StepTimeout:
            pass
        watched.leave()
    with runtime_guard():
        assert _strike.__name__ == "_strike"
        assert _called() == 1


def _called():
    return 1


def _strike(watched, token):
    watched.strike(token)


def test_a_strike_at_a_call_that_has_ended_does_nothing():
    watchdog = Watchdog(limit_s=None)
    watched = watchdog.join()
    watched.token = watched.count = 2
    watched.strike(1)
    assert watched.firing == 0
    watched.token = 0
    watched.strike(2)
    assert watched.leave() is False


def test_threads_are_watched_apart(load_app):
    loaded = load_app(order("while event.amount: pass\nreturn Order('o')"), limit_s=0.2)
    outcomes = {}
    begun = threading.Event()

    def run(name, amount):
        begun.set()
        try:
            outcomes[name] = loaded.state("Placed", order_id="o", amount=amount)["order_id"]
        except StepFault as fault:
            outcomes[name] = fault.code

    long = threading.Thread(target=run, args=("long", 1))
    long.start()
    assert begun.wait(10)
    run("short", 0)
    long.join()
    assert outcomes == {"short": "o", "long": "modules.timed_out"}


def test_no_limit_needs_no_thread():
    watchdog = Watchdog(limit_s=None)
    watchdog.join()
    assert watchdog._thread is None
    watchdog.close()


def test_a_watchdog_that_is_forgotten_ends_its_thread():
    watchdog = Watchdog(limit_s=0.05)
    watchdog.join()
    thread = watchdog._thread
    assert thread.is_alive()
    gone = weakref.ref(watchdog)
    del watchdog
    gc.collect()
    assert gone() is None
    thread.join(10)
    assert not thread.is_alive()
