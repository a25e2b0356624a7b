"""Events that Cellule sends itself: whatever their routes, a beat ends, and what goes nowhere is recorded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cellule.kernel.decide import steps
from cellule.kernel.items import EventItem
from cellule.kernel.journal.codes import HALTED, OK
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import EmittedRecord
from cellule.kernel.manifest import fit
from cellule.kernel.program import StepFault
from cellule.values import encode
from tests.support.kernel_world import Did, FunctionPrograms


def watch(state, schema, event, ctx):
    return Did({"placed": 0, "failures": (state or {"failures": 0})["failures"] + 1})


def broken(state, schema, event, ctx):
    raise StepFault("shop.failed", "x" * 600)


@pytest.fixture
def unchecked(monkeypatch):
    """Manifests as an earlier version took them."""
    monkeypatch.setattr(fit.Fitting, "_check_system", lambda *_: None)


def with_route(shop, event, **route):
    """The shop with a module that watches one of Cellule's own events by a key, before all other routes."""
    document = shop()
    key = {"bytes": {}} if route.get("key_field") == "key" else {"text": {}}
    document["modules"]["shop/Watch@1"] = {
        "kind": "pure",
        "state": "shop/Stats@1",
        "key": key,
        "event": [event],
    }
    document["routing"]["subscriptions"].insert(0, {"event": event, "module": "shop/Watch@1", **route})
    return document


@pytest.mark.parametrize("route", [{"key_field": "key"}, {"key_field": "text"}])
def test_a_failure_that_a_route_has_no_key_for_ends_its_beat_and_reaches_the_others(
    make_world, shop, unchecked, route
):
    """The router raised outside any guard, and so at every later beat: the world had stopped for good."""
    document = with_route(shop, "sys/StepFailed@1", **route)
    programs = FunctionPrograms({"shop/Stats": _stats, "shop/Watch": watch, "shop/Order": broken})
    world = make_world(document, programs)
    world.send("shop/Placed@1", {"order": "o1", "total": 1})
    world.settle()
    beat = world.send("shop/Paid@1", {"order": "o2"})
    assert [step.status for step in beat.steps] == [HALTED]
    [told] = [each for each in decode_frame(beat.frame).records if isinstance(each, EmittedRecord)]
    targets = [("shop/Stats", b"")]
    assert told.targets == ([("shop/Watch", b"o2"), *targets] if route == {"key_field": "key"} else targets)


def _stats(state, schema, event, ctx):
    if schema == "shop/Placed@1":
        raise StepFault("shop.failed", "the one cell without a key")
    return watch(state, schema, event, ctx)


def test_a_stopped_cascade_that_a_route_has_no_key_for_ends_its_beat(
    make_world, shop, unchecked, monkeypatch
):
    monkeypatch.setattr(steps, "DEPTH_MAX", 3)
    document = with_route(shop, "sys/CascadeStopped@1", key_only=True)
    world = make_world(document, FunctionPrograms({"shop/Watch": watch}))
    world.send("shop/Ping@1", {"to": "a", "left": 9})
    world.settle()
    records = [record for frame in world.frames for record in decode_frame(frame).records]
    stopped = [each for each in records if getattr(each, "schema", "") == "sys/CascadeStopped@1"]
    assert [each.targets for each in stopped] == [[]]
    assert world.beat([EventItem("shop/Paid@1", encode({"order": "o1"}))]).steps[0].status == OK


@pytest.mark.parametrize("value", [b"", b"\xff", *map(encode, (3, {}, {"module": 5}, {"module": ""}))])
def test_what_nobody_sent_is_routed_without_an_error_whatever_it_is(make_world, shop, value):
    world = make_world(with_route(shop, "sys/CascadeStopped@1", key_field="module"), FunctionPrograms({}))
    router = world.world.eras.current.router
    assert router.reachable("sys/CascadeStopped@1", value) == []
    assert router.reachable("sys/CascadeStopped@1", encode({"module": "a"})) == [("shop/Watch", b"a")]
    assert router.reachable("sys/CascadeStopped@1", encode({"module": "a"}), b"b") == []
    assert router.reachable("shop/Nobody@1", value) == []


def test_routes_of_what_nobody_sends_are_followed_in_one_way_only():
    """A beat has no way out of an error of the router: who asks inside one catches it, or asks this way."""
    rooms = Path(steps.__file__).parent
    found = [
        f"{path.name}:{number}"
        for path in sorted(rooms.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"router\.(targets|route|inbox)\b", line)
    ]
    assert {place.partition(":")[0] for place in found} == {"admission.py", "eras.py", "steps.py"}
    assert len([place for place in found if place.startswith("steps.py")]) == 1  # of what a step emits


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    "sent",
    [
        ("sys/StepFailed@1", {
            "module": "shop/Order", "key": b"o1", "height": 1, "cause": 1, "code": "x", "text": "forged",
        }),
        ("effect.shop/mail@1", {"intent_id": "forged", "kind": "shop.mail", "status": "ok"}),
    ],
)  # fmt: skip
def test_nobody_sends_what_only_cellule_sends(make_world, shop, sent, fast):
    schema, value = sent
    document = shop()
    document["modules"]["shop/Watch@1"] = {
        "kind": "pure", "state": "shop/Stats@1", "key": {"text": {}}, "event": ["sys/StepFailed@1"],
    }  # fmt: skip
    route = {"event": "sys/StepFailed@1", "module": "shop/Watch@1", "key_field": "module"}
    document["routing"]["subscriptions"].append(route)
    world = make_world(document, FunctionPrograms({"shop/Watch": watch}), fast=fast)
    before = world.world.ledger.height
    for item in (EventItem(schema, encode(value)), (schema, encode(value), None)):
        (outcome,) = world.beat([item]).outcomes
        assert outcome.error.code == "kernel.event_reserved"
    assert world.world.ledger.height == before
