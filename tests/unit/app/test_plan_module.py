"""`app.plan`: declared from a file or as data, checked when the app is built, run like every other module."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml

from cellule import App, Step, rule
from cellule.errors import Rejected
from cellule.testing import World

SHOP = """
    import msgspec

    from cellule import App

    app = App("shop")


    @app.event(key="id")
    class Asked(msgspec.Struct, frozen=True):
        id: str
        cents: int


    class Charge(msgspec.Struct, frozen=True):
        id: str
        cents: int


    class Charged(msgspec.Struct, frozen=True):
        reference: str


    app.effect("pay.charge", params=Charge, receipt=Charged)
    flow = app.plan("flow", "flow.yaml", triggers={Asked: "id"})
"""
GOOD = """\
steps:
  - id: charge
    op: emit_effect
    kind: pay.charge
    params:
      record:
        id: {ref: "@plan.input.id"}
        cents: {ref: "@plan.input.cents"}
  - {id: paid, op: await_receipt, for: charge}
  - {id: done, op: end, result: {ref: "@step.paid.status"}}
"""


def refused(project: Any, plan: str) -> Rejected:
    shop = project({"shop.py": SHOP, "flow.yaml": plan}, "shop")
    with pytest.raises(Rejected) as caught:
        shop.app.build()
    return caught.value


def test_a_plan_in_a_file_beside_the_app_runs(project):
    shop = project({"shop.py": SHOP, "flow.yaml": GOOD}, "shop")
    world = World(shop.app)
    world.send(shop.Asked("x", 5))
    (intent,) = world.intents
    assert intent.params == shop.Charge("x", 5)
    world.complete(intent, shop.Charged("r"))
    assert world.state(shop.flow, "x")["result"] == "ok"
    world.assert_replays()


def test_a_plan_in_json_is_the_same_plan(project):
    as_json = json.dumps(yaml.safe_load(GOOD), indent=1)
    one = project({"shop.py": SHOP, "flow.yaml": GOOD}, "shop").app.build().manifest
    two = project({"json_shop.py": SHOP.replace(".yaml", ".json"), "flow.json": as_json}, "json_shop")
    assert two.app.build().manifest.modules["shop/flow"].code == one.modules["shop/flow"].code


@pytest.mark.parametrize(("old", "new", "line", "text"), [
    ("@plan.input.cents", "@plan.input.sum", 8, "@plan.input.sum: there is no field 'sum'"),
    ("for: charge", "for: nothing", 9, "steps[1].for: there is no emit_effect step 'nothing'"),
    ("{id: done, op: end,", "{id: done, op: stop,", 10, "steps[2].op: 'stop' is none of"),
    ('cents: {ref: "@plan.input.cents"}', "cents: five", 8, "a text stands where an int is needed"),
])  # fmt: skip
def test_a_problem_is_told_by_file_and_line(project, old, new, line, text):
    assert old in GOOD
    error = refused(project, GOOD.replace(old, new))
    assert (error.code, error.fields["line"]) == ("plan.invalid", line)
    assert f"flow.yaml, line {line}, " in str(error)
    assert text in str(error)


@pytest.mark.parametrize(("old", "new", "code"), [
    ("pay.charge", "pay.chage", "app.effect_unknown"), ("pay.charge", "http.request", "app.grant_missing"),
])  # fmt: skip
def test_an_effect_that_the_plan_may_not_ask_for_is_told_by_file_and_line(project, old, new, code):
    error = refused(project, GOOD.replace(old, new))
    assert error.code == code
    assert str(error).startswith("flow.yaml, line 4, steps[0].kind ")


def test_every_problem_has_its_own_line(project):
    error = refused(
        project, GOOD.replace("@plan.input.cents", "@plan.input.sum").replace("for: charge", "for: no")
    )
    assert "flow.yaml, line 8, steps[0].params.record.cents.ref: @plan.input.sum" in str(error)
    assert "flow.yaml, line 9, steps[1].for" in str(error)


@pytest.mark.parametrize(("text", "why"), [
    ("steps: [", "while parsing"), ("- 1", "a map with `steps` is needed"), (b"\xff", "utf-8"),
    (b"#" * 1_000_001, "at most 1000000"), ("steps: &a [*a]", "nests more than 128 levels"),
])  # fmt: skip
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(project, tmp_path, text, why):
    shop = project({"shop.py": SHOP}, "shop")
    (tmp_path / "flow.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(Rejected, match=why) as caught:
        shop.app.build()
    assert caught.value.code == "plan.file"


def test_a_file_that_is_not_there_is_refused_when_the_app_is_built(project):
    shop = project({"shop.py": SHOP}, "shop")
    with pytest.raises(Rejected, match=r"flow.yaml cannot be read: .*No such file") as caught:
        shop.app.build()
    assert caught.value.code == "plan.file"


# Plans as data, beside a reducer


class Charge(msgspec.Struct, frozen=True):
    id: str
    cents: int


class Charged(msgspec.Struct, frozen=True):
    reference: str


class Placed(msgspec.Struct, frozen=True):
    id: str
    cents: int


class ChargeWanted(msgspec.Struct, frozen=True):
    id: str
    cents: int


class Paid(msgspec.Struct, frozen=True):
    id: str
    how: str


class Order(msgspec.Struct, frozen=True):
    cents: int
    how: str = "open"


CHARGE: dict[str, Any] = {
    "id": "charge", "op": "emit_effect", "kind": "pay.charge", "cap_slot": "bank",
    "params": {"record": {"id": {"ref": "@plan.correlation"}, "cents": {"ref": "@plan.input.cents"}}},
}  # fmt: skip
STEPS: list[dict[str, Any]] = [
    CHARGE,
    {"id": "paid", "op": "await_receipt", "for": "charge"},
    {"id": "tell", "op": "raise_event", "reducer": "shop/order@1", "key": {"ref": "@plan.correlation"},
     "event": {"record": {"$schema": "shop/Paid@1", "id": {"ref": "@plan.correlation"},
                          "how": {"ref": "@step.paid.status"}}}},
]  # fmt: skip


def shop_app(steps: list[dict[str, Any]], triggers: Any = None) -> tuple[App, Any, Any]:
    """A shop whose reducer asks for a charge by an event, which starts the plan."""
    app = App("shop")
    for event in (Placed, ChargeWanted, Paid):
        app.event(key="id")(event)
    charge = app.effect("pay.charge", params=Charge, receipt=Charged, needs_grant=True)
    app.policy(
        rule(when="effect.kind == 'pay.charge' && effect.params.cents > 1000", then="require_approval"),
        default="allow",
    )
    app.grant("bank", effects=[charge])

    def order(state: Order | None, event: Placed | Paid) -> Step[Order]:
        """Ask for the charge of a new order, and keep what came of it."""
        if isinstance(event, Placed):
            return Step(Order(event.cents), emit=[ChargeWanted(event.id, event.cents)])
        return Step(Order(state.cents if state else 0, event.how))

    app.reducer(emits=[ChargeWanted])(order)
    flow = app.plan("flow", {"steps": steps}, triggers=triggers or {ChargeWanted: "id"}, grants=["bank"])
    return app, order, flow


def test_an_emitted_event_starts_a_run_and_the_run_tells_its_order():
    app, order, flow = shop_app(STEPS)
    world = World(app)
    world.send(Placed("x", 5))
    assert world.state(flow, "x")["at"] == "paid"
    world.complete(world.intents[0], Charged("r"))
    assert world.state(order, "x") == Order(5, "ok")
    assert world.state(flow, "x")["status"] == "ended"
    world.assert_replays()


def test_a_sent_event_starts_a_run_too():
    app, order, flow = shop_app(STEPS, {Placed: "id"})
    world = World(app)
    world.send(Placed("x", 5))
    assert world.state(flow, "x")["trigger"] == "shop/Placed@1"
    world.complete(world.intents[0], Charged("r"))
    assert world.state(order, "x") == Order(5, "ok")
    world.assert_replays()


@pytest.mark.parametrize(("approved", "how"), [(True, "ok"), (False, "denied")])
def test_a_run_waits_until_a_person_decides(approved, how):
    app, order, flow = shop_app(STEPS)
    world = World(app)
    world.send(Placed("large", 5_000))
    world.send(Placed("small", 5))
    (asked,) = world.approvals
    world.restart()
    assert [world.state(flow, key)["at"] for key in ("large", "small")] == ["paid", "paid"]
    if approved:
        world.approve(asked)
        world.complete(next(each for each in world.intents if each.params.id == "large"), Charged("r"))
    else:
        world.deny(asked)
    assert world.state(order, "large") == Order(5_000, how)
    assert world.state(order, "small") == Order(5, "open")
    world.assert_replays()


def test_receipts_and_events_reach_the_run_of_their_correlation_only():
    waits = {"id": "word", "op": "await_event", "event": "shop/Paid@1", "bind": "word"}
    app, _, flow = shop_app(
        [*STEPS[:2], waits, {"id": "end", "op": "end", "result": {"ref": "@local.word.how"}}]
    )
    world = World(app)
    keys = [f"o{n}" for n in range(5)]
    world.send_many([Placed(key, n) for n, key in enumerate(keys)])
    for intent in reversed(list(world.intents)):
        if intent.params.id != "o3":
            world.complete(intent, Charged(intent.params.id))
    for key in ("o4", "o1", "o3"):
        world.send(Paid(key, f"for {key}"))
    told = {key: (world.state(flow, key)["at"], world.state(flow, key).get("result")) for key in keys}
    assert told == {
        "o0": ("word", None), "o1": ("", "for o1"), "o2": ("word", None), "o3": ("paid", None),
        "o4": ("", "for o4"),
    }  # fmt: skip
    for key in ("o0", "o2"):
        assert world.state(flow, key)["step"]["paid"]["value"] == {"reference": key}
    world.assert_replays()


def test_a_plan_may_not_use_a_slot_that_it_does_not_have():
    app, _, _ = shop_app([{**CHARGE, "cap_slot": "vault"}])
    with pytest.raises(Rejected, match=r"steps\[0\].cap_slot: the plan has no slot 'vault'"):
        World(app)


def test_a_trigger_that_is_no_event_of_the_app_is_refused():
    app, _, _ = shop_app(STEPS, {Order: "id"})
    with pytest.raises(Rejected, match=r'app.plan\("flow"\) is started by .*Order, which is no event of'):
        World(app)


@pytest.mark.parametrize(("by", "text"), [("nothing", "nothing"), ("cents.more", "cents")])
def test_a_correlation_that_the_event_does_not_have_is_refused(by, text):
    app, _, _ = shop_app(STEPS, {ChargeWanted: by})
    with pytest.raises(Rejected, match=text) as caught:
        World(app)
    assert caught.value.code.startswith("manifest.")


def test_a_timer_wakes_its_run():
    steps = [
        {"id": "wait", "op": "emit_effect", "kind": "timer.set",
         "params": {"record": {"after_ns": {"value": 3_600_000_000_000}}}},
        {"id": "woken", "op": "await_receipt", "for": "wait"},
        {"id": "end", "op": "end", "result": {"ref": "@step.woken.key"}},
    ]  # fmt: skip
    app, _, flow = shop_app(steps)
    world = World(app)
    world.send(Placed("x", 5))
    world.advance(minutes=59)
    assert world.state(flow, "x")["at"] == "woken"
    world.advance(minutes=1)
    assert world.state(flow, "x")["result"].endswith("/wait/1")
    world.assert_replays()


def test_the_older_name_of_a_blob_effect_means_the_same():
    steps = [
        {"id": "keep", "op": "emit_effect", "kind": "fs.blob.put",
         "params": {"record": {"data": {"value": b"a photo"}}}},
        {"id": "kept", "op": "await_receipt", "for": "keep"},
        {"id": "end", "op": "end", "result": {"ref": "@step.kept.status"}},
    ]  # fmt: skip
    app, _, flow = shop_app(steps)
    world = World(app)
    world.send(Placed("x", 5))
    (asked,) = world.intents
    assert (asked.kind, asked.params.data) == ("blob.put", b"a photo")
    world.fail(asked)
    assert world.state(flow, "x")["result"] == "failed"
    world.assert_replays()
