"""States over deploys: owner, guest, command line and `testing.World` say the same of each.

Each case is a list of versions of one app. Cells are born under each of them; some take a step under a later
one, some do not, one is deleted. Whoever reads must get what the newest version makes of every state.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

import pytest
from typer.testing import CliRunner

import cellule
from cellule.assembly import Options
from cellule.cli.main import app as cellule_app
from cellule.errors import Rejected, StepFailed
from cellule.modules.python import PythonPrograms
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.store import DATABASE
from cellule.testing import World
from tests.support.nodes import check_store

HEAD = """
    from __future__ import annotations
    import msgspec
    from cellule import App, Step

    app = App("change")

    @app.event(key="name")
    class Put(msgspec.Struct, frozen=True):
        name: str
        total: int

    @app.event(key="name")
    class Drop(msgspec.Struct, frozen=True):
        name: str
"""
ONE = (
    HEAD
    + """
    class Order(msgspec.Struct, frozen=True):
        total: int

    @app.reducer
    def order(state: Order | None, event: Put | Drop) -> Step[Order]:
        if isinstance(event, Drop):
            return Step.delete()
        return Step(Order(event.total))
"""
)
NOTE = 'total: int\n        note: str = "none"\n\n    @app.reducer'
OPTIONAL = ONE.replace("total: int\n\n    @app.reducer", NOTE).replace(
    "(event.total)", '(event.total, "new")'
)
TWO = (
    HEAD
    + """
    @app.state(name="Order", version=1)
    class OrderV1(msgspec.Struct, frozen=True):
        total: int

    @app.state(name="Order", version=2)
    class Order(msgspec.Struct, frozen=True):
        cents: int

    @app.upcaster
    def to_cents(old: OrderV1) -> Order:
        return Order(old.total * 100)

    @app.reducer
    def order(state: Order | None, event: Put | Drop) -> Step[Order]:
        if isinstance(event, Drop):
            return Step.delete()
        return Step(Order(event.total * 100))
"""
)
THREE = (
    HEAD
    + """
    @app.state(name="Order", version=1)
    class OrderV1(msgspec.Struct, frozen=True):
        total: int

    @app.state(name="Order", version=2)
    class OrderV2(msgspec.Struct, frozen=True):
        cents: int

    @app.state(name="Order", version=3)
    class Order(msgspec.Struct, frozen=True):
        cents: int
        currency: str

    @app.upcaster
    def to_cents(old: OrderV1) -> OrderV2:
        return OrderV2(old.total * 100)

    @app.upcaster
    def to_currency(old: OrderV2) -> Order:
        return Order(old.cents, "EUR")

    @app.reducer
    def order(state: Order | None, event: Put | Drop) -> Step[Order]:
        if isinstance(event, Drop):
            return Step.delete()
        return Step(Order(event.total * 100, "USD"))
"""
)
RENAMED = (
    HEAD
    + """
    @app.state(name="Order")
    class Purchase(msgspec.Struct, frozen=True):
        total: int

    @app.reducer
    def order(state: Purchase | None, event: Put | Drop) -> Step[Purchase]:
        if isinstance(event, Drop):
            return Step.delete()
        return Step(Purchase(event.total))
"""
)


def pinned(text):
    return text.replace("@app.reducer", '@app.reducer(upgrade="pin")')


MATRIX = {
    "an optional field": [ONE, OPTIONAL],
    "an upcaster": [ONE, TWO],
    "a chain of two": [ONE, TWO, THREE],
    "a chain of two at once": [ONE, THREE],
    "a renamed class": [ONE, RENAMED],
    "pinned, with an upcaster": [pinned(ONE), pinned(TWO)],
    "pinned, with a chain": [pinned(ONE), pinned(TWO), pinned(THREE)],
    "pinned, with an optional field": [pinned(ONE), pinned(OPTIONAL)],
}


def events(made, era, eras):
    """Under each version cells are born; one goes on under the next, one is deleted, and born again."""
    sent = [made.Put(f"born{era}", 10 + era), made.Put("going", 20 + era), made.Put(f"gone{era}", 1)]
    return [*sent, made.Drop(f"gone{era}"), *([made.Put("gone0", 7)] if era == eras - 1 else [])]


@pytest.fixture
def command(tmp_path):
    def run(*arguments):
        result = CliRunner().invoke(cellule_app, ["--data", str(tmp_path / "data"), "--json", *arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return json.loads(result.stdout if result.exit_code == 0 else result.stderr)

    return run


@pytest.fixture
def proven(tmp_path):
    """The data folder is proven when the test ends."""
    yield tmp_path / "data"

    async def check():
        programs = PythonPrograms()
        try:
            async with await SqliteEngine.open(tmp_path / "data" / DATABASE) as engine:
                await check_store(engine, programs)
        finally:
            programs.close()

    asyncio.run(check())


def plain(built, state):
    """A state as the command line shows it, without what is there only by default."""
    if state is None:
        return None
    shown = built.state_to_json("order", built.encode_state("order", state))
    return {name: value for name, value in shown.items() if value != "none"}


async def told_by(world, built, heights):
    """All that a handle says of every cell."""
    listed = (await world.cells("order")).cells
    found = {"cells": {cell.key: plain(built, cell.state) for cell in listed}}
    for key in heights["keys"]:
        cell = world.cell("order", key)
        view = await cell.view()
        found[key] = {
            "state": plain(built, await cell.state()),
            "view": None if view is None else plain(built, view.state),
            "at": [plain(built, await cell.state(at=height)) for height in heights["ends"]],
            "history": [plain(built, each.state) for each in await cell.history()],
        }
    return found


def told_by_commands(command, heights):
    listed = command("cell", "list", "order", "--states")["cells"]
    found = {"cells": {cell["key"]: cell["state"] for cell in listed}}
    for key in heights["keys"]:
        state = command("cell", "show", "order", key).get("state")
        shown = [command("cell", "show", "order", key, "--at", str(each)) for each in heights["ends"]]
        past = [each.get("state") for each in shown]
        versions = command("cell", "history", "order", key, "--limit", "100").get("versions", [])
        exported = command("cell", "export", "order", key)
        assert exported["state"] == state
        assert exported["history"] == versions
        found[key] = {
            "state": state, "view": state, "at": past, "history": [each.get("state") for each in versions],
        }  # fmt: skip
    return found


def without_defaults(told):
    """The journal of an era has no value for an optional field that was added later."""
    return json.loads(json.dumps(told), object_hook=lambda row: {k: v for k, v in row.items() if v != "none"})


@pytest.mark.parametrize("case", MATRIX)
def test_all_readers_say_the_same_of_every_state(case, versions, command, proven):
    made = [versions(f"v{number}", text) for number, text in enumerate(MATRIX[case])]
    built = made[-1].app.build()
    heights = {"keys": ["going", *(f"{name}{era}" for name in ("born", "gone") for era in range(len(made)))]}
    heights["ends"] = []
    test = World(made[0].app)

    async def work():
        for era, module in enumerate(made):
            async with cellule.open(proven, app=module.app) as node:
                world = await node.world("main")
                for event in events(module, era, len(made)):
                    await world.send(event)
                heights["ends"].append((await world.head()).height)
        async with AsyncExitStack() as stack:
            owner = await stack.enter_async_context(cellule.open(proven, app=made[-1].app))
            guest = await stack.enter_async_context(
                cellule.open(proven, app=made[-1].app, options=Options(own=False, tune_process=False))
            )
            return [await told_by(await node.world("main"), built, heights) for node in (owner, guest)]

    for era, module in enumerate(made):
        if era:
            test.deploy(module.app)
        for event in events(module, era, len(made)):
            test.send(event)
    owner, guest = asyncio.run(work())
    assert guest == owner
    commands = told_by_commands(command, heights)
    assert without_defaults(commands) == owner
    for key in heights["keys"]:
        cell = test.cell("order", key)
        assert plain(built, cell.state) == owner[key]["state"], key
        assert [plain(built, each.state) for each in reversed(cell.history())] == owner[key]["history"]
    assert {cell.key: plain(built, cell.state) for cell in test.cells("order")} == owner["cells"]
    assert isinstance(test.state("order", "born0"), type(test.state("order", f"born{len(made) - 1}")))
    test.assert_replays()
    test.close()


FAILING = TWO.replace(
    "return Order(old.total * 100)",
    'if old.total == 13:\n            raise ValueError("no thirteen")\n        return Order(old.total * 100)',
)


def test_a_state_that_an_upcaster_fails_on_is_told_and_hides_no_other(versions, command, proven):
    first, second = versions("v0", ONE), versions("v1", FAILING)

    async def work():
        async with cellule.open(proven, app=first.app) as node:
            world = await node.world("main")
            for event in (first.Put("a", 1), first.Put("b", 13), first.Put("c", 13), first.Put("c", 2)):
                await world.send(event)
        async with cellule.open(proven, app=second.app) as node:
            world = await node.world("main")
            with pytest.raises(StepFailed) as error:
                await world.cell(second.order, "b").state()
            assert error.value.code == "host.state_upcast"
            for part in ("change/order", "change/Order@1", "change/Order@2", "no thirteen"):
                assert part in str(error.value)
            page = await world.cells(second.order)
            assert [(cell.key, cell.state) for cell in page.cells] == [
                ("a", second.Order(100)), ("b", None), ("c", second.Order(200)),
            ]  # fmt: skip
            assert ["no thirteen" in cell.error for cell in page.cells] == [False, True, False]
            chosen = await world.cells(second.order, where="state.cents > 0")
            assert ([cell.key for cell in chosen.cells], chosen.failed) == (["a", "c"], 1)
            versions = await world.cell(second.order, "c").history()
            assert [each.state for each in versions] == [second.Order(200), None]
            assert "no thirteen" in versions[1].error

    asyncio.run(work())
    listed = command("cell", "list", "order", "--states")["cells"]
    assert [each["state"] for each in listed] == [{"cents": 100}, None, {"cents": 200}]
    assert "no thirteen" in listed[1]["error"]
    assert command("cell", "show", "order", "b")["error"]["code"] == "host.state_upcast"


TOLD = """class Told(msgspec.Struct, frozen=True):
        total: int

    @app.reducer(reply=Told)"""
REPLYING = ONE.replace("@app.reducer", TOLD)
REPLYING = REPLYING.replace("(Order(event.total))", "(Order(event.total), reply=Told(event.total))")


@pytest.mark.parametrize(
    "change",
    [(TOLD, TOLD.replace("total", "cents")), ("(reply=Told)", "(reply=str)")],
    ids=["field", "class"],
)
def test_an_event_whose_reply_is_of_another_class_since_is_still_told_as_applied(versions, proven, change):
    """Its sender asked again after a deploy, and was told that the request was wrong."""
    first, second = versions("v0", REPLYING), versions("v1", REPLYING.replace(*change))

    async def work():
        async with cellule.open(proven, app=first.app) as node:
            sent = await (await node.world("main")).send(first.Put("a", 5), id="once", reply=first.Told)
        async with cellule.open(proven, app=second.app) as node:
            world = await node.world("main")
            again = await world.send(second.Put("a", 5), id="once", wait="reply")
            assert (again.duplicate, again.height, again.reply) == (True, sent.height, {"total": 5})
            assert (await world.wait_applied("once")).height == sent.height
            with pytest.raises(Rejected, match="The event was applied") as caught:
                await world.send(second.Put("a", 5), id="once", reply=second.Told)
            assert caught.value.code == "host.reply_type"

    asyncio.run(work())
