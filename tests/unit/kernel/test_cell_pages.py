"""Pages of cells: in key order, as the world is between two beats, whatever is in memory."""

from __future__ import annotations

from random import Random

import pytest

from cellule.kernel.index import prefix_end
from cellule.kernel.items import EventItem, Pace
from cellule.kernel.need import drive
from cellule.kernel.state import cell_pages
from cellule.kernel.state.cell_pages import count_cells, page_of_cells
from cellule.kernel.state.module_cells import Budget
from cellule.values.cbor import encode


def listed(world, base, begin=b"", end=None, limit=7, **options):
    ledger, found, following = world.world.ledger, [], begin
    while following is not None:
        page = drive(page_of_cells(ledger, base, following, end, limit, **options), ledger.nodes, world.fetch)
        assert len(page.entries) <= limit
        found += page.entries
        following = page.next
    return found


def test_pages_hold_what_a_look_at_each_cell_finds(make_world):
    random = Random(5)
    tiny = Budget(hot_cells_max=4, dirty_bytes_max=100_000, nodes_bytes_max=0)
    world = make_world(pace=Pace(quota=7, burst=1), budget=tiny)
    names = [f"o{number}" for number in range(60)]
    for turn in range(25):
        some = random.sample(names, 10)
        schema = "shop/Cancelled@1" if turn % 4 == 3 else "shop/Paid@1"
        items = [EventItem(schema, encode({"order": name})) for name in some]
        failing = EventItem("shop/Failed@1", encode({"order": some[0], "why": "x"}))
        world.beat([*items, failing] if turn % 5 == 4 else items)
        if turn % 6 == 5:
            world.snapshot()
        expected = {name.encode(): world.entry("shop/Order", name.encode()) for name in names}
        there = sorted(item for item in expected.items() if item[1] is not None)
        assert listed(world, "shop/Order") == there
        assert listed(world, "shop/Order", b"o2", b"o3") == [
            item for item in there if b"o2" <= item[0] < b"o3"
        ]
        walk = count_cells(world.world.ledger, "shop/Order")
        assert drive(walk, world.world.ledger.nodes, world.fetch) == len(there)


def test_looking_at_pages_changes_no_bytes(make_world):
    looked, quiet = make_world(), make_world()
    for turn in range(6):
        for world in (looked, quiet):
            world.beat([EventItem("shop/Paid@1", encode({"order": f"o{at * turn}"})) for at in range(30)])
        listed(looked, "shop/Order")
        if turn == 3:
            assert looked.snapshot() == quiet.snapshot()
    assert looked.frames == quiet.frames
    assert looked.snapshot() == quiet.snapshot()


def test_a_module_without_cells_has_none(world):
    assert listed(world, "shop/Nothing") == []
    assert drive(count_cells(world.world.ledger, "shop/Nothing"), world.world.ledger.nodes, dict) == 0


def test_the_end_of_a_prefix_is_the_first_key_that_does_not_begin_with_it():
    assert [prefix_end(each) for each in (b"", b"a", b"a\xff", b"\xff\xff")] == [None, b"b", b"b", None]


@pytest.mark.parametrize(("room", "pages"), [(0, [1, 1, 1, 1, 1]), (1, [2, 2, 1]), (10**6, [5])])
def test_a_page_ends_with_the_cell_that_fills_it(world, monkeypatch, room, pages):
    world.beat([EventItem("shop/Paid@1", encode({"order": f"o{number}"})) for number in range(5)])
    size = world.entry("shop/Order", b"o0").size
    monkeypatch.setattr(cell_pages, "CELL_PAGE_BYTES", size + room)
    ledger, found, following = world.world.ledger, [], b""
    while following is not None:
        page = drive(page_of_cells(ledger, "shop/Order", following, None, 7), ledger.nodes, world.fetch)
        found.append([key for key, _ in page.entries])
        following = page.next
    assert [len(keys) for keys in found] == pages
    assert [key for keys in found for key in keys] == [f"o{number}".encode() for number in range(5)]


def test_cells_that_wait_for_their_first_step_count(make_world):
    world = make_world(pace=Pace(quota=1, burst=1))
    world.beat([EventItem("shop/Paid@1", encode({"order": f"o{number}"})) for number in range(5)])
    walk = count_cells(world.world.ledger, "shop/Order")
    assert drive(walk, world.world.ledger.nodes, world.fetch) == 5
