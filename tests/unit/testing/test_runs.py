from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import suppress

import pytest

from cellule.errors import InvariantBroken, Rejected
from cellule.testing.runs import run


def test_an_exception_in_a_callback_fails_the_run():
    async def main():
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(10)

    with pytest.raises(InvariantBroken) as caught:
        run(main, seed=0)
    assert caught.value.code == "testing.unhandled_error"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_handler_set_by_the_code_under_test_takes_the_errors():
    async def main():
        taken = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: taken.append(type(context["exception"])))
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(10)
        return taken

    assert run(main, seed=0).result == [ZeroDivisionError]


async def fail():
    await asyncio.sleep(0)
    raise KeyError("lost")


def test_a_task_whose_exception_nobody_looks_at_fails_the_run():
    async def dropped():
        task = asyncio.create_task(fail())
        await asyncio.sleep(1)
        del task
        await asyncio.sleep(1)

    async def kept():
        kept.task = asyncio.create_task(fail())
        await asyncio.sleep(1)

    for main in (dropped, kept):
        with pytest.raises(InvariantBroken) as caught:
            run(main, seed=0)
        assert caught.value.code == "testing.unhandled_error"
        assert isinstance(caught.value.__cause__, KeyError)


def test_a_future_whose_exception_nobody_looks_at_fails_the_run():
    async def main():
        future = asyncio.get_running_loop().create_future()
        future.set_exception(KeyError("lost"))
        cycle = [future]
        cycle.append(cycle)

    with pytest.raises(InvariantBroken) as caught:
        run(main, seed=0)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_coroutine_that_is_never_awaited_fails_the_run():
    async def main():
        fail()

    with pytest.raises(InvariantBroken) as caught:
        run(main, seed=0)
    assert "never awaited" in str(caught.value)


def test_an_error_in_a_finalizer_fails_the_run():
    class Broken:
        def __del__(self):
            raise KeyError("late")

    async def main():
        Broken()
        await asyncio.sleep(1)

    with pytest.raises(InvariantBroken) as caught:
        run(main, seed=0)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_task_that_is_dropped_while_it_waits_fails_the_run():
    async def forever():
        await asyncio.get_running_loop().create_future()

    async def main():
        asyncio.create_task(forever())  # noqa: RUF006
        await asyncio.sleep(1)
        gc.collect()
        await asyncio.sleep(1)

    with pytest.raises(InvariantBroken) as caught:
        run(main, seed=0)
    assert "pending" in str(caught.value)


def test_what_main_raises_is_raised_with_notes_of_what_else_was_lost():
    async def main():
        task = asyncio.create_task(fail())
        await asyncio.sleep(1)
        raise ValueError(task.get_name())

    with pytest.raises(ValueError, match="Task-1") as caught:
        run(main, seed=0)
    assert any("KeyError" in note for note in caught.value.__notes__)


def test_what_is_left_at_the_end_is_cancelled_in_order_of_creation():
    ended = []

    async def wait(number):
        try:
            await asyncio.sleep(1_000)
        finally:
            ended.append(number)

    async def main():
        main.tasks = [asyncio.create_task(wait(number)) for number in range(5)]
        await asyncio.sleep(1)

    run(main, seed=None)
    assert ended == [0, 1, 2, 3, 4]
    assert all(task.cancelled() for task in main.tasks)


def test_a_task_that_does_not_end_when_cancelled_fails_the_run():
    async def stubborn():
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()

    async def main():
        main.task = asyncio.create_task(stubborn())
        await asyncio.sleep(1)

    with pytest.raises(InvariantBroken) as caught:
        run(main, seed=0)
    assert "did not end" in str(caught.value)


def test_an_abandoned_generator_is_closed_by_a_task_of_the_loop():
    async def main():
        closed = []

        async def numbers():
            try:
                while True:
                    yield 1
            finally:
                await asyncio.sleep(0)
                closed.append(asyncio.current_task() is not None)

        async for _ in numbers():
            break
        await asyncio.sleep(1)
        return closed

    assert run(main, seed=0).result == [True]


def test_generators_still_alive_at_the_end_are_closed_in_order():
    closed = []

    async def numbers(name):
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            closed.append(name)

    async def main():
        main.kept = [numbers(name) for name in range(6)]
        for generator in main.kept:
            await anext(generator)

    run(main, seed=4)
    assert closed == list(range(6))


def test_a_run_inside_another_loop_is_refused():
    async def main():
        run(main, seed=0)

    with pytest.raises(Rejected) as caught:
        run(main, seed=0)
    assert caught.value.code == "testing.loop_nested"


def test_a_keyboard_interrupt_leaves_at_once_and_restores_the_process():
    hook, collects = sys.unraisablehook, gc.isenabled()

    async def main():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(main, seed=0)
    assert sys.unraisablehook is hook
    assert gc.isenabled() == collects
    assert asyncio._get_running_loop() is None


def test_tasks_started_while_the_run_ends_are_ended_too():
    ended = []

    async def second():
        ended.append("never started")

    async def first():
        try:
            await asyncio.sleep(1_000)
        finally:
            ended.append(asyncio.create_task(second()))

    async def main():
        main.task = asyncio.create_task(first())
        await asyncio.sleep(1)

    run(main, seed=0)
    assert len(ended) == 1
    assert ended[0].cancelled()


def test_the_collector_does_not_run_in_the_middle_of_a_run():
    """A generator abandoned inside a cycle was closed at a step that depended on earlier allocations."""

    async def main():
        closed_after = []

        async def numbers():
            try:
                while True:
                    yield 1
            finally:
                closed_after.append(step)

        for step in range(60):  # noqa: B007 - the generator's finalizer reads it
            generator = numbers()
            await anext(generator)
            cycle = [generator]
            cycle.append(cycle)
            del generator, cycle
            _ = [[] for _ in range(100)]
            await asyncio.sleep(0)
        return list(closed_after)

    threshold = gc.get_threshold()
    gc.set_threshold(50, 1, 1)
    try:
        assert run(main, seed=0).result == []
    finally:
        gc.set_threshold(*threshold)
