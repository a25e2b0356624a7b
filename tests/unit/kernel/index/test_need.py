from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.need import Need, Nodes, fetch
from cellule.values.cid import cid_of

BLOCKS = {cid_of(bytes([n]) * 100): bytes([n]) * 100 for n in range(10)}
CIDS = tuple(BLOCKS)


def test_fetch_asks_for_all_missing_nodes_at_once_and_each_once():
    nodes = Nodes(10_000)
    nodes.add({CIDS[0]: BLOCKS[CIDS[0]]})
    walk = fetch(nodes, [*CIDS[:3], CIDS[2]])
    assert next(walk) == Need(CIDS[1:3])
    nodes.add(BLOCKS)
    with pytest.raises(StopIteration) as end:
        next(walk)
    assert end.value.value == {cid: BLOCKS[cid] for cid in CIDS[:3]}


def test_a_delivery_survives_until_its_walk_has_taken_it_even_without_any_budget():
    nodes = Nodes(0)
    walk = fetch(nodes, CIDS)
    next(walk)
    nodes.add(BLOCKS)
    nodes.evict()
    with pytest.raises(StopIteration) as end:
        next(walk)
    assert end.value.value == BLOCKS
    assert nodes.get(CIDS[0]) is None


def test_two_walks_that_wait_for_the_same_node_both_get_it():
    nodes = Nodes(0)
    walks = [fetch(nodes, CIDS[:1]), fetch(nodes, CIDS[:1])]
    for walk in walks:
        next(walk)
    nodes.add(BLOCKS)
    for walk in walks:
        with pytest.raises(StopIteration) as end:
            next(walk)
        assert end.value.value[CIDS[0]] == BLOCKS[CIDS[0]]
    assert nodes.get(CIDS[0]) is None


def test_an_abandoned_walk_holds_nothing():
    nodes = Nodes(0)
    walk = fetch(nodes, CIDS)
    next(walk)
    nodes.add(BLOCKS)
    walk.close()
    assert all(nodes.get(cid) is None for cid in CIDS)


def test_resuming_without_the_node_says_that_it_does_not_exist():
    nodes = Nodes(0)
    walk = fetch(nodes, CIDS[:1])
    next(walk)
    with pytest.raises(Corrupted) as error:
        next(walk)
    assert error.value.code == "kernel.node_missing"
    assert error.value.fields["cid"] == str(CIDS[0])


def test_bytes_under_a_wrong_cid_are_refused():
    with pytest.raises(Corrupted) as error:
        Nodes(1_000).add({CIDS[0]: b"other"})
    assert error.value.code == "values.cid_mismatch"


def test_the_least_recently_used_nodes_leave_when_the_budget_is_full():
    nodes = Nodes(300)
    for cid in CIDS[:3]:
        nodes.add({cid: BLOCKS[cid]})
    nodes.get(CIDS[0])
    nodes.add({CIDS[3]: BLOCKS[CIDS[3]]})
    assert nodes.bytes_held == 300
    assert [nodes.get(cid) is not None for cid in CIDS[:4]] == [True, False, True, True]


def test_pinned_blocks_stay_in_reach_until_they_are_durable():
    nodes = Nodes(0)
    nodes.pin(BLOCKS)
    assert nodes.get(CIDS[0]) == BLOCKS[CIDS[0]]
    nodes.unpin(CIDS)
    assert nodes.get(CIDS[0]) is None


def test_an_empty_blob_is_a_node_like_any_other():
    empty = cid_of(b"", "raw")
    nodes = Nodes(0)
    nodes.pin({empty: b""})
    assert nodes.get(empty) == b""
