"""`effect repair` after the grant was withdrawn: nothing leaves that no grant gives any more."""

from __future__ import annotations

import pytest

import cellule
from cellule.assembly import Options
from cellule.host.outbox.listing import find_row
from cellule.kernel.state.intent_id import parse_intent
from cellule.store import keys
from cellule.store.engine import Batch
from tests.support.nodes import load_app

SOURCE = """
import msgspec
from cellule import App, Attempt, Receipt, Retry, Step

app = App("caller")

class Call(msgspec.Struct, frozen=True):
    url: str

class Called(msgspec.Struct, frozen=True):
    id: str

@app.event(key="name")
class Asked(msgspec.Struct, frozen=True):
    name: str

class Caller(msgspec.Struct, frozen=True):
    status: str

@app.adapter("caller.call")
async def call(params: Call, attempt: Attempt) -> Called:
    raise Retry("busy", after_s=3600)

GRANT

@app.reducer(effects=[call]SLOTS)
def caller(state: Caller | None, event: Asked | Receipt[Called]) -> Step[Caller]:
    if isinstance(event, Asked):
        return Step(Caller("asked"), effects=[call(Call("https://api.example/x"))])
    return Step(Caller(event.status))
"""
GRANTED = ('app.grant("api", effects=[call], hosts=["api.example"])', ', grants=["api"]')
NARROWED = ('app.grant("api", effects=[call], hosts=["other.example"])', ', grants=["api"]')
WITHDRAWN = ("", "")


@pytest.fixture
def edition(tmp_path):
    def load(name, parts):
        grant, slots = parts
        path = tmp_path / name / f"caller_{name}_{tmp_path.name}.py"
        path.parent.mkdir()
        path.write_text(SOURCE.replace("GRANT", grant).replace("SLOTS", slots))
        return load_app(path)

    return load


def opened(folder, app):
    return cellule.open(folder, app, options=Options(tune_process=False))


async def lose_row(node, view):
    """Wait for the first attempt, then lose the row."""
    engine, place = node.node.engine, keys.effect_at(parse_intent(view.id))
    while True:
        [at] = await engine.read([place])
        row = await find_row(engine, node.node.clock, parse_intent(view.id))
        if row is not None and row.row.tried:
            break
        await engine.watch(place, at)
    [at] = await engine.read([place])
    [value] = await engine.read([at])
    await engine.commit(Batch(expect={at: value}, clear=[at, place]))


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (WITHDRAWN, "the grant of this caller.call is there no more"),
        (NARROWED, "host api.example is not among those of grant api"),
    ],
    ids=["withdrawn", "narrowed"],
)
async def test_a_lost_row_is_not_written_again_without_its_grant(edition, tmp_path, parts, why):
    """Once the row came back without grant: the adapter had no hosts to keep to."""
    before, after, again = edition("one", GRANTED), edition("two", parts), edition("three", GRANTED)
    async with opened(tmp_path / "data", before.app) as node:
        world = await node.world()
        applied = await world.send(before.Asked("n"))
        [view] = await world.effects(cause=applied.height)
        await lose_row(node, view)
    intent = parse_intent(view.id)
    async with opened(tmp_path / "data", after.app) as node:
        world = await node.world()
        report = await world.repair_effects()
        assert report.missing == []
        assert why in report.withheld[intent]
        assert await find_row(node.node.engine, node.node.clock, intent) is None
    async with opened(tmp_path / "data", again.app) as node:
        world = await node.world()
        assert (await world.repair_effects()).missing == [intent]
        row = await find_row(node.node.engine, node.node.clock, intent)
        assert row.row.grant["hosts"] == ["api.example"]
