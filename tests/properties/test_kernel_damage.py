"""Journals and snapshots that lie: whatever stands in them, a world opens whole or not at all.

Frames and snapshots are changed in one place and made to hash right again, as a bug or a hostile archive
would. The only answer besides a working world is `Corrupted`: no other exception, and nothing half-opened.
"""

from __future__ import annotations

import os
from functools import lru_cache

from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.errors import Corrupted
from cellule.kernel.items import EventItem
from cellule.kernel.need import Need, Nodes, drive, fetch
from cellule.kernel.prove.check import Position, check_frames, check_snapshot, needed_links, reachable
from cellule.kernel.world import World
from cellule.values.cbor import decode, encode, links_of
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.kernel_history import live

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "150"))
NOWHERE = Link(cid_of(encode("nobody has this block")))
JUNK = st.sampled_from([
    None, True, 0, 1, 7, 99, -1, 2**63, 1.5, "", "x", b"", b"x", b"x" * 16, b"x" * 32, [], [[]], [b"\xa0"],
    [b"\xff"], [0, b"a"], ["x", b"a"], {}, {"a": 1}, {"cells": [1]}, {"cells": [["x", b"a"]]}, {"queue": 1},
    {"status": 1}, NOWHERE,
])  # fmt: skip
NOTE = EventItem("town/Note@1", encode({"who": "new", "pad": 1}))
quick = settings(max_examples=EXAMPLES, deadline=None, database=None)


@lru_cache
def lived():
    """One world for all examples; it is only read. Its journal and last snapshot hold all there is."""
    world = live(3)
    world.snapshot()
    return world


def places(value, path=()):
    yield path
    items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for at, item in items:
        yield from places(item, (*path, at))


def changed(value, path, junk):
    if not path:
        return junk
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = changed(value[path[0]], path[1:], junk)
    return copy


def relinked(value, old, new):
    """The value with every link to `old` going to `new`."""
    if isinstance(value, Link):
        return Link(new) if value.cid == old else value
    if isinstance(value, list):
        return [relinked(item, old, new) for item in value]
    if isinstance(value, dict):
        return {name: relinked(item, old, new) for name, item in value.items()}
    return value


def with_changed_frame(world, data, junk):
    """The journal up to a frame that is changed in one place."""
    at = data.draw(st.integers(1, len(world.frames) - 1))
    value = decode(world.frames[at])
    path = data.draw(st.sampled_from([path for path in places(value) if path]))
    return [*world.frames[:at], encode(changed(value, path, junk))]


@quick
@given(data=st.data(), junk=JUNK)
def test_a_journal_with_a_changed_frame_is_corrupted_or_opens_whole(data, junk):
    world = lived()
    frames = with_changed_frame(world, data, junk)
    try:
        restored = world.restored(frames=frames)
    except Corrupted:
        return
    last = decode(frames[-1])[0]["last"]
    assert (restored.ledger.height, restored.ledger.frame) == (last, cid_of(frames[-1]).digest)


@quick
@given(data=st.data(), junk=JUNK)
def test_a_journal_that_check_accepts_is_corrupted_or_gives_a_sound_world(data, junk):
    world = lived()
    frames = with_changed_frame(world, data, junk)
    try:
        checked = list(check_frames(frames, Position(0, None)))
        assert len(checked) == len(frames)
        for frame in checked:
            nodes = Nodes(0)
            drive(fetch(nodes, needed_links(frame)), nodes, world.fetch)
        restored = world.restored(frames=frames)
    except Corrupted:
        return
    nodes = Nodes(10_000_000)
    counts = drive(check_snapshot(world.snapshot(restored), nodes), nodes, world.fetch)
    assert set(counts) <= set(restored.ledger.modules)


@quick
@given(data=st.data(), junk=JUNK)
def test_a_changed_snapshot_is_corrupted_or_works(data, junk):
    world = lived()
    root = world.snapshots[1][1]
    nodes = Nodes(10_000_000)
    graph = sorted(drive(reachable([root], nodes), nodes, world.fetch))
    manifests = {era.manifest for era in world.world.ledger.eras}
    cid = data.draw(st.sampled_from([root, *(cid for cid in graph if cid not in manifests)]))
    value = decode(world.cas[cid])
    path = data.draw(st.sampled_from(list(places(value))))
    cas = {cid: world.cas[cid] for cid in graph}
    bad = replaced(cas, root, cid, encode(changed(value, path, junk)))

    def fetch(cids):
        return {cid: cas[cid] for cid in cids if cid in cas}

    nodes = Nodes(10_000_000)
    try:
        drive(check_snapshot(bad, nodes), nodes, fetch)
        restoring = World.restore(bad, world.world_id, world.programs)
        opened = drive(restoring.open(), restoring.nodes, fetch)
        found = drive(opened.world(), restoring.nodes, fetch)
        answer = found.beat([NOTE], world.now_ns, bytes(16))
        while isinstance(answer, Need):
            answer = found.resume(fetch(answer.cids))
    except Corrupted:
        return
    assert answer.frame is not None


def replaced(cas, root, old, data):
    """Put changed bytes in the place of `old`, and everything above it anew; returns the new root."""
    new = cid_of(data)
    cas[new] = data
    if old == root:
        return new
    for cid, held in list(cas.items()):
        if cid not in (old, new) and old in links_of(held):
            return replaced(cas, root, cid, encode(relinked(decode(held), old, new)))
    return root
