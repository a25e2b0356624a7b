"""Receipts of two effects in one reducer are told apart by the effect, also where their classes are equal."""

from __future__ import annotations

import msgspec

from cellule import App, Receipt, Step
from cellule.testing import World

app = App("apart")


class Ask(msgspec.Struct, frozen=True):
    text: str


class Done(msgspec.Struct, frozen=True):
    text: str


@app.event(key="id")
class Begun(msgspec.Struct, frozen=True):
    id: str


class Seen(msgspec.Struct, frozen=True):
    first: str = ""
    second: str = ""


first = app.effect("apart.first", params=Ask, receipt=Done)


@app.adapter("apart.second")
async def second(params: Ask) -> Done:
    return Done(params.text)


@app.reducer(effects=[first, second])
def both(state: Seen | None, event: Begun | Receipt[Done]) -> Step[Seen]:
    now = state or Seen()
    if first.is_receipt(event):
        return Step(msgspec.structs.replace(now, first=event.status))
    if second.is_receipt(event):
        return Step(msgspec.structs.replace(now, second=event.value.text if event.value else "nothing"))
    return Step(now, effects=[first(Ask("a")), second(Ask("b"))])


def test_each_receipt_is_known_by_its_effect_also_when_it_failed():
    world = World(app)
    world.send(Begun("x"))
    world.fail(world.intents.of(first)[0])
    world.complete(world.intents.of(second)[0], Done("b"))
    assert world.state(both, "x") == Seen("failed", "b")
    world.assert_replays()


def test_an_event_is_no_receipt():
    assert not first.is_receipt(Begun("x"))
    assert not second.is_receipt(None)
