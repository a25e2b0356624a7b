from __future__ import annotations

import asyncio
import contextvars
import math
import signal
import sys
from contextlib import suppress

import pytest

from cellule.errors import InvariantBroken, Rejected
from cellule.testing.loop import DeterministicLoop
from cellule.testing.refusals import REFUSED
from cellule.testing.runs import attempt, run


def order_of(seed, count=6):
    async def main():
        seen = []

        async def step(number):
            seen.append(number)
            await asyncio.sleep(0)
            seen.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(step(number))
        return seen

    return run(main, seed=seed)


def test_without_a_seed_callbacks_run_first_in_first_out():
    assert order_of(None).result == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]


def test_a_seed_decides_the_order_and_the_digest():
    first, again, other = order_of(1), order_of(1), order_of(2)
    assert first == again
    assert first.result != other.result
    assert first.digest != other.digest


def test_seeds_reach_every_order_of_three_tasks():
    orders = {tuple(dict.fromkeys(order_of(seed, 3).result)) for seed in range(100)}
    assert len(orders) == 6


def test_a_newly_ready_callback_may_overtake_an_older_one():
    assert any(order_of(seed, 2).result[:2] in ([0, 0], [1, 1]) for seed in range(50))


def test_virtual_time_jumps_to_the_next_timer():
    async def main():
        loop = asyncio.get_running_loop()
        await asyncio.sleep(3_600)
        await asyncio.sleep(0.1)
        await asyncio.sleep(0.2)
        return loop.time()

    done = run(main, seed=None)
    assert done.now_ns == 3_600_300_000_000
    assert done.result == 3600.3


def test_timers_fire_in_the_order_of_their_times_whatever_the_seed():
    async def main():
        fired = []
        loop = asyncio.get_running_loop()
        for delay in (3, 1, 2):
            loop.call_later(delay, fired.append, delay)
        loop.call_at(loop.time() + 2.5, fired.append, 2.5)
        await asyncio.sleep(4)
        return fired

    assert all(run(main, seed=seed).result == [1, 2, 2.5, 3] for seed in range(20))


def test_timers_of_the_same_moment_tie_in_seeded_order():
    async def main():
        fired = []
        for number in range(4):
            asyncio.get_running_loop().call_later(1, fired.append, number)
        await asyncio.sleep(2)
        return fired

    assert run(main, seed=None).result == [0, 1, 2, 3]
    orders = {tuple(run(main, seed=seed).result) for seed in range(60)}
    assert len(orders) > 10


def test_a_loop_that_waits_for_the_rest_of_its_time_ends():
    async def main():
        loop = asyncio.get_running_loop()
        deadline = 0.1 + 0.2 + 1e-11
        while (left := deadline - loop.time()) > 0:  # noqa: ASYNC110 - what is tested
            await asyncio.sleep(left)
        return loop.time() >= deadline

    assert run(main, seed=0, steps_max=100).result


def test_a_timer_at_infinity_never_fires_and_is_no_reason_to_wait():
    async def main():
        asyncio.get_running_loop().call_later(math.inf, lambda: None)
        await asyncio.get_running_loop().create_future()

    with pytest.raises(InvariantBroken) as caught:
        run(main, seed=0)
    assert caught.value.code == "testing.deadlock"


def test_cancelled_timers_neither_fire_nor_pile_up():
    async def main():
        loop = asyncio.get_running_loop()
        for _ in range(2_000):
            loop.call_later(1_000, lambda: 1 / 0).cancel()
        left = len(loop._schedule._timers)
        await asyncio.sleep(1)
        return left, loop.time()

    left, now = run(main, seed=0).result
    assert left < 300
    assert now == 1


def test_a_deadlock_names_every_waiting_task_and_where_it_waits():
    async def consumer(queue):
        await queue.get()

    async def main():
        event = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(consumer(asyncio.Queue()), name="eater")
            group.create_task(event.wait())

    with pytest.raises(InvariantBroken) as caught:
        run(main, seed=5)
    text = str(caught.value)
    assert caught.value.code == "testing.deadlock"
    assert "3 tasks wait" in text
    assert "eater" in text
    assert "consumer (test_loop.py:" in text
    assert "Queue.get (queues.py:" in text
    assert "Event.wait (locks.py:" in text


def test_a_loop_that_never_waits_is_stopped():
    async def main():
        while True:  # noqa: ASYNC110 - what is tested
            await asyncio.sleep(0)

    with pytest.raises(InvariantBroken) as caught:
        run(main, seed=0, steps_max=500)
    assert caught.value.code == "testing.runaway"
    assert caught.value.fields["steps"] == 500


@pytest.mark.parametrize("name", " ".join(REFUSED.values()).split())
def test_what_no_seed_decides_is_refused(name):
    async def main():
        getattr(asyncio.get_running_loop(), name)(None, None)

    with pytest.raises(Rejected) as caught:
        run(main, seed=0)
    assert caught.value.code == "testing.not_deterministic"
    assert name in str(caught.value)


def test_threads_signals_and_subprocesses_are_refused_through_the_public_functions():
    async def use_thread():
        await asyncio.to_thread(lambda: None)

    async def use_signal():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)

    async def use_process():
        await asyncio.create_subprocess_exec("true")

    async def use_socket():
        await asyncio.open_connection("127.0.0.1", 9)

    for main in (use_thread, use_signal, use_process, use_socket):
        with pytest.raises(Rejected):
            run(main, seed=0)


def test_every_method_of_the_abstract_loop_is_implemented_or_refused():
    missing = [
        name
        for name, method in vars(asyncio.AbstractEventLoop).items()
        if callable(method) and getattr(DeterministicLoop, name) is method and not name.startswith("__")
    ]
    assert missing == []


def test_a_foreign_task_factory_is_refused():
    async def main():
        asyncio.get_running_loop().set_task_factory(lambda loop, coro: asyncio.Task(coro, loop=loop))

    with pytest.raises(Rejected):
        run(main, seed=0)


def test_coroutines_given_to_as_completed_are_refused_and_tasks_are_not():
    async def number(value):
        await asyncio.sleep(value)
        return value

    async def tasks():
        made = [asyncio.create_task(number(value)) for value in (3, 1, 2)]
        return [await done for done in asyncio.as_completed(made)]

    async def coroutines():
        made = [number(value) for value in (3, 1, 2)]
        try:
            for done in asyncio.as_completed(made):
                await done
        finally:
            for coroutine in made:
                coroutine.close()

    assert run(tasks, seed=3).result == [1, 2, 3]
    with pytest.raises(Rejected) as caught:
        run(coroutines, seed=3)
    assert caught.value.code == "testing.as_completed"


def test_tasks_and_futures_hash_by_creation_number_from_zero():
    async def main():
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(asyncio.sleep(0)) for _ in range(3)]
        futures = [loop.create_future() for _ in range(3)]
        await asyncio.gather(*tasks)
        return [hash(task) for task in tasks], [hash(future) for future in futures], tasks[0].get_name()

    tasks, futures, name = run(main, seed=0).result
    assert tasks == [1, 2, 3]
    assert futures == [0, 1, 2]
    assert name == "Task-1"
    assert run(main, seed=0).result == (tasks, futures, name)


def test_a_task_group_cancels_in_the_same_order_in_every_run():
    """A set of plain tasks is ordered by memory address: siblings were cancelled in a new order each run."""

    async def main():
        cancelled = []

        async def child(number):
            try:
                await asyncio.sleep(1_000)
            except asyncio.CancelledError:
                cancelled.append(number)
                raise

        async def fail():
            await asyncio.sleep(1)
            raise KeyError

        with suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for number in range(40):
                    group.create_task(child(number))
                group.create_task(fail())
        return cancelled

    ballast = []
    orders = set()
    for _ in range(10):
        ballast.append([object() for _ in range(len(ballast) * 7)])
        orders.add(tuple(run(main, seed=None).result))
    assert len(orders) == 1
    assert sorted(next(iter(orders))) == list(range(40))


def test_a_seed_replays_after_a_hundred_other_runs():
    first = order_of(77)
    for seed in range(100):
        order_of(seed)
    assert order_of(77) == first


def test_context_variables_follow_tasks_and_callbacks():
    variable = contextvars.ContextVar("variable", default="none")

    async def child():
        await asyncio.sleep(0)
        return variable.get()

    async def main():
        variable.set("outer")
        task = asyncio.create_task(child())
        variable.set("changed")
        seen = []
        asyncio.get_running_loop().call_soon(lambda: seen.append(variable.get()))
        context = contextvars.copy_context()
        context.run(variable.set, "given")
        given = asyncio.get_running_loop().create_task(child(), context=context)
        return await task, await given, seen

    assert run(main, seed=2).result == ("outer", "given", ["changed"])


async def fail():
    await asyncio.sleep(0)
    raise KeyError("lost")


async def exercise():
    """Use every tool of asyncio that Cellule uses, and return what happened."""
    log = []
    queue, lock, semaphore, condition = (
        asyncio.Queue(2),
        asyncio.Lock(),
        asyncio.Semaphore(2),
        asyncio.Condition(),
    )
    ready = asyncio.Event()

    async def producer(name):
        async with semaphore:
            for number in range(3):
                await queue.put((name, number))
                await asyncio.sleep(number)

    async def consumer():
        for _ in range(9):
            async with lock:
                log.append(await queue.get())
            queue.task_done()
        ready.set()
        async with condition:
            condition.notify_all()

    async def waiter():
        async with condition:
            await condition.wait_for(ready.is_set)
        log.append("notified")

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(producer(name))
        group.create_task(consumer())
        group.create_task(waiter())
    await queue.join()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await asyncio.sleep(5)
    async with asyncio.timeout_at(asyncio.get_running_loop().time() + 5):
        log.append(await asyncio.shield(asyncio.sleep(2, "shielded")))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.sleep(5), 1)
    log.append(await asyncio.wait_for(asyncio.sleep(1, "waited"), 5))
    done, pending = await asyncio.wait(
        [asyncio.create_task(asyncio.sleep(delay, delay)) for delay in (1, 2, 3)],
        return_when=asyncio.FIRST_COMPLETED,
    )
    log.append((len(done), len(pending)))
    log.append(await asyncio.gather(*pending, fail(), return_exceptions=True))
    return [repr(entry) for entry in log]


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_the_tools_of_asyncio_work_and_replay(seed):
    first, again = run(exercise, seed=seed), run(exercise, seed=seed)
    assert first == again
    assert "'notified'" in first.result
    assert "(1, 2)" in first.result


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks arrived in Python 3.12")
def test_eager_tasks_start_at_once_and_keep_their_numbers():
    async def main():
        log = []

        async def child(number):
            log.append(number)
            await asyncio.sleep(0)
            log.append(number)

        tasks = [asyncio.create_task(child(number)) for number in range(3)]
        started = list(log)
        await asyncio.gather(*tasks)
        return started, [hash(task) for task in tasks], asyncio.get_running_loop().get_task_factory()

    started, hashes, factory = run(main, seed=1, eager=True).result
    assert started == [0, 1, 2]
    assert hashes == [1, 2, 3]
    assert factory is asyncio.eager_task_factory
    assert run(exercise, seed=1, eager=True) == run(exercise, seed=1, eager=True)


def test_a_trace_has_one_line_a_step_and_no_addresses():
    done = attempt(exercise, seed=1, traced=True)
    assert done.error is None
    assert len(done.trace) == done.run.steps
    assert not any("0x" in line for line in done.trace)


def test_run_forever_ends_with_stop():
    loop = DeterministicLoop(0)
    loop.call_later(5, loop.stop)
    loop.run_forever()
    assert loop.time() == 5
    assert not loop.is_running()
    loop.close()
    assert loop.is_closed()
    with pytest.raises(RuntimeError):
        loop.call_soon(print)


def test_the_loop_serves_an_asyncio_runner():
    with asyncio.Runner(loop_factory=lambda: DeterministicLoop(3)) as runner:
        assert runner.run(asyncio.sleep(5, "first")) == "first"
        assert runner.run(exercise())[0].startswith("(")
        assert runner.get_loop().time() > 5
