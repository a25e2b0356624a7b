"""What the short ways leave to the general one: older eras, empty keys, links; and what they never forget."""

from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.kernel.fast.batch import is_plain
from cellule.kernel.items import LATER, Admitted, EventItem, Pace, ReceiptItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import EventRecord, IntentRecord, ReceiptRecord, StepRecord
from cellule.kernel.need import Nodes, drive
from cellule.kernel.program import CheckedRequest
from cellule.kernel.prove.check import reachable
from cellule.kernel.state.cells import EVENT_MESSAGE, Entry, Message, weigh
from cellule.kernel.state.module_cells import Budget
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.kernel_bank import SECOND
from tests.support.kernel_history import Scratch
from tests.support.kernel_world import Did, FunctionPrograms

BLOB = encode({"a": "block of the user"})
CARGO = Link(cid_of(BLOB))
BOX = "dock/Box"
SCHEMAS = {
    "dock/Put@1": {"record": {"box": {"text": {}}, "cargo": {"any": {}}, "ask": {"option": {"any": {}}}}},
    "dock/Box@1": {"record": {"by": {"text": {}}, "cargo": {"any": {}}}},
    "dock/Any@1": {"any": {}},
    "dock/Number@1": {"int": {}},
}


def document(version=1, receipt="dock/Any@1", **changes):
    """A dock of boxes: a pure one, or one that asks for effects."""
    name, event = f"dock/Box@{version}", ["dock/Put@1"]
    module = {"kind": "pure", "state": "dock/Box@1", "key": {"text": {}}, "event": event, **changes}
    routes = [{"event": "dock/Put@1", "module": name, "key_field": "box"}]
    whole = {"schemas": SCHEMAS, "modules": {name: module}, "routing": {"subscriptions": routes}}
    if "effects_emitted" in changes:
        module |= {"kind": "workflow", "style": "reducer", "event": [*event, "effect.dock/lift@1"]}
        whole["effects"] = {"dock.lift": {"params": "dock/Any@1", "receipt": receipt}}
    return whole


def box(by):
    def step(state, schema, event, ctx):
        if schema != "dock/Put@1":
            return {"by": by, "cargo": event.get("value")}
        cargo = CARGO if event["cargo"] == "a link" else event["cargo"]
        asks = [("dock.lift", encode(event["ask"]), None, None)] if event.get("ask") is not None else []
        return Did({"by": by, "cargo": cargo}, effects=asks)

    return step


PROGRAMS = FunctionPrograms({"dock/Box@1": box("old"), "dock/Box@2": box("new")})


def put(box, cargo=1, **more):
    return EventItem("dock/Put@1", encode({"box": box, "cargo": cargo, **more}))


@pytest.fixture
def dock(make_world):
    return make_world(document(), PROGRAMS)


@pytest.fixture(params=[(), ("dock.lift",)], ids=["batch", "ring"])
def way(request):
    """Modules that ask for effects step in the ring; the others in a batch."""
    return {"effects_emitted": list(request.param)} if request.param else {}


@pytest.fixture
def linked(make_world, way):
    world = make_world(document(**way), PROGRAMS)
    world.cas[CARGO.cid] = BLOB
    world.beat([put("a"), put("b"), put("c"), put("d")])
    world.beat([put("a"), put("b"), put("c"), put("d")])  # everything is known, and in memory
    return world


def records(beat, kind):
    return [each for each in decode_frame(beat.frame).records if isinstance(each, kind)]


def is_rooted(world):
    """Tell whether whoever collects garbage finds the block."""
    nodes = Nodes(0)
    return CARGO.cid in drive(reachable([world.snapshot()], nodes), nodes, world.fetch)


# Eras


def test_a_pinned_cell_of_an_older_era_never_runs_the_new_code(make_world, way):
    """The new code is known by then: another cell has run it."""
    world = make_world(document(upgrade="pin", **way), PROGRAMS)
    world.beat([put("a"), put("b")])
    world.deploy(document(2, upgrade="pin", **way))
    world.beat([put("fresh")])
    world.beat([put("a", 2), put("b", 2), put("b", 3), put("fresh", 2)])
    found = {key: world.state(BOX, key) for key in (b"a", b"b", b"fresh")}
    assert {key: state["by"] for key, state in found.items()} == {b"a": "old", b"b": "old", b"fresh": "new"}
    assert [state["cargo"] for state in found.values()] == [2, 3, 2]
    assert [world.entry(BOX, key).era for key in found] == [0, 0, 1]


def test_a_receipt_for_a_pinned_cell_of_an_older_era_is_read_by_its_own_era(make_world):
    """What it asked for has a number as its answer, whatever the newest manifest says."""
    lifts = {"effects_emitted": ["dock.lift"], "upgrade": "pin"}
    world = make_world(document(**lifts, receipt="dock/Number@1"), PROGRAMS)
    first, second = world.beat([put("a", ask=1), put("b", ask=1)]).opened
    world.deploy(document(2, **lifts))
    world.beat([put("fresh")])
    world.beat([ReceiptItem(first.intent, first.height, "ok", encode(7))])
    assert world.state(BOX, b"a") == {"by": "old", "cargo": 7}
    beat = world.beat([ReceiptItem(second.intent, second.height, "ok", encode("seven"))])
    [receipt] = records(beat, ReceiptRecord)
    assert receipt.extras["code"] == "kernel.receipt_invalid"


# Keys


@pytest.mark.parametrize("beside", [0, 5])
def test_an_event_with_an_empty_key_is_refused_and_makes_no_cell(linked, beside):
    items = [*(put(f"n{number}") for number in range(beside)), put("")]
    for form in (items, [(each.schema, each.value, None) for each in items]):
        beat = linked.beat(form)
        assert [type(each).__name__ for each in beat.outcomes] == [*["Admitted"] * beside, "RefusedItem"]
        error = beat.outcomes[-1].error
        assert isinstance(error, Rejected)
        assert error.code == "routing.key_empty"
    assert linked.entry(BOX, b"") is None


# Links


@pytest.mark.parametrize("boxes", ["a", "abcd"])
def test_a_link_in_an_event_and_a_state_is_in_their_envelopes(linked, boxes):
    items = [put(name, CARGO) for name in boxes]
    beat = linked.beat([(each.schema, each.value, None) for each in items])
    events, steps = records(beat, EventRecord), records(beat, StepRecord)
    assert [each.value for each in events] == [[each.value, [CARGO]] for each in items]
    state = encode({"by": "old", "cargo": CARGO})
    assert [each.state for each in steps] == [[state, [CARGO]]] * len(boxes)
    assert is_rooted(linked)
    linked.beat([put(name) for name in boxes])
    assert not is_rooted(linked)


@pytest.mark.parametrize("boxes", ["a", "abcd"])
def test_a_link_that_a_step_puts_into_its_state_is_in_the_envelope(linked, boxes):
    beat = linked.beat([put(name, "a link") for name in boxes])
    state = encode({"by": "old", "cargo": CARGO})
    assert [each.state for each in records(beat, StepRecord)] == [[state, [CARGO]]] * len(boxes)
    assert is_rooted(linked)


@pytest.fixture
def lifting(make_world):
    world = make_world(document(effects_emitted=["dock.lift"]), PROGRAMS)
    world.cas[CARGO.cid] = BLOB
    world.beat([put("a")])
    return world


def test_a_link_in_the_params_of_a_request_is_in_their_envelope(lifting):
    [intent] = records(lifting.beat([put("a", ask=[CARGO])]), IntentRecord)
    assert intent.params == [encode([CARGO]), [CARGO]]
    assert is_rooted(lifting)


def test_a_link_in_a_receipt_is_in_its_envelope(lifting):
    [opening] = lifting.beat([put("a", ask=1)]).opened
    beat = lifting.beat([ReceiptItem(opening.intent, opening.height, "ok", encode(CARGO))])
    [receipt] = records(beat, ReceiptRecord)
    assert receipt.value[1] == [CARGO]
    assert lifting.state(BOX, b"a")["cargo"] == CARGO
    assert is_rooted(lifting)


# Requests that programs have checked


CHECKED = {
    "as many as may be": (3, {}, "", 3),
    "one too many": (4, {}, "kernel.effects_count", 0),
    "one with a key": (1, {"idempotency_key": "k"}, "", 1),
    "one with limits": (1, {"limits": {"attempts": 2}}, "", 1),
    "one that is not declared": (1, {"kind": "dock.sink"}, "kernel.effect_undeclared", 0),
    "one of a slot that is not there": (1, {"cap_slot": "crane"}, "", 0),
}


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("case", CHECKED)
def test_requests_that_a_program_has_checked_are_opened_or_refused_alike(make_world, monkeypatch, case, fast):
    count, changes, code, opened = CHECKED[case]
    for module in ("decide.requests", "fast.intents"):
        monkeypatch.setattr(f"cellule.kernel.{module}.STEP_EFFECTS_MAX", 3)

    def step(state, schema, event, ctx):
        request = CheckedRequest(**{"kind": "dock.lift", "params": encode(1), **changes})
        return Did({"by": "", "cargo": 1}, effects=[request] * (count if event.get("ask") else 0))

    lifts = document(effects_emitted=["dock.lift"])
    world = make_world(lifts, FunctionPrograms({BOX: step}), fast=fast)
    world.beat([put("a")])
    beat = world.beat([put("a", ask=1)])
    assert [step.code for step in beat.steps] == [code]
    assert len(beat.opened) == opened
    assert [each.key == "k" for each in beat.opened] == [changes.get("idempotency_key") == "k"] * opened
    assert [each.attempts == 2 for each in beat.opened] == ["limits" in changes] * opened


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(("size", "code"), [(100, ""), (101, "kernel.effect_size")])
def test_params_may_have_as_many_bytes_as_the_limit_says(make_world, monkeypatch, size, code, fast):
    for module in ("decide.requests", "fast.intents"):
        monkeypatch.setattr(f"cellule.kernel.{module}.OUTPUT_BYTES_MAX", 100)
    params = encode("x" * (size - 2))  # a text of 24 to 255 bytes has a head of two
    assert len(params) == size

    def step(state, schema, event, ctx):
        asked = [CheckedRequest("dock.lift", params)] if event.get("ask") else []
        return Did({"by": "", "cargo": 1}, effects=asked)

    world = make_world(document(effects_emitted=["dock.lift"]), FunctionPrograms({BOX: step}), fast=fast)
    world.beat([put("a")])
    [done] = world.beat([put("a", ask=1)]).steps
    assert done.code == code


@pytest.mark.parametrize("fast", [True, False])
def test_a_pure_module_may_ask_for_nothing_even_if_its_program_has_checked_it(make_world, fast):
    def step(state, schema, event, ctx):
        asked = [CheckedRequest("dock.lift", encode(1))] if event.get("ask") else []
        return Did({"by": "", "cargo": 1}, effects=asked)

    world = make_world(document(), FunctionPrograms({BOX: step}), fast=fast)
    world.beat([put("a")])
    [done] = world.beat([put("a", ask=1)]).steps
    assert done.code == "kernel.effect_pure"


# Memory


def test_entries_that_are_replaced_in_place_weigh_what_they_hold(dock):
    for size in (1, 500, 20, 900):
        dock.beat([put(name, "x" * size) for name in "abcd"])
        live = dock.world.ledger.cells(BOX).live
        assert live.dirty_bytes == sum(map(weigh, live.recent.values()))


def test_entries_that_grow_in_place_leave_memory_when_there_are_too_many(make_world):
    spill = Scratch()
    world = make_world(document(), PROGRAMS, budget=Budget(dirty_bytes_max=2_500), spill=spill)
    names = "abcd"
    for size in (1, 1, 700):
        assert spill.made == 0
        world.beat([put(name, "x" * size) for name in names])
    assert spill.made > 0
    assert [world.state(BOX, name.encode())["cargo"] for name in names] == ["x" * 700] * 4


# Retention


@pytest.mark.parametrize("asks", [{}, {"ask": 1}])
@pytest.mark.parametrize("retention", ["ttl_ns", "idle_ns"])
def test_cells_born_on_a_short_way_expire(make_world, way, retention, asks):
    world = make_world(document(retention={retention: 60 * SECOND}, **way), PROGRAMS)
    world.beat([put("first")])  # the program is known from now on
    beat = world.beat([put("a", **(asks if way else {})), put("b")])
    for opening in beat.opened:
        world.beat([ReceiptItem(opening.intent, opening.height, "ok", encode(7))])
    world.advance(59 * SECOND)
    assert world.state(BOX, b"a") is not None
    world.advance(2 * SECOND)
    assert [world.entry(BOX, key) for key in (b"first", b"a", b"b")] == [None] * 3


PLAIN = EventItem("shop/Paid@1", encode({"order": "o1"}))


@pytest.mark.parametrize(
    "more",
    [
        {"key": b"k"},
        {"id": "a"},
        {"expected_version": 0},
        {"correlation": "c"},
        {"explicit": True},
        {"system": True},
    ],
)
def test_an_event_with_anything_beside_its_bytes_is_not_plain(more):
    assert is_plain(PLAIN)
    assert not is_plain(EventItem(PLAIN.schema, PLAIN.value, **more))
    assert not is_plain(EventItem(PLAIN.schema, Link(cid_of(b""))))


def test_a_few_plain_events_take_the_short_way(world):
    beat = world.beat([EventItem("shop/Paid@1", encode({"order": f"o{number}"})) for number in range(3)])
    assert beat.batch is not None
    assert len(beat.outcomes) == len(beat.steps) == 3


def test_a_flood_of_events_that_are_alike_leaves_room_for_their_steps(make_world):
    """Both ways admit as many."""
    flood = [("dock/Put@1", put(f"b{number}", "x" * 400).value, None) for number in range(2_500)]
    counts = []
    for world in (make_world(document(), PROGRAMS, fast=fast) for fast in (True, False)):
        for at in range(0, len(flood), 500):
            world.beat(flood[at : at + 500])  # all are known now
        outcomes = world.beat(flood).outcomes
        counts.append(sum(isinstance(each, Admitted) for each in outcomes))
        assert outcomes[counts[-1] :] == [LATER] * (len(flood) - counts[-1])
    assert counts == [2_119, 2_119]  # 1,000,000 bytes of values and keys, and 48 for each record


def test_a_quota_counts_the_steps_of_both_ways(make_world):
    world = make_world(pace=Pace(quota=4, burst=64))
    twice = [EventItem("shop/Paid@1", encode({"order": name})) for name in ("a", "b", "c", "a", "b", "c")]
    assert len(world.beat(twice).steps) == 4
    assert len(world.beat().steps) == 2


def test_an_entry_weighs_what_it_holds():
    entry = Entry(b"", 0, 1, 1, 1, 0, 1, 1, None)
    link = entry.changed(state=Link(cid_of(b"")))
    message = Message(1, EVENT_MESSAGE, "shop/Paid@1", b"", 0, None)
    longer = message._replace(value=b"x" * 10)
    assert weigh(entry.changed(state=b"x" * 10)) - weigh(entry) == 10
    for held in (entry, link):
        queued = held.with_extras({"queue": [message]})
        assert weigh(queued) > weigh(held)
        assert weigh(held.with_extras({"queue": [longer]})) - weigh(queued) == 10
        twice = held.with_extras({"queue": [message] * 2})
        assert weigh(twice) - weigh(queued) == weigh(queued) - weigh(held)
        assert weigh(held.with_extras({"intents": [1]})) == weigh(held)
