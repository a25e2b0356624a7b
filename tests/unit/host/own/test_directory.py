"""What exists in a store: rows that must be there, damage of one row, deletion, and what is gone."""

from __future__ import annotations

from uuid import UUID

import pytest

from cellule.errors import Corrupted, Gone, Rejected, Unavailable
from cellule.host.own.deletion import delete_names, delete_rows
from cellule.host.own.directory import Directory
from cellule.host.own.refs import create_ref, move_ref
from cellule.sources import SystemClock
from cellule.store import keys
from cellule.store.cas import NOTHING, Parts
from cellule.store.engine import Batch
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.store.format import check_format
from cellule.store.sound_scan import sound_scan
from cellule.testing.entropy import SeededEntropy
from cellule.values.cbor import encode
from cellule.values.cid import cid_of

BASELINE = cid_of(b"\xa0")


async def nothing() -> Parts:
    """Nobody collects here."""
    return NOTHING


async def delete_world(engine, world, now_ns):
    """As a node does, without an outbox."""
    await delete_rows(engine, Directory(engine, SystemClock(), SeededEntropy(0, "own")), world, now_ns)
    await delete_names(engine, world)


class Place:
    """A directory over memory; `hide` and `damage` do to one row what a bad disk does."""

    def __init__(self):
        self.disk = MemoryDisk()
        self.engine = MemoryEngine(self.disk)
        self.clock = SystemClock()
        self.entropy = SeededEntropy(1, "directory")
        self.directory = Directory(self.engine, self.clock, self.entropy)

    async def filled(self, *names):
        self.universe = await self.directory.create_universe("u")
        return [await self.directory.create_world(self.universe, name, BASELINE, nothing) for name in names]

    async def hide(self, key):
        await self.engine.commit(Batch(clear=[key]))


@pytest.fixture
async def place():
    made = Place()
    await check_format(made.engine)
    return made


@pytest.mark.parametrize("hidden", [keys.universe_name, keys.universe_named])
async def test_a_universe_of_which_one_row_is_hidden_is_not_made_again(place, hidden):
    await place.filled()
    await place.hide(hidden("u"))
    for call in (place.directory.universe, place.directory.find_universe, place.directory.create_universe):
        with pytest.raises(Corrupted) as caught:
            await call("u")
        assert caught.value.code == "host.name_damaged"


@pytest.mark.parametrize("hidden", [keys.ref, keys.ref_named])
async def test_a_world_of_which_a_ref_is_hidden_is_not_made_again(place, hidden):
    """A second, empty world of that name was made."""
    await place.filled("w")
    await place.hide(hidden(place.universe.id, "w"))
    before = place.disk.dump()
    for call in (
        lambda: place.directory.world(place.universe, "w"),
        lambda: place.directory.find(place.universe, "w"),
        lambda: place.directory.create_world(place.universe, "w", BASELINE, nothing),
    ):
        with pytest.raises(Corrupted) as caught:
            await call()
        assert (caught.value.code, "u/w" in str(caught.value)) == ("host.name_damaged", True)
    assert place.disk.dump() == before


async def test_lists_that_lack_a_row_say_so(place):
    [first, _] = await place.filled("a", "b")
    await place.hide(keys.universe_world(place.universe.id, first.id))
    with pytest.raises(Corrupted) as caught:
        await place.directory.worlds(place.universe.id)
    assert (caught.value.code, caught.value.fields["found"], caught.value.fields["count"]) == (
        "host.list_short", 1, 2,
    )  # fmt: skip
    await place.hide(keys.universe_name("u"))
    with pytest.raises(Corrupted) as caught:
        await place.directory.universes()
    assert caught.value.code == "host.list_short"


@pytest.mark.parametrize("hidden", [keys.world_meta, keys.universe_world])
async def test_a_world_that_lost_one_of_its_rows_is_told_by_its_id(place, hidden):
    [world] = await place.filled("w")
    await place.hide(hidden(world.universe, world.id))
    for name in ("w", str(world.id)):
        with pytest.raises(Corrupted) as caught:
            await place.directory.world(place.universe, name)
        assert (caught.value.code, str(world.id) in str(caught.value)) == ("host.world_rows", True)


async def test_a_universe_without_its_own_row_is_told_by_name(place):
    await place.filled()
    await place.hide(keys.universe_meta(place.universe.id))
    for call in (lambda: place.directory.universe("u"), place.directory.universes):
        with pytest.raises(Corrupted) as caught:
            await call()
        assert (caught.value.code, "universe u" in str(caught.value)) == ("host.row_missing", True)


async def test_an_id_that_no_world_has_is_no_damage(place):
    await place.filled("w")
    with pytest.raises(Rejected) as caught:
        await place.directory.world(place.universe, str(UUID(int=7)))
    assert caught.value.code == "host.no_world"


async def test_a_world_is_not_named_like_an_id(place):
    """It was found in place of the world of that id."""
    [world] = await place.filled("w")
    with pytest.raises(Rejected) as caught:
        await place.directory.create_world(place.universe, str(world.id), BASELINE, nothing)
    assert caught.value.code == "host.world_name"


@pytest.mark.parametrize("name", [None, 5, b"w"])
async def test_names_that_are_no_text_are_refused(place, name):
    await place.filled("w")
    for call in (
        lambda: place.directory.world(place.universe, name),
        lambda: place.directory.create_world(place.universe, name, BASELINE, nothing),
        lambda: place.directory.universe(name),
    ):
        with pytest.raises(Rejected) as caught:
            await call()
        assert (caught.value.code, "is text" in str(caught.value)) == ("store.key_field", True)


async def test_the_name_goes_although_very_many_refs_stand_before_it(place):
    """Only the first 10,000 refs were looked at; the name stayed for ever."""
    [world] = await place.filled("zzz")
    for start in range(0, 10_500, 1_500):
        names = [f"name {number:06}" for number in range(start, start + 1_500)]
        rows = {keys.ref(world.universe, name): bytes(16) for name in names}
        rows |= {keys.ref(world.universe, f"zzz {start} {number}"): world.id.bytes for number in range(300)}
        await place.engine.commit(Batch(set=rows))
    await delete_world(place.engine, world, 1)
    assert await place.directory.find(place.universe, "zzz") is None
    begin, end = keys.ref_range(world.universe)
    rows = []
    while page := await place.engine.scan(begin, end, limit=10_000):
        rows += page.items
        if not page.more:
            break
        begin = page.items[-1][0] + b"\0"
    assert [value for _, value in rows] == [bytes(16)] * 10_500
    again = await place.directory.create_world(place.universe, "zzz", BASELINE, nothing)
    assert again.id != world.id
    assert await place.directory.worlds(world.universe) == [again]


class Stopping:
    """An engine that fails at its n-th commit."""

    def __init__(self, engine, left):
        self._engine = engine
        self._left = left

    def __getattr__(self, name):
        return getattr(self._engine, name)

    async def commit(self, batch):
        if not self._left:
            raise Unavailable("test.stopped", "stopped")
        self._left -= 1
        return await self._engine.commit(batch)


@pytest.mark.parametrize("named", ["by its name", "by its id"])
async def test_a_deletion_that_stopped_anywhere_goes_on_by_the_name_or_the_id(place, named):
    """Once the name went before the row in the list, and the world was listed for ever."""
    await place.filled()
    universe, commits = place.universe, 0
    while True:
        world = await place.directory.create_world(universe, f"w{commits}", BASELINE, nothing)
        name = world.name if named == "by its name" else str(world.id)
        if named == "by its id":  # its name is another world's now
            other = await place.directory.create_world(universe, f"o{commits}", BASELINE, nothing)
            await move_ref(place.engine, place.directory, universe, world.name, other)
        try:
            await delete_world(Stopping(place.engine, commits), world, 1)
        except Unavailable:
            leaving = await place.directory.leaving(universe, name)
            assert (leaving is None) == (commits == 0)
            if commits:
                with pytest.raises(Gone):
                    await place.directory.world(universe, str(world.id))
            await delete_world(place.engine, leaving or world, 2)
        else:
            break
        assert world not in await place.directory.worlds(universe.id)
        left = [key for key in place.disk.dump() if world.id.bytes in key]
        assert left == [keys.world_gone(universe.id, world.id)]
        commits += 1
    assert commits > 3
    assert await place.directory.leaving(universe, name) is None


async def test_a_name_that_moves_while_its_world_is_deleted_stays(place):
    [world, other] = await place.filled("w", "other")
    engine, universe = place.engine, place.universe

    class Between(Stopping):
        """Moves the name just before the commit that would remove it."""

        async def commit(self, batch):
            if keys.ref(universe.id, "w") in batch.clear and self._left:
                self._left = 0
                await move_ref(engine, place.directory, universe, "w", other)
            return await engine.commit(batch)

    await delete_rows(engine, Directory(engine, SystemClock(), SeededEntropy(0, "own")), world, 1)
    await delete_names(Between(engine, 1), world)
    assert await place.directory.find(universe, "w") == other
    assert await place.directory.worlds(universe.id) == [other]


async def test_no_name_points_to_a_world_that_is_gone(place):
    [world, _] = await place.filled("w", "other")
    await delete_world(place.engine, world, 1)
    with pytest.raises(Gone):
        await create_ref(place.engine, place.directory, place.universe, "alias", world)
    with pytest.raises(Gone):
        await move_ref(place.engine, place.directory, place.universe, "other", world)
    assert await place.directory.find(place.universe, "alias") is None


async def test_a_scan_goes_around_damaged_rows(place):
    rows = {keys.universe_name(f"{number:02}"): b"row" for number in range(20)}
    await place.engine.commit(Batch(set=rows))
    names = sorted(rows)
    bad = [names[0], names[7], names[8], names[19]]
    for key in bad:
        place.disk.damage(key)
    begin, end = keys.universe_name_range()
    with pytest.raises(Corrupted):
        await place.engine.scan(begin, end, limit=100)
    for limit in (1, 2, 3, 7, 8, 9, 20, 100):
        found, damaged, start = [], [], begin
        while True:
            page, errors = await sound_scan(place.engine, start, end, limit=limit)
            assert len(page.items) + len(errors) <= limit
            found += [key for key, _ in page.items]
            damaged += errors
            if not page.more:
                break
            start = max([key for key, _ in page.items[-1:]] + list(errors)[-1:]) + b"\0"
        assert (found, damaged) == ([key for key in names if key not in bad], bad)


async def test_a_damaged_row_of_a_list_hides_no_other_world(place):
    worlds = await place.filled("a", "b", "c")
    key = keys.universe_world(place.universe.id, worlds[1].id)
    place.disk.damage(key)
    assert sorted(each.name for each in await place.directory.worlds(place.universe.id)) == ["a", "b", "c"]


async def test_a_name_that_another_took_first_is_in_use_and_not_damaged(place):
    await place.filled("w")
    with pytest.raises(Rejected) as caught:
        await place.directory.create_world(place.universe, "w", BASELINE, nothing)
    assert caught.value.code == "host.world_exists"


@pytest.mark.parametrize("row", [b"", b"\xff", encode(None), encode(5), encode([]), encode({}), encode("x")])
async def test_a_row_that_is_not_what_was_written_is_told_by_name(place, row):
    """It passed its checksum, and ended the node as an error of Python."""
    first, _ = await place.filled("a", "b")
    universe = place.universe
    before = await place.engine.read([keys.universe_meta(universe.id)])
    await place.engine.commit(Batch(set={keys.universe_world(universe.id, first.id): row}))
    for call in (
        lambda: place.directory.worlds(universe.id), lambda: place.directory.world(universe, "a"),
        lambda: place.directory.listed(universe.id, first.id),
    ):  # fmt: skip
        with pytest.raises(Corrupted, match=str(first.id)) as caught:
            await call()
        assert caught.value.code == "host.row_unreadable"
    assert (await place.directory.world(universe, "b")).name == "b"
    await place.engine.commit(Batch(set={keys.universe_meta(universe.id): row}))
    with pytest.raises(Corrupted, match="universe u") as caught:
        await place.directory.universe("u")
    assert caught.value.code == "host.row_unreadable"
    assert before != [row]
