"""Backup and restore: a copy of a store that nodes work on, made on every kind of store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import cellule
from cellule.assembly import Options, copy
from cellule.errors import Rejected
from cellule.host.read.check import check_world
from cellule.host.read.verify import verify_world
from cellule.store.address import parse_address
from tests.support.nodes import load_app

TALLY = load_app(Path(__file__).parents[1] / "node_apps" / "tally.py")
SENDERS = 4
ACKNOWLEDGED = 40
GUEST = {"own": False, "perform": False}


async def proven(node):
    """Check and verify every world; return what its cells hold."""
    for info in await node.worlds():
        cas = node.node.cas(info.universe)
        await check_world(node.node.loader, info, cas)
        assert (await verify_world(node.node.loader, info, cas)).difference is None
    world = await node.world("w")
    accounts = [await world.cell(TALLY.account, f"a{number}").state() for number in range(SENDERS)]
    return [state.count for state in accounts]


async def test_a_backup_under_load_holds_all_that_was_acknowledged_and_is_restored_elsewhere(
    place, another_place, tmp_path
):
    acknowledged = [0] * SENDERS
    enough = asyncio.Event()

    async def send(world, number):
        while True:
            await world.send(TALLY.Add(f"a{number}", 1, "x" * 200), id=f"{number}/{acknowledged[number]}")
            acknowledged[number] += 1
            if sum(acknowledged) >= ACKNOWLEDGED:
                enough.set()

    backup = parse_address(str(tmp_path / "backup"))
    async with place.open(TALLY.app, snapshot_bytes=4_000) as node:
        world = await node.world("w")
        await world.send(TALLY.Keep("large", "y" * 30_000))
        senders = [asyncio.create_task(send(world, number)) for number in range(SENDERS)]
        await enough.wait()
        before = list(acknowledged)
        copied = await copy(place.parsed, backup, Options(store=place.options))
        after = list(acknowledged)
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
    assert copied.rows > 0
    assert (copied.objects > 0) is (place.objects is not None)

    async with cellule.open(backup.rows.path, TALLY.app) as node:
        counts = await proven(node)
        assert all(low <= count <= high + 1 for low, count, high in zip(before, counts, after, strict=True))
    restored = await copy(backup, another_place.parsed, Options(store=another_place.options))
    assert restored.rows > 0
    async with another_place.open(TALLY.app) as node:
        assert await proven(node) == counts
        world = await node.world("w")
        assert (await world.cell(TALLY.shelf, "large").state()).text == "y" * 30_000
        await world.send(TALLY.Add("a0", 1))


async def test_what_waits_in_an_inbox_is_restored_in_its_order(place, another_place, tmp_path):
    async with place.open(TALLY.app) as node:
        await node.world("w")
    async with place.open(TALLY.app, **GUEST) as node:
        world = await node.world("w")
        for number in range(5):
            await world.send(TALLY.Keep("a", f"first {number}"), id=f"f{number}", wait="durable")
    await copy(place.parsed, another_place.parsed, Options(store=another_place.options))
    async with another_place.open(TALLY.app, **GUEST) as node:
        world = await node.world("w")
        await world.send(TALLY.Keep("a", "later"), id="later", wait="durable")
    async with another_place.open(TALLY.app) as node:
        world = await node.world("w")
        async with asyncio.timeout(60):
            while (await world.cell(TALLY.shelf, "a").view()).version < 6:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        states = [version.state.text for version in await world.cell(TALLY.shelf, "a").history()]
    assert states == ["later", *(f"first {number}" for number in reversed(range(5)))]


async def test_a_copy_goes_to_an_empty_place_only(tmp_path):
    one, two = parse_address(tmp_path / "one"), parse_address(tmp_path / "two")
    for address in (one, two):
        async with cellule.open(address.rows.path, TALLY.app) as node:
            await node.world("w")
    with pytest.raises(Rejected) as caught:
        await copy(one, two)
    assert caught.value.code == "store.not_empty"
    with pytest.raises(Rejected) as caught:
        await copy(parse_address(tmp_path / "none"), parse_address(tmp_path / "three"))
    assert caught.value.code == "store.no_data"
    assert not (tmp_path / "three").exists()


async def test_a_copy_that_failed_is_opened_by_nobody(tmp_path):
    source = parse_address(tmp_path / "data", tmp_path / "objects")
    async with cellule.open(source.rows.path, TALLY.app, objects=source.objects.path) as node:
        world = await node.world("w")
        await world.send(TALLY.Keep("large", "y" * 30_000))
    [body] = (tmp_path / "objects" / "cas").rglob("*~*")
    body.write_bytes(b"damaged")
    with pytest.raises(cellule.Corrupted) as failed:
        await copy(source, parse_address(tmp_path / "backup"))
    assert failed.value.code == "cas.damaged"
    with pytest.raises(Rejected) as caught:
        async with cellule.open(tmp_path / "backup"):
            pass
    assert caught.value.code == "store.half_copied"
