"""Code that no longer does what a history says: that one cell stops, with what differs and three ways out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cellule import App, StepFailed, Workflow
from cellule.testing import World
from tests.support.workflows import EVENTS, Charge, Charged, Paid, Placed


def app_of(body: Any, upgrade: str = "follow") -> App:
    """An app whose workflow does what `body` does."""
    app = App("shop")
    for event in EVENTS:
        app.event(key="order")(event)
    charge = app.effect("pay.charge", params=Charge, receipt=Charged)

    @app.workflow(events=[Paid], effects=[charge], upgrade=upgrade)
    async def order(ctx: Workflow, new: Placed) -> str:
        return await body(ctx, new, charge)

    return app


async def first(ctx: Workflow, new: Placed, charge: Any) -> str:
    await ctx.effect(charge(Charge(new.order, 1)))
    await ctx.event(Paid)
    return "first"


def other(change: str) -> Any:
    """The same with one thing changed."""

    async def body(ctx: Workflow, new: Placed, charge: Any) -> str:
        if change == "before":
            await ctx.sleep(timedelta(days=1))
        if change == "fails":
            raise ZeroDivisionError
        if change == "ends":
            return "early"
        if change == "less":
            await ctx.event(Paid)
            return "less"
        await ctx.effect(charge(Charge(new.order, 2 if change == "other" else 1)))
        if change == "more":
            ctx.effect(charge(Charge(new.order, 3)))
        await ctx.event(Paid)
        if change == "swallows":
            return "never"
        return "second"

    async def swallowing(ctx: Workflow, new: Placed, charge: Any) -> str:
        for _ in range(3):
            try:
                await ctx.sleep(1)
            except BaseException:  # noqa: BLE001 - which is what hostile code does
                continue
        return "swallowed"

    return swallowing if change == "swallows" else body


def started(upgrade: str = "follow") -> World:
    world = World(app_of(first, upgrade), elsewhere=False)
    world.send(Placed("o1"))
    world.complete(world.intents[0], Charged("c1"))
    return world


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("before", "command 1: expected effect pay.charge (test_changes.py:ONE), got sleep 1d ("),
        ("other", "command 1: expected effect pay.charge (test_changes.py:ONE), got effect pay.charge ("),
        ("less", "command 1: expected effect pay.charge (test_changes.py:ONE), got event Paid ("),
        ("more", "command 2: expected event Paid (test_changes.py:TWO), got effect pay.charge ("),
        ("ends", "command 1: expected effect pay.charge (test_changes.py:ONE), got nothing more"),
        ("fails", "command 1: expected effect pay.charge (test_changes.py:ONE), got nothing more"),
        ("swallows", "command 1: expected effect pay.charge (test_changes.py:ONE), got sleep 1s ("),
    ],
)
def test_an_edit_that_does_not_fit_stops_one_cell_and_says_what_differs(change: str, told: str) -> None:
    world = started()
    world.send(Placed("o2"))
    world.deploy(app_of(other(change)))
    with pytest.raises(StepFailed) as failed:
        world.send(Paid("o1"))
    begin = first.__code__.co_firstlineno
    assert told.replace("ONE", str(begin + 1)).replace("TWO", str(begin + 2)) in str(failed.value)
    assert "cell migrate" in str(failed.value)
    assert "workflow rerun" in str(failed.value)
    assert [each.code for each in world.failures] == ["workflow.changed"]
    assert world.cell("order", "o1").status == "halted"
    assert world.state("order", "o2").status == "running"
    world.assert_replays()


def test_other_parameters_are_named_as_such() -> None:
    world = started()
    world.deploy(app_of(other("other")))
    with pytest.raises(StepFailed, match="with other parameters"):
        world.send(Paid("o1"))


def test_an_edit_behind_the_history_just_runs() -> None:
    world = started()
    world.deploy(app_of(other("nothing")))
    world.send(Paid("o1"))
    assert world.state("order", "o1").result == "second"
    world.assert_replays()


def test_a_pinned_run_keeps_the_code_it_began_with() -> None:
    world = started("pin")
    world.deploy(app_of(other("before"), "pin"))
    world.send(Placed("o2"))
    world.send(Paid("o1"))
    assert world.state("order", "o1").result == "first"
    assert [each.what for each in world.state("order", "o2").waits] == ["sleep 1d"]
    world.assert_replays()


def test_workflows_are_pinned_unless_they_say_otherwise() -> None:
    app = App("shop")
    app.event(key="order")(Placed)

    @app.workflow
    async def order(ctx: Workflow, new: Placed) -> None:
        await ctx.sleep(1)

    assert app.build(live=True).manifest.modules["shop/order"].upgrade == "pin"


def test_a_run_that_does_not_fit_is_saved_by_going_back_to_its_code() -> None:
    world = started("pin")
    world.deploy(app_of(other("before"), "pin"))
    world.migrate("order", "o1")
    with pytest.raises(StepFailed):
        world.send(Paid("o1"))
    world.migrate("order", "o1", to=0)
    assert world.state("order", "o1").result == "first"
    world.assert_replays()


def test_a_run_that_does_not_fit_is_saved_by_code_that_does() -> None:
    world = started()
    world.deploy(app_of(other("before")))
    with pytest.raises(StepFailed):
        world.send(Paid("o1"))
    world.deploy(app_of(other("nothing")))
    world.resume("order", "o1")
    assert world.state("order", "o1").result == "second"
    world.assert_replays()


def test_a_run_that_does_not_fit_is_saved_by_beginning_anew() -> None:
    world = started()
    world.deploy(app_of(other("before")))
    world.send(Paid("o1"), check=False)
    world.send(("order_order", {"verb": "rerun"}), key="o1", check=False)
    world.drop("order", "o1")
    run = world.state("order", "o1")
    assert (run.status, run.number, run.waits[0].what) == ("running", 2, "sleep 1d")
    world.assert_replays()
