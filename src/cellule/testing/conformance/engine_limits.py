"""Cases of the limits: what just fits works, what does not is refused by its code and changes nothing."""
# ruff: noqa: D102 - the name of a case is its sentence

from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.store.engine import (
    BATCH_BYTES_MAX,
    BATCH_ORDERED_MAX,
    KEY_BYTES_MAX,
    SCAN_LIMIT_MAX,
    STAMP_BYTES,
    VALUE_BYTES_MAX,
    Batch,
    Engine,
)
from cellule.testing.conformance.engine_space import Space, dump


def _filled(space: Space, size: int) -> bytes:
    key = space.raw()
    return key + b"k" * (size - len(key))


class LimitCases:
    """Sizes, and keys that stand where they must not."""

    async def test_the_longest_key_and_value_are_kept(self, engine: Engine, space: Space) -> None:
        key = _filled(space, KEY_BYTES_MAX)
        value = bytes(range(256)) * 351 + bytes(VALUE_BYTES_MAX - 256 * 351)
        assert len(value) == VALUE_BYTES_MAX
        await engine.commit(Batch(expect={key: None}, set={key: value}))
        assert await engine.read([key]) == [value]
        await engine.commit(Batch(expect={key: value}, set={key: value[::-1]}))
        page = await engine.scan(key, key[:-1] + b"l", limit=2)
        assert page.items == [(key, value[::-1])]

    async def test_the_longest_ordered_prefix_is_kept(self, engine: Engine, space: Space) -> None:
        prefix = _filled(space, KEY_BYTES_MAX - STAMP_BYTES)
        [stamp] = await engine.commit(Batch(ordered=[(prefix, b"v")]))
        assert await engine.read([prefix + stamp]) == [b"v"]

    async def test_a_batch_of_nearly_eight_megabytes_is_applied(self, engine: Engine, space: Space) -> None:
        value = b"\xa5" * VALUE_BYTES_MAX
        count = BATCH_BYTES_MAX // (VALUE_BYTES_MAX + 100)
        rows = {space.raw(b"%d" % n): value for n in range(count)}
        await engine.commit(Batch(set=rows))
        assert await engine.read(list(rows)) == [value] * count
        await engine.commit(Batch(clear_range=[space.raw_range()]))

    async def test_many_small_writes_are_one_batch(self, engine: Engine, space: Space) -> None:
        rows = {space.raw(b"%05d" % n): b"%d" % n for n in range(5_000)}
        await engine.commit(Batch(expect=dict.fromkeys(rows), set=rows))
        assert await dump(engine, space) == rows
        await engine.commit(Batch(expect=rows, clear=list(rows)))
        assert await dump(engine, space) == {}

    async def test_a_batch_beyond_a_limit_is_refused_by_its_code(self, engine: Engine, space: Space) -> None:
        long_key, long_value = _filled(space, KEY_BYTES_MAX + 1), bytes(VALUE_BYTES_MAX + 1)
        key, counter = space.raw(b"a"), space.counter()
        full = {space.raw(b"%d" % n): bytes(VALUE_BYTES_MAX) for n in range(89)}
        refusals = [
            (Batch(set={b"": b"v"}), "store.key_size"),
            (Batch(set={long_key: b"v"}), "store.key_size"),
            (Batch(clear=[long_key]), "store.key_size"),
            (Batch(expect={long_key: b"v"}), "store.key_size"),
            (Batch(clear_range=[(key, long_key)]), "store.key_size"),
            (Batch(add={counter + bytes(KEY_BYTES_MAX): 1}), "store.key_size"),
            (Batch(ordered=[(long_key[: -STAMP_BYTES + 1], b"v")]), "store.key_size"),
            (Batch(set={key: long_value}), "store.value_size"),
            (Batch(expect={key: long_value}), "store.value_size"),
            (Batch(ordered=[(key, long_value)]), "store.value_size"),
            (Batch(set=full), "store.batch_size"),
            (Batch(ordered=[(key, b"")] * (BATCH_ORDERED_MAX + 1)), "store.batch_ordered"),
        ]
        for batch, code in refusals:
            await self._check_refused(engine, batch, code)
        assert await dump(engine, space) == {}

    async def test_a_batch_that_contradicts_itself_is_refused_by_its_code(
        self, engine: Engine, space: Space
    ) -> None:
        key, counter = space.raw(b"a"), space.counter()
        refusals = [
            (Batch(expect={key: None}), "store.absent_not_set"),
            (Batch(expect={key: None}, clear=[key]), "store.absent_not_set"),
            (Batch(set={key: b"v"}, clear=[key]), "store.key_twice"),
            (Batch(add={counter: 1}, clear=[counter]), "store.key_twice"),
            (Batch(set={counter: b"v"}), "store.counter_set"),
            (Batch(ordered=[(counter, b"v")]), "store.counter_set"),
            (Batch(expect={counter: b"v"}), "store.counter_expected"),
            (Batch(add={key: 1}), "store.not_a_counter"),
            (Batch(add={counter: 1 << 63}), "store.counter_delta"),
            (Batch(add={counter: -(1 << 63) - 1}), "store.counter_delta"),
        ]
        for batch, code in refusals:
            await self._check_refused(engine, batch, code)
        assert await dump(engine, space) == {}

    async def test_a_refused_part_stops_the_whole_batch(self, engine: Engine, space: Space) -> None:
        batch = Batch(set={space.raw(b"good"): b"v", space.raw(b"bad"): bytes(VALUE_BYTES_MAX + 1)})
        await self._check_refused(engine, batch, "store.value_size")
        assert await dump(engine, space) == {}

    async def test_ranges_over_two_families_are_refused(self, engine: Engine, space: Space) -> None:
        head = space.one_of_each_family()[1]
        crossing = [(head[:37], head[:37] + b"\xff"), (b"", b"\xff"), (space.counter(), space.raw())]
        for begin, end in crossing:
            with pytest.raises(Rejected) as caught:
                await engine.scan(begin, end, limit=1)
            assert caught.value.code == "store.range_families"
        batch = Batch(set={space.raw(b"a"): b"v"}, clear_range=[crossing[0]])
        await self._check_refused(engine, batch, "store.range_families")
        assert await dump(engine, space) == {}

    async def test_reads_and_watches_of_impossible_keys_are_refused(
        self, engine: Engine, space: Space
    ) -> None:
        for key in (b"", _filled(space, KEY_BYTES_MAX + 1)):
            with pytest.raises(Rejected) as caught:
                await engine.read([space.raw(b"a"), key])
            assert caught.value.code == "store.key_size"
            with pytest.raises(Rejected) as caught:
                await engine.watch(key, None)
            assert caught.value.code == "store.key_size"

    async def test_scans_without_a_sensible_limit_are_refused(self, engine: Engine, space: Space) -> None:
        for limit in (0, -1, SCAN_LIMIT_MAX + 1):
            with pytest.raises(Rejected) as caught:
                await engine.scan(*space.raw_range(), limit=limit)
            assert caught.value.code == "store.scan_limit"
        with pytest.raises(Rejected) as caught:
            await engine.scan(space.raw(), _filled(space, KEY_BYTES_MAX + 1), limit=1)
        assert caught.value.code == "store.key_size"

    async def _check_refused(self, engine: Engine, batch: Batch, code: str) -> None:
        with pytest.raises(Rejected) as caught:
            await engine.commit(batch)
        assert caught.value.code == code
