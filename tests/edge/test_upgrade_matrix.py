"""Deploys while cells are in the middle of something: each such state, with pinned and with following cells.

Old code adds 1 to its count and new code 100, so a count tells which code took which step. A node that is
opened again, the command line and `testing.World` must say the same of every cell.
"""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner

import cellule
from cellule.assembly import Options
from cellule.cli.main import app as cellule_app
from cellule.modules.python import PythonPrograms
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.store import DATABASE
from cellule.testing import World
from tests.support.nodes import check_store

GUEST = Options(own=False, tune_process=False)

OLD = """
    from __future__ import annotations
    from datetime import timedelta
    import msgspec
    from cellule import App, Receipt, Step, TimerFired
    from cellule.app.effects import timer
    from cellule.app.rules import rule

    app = App("change")

    class Ask(msgspec.Struct, frozen=True):
        what: str

    class Answer(msgspec.Struct, frozen=True):
        number: int

    @app.event(key="name")
    class Begin(msgspec.Struct, frozen=True):
        name: str

    class Count(msgspec.Struct, frozen=True):
        count: int = 0
        last: str = ""

    ask = app.effect("change.ask", params=Ask, receipt=Answer)
    HELD = "effect.kind == 'change.ask' && effect.params.what == 'held'"
    app.policy(rule(when=HELD, then="require_approval", reason="held"))

    @app.reducer(upgrade="UPGRADE", effects=[ask, timer])
    def job(state: Count | None, event: Begin | Receipt[Answer] | TimerFired) -> Step[Count]:
        count = (state or Count()).count + 1
        match event:
            case Begin(name="timer"):
                return Step(Count(count, "begun"), effects=[timer(after=timedelta(seconds=2), key="nap")])
            case Begin(name="effect" | "held"):
                return Step(Count(count, "begun"), effects=[ask(Ask(event.name))])
            case Begin():
                return Step(Count(count, "begun"))
            case Receipt():
                return Step(Count(count, f"answered {event.value.number if event.value else event.status}"))
            case TimerFired():
                return Step(Count(count, "rested"))
"""
NEW = OLD.replace(".count + 1", ".count + 100").replace(
    'last: str = ""', 'last: str = ""\n        note: str = ""'
)
STEPS = {  # how many steps each cell takes, before and after the deploy
    "idle": (1, 1), "timer": (1, 1), "effect": (1, 1), "held": (1, 1), "queued": (0, 1), "later": (0, 1),
}  # fmt: skip
LAST = {
    "idle": "begun", "timer": "rested", "effect": "answered 7", "held": "answered 8", "queued": "begun",
    "later": "begun",
}  # fmt: skip


def expected(upgrade):
    """What the cells hold at the end: a cell runs new code if it follows, or is born after the deploy."""
    found = {}
    for name, (before, after) in STEPS.items():
        is_new = upgrade == "follow" or not before
        found[name] = (before + after * (100 if is_new else 1), LAST[name])
    return found


def seen_in_test(old, new):
    """The same story in `testing.World`."""
    world = World(old.app)
    for name in ("idle", "timer", "effect", "held"):
        world.send(old.Begin(name))
    world._control("pause", {})
    world.send(old.Begin("queued"), settle=False)
    world.deploy(new.app)
    world.restart()
    world._control("resume", {})
    world.settle()
    for name in ("idle", "later"):
        world.send(new.Begin(name))
    [asked] = [each for each in world.effects if each.params == new.Ask("effect")]
    world.complete(asked, new.Answer(7))
    [held] = world.approvals
    world.approve(held)
    world.complete(held, new.Answer(8))
    world.advance(hours=2)
    found = {cell.key: (cell.state.count, cell.state.last) for cell in world.cells("job")}
    world.assert_replays()
    world.close()
    return found


async def lived(data, old, new):
    """The story on a node: the deploy comes with a restart, while everything is open."""
    async with cellule.open(data, app=old.app) as node:
        world = await node.world("main")
        for name in ("idle", "timer", "effect", "held"):
            await world.send(old.Begin(name))
        await world.control("pause", who="ada", why="a queue")
        await world.send_nowait(old.Begin("queued"))
    async with cellule.open(data, app=new.app) as node:
        world = await node.world("main")
        await world.control("resume", who="ada", why="go on")
        for name in ("idle", "later"):
            await world.send(new.Begin(name))
        await world.cell(new.job, "queued").wait_until("state.count > 0", timeout=20)
        for each in await world.effects():
            if each.kind != "change.ask":
                continue
            number = 7 if each.key in ("effect", b"effect") else 8
            if number == 8:
                await world.approve(each.id, who="ada", why="fine")
            await world.inject_receipt(each.id, value=new.Answer(number), who="ada", why="known")
        await world.cell(new.job, "timer").wait_until("state.last == 'rested'", timeout=20)
        page = await world.cells(new.job)
        return {cell.key: (cell.state.count, cell.state.last) for cell in page.cells}


@pytest.mark.parametrize("upgrade", ["follow", "pin"])
def test_every_state_in_flight_survives_a_deploy_and_all_readers_say_the_same(upgrade, versions, data):
    old = versions("old", OLD.replace("UPGRADE", upgrade))
    new = versions("new", NEW.replace("UPGRADE", upgrade))
    node = asyncio.run(lived(data, old, new))
    assert node == expected(upgrade)
    line = ["--data", str(data), "--json", "cell", "list", "job", "--states"]
    listed = json.loads(CliRunner().invoke(cellule_app, line).stdout)["cells"]
    assert {each["key"]: (each["state"]["count"], each["state"]["last"]) for each in listed} == node
    assert seen_in_test(old, new) == node


@pytest.fixture
def data(tmp_path):
    """A data folder; it is proven when the test ends."""
    yield tmp_path / "data"

    async def check():
        programs = PythonPrograms()
        try:
            async with await SqliteEngine.open(tmp_path / "data" / DATABASE) as engine:
                await check_store(engine, programs)
        finally:
            programs.close()

    asyncio.run(check())


EVENTS = """
    from __future__ import annotations
    import msgspec
    from cellule import App, Step

    app = App("change")

    @app.event(name="Put", version=1, key="name")
    class PutV1(msgspec.Struct, frozen=True):
        name: str
        euros: int
"""
FIRST = (
    EVENTS
    + """
    class Sum(msgspec.Struct, frozen=True):
        cents: int = 0

    @app.reducer
    def job(state: Sum | None, event: PutV1) -> Step[Sum]:
        return Step(Sum((state or Sum()).cents + event.euros * 100))
"""
)
SECOND = (
    EVENTS
    + """
    @app.event(version=2, key="name")
    class Put(msgspec.Struct, frozen=True):
        name: str
        cents: int

    @app.upcaster
    def in_cents(old: PutV1) -> Put:
        return Put(old.name, old.euros * 100)

    class Sum(msgspec.Struct, frozen=True):
        cents: int = 0
        note: str = "new"

    @app.reducer
    def job(state: Sum | None, event: Put) -> Step[Sum]:
        return Step(Sum((state or Sum()).cents + event.cents))
"""
)


def test_nodes_with_the_older_and_the_newer_app_work_side_by_side(versions, data):
    old, new = versions("old", FIRST), versions("new", SECOND)

    async def work():
        async with cellule.open(data, app=old.app) as first:
            await (await first.world("main")).send(old.PutV1("b", 1))
        async with cellule.open(data, app=new.app) as owner:
            world = await owner.world("main")
            await world.send(new.Put("a", 5))
            async with cellule.open(data, app=old.app, options=GUEST) as guest:
                beside = await guest.world("main")
                await beside.send(old.PutV1("a", 1))
                assert (await beside.cell("job", "a").state()).cents == 105
                await world.send(new.Put("a", 1))
            assert await world.cell(new.job, "a").state() == new.Sum(106)
            eras = (await owner.node.hosted(world.info)).world.ledger.eras
            assert len(eras) == 2  # the older app was not brought back

    asyncio.run(work())
