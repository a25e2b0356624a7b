"""Cases of many committers at once: one winner per round, no loser among strangers, whole snapshots."""
# ruff: noqa: D102 - the name of a case is its sentence

from __future__ import annotations

import asyncio

from cellule.errors import Conflict
from cellule.store.engine import Batch, Engine, Stamp, counter_value
from cellule.testing.conformance.engine_space import OpenEngine, Space, dump, scan_all


async def _won(engine: Engine, batch: Batch) -> bool:
    try:
        await engine.commit(batch)
    except Conflict:
        return False
    return True


class ContentionCases:
    """Concurrent batches have the effect of some serial order."""

    async def test_exactly_one_of_many_rivals_wins_each_round(
        self, engines: OpenEngine, space: Space
    ) -> None:
        connections = [await engines(), await engines()]
        key = space.raw(b"a")
        value: bytes | None = None
        for turn in range(10):
            rivals = [
                Batch(
                    expect={key: value},
                    set={key: b"%d-%d" % (turn, n), space.raw(b"%d-%d" % (turn, n)): b"won"},
                )
                for n in range(8)
            ]
            won = await asyncio.gather(*(_won(connections[n % 2], rivals[n]) for n in range(8)))
            assert won.count(True) == 1
            value = b"%d-%d" % (turn, won.index(True))
            assert await connections[0].read([key]) == [value]
        winners = [key for key, value in (await dump(connections[0], space)).items() if value == b"won"]
        assert len(winners) == 10

    async def test_optimistic_increments_lose_none(self, engines: OpenEngine, space: Space) -> None:
        connections = [await engines(), await engines()]
        key = space.raw(b"sum")
        await connections[0].commit(Batch(set={key: b"0"}))

        async def increment(engine: Engine) -> None:
            done = 0
            while done < 5:
                [value] = await engine.read([key])
                assert value is not None
                done += await _won(engine, Batch(expect={key: value}, set={key: b"%d" % (int(value) + 1)}))

        await asyncio.gather(*(increment(connections[n % 2]) for n in range(6)))
        assert await connections[0].read([key]) == [b"30"]

    async def test_unrelated_keys_never_conflict(self, engines: OpenEngine, space: Space) -> None:
        connections = [await engines(), await engines()]

        async def chain(engine: Engine, key: bytes) -> None:
            value: bytes | None = None
            for turn in range(10):
                await engine.commit(
                    Batch(expect={key: value}, set={key: b"%d" % turn}, add={space.counter(): 1})
                )
                value = b"%d" % turn

        keys = [space.raw(b"%d" % n) for n in range(40)]
        await asyncio.gather(*(chain(connections[n % 2], key) for n, key in enumerate(keys)))
        assert await connections[0].read(keys) == [b"9"] * 40
        assert counter_value((await connections[1].read([space.counter()]))[0]) == 400

    async def test_overlapping_batches_without_expectations_all_succeed(
        self, engines: OpenEngine, space: Space
    ) -> None:
        """Batches that write the same keys in different orders neither conflict nor deadlock."""
        connections = [await engines(), await engines()]
        names = [b"%02d" % n for n in range(12)]

        def batch(n: int) -> Batch:
            mine = names[n % 12 :] + names[: n % 12]
            rows = {space.raw(name): b"%d" % n for name in (mine if n % 2 else reversed(mine))}
            return Batch(set=rows, add={space.counter(n % 3): 1, space.counter(3 - n % 3): 1})

        await asyncio.gather(*(connections[n % 2].commit(batch(n)) for n in range(60)))
        rows = await scan_all(connections[0], *space.raw_range())
        assert len(rows) == 12
        assert len(set(rows.values())) == 1
        sums = await connections[1].read([space.counter(n) for n in range(4)])
        assert sum(counter_value(value) for value in sums) == 120

    async def test_two_creations_that_each_clear_the_other_leave_one(
        self, engines: OpenEngine, space: Space
    ) -> None:
        """Neither row exists when both begin, so there is none to lock; still one batch comes first."""
        connections = [await engines(), await engines()]
        left, right = space.raw(b"left"), space.raw(b"right")
        for _ in range(30):
            batches = [
                Batch(expect={left: None}, set={left: b"1"}, clear=[right]),
                Batch(expect={right: None}, set={right: b"1"}, clear=[left]),
            ]
            won = await asyncio.gather(*(_won(connections[n], batches[n]) for n in range(2)))
            rows = await scan_all(connections[0], *space.raw_range())
            assert won == [True, True]
            assert len(rows) == 1
            await connections[0].commit(Batch(clear=list(rows)))

    async def test_reads_and_scans_never_see_part_of_a_batch(self, engines: OpenEngine, space: Space) -> None:
        writers, reader = [await engines(), await engines()], await engines()
        names = [space.raw(b"%d" % n) for n in range(10)]
        await reader.commit(Batch(set=dict.fromkeys(names, b"start")))
        writing = True

        async def write(number: int) -> None:
            for turn in range(15):
                await writers[number].commit(Batch(set=dict.fromkeys(names, b"%d-%d" % (number, turn))))

        async def look() -> None:
            while writing:
                assert len(set(await reader.read(names))) == 1
                page = await reader.scan(*space.raw_range(), limit=100)
                assert [key for key, _ in page.items] == names
                assert len({value for _, value in page.items}) == 1

        async with asyncio.TaskGroup() as group:
            group.create_task(look())
            await asyncio.gather(write(0), write(1))
            writing = False

    async def test_a_row_and_its_counter_move_together(self, engines: OpenEngine, space: Space) -> None:
        writer, reader = await engines(), await engines()
        key, counter = space.raw(b"a"), space.counter()
        await writer.commit(Batch(set={key: b"0"}, add={counter: 0}))
        writing = True

        async def look() -> None:
            while writing:
                value, stored = await reader.read([key, counter])
                assert int(value or b"-1") == counter_value(stored)

        async with asyncio.TaskGroup() as group:
            group.create_task(look())
            for turn in range(1, 31):
                await writer.commit(Batch(set={key: b"%d" % turn}, add={counter: 1}))
            writing = False

    async def test_concurrent_stamps_are_unique_and_all_kept(self, engines: OpenEngine, space: Space) -> None:
        connections = [await engines(), await engines()]

        async def append(engine: Engine, sender: int) -> list[Stamp]:
            stamps: list[Stamp] = []
            for turn in range(10):
                stamps += await engine.commit(Batch(ordered=[(space.queue(), b"%d-%d" % (sender, turn))] * 2))
            return stamps

        lists = await asyncio.gather(*(append(connections[n % 2], n) for n in range(8)))
        assert all(stamps == sorted(stamps) for stamps in lists)
        together = [stamp for stamps in lists for stamp in stamps]
        items = await scan_all(connections[0], *space.queue_range())
        assert sorted(items) == sorted({space.queue() + stamp for stamp in together})
        assert len(items) == 160

    async def test_consumers_that_scan_from_the_front_take_every_item_once(
        self, engines: OpenEngine, space: Space
    ) -> None:
        senders, owner = [await engines(), await engines()], await engines()
        consumed: list[bytes] = []

        async def send(engine: Engine, sender: int) -> None:
            for turn in range(15):
                await engine.commit(Batch(ordered=[(space.queue(), b"%d-%d" % (sender, turn))]))

        async def consume() -> None:
            while len(consumed) < 60:
                page = await owner.scan(*space.queue_range(), limit=7)
                await owner.commit(Batch(clear=[key for key, _ in page.items]))
                consumed.extend(value for _, value in page.items)

        await asyncio.gather(consume(), *(send(senders[n % 2], n) for n in range(4)))
        assert sorted(consumed) == sorted(b"%d-%d" % (n, turn) for n in range(4) for turn in range(15))
        assert await dump(owner, space) == {}

    async def test_a_cancelled_commit_is_applied_whole_or_not_at_all(
        self, engine: Engine, space: Space
    ) -> None:
        for turn in range(20):
            names = [space.raw(b"%d-%d" % (turn, n)) for n in range(5)]
            task = asyncio.ensure_future(engine.commit(Batch(set=dict.fromkeys(names, b"v"))))
            for _ in range(turn % 4):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert len(set(await engine.read(names))) == 1
        assert await engine.commit(Batch(set={space.raw(b"after"): b"v"})) == []
