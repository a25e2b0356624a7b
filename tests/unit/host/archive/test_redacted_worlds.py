"""A world's journal without some fields: it says so, proves what it can, and makes nothing."""

from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.host.archive.car import CarFile
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing.recordings import replay_export
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.car_blocks import plain_blocks, written
from tests.support.virtual_tests import in_virtual_time

SECRET = "the-card-4711"


async def filled(node, tally):
    world = await node.world("w")
    await world.send(tally.Add("a", 7, note=SECRET))
    for number in range(3):
        await world.send(tally.Keep("k", f"{SECRET} {number} " + "y" * 20_000 * number))
    await world.snapshot()
    await (await node.storage("w")).compact(everything=True)
    await world.send(tally.Keep("k", SECRET))
    return world


@in_virtual_time
async def test_a_redacted_world_holds_its_journal_and_no_value_of_the_fields(node, tally, tmp_path):
    world = await filled(node, tally)
    done = await node.export_world("w", tmp_path / "r.car", redact=["note", "text"])
    blocks = plain_blocks((tmp_path / "r.car").read_bytes())
    assert SECRET.encode() not in b"".join(blocks.values())
    with CarFile(tmp_path / "r.car") as car:
        root = decode(car.read(car.root))
    assert (root["kind"], root["redacted"]) == ("cellule/redacted-world", ["note", "text"])
    frames = [decode(blocks[link.cid]) for page in root["pages"] for _, link in decode(blocks[page.cid])]
    assert [each["frame"] for each in frames] == [frame.cid.digest async for frame in world.frames()]
    assert done.frames == len(frames)
    events = [each for frame in frames for each in frame["records"] if each["kind"] == "event"]
    assert {"account": "a", "amount": 7, "note": None} in [each["value"] for each in events]


@in_virtual_time
async def test_long_records_of_a_redacted_world_are_blocks_of_their_own(node, tally, tmp_path, monkeypatch):
    monkeypatch.setattr("cellule.host.archive.redacted_world.EXPORT_FRAME_BYTES", 200)
    await filled(node, tally)
    await node.export_world("w", tmp_path / "r.car", redact=["note"])
    blocks = plain_blocks((tmp_path / "r.car").read_bytes())
    nodes = [decode(data) for cid, data in blocks.items() if cid.codec == "dag-cbor"]
    frames = [each for each in nodes if isinstance(each, dict) and "records" in each]
    linked = [each for frame in frames for each in frame["records"] if isinstance(each, Link)]
    assert linked
    assert all(decode(blocks[each.cid])["kind"] for each in linked)


@in_virtual_time
async def test_keys_made_of_a_redacted_field_are_not_told_unknowingly(node, tally, tmp_path):
    await filled(node, tally)
    with pytest.raises(Rejected) as caught:
        await node.export_world("w", tmp_path / "r.car", redact=["account"])
    assert caught.value.code == "archive.redact_key"
    await node.export_world("w", tmp_path / "r.car", redact=["account", "key"])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["r.car"]


@in_virtual_time
async def test_nothing_is_made_of_a_redacted_world_and_what_holds_of_it_is_told(opened, tally, tmp_path):
    path, bad, disk = tmp_path / "r.car", tmp_path / "bad.car", MemoryDisk()
    async with opened() as node:
        await filled(node, tally)
        done = await node.export_world("w", path, redact=["note"])
    async with opened(MemoryEngine(disk)) as node:
        for dry_run in (True, False):
            with pytest.raises(Rejected) as caught:
                await node.import_world(path, dry_run=dry_run)
            assert caught.value.code == "archive.redacted"
            assert f"{done.frames} frames to height {done.height}" in str(caught.value)
        for data in broken(path.read_bytes()):
            bad.write_bytes(data)
            with pytest.raises(Rejected) as caught:
                await node.import_world(bad)
            assert caught.value.code in ("archive.world_broken", "archive.document", "archive.block_missing")


def test_no_test_is_made_of_a_redacted_world(on_node, tally, tmp_path):
    async def main(opened):
        async with opened() as node:
            await filled(node, tally)
            await node.export_world("w", tmp_path / "r.car", redact=["note"])

    on_node(main)
    with pytest.raises(Rejected) as caught:
        replay_export(tmp_path / "r.car", tally.app)
    assert caught.value.code == "archive.redacted"


def broken(good):
    """Files whose frames do not follow each other, or do not end where they say."""
    blocks = plain_blocks(good)
    root = next(cid for cid, data in blocks.items() if b"cellule/redacted-world" in data)
    document = decode(blocks[root])
    listed = decode(blocks[document["pages"][0].cid])

    def changed(**fields):
        data = encode({**document, **fields})
        return written(cid_of(data), {cid_of(data): data, **blocks})

    def with_page(frames):
        page = encode(frames)
        top = encode({**document, "pages": [Link(cid_of(page))]})
        return written(cid_of(top), {cid_of(top): top, cid_of(page): page, **blocks})

    yield with_page([*listed[:1], *listed[2:]])
    yield with_page(listed[:-1])
    yield changed(head=bytes(32))
    yield changed(height=3)
    yield changed(before=bytes(32))
    yield changed(first=2)
    yield changed(pages=3)
    yield changed(pages=[])
    yield written(root, {cid: data for cid, data in blocks.items() if cid != listed[0][1].cid})
