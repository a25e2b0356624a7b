"""A shadow run at a node: recorded receipts answer, timers fire, and no byte changes."""

from __future__ import annotations

import asyncio

import pytest

import cellule
from cellule.errors import Rejected
from cellule.store.address import parse_address
from cellule.store.store import StoreOptions, open_store

APP = """
    from __future__ import annotations
    from datetime import timedelta
    import msgspec
    from cellule import App, Context, Receipt, Step, TimerFired
    from cellule.app.effects import timer
    from cellule.app.rules import rule

    app = App("change")
    CALLS = []

    class Charge(msgspec.Struct, frozen=True):
        cents: int

    class Charged(msgspec.Struct, frozen=True):
        number: int

    @app.event(key="name")
    class Placed(msgspec.Struct, frozen=True):
        name: str
        cents: int

    @app.event(key="name")
    class Done(msgspec.Struct, frozen=True):
        name: str

    class Order(msgspec.Struct, frozen=True):
        cents: int
        status: str
        seen: str = ""

    @app.adapter("change.charge")
    async def charge(params: Charge) -> Charged:
        CALLS.append(params.cents)
        return Charged(len(CALLS))

    GIFT = "effect.kind == 'change.charge' && effect.params.cents < 0"
    app.policy(rule(when=GIFT, then="deny", reason="no gifts"))

    @app.reducer(effects=[charge, timer])
    def order(
        state: Order | None, event: Placed | Receipt[Charged] | TimerFired, ctx: Context
    ) -> Step[Order]:
        match event:
            case Placed():
                seen = f"{ctx.height} {ctx.beat} {ctx.now} {ctx.uuid()}"
                return Step(Order(event.cents, "placed", seen), effects=[charge(Charge(event.cents))])
            case Receipt():
                number = event.value.number if event.value is not None else -1
                nap = timer(after=timedelta(milliseconds=20), key="nap")
                return Step(Order(number, event.status), effects=[nap])
            case TimerFired():
                return Step(Order(state.cents, "rested"), emit=[Done(ctx.key)])

    class Told(msgspec.Struct, frozen=True):
        count: int

    @app.reducer
    def told(state: Told | None, event: Done) -> Step[Told]:
        return Step(Told(1 if state is None else state.count + 1))
"""
SAME = APP.replace("class Told(", "# the same in other words\n    class Told(")
DOUBLE = APP.replace("charge(Charge(event.cents))", "charge(Charge(event.cents + (event.name == 'a')))")
QUIET = APP.replace(", effects=[charge(Charge(event.cents))]", "")
LOUD = APP.replace("emit=[Done(ctx.key)]", "emit=[Done(ctx.key), Done('else')]")
RICH = APP.replace('Order(event.cents, "placed"', 'Order(event.cents + (event.name == "a"), "placed"')
BROKEN = APP.replace(
    "case TimerFired():", "case TimerFired():\n                if ctx.key == 'a': raise ValueError"
)


async def rows(data):
    async with open_store(parse_address(str(data), None), StoreOptions(), create=False) as store:
        return [row async for page in store.engine.rows() for row in page]


@pytest.fixture
def history(versions, tmp_path):
    """A world whose orders were charged, denied and rested; then `shadow(name, text)` tries other code."""
    data, first = tmp_path / "data", versions("v0", APP)

    async def live():
        async with cellule.open(data, app=first.app) as node:
            world = await node.world("main")
            for name, cents in (("a", 5), ("b", 6), ("free", -1), ("a", 7)):
                await world.send(first.Placed(name, cents))
                await world.cell(first.order, name).wait_until("state.status == 'rested'", timeout=10)

    asyncio.run(live())
    assert first.CALLS == [5, 6, 7]

    def shadow(name, text, **more):
        module = versions(name, text)

        async def run():
            before = await rows(data)
            async with cellule.open(data, app=module.app) as node:
                report = await node.shadow_world("main", **more)
            after = await rows(data)
            return report, before, after

        report, before, after = asyncio.run(run())
        assert after == before
        assert module.CALLS == []
        return report

    return shadow


@pytest.mark.parametrize("recent", [None, 6, 1])
def test_code_that_does_the_same_differs_in_nothing(history, recent):
    report = history("v1", SAME, recent=recent)
    assert report.same, report
    assert report.steps > (0 if recent else 12)


def test_effects_with_other_params_are_told_by_cell_and_get_the_recorded_receipts(history):
    report = history("v1", DOUBLE, recent=None)
    assert report.differences == {"effects": 2}
    [first] = report.examples
    assert (first.module, first.key, first.aspect) == ("change/order", b"a", "effects")
    assert (first.before, first.after) == ({"change.charge": {"cents": 5}}, {"change.charge": {"cents": 6}})


def test_effects_that_are_not_asked_for_any_more_leave_receipts_and_steps_over(history):
    report = history("v1", QUIET, recent=None)
    assert report.differences["effects"] == 4
    assert report.unanswered == 3
    assert report.differences["missing steps"] >= 8
    assert report.modules == {"change/order": 3, "change/told": 3}


def test_further_events_and_the_steps_they_cause_are_told(history):
    report = history("v1", LOUD, recent=None)
    assert report.differences == {"events": 4, "further steps": 4}
    assert report.modules == {"change/order": 3, "change/told": 1}


def test_steps_that_fail_now_are_told_with_their_code(history):
    report = history("v1", BROKEN, recent=None)
    assert report.differences["outcomes"] == 1
    assert "halted" in str(report.examples[0].after)
    assert "modules.exception" in str(report.examples[0].after)


def test_other_states_are_told(history):
    report = history("v1", RICH, recent=None)
    assert report.differences == {"states": 2}
    assert {(each.key, each.before["cents"] + 1 - each.after["cents"]) for each in report.examples} == {
        (b"a", 0)
    }


@pytest.mark.parametrize(("most", "told"), [(2, "more than 2 cells differ"), (3, "")])
def test_a_run_ends_where_too_many_cells_differ(history, monkeypatch, most, told):
    monkeypatch.setattr("cellule.kernel.prove.shadow.SHADOW_CELLS_MAX", most)
    report = history("v1", LOUD, recent=None)
    assert report.limited == told
    assert (report.differences == {"events": 4, "further steps": 4}) == (not told)


def test_what_people_did_and_events_without_a_key_are_repeated(versions, tmp_path):
    audited = (
        APP
        + """
    @app.reducer(keyed=False)
    def audit(state: Told | None, event: Placed) -> Step[Told]:
        return Step(Told(1 if state is None else state.count + 1))
"""
    )
    first = versions("audited", audited)

    async def run():
        async with cellule.open(tmp_path / "data", app=first.app) as node:
            world = await node.world("main")
            for name in ("a", "b"):
                await world.send(first.Placed(name, 5))
                await world.cell(first.order, name).wait_until("state.status == 'rested'", timeout=10)
                cell = {"module": "change/order", "key": name.encode()}
                for verb in ("cell.halt", "cell.resume", "cell.halt", "cell.delete"):
                    await world.control(verb, who="ada", why="a test", **cell)
            return await node.shadow_world("main", recent=None)

    report = asyncio.run(run())
    assert report.same, report
    assert report.refused == {}


def test_an_era_and_a_manifest_are_not_both_deployed(history, tmp_path):
    async def run():
        async with cellule.open(tmp_path / "data") as node:
            with pytest.raises(Rejected) as error:
                await node.shadow_world("main", era=0, manifest={})
            assert error.value.code == "host.deploy_which"
            return await node.shadow_world("main", era=0, recent=None)

    assert asyncio.run(run()).same


LONG = """
    from __future__ import annotations
    import msgspec
    from cellule import App, Step

    app = App("change")

    @app.event(key="name")
    class Placed(msgspec.Struct, frozen=True):
        name: str
        euros: int

    @app.state(name="Order", version=1)
    class OrderV1(msgspec.Struct, frozen=True):
        euros: int
        note: str

    @app.reducer
    def order(state: OrderV1 | None, event: Placed) -> Step[OrderV1]:
        return Step(OrderV1(event.euros, event.name * 5_000))
"""
CENTS = LONG.replace(
    """
    @app.reducer
    def order(state: OrderV1 | None, event: Placed) -> Step[OrderV1]:
        return Step(OrderV1(event.euros, event.name * 5_000))
""",
    """
    @app.state(name="Order", version=2)
    class Order(msgspec.Struct, frozen=True):
        cents: int

    @app.upcaster
    def in_cents(old: OrderV1) -> Order:
        return Order(old.euros * 100)

    @app.reducer
    def order(state: Order | None, event: Placed) -> Step[Order]:
        return Step(Order(event.euros * 100))
""",
)
WIDER = LONG.replace("note: str\n", 'note: str\n        tag: str = "new"\n')
OTHER_NOTE = LONG.replace("event.name * 5_000", "event.name * 4_999 + 'z'")
OTHER_CENTS = CENTS.replace("event.euros * 100)", "event.euros * 100 + (event.euros > 1))")


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (LONG, None, None), (CENTS, None, None), (WIDER, None, None),
        (OTHER_NOTE, {"euros": 1, "note": "a" * 5_000}, {"euros": 1, "note": "a" * 4_999 + "z"}),
        (OTHER_CENTS, {"cents": 200}, {"cents": 201}),
    ],
    ids=["same", "same in cents", "a further field", "another note", "other cents"],
)  # fmt: skip
def test_long_states_and_those_of_another_version_are_compared_as_the_new_code_means_them(
    versions, tmp_path, text, before, after
):
    data, old = tmp_path / "data", versions("old", LONG)

    async def run():
        async with cellule.open(data, app=old.app) as node:
            world = await node.world("main")
            for name, euros in (("a", 1), ("b", 2)):
                await world.send(old.Placed(name, euros))
            frames = [frame async for frame in world.frames()]
        async with cellule.open(data, app=versions("new", text).app) as node:
            return frames, await node.shadow_world("main", recent=None)

    frames, report = asyncio.run(run())
    assert (report.frames, report.steps) == (len(frames), 2)
    assert (report.first, report.last) == (1, frames[-1].header.last)
    assert report.same == (before is None)
    assert [(each.aspect, each.before, each.after) for each in report.examples[:1]] == (
        [] if before is None else [("states", before, after)]
    )
