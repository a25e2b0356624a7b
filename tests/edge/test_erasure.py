"""Erasure on every kind of store, through the public API: not a byte in clear, in rows, objects and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellule import ERASED
from cellule.kernel.key_ring import key_id, parse_row
from cellule.store import keys
from tests.support.nodes import load_app
from tests.support.places import FOLDER, FOLDER_AND_OBJECTS, POSTGRES_AND_S3
from tests.support.retained import contents

PEOPLE = load_app(Path(__file__).parents[1] / "node_apps" / "people.py")
MARK = "Elm Street"
SECRET = MARK.encode()


async def contents_of(place):
    async with place.store() as store:
        return await contents(store.engine, store.objects)


@pytest.mark.parametrize("place", [FOLDER, FOLDER_AND_OBJECTS, POSTGRES_AND_S3], indirect=True)
async def test_what_was_erased_is_nowhere_and_the_store_is_sound(place):
    async with place.open(PEOPLE.app) as node:
        world = await node.world("w")
        for number in range(4):
            await world.send(PEOPLE.Said("p", f"{MARK} {number} " + "x" * 20_000))
            await world.send(PEOPLE.Met("q", f"{MARK} {number}", "long"))
        await world.snapshot()
        await (await node.storage("w")).compact(everything=True)
        info = world.info
        assert (await world.cell(PEOPLE.person, "p").state()).count == 4
    assert SECRET not in await contents_of(place)
    row = keys.erasure_key(info.universe, key_id(info.id.bytes, "people/person", b"p"))
    async with place.store() as store:
        [data] = await store.engine.read([row])
    key = parse_row(data).key
    assert key in await contents_of(place)
    async with place.open(PEOPLE.app) as node:
        world = await node.world("w")
        await world.operator("ada").erase(PEOPLE.person, "p", why="asked for")
        assert {version.state for version in await world.cell(PEOPLE.person, "p").history()} == {ERASED, None}
        await world.send(PEOPLE.Said("p", f"{MARK} again"))
    held = await contents_of(place)
    assert key not in held
    assert SECRET not in held
    async with place.open(PEOPLE.app) as node:
        world = await node.world("w")
        assert await world.cell(PEOPLE.person, "p").state() == PEOPLE.Person(f"{MARK} again", 1)
        assert (await world.cell(PEOPLE.person, "q").state()).count == 4
    await place.prove()


def bytes_below(folder):
    """The bytes of all files of a folder."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("place", [FOLDER], indirect=True)
async def test_a_destroyed_key_is_in_no_file_once_the_store_is_closed(place):
    async with place.open(PEOPLE.app) as node:
        world = await node.world("w")
        for number in range(50):
            await world.send(PEOPLE.Said(f"p{number}", f"{MARK} {number}"))
        info = world.info
        names = [key_id(info.id.bytes, "people/person", b"p%d" % number) for number in range(50)]
        rows = await node.node.engine.read([keys.erasure_key(info.universe, name) for name in names])
        made = [parse_row(data).key for data in rows]
        await world.operator("ada").erase(PEOPLE.person, *(f"p{n}" for n in range(0, 50, 2)), why="asked for")
    files = bytes_below(Path(place.address))
    assert SECRET not in files
    assert [key in files for key in made] == [bool(number % 2) for number in range(50)]
