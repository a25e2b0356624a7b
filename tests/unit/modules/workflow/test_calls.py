"""`ctx.call`: the answer, and every way in which there is none; told once, to the caller alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from cellule import (
    App,
    CallCancelled,
    CallFailed,
    CallRefused,
    Refuse,
    Refused,
    Step,
    Workflow,
)
from cellule.testing import World


class Ordered(msgspec.Struct, frozen=True):
    order: str
    what: str
    times: int = 1


class Ship(msgspec.Struct, frozen=True):
    parcel: str
    order: str
    what: str


class Shipped(msgspec.Struct, frozen=True):
    order: str
    parcel: str


class Nudged(msgspec.Struct, frozen=True):
    parcel: str
    what: str = ""


def reducer_of(app: App, failure: str) -> None:
    @app.reducer(emits=[Shipped], failure=failure)
    def parcel(state: int | None, event: Ship | Nudged) -> Step[int] | Refuse:
        number = (state or 0) + 1
        match event:
            case Ship(what="refuse"):
                return Refuse("too heavy", code="parcel.heavy")
            case Ship(what="fail"):
                raise ValueError("the scale broke")
            case Ship(what="delete") | Nudged(what="delete"):
                return Step.delete()
            case Ship(what="ship", order=order, parcel=name):
                return Step(number, emit=[Shipped(order, name)])
            case Nudged(what=order, parcel=name) if order:
                return Step(number, emit=[Shipped(order, name)])
        return Step(number)


def workflow_of(app: App, _: str) -> None:
    @app.workflow(events=[Nudged])
    async def parcel(ctx: Workflow, new: Ship) -> None:
        if new.what == "raise":
            raise Refused("no van", code="parcel.van")
        if new.what != "silent":
            nudged = await ctx.event(Nudged)
            if nudged.what == "fail":
                raise Refuse("no van", code="parcel.van")
            if nudged.what == "again":
                ctx.again(msgspec.structs.replace(new, what="silent"))
            if nudged.what:
                ctx.emit(Shipped(new.order, new.parcel))
                await ctx.event(Nudged)


class Town:
    """A workflow that calls, and what it calls."""

    def __init__(self, callee: Any = reducer_of, *, failure: str = "skip", timeout: Any = None) -> None:
        self.app = App("town")
        for event, key in ((Ordered, "order"), (Ship, "parcel"), (Shipped, "order"), (Nudged, "parcel")):
            self.app.event(key=key)(event)
        callee(self.app, failure)

        @self.app.workflow(events=[Shipped])
        async def order(ctx: Workflow, new: Ordered) -> str:
            told = []
            for number in range(new.times):
                try:
                    call = ctx.call(Ship(f"p{number}", new.order, new.what), Shipped, timeout=timeout)
                    told.append(f"shipped {(await call).parcel}")
                except CallFailed as failed:
                    told.append(f"{type(failed).__name__} {failed.status} {failed.code} {failed.text}")
                except TimeoutError:
                    told.append("too late")
            return "; ".join(told)

        self.order = order
        self.world = World(self.app, elsewhere=False)

    def send(self, what: str, times: int = 1) -> Any:
        self.world.send(Ordered("o1", what, times))
        self.world.settle()
        return self.run()

    def nudge(self, what: str = "") -> Any:
        self.world.send(Nudged("p0", what), check=False)
        self.world.settle()
        return self.run()

    def run(self) -> Any:
        return self.world.state(self.order, "o1")


@pytest.fixture
def town_of():
    made = []

    def make(*given: Any, **options: Any) -> Town:
        made.append(Town(*given, **options))
        return made[-1]

    yield make
    for each in made:
        each.world.assert_replays()


def test_an_answer_in_the_same_step_or_later_is_what_the_call_gives(town_of):
    assert town_of().send("ship", 2).result == "shipped p0; shipped p1"
    later = town_of()
    assert later.send("wait").status == "running"
    assert later.nudge("o1").result == "shipped p0"


def test_a_call_that_is_refused_raises_with_code_and_reason(town_of):
    assert town_of().send("refuse", 2).result == "; ".join(["CallRefused refused parcel.heavy too heavy"] * 2)
    assert issubclass(CallRefused, CallFailed)


def test_a_call_whose_step_fails_and_is_skipped_raises(town_of):
    result = town_of().send("fail").result
    assert result.startswith("CallFailed failed modules.exception ")
    assert "the scale broke" in result


def test_a_cell_that_is_deleted_before_it_answers_fails_its_calls(town_of):
    gone = "CallFailed deleted kernel.cell_deleted the cell was deleted before it answered"
    assert town_of().send("delete").result == gone
    town = town_of()
    assert town.send("wait").status == "running"
    assert town.nudge("delete").result == gone
    town = town_of()
    town.send("wait")
    town.world.delete("parcel", "p0")
    assert town.run().result == gone


def test_a_halted_cell_waits_for_a_person_and_its_caller_with_it(town_of):
    town = town_of(failure="halt")
    town.world.send(Ordered("o1", "fail"), check=False)
    town.world.settle()
    assert town.run().status == "running"
    [wait] = town.run().waits
    assert wait.what == "call Ship, event Shipped"
    town.world.drop("parcel", "p0")
    assert town.run().result == "CallFailed dropped kernel.dropped dropped by test"


def test_a_timeout_ends_the_wait_and_what_comes_later_concerns_nobody(town_of):
    town = town_of(timeout=timedelta(hours=1))
    town.send("wait")
    town.world.advance(hours=2)
    assert town.run().result == "too late"
    town.nudge("delete")
    assert town.run().result == "too late"


@pytest.mark.parametrize(
    ("what", "nudges", "told"),
    [
        ("silent", [], "CallFailed ended workflow.completed its run completed without this answer"),
        ("raise", [], "CallFailed failed parcel.van no van"),
        ("wait", ["fail"], "CallFailed failed parcel.van no van"),
        ("wait", ["again"], "CallFailed ended workflow.completed its run completed without this answer"),
        ("wait", ["go"], "shipped p0"),
        ("wait", ["go", ""], "shipped p0"),
    ],
)
def test_a_run_that_ends_otherwise_than_by_the_answer_fails_the_call(town_of, what, nudges, told):
    town = town_of(workflow_of)
    town.send(what)
    for nudge in nudges:
        town.nudge(nudge)
    assert town.run().result == told


def test_a_run_that_is_cancelled_fails_the_call(town_of):
    town = town_of(workflow_of)
    town.send("wait")
    town.world.send(("parcel_order", {"verb": "cancel", "why": "enough"}), key="p0")
    town.world.settle()
    assert town.run().result == "CallCancelled cancelled workflow.cancelled enough"
    assert issubclass(CallCancelled, CallFailed)


def test_a_call_of_a_run_that_has_ended_fails_at_once(town_of):
    town = town_of(workflow_of)
    town.send("silent")
    town.world.send(Ordered("o2", "wait"))
    town.world.settle()
    assert (
        town.world.state(town.order, "o2").result
        == "CallFailed ended workflow.ended its run has ended before"
    )


def test_only_who_called_is_told_and_only_of_its_own_incarnation(town_of):
    town = town_of()
    town.send("wait")
    town.world.delete(town.order, "o1")
    town.nudge("delete")
    assert town.run() is None
    town.send("wait")
    assert town.nudge("delete").status == "completed"


def test_a_call_that_fails_is_seen_after_a_restart_at_any_moment(town_of):
    town = town_of()
    town.send("wait")
    town.world.restart()
    town.world.send(Nudged("p0", "delete"))
    town.world.restart()
    town.world.settle()
    assert town.run().result.startswith("CallFailed deleted")


def test_an_uncaught_failure_of_a_call_fails_the_run_with_its_code():
    app = App("town")
    for event, key in ((Ordered, "order"), (Ship, "parcel"), (Shipped, "order"), (Nudged, "parcel")):
        app.event(key=key)(event)
    reducer_of(app, "skip")

    @app.workflow(events=[Shipped])
    async def order(ctx: Workflow, new: Ordered) -> None:
        await ctx.gather(
            ctx.call(Ship("p0", new.order, "wait"), Shipped),
            ctx.call(Ship("p1", new.order, new.what), Shipped),
        )

    world = World(app, elsewhere=False)
    world.send(Ordered("o1", "refuse"))
    world.settle()
    run = world.state(order, "o1")
    assert (run.status, run.code, run.text) == ("failed", "parcel.heavy", "town/parcel/p1 refused: too heavy")
    world.assert_replays()


PLAN = {
    "steps": [
        {"id": "nudged", "op": "await_event", "event": "town/Nudged@1", "bind": "nudged"},
        {
            "id": "answer", "op": "raise_event", "reducer": "town/order@1",
            "key": {"ref": "@plan.input.order"},
            "event": {"record": {
                "$schema": "town/Shipped@1", "order": {"ref": "@plan.input.order"},
                "parcel": {"ref": "@plan.correlation"},
            }},
        },
        {"id": "done", "op": "end", "result": "done"},
    ],
    "edges": [
        {"from": "nudged", "to": "answer",
         "when": {"op": "eq", "args": [{"ref": "@local.nudged.what"}, "answer"]}},
        {"from": "nudged", "to": "done"},
        {"from": "answer", "to": "done"},
    ],
}  # fmt: skip
MACHINE = """
key: parcel
triggers:
  ship: {event: town/Ship@1}
  nudged: {event: town/Nudged@1}
start: {trigger: ship}
states: [waiting, lost]
transitions:
  - {from: waiting, to: lost, trigger: nudged}
terminal_states: [lost]
"""


def plan_of(app: App, _: str) -> None:
    app.plan("parcel", PLAN, triggers={Ship: "parcel"})


def test_a_plan_answers_or_its_run_ends_without(town_of):
    told = "CallFailed ended plan.ended its run ended without this answer"
    for nudge, result in (("answer", "shipped p0"), ("no", told)):
        town = town_of(plan_of)
        assert town.send("wait").status == "running"
        assert town.nudge(nudge).result == result
        town.world.send(Ordered("o2", "wait"))
        town.world.settle()
        assert town.world.state(town.order, "o2").result == told


def test_a_machine_that_comes_to_its_end_fails_the_call(town_of, tmp_path):
    (tmp_path / "parcel.fsm.yaml").write_text(MACHINE)
    town = town_of(lambda app, _: app.fsm(str(tmp_path / "parcel.fsm.yaml"), name="parcel"))
    assert town.send("wait").status == "running"
    ended = "CallFailed ended fsm.ended the machine has come to lost, its end"
    assert town.nudge().result == ended
