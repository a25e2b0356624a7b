"""Runs of plans in Python, on a node: listed, inspected, cancelled, halted and resumed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import cellule
from tests.support.nodes import load_app

EXAMPLE = load_app(Path(__file__).parents[2] / "examples" / "12-plan" / "charge.py")


async def begun(node: Any) -> Any:
    world = await node.world("shop")
    for key in ("o1", "o2", "o3"):
        await world.send(EXAMPLE.ChargeRequested(key, 30))
    return world


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_runs_are_listed_and_inspected(data: Path) -> None:
    async def main() -> None:
        async with cellule.open(data, app=EXAMPLE.app) as node:
            world = await begun(node)
            page = await world.cells(EXAMPLE.charge_flow, where="state.at == 'receipt'")
            assert [each.key for each in page.cells] == ["o1", "o2", "o3"]
            view = await world.cell(EXAMPLE.charge_flow, "o2").view()
            assert view is not None
            run = view.state
            assert (run["status"], run["at"], run["correlation"]) == ("open", "receipt", "o2")
            assert (run["trigger"], run["input"]) == (
                "shop/ChargeRequested@1",
                {"order_id": "o2", "cents": 30},
            )

    asyncio.run(main())


def test_a_run_is_cancelled_and_a_later_trigger_begins_it_anew(data: Path) -> None:
    async def main() -> None:
        async with cellule.open(data, app=EXAMPLE.app) as node:
            world = await begun(node)
            await world.operator("ada").delete(EXAMPLE.charge_flow, "o1", why="the customer left")
            page = await world.cells(EXAMPLE.charge_flow)
            assert [each.key for each in page.cells] == ["o2", "o3"]
            assert len(await world.cell(EXAMPLE.charge_flow, "o1").history()) == 2
            await world.send(EXAMPLE.ChargeRequested("o1", 70))
            run = await world.cell(EXAMPLE.charge_flow, "o1").state()
            assert (run["at"], run["input"]["cents"]) == ("receipt", 70)

    asyncio.run(main())


def test_a_halted_run_keeps_what_comes_and_goes_on_when_it_is_resumed(data: Path) -> None:
    async def main() -> None:
        async with cellule.open(data, app=EXAMPLE.app) as node:
            world = await begun(node)
            flow = world.cell(EXAMPLE.charge_flow, "o1")
            await world.control("cell.halt", who="ada", why="look first", module=flow.module, key=flow.key)
            await world.send(EXAMPLE.Shipped("o1", "p7"), wait="durable")
            view = await flow.view()
            assert view is not None
            assert (view.status, view.queue) == ("halted", 1)
            await world.operator("ada").resume(EXAMPLE.charge_flow, "o1", why="it is fine")
            run = await flow.wait_until(lambda state: state["early"])
            assert run is not None
            assert (run["at"], len(run["early"])) == ("receipt", 1)

    asyncio.run(main())
