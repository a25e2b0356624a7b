"""One reader of frames: rows, then segments where rows are gone, then the worlds it was forked from."""

from __future__ import annotations

from uuid import UUID

import pytest

from cellule.errors import Corrupted, Gone
from cellule.host import journal as journal_module
from cellule.host.journal import Journal, frame_rows
from cellule.host.segments import Segment, read_segment, segment_bytes
from cellule.kernel.journal.frame import Header, encode_frame, first_height, read_header
from cellule.kernel.lineage import Ancestor, Lineage
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Batch
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.values.cid import cid_of

UNIVERSE, WORLD, PARENT = UUID(int=1), UUID(int=2), UUID(int=3)


def frame(first, last, size=10):
    header = Header(first, first, last, 1 << 60, bytes(16), 1, 1, bytes(32))
    rows = [[0, 0, b"x" * size] for _ in range(first, last + 1)]
    return encode_frame(header, [], rows, linked=False)


FRAMES = [(2 * n, frame(2 * n - 1, 2 * n)) for n in range(1, 21)]  # 1-2, 3-4, ..., 39-40


class Store:
    def __init__(self):
        self.engine = MemoryEngine(MemoryDisk())
        self.cas = Cas(self.engine, UNIVERSE)

    def journal(self, *ancestors):
        return Journal(self.engine, self.cas, Lineage(WORLD, ancestors))

    async def put(self, frames, world=WORLD):
        for last, data in frames:
            await self.engine.commit(Batch(set=frame_rows(UNIVERSE, world, last, data)))

    async def archive(self, frames, world=WORLD):
        """What compaction does: the block, then its row."""
        data = segment_bytes(frames)
        [cid] = await self.cas.put_many([data], "raw")
        first, last = first_height(frames[0][1]), frames[-1][0]
        row = Segment(first, last, len(data), cid).row()
        await self.engine.commit(Batch(set={keys.segment(UNIVERSE, world, last): row}))

    async def clear(self, frames, world=WORLD):
        for last, data in frames:
            await self.engine.commit(Batch(clear=list(frame_rows(UNIVERSE, world, last, data))))


@pytest.fixture
def store():
    return Store()


async def forward(journal, first=1, last=40):
    return [found async for found in journal.frames(first, last)]


async def backward(journal, last=40):
    return [found async for found in journal.frames_back(last)]


async def check_all(journal, frames=FRAMES):
    """Every way of reading gives the same frames."""
    assert await forward(journal) == frames
    assert await backward(journal) == frames[::-1]
    for last, data in frames:
        first = first_height(data)
        assert await journal.frame_at(first, 40) == (last, data) == await journal.frame_at(last, 40)
        assert await forward(journal, first) == [each for each in frames if each[0] >= last]
        assert await forward(journal, 1, last) == [each for each in frames if each[0] <= last]
        assert (await backward(journal, last))[0] == (last, data)


@pytest.mark.parametrize("archived", [0, 1, 7, 19, 20])
@pytest.mark.parametrize("cleared", [False, True])
@pytest.mark.parametrize("page", [1, 3, 256])
async def test_frames_are_read_from_rows_and_segments_alike(store, monkeypatch, archived, cleared, page):
    monkeypatch.setattr(journal_module, "FRAMES_PAGE", page)
    await store.put(FRAMES)
    for at in range(0, archived, 3):
        await store.archive(FRAMES[at : min(at + 3, archived)])
    if cleared:
        await store.clear(FRAMES[:archived])
    await check_all(store.journal())


async def test_a_row_that_goes_while_it_is_read_is_found_in_its_segment(store, monkeypatch):
    """A reader that has one page looks for the next in rows that are gone meanwhile."""
    monkeypatch.setattr(journal_module, "FRAMES_PAGE", 2)
    for going_back in (False, True):
        await store.put(FRAMES)
        journal, found = store.journal(), []
        reading = journal.frames_back(40) if going_back else journal.frames(1, 40)
        async for each in reading:
            found.append(each)
            if len(found) == 3:
                await store.archive(FRAMES[:19])
                await store.clear(FRAMES[:19])
        assert found == (FRAMES[::-1] if going_back else FRAMES)


@pytest.mark.parametrize("page", [2, 3, 256])
@pytest.mark.parametrize("going_back", [False, True])
async def test_a_long_frame_whose_parts_go_between_two_pages_is_never_cut(
    store, monkeypatch, page, going_back
):
    monkeypatch.setattr(journal_module, "FRAMES_PAGE", page)
    frames = [(1, frame(1, 1)), (2, frame(2, 2, 200_000)), (3, frame(3, 3, 200_000)), (4, frame(4, 4))]
    scan, seen = store.engine.scan, []

    async def scan_then_compact(begin, end, **options):
        page = await scan(begin, end, **options)
        if b"journal" in begin:
            seen.append(begin)
        if len(seen) == 2:
            await store.archive(frames[:3])
            await store.clear(frames[:3])
        return page

    await store.put(frames)
    monkeypatch.setattr(store.engine, "scan", scan_then_compact)
    journal = store.journal()
    found = await (backward(journal, 4) if going_back else forward(journal, 1, 4))
    assert found == (frames[::-1] if going_back else frames)


async def test_a_frame_that_fills_its_last_part_is_whole(store, monkeypatch):
    monkeypatch.setattr(journal_module, "FRAMES_PAGE", 1)
    monkeypatch.setattr(journal_module, "FRAME_PART_BYTES", len(FRAMES[0][1]))
    await store.put(FRAMES)
    assert await forward(store.journal()) == FRAMES


async def test_what_was_dropped_is_gone_and_says_what_is_kept(store):
    await store.put(FRAMES[5:])
    row = Segment(1, 10).row()
    await store.engine.commit(Batch(set={keys.segment(UNIVERSE, WORLD, 10): row}))
    journal = store.journal()
    assert await journal.oldest() == 11
    assert await forward(journal, 11) == FRAMES[5:]
    for reading in (forward(journal), forward(journal, 10), backward(journal), journal.frame_at(3, 40)):
        with pytest.raises(Gone, match=r"heights 1 to 10 .* is kept from height 11 on"):
            await reading


async def test_below_a_fork_frames_are_the_ancestors(store):
    """40 heights of three worlds; each archived a part, and each went on where the others do not look."""
    oldest = UUID(int=4)
    await store.put([*FRAMES[:8], (18, frame(17, 18, 99))], oldest)
    await store.put([*FRAMES[8:15], (32, frame(31, 32, 99))], PARENT)
    await store.put(FRAMES[15:])
    await store.archive(FRAMES[:3], oldest)
    await store.clear(FRAMES[:3], oldest)
    await store.archive(FRAMES[8:12], PARENT)
    await store.clear(FRAMES[8:12], PARENT)
    journal = store.journal(Ancestor(oldest, 16), Ancestor(PARENT, 30))
    await check_all(journal)
    assert await journal.oldest() == 31


async def test_what_an_ancestor_wrote_is_gone_with_it(store):
    await store.put(FRAMES[8:])
    await store.engine.commit(Batch(set={keys.world_gone(UNIVERSE, PARENT): b"\xa0"}))
    journal = store.journal(Ancestor(PARENT, 16))
    assert await forward(journal, 17) == FRAMES[8:]
    with pytest.raises(Gone, match=r"was written by world .* which was deleted"):
        await journal.frame_at(16, 40)


async def test_a_frame_that_is_nowhere_is_damage(store):
    await store.put([*FRAMES[:5], *FRAMES[6:]])
    journal = store.journal()
    with pytest.raises(Corrupted, match="no frame holds height 11"):
        await journal.frame_at(11, 40)
    assert await journal.frame_at(13, 40) == FRAMES[6]


async def test_snapshots_are_found_through_the_lineage(store):
    async def snapshot(world, height):
        cid = cid_of(bytes((height,)))
        await store.engine.commit(Batch(set={keys.snapshot(UNIVERSE, world, height): bytes(cid)}))
        return height, cid

    first = await snapshot(PARENT, 0)
    older = await snapshot(PARENT, 10)
    await snapshot(PARENT, 24)  # above the fork: not of this history
    own = await snapshot(WORLD, 20)
    journal = store.journal(Ancestor(PARENT, 20))
    found = [await journal.snapshot_at(height) for height in (0, 9, 10, 19, 20, 40)]
    assert [each[:2] for each in found] == [first, first, older, older, own, own]
    assert found[0].row == keys.snapshot(UNIVERSE, PARENT, 0)
    assert (await journal.start())[:2] == own
    assert [await journal.snapshot_height(each[1]) for each in (first, older, own)] == [0, 10, 20]
    assert await journal.snapshot_height(cid_of(bytes((24,)))) is None


def test_a_header_is_read_without_the_records():
    for digest, now_ns in ((None, 0), (b"d" * 32, 1 << 62)):
        header = Header(
            beat=3, first=7, last=8, now_ns=now_ns, entropy=b"e" * 16, quota=9, burst=5, prev=digest
        )
        data = encode_frame(header, ["a/B@1"], [[1, 0, None], [1, 0, None]], linked=False)
        assert read_header(data, cid_of(data)) == header
        assert read_header(data[:-1], cid_of(data)) == header  # what follows is for whoever decodes it


@pytest.mark.parametrize("damage", [lambda data: data[:40], lambda data: data.replace(b"quota", b"quotb")])
def test_a_header_that_is_none_is_damage(damage):
    header = Header(3, 7, 7, 1, b"e" * 16, 9, 5, None)
    data = damage(encode_frame(header, ["a/B@1"], [[1, 0, None]], linked=False))
    with pytest.raises(Corrupted):
        read_header(data, cid_of(data))


def test_a_first_height_is_read_from_the_header_alone():
    for first, last, size in ((1, 1, 0), (23, 24, 5), (300, 302, 70_000), (1 << 40, 1 << 40, 1)):
        data = frame(first, last, size)
        assert first_height(data) == first
        assert first_height(data[:130]) == first
    assert [
        first_height(data) for data in (b"", b"\x83", b"\x83\xa9", b"\x83\xa9\x64beat", b"\xff" * 50)
    ] == [None] * 5


@pytest.mark.parametrize("stored", [b"", b"\xff", b"\xa0", Segment(3, 2).row()])
def test_a_row_that_is_no_segment_is_damage(stored):
    with pytest.raises(Corrupted, match="cannot be read"):
        Segment.of_row(stored)


@pytest.mark.parametrize(
    "block", [b"", b"CELLSEG", b"CELLSEG0" + b"\0" * 7, segment_bytes([(1, b"abc")])[:-1]]
)
def test_a_block_that_is_no_segment_is_damage(block):
    with pytest.raises(Corrupted):
        list(read_segment(block))


def test_a_height_belongs_to_exactly_one_world():
    one, two, three = UUID(int=5), UUID(int=6), UUID(int=7)
    child = Lineage(one).child(two, 10)
    assert (child.parent, child.fork_height) == (one, 10)
    assert [child.world_at(height) for height in (1, 10, 11)] == [one, one, two]
    grandchild = child.child(three, 20)
    assert [grandchild.world_at(height) for height in (10, 11, 20, 21)] == [one, two, two, three]
    assert child.child(three, 4) == Lineage(three, (Ancestor(one, 4),))  # what the child did is not in it
    assert child.child(three, 10) == Lineage(three, (Ancestor(one, 10), Ancestor(two, 10)))
    assert [each.world for each in child.child(three, 10).stretches()] == [one, three]
