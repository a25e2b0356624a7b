"""What `check` says of a snapshot whose parts do not fit each other, and of rows that are none.

A world is changed in one part of its snapshot, which is made to hash right again. What a snapshot tells of
intents has its own cases in `intents/test_wrong_books.py`, and of a heartbeat in `tests/properties`.
"""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.index import CELLS, LISTS, build, pair_key, scan_all
from cellule.kernel.items import EventItem
from cellule.kernel.need import Nodes, drive
from cellule.kernel.prove.check import check_snapshot
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.envelope import seal
from cellule.values.link import Link

ORDER = "shop/Order"
FIELDS = ("state", "size", "version", "born", "born_ns", "era", "active_ns", "last", "extras")


def event(name, order, **more):
    return EventItem(f"shop/{name}@1", encode({"order": order, **more}))


@pytest.fixture
def lived(world):
    """A world with a cell at rest, one that halted, and one with a message that waits."""
    world.beat([event("Paid", "rests"), event("Failed", "halted", why="no")])
    world.settle()
    world.control("heartbeat.beat")
    world.control("pause")
    world.beat([event("Paid", "waits")])
    return world


class Lie:
    """The root of a snapshot, to be changed."""

    def __init__(self, world):
        self.world = world
        self.saved = decode(world.cas[world.snapshot()])

    def rows(self, part):
        """The rows of an index."""
        nodes = Nodes(0)
        return dict(drive(scan_all(part[0].cid, nodes), nodes, self.world.fetch))

    def index(self, rows, shape=LISTS):
        """An index of these rows, as the root names it."""
        made = build(rows, shape)
        self.world.cas.update(made.blocks)
        return None if made.root is None else [Link(made.root), len(rows)]

    def cell(self, key, **changes):
        """Change fields of a cell's entry."""
        rows = self.rows(self.saved["modules"][ORDER])
        entry = dict(zip(FIELDS, rows[key], strict=True))
        rows[key] = [{**entry, **changes}[name] for name in FIELDS]
        self.saved["modules"][ORDER] = self.index(rows, CELLS)

    def check(self):
        """What `check` says of it."""
        data = encode(self.saved)
        self.world.cas[cid_of(data)] = data
        nodes = Nodes(0)
        return drive(check_snapshot(cid_of(data), nodes), nodes, self.world.fetch)


def an_era_to_come(lie):
    lie.cell(b"rests", era=1)


def an_intent_that_is_not_open(lie):
    lie.cell(b"rests", extras={"intents": [2]})


def a_module_with_more_cells_than_there_are(lie):
    lie.saved["modules"][ORDER][1] += 1


def a_halted_cell_that_is_not_listed(lie):
    lie.saved["stopped"] = None


def a_listed_cell_that_is_not_halted(lie):
    rows = lie.rows(lie.saved["stopped"])
    lie.saved["stopped"] = lie.index({**rows, pair_key(2, 1): [ORDER, b"rests", "halted"]})


def a_halted_cell_that_is_to_run(lie):
    lie.saved["ready"] = lie.index({pair_key(0, 0): [ORDER, b"waits"], pair_key(1, 0): [ORDER, b"halted"]})


def a_message_whose_cell_is_not_to_run(lie):
    lie.saved["ready"] = None


def a_cell_that_is_to_run_twice(lie):
    lie.saved["ready"] = lie.index({pair_key(at, 0): [ORDER, b"waits"] for at in range(2)})


def a_held_cell_without_messages(lie):
    lie.saved["held"] = lie.index({pair_key(0, 0): [ORDER, b"rests"]})


def a_map_that_is_not_there(lie):
    lie.saved["moves"] = lie.index({b"shop/Order": [1, b""]})


def a_key_of_another_length(lie):
    lie.saved["timers"] = lie.index({b"short": ["ttl", ORDER, b"rests", 1]})


def more_rows_than_there_are(lie):
    lie.saved["stopped"][1] += 1


def a_count_of_approvals_that_nobody_waits_for(lie):
    lie.saved["budgets"]["parked"] = 1


def a_fork_that_drops_and_has_answers(lie):
    answers = lie.index({bytes(24): [0, None, "", "", True]})
    lie.saved["fork"] = {
        "answers": answers, "effects": "drop", "height": 1, "live": False, "next": 0, "record": 1,
    }  # fmt: skip


def impulses_that_are_not_there(lie):
    lie.saved["heartbeat"]["queued"] = 1


def more_entries_of_a_registry_than_there_are(lie):
    lie.saved["heartbeat"]["registry"] = [lie.index({bytes(8): 1})[0], 2]


def a_state_that_is_no_value(lie):
    lie.cell(b"rests", state=[b"\xff"], size=1)


LIES = {
    an_era_to_come: "is of era 1, which is not in the table",
    an_intent_that_is_not_open: "the open intents of shop/Order b'rests' are not those that it asked for",
    a_module_with_more_cells_than_there_are: "shop/Order has 3 cells, not 4",
    a_halted_cell_that_is_not_listed: "the list of stopped cells is not that of the cells",
    a_listed_cell_that_is_not_halted: "the list of stopped cells is not that of the cells",
    a_halted_cell_that_is_to_run: "the list of ready cells is not that of the cells with messages",
    a_message_whose_cell_is_not_to_run: "the list of ready cells is not that of the cells with messages",
    a_cell_that_is_to_run_twice: "the list of ready cells is not that of the cells with messages",
    a_held_cell_without_messages: "the list of ready cells is not that of the cells with messages",
    a_map_that_is_not_there: "the map of shop/Order, which becomes cells, is not there",
    a_key_of_another_length: "a key of timers does not have 16 bytes",
    more_rows_than_there_are: "stopped has 1 rows, not 2",
    a_count_of_approvals_that_nobody_waits_for: "the counts of open intents are not those of the intents",
    a_fork_that_drops_and_has_answers: "a fork that has the effects drop has answers",
    impulses_that_are_not_there: "the impulses are not as many as are counted",
    more_entries_of_a_registry_than_there_are: "registry does not have 2 rows",
    a_state_that_is_no_value: "a break ends no item",
}


@pytest.mark.parametrize("change", LIES, ids=lambda change: change.__name__)
def test_a_snapshot_whose_parts_do_not_fit_is_damaged_and_the_part_is_named(lived, change):
    lie = Lie(lived)
    assert lie.check()[ORDER] == 3
    change(lie)
    with pytest.raises(Corrupted) as caught:
        lie.check()
    assert caught.value.code == "kernel.snapshot_damaged"
    assert LIES[change] in str(caught.value)


LISTED = {
    ("schedules", b"\xff"): [b"f", 0, False, 0],
    ("moves", b"\xff"): [1, b""],
    ("ready", b"short"): [ORDER, b"waits"],
    ("held", b"short"): [ORDER, b"waits"],
    ("ready", pair_key(0, 0)): [ORDER, "waits"],
    ("schedules", b"nightly"): [b"f", 0, False],
}


NOWHERE = Link(cid_of(b"nobody has this block"))
MISSING = {
    "pending": [4, 0, "shop/Paid@1", NOWHERE, 0, None],
    "dead_letters": [ORDER, b"rests", "shop.no", "no", [4, 0, "shop/Paid@1", NOWHERE, 0, None]],
}


@pytest.mark.parametrize("part", MISSING)
def test_a_value_whose_own_block_is_missing_is_damage_and_one_that_only_links_it_is_not(lived, part):
    lie = Lie(lived)
    lie.saved[part] = lie.index({pair_key(0, 0): MISSING[part]})
    with pytest.raises(Corrupted, match=str(NOWHERE.cid)) as caught:
        lie.check()
    assert caught.value.code == "kernel.node_missing"
    envelope = seal(encode(NOWHERE))
    assert envelope[1] == [NOWHERE]
    linking = decode(encode(MISSING[part]))
    (linking[-1] if part == "dead_letters" else linking)[3] = envelope
    lie.saved[part] = lie.index({pair_key(0, 0): linking})
    assert lie.check()[ORDER] == 3


@pytest.mark.parametrize("place", LISTED, ids=str)
def test_a_list_whose_keys_or_rows_are_none_is_damaged(lived, place):
    lie = Lie(lived)
    name, key = place
    lie.saved[name] = lie.index({key: LISTED[place]})
    with pytest.raises(Corrupted, match=f"{name} is not a list of 1 rows as they should be") as caught:
        lie.check()
    assert caught.value.code == "kernel.list_damaged"


@pytest.mark.parametrize("by", [-1, 1])
def test_a_list_with_another_number_of_rows_is_damaged(lived, by):
    lie = Lie(lived)
    rows = {pair_key(number, 0): [ORDER, b"waits"] for number in range(2)}
    lie.saved["ready"] = [lie.index(rows)[0], 2 + by]
    with pytest.raises(Corrupted, match=f"ready is not a list of {2 + by} rows"):
        lie.check()
