"""Random families of worlds against a model: sends, forks of now and of the past, snapshots, crashes.

The model of a world is what each account sums up to, and what it did at heights that were looked at. After
each session every world must say just that, now and at heights of the past, through whatever worlds it was
forked from; the differences of two worlds must be those of their models. At the end every world is checked,
verified, and restored from each of its snapshots. `CELLULE_EXAMPLES` sets the number of histories in memory.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cellule.modules.python import PythonPrograms
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing import VirtualClock, run
from cellule.testing.entropy import SeededEntropy
from cellule.testing.faults import Faults
from cellule.testing.faulty_engine import FaultyEngine
from tests.support.nodes import check_store, load_app, open_node

TALLY = load_app(Path(__file__).parents[1] / "node_apps" / "tally.py")
EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "60")) // 4
SESSIONS = 4
STEPS = 12
ACCOUNTS = ["a", "b", "c", "d"]
WORLDS_MAX = 8
SLOW = Faults(delay=0.5)  # so that a session takes seconds, and is killed in the middle of something


@dataclass
class Model:
    """What a world says: its sums, and those of heights that were looked at."""

    sums: dict[str, int] = field(default_factory=dict)
    past: dict[int, dict[str, int]] = field(default_factory=dict)

    def at(self, height: int) -> Model:
        """A fork of it at a height of the past."""
        past = {each: dict(sums) for each, sums in self.past.items() if each <= height}
        return Model(dict(self.past[height]), past)


class Family:
    """Worlds and their models, through several sessions of a store."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.models: dict[str, Model] = {"main": Model()}
        self.unsure: list[tuple[str, str, int, str]] = []  # sent when the node died
        self.made: str | None = None  # the fork that was being made then, and its model
        self.made_model: Model | None = None
        self.number = self.killed = 0

    async def session(self, node) -> None:
        """Look at everything, then do something, maybe until the node is killed."""
        await self.recover(node)
        await self.check(node)
        for _ in range(STEPS):
            await getattr(self, self.rng.choice(["send"] * 5 + ["fork"] * 2 + ["snapshot", "delete"]))(node)
        await self.check(node)

    async def recover(self, node) -> None:
        if self.made is not None:
            names = {each.name for each in await node.worlds()}
            if self.made in names:
                assert self.made_model is not None
                self.models[self.made] = self.made_model
            self.made = None
        for name, account, amount, given in self.unsure:
            await self.sent(node, name, account, amount, given)
        self.unsure = []

    async def send(self, node) -> None:
        name = self.rng.choice(sorted(self.models))
        account, amount = self.rng.choice(ACCOUNTS), self.rng.randrange(1, 100)
        self.number += 1
        self.unsure = [(name, account, amount, f"s{self.number}")]
        await self.sent(node, *self.unsure[0])
        self.unsure = []

    async def sent(self, node, name, account, amount, given) -> None:
        world = await node.world(name)
        await world.send(TALLY.Add(account, amount), id=given)
        height, model = (await world.head()).height, self.models[name]  # killed here, it is sent once more
        model.sums[account] = model.sums.get(account, 0) + amount
        model.past[height] = dict(model.sums)

    async def fork(self, node) -> None:
        if len(self.models) >= WORLDS_MAX:
            return
        name = self.rng.choice(sorted(self.models))
        model = self.models[name]
        at = self.rng.choice([None, *sorted(model.past)])
        self.number += 1
        self.made = f"w{self.number}"
        self.made_model = Model(dict(model.sums), dict(model.past)) if at is None else model.at(at)
        made = await node.fork_world(name, self.made, at=at)
        if at is not None:
            assert made.info.origin.height == at
        self.models[self.made], self.made = self.made_model, None

    async def snapshot(self, node) -> None:
        await (await node.world(self.rng.choice(sorted(self.models)))).snapshot()

    async def delete(self, node) -> None:
        infos = {each.name: each for each in await node.worlds()}
        needed = {
            older.world
            for each in infos.values()
            for older in (each.origin.ancestors if each.origin is not None else ())
        }
        leaves = sorted(name for name in self.models if infos[name].id not in needed and name != "main")
        if leaves and len(self.models) > 4:
            name = self.rng.choice(leaves)
            del self.models[name]
            await node.delete_world(name)

    async def check(self, node) -> None:
        for name, model in sorted(self.models.items()):
            world = await node.world(name)
            assert await self.sums(world) == model.sums, name
            if model.past:
                height = self.rng.choice(sorted(model.past))
                assert await self.sums(world, height) == model.past[height], (name, height)
        left, right = self.rng.choices(sorted(self.models), k=2)
        found = await node.diff_worlds(left, right)
        one, other = self.models[left].sums, self.models[right].sums
        differ = {key for key in {*one, *other} if one.get(key) != other.get(key)}
        seen = {each.key.decode() for each in found.cells}
        assert differ <= seen  # counts of events may differ where sums do not
        assert left != right or not seen

    @staticmethod
    async def sums(world, height=None) -> dict[str, int]:
        found = {}
        for account in ACCOUNTS:
            state = await world.cell(TALLY.account, account).state(at=height)
            if state is not None:
                found[account] = state.total
        return found


async def played(family: Family, opened, crash) -> None:
    """Sessions one after the other; some end in the middle of whatever is under way."""
    for _ in range(SESSIONS):

        async def session() -> None:
            async with opened() as node:
                await family.session(node)

        working = asyncio.ensure_future(session())
        wait_s = crash(family.rng)
        if wait_s is not None:
            await asyncio.wait([working], timeout=wait_s)
            working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        family.killed += working.cancelled()
    async with opened() as node:
        await family.recover(node)
        await family.check(node)


@pytest.fixture(scope="module")
def programs():
    loaded = PythonPrograms(limit_s=None)
    yield loaded
    loaded.close()


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_a_family_of_worlds_is_what_its_model_says(programs, seed):
    async def main():
        disk, sessions, family = MemoryDisk(), itertools.count(), Family(random.Random(seed))

        @asynccontextmanager
        async def opened():
            engine = FaultyEngine(MemoryEngine(disk), SLOW, entropy=SeededEntropy(seed, str(next(sessions))))
            async with open_node(
                engine, TALLY.app.build(), programs, clock=VirtualClock(), stall_s=0.1,
                snapshot_bytes=[500, 5_000, 1_000_000][seed % 3],
            ) as node:  # fmt: skip
                yield node

        await played(family, opened, lambda rng: rng.choice([None, rng.random() * 5]))
        await check_store(MemoryEngine(disk), programs)

    run(main, seed=seed)


@pytest.mark.parametrize("place", ["folder", "postgres and s3"], indirect=True)
@pytest.mark.parametrize("seed", range(2))
async def test_a_family_of_worlds_is_what_its_model_says_on_every_store(place, seed):
    def opened():
        return place.open(TALLY.app, snapshot_bytes=2_000, tune_process=False)

    await played(Family(random.Random(seed)), opened, lambda rng: None)
