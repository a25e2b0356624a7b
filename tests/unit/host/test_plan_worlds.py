"""Plans of manifest documents on a node: the document of the design runs, problems have file and line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellule.errors import Rejected
from cellule.host.service import Cellule
from cellule.kernel.programs import ProgramKinds
from cellule.modules.plan import PlanPrograms
from cellule.modules.python import PythonPrograms
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from tests.support.nodes import check_store, open_node

SEED = Path(__file__).parents[2] / "fixtures" / "manifests" / "keyed_reducers.json"
ORDERS = """
import msgspec

from cellule import Step


class ChargeRequested(msgspec.Struct, frozen=True):
    key: str
    order_id: str


class PaymentApplied(msgspec.Struct, frozen=True):
    order_id: str


class OrderState(msgspec.Struct, frozen=True):
    paid: bool


def order(state: OrderState | None, event: ChargeRequested | PaymentApplied) -> Step[OrderState]:
    return Step(OrderState(isinstance(event, PaymentApplied)))
"""


@pytest.fixture
async def node() -> AsyncIterator[Cellule]:
    disk, python = MemoryDisk(), PythonPrograms(limit_s=None)
    programs = ProgramKinds(python, PlanPrograms())
    try:
        async with open_node(MemoryEngine(disk), None, programs) as found:
            yield found
        await check_store(MemoryEngine(disk), programs)
    finally:
        python.close()


async def test_the_plan_of_the_design_runs_as_it_is_written(node, tmp_path):
    """Only the reducer gets code; sections, steps, trigger and routes stand as they are."""
    written = json.loads(SEED.read_text())
    code = {"kind": "python", "entry": "orders:order", "namespace": "com.acme"}
    written["modules"][0]["code"] = code
    (tmp_path / "orders.py").write_text(ORDERS)
    await node.create_world("w", manifest=written, code=tmp_path)
    world = await node.world("w")
    await world.send(("ChargeRequested", {"key": "k", "order_id": "o"}), wait="applied")
    run = await world.cell("charge_flow", "k").state()
    assert (run["status"], run["correlation"], run["input"]["order_id"]) == ("ended", "k", "o")
    await world.cell("OrderSM", "k").wait_until("state.paid == true")
    assert await world.cell("OrderSM", "o").state() is None


@pytest.mark.parametrize("indent", [None, 2])
async def test_a_problem_of_a_plan_in_a_document_is_told_by_file_and_line(node, tmp_path, indent):
    written = json.loads(SEED.read_text())
    written["plans"][0]["steps"][0]["key"] = {"ref": "@plan.input.nothing"}
    file = tmp_path / "shop.json"
    file.write_text(json.dumps(written, indent=indent))
    with pytest.raises(Rejected) as caught:
        await node.create_world("w", manifest=file)
    assert caught.value.code == "plan.invalid"
    text = file.read_text().split("@plan.input.nothing")[0]
    line = text.count("\n") + 1
    assert f"shop.json, line {line}, steps[0].key.ref: @plan.input.nothing: there is no field" in str(
        caught.value
    )


async def test_a_wrong_plan_leaves_a_running_world_as_it_is(node, tmp_path):
    written = json.loads(SEED.read_text())
    await node.create_world("w", manifest=written)
    world = await node.world("w")
    before = (await world.head()).height
    del written["plans"][0]["steps"][0]["key"]
    file = tmp_path / "shop.json"
    file.write_text(json.dumps(written, indent=2))
    with pytest.raises(Rejected, match="is keyed, so the step needs `key`"):
        await node.deploy_world("w", manifest=file)
    assert (await world.head()).height == before
