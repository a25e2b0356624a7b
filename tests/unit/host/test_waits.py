"""`wait_until`, `wait_idle` and `send(timeout=)`: woken by the journal, on the owner and on a guest."""

from __future__ import annotations

import asyncio

import pytest

from cellule.errors import OutcomeUnknown, Rejected, StepFailed, TimedOut
from cellule.testing import VirtualClock
from tests.support.virtual_tests import in_virtual_time


def on_both(on_node, work):
    """Run `work(owner, reader)` with the owner's handle as the reader, and with a guest's."""

    async def main(opened):
        clock = VirtualClock()
        async with opened(clock=clock) as node, opened(owner=False, clock=clock) as other:
            owner = await node.world("w")
            for number, reader in enumerate((owner, await other.world("w"))):
                await work(owner, reader, f"a{number}")

    on_node(main)


def test_a_cell_is_waited_for_by_an_expression(on_node, tally):
    async def work(owner, reader, key):
        waiting = asyncio.create_task(reader.cell(tally.account, key).wait_until("state.total >= 3"))
        for _ in range(3):
            assert not waiting.done()
            await owner.send(tally.Add(key, 1))
        assert await waiting == tally.Account(3, 3)
        again = await reader.cell(tally.account, key).wait_until("version == 3", timeout=1)
        assert again == tally.Account(3, 3)

    on_both(on_node, work)


def test_a_cell_is_waited_for_by_a_function_of_its_state(on_node, tally):
    async def work(owner, reader, key):
        seen = []

        def enough(state):
            seen.append(state)
            return state is not None and state.count == 2

        waiting = asyncio.create_task(reader.cell(tally.account, key).wait_until(enough))
        await owner.send(tally.Add("other", 1))
        await owner.send(tally.Add("other", 1))
        await owner.send_many([tally.Add(key, 5), tally.Add(key, 6)])
        assert await waiting == tally.Account(11, 2)
        assert seen[0] is None
        assert len(seen) <= 3, "it is asked only when the cell has changed"

    on_both(on_node, work)


def test_the_end_of_a_cell_is_waited_for(on_node, tally):
    async def work(owner, reader, key):
        await owner.send(tally.Poke(key))
        assert await reader.cell(tally.brief, key).wait_until(lambda state: state is None) is None

    on_both(on_node, work)


def test_a_wait_that_takes_too_long_names_the_cell_and_its_last_state(on_node, tally):
    async def work(owner, reader, key):
        await owner.send(tally.Add(key, 7))
        with pytest.raises(TimedOut) as error:
            await reader.cell(tally.account, key).wait_until("state.total > 7", timeout=2)
        assert error.value.code == "host.wait_timeout"
        assert error.value.fields["state"] == tally.Account(7, 1)
        for part in ("state.total > 7", f"tally/account/{key}", "world w", "2 s", "Account(total=7"):
            assert part in str(error.value)
        with pytest.raises(TimedOut, match="does not exist"):
            await reader.cell(tally.account, "nobody").wait_until("state.total > 7", timeout=2)
        with pytest.raises(TimedOut, match="zero"):
            await reader.cell(tally.account, key).wait_until("1 / (state.total - 7) > 0", timeout=2)

    on_both(on_node, work)


def test_conditions_and_timeouts_that_are_none_are_refused(on_node, tally):
    async def work(owner, reader, key):
        cell = reader.cell(tally.account, key)

        async def is_there(state):
            return state is not None

        for condition in (5, None, is_there):  # a coroutine counted as true
            with pytest.raises(Rejected) as error:
                await cell.wait_until(condition)
            assert error.value.code == "host.condition"
        with pytest.raises(Rejected, match="column 1"):
            await cell.wait_until("state.totl > 3")
        for timeout in ("5", True):
            with pytest.raises(Rejected) as error:
                await reader.send(tally.Add(key, 1), timeout=timeout)
            assert error.value.code == "host.timeout"

    on_both(on_node, work)


def test_what_a_condition_raises_reaches_the_caller(on_node, tally):
    async def work(owner, reader, key):
        def broken(state):
            raise TimeoutError("mine")

        with pytest.raises(TimeoutError, match="mine"):
            await reader.cell(tally.account, key).wait_until(broken, timeout=5)

    on_both(on_node, work)


def test_a_world_is_idle_when_all_events_have_arrived(on_node, tally):
    async def work(owner, reader, key):
        for _ in range(3):
            await owner.send(tally.Pass(key, f"{key}-to", 30), wait="durable")
            await reader.wait_idle(timeout=30)
            view = await reader.cell(tally.account, key).view()
            assert (view.queue, view.status) == (0, "waiting")
        first, second = [await reader.cell(tally.account, name).state() for name in (key, f"{key}-to")]
        assert first.count + second.count == 3 * 31

    on_both(on_node, work)


def test_an_event_that_was_sent_twice_does_not_keep_a_world_busy(on_node, tally):
    """A duplicate makes no frame: whoever waits for one would wait for ever."""

    async def work(owner, reader, key):
        await owner.send(tally.Add(key, 1), id=f"{key}-1")
        await asyncio.gather(
            reader.send(tally.Add(key, 1), id=f"{key}-1"),
            owner.send(tally.Add(key, 1), id=f"{key}-1"),
            reader.wait_idle(timeout=30),
        )
        await reader.wait_idle(timeout=30)
        assert await reader.cell(tally.account, key).state() == tally.Account(1, 1)

    on_both(on_node, work)


def test_a_stopped_cell_is_no_work_but_a_paused_world_is_busy(on_node, tally):
    async def work(owner, reader, key):
        with pytest.raises(StepFailed):
            await owner.send(tally.Fail(key))
        await reader.wait_idle(timeout=5)
        await owner.control("pause", who="test", why="test")
        await owner.send(tally.Add(f"{key}-later", 1), wait="durable")
        with pytest.raises(TimedOut) as error:
            await reader.wait_idle(timeout=5)
        assert error.value.code == "host.idle_timeout"
        assert "1 cells have events" in str(error.value)
        assert "paused" in str(error.value)
        await owner.control("resume", who="test", why="test")
        await reader.wait_idle(timeout=5)

    on_both(on_node, work)


@in_virtual_time
async def test_a_send_that_takes_too_long_says_that_its_outcome_is_not_known(opened, tally):
    async with opened() as node:
        await (await node.world("w")).send(tally.Add("a", 1))
    async with opened(owner=False) as guest:
        world = await guest.world("w")
        with pytest.raises(OutcomeUnknown) as error:
            await world.send(tally.Add("a", 5), timeout=1)
        assert error.value.code == "host.send_timeout"
        assert error.value.fields["id"] is not None
        async with opened() as node:
            owner = await node.world("w")
            await owner.wait_idle(timeout=5)
            assert await owner.cell(tally.account, "a").state() == tally.Account(6, 2)
            again = await world.send(tally.Add("a", 5), id=error.value.fields["id"], timeout=5)
            assert again.duplicate
            assert await owner.cell(tally.account, "a").state() == tally.Account(6, 2)


def test_a_send_within_its_time_is_like_any_other(on_node, tally):
    async def work(owner, reader, key):
        applied = await reader.send(tally.Add(key, 4), reply=int, timeout=5)
        assert applied.reply == 4
        await reader.send(tally.Add(key, 4), wait="durable", timeout=5)
        await reader.wait_idle(timeout=5)
        assert await reader.cell(tally.account, key).state() == tally.Account(8, 2)

    on_both(on_node, work)
