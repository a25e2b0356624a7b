"""Cells show their work as operations, by signals (`app.operations()`).

With `operation=True` workflows, plans and effects do so by themselves.
"""

from __future__ import annotations

import msgspec
import pytest

from cellule import App, Signal, Step, Workflow, rule
from cellule.errors import Rejected
from cellule.kernel.heartbeat import operations as rules
from cellule.testing import World

app = App("jobs")
app.operations()


@app.event(key="name")
class Began(msgspec.Struct, frozen=True):
    name: str


@app.event(key="name")
class Moved(msgspec.Struct, frozen=True):
    name: str
    done: int


@app.reducer
def job(state: int | None, event: Began | Moved) -> Step[int]:
    path = f"/jobs/{event.name}"
    if isinstance(event, Began):
        begin = {"for": path, "verb": "op/job", "ttl": 5, "payload": {"rows": 3}}
        tell = {"for": path, "state": "ist:copy", "note": "at once"}
        return Step(0, emit=[Signal("/op/begin", payload=begin), Signal("/op/tell", payload=tell)])
    if event.done < 3:
        tell = {"for": path, "state": "ist:copy", "code": event.done}
        return Step(event.done, emit=[Signal("/op/tell", payload=tell)])
    return Step(event.done, emit=[Signal("/op/end", payload={"for": path, "summary": "all"})])


@pytest.fixture(params=[False, True], ids=["kept", "evicted"])
def world(request):
    made = World(app, evict=request.param)
    yield made
    made.assert_replays()


def operation_of(world, name):
    key = rules.key_of(world.heartbeat.read(f"/operations/jobs/{name}"))
    entry = world.host.look("sys/Operation", key)
    return rules.decode(entry.state)


def test_a_cell_begins_tells_and_ends_its_operation(world):
    world.send(Began("a"))
    world.settle()
    found = operation_of(world, "a")
    assert (found.envelope.verb, found.envelope.target, found.envelope.ttl) == ("op/job", "/jobs/a", 5)
    assert (found.state, found.note) == ("ist:copy", "at once")
    world.send(Moved("a", 2))
    world.settle()
    assert operation_of(world, "a").code == 2
    world.send(Moved("a", 3))
    world.settle()
    closed = operation_of(world, "a").close
    assert closed is not None
    assert (closed.status, closed.summary) == ("sts:ok", "all")


def test_a_signal_that_says_too_little_fails_and_changes_nothing(world):
    for signal, payload in (("/op/begin", {"for": "/a"}), ("/op/tell", None), ("/op/end", {"odd": 1})):
        world.signal(signal, payload=payload)
    world.settle()
    failed = [line.text for beat in world.heartbeat.beats() for line in beat.agenda if line.code == -2]
    assert len(failed) == 3
    assert not world.heartbeat.exists("/operations")


def test_what_is_told_of_an_operation_that_never_began_ends_with_a_warning(world):
    world.signal("/op/end", payload={"for": "/jobs/none"})
    world.settle()
    assert not world.heartbeat.exists("/operations")


trips = App("trips")


@trips.event(key="id")
class Asked(msgspec.Struct, frozen=True):
    id: str
    cents: int


@trips.event(key="id")
class Told(msgspec.Struct, frozen=True):
    id: str


class Charge(msgspec.Struct, frozen=True):
    id: str
    cents: int


class Charged(msgspec.Struct, frozen=True):
    reference: str


charge = trips.effect("pay.charge", params=Charge, receipt=Charged, operation=True)
plain = trips.effect("pay.check", params=Charge, receipt=Charged)
trips.policy(rule(when="effect.params.cents > 100", then="require_approval"))


@trips.workflow(events=[Told], effects=[charge, plain], operation=True)
async def trip(ctx: Workflow, asked: Asked) -> str:
    await ctx.effect(plain(Charge(asked.id, 1)))
    charged = await ctx.effect(charge(Charge(asked.id, asked.cents)))
    await ctx.event(Told)
    return charged.reference


flow = trips.plan(
    "flow",
    {
        "steps": [
            {"id": "told", "op": "await_event", "event": "trips/Told@1"},
            {"id": "done", "op": "end", "result": {"ref": "@step.told.id"}},
        ]
    },
    triggers={Asked: "id"},
    operation=True,
)


@pytest.fixture(params=[False, True], ids=["kept", "evicted"])
def trips_world(request):
    made = World(trips, evict=request.param)
    yield made
    made.assert_replays()


def shown(world, path):
    """The newest operation of what is done at a path."""
    given = world.heartbeat.read(f"/operations{path}")
    return (
        None if given is None else rules.decode(world.host.look("sys/Operation", rules.key_of(given)).state)
    )


def effect_of(world):
    """The operation of the only effect that has one."""
    (name,) = world.heartbeat.list("/operations/effects")
    return shown(world, f"/effects/{name}")


def test_a_workflow_a_plan_and_an_effect_show_their_life(trips_world):
    world = trips_world
    world.send(Asked("x", 5))
    run, planned = shown(world, "/cells/trips/trip/x"), shown(world, "/cells/trips/flow/x")
    assert (run.envelope.verb, planned.envelope.verb) == ("workflow/trips/trip", "plan/trips/flow")
    assert (run.envelope.target, run.state, run.close) == ("/cells/trips/trip/x", "ist:run", None)
    assert world.heartbeat.list("/operations/effects") == []
    world.complete(world.intents.of(plain)[0], Charged("c"))
    (intent,) = world.intents.of(charge)
    asked = effect_of(world)
    assert (asked.envelope.verb, asked.state) == ("effect/pay.charge", "ist:run")
    world.complete(intent, Charged("r"))
    assert effect_of(world).close.status == "sts:ok"
    world.send(Told("x"))
    for path in ("/cells/trips/trip/x", "/cells/trips/flow/x"):
        assert shown(world, path).close.status == "sts:ok"
    assert len(world.host.cells("sys/Operation")) == 3


def begun(world, cents=5):
    """A run that has asked for its charge."""
    world.send(Asked("x", cents))
    world.complete(world.intents.of(plain)[0], Charged("c"))


def test_an_effect_that_needs_an_approval_waits_and_goes_on_or_is_denied(trips_world):
    world = trips_world
    begun(world, cents=500)
    world.settle()
    waiting = effect_of(world)
    assert (waiting.state, waiting.note) == ("ist:wait", "it needs an approval")
    world.approve(world.approvals[0])
    world.settle()
    assert effect_of(world).state == "ist:run"
    world.fail(world.intents.of(charge)[0], "bank.empty", "no money")
    world.settle()
    closed = effect_of(world).close
    assert (closed.status, closed.summary) == ("sts:fail", "no money")
    failed = shown(world, "/cells/trips/trip/x").close
    assert failed.status == "sts:fail"
    assert "bank.empty" in failed.summary


def test_a_denied_effect_ends_in_the_beat_after_it_began(trips_world):
    world = trips_world
    begun(world, cents=500)
    world.deny(world.approvals[0], why="too dear")
    world.settle()
    assert effect_of(world).close.status == "sts:fail"
    assert "too dear" in effect_of(world).close.summary


def test_an_effect_that_somebody_outside_completes_waits_for_that(trips_world):
    world = trips_world
    begun(world)
    (intent,) = world.intents.of(charge)
    world.hold(intent)
    world.settle()
    assert (effect_of(world).state, effect_of(world).note) == ("ist:wait", "somebody outside completes it")
    world.complete(intent, Charged("r"))
    world.settle()
    assert effect_of(world).close.status == "sts:ok"


def test_an_effect_that_is_sent_again_from_its_dead_letter_shows_its_life_again(trips_world):
    """The letter forgot it: what was sent again was done in silence, and nobody could wait for it."""
    world = trips_world
    begun(world)
    world.fail(world.intents.of(charge)[0], "bank.away", "no answer for a day", exhausted=True)
    (first,) = world.heartbeat.list("/operations/effects")
    world.redrive(*world.letters)
    (again,) = set(world.heartbeat.list("/operations/effects")) - {first}
    assert shown(world, f"/effects/{again}").state == "ist:run"
    world.complete(world.intents.of(charge)[0], Charged("r"))
    assert shown(world, f"/effects/{first}").close.status == "sts:fail"
    assert shown(world, f"/effects/{again}").close.status == "sts:ok"


def test_a_run_that_is_cancelled_or_begins_anew_ends_its_operation(trips_world):
    world = trips_world
    begun(world)
    first = world.heartbeat.read("/operations/cells/trips/trip/x")
    order = {"verb": "rerun", "why": "again"}
    world.send(("trip_order", order), key="x")
    world.settle()
    second = world.heartbeat.read("/operations/cells/trips/trip/x")
    assert first != second
    closed = rules.decode(world.host.look("sys/Operation", rules.key_of(first)).state).close
    assert (closed.status, closed.summary) == ("sts:cnl", "it was told to begin anew")
    world.send(("trip_order", {"verb": "cancel", "why": "enough"}), key="x")
    world.settle()
    closed = shown(world, "/cells/trips/trip/x").close
    assert (closed.status, closed.summary) == ("sts:cnl", "enough")


def test_what_says_nothing_of_operations_has_none_and_no_enzyme():
    bare = App("bare")
    assert bare.modules == {}
    bare.operations()
    bare.operations()
    assert list(bare.modules) == ["operation"]
    assert len(bare.modules["operation"].entries) == 3


def test_an_option_that_is_no_bool_is_refused():
    async def odd(ctx: Workflow, asked: Asked) -> str:
        return asked.id

    with pytest.raises(Rejected, match="operation"):
        trips.workflow(operation="yes")(odd)
