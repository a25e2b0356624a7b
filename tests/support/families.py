"""Families of worlds and what they must say: random deeds on a store, a model beside it, and crashes.

The model of a world is what its cells hold, now and at heights that were looked at. `Family.session` looks
at everything and then does something: it sends, here and as a guest, forks, takes and promotes snapshots,
says what is kept, compacts, collects beside other work, moves worlds out of the store and back by a file,
with their keys or without, deletes, and erases diaries where its app has them. A session may be cut off
anywhere: `recover` finds out what became of what was under way, and does the rest.

History may be `Gone` only where somebody let go of it: a world that drops its history, or one that was
deleted although others were forked from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, NamedTuple

from cellule import ERASED
from cellule.errors import Gone, Rejected, StepFailed, Unavailable
from cellule.host.own.directory import WorldInfo
from cellule.host.service import Cellule
from tests.support.diaries import ERASED_TEXT, MARK, DiaryKeys
from tests.support.nodes import load_app

APPS = Path(__file__).parents[1] / "node_apps"
TALLY, DIARIES = load_app(APPS / "tally.py"), load_app(APPS / "diaries.py")
ACCOUNTS, SHELVES, WRITERS = ["a", "b", "c", "d"], ["x", "y"], ["ann", "bob"]
TEXT_SIZES = [10, 10_000, 40_000, 100_000]  # inline, a block, beyond a link, beyond a chunk
WORLDS_MAX = 8
STEPS = 15
TRIES, PAUSE_S = 50, 1.0  # where the store fails now and then

EVENTS = {"account": "Add", "shelf": "Keep", "diary": "Write"}  # by the kinds of cells

Cells = dict[tuple[str, str], Any]


@dataclass
class Model:
    """What a world says: its cells, and those of heights that were looked at."""

    cells: Cells = field(default_factory=dict)
    past: dict[int, Cells] = field(default_factory=dict)
    above: tuple[str, ...] = ()  # the worlds it was forked from

    def at(self, height: int | None, name: str) -> Model:
        """A fork of it, now or at a height of the past."""
        past = {each: cells for each, cells in self.past.items() if height is None or each <= height}
        cells = self.cells if height is None else self.past[height]
        return Model(dict(cells), past, (*self.above, name))


class Sending(NamedTuple):
    """An event that is on its way, or the erasure of a cell: that has no value."""

    world: str
    cell: tuple[str, str]
    value: int | str | None
    id: str


DEEDS = {
    "send": 10, "fork": 4, "snapshot": 3, "promote": 1, "retain": 1, "compact": 3, "collect": 2,
    "beside": 3, "move": 1, "delete": 2,
}  # fmt: skip
DIARY_DEEDS = DEEDS | {"send": 25, "fork": 6, "erase": 5}


class Family:
    """Worlds and their models, through several sessions of a store; `folder` is for worlds that move."""

    def __init__(self, rng: Random, folder: Path, app: ModuleType = TALLY) -> None:
        self.rng = rng
        self.app = app
        self.has_diaries = app is DIARIES
        self.keys = DiaryKeys()
        self.folder = folder
        self.models: dict[str, Model] = {"main": Model()}
        self.dropping: set[str] = set()  # worlds whose history may be gone
        self.sending: Sending | None = None
        self.forking: tuple[str, Model] | None = None
        self.moving: str | None = None
        self.deleting: str | None = None
        self.number = self.killed = 0

    async def session(self, node: Cellule, guest: Cellule) -> None:
        """Look at everything, then do something, maybe until the node is killed."""
        await self._insisted(node, self.check)
        deeds = DIARY_DEEDS if self.has_diaries else DEEDS
        for deed in self.rng.choices(list(deeds), list(deeds.values()), k=STEPS):
            arguments = (node, guest) if deed in ("send", "erase", "beside") else (node,)
            try:
                await getattr(self, deed)(*arguments)
            except Unavailable:
                await asyncio.sleep(PAUSE_S)  # until what was sent has arrived, or never will
                await self._insisted(node)
        await self._insisted(node, self.check)

    async def _insisted(self, node: Cellule, *looks: Callable[[Cellule], Awaitable[None]]) -> None:
        """Recover, and look, until the store lets it."""
        for left in reversed(range(TRIES)):
            try:
                for look in (self.recover, *looks):
                    await look(node)
                break
            except Unavailable:
                if not left:
                    raise
                await asyncio.sleep(PAUSE_S)

    async def recover(self, node: Cellule) -> None:
        """Find out what became of what was under way, and finish it."""
        if self.forking is not None:
            infos = {each.name: each for each in await node.worlds()}
            if self.forking[0] in infos:
                self._forked(infos[self.forking[0]])
            self.forking = None
        if self.moving is not None:
            await self._moved(node, self.moving)
        if self.deleting is not None:
            await self._deleted(node, self.deleting)
        if self.sending is not None:
            await self._sent(node, self.sending)

    async def finish(self, node: Cellule) -> None:
        """The last look, and a collection after which only what is kept is there."""
        await self.recover(node)
        await self.check(node)
        for _ in range(2):  # the first may be the rest of one that began before
            await self.collect(node)

    # Deeds

    async def send(self, node: Cellule, guest: Cellule) -> None:
        """Send by the owner or, through the inbox, by a guest."""
        self.number += 1
        name, given = self.rng.choice(sorted(self.models)), f"s{self.number}"
        kind = self.rng.choice(["account", "account", "shelf", *["diary"] * (7 * self.has_diaries)])
        if kind == "account":
            cell, value = (kind, self.rng.choice(ACCOUNTS)), self.rng.randrange(1, 100)
            self.sending = Sending(name, cell, value, given)
        else:
            word = f"{MARK if kind == 'diary' else ''}{self.number} "
            text = (word * TEXT_SIZES[-1])[: self.rng.choice(TEXT_SIZES)]
            key = self.rng.choice(WRITERS if kind == "diary" else SHELVES)
            self.sending = Sending(name, (kind, key), text, given)
        await self._sent(self.rng.choice([node, node, guest]), self.sending)

    async def erase(self, node: Cellule, guest: Cellule) -> None:
        """Erase a diary, which may not be there."""
        self.number += 1
        cell = ("diary", self.rng.choice(WRITERS))
        self.sending = Sending(self._any(), cell, None, f"e{self.number}")
        await self._sent(self.rng.choice([node, guest]), self.sending)

    async def _sent(self, node: Cellule, sending: Sending) -> None:
        """Send it, once more where it may have been sent before; nothing is noted before all is done."""
        world = await node.world(sending.world, create=False)
        (kind, key), height = sending.cell, 0
        if sending.value is None:
            await world.operator("ada").erase(self.app.diary, key, why="asked for", id=sending.id)
        else:
            event = getattr(self.app, EVENTS[kind])(key, sending.value)
            try:
                height = (await world.send(event, id=sending.id)).height
            except StepFailed:  # the diary halts: only one that nobody can read does
                assert not self.keys.can_read(self.models[sending.world].cells[sending.cell])
        head = await world.head()
        self._note(sending, world.info, height)
        model = self.models[sending.world]
        model.past[head.height] = dict(model.cells)
        self.sending = None

    def _note(self, sending: Sending, world: WorldInfo, height: int) -> None:
        """What it did."""
        cells, cell = self.models[sending.world].cells, sending.cell
        match sending.value:
            case None:
                self.keys.destroy(world, cell)
                cells.pop(cell, None)
            case int(amount):
                cells[cell] = cells.get(cell, 0) + amount
            case text if cell[0] == "diary":
                cells[cell] = self.keys.write(world, cell, cells.get(cell), text, height)
            case text:
                cells[cell] = text

    async def fork(self, node: Cellule) -> None:
        """Fork the present or the past."""
        if len(self.models) >= WORLDS_MAX:
            return
        name = self._any()
        at = self.rng.choice([None, *sorted(self.models[name].past)])
        self.number += 1
        made = f"w{self.number}"
        self.forking = (made, self.models[name].at(at, name))
        try:
            fork = await node.fork_world(name, made, at=at)
        except Gone:
            assert self._may_be_gone(name), (name, at)
            self.forking = None
            return
        assert at is None or fork.info.origin.height == at, (name, at, fork.info.origin)
        self._forked(fork.info)

    def _forked(self, info: WorldInfo) -> None:
        """The world is there; a fork of the present begins below what only notes a snapshot."""
        assert self.forking is not None
        assert info.origin is not None
        name, model = self.forking
        model.past = {height: cells for height, cells in model.past.items() if height <= info.origin.height}
        self.models[name], self.forking = model, None

    async def snapshot(self, node: Cellule) -> None:
        """Take a snapshot."""
        await (await node.world(self._any())).snapshot()

    async def promote(self, node: Cellule) -> None:
        """Let a world restore from another snapshot."""
        storage = await node.storage(self._any())
        height = self.rng.choice(await storage.snapshots()).height
        with suppress_codes("host.no_such_snapshot"):  # another one took its place meanwhile
            await storage.promote(height)

    async def retain(self, node: Cellule) -> None:
        """Say what a world keeps."""
        name, history = self._any(), self.rng.choice(["keep", "drop"])
        if history == "drop":
            self.dropping.add(name)
        await (await node.storage(name)).retain(history=history, snapshots=self.rng.randrange(1, 4))

    async def compact(self, node: Cellule) -> None:
        """Move frames into segments."""
        await (await node.storage(self._any())).compact(everything=True)

    async def collect(self, node: Cellule) -> None:
        """Collect all that nothing keeps at this moment."""
        await node.collect_garbage(grace_s=0)

    async def beside(self, node: Cellule, guest: Cellule) -> None:
        """Collect and compact while something else is done; the guest may be the one who collects."""
        deed = self.rng.choice(["send", "fork", "snapshot", "move", "compact"])
        doing = self.send(node, guest) if deed == "send" else getattr(self, deed)(node)
        await both(doing, self._collected_often(self.rng.choice([node, guest])))

    async def _collected_often(self, node: Cellule) -> None:
        for _ in range(3):
            await self.collect(node)

    async def move(self, node: Cellule) -> None:
        """Take a world out of the store as a file, and bring it back."""
        name, self.number = self._any(), self.number + 1
        path = self.folder / f"{self.number}.car"
        try:
            await node.export_world(name, path)
        except Gone:
            assert self._may_be_gone(name)
            return
        assert MARK.encode() not in path.read_bytes()
        if self.has_diaries and self.rng.random() < 0.7:
            await (await node.storage(name)).export_keys(path.with_suffix(".keys"))
        self.moving = f"{self.number} {name}"
        await self._moved(node, self.moving)

    async def _moved(self, node: Cellule, moving: str) -> None:
        number, _, name = moving.partition(" ")
        path = self.folder / f"{number}.car"
        await self._removed(node, name)
        world = await node.import_world(path, name=name)
        if (moved := path.with_suffix(".keys")).exists():
            await (await node.storage(name)).import_keys(moved)
        elif not await _has_forks(node, world):  # else they stayed for those
            self.keys.lose(world)
        path.unlink()
        self.moving = None

    async def delete(self, node: Cellule) -> None:
        """Delete a world, now and then one that others were forked from."""
        names = sorted(set(self.models) - {"main"})
        if len(self.models) <= 4:
            return
        self.deleting = self.rng.choice(names)
        self.dropping.add(self.deleting)
        del self.models[self.deleting]
        await self._deleted(node, self.deleting)

    async def _deleted(self, node: Cellule, name: str) -> None:
        await self._removed(node, name)
        self.deleting = None

    @staticmethod
    async def _removed(node: Cellule, name: str) -> None:
        with suppress_codes("host.no_world"):
            await node.delete_world(name, force=True)

    # Looking

    async def check(self, node: Cellule) -> None:
        """Every world says what its model says, now and then; and so do the differences."""
        assert {each.name for each in await node.worlds()} >= set(self.models) - {"main"}
        for name, model in sorted(self.models.items()):
            world = await node.world(name)
            assert await self._cells(world) == shortened(self.keys.shown(model.cells)), name
            if model.past:
                height = self.rng.choice(sorted(model.past))
                try:
                    found = await self._cells(world, height)
                    assert found == shortened(self.keys.shown(model.past[height])), (name, height)
                except Gone:
                    assert self._may_be_gone(name), (name, height)
        await self._check_difference(node)

    async def _check_difference(self, node: Cellule) -> None:
        left, right = self.rng.choices(sorted(self.models), k=2)
        try:
            found = await node.diff_worlds(left, right)
        except Gone:
            assert self._may_be_gone(left) or self._may_be_gone(right)
            return
        one, other = (self.keys.shown(self.models[name].cells) for name in (left, right))
        differ = {key for key in {*one, *other} if one.get(key) != other.get(key)}
        seen = {(each.module.split("/")[-1], each.key.decode()) for each in found.cells}
        assert differ <= seen  # counts of events may differ where sums do not
        assert left != right or not seen

    async def _cells(self, world: Any, height: int | None = None) -> dict[tuple[str, str], str]:
        found: Cells = {}
        places = [("account", ACCOUNTS, "total"), ("shelf", SHELVES, "text")]
        for kind, keys, field_name in [*places, *[("diary", WRITERS, "text")] * self.has_diaries]:
            for key in keys:
                state = await world.cell(getattr(self.app, kind), key).state(at=height)
                if state is not None:
                    found[kind, key] = ERASED_TEXT if state is ERASED else getattr(state, field_name)
        return shortened(found)

    def _any(self) -> str:
        return self.rng.choice(sorted(self.models))

    def _may_be_gone(self, name: str) -> bool:
        return not self.dropping.isdisjoint({name, *self.models[name].above})


async def _has_forks(node: Cellule, world: WorldInfo) -> bool:
    return any(world.id == above.world for each in await node.worlds() for above in each.lineage.ancestors)


def shortened(cells: Cells) -> dict[tuple[str, str], str]:
    """Cells for comparing: long texts by their digests, so that a failure can be read."""
    return {
        cell: text if len(text := str(value)) < 30 else f"{text[:9]}... {sha256(text.encode()).hexdigest()}"
        for cell, value in cells.items()
    }


async def both(one: Awaitable[None], other: Awaitable[None]) -> None:
    """Do two things at once; whichever fails, the other one ends first."""
    results = await asyncio.gather(one, other, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


@contextmanager
def suppress_codes(*codes: str) -> Iterator[None]:
    """Let refusals with these codes pass."""
    try:
        yield
    except Rejected as error:
        if error.code not in codes:
            raise
