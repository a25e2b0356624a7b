"""`world.cells`: cells in the order of their keys, by prefix and range, on the owner and elsewhere."""

from __future__ import annotations

import pytest

from cellule.errors import Rejected, StepFailed
from cellule.kernel.state import cell_pages

KEYS = ["Z", "a", "b", "b1", "b10", "b2", "c", "ä"]  # as their UTF-8 bytes stand


async def every_key(world, module, **options):
    found, after = [], None
    while True:
        page = await world.cells(module, after=after, **options)
        found += [cell.key for cell in page.cells]
        if page.next is None:
            return found
        after = page.next


def test_cells_are_listed_by_prefix_and_range_on_the_owner_and_on_a_guest(on_node, tally):
    async def main(opened):
        async with opened() as node, opened(owner=False) as other:
            world = await node.world("w")
            await world.send_many([tally.Add(key, 1) for key in reversed(KEYS[:5])])
            await world.snapshot()
            await world.send_many([tally.Add(key, 2) for key in KEYS[3:]])
            for each in (world, await other.world("w")):
                for limit in (1, 3, 100):
                    assert await every_key(each, tally.account, limit=limit) == KEYS
                assert await every_key(each, "account", prefix="b1") == ["b1", "b10"]
                assert await every_key(each, tally.account, start="b10", end="c") == ["b10", "b2"]
                assert await every_key(each, tally.account, prefix="b", start="b2", limit=1) == ["b2"]
                assert await every_key(each, tally.account, start="c", end="b") == []
                [cell] = (await each.cells(tally.account, prefix="b10")).cells
                assert (cell.key, cell.state, cell.version) == ("b10", tally.Account(3, 2), 2)
                assert (cell.status, cell.queue, cell.size > 0) == ("waiting", 0, True)

    on_node(main)


def test_a_list_follows_the_world(on_node, tally):
    async def main(opened):
        async with opened() as node, opened(owner=False) as other:
            worlds = [await node.world("w"), await other.world("w")]
            await worlds[0].send_many([tally.Add(key, 1) for key in ("a", "b", "c")])
            first = [await world.cells(tally.account, limit=2) for world in worlds]
            assert [page.next for page in first] == ["b", "b"]
            await worlds[0].send_many([tally.Add(key, 1) for key in ("aa", "bb")])
            for world in worlds:
                page = await world.cells(tally.account, after="b")
                assert ([cell.key for cell in page.cells], page.next) == (["bb", "c"], None)

    on_node(main)


def test_a_stopped_cell_is_listed_with_its_status_and_queue(on_node, tally):
    async def main(opened):
        async with opened() as node:
            world = await node.world("w")
            await world.send(tally.Add("a", 1))
            with pytest.raises(StepFailed):
                await world.send(tally.Fail("a"))
            await world.send(tally.Add("a", 1), wait="durable")
            [cell] = (await world.cells(tally.account)).cells
            assert (cell.status, cell.queue, cell.version) == ("halted", 2, 1)
            assert (await world.cells(tally.account)).cells == [cell]

    on_node(main)


def test_a_page_of_large_states_is_short(on_node, tally, monkeypatch):
    monkeypatch.setattr(cell_pages, "CELL_PAGE_BYTES", 10_000)

    async def main(opened):
        async with opened() as node:
            world = await node.world("w")
            await world.send_many([tally.Keep(f"k{at}", "x" * 4_000) for at in range(7)])
            await world.snapshot()
            page = await world.cells(tally.shelf)
            assert [cell.key for cell in page.cells] == ["k0", "k1", "k2"]
            assert await every_key(world, tally.shelf) == [f"k{at}" for at in range(7)]

    on_node(main)


@pytest.mark.parametrize("limit", [0, -1, 1_001])
def test_a_page_without_a_sensible_limit_is_refused(on_node, tally, limit):
    async def main(opened):
        async with opened() as node:
            world = await node.world("w")
            with pytest.raises(Rejected) as error:
                await world.cells(tally.account, limit=limit)
            assert error.value.code == "host.page_limit"

    on_node(main)


def test_a_prefix_of_another_kind_than_the_keys_is_refused(on_node, tally):
    async def main(opened):
        async with opened() as node:
            world = await node.world("w")
            with pytest.raises(Rejected) as error:
                await world.cells(tally.account, prefix=b"a")
            assert (error.value.code, "tally/account" in str(error.value)) == ("app.key_prefix", True)

    on_node(main)
