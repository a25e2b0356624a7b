"""Cases of `Engine.read` and `Engine.scan`: order, snapshots, paging, and rows that fail their checksum."""
# ruff: noqa: D102 - the name of a case is its sentence

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.store.engine import (
    KEY_BYTES_MAX,
    PAGE_BYTES_MAX,
    SCAN_LIMIT_MAX,
    VALUE_BYTES_MAX,
    Batch,
    Engine,
    counter_value,
)
from cellule.testing.conformance.engine_space import Damage, OpenEngine, Space, dump, scan_all


async def _written(engine: Engine, space: Space, names: list[bytes]) -> dict[bytes, bytes]:
    rows = {space.raw(name): b"value of " + name for name in names}
    await engine.commit(Batch(set=rows))
    return rows


class ReadCases:
    """Many keys, one snapshot."""

    async def test_values_come_in_the_order_of_the_keys_asked_for(self, engine: Engine, space: Space) -> None:
        await engine.commit(Batch(set={space.raw(b"a"): b"1", space.raw(b"b"): b"2"}))
        asked = [space.raw(name) for name in (b"b", b"none", b"a", b"b")]
        assert await engine.read(asked) == [b"2", None, b"1", b"2"]
        assert await engine.read([]) == []

    async def test_thousands_of_keys_are_read_at_once(self, engine: Engine, space: Space) -> None:
        rows = await _written(engine, space, [b"%d" % n for n in range(3_000)])
        asked = [*rows, space.raw(b"absent")]
        assert await engine.read(asked) == [*rows.values(), None]

    async def test_keys_of_all_families_are_read_together(self, engine: Engine, space: Space) -> None:
        rows = {key: key[-3:] for key in space.one_of_each_family()}
        await engine.commit(Batch(set=rows, add={space.counter(): 9}))
        values = await engine.read([space.counter(), *rows])
        assert counter_value(values[0]) == 9
        assert values[1:] == list(rows.values())

    async def test_an_acknowledged_batch_is_seen_by_every_connection(
        self, engines: OpenEngine, space: Space
    ) -> None:
        first, second = await engines(), await engines()
        for turn in range(20):
            writer, reader = (first, second) if turn % 2 else (second, first)
            await writer.commit(Batch(set={space.raw(b"a"): b"%d" % turn}))
            assert await reader.read([space.raw(b"a")]) == [b"%d" % turn]
            assert (await reader.scan(*space.raw_range(), limit=1)).items[0][1] == b"%d" % turn

    async def test_keys_of_any_bytes_are_kept_apart(self, engine: Engine, space: Space) -> None:
        names = [b"", b"\0", b"\0\0", b"\0\xff", b"\xff", b"\xff\0", b"\xff\xff", b"a", b"A", b"a\0", b"a "]
        names += ["\u00e9".encode(), "e\u0301".encode(), b"\\x00", b"%", b"_", b"'", b'"', b"a;b"]
        rows = await _written(engine, space, names)
        assert await engine.read(list(rows)) == list(rows.values())
        assert list(await scan_all(engine, *space.raw_range())) == sorted(rows)


class ScanCases:
    """One range, page by page."""

    async def test_rows_come_in_the_order_of_their_bytes(self, engine: Engine, space: Space) -> None:
        rows = await _written(engine, space, [bytes([b]) for b in range(256)])
        forward = await engine.scan(*space.raw_range(), limit=1_000)
        assert forward.items == sorted(rows.items())
        assert forward.more is False
        backward = await engine.scan(*space.raw_range(), limit=1_000, reverse=True)
        assert backward.items == forward.items[::-1]
        assert backward.more is False

    async def test_a_scan_holds_its_begin_but_not_its_end(self, engine: Engine, space: Space) -> None:
        await _written(engine, space, [b"a", b"b", b"b\0", b"c"])
        for reverse in (False, True):
            page = await engine.scan(space.raw(b"b"), space.raw(b"c"), limit=10, reverse=reverse)
            assert sorted(key for key, _ in page.items) == [space.raw(b"b"), space.raw(b"b\0")]

    async def test_empty_and_inverted_ranges_hold_nothing(self, engine: Engine, space: Space) -> None:
        await _written(engine, space, [b"a", b"b"])
        ranges = [(b"a", b"a"), (b"b", b"a"), (b"c", b"d"), (b"a\0", b"b")]
        for begin, end in ranges:
            for reverse in (False, True):
                page = await engine.scan(space.raw(begin), space.raw(end), limit=1, reverse=reverse)
                assert page.items == []
                assert page.more is False

    @pytest.mark.parametrize("reverse", [False, True])
    async def test_more_tells_exactly_whether_keys_are_left(
        self, engine: Engine, space: Space, reverse: bool
    ) -> None:
        rows = sorted((await _written(engine, space, [b"%d" % n for n in range(5)])).items(), reverse=reverse)
        for limit in range(1, 8):
            page = await engine.scan(*space.raw_range(), limit=limit, reverse=reverse)
            assert page.items == rows[:limit]
            assert page.more is (limit < 5)

    @pytest.mark.parametrize("limit", [1, 3, 7, 100])
    async def test_pages_put_together_are_the_whole_range(
        self, engine: Engine, space: Space, limit: int
    ) -> None:
        rows = await _written(engine, space, [b"%02d" % n for n in range(30)])
        assert await scan_all(engine, *space.raw_range(), limit=limit) == rows
        begin, end = space.raw_range()
        backward: list[tuple[bytes, bytes]] = []
        while True:
            page = await engine.scan(begin, end, limit=limit, reverse=True)
            backward += page.items
            if not page.more:
                break
            end = page.items[-1][0]
        assert backward == sorted(rows.items(), reverse=True)

    async def test_paging_meets_every_lasting_row_once_while_others_come_and_go(
        self, engines: OpenEngine, space: Space
    ) -> None:
        reader, writer = await engines(), await engines()
        lasting = await _written(writer, space, [b"%02d" % n for n in range(40)])
        begin, end = space.raw_range()
        seen: list[bytes] = []
        for turn in range(40):
            passing = space.raw(b"%02d-passing" % turn)
            batch = Batch(set={passing: b"x"}, clear=[space.raw(b"%02d-passing" % (turn - 1))])
            await writer.commit(batch)
            page = await reader.scan(begin, end, limit=4)
            seen += [key for key, _ in page.items if key in lasting]
            if not page.more:
                break
            begin = page.items[-1][0] + b"\0"
        assert seen == sorted(lasting)

    async def test_a_page_ends_at_its_byte_limit(self, engine: Engine, space: Space) -> None:
        rows = {space.raw(b"%03d" % n): bytes([n]) * VALUE_BYTES_MAX for n in range(60)}
        await engine.commit(Batch(set=rows))
        for reverse in (False, True):
            page = await engine.scan(*space.raw_range(), limit=SCAN_LIMIT_MAX, reverse=reverse)
            size = sum(len(key) + len(value) for key, value in page.items)
            assert size <= PAGE_BYTES_MAX + KEY_BYTES_MAX + VALUE_BYTES_MAX
            assert page.items == sorted(rows.items(), reverse=reverse)[: len(page.items)]
            assert page.more is True
        assert await scan_all(engine, *space.raw_range(), limit=SCAN_LIMIT_MAX) == rows
        await engine.commit(Batch(clear_range=[space.raw_range()]))

    async def test_ten_thousand_rows_are_one_page(self, engine: Engine, space: Space) -> None:
        rows = {space.raw(b"%05d" % n): b"" for n in range(SCAN_LIMIT_MAX + 1)}
        await engine.commit(Batch(set=rows))
        page = await engine.scan(*space.raw_range(), limit=SCAN_LIMIT_MAX)
        assert [key for key, _ in page.items] == sorted(rows)[:SCAN_LIMIT_MAX]
        assert page.more is True
        await engine.commit(Batch(clear_range=[space.raw_range()]))

    async def test_counters_are_scanned_as_their_eight_bytes(self, engine: Engine, space: Space) -> None:
        await engine.commit(Batch(add={space.counter(n): n for n in (3, 1, 2)}))
        page = await engine.scan(*space.counter_range(), limit=10)
        assert page.items == [(space.counter(n), n.to_bytes(8, "little")) for n in (1, 2, 3)]

    async def test_every_family_is_scanned_by_its_own_ranges(self, engine: Engine, space: Space) -> None:
        rows = {key: key[-3:] for key in space.one_of_each_family()}
        await engine.commit(Batch(set=rows))
        assert await dump(engine, space) == rows


class DamageCases:
    """A stored row whose bytes were changed behind the engine's back."""

    async def test_a_damaged_row_is_found_by_read(
        self, engines: OpenEngine, space: Space, damage: Damage
    ) -> None:
        keys = space.one_of_each_family()
        await (await engines()).commit(Batch(set=dict.fromkeys(keys, b"value")))
        for key in keys:
            await damage(key)
        engine = await engines()
        for key in keys:
            with pytest.raises(Corrupted) as caught:
                await engine.read([space.raw(b"absent"), key])
            assert caught.value.code == "store.row_damaged"
            assert caught.value.fields["key"] == key

    async def test_a_damaged_row_is_found_by_scan(
        self, engines: OpenEngine, space: Space, damage: Damage
    ) -> None:
        rows = await _written(await engines(), space, [b"a", b"b", b"c"])
        await damage(space.raw(b"b"))
        engine = await engines()
        with pytest.raises(Corrupted) as caught:
            await engine.scan(*space.raw_range(), limit=10)
        assert caught.value.fields["key"] == space.raw(b"b")
        assert await engine.read([space.raw(b"a"), space.raw(b"c")]) == [
            rows[space.raw(b"a")],
            rows[space.raw(b"c")],
        ]

    async def test_a_damaged_row_can_be_replaced(
        self, engines: OpenEngine, space: Space, damage: Damage
    ) -> None:
        await _written(await engines(), space, [b"a"])
        await damage(space.raw(b"a"))
        engine = await engines()
        await engine.commit(Batch(set={space.raw(b"a"): b"repaired"}))
        assert await engine.read([space.raw(b"a")]) == [b"repaired"]
