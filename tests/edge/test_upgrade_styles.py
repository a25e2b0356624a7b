"""The upgrade matrix for every style: old and new code, orders in flight, pinned and following.

Old code writes the parcel of the event into the letter, new code the text "new"; so a letter tells which code
took the step that asked for it. New code also counts another measure of the aggregate, which always follows.
`testing.World`, a node that is opened again and the command line must say the same of every cell.
Plans are pinned in both; a workflow that follows goes on with new code behind its old history.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

import cellule
from cellule.cli.main import app as cellule_app
from cellule.modules.kinds import CodeKinds
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.store import DATABASE
from cellule.testing import World
from tests.support.nodes import check_store, load_app
from tests.support.styles import STYLES, place_app, view_of
from tests.support.wasm_sources import built

ORDERS = ("idle", "effect", "held", "halted", "later")
PINNED = ("in_plan",)  # whatever the others do
HELD = """
from cellule import rule

HELD = "effect.kind == 'shop.charge' && effect.params.order_id == 'held'"
app.policy(rule(when=HELD, then="require_approval", reason="held"))
"""
CHANGES = {
    "orders.py": ("parcel=event.parcel)\n", 'parcel="new")\n'),
    "order.fsm.yaml": ("set: {parcel: event.parcel}", "set: {parcel: \"'new'\"}"),
    "order.plan.yaml": ('parcel: {ref: "@step.shipped.parcel"}', "parcel: new"),
    "order.c": ("cl_get(in->event, name)}};", '*name == \'p\' ? cl_text("new") : cl_get(in->event, name)}};'),
}  # fmt: skip
MORE = {
    "orders.py": [
        ("Letter(event.order_id, event.parcel)", 'Letter(event.order_id, "new")'),
        ("Letter(new.order_id, shipped.parcel)", 'Letter(new.order_id, "new")'),
        ('status="sending", parcel=shipped.parcel', 'status="sending", parcel="new"'),
        ('"cents": "sum(cents)"}', '"cents": "sum(cents)", "largest": "max(cents)"}'),
    ],
    "order.c": [('reference, cl_get(in->event, "parcel"))', 'reference, cl_text("new"))')],
}


def edition(folder: Path, name: str, upgrade: str, *, new: bool) -> ModuleType:
    """The example's app, in the old or the new edition, with the modules that can pinned or following."""
    place = place_app(folder / name).parent
    for file, (old, change) in CHANGES.items() if new else ():
        text = (place / file).read_text()
        for before, after in [(old, change), *MORE.get(file, ())]:
            assert before in text, (file, before)
            text = text.replace(before, after)
        (place / file).write_text(text)
    if new:
        (place / "order.wasm").write_bytes(built(place / "order.c"))
    text = (place / "orders.py").read_text()
    for before in ("@app.reducer(", "@app.workflow(", 'app.fsm("order.fsm.yaml", ', "state=Order, "):
        assert before in text, before
        at = text.index(before) + len(before)
        text = f'{text[:at]}upgrade="{upgrade}", {text[at:]}'
    (place / f"orders_{name}.py").write_text(text + HELD)
    return load_app(place / f"orders_{name}.py")


@pytest.fixture(params=["follow", "pin"])
def editions(request, tmp_path, monkeypatch) -> tuple[str, ModuleType, ModuleType]:
    import sys

    monkeypatch.setattr(sys, "path", list(sys.path))
    upgrade = request.param
    made = [edition(tmp_path, f"{upgrade}_{kind}", upgrade, new=kind == "new") for kind in ("old", "new")]
    return upgrade, *made


def letters_expected(upgrade: str) -> dict[tuple[str, str], str]:
    """Which code wrote the letter of each order, by style and order."""
    return {
        (style, order): "new" if order == "later" or (upgrade == "follow" and style not in PINNED) else "p1"
        for style in STYLES
        for order in ORDERS
    }


def views_expected(upgrade: str) -> dict[tuple[str, str], Any]:
    """How each order ends; a plan keeps the parcel of the event, whatever its letter says."""
    letters = letters_expected(upgrade)
    orders = {
        (style, order): ("done", "r1", "p1" if style == "in_plan" else letter)
        for (style, order), letter in letters.items()
    }
    return {**orders, ("sales", "berlin"): {"orders": 5, "cents": 150, "largest": 30}}


def in_test(old: ModuleType, new: ModuleType) -> tuple[dict[Any, str], dict[Any, Any]]:
    """The story in `testing.World`."""
    world = World(old.app, elsewhere=False)

    def complete(kind: Any, value: Any, *orders: str) -> None:
        for asked in world.intents.of(kind):
            if asked.cell[1] in orders:
                world.complete(asked, value)

    for order in ORDERS[:-1]:
        world.send(old.Placed(order, "berlin", 30))
    complete(old.charge, old.Charged("r1"), "idle", "halted")
    for style in STYLES:
        world._control("cell.halt", {"module": f"shop/{style}", "key": b"halted"})
    world.send(old.Shipped("halted", "p1"), check=False)
    world.deploy(new.app)
    world.restart()
    world.send(new.Placed("later", "berlin", 30))
    for style in STYLES:
        world.resume(style, "halted")
    for held in world.approvals:
        world.approve(held)
    complete(new.charge, new.Charged("r1"), "effect", "held", "later")
    for order in ("idle", "effect", "held", "later"):
        world.send(new.Shipped(order, "p1"))
    letters = {(each.cell[0][5:], each.cell[1]): each.params.parcel for each in world.intents.of(new.letter)}
    complete(new.letter, new.Sent(), *ORDERS)
    views = {(style, cell.key): view_of(cell.state) for style in STYLES for cell in world.cells(style)}
    views["sales", "berlin"] = world.state("sales", "berlin")["windows"][0]["results"]
    world.assert_replays()
    world.close()
    return letters, views


def _parcel(detail: Any) -> str:
    params = detail.params
    return params.get("parcel", "") if isinstance(params, dict) else getattr(params, "parcel", "")


async def give(world: Any, kind: str, value: Any, *orders: str) -> dict[Any, str]:
    """Receipts for the open effects of these orders; the parcels that they name."""
    parcels = {}
    for each in await world.effects():
        key = each.key.decode() if isinstance(each.key, bytes) else each.key
        if each.kind != kind or key not in orders:
            continue
        parcels[each.module.rpartition("/")[2], key] = _parcel(await world.effect(each.id))
        await world.inject_receipt(each.id, value=value, who="ada", why="known")
    return parcels


async def settled(world: Any, status: str, *orders: str) -> None:
    """Wait until these orders have a status in every style; a step of each is on its way."""
    for style in STYLES:
        for order in orders:
            async with asyncio.timeout(30):
                while view_of(await world.cell(style, order).state())[0] != status:  # noqa: ASYNC110 - see below
                    await asyncio.sleep(0)  # reads what is durable, in turn with the node


async def on_node(data: Path, old: ModuleType, new: ModuleType) -> tuple[dict[Any, str], dict[Any, Any]]:
    """The story on a node that is opened again with the new app."""
    async with cellule.open(data, app=old.app) as node:
        world = await node.world("main")
        for order in ORDERS[:-1]:
            await world.send(old.Placed(order, "berlin", 30))
        await give(world, "shop.charge", old.Charged("r1"), "idle", "halted")
        await settled(world, "paid", "idle", "halted")
        for style in STYLES:
            await world.control("cell.halt", who="ada", why="look", module=f"shop/{style}", key=b"halted")
        await world.send_nowait(old.Shipped("halted", "p1"))
    async with cellule.open(data, app=new.app) as node:
        world = await node.world("main")
        await world.send(new.Placed("later", "berlin", 30))
        await world.operator("ada").resume(why="go on")
        for each in await world.effects():
            if each.kind == "shop.charge" and each.key in ("held", b"held"):
                await world.approve(each.id, who="ada", why="fine")
        await give(world, "shop.charge", new.Charged("r1"), "effect", "held", "later")
        await settled(world, "paid", "effect", "held", "later")
        for order in ("idle", "effect", "held", "later"):
            await world.send(new.Shipped(order, "p1"))
        await settled(world, "sending", *ORDERS)
        letters = await give(world, "shop.letter", new.Sent(), *ORDERS)
        await settled(world, "done", *ORDERS)
        views = {}
        for style in STYLES:
            views |= {(style, cell.key): view_of(cell.state) for cell in (await world.cells(style)).cells}
        sales = await world.cell("sales", "berlin").state()
        return letters, {**views, ("sales", "berlin"): sales["windows"][0]["results"]}


def on_command_line(data: Path) -> dict[Any, Any]:
    """What the commands say of every cell, of runs of workflows both in lists and alone."""

    def run(*words: str) -> Any:
        done = CliRunner().invoke(cellule_app, ["--data", str(data), "--json", *words])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    views: dict[Any, Any] = {}
    for style in STYLES:
        listed = run("cell", "list", style, "--states")["cells"]
        views |= {(style, each["key"]): view_of(each["state"]) for each in listed}
    for order in ORDERS:
        shown = run("workflow", "show", "in_workflow", order)["run"]
        assert view_of(shown) == views["in_workflow", order]
        assert shown["status"] == "completed"
    [sales] = run("cell", "list", "sales", "--states")["cells"]
    return {**views, ("sales", sales["key"]): sales["state"]["windows"][0]["results"]}


def test_every_style_survives_a_deploy_in_every_state_and_all_readers_say_the_same(editions, tmp_path):
    upgrade, old, new = editions
    data = tmp_path / "data"
    letters, views = asyncio.run(on_node(data, old, new))
    assert letters == letters_expected(upgrade)
    assert views == views_expected(upgrade)
    assert in_test(old, new) == (letters, views)
    assert on_command_line(data) == views

    async def check() -> None:
        programs = CodeKinds(limit_s=None)
        try:
            async with await SqliteEngine.open(data / DATABASE) as engine:
                await check_store(engine, programs)
        finally:
            programs.close()

    asyncio.run(check())
