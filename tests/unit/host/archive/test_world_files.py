"""Worlds as files: out, in again to the same root, and every damaged or malicious file refused."""

from __future__ import annotations

from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from cellule.errors import CelluleError, Rejected
from cellule.host.archive.car import CarFile, block_head, header_bytes, varint
from cellule.host.archive.document import WorldDocument, read_page
from cellule.host.own.deletion import delete_rows
from cellule.host.storage.snapshot_list import kept_snapshots
from cellule.kernel.journal.frame import decode_frame
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.car_blocks import plain_blocks
from tests.support.file_modes import modes_of
from tests.support.nodes import check_store
from tests.support.virtual_tests import in_virtual_time


async def filled(node, tally, rounds=3):
    world = await node.world("w")
    for number in range(rounds):
        for key in range(10):
            await world.send(tally.Keep(f"k{key}", f"{number} {key} " + "y" * 3_000))
        await world.send(tally.Keep("long", f"{number}" + "x" * 90_000))
        await world.snapshot()
    await world.send(tally.Add("a", 7))
    return world


@pytest.fixture
def opened_elsewhere(programs):
    """Another store, empty at first; it is proven at the end of each visit."""

    @asynccontextmanager
    async def elsewhere(opened, disk):
        async with opened(MemoryEngine(disk)) as node:
            yield node
        await check_store(MemoryEngine(disk), programs)

    return elsewhere


async def rows(disk):
    return [row async for page in MemoryEngine(disk).rows() for row in page]


@pytest.mark.usefixtures("open_umask")
@in_virtual_time
async def test_a_file_of_a_world_is_for_its_user_alone(node, tally, tmp_path):
    """It was for every user of the machine to read, draft and all."""
    await (await node.world("w")).send(tally.Add("a", 7))
    (tmp_path / ".w.car.part").touch(0o644)
    await node.export_world("w", tmp_path / "w.car")
    assert modes_of(tmp_path) == {"folder": set(), "file": {0o600}}


@in_virtual_time
async def test_a_world_is_the_same_after_its_way_through_a_file(opened, tally, tmp_path, opened_elsewhere):
    path, disk = tmp_path / "w.car", MemoryDisk()
    async with opened() as node:
        world = await filled(node, tally)
        await (await node.storage("w")).compact(everything=True)
        done = await node.export_world("w", path)
        frames = [frame.cid async for frame in world.frames()]
        head, kept = await world.head(), await (await node.storage("w")).snapshots()
        versions = await world.cell("shelf", "k3").history()
    assert (done.height, done.frames, done.bytes) == (head.height, len(frames), path.stat().st_size)
    async with opened_elsewhere(opened, disk) as node:
        info = await node.import_world(path)
        assert (info.name, info.id) == ("w", world.id)
        again = await node.world("w", create=False)
        assert await again.head() == head
        assert [frame.cid async for frame in again.frames()] == frames
        assert await again.cell("shelf", "k3").history() == versions
        mine = {(each.height, each.cid) for each in await (await node.storage("w")).snapshots()}
        assert {(each.height, each.cid) for each in kept} <= mine
        applied = await again.send(tally.Add("a", 1))
        assert applied.height == head.height + 1
        for _ in range(2):
            await node.collect_garbage(grace_s=0)


@in_virtual_time
async def test_any_ipld_tool_can_read_the_file(node, tally, tmp_path):
    """Blocks are what their CIDs say, the root links pages, pages link frames, frames are DAG-CBOR."""
    world = await filled(node, tally)
    await node.export_world("w", tmp_path / "w.car")
    blocks = plain_blocks((tmp_path / "w.car").read_bytes())
    with CarFile(tmp_path / "w.car") as car:
        assert set(car.places) == set(blocks)
        document = WorldDocument.of_block(blocks[car.root])
    cids = [cid for _, page in document.pages for _, cid in read_page(blocks[page])]
    assert cids == [frame.cid async for frame in world.frames()]
    assert all(decode_frame(blocks[cid]).header for cid in cids)


@in_virtual_time
async def test_a_world_is_in_a_store_once(node, tally, tmp_path):
    await filled(node, tally, rounds=1)
    await node.export_world("w", tmp_path / "w.car")
    for name, code in (
        (None, "host.world_exists"),
        ("other", "archive.world_here"),
        (str(UUID(int=5)), "host.world_name"),
    ):
        with pytest.raises(Rejected) as caught:
            await node.import_world(tmp_path / "w.car", name=name)
        assert caught.value.code == code
    await node.delete_world("w")
    await node.import_world(tmp_path / "w.car", name="again")
    assert (await (await node.world("again")).cell("shelf", "k1").state()).text.startswith("0")
    with pytest.raises(Rejected) as caught:
        await node.export_world("again", tmp_path / "w.car")
    assert caught.value.code == "archive.exists"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w.car"]


@in_virtual_time
async def test_history_that_was_dropped_is_not_in_the_file(
    opened, tally, tmp_path, opened_elsewhere, monkeypatch
):
    monkeypatch.setattr("cellule.host.storage.compaction.SEGMENT_BYTES", 10_000)
    path, disk = tmp_path / "w.car", MemoryDisk()
    async with opened() as node:
        await filled(node, tally)
        storage = await node.storage("w")
        await storage.retain(history="drop")
        dropped = (await storage.compact(everything=True)).dropped
        done = await node.export_world("w", path)
        assert done.first == dropped + 1 > 1
    async with opened_elsewhere(opened, disk) as node:
        await node.import_world(path)
        world = await node.world("w", create=False)
        await world.send(tally.Add("a", 1))


def broken_files(good):
    """Files that are no export, each with what is wrong with it."""
    blocks = plain_blocks(good)
    with_header = header_bytes
    root = next(iter(blocks))
    document = decode(blocks[root])

    def written(found, top=root):
        return with_header(top) + b"".join(block_head(cid, len(data)) + data for cid, data in found.items())

    def changed(**fields):
        data = encode({**document, **fields})
        return written({cid_of(data): data, **blocks}, cid_of(data))

    def forked(lineage, **more):
        origin = {"beat": 0, "effects": "drop", "frame": None, "live": False, "who": "", "why": ""}
        return changed(**{"from": {**origin, "lineage": lineage, **more}})

    frame = next(cid for cid, data in blocks.items() if data[:1] == b"\x83" and b"entropy" in data)
    index = next(cid for cid in blocks if cid not in (root, frame) and cid.codec == "dag-cbor" and cid.codec)
    snapshot = document["snapshots"][-1][1].cid
    page = document["pages"][0][1].cid
    return {
        "nothing": b"",
        "no header": b"\x05hello",
        "text": b"this is no CAR file at all, but some text that is long enough to look like one",
        "cut in a block": good[:-7],
        "cut in a length": good + b"\x80",
        "a flipped byte": good[:-100] + bytes([good[-100] ^ 1]) + good[-99:],
        "two roots": varint(len(two := encode({"roots": [Link(root), Link(root)], "version": 1}))) + two,
        "version 2": varint(len(new := encode({"roots": [Link(root)], "version": 2}))) + new,
        "no root block": written({cid: data for cid, data in blocks.items() if cid != root}),
        "a huge length": with_header(root) + b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(100),
        "an endless length": with_header(root) + b"\xff" * 30,
        "a huge block": with_header(root) + varint(36 + 9_000_000) + bytes(root) + bytes(9_000_000),
        "a wrong hash": with_header(root) + block_head(root, 5) + b"hello",
        "another codec": with_header(root) + varint(41) + b"\x01\x70" + bytes(root)[2:] + b"hello",
        "no DAG-CBOR": with_header(cid_of(b"\x1f")) + block_head(cid_of(b"\x1f"), 1) + b"\x1f",
        "an index is missing": written({cid: data for cid, data in blocks.items() if cid != index}),
        "a snapshot is missing": written({cid: data for cid, data in blocks.items() if cid != snapshot}),
        "a page is missing": written({cid: data for cid, data in blocks.items() if cid != page}),
        "a frame is missing": written({cid: data for cid, data in blocks.items() if cid != frame}),
        "another kind": changed(kind="cellule/zoo"),
        "a later format": changed(format=7),
        "a name with a path": changed(name="../../etc/passwd\x00" * 20),
        "no name": changed(name=7),
        "a short id": changed(world=b"short"),
        "a head beyond the frames": changed(head={**document["head"], "height": 9_999}),
        "another head": changed(head={**document["head"], "frame": bytes(32)}),
        "no pages": changed(pages=[]),
        "pages in disorder": changed(pages=[*document["pages"], document["pages"][0]]),
        "a baseline that is no snapshot": changed(baseline=document["baseline"] - 1),
        "a snapshot of another height": changed(
            snapshots=[[height - 1 if height else 0, link] for height, link in document["snapshots"]],
            baseline=document["baseline"] - 1,
        ),
        "a snapshot that is none": changed(snapshots=[[document["baseline"], Link(page)]]),
        "the first frames left out": changed(first=document["first"] + 2),
        "an origin that is none": changed(**{"from": {"lineage": 3}}),
        "a lineage without an end": forked([]),
        "a lineage that is a cycle": forked([[bytes(16), 1], [document["world"], 2]]),
        "a lineage that falls": forked([[bytes(16), 2], [b"1" * 16, 1]]),
        "a lineage of texts": forked([[bytes(16), "one"]]),
        "a lineage of very many": forked([[bytes(16), 0]] * 1_001),
        "a fork that does what nobody knows": forked([[bytes(16), 0]], effects="burn"),
        "a fork by a number": forked([[bytes(16), 0]], who=7),
        "a fork with more": forked([[bytes(16), 0]], more=7),
    }  # fmt: skip


@pytest.mark.parametrize("what", [
    "a lineage without an end", "a lineage that is a cycle", "a lineage that falls", "a lineage of texts",
    "a lineage of very many", "a fork that does what nobody knows", "a fork by a number", "a fork with more",
    "nothing", "no header", "text", "cut in a block", "cut in a length", "a flipped byte", "two roots",
    "version 2", "no root block", "a huge length", "an endless length", "a huge block", "a wrong hash",
    "another codec",
    "no DAG-CBOR", "an index is missing", "a snapshot is missing", "a page is missing", "a frame is missing",
    "another kind", "a later format", "a name with a path", "no name", "a short id",
    "a head beyond the frames",
    "another head", "no pages", "pages in disorder", "a baseline that is no snapshot",
    "a snapshot of another height", "a snapshot that is none", "the first frames left out",
    "an origin that is none",
])  # fmt: skip
@in_virtual_time
async def test_a_broken_file_is_refused_and_changes_nothing(opened, tally, tmp_path, what):
    good, bad, disk = tmp_path / "good.car", tmp_path / "bad.car", MemoryDisk()
    async with opened() as node:
        await filled(node, tally, rounds=2)
        await node.export_world("w", good)
    bad.write_bytes(broken_files(good.read_bytes())[what])
    async with opened(MemoryEngine(disk)) as node:
        await node.node.universe("default", create=True)
        before = await rows(disk)
        with pytest.raises(CelluleError) as caught:
            await node.import_world(bad)
        assert isinstance(caught.value, Rejected), caught.value
        assert await rows(disk) == before


@in_virtual_time
async def test_a_name_that_looks_like_a_path_is_a_name(node, tally, tmp_path):
    (tmp_path / "here").mkdir()
    await filled(node, tally, rounds=1)
    await node.export_world("w", tmp_path / "here" / "w.car")
    await node.delete_world("w")
    made = await node.import_world(tmp_path / "here" / "w.car", name="../up")
    assert (await node.world("../up", create=False)).id == made.id
    assert [each.name for each in tmp_path.iterdir()] == ["here"]


@in_virtual_time
async def test_an_export_beside_snapshots_is_a_whole_world(opened, tally, tmp_path, monkeypatch):
    """The list of snapshots was read first, and the baseline, a newer one, was not in the file."""
    disk = MemoryDisk()
    async with opened() as node:
        world = await filled(node, tally, rounds=1)
        await (await node.storage("w")).retain(snapshots=1)
        left = 2

        async def listed(engine, *rest):
            nonlocal left
            found = await kept_snapshots(engine, *rest)
            if left:
                left -= 1
                await world.send(tally.Add("a", 1))
                await world.snapshot()
            return found

        monkeypatch.setattr("cellule.host.archive.exporter.kept_snapshots", listed)
        await node.export_world("w", tmp_path / "w.car")
        assert not left
    async with opened(MemoryEngine(disk)) as node:
        await node.import_world(tmp_path / "w.car")
        world = await node.world("w", create=False)
        assert (await world.cell("account", "a").state()).count == 3


@in_virtual_time
async def test_the_name_of_a_world_that_is_half_deleted_is_free_for_forks_and_told_to_imports(
    node, tally, tmp_path
):
    """An import said that collections had begun again and again."""
    await filled(node, tally, rounds=1)
    away = await node.create_world("away")
    await node.export_world("away", tmp_path / "away.car")
    await delete_rows(node.node.engine, node.node.directory, away, 1)
    with pytest.raises(Rejected, match="its deletion did not end"):
        await node.import_world(tmp_path / "away.car")
    child = await node.fork_world("w", "away")
    assert (await child.cell("account", "a").state()).count == 1
    made = await node.import_world(tmp_path / "away.car", name="back")
    assert {each.id for each in await node.worlds()} >= {made.id, child.id}
