"""Cases of `Engine.watch`, which may return for nothing, and of `Engine.close`."""
# ruff: noqa: D102 - the name of a case is its sentence

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from cellule.errors import Unavailable
from cellule.store.engine import Batch, Engine, counter_value
from cellule.testing.conformance.engine_space import OpenEngine, Space

PATIENCE_S = 60


async def _changed(engine: Engine, key: bytes, seen: bytes | None) -> bytes | None:
    """Watch until the value is another than `seen`, however often the watch returns for nothing."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await engine.watch(key, seen)
            [value] = await engine.read([key])
            if value != seen:
                return value


class WatchCases:
    """A change wakes; a difference that is already there does too."""

    async def test_a_watch_returns_when_the_value_already_differs(self, engine: Engine, space: Space) -> None:
        key = space.raw(b"a")
        await engine.commit(Batch(set={key: b"1"}))
        async with asyncio.timeout(PATIENCE_S):
            await engine.watch(key, None)
            await engine.watch(key, b"0")
            await engine.watch(key, b"")
            await engine.watch(space.raw(b"absent"), b"1")

    async def test_a_watch_wakes_when_a_key_is_created_changed_and_cleared(
        self, engine: Engine, space: Space
    ) -> None:
        key = space.raw(b"a")
        steps: list[tuple[bytes | None, Batch]] = [
            (b"1", Batch(set={key: b"1"})),
            (b"", Batch(set={key: b""})),
            (b"2", Batch(expect={key: b""}, set={key: b"2"})),
            (None, Batch(clear=[key])),
            (b"3", Batch(expect={key: None}, set={key: b"3"})),
            (None, Batch(clear_range=[space.raw_range()])),
        ]
        seen: bytes | None = None
        for value, batch in steps:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(_changed(engine, key, seen))
                group.create_task(engine.commit(batch))
            seen = value
            assert watching.result() == value

    async def test_a_watch_wakes_on_counters_and_ordered_values(self, engine: Engine, space: Space) -> None:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_changed(engine, space.counter(), None))
            group.create_task(engine.commit(Batch(add={space.counter(): 3})))
        assert counter_value(watching.result()) == 3
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_changed(engine, space.counter(), watching.result()))
            group.create_task(engine.commit(Batch(add={space.counter(): -1}, ordered=[(space.queue(), b"")])))
        assert counter_value(watching.result()) == 2

    async def test_rows_of_every_family_can_be_watched(self, engine: Engine, space: Space) -> None:
        rows = dict.fromkeys(space.one_of_each_family(), b"v")
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(_changed(engine, key, None)) for key in rows]
            group.create_task(engine.commit(Batch(set=rows)))
        assert [task.result() for task in watching] == list(rows.values())

    async def test_a_watch_wakes_on_a_change_through_another_connection(
        self, engines: OpenEngine, space: Space
    ) -> None:
        watcher, writer = await engines(), await engines()
        seen: bytes | None = None
        for turn in range(5):
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(_changed(watcher, space.raw(b"a"), seen))
                group.create_task(writer.commit(Batch(set={space.raw(b"a"): b"%d" % turn})))
            seen = watching.result()
            assert seen == b"%d" % turn

    async def test_many_watchers_wake_each_for_its_own_key(self, engine: Engine, space: Space) -> None:
        keys = [space.raw(b"%d" % n) for n in range(100)]
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(_changed(engine, key, None)) for key in keys * 2]
            for key in keys:
                group.create_task(engine.commit(Batch(set={key: key[-3:]})))
        assert [task.result() for task in watching] == [key[-3:] for key in keys] * 2

    async def test_no_change_is_missed_by_a_reader_that_follows_a_key(
        self, engines: OpenEngine, space: Space
    ) -> None:
        """A reader that always watches what it saw last reaches the last value of a busy writer."""
        follower, writer = await engines(), await engines()
        last = b"99"

        async def write() -> None:
            for turn in range(100):
                await writer.commit(Batch(set={space.raw(b"a"): b"%d" % turn}))

        async def follow() -> list[bytes | None]:
            seen: list[bytes | None] = [None]
            while seen[-1] != last:
                seen.append(await _changed(follower, space.raw(b"a"), seen[-1]))
            return seen[1:]

        async with asyncio.TaskGroup() as group:
            following = group.create_task(follow())
            group.create_task(write())
        numbers = [int(value or b"-1") for value in following.result()]
        assert numbers == sorted(set(numbers))

    async def test_a_cancelled_watch_leaves_the_others_alone(self, engine: Engine, space: Space) -> None:
        key = space.raw(b"a")
        async with asyncio.TaskGroup() as group:
            staying = group.create_task(_changed(engine, key, None))
            leaving = [group.create_task(_changed(engine, key, None)) for _ in range(5)]
            await engine.read([key])
            for task in leaving:
                task.cancel()
            await asyncio.wait(leaving)
            assert all(task.cancelled() for task in leaving)
            await engine.commit(Batch(set={key: b"1"}))
        assert staying.result() == b"1"


class CloseCases:
    """What closing ends, and what it lets finish."""

    async def test_calls_after_close_are_unavailable(self, engine: Engine, space: Space) -> None:
        await engine.close()
        await engine.close()
        key = space.raw(b"a")
        calls: list[Awaitable[object]] = [
            engine.read([key]),
            engine.scan(*space.raw_range(), limit=1),
            engine.commit(Batch(set={key: b"1"})),
            engine.watch(key, None),
        ]
        for call in calls:
            with pytest.raises(Unavailable) as caught:
                await call
            assert caught.value.code == "store.closed"

    async def test_close_wakes_pending_watches_as_unavailable(self, engine: Engine, space: Space) -> None:
        watching = [asyncio.create_task(_changed(engine, space.raw(b"a"), None)) for _ in range(3)]
        await engine.read([space.raw(b"a")])
        await engine.close()
        async with asyncio.timeout(PATIENCE_S):
            outcomes = await asyncio.gather(*watching, return_exceptions=True)
        for outcome in outcomes:
            assert isinstance(outcome, Unavailable)
            assert outcome.code == "store.closed"

    async def test_commits_already_submitted_finish_before_close(
        self, engines: OpenEngine, space: Space
    ) -> None:
        closing, other = await engines(), await engines()
        rows = {space.raw(b"%02d" % n): b"v" for n in range(20)}
        commits = [asyncio.ensure_future(closing.commit(Batch(set={key: b"v"}))) for key in rows]
        await asyncio.sleep(0)
        await closing.close()
        await asyncio.gather(*commits)
        assert await other.read(list(rows)) == [b"v"] * 20

    async def test_closing_one_connection_leaves_the_store_to_the_others(
        self, engines: OpenEngine, space: Space
    ) -> None:
        first, second = await engines(), await engines()
        await first.commit(Batch(set={space.raw(b"a"): b"1"}))
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_changed(second, space.raw(b"a"), b"1"))
            await first.close()
            await second.commit(Batch(expect={space.raw(b"a"): b"1"}, set={space.raw(b"a"): b"2"}))
        assert watching.result() == b"2"

    async def test_an_engine_is_closed_by_its_context(self, open_engine: OpenEngine, space: Space) -> None:
        async with await open_engine() as engine:
            await engine.commit(Batch(set={space.raw(b"a"): b"1"}))
        with pytest.raises(Unavailable):
            await engine.read([space.raw(b"a")])
        async with await open_engine() as again:
            assert await again.read([space.raw(b"a")]) == [b"1"]
