"""`world.cells`: cells in the order of their keys, by prefix and range, on the owner and elsewhere."""

from __future__ import annotations

import pytest

from cellule.errors import Rejected, StepFailed
from cellule.host.read import cell_list
from cellule.kernel.state import cell_pages
from tests.support.virtual_tests import in_virtual_time

KEYS = ["Z", "a", "b", "b1", "b10", "b2", "c", "ä"]  # as their UTF-8 bytes stand


async def every_key(world, module, **options):
    found, after = [], None
    while True:
        page = await world.cells(module, after=after, **options)
        found += [cell.key for cell in page.cells]
        if page.next is None:
            return found
        after = page.next


@in_virtual_time
async def test_cells_are_listed_by_prefix_and_range_on_the_owner_and_on_a_guest(opened, tally):
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


@in_virtual_time
async def test_a_list_follows_the_world(opened, tally):
    async with opened() as node, opened(owner=False) as other:
        worlds = [await node.world("w"), await other.world("w")]
        await worlds[0].send_many([tally.Add(key, 1) for key in ("a", "b", "c")])
        first = [await world.cells(tally.account, limit=2) for world in worlds]
        assert [page.next for page in first] == ["b", "b"]
        await worlds[0].send_many([tally.Add(key, 1) for key in ("aa", "bb")])
        for world in worlds:
            page = await world.cells(tally.account, after="b")
            assert ([cell.key for cell in page.cells], page.next) == (["bb", "c"], None)


@in_virtual_time
async def test_a_stopped_cell_is_listed_with_its_status_and_queue(node, tally):
    world = await node.world("w")
    await world.send(tally.Add("a", 1))
    with pytest.raises(StepFailed):
        await world.send(tally.Fail("a"))
    await world.send(tally.Add("a", 1), wait="durable")
    [cell] = (await world.cells(tally.account)).cells
    assert (cell.status, cell.queue, cell.version) == ("halted", 2, 1)
    assert (await world.cells(tally.account)).cells == [cell]


@in_virtual_time
async def test_a_page_of_large_states_is_short(node, tally, monkeypatch):
    monkeypatch.setattr(cell_pages, "CELL_PAGE_BYTES", 10_000)
    world = await node.world("w")
    await world.send_many([tally.Keep(f"k{at}", "x" * 4_000) for at in range(7)])
    await world.snapshot()
    page = await world.cells(tally.shelf)
    assert [cell.key for cell in page.cells] == ["k0", "k1", "k2"]
    assert await every_key(world, tally.shelf) == [f"k{at}" for at in range(7)]


@pytest.mark.parametrize("limit", [0, -1, 1_001])
@in_virtual_time
async def test_a_page_without_a_sensible_limit_is_refused(node, tally, limit):
    world = await node.world("w")
    with pytest.raises(Rejected) as error:
        await world.cells(tally.account, limit=limit)
    assert error.value.code == "host.page_limit"


@in_virtual_time
async def test_a_prefix_of_another_kind_than_the_keys_is_refused(node, tally):
    world = await node.world("w")
    with pytest.raises(Rejected) as error:
        await world.cells(tally.account, prefix=b"a")
    assert (error.value.code, "tally/account" in str(error.value)) == ("app.key_prefix", True)


# Chosen by an expression


async def chosen(world, module, where, **options):
    """All keys that an expression is true of, and how many cells it gave no answer for."""
    found, failed, after = [], 0, None
    while True:
        page = await world.cells(module, where=where, after=after, **options)
        found += [cell.key for cell in page.cells]
        failed += page.failed
        if page.next is None:
            return found, failed
        after = page.next


@in_virtual_time
async def test_cells_are_chosen_by_an_expression_over_state_key_and_status(opened, tally):
    async with opened() as node, opened(owner=False) as other, opened(owner=False, app=None) as plain:
        world = await node.world("w")
        await world.send_many([tally.Add(f"k{at:02}", at) for at in range(30)])
        await world.snapshot()
        await world.send_many([tally.Add(f"k{at:02}", 100) for at in range(3)])
        with pytest.raises(StepFailed):
            await world.send(tally.Fail("k07"))
        for each in (world, await other.world("w"), await plain.world("w")):
            for limit in (1, 2, 100):
                assert await chosen(each, "account", "state.total >= 28", limit=limit) == (
                    ["k00", "k01", "k02", "k28", "k29"], 0,
                )  # fmt: skip
            assert await chosen(each, "account", "status == 'halted'") == (["k07"], 0)
            assert await chosen(each, "account", "version == 2 && key != 'k01'") == (["k00", "k02"], 0)
            assert await chosen(each, "account", "queue == 1", prefix="k0") == (["k07"], 0)
            assert await chosen(each, "account", "state.total == 5", start="k06") == ([], 0)
        page = await world.cells(tally.account, where="state.total == 5")
        assert [cell.state for cell in page.cells] == [tally.Account(5, 1)]
        assert (page.next, page.scanned, page.failed, page.failure) == (None, 30, 0, "")


@in_virtual_time
async def test_a_page_looks_at_a_bounded_number_of_cells_and_says_where_to_go_on(node, tally, monkeypatch):
    monkeypatch.setattr(cell_list, "CELLS_SCAN_MAX", 10)
    monkeypatch.setattr(cell_list, "SCAN_PAGE", 4)
    world = await node.world("w")
    await world.send_many([tally.Add(f"k{at:02}", at) for at in range(25)])
    first = await world.cells(tally.account, where="state.total == 24")
    assert (first.cells, first.next, first.scanned) == ([], "k09", 10)
    assert await chosen(world, tally.account, "state.total == 24") == (["k24"], 0)
    assert await chosen(world, tally.account, "state.total >= 9", limit=3) == (
        [f"k{at:02}" for at in range(9, 25)], 0,
    )  # fmt: skip


@in_virtual_time
async def test_matching_cells_with_large_states_are_given_in_parts(node, tally, monkeypatch):
    monkeypatch.setattr(cell_list, "SCAN_PAGE", 2)
    monkeypatch.setattr(cell_list, "CELL_PAGE_BYTES", 10_000)
    world = await node.world("w")
    await world.send_many([tally.Keep(f"k{at}", "x" * 4_000) for at in range(7)])
    page = await world.cells(tally.shelf, where="size > 0")
    assert ([cell.key for cell in page.cells], page.next) == (["k0", "k1", "k2", "k3"], "k3")
    assert (await chosen(world, tally.shelf, "size > 0"))[0] == [f"k{at}" for at in range(7)]


@in_virtual_time
async def test_a_cell_that_an_expression_fails_on_is_counted_and_told(node, tally):
    world = await node.world("w")
    await world.send_many([tally.Add(key, total) for key, total in zip("abcd", (1, 0, 5, 0), strict=True)])
    page = await world.cells(tally.account, where="10 / state.total > 2")
    assert [cell.key for cell in page.cells] == ["a"]
    assert (page.failed, page.scanned, page.next) == (2, 4, None)
    assert page.failure.startswith("b: ")
    assert "zero" in page.failure


@pytest.mark.parametrize(
    ("where", "parts"),
    [
        ("queue > 1 && state.totl > 1", ["line 1, column 14", "'totl'", "count, total"]),
        ("state.total >", ["line 1, column 14"]),
        ("state.total", ["line 1"]),
        ("now > 3", ["line 1, column 1", "now"]),
        (5, ["int"]),
    ],
)
@in_virtual_time
async def test_an_expression_that_does_not_fit_is_refused_with_its_place(node, tally, where, parts):
    world = await node.world("w")
    with pytest.raises(Rejected) as error:
        await world.cells(tally.account, where=where)
    for part in parts:
        assert part in f"{error.value} {error.value.hint}"
