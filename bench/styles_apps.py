"""The apps of the benchmark of styles: each keeps one cell a key, moved by the same small event."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from cellule import App, Step
from cellule.app.built_app import Built
from cellule.kernel.items import EventItem, Pace
from cellule.modules.kinds import CodeKinds
from cellule.modules.wasm.compiler import build_module
from tests.support.kernel_world import KernelWorld

STEPS_MAX = 100_000


class Ticked(msgspec.Struct, frozen=True):
    """What every cell gets."""

    key: str
    amount: int


class Total(msgspec.Struct, frozen=True):
    """What the reducer keeps."""

    is_on: bool
    count: int
    amount: int


def reducer_app() -> App:
    """The measure of all others: a plain function."""
    app = App("bench")
    app.event(key="key")(Ticked)

    @app.reducer
    def total(state: Total | None, event: Ticked) -> Total:
        if state is None:
            return Total(True, 1, event.amount)
        return Total(not state.is_on, state.count + 1, state.amount + event.amount)

    return app


class Noted(msgspec.Struct, frozen=True):
    """What the effect is asked for."""

    amount: int


def intent_app() -> App:
    """A reducer that asks for an effect with every event."""
    app = App("bench")
    app.event(key="key")(Ticked)
    note = app.effect("bench.note", params=Noted, receipt=Noted)

    @app.reducer(effects=[note])
    def asks(state: Total | None, event: Ticked) -> Step[Total]:
        count = 0 if state is None else state.count
        return Step(Total(True, count + 1, event.amount), effects=[note(Noted(event.amount))])

    return app


def aggregate_app() -> App:
    """Count, sum, average and greatest of each key."""
    app = App("bench")
    app.event(key="key")(Ticked)
    app.aggregate(
        "numbers",
        Ticked,
        measures={"count": "count", "sum": "sum(amount)", "average": "avg(amount)", "max": "max(amount)"},
    )
    return app


def fsm_app() -> App:
    """A machine of two states, with a guard and two assignments in each transition."""
    app = App("bench")
    app.event(key="key")(Ticked)
    app.fsm("styles_toggle.fsm.yaml", name="toggle")
    return app


def plan_app() -> App:
    """A run for each key that never ends: it waits for the next event, adds its amount, and waits again."""
    app = App("bench")
    app.event(key="key")(Ticked)
    total = {"op": "add", "args": [{"ref": "@local.total"}, {"ref": "@local.ticked.amount"}]}
    plan = {
        "locals": {"total": {"int": {}}},
        "steps": [
            {"id": "begin", "op": "assign", "expr": 0, "bind": "total"},
            {"id": "wait", "op": "await_event", "event": "bench/Ticked@1", "bind": "ticked"},
            {"id": "add", "op": "assign", "expr": total, "bind": "total"},
            {"id": "never", "op": "end"},
        ],
        "edges": [
            {"from": "begin", "to": "wait"},
            {"from": "wait", "to": "add"},
            {"from": "add", "to": "never", "when": {"op": "lt", "args": [{"ref": "@local.total"}, 0]}},
            {"from": "add", "to": "wait"},
        ],
    }
    app.plan("totals", plan, triggers={Ticked: "key"})
    return app


@cache
def total_module() -> Path:
    """The reducer in C, compiled once in a process."""
    folder = TemporaryDirectory(prefix="cellule-bench-")
    atexit.register(folder.cleanup)
    source = Path(__file__).with_name("styles_total.c")
    return build_module(source, Path(folder.name) / "total.wasm").path


def wasm_app() -> App:
    """The reducer as a WASM module."""
    app = App("bench")
    app.event(key="key")(Ticked)
    app.wasm("total", total_module(), Ticked, state=Total)
    return app


class StyleWorld:
    """A kernel world of one app, to which every key gets one event a turn."""

    def __init__(self, world: KernelWorld, built: Built, keys: int) -> None:
        self.world = world
        self._name, self._encode = built.encode_event(Ticked("", 0))[0], built.forms.codec(Ticked).encode
        self._keys = [f"key-{number:08d}" for number in range(keys)]

    def items(self, turn: int) -> list[EventItem]:
        """One event for each key."""
        return [EventItem(self._name, self._encode(Ticked(key, turn % 7))) for key in self._keys]

    def beats(self, items: list[EventItem]) -> None:
        """One beat for all, and those that follow from it."""
        answer = self.world.beat(items)
        while answer.more:
            answer = self.world.beat()


@contextmanager
def style_world(app: App, keys: int) -> Iterator[StyleWorld]:
    """A new world of the app; its functions run live."""
    built: Any = app.build(live=True)
    programs = CodeKinds(live=built.descriptions)
    try:
        world = KernelWorld(built.manifest.data, programs, pace=Pace(STEPS_MAX, STEPS_MAX))
        world.cas.update(built.blocks)
        yield StyleWorld(world, built, keys)
    finally:
        programs.close()


STYLES = {"fsm": fsm_app, "plan": plan_app, "aggregate": aggregate_app, "wasm": wasm_app}
