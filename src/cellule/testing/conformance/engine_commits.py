"""Cases of `Engine.commit`: expectations, writes, their order, counters and stamps."""
# ruff: noqa: D102 - the name of a case is its sentence

from __future__ import annotations

import pytest

from cellule.errors import Conflict
from cellule.store.engine import STAMP_BYTES, Batch, Engine, counter_value
from cellule.testing.conformance.engine_space import OpenEngine, Space, dump, scan_all

MOST = (1 << 63) - 1
LEAST = -(1 << 63)


class CommitCases:
    """What a batch does, and that a batch in conflict does nothing."""

    async def test_a_set_value_is_read_back_and_replaced(self, engine: Engine, space: Space) -> None:
        key = space.raw(b"a")
        assert await engine.commit(Batch(set={key: b"1"})) == []
        assert await engine.read([key]) == [b"1"]
        await engine.commit(Batch(set={key: b"22"}))
        assert await engine.read([key]) == [b"22"]

    async def test_an_empty_batch_is_applied(self, engine: Engine) -> None:
        assert await engine.commit(Batch()) == []

    async def test_an_empty_value_is_not_an_absent_one(self, engine: Engine, space: Space) -> None:
        key = space.raw(b"a")
        with pytest.raises(Conflict):
            await engine.commit(Batch(expect={key: b""}, set={key: b"1"}))
        await engine.commit(Batch(set={key: b""}))
        assert await engine.read([key]) == [b""]
        with pytest.raises(Conflict):
            await engine.commit(Batch(expect={key: None}, set={key: b"1"}))
        await engine.commit(Batch(expect={key: b""}, set={key: b"1"}))
        assert await engine.read([key]) == [b"1"]

    async def test_rows_of_every_family_are_written_together(self, engine: Engine, space: Space) -> None:
        rows = {key: bytes([n]) * n for n, key in enumerate(space.one_of_each_family())}
        await engine.commit(Batch(expect=dict.fromkeys(rows), set=rows, add={space.counter(): 1}))
        assert await engine.read(list(rows)) == list(rows.values())
        with pytest.raises(Conflict):
            await engine.commit(Batch(expect=dict.fromkeys(rows), set=rows))
        await engine.commit(Batch(expect=rows, clear=list(rows)))
        assert await engine.read(list(rows)) == [None] * len(rows)

    async def test_a_met_expectation_applies_the_batch(self, engine: Engine, space: Space) -> None:
        key, other = space.raw(b"a"), space.raw(b"b")
        await engine.commit(Batch(set={key: b"1"}))
        await engine.commit(Batch(expect={key: b"1"}, set={other: b"x"}))
        await engine.commit(Batch(expect={key: b"1", other: b"x"}, set={key: b"2"}, clear=[other]))
        assert await engine.read([key, other]) == [b"2", None]

    @pytest.mark.parametrize("wrong", [b"", b"10", b"1\0", b"2", b"\x001"])
    async def test_another_value_than_expected_is_a_conflict(
        self, engine: Engine, space: Space, wrong: bytes
    ) -> None:
        key = space.raw(b"a")
        await engine.commit(Batch(set={key: b"1"}))
        with pytest.raises(Conflict) as caught:
            await engine.commit(Batch(expect={key: wrong}, set={key: b"new"}))
        assert caught.value.code == "store.conflict"
        assert await engine.read([key]) == [b"1"]

    async def test_an_expected_value_that_is_absent_is_a_conflict(self, engine: Engine, space: Space) -> None:
        key = space.raw(b"a")
        with pytest.raises(Conflict):
            await engine.commit(Batch(expect={key: b"1"}, set={key: b"2"}))
        assert await engine.read([key]) == [None]

    async def test_expecting_absence_creates_a_key_once(self, engine: Engine, space: Space) -> None:
        key = space.raw(b"a")
        await engine.commit(Batch(expect={key: None}, set={key: b"1"}))
        with pytest.raises(Conflict):
            await engine.commit(Batch(expect={key: None}, set={key: b"1"}))
        await engine.commit(Batch(clear=[key]))
        await engine.commit(Batch(expect={key: None}, set={key: b"2"}))
        assert await engine.read([key]) == [b"2"]

    async def test_a_batch_of_expectations_only_is_compared(self, engine: Engine, space: Space) -> None:
        key = space.raw(b"a")
        await engine.commit(Batch(set={key: b"1"}))
        assert await engine.commit(Batch(expect={key: b"1"})) == []
        with pytest.raises(Conflict):
            await engine.commit(Batch(expect={key: b"2"}))

    async def test_a_conflict_changes_nothing_at_all(self, engine: Engine, space: Space) -> None:
        kept = {space.raw(name): name for name in (b"a", b"b", b"c", b"d")}
        await engine.commit(Batch(set=kept, add={space.counter(): 5}))
        before = await dump(engine, space)
        batch = Batch(
            expect={space.raw(b"a"): b"a", space.raw(b"new"): None, space.raw(b"d"): b"wrong"},
            set={space.raw(b"a"): b"changed", space.raw(b"new"): b"n"},
            clear=[space.raw(b"b")],
            clear_range=[(space.raw(b"c"), space.raw(b"d"))],
            add={space.counter(): 1, space.counter(1): 1},
            ordered=[(space.queue(), b"item")],
        )
        with pytest.raises(Conflict):
            await engine.commit(batch)
        assert await dump(engine, space) == before

    async def test_one_present_key_among_many_expected_absent_is_a_conflict(
        self, engine: Engine, space: Space
    ) -> None:
        rows = {space.raw(bytes([n])): b"v" for n in range(20)}
        await engine.commit(Batch(set={space.raw(bytes([13])): b"old"}))
        with pytest.raises(Conflict):
            await engine.commit(Batch(expect=dict.fromkeys(rows), set=rows))
        assert await scan_all(engine, *space.raw_range()) == {space.raw(bytes([13])): b"old"}

    async def test_clearing_removes_present_keys_and_ignores_absent_ones(
        self, engine: Engine, space: Space
    ) -> None:
        key = space.raw(b"a")
        await engine.commit(Batch(set={key: b"1"}))
        await engine.commit(Batch(clear=[key, space.raw(b"absent")]))
        await engine.commit(Batch(clear=[key, key]))
        assert await engine.read([key]) == [None]

    async def test_a_cleared_range_holds_its_begin_but_not_its_end(
        self, engine: Engine, space: Space
    ) -> None:
        names = [b"a", b"b", b"b\0", b"bb", b"c", b"c\0"]
        await engine.commit(Batch(set={space.raw(name): name for name in names}))
        await engine.commit(Batch(clear_range=[(space.raw(b"b"), space.raw(b"c"))]))
        left = await scan_all(engine, *space.raw_range())
        assert list(left) == [space.raw(name) for name in (b"a", b"c", b"c\0")]

    async def test_empty_and_inverted_ranges_clear_nothing(self, engine: Engine, space: Space) -> None:
        key = space.raw(b"b")
        await engine.commit(Batch(set={key: b"1"}))
        ranges = [(key, key), (space.raw(b"c"), space.raw(b"a"))]
        await engine.commit(Batch(clear_range=ranges))
        assert await engine.read([key]) == [b"1"]

    async def test_ranges_are_cleared_before_anything_is_written(self, engine: Engine, space: Space) -> None:
        old = {space.raw(name): name for name in (b"a", b"b", b"c")}
        await engine.commit(Batch(set=old, add={space.counter(): 40}, ordered=[(space.queue(), b"old")]))
        batch = Batch(
            expect=old,
            clear_range=[space.raw_range(), space.counter_range(), space.queue_range()],
            set={space.raw(b"b"): b"new", space.raw(b"e"): b"new"},
            add={space.counter(): 2},
            ordered=[(space.queue(), b"item")],
        )
        stamps = await engine.commit(batch)
        left = await dump(engine, space)
        assert counter_value(left.pop(space.counter())) == 2
        assert left == {
            space.raw(b"b"): b"new",
            space.raw(b"e"): b"new",
            space.queue() + stamps[0]: b"item",
        }

    async def test_clearing_a_range_leaves_neighbouring_spaces_alone(
        self, engine: Engine, space: Space
    ) -> None:
        other = Space()
        for place in (space, other):
            rows = dict.fromkeys(place.one_of_each_family(), b"v")
            await engine.commit(Batch(set=rows, add={place.counter(): 1}))
        before = await dump(engine, other)
        await engine.commit(Batch(clear_range=space.ranges()))
        assert await dump(engine, space) == {}
        assert await dump(engine, other) == before

    async def test_counters_add_from_zero_and_below(self, engine: Engine, space: Space) -> None:
        key = space.counter()
        for delta, sum_ in ((5, 5), (-7, -2), (0, -2), (2, 0), (MOST, MOST)):
            await engine.commit(Batch(add={key: delta}))
            [stored] = await engine.read([key])
            assert stored == sum_.to_bytes(8, "little", signed=True)

    async def test_counters_wrap_at_64_bits(self, engine: Engine, space: Space) -> None:
        up, down = space.counter(1), space.counter(2)
        await engine.commit(Batch(add={up: MOST, down: LEAST}))
        await engine.commit(Batch(add={up: 1, down: -1}))
        values = await engine.read([up, down])
        assert [counter_value(value) for value in values] == [LEAST, MOST]
        await engine.commit(Batch(add={up: LEAST, down: MOST}))
        values = await engine.read([up, down])
        assert [counter_value(value) for value in values] == [0, -2]

    async def test_a_cleared_counter_counts_from_zero_again(self, engine: Engine, space: Space) -> None:
        key = space.counter()
        await engine.commit(Batch(add={key: 5}))
        await engine.commit(Batch(clear=[key]))
        assert await engine.read([key]) == [None]
        await engine.commit(Batch(add={key: 1}))
        assert counter_value((await engine.read([key]))[0]) == 1


class OrderedCases:
    """What stamps promise."""

    async def test_ordered_values_stand_under_their_prefix_and_stamp(
        self, engine: Engine, space: Space
    ) -> None:
        entries = [(space.queue(), b"1"), (space.raw(b"log"), b"2"), (space.queue(), b"3")]
        stamps = await engine.commit(Batch(ordered=entries))
        assert [len(stamp) for stamp in stamps] == [STAMP_BYTES] * 3
        found = await engine.read(
            [prefix + stamp for (prefix, _), stamp in zip(entries, stamps, strict=True)]
        )
        assert found == [b"1", b"2", b"3"]
        assert list((await scan_all(engine, *space.queue_range())).values()) == [b"1", b"3"]

    async def test_stamps_of_a_batch_share_their_order_and_count_their_position(
        self, engine: Engine, space: Space
    ) -> None:
        stamps = await engine.commit(Batch(ordered=[(space.queue(), b"%d" % n) for n in range(1_000)]))
        assert {stamp[:10] for stamp in stamps} == {stamps[0][:10]}
        assert [int.from_bytes(stamp[10:], "big") for stamp in stamps] == list(range(1_000))
        items = await scan_all(engine, *space.queue_range())
        assert list(items.values()) == [b"%d" % n for n in range(1_000)]

    async def test_stamps_grow_from_one_acknowledged_batch_to_the_next(
        self, engines: OpenEngine, space: Space
    ) -> None:
        connections = [await engines(), await engines()]
        stamps: list[bytes] = []
        for turn in range(20):
            batch = Batch(ordered=[(space.queue(), b"a"), (space.queue(), b"b")])
            stamps += await connections[turn % 2].commit(batch)
        assert stamps == sorted(set(stamps))

    async def test_equal_values_under_one_prefix_are_kept_apart(self, engine: Engine, space: Space) -> None:
        await engine.commit(Batch(ordered=[(space.queue(), b"same")] * 3))
        await engine.commit(Batch(ordered=[(space.queue(), b"same")] * 2))
        assert len(await scan_all(engine, *space.queue_range())) == 5

    async def test_stamps_never_return_after_their_rows_are_cleared(
        self, engine: Engine, space: Space
    ) -> None:
        first = await engine.commit(Batch(ordered=[(space.queue(), b"a")]))
        await engine.commit(Batch(clear_range=[space.queue_range()]))
        second = await engine.commit(Batch(ordered=[(space.queue(), b"a")]))
        assert second > first
