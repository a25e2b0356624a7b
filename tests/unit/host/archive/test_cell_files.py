"""Cells as files: out, in again where they are not there, and what is redacted, damaged or unfit refused."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from cellule.errors import Rejected
from cellule.host.archive.car import CarFile
from cellule.host.archive.cell_document import CellDocument
from cellule.host.storage.quotas import Quotas
from cellule.kernel.journal.records import ControlRecord
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.car_blocks import plain_blocks, written
from tests.support.nodes import check_store, records_of
from tests.support.virtual_tests import in_virtual_time


@pytest.fixture
def elsewhere(programs):
    """Another store, empty at first; it is proven at the end of each visit."""
    disk = MemoryDisk()

    @asynccontextmanager
    async def visit(opened, **options):
        async with opened(MemoryEngine(disk), **options) as node:
            yield node
        await check_store(MemoryEngine(disk), programs)

    return visit


async def exported(node, tally, path, texts=("one", "two", "x" * 20_000), **options):
    """A cell of two lives in a file."""
    world = await node.world("w")
    await world.send(tally.Keep("k", "a life before"))
    await world.control("cell.delete", who="ann", why="again", module="tally/shelf", key=b"k")
    for text in texts:
        await world.send(tally.Keep("k", text))
    return await (await node.storage("w")).export_cell("shelf", b"k", path, **options)


async def refused(storage, path, **options):
    with pytest.raises(Rejected) as caught:
        await storage.import_cell(path, **options)
    return caught.value


@in_virtual_time
async def test_a_cell_is_the_same_after_its_way_through_a_file(opened, tally, tmp_path, elsewhere):
    path, again = tmp_path / "k.car", tmp_path / "again.car"
    async with opened() as node:
        done = await exported(node, tally, path)
        before = await (await node.world("w")).cell("shelf", "k").view()
    assert done.frames == 5
    async with elsewhere(opened) as node:
        world = await node.world("v")
        storage = await node.storage("v")
        seen = await storage.import_cell(path, dry_run=True)
        assert await world.cell("shelf", "k").view() is None
        made = await storage.import_cell(path, who="ann", why="it was lost")
        assert (made.module, made.key, made.steps, made.root) == ("tally/shelf", b"k", 5, done.root)
        assert (seen.height, seen.state) == (0, made.state)
        view = await world.cell("shelf", "k").view()
        assert (view.state, view.version) == (before.state, 1)
        [version] = await world.cell("shelf", "k").history()
        assert version.height == made.height
        for _ in range(2):
            await node.collect_garbage(grace_s=0)
        await world.send(tally.Keep("k", "and on"))
        await storage.export_cell("shelf", b"k", again)
        kept = await node.explain_retention(done.root)
        assert kept.root is not None
    with CarFile(again) as car:
        document = CellDocument.of_block(car.read(car.root))
        assert document.archives == (done.root,)
        blocks = plain_blocks(path.read_bytes())
        assert {cid: car.read(cid) for cid in blocks} == blocks


@in_virtual_time
async def test_who_imported_a_cell_and_why_is_in_the_journal(opened, tally, tmp_path):
    path = tmp_path / "k.car"
    async with opened() as node:
        done = await exported(node, tally, path)
        await node.world("v")
        await (await node.storage("v")).import_cell(path, who="ann", why="it was lost")
        info = (await node.world("v")).info
    records = [record for _, record in await records_of(MemoryEngine(opened.disk), info)]
    [control] = [each for each in records if isinstance(each, ControlRecord)]
    assert (control.verb, control.who, control.why) == ("cell.import", "ann", "it was lost")
    assert control.arguments["archive"] == Link(done.root)


@in_virtual_time
async def test_a_cell_that_lives_is_not_imported_over(node, tally, tmp_path):
    await exported(node, tally, tmp_path / "k.car")
    storage = await node.storage("w")
    for options in ({}, {"dry_run": True}):
        assert (await refused(storage, tmp_path / "k.car", **options)).code == "archive.cell_lives"
    world = await node.world("w")
    await world.control("cell.delete", who="ann", why="lost", module="tally/shelf", key=b"k")
    made = await storage.import_cell(tmp_path / "k.car")
    history = await world.cell("shelf", "k").history()
    assert [each.height for each in history][:1] == [made.height]
    assert len(history) == 7, "the lives before are still there"


@in_virtual_time
async def test_a_cell_that_was_gone_or_redacted_cannot_be_imported_and_says_why(node, tally, tmp_path):
    await exported(node, tally, tmp_path / "r.car", redact=["text"])
    world = await node.world("w")
    await world.control("cell.delete", who="ann", why="lost", module="tally/shelf", key=b"k")
    storage = await node.storage("w")
    await storage.export_cell("shelf", b"k", tmp_path / "gone.car")
    height = (await world.head()).height
    assert (await refused(storage, tmp_path / "gone.car")).code == "archive.cell_gone"
    error = await refused(storage, tmp_path / "r.car")
    assert error.code == "archive.redacted"
    assert "text" in str(error)
    assert (await world.head()).height == height


@in_virtual_time
async def test_a_redacted_cell_tells_no_value_of_the_field_and_no_key_made_of_it(node, tally, tmp_path):
    secret = "the-card-4711"
    done = await exported(node, tally, tmp_path / "r.car", texts=("one", secret), redact=["text"])
    data = b"".join(plain_blocks((tmp_path / "r.car").read_bytes()).values())
    assert secret.encode() not in data
    assert done.frames == 4
    storage = await node.storage("w")
    with pytest.raises(Rejected) as caught:
        await storage.export_cell("shelf", b"k", tmp_path / "n.car", redact=["name"])
    assert caught.value.code == "archive.redact_key"
    await storage.export_cell("shelf", b"k", tmp_path / "n.car", redact=["name", "key"])
    with CarFile(tmp_path / "n.car") as car:
        assert CellDocument.of_block(car.read(car.root)).key is None


def broken_cells(good):
    """Files that are no exported cell, by what is wrong with them, and with the code that says so."""
    blocks = plain_blocks(good)
    root = next(iter(blocks))
    document = decode(blocks[root])
    page = document["pages"][0].cid
    steps = decode(blocks[page])

    def changed(**fields):
        data = encode({**document, **fields})
        return written(cid_of(data), {cid_of(data): data, **blocks})

    def with_steps(rows):
        data = encode(rows)
        top = encode({**document, "pages": [Link(cid_of(data))], "steps": len(rows)})
        return written(cid_of(top), {cid_of(top): top, cid_of(data): data, **blocks})

    def without(cid):
        return written(root, {each: data for each, data in blocks.items() if each != cid})

    other = encode("not what the module keeps")
    return {
        "cut": (good[:-9], "archive.broken"),
        "another kind": (changed(kind="cellule/world"), "archive.document"),
        "a later format": (changed(format=3), "archive.document"),
        "another field": (changed(more=1), "archive.document"),
        "no key": (changed(key="k"), "archive.document"),
        "no era": (changed(era=7), "archive.cell_gone"),
        "steps out of order": (with_steps(steps[::-1]), "archive.document"),
        "steps left out": (changed(steps=2), "archive.document"),
        "no steps": (with_steps([1, 2]), "archive.document"),
        "a step of nothing": (with_steps([{}]), "archive.document"),
        "a page is missing": (without(page), "archive.block_missing"),
        "the state is missing": (without(document["state"].cid), "archive.block_missing"),
        "the code is missing": (without(document["eras"]["0"].cid), "archive.block_missing"),
        "a module of another world": (changed(module="zoo/lion"), "archive.cell_unfit"),
        "a system module": (changed(module="sys/Operation"), "archive.cell_unfit"),
        "a key that is none": (changed(key=b"\xff\xfe"), "archive.cell_unfit"),
        "a state of another form": (
            written(
                cid_of(top := encode({**document, "state": Link(cid_of(other))})),
                {cid_of(top): top, cid_of(other): other, **blocks},
            ),
            "archive.cell_unfit",
        ),
        "an era of no number": (changed(eras={"²": Link(page)}), "archive.document"),
        "an era without end": (changed(eras={"1" * 5_000: Link(page)}), "archive.document"),
        "a manifest that is none": (changed(eras={"0": Link(page)}), "manifest"),
    }  # fmt: skip


@in_virtual_time
async def test_a_broken_file_is_refused_and_changes_nothing(opened, tally, tmp_path):
    good, bad, disk = tmp_path / "good.car", tmp_path / "bad.car", MemoryDisk()
    async with opened() as node:
        await exported(node, tally, good)
    files = broken_cells(good.read_bytes())
    async with opened(MemoryEngine(disk)) as node:
        await node.world("w")
        storage = await node.storage("w")

        async def rows():
            return [row async for page in MemoryEngine(disk).rows() for row in page]

        before = await rows()
        for what, (data, code) in files.items():
            bad.write_bytes(data)
            error = await refused(storage, bad)
            assert error.code.startswith(code), (what, error)
            assert await rows() == before, what


@in_virtual_time
async def test_a_cell_is_not_imported_beyond_the_quota_of_cells(node, tally, tmp_path):
    await exported(node, tally, tmp_path / "k.car")
    await node.world("v")
    await node.set_quotas(Quotas(cells=0))
    error = await refused(await node.storage("v"), tmp_path / "k.car")
    assert (error.code, error.fields["quota"]) == ("host.quota", "cells")
