"""What people take out of a world: first messages, cells, dead letters; journaled, replayed, told."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted, Rejected
from cellule.kernel.index.keys import pair_key
from cellule.kernel.items import Admitted, ControlItem, EventItem, RefusedItem
from cellule.kernel.journal.codes import DELETED, DROPPED, HALTED, OK, SKIPPED
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import ControlRecord, EmittedRecord, StepRecord
from cellule.kernel.limits import DROP_PER_CONTROL_MAX
from cellule.kernel.program import StepFault
from cellule.kernel.state.cells import EVENT_MESSAGE, Message
from cellule.kernel.state.rows import letter_key
from cellule.values import encode
from tests.support.frames import with_change
from tests.support.kernel_world import Did, FunctionPrograms

O1 = {"module": "shop/Order", "key": b"o1"}


def event(name, **value):
    return EventItem(f"shop/{name}@1", encode(value))


def failed(why="no"):
    return event("Failed", order="o1", why=why)


def paid():
    return event("Paid", order="o1")


def halted(world, *behind):
    """A cell that halted at an event, with others behind it."""
    beat = world.beat([paid(), failed(), *behind])
    assert [step.status for step in beat.steps] == [OK, HALTED]
    world.settle()  # others hear of it
    return beat


def done(world, verb, **arguments):
    beat = world.beat([ControlItem(verb, "ada", "it was a mistake", arguments)])
    [outcome] = beat.outcomes
    if isinstance(outcome, RefusedItem):
        raise outcome.error
    assert isinstance(outcome, Admitted)
    return beat


def test_a_dropped_message_is_recorded_and_the_cell_goes_on_with_the_next(world):
    halted(world, paid())
    beat = done(world, "cell.drop", **O1)
    assert next((step.status, step.cause, step.text) for step in beat.steps) == (DROPPED, 3, "dropped by ada")
    assert [step.status for step in beat.steps] == [DROPPED, OK]
    control, dropped, step = decode_frame(beat.frame).records
    assert isinstance(control, ControlRecord)
    assert (control.verb, control.who, control.why) == ("cell.drop", "ada", "it was a mistake")
    assert control.arguments["cells"] == [["shop/Order", b"o1"]]
    assert isinstance(dropped, StepRecord)
    assert (dropped.status, dropped.extras["control"]) == (DROPPED, beat.first)
    assert isinstance(step, StepRecord)
    assert step.prev == beat.first + 1
    assert world.state("shop/Order", b"o1") == {"total": 0, "paid": True, "seen": 2}
    assert world.entry("shop/Order", b"o1").extras is None


def test_several_messages_of_one_cell_are_dropped_together_and_no_code_runs_between(world):
    halted(world, failed(), failed(), paid())
    beat = done(world, "cell.drop", **O1, count=3)
    assert [step.status for step in beat.steps] == [DROPPED, DROPPED, DROPPED, OK]


@pytest.mark.parametrize("count", [2, DROP_PER_CONTROL_MAX])
def test_more_messages_than_there_are_can_be_dropped(world, count):
    halted(world)
    assert [step.status for step in done(world, "cell.drop", **O1, count=count).steps] == [DROPPED]
    assert world.entry("shop/Order", b"o1").version == 1


def test_the_first_messages_of_all_stopped_cells_of_a_module_are_dropped_in_bulk(world):
    names = [f"o{number}" for number in range(20)]
    world.beat([event("Failed", order=name, why="no") for name in names])
    world.settle()
    beat = done(world, "cell.drop", module="shop/Order")
    assert [step.status for step in beat.steps] == [DROPPED] * 20
    assert not any(world.entry("shop/Order", name.encode()) for name in names)
    assert done(world, "cell.drop").steps == []


@pytest.mark.parametrize(
    ("arguments", "code"), [({"count": 2}, "kernel.argument"), ({"message": 2}, "kernel.message_moved")]
)
def test_several_messages_and_a_named_one_are_dropped_of_one_cell_only(world, arguments, code):
    world.beat([failed(), event("Failed", order="o2", why="no")])
    world.settle()
    with pytest.raises(Rejected) as caught:
        done(world, "cell.drop", module="shop/Order", **arguments)
    assert caught.value.code == code
    assert world.entry("shop/Order", b"o1").get("status") == "halted"


def test_a_message_that_is_not_the_first_any_more_is_not_dropped(world):
    beat = halted(world, paid())
    first = beat.steps[1].cause
    done(world, "cell.drop", **O1, message=first)
    world.beat([failed()])
    with pytest.raises(Rejected) as caught:
        done(world, "cell.drop", **O1, message=first)
    assert caught.value.code == "kernel.message_moved"
    assert world.entry("shop/Order", b"o1").get("status") == "halted"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (O1, "kernel.not_stopped"),
        ({"module": 5, "key": b"o1"}, "kernel.argument"),
        ({"count": 0}, "kernel.argument"),
        ({"count": True}, "kernel.argument"),
        ({"count": DROP_PER_CONTROL_MAX + 1}, "kernel.argument"),
    ],
)
def test_a_drop_that_cannot_be_done_is_refused(world, arguments, code):
    world.beat([paid()])
    with pytest.raises(Rejected) as caught:
        done(world, "cell.drop", **arguments)
    assert caught.value.code == code


def test_a_cell_that_a_person_halted_has_nothing_to_drop_and_stays_halted(world):
    world.beat([paid()])
    done(world, "cell.halt", **O1)
    with pytest.raises(Rejected) as caught:
        done(world, "cell.drop", **O1)
    assert caught.value.code == "kernel.queue_empty"
    done(world, "cell.drop", module="shop/Order")
    assert world.entry("shop/Order", b"o1").get("status") == "halted"


@pytest.mark.parametrize(
    ("key", "why"), [("o1", "is stopped already"), ("nobody", "is not there")], ids=["stopped", "absent"]
)
def test_a_cell_that_cannot_be_halted_is_told_apart(world, key, why):
    world.beat([paid()])
    done(world, "cell.halt", **O1)
    height = world.world.ledger.height
    with pytest.raises(Rejected, match=why) as caught:
        done(world, "cell.halt", module="shop/Order", key=key.encode())
    assert caught.value.code == "kernel.cannot_halt"
    assert world.world.ledger.height == height


def test_a_cell_that_nothing_waits_for_is_no_longer_halted_once_it_is_resumed(world):
    """With nothing in its queue no step writes it back: a restored world would find it halted."""
    world.beat([paid()])
    done(world, "cell.halt", **O1)
    world.snapshot()
    done(world, "cell.resume", **O1)
    world.snapshot()
    world.world = world.restored(len(world.snapshots) - 1)
    assert world.entry("shop/Order", b"o1").get("status") is None
    assert [step.status for step in world.beat([paid()]).steps] == [OK]


def test_whoever_sent_an_event_that_is_dropped_in_its_own_beat_is_told(world):
    halted(world)
    beat = world.beat([paid(), ControlItem("cell.drop", "ada", "all of it", {**O1, "count": 2})])
    assert [step.status for step in beat.steps] == [DROPPED, DROPPED]
    assert beat.steps[1].cause == beat.outcomes[0].height


def test_a_deleted_cell_is_gone_and_its_queue_meets_no_state(world):
    halted(world, paid())
    beat = done(world, "cell.delete", **O1)
    control, step = decode_frame(beat.frame).records[:2]
    assert (control.verb, step.status, step.version, step.cause) == ("cell.delete", DELETED, 2, beat.first)
    assert [each.status for each in beat.steps] == [HALTED]
    done(world, "cell.drop", **O1)
    assert world.state("shop/Order", b"o1") == {"total": 0, "paid": True, "seen": 1}
    assert world.entry("shop/Order", b"o1").version == 1
    done(world, "cell.delete", **O1)
    assert world.entry("shop/Order", b"o1") is None
    with pytest.raises(Rejected, match="there is no cell"):
        done(world, "cell.delete", **O1)


def test_a_restored_world_goes_on_after_drops_and_deletions(world):
    halted(world, failed(), paid())
    world.snapshot()
    done(world, "cell.drop", **O1, count=2)
    done(world, "cell.delete", **O1)
    world.snapshot()
    world.beat([paid()])
    assert world.entry("shop/Order", b"o1").version == 1


# Dead letters


@pytest.fixture
def skipping(make_world, shop):
    """A world whose orders fail as long as `broken` is set."""
    state = {"broken": True}

    def order(before, schema, value, ctx):
        if state["broken"]:
            raise StepFault("shop.failed", "broken")
        return Did({"total": 1, "paid": False, "seen": (before or {"seen": 0})["seen"] + 1})

    world = make_world(shop(Order={"failure": "skip"}), FunctionPrograms({"shop/Order": order}))
    world.state_of_code = state
    world.verify = lambda start=0: None  # the code was changed on purpose
    return world


def letter_of(world, **value):
    [step] = [
        each for each in world.send("shop/Paid@1", {"order": "o1", **value}).steps if each.status == SKIPPED
    ]
    return step.height


def test_a_redriven_message_goes_to_its_cell_again(skipping):
    at = letter_of(skipping)
    skipping.settle()
    skipping.state_of_code["broken"] = False
    beat = done(skipping, "letter.redrive", letter=at)
    control, emitted = decode_frame(beat.frame).records
    assert control.arguments == {"letter": at}
    assert isinstance(emitted, EmittedRecord)
    assert (emitted.cause, emitted.targets) == (at, [("shop/Order", b"o1")])
    assert [step.status for step in skipping.beat([]).steps] == [OK]
    assert skipping.world.ledger.dead_letters.is_empty
    with pytest.raises(Rejected, match="there is no dead letter"):
        done(skipping, "letter.redrive", letter=at)


@pytest.mark.parametrize("restored", [False, True])
def test_a_long_message_is_redriven_the_same_from_memory_and_from_a_snapshot(skipping, restored):
    """It was recorded as a link once a snapshot was taken, under which it rests, and before as its bytes."""
    beat = skipping.beat([failed("x" * 2_000)])
    [at] = [step.height for step in beat.steps if step.status == SKIPPED]
    skipping.settle()
    skipping.snapshot()
    if restored:
        skipping.world = skipping.restored()
    _, emitted = decode_frame(done(skipping, "letter.redrive", letter=at).frame).records
    assert emitted.value == [encode({"order": "o1", "why": "x" * 2_000})]


def test_a_message_that_fails_again_is_a_dead_letter_again(skipping):
    at = letter_of(skipping)
    done(skipping, "letter.redrive", letter=at)
    steps = skipping.beat([]).steps
    again = next(step for step in steps if step.module == "shop/Order")
    assert again.status == SKIPPED
    done(skipping, "letter.dismiss", letter=again.height)


def test_a_dismissed_letter_is_gone(skipping):
    at = letter_of(skipping)
    skipping.snapshot()
    beat = done(skipping, "letter.dismiss", letter=at)
    assert decode_frame(beat.frame).records[0].why == "it was a mistake"
    with pytest.raises(Rejected) as caught:
        done(skipping, "letter.dismiss", letter=at)
    assert caught.value.code == "kernel.no_letter"


def test_a_letter_that_expected_another_version_is_not_redriven(skipping):
    skipping.state_of_code["broken"] = False
    skipping.send("shop/Paid@1", {"order": "o1"})
    skipping.state_of_code["broken"] = True
    beat = skipping.send("shop/Paid@1", {"order": "o1"}, expected_version=1)
    at = next(step.height for step in beat.steps if step.status == SKIPPED)
    skipping.state_of_code["broken"] = False
    skipping.send("shop/Paid@1", {"order": "o1"})
    with pytest.raises(Rejected, match="expected version 1, the cell is at 2"):
        done(skipping, "letter.redrive", letter=at)


def test_a_letter_of_a_module_that_is_gone_can_only_be_dismissed(skipping, shop):
    at = letter_of(skipping)
    skipping.settle()
    smaller = shop()
    del smaller["modules"]["shop/Order@1"]
    rows = smaller["routing"]["subscriptions"]
    smaller["routing"]["subscriptions"] = [row for row in rows if row["module"] != "shop/Order@1"]
    skipping.deploy(smaller)
    with pytest.raises(Rejected, match="is not in the current manifest"):
        done(skipping, "letter.redrive", letter=at)
    done(skipping, "letter.dismiss", letter=at)


@pytest.mark.parametrize("verb", ["letter.redrive", "letter.dismiss"])
def test_a_journal_that_takes_a_letter_that_is_not_there_is_corrupted(skipping, verb):
    at = letter_of(skipping)
    skipping.settle()
    skipping.state_of_code["broken"] = False
    done(skipping, verb, letter=at)

    def lie(fields):
        fields["arguments"]["letter"] = at - 1

    frames = [*skipping.frames[:-1], with_change(skipping.frames[-1], 0, lie)]
    with pytest.raises(Corrupted, match="there is no such dead letter"):
        skipping.restored(frames=frames)


@pytest.mark.parametrize("cell", [["shop/Order", "o1"], [7, b"o1"]])
def test_a_journal_that_names_a_cell_that_cannot_be_is_corrupted(world, cell):
    halted(world)
    done(world, "cell.drop", **O1)

    def lie(fields):
        fields["arguments"]["cells"] = [cell]

    with pytest.raises(Corrupted, match="is not a name and a key"):
        world.restored(frames=[*world.frames[:-1], with_change(world.frames[-1], 0, lie)])


LIES = {
    "a drop that follows another step": ("cell.drop", "prev", 1, "not of the cell as it is"),
    "a drop of another life": ("cell.drop", "born", 1, "not of the cell as it is"),
    "a deletion that follows another step": ("cell.delete", "prev", 1, "not of the cell as it is"),
    "a deletion of another life": ("cell.delete", "born", 1, "not of the cell as it is"),
    "a drop that deletes": ("cell.drop", "status", DELETED, "cell.drop does not end a step"),
    "a deletion that drops": ("cell.delete", "status", DROPPED, "cell.delete does not end a step"),
    "a drop that goes well": ("cell.drop", "status", OK, "cell.drop does not end a step"),
}


@pytest.mark.parametrize("case", LIES)
def test_a_journal_that_lies_about_what_a_person_ended_is_corrupted(world, case):
    verb, field, value, what = LIES[case]
    halted(world)
    done(world, verb, **O1)
    records = decode_frame(world.frames[-1]).records
    at = next(at for at, record in enumerate(records) if isinstance(record, StepRecord))
    frame = with_change(world.frames[-1], at, lambda fields: fields.update({field: value}))
    with pytest.raises(Corrupted, match=what):
        world.restored(frames=[*world.frames[:-1], frame])


def test_several_messages_are_dropped_of_one_cell_and_not_of_two(world):
    for order in ("o1", "o2"):
        world.beat([event("Failed", order=order, why="no")])
    world.settle()
    with pytest.raises(Rejected, match="`count` is for one cell"):
        done(world, "cell.drop", all=True, module="shop/Order", count=2)
    done(world, "cell.drop", all=True, module="shop/Order", count=1)


@pytest.mark.parametrize(("place", "second"), [(0, 0), (1, 2), (2, 3)])
def test_letters_of_one_message_leave_the_place_of_an_effects_letter_free(place, second):
    message = Message(7, EVENT_MESSAGE, "shop/Paid@1", b"", 0, None)
    assert letter_key(message, place) == pair_key(7, second)
