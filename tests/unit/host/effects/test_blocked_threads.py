"""Adapters that block: threads that hang are told of, and hold up nothing but their own kind."""

from __future__ import annotations

import threading

import msgspec

import cellule
from cellule import App, Options, Receipt, Step
from cellule.effects.adapter import adapter

app = App("blocked")
GATE = threading.Event()


class Call(msgspec.Struct, frozen=True):
    name: str


class Called(msgspec.Struct, frozen=True):
    name: str


@app.event(key="name")
class Asked(msgspec.Struct, frozen=True):
    name: str


call = app.effect("blocked.call", params=Call, receipt=Called, attempts=1, timeout_s=0.2)


@app.reducer(effects=[call])
def caller(state: str | None, event: Asked | Receipt[Called]) -> Step[str]:
    if isinstance(event, Asked):
        return Step("asked", effects=[call(Call(event.name))])
    return Step(f"{event.status}: {event.text}")


@adapter("blocked.call", concurrency=1)
def hangs(params: Call) -> Called:
    GATE.wait()
    return Called(params.name)


async def test_an_attempt_that_never_got_a_thread_says_so(tmp_path):
    """It was told to have taken too long, and nobody could see that the other side was never asked."""
    options = Options(adapters=[hangs], tune_process=False)
    try:
        async with cellule.open(tmp_path / "data", app=app, options=options) as node:
            world = await node.world()
            await world.send_many([Asked("first"), Asked("second")])
            await world.wait_idle()
            found = [await world.cell(caller, name).state() for name in ("first", "second")]
    finally:
        GATE.set()
    assert found[0] == "timeout: it took longer than 0.2 s"
    assert found[1] == "timeout: it took longer than 0.2 s: all 1 threads are with earlier calls"
