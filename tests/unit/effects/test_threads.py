"""Blocking calls beside the loop: bounded, and apart from the loop's own threads."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from cellule.effects.header_text import header_key
from cellule.effects.http import transport
from cellule.effects.threads import Threads

MARK: ContextVar[str] = ContextVar("MARK", default="none")


async def test_so_many_run_at_once_and_the_rest_waits():
    threads, gate, running = Threads(2, "test"), threading.Event(), []
    loop, both = asyncio.get_running_loop(), asyncio.Event()

    def work(number):
        running.append(number)
        if len(running) == 2:
            loop.call_soon_threadsafe(both.set)
        gate.wait()
        return number

    tasks = [asyncio.create_task(threads.run(lambda each=each: work(each))) for each in range(6)]
    await both.wait()
    assert sorted(running) == [0, 1]
    gate.set()
    assert await asyncio.gather(*tasks) == list(range(6))


async def test_what_a_call_raises_is_raised_where_it_is_waited_for():
    def fail():
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await Threads(1, "test").run(fail)


async def test_a_call_sees_a_copy_of_the_callers_context():
    MARK.set("caller")

    def work():
        seen = MARK.get()
        MARK.set("thread")
        return seen

    assert await Threads(1, "test").run(work) == "caller"
    assert MARK.get() == "caller"


async def test_a_call_that_nobody_waits_for_any_more_never_begins():
    threads, gate, begun = Threads(1, "test"), threading.Event(), []
    first = asyncio.create_task(threads.run(gate.wait))
    await asyncio.sleep(0)
    second = asyncio.create_task(threads.run(lambda: begun.append(2)))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    gate.set()
    await first
    await threads.run(lambda: begun.append(3))
    assert begun == [3]


async def test_a_call_that_comes_as_a_thread_ends_begins_all_the_same(monkeypatch):
    """A thread that had nothing to do was counted as free until it was gone: the call never began."""
    monkeypatch.setattr("cellule.effects.threads.IDLE_S", 0.0)
    loop, ends, asked, left = asyncio.get_running_loop(), asyncio.Event(), threading.Event(), []

    class Watched(threading.Condition):
        def __exit__(self, *error):
            super().__exit__(*error)
            if threading.current_thread().name == "test":
                left.append(1)
                if len(left) == 3:  # it took a call, performed it, and found no other
                    loop.call_soon_threadsafe(ends.set)
                    asked.wait()

    threads = Threads(1, "test")
    threads._changed = Watched()
    assert await threads.run(lambda: 1) == 1
    await ends.wait()
    second = asyncio.create_task(threads.run(lambda: 2))
    await asyncio.sleep(0)
    asked.set()
    assert await asyncio.wait_for(second, 10) == 2


async def test_where_the_system_has_no_thread_left_the_call_fails_and_the_next_one_begins(monkeypatch):
    """The thread was counted although it never was: after as many, no call ever began again."""
    threads, start = Threads(1, "test"), threading.Thread.start

    def fail(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        await threads.run(lambda: 1)
    monkeypatch.setattr(threading.Thread, "start", start)
    assert await threads.run(lambda: 2) == 2


async def test_a_name_that_is_slow_keeps_nobody_from_the_loops_threads(monkeypatch):
    """Names were looked up on the loop's own threads, and all of them could be taken by slow ones."""
    gate, asked = threading.Event(), []
    loop, begun = asyncio.get_running_loop(), asyncio.Event()

    def slow(host, port, **_more):
        asked.append(threading.current_thread().name)
        loop.call_soon_threadsafe(begun.set)
        gate.wait()
        return [(2, 1, 6, "", ("10.0.0.1", port))]

    monkeypatch.setattr(transport.socket, "getaddrinfo", slow)
    names = [asyncio.create_task(transport.resolve_by_system(f"h{each}", 80)) for each in range(50)]
    await begun.wait()
    assert await asyncio.to_thread(lambda: "free") == "free"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await transport.resolve_by_system("late", 80)
    gate.set()
    assert await asyncio.gather(*names) == [["10.0.0.1"]] * 50
    assert {name for name in asked if not name.startswith("cellule-names")} == set()


@pytest.mark.parametrize(
    ("key", "header"),
    [("order-1", "order-1"), ("\u00e9", "utf-8''%C3%A9"), ("a\nb", "utf-8''a%0Ab"), (" a", "utf-8''%20a")],
)
def test_any_key_is_a_headers_value(key, header):
    assert header_key(key) == header
