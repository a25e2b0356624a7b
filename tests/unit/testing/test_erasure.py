"""Erasure in a world: nothing of an erasable cell stands in clear, and nobody reads it once it is erased."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellule import ERASED, App, Parked, Refused, Rejected, Step, StepFailed, Workflow
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.key_ring import key_id
from cellule.kernel.limits import SEAL_KEYS_MAX
from cellule.testing import World
from cellule.values.envelope import value_of
from cellule.values.sealed_value import is_sealed, unwrap
from tests.support.nodes import load_app

PEOPLE = load_app(Path(__file__).parents[2] / "node_apps" / "people.py")
MARK = "Elm Street"
SECRET = MARK.encode()


@pytest.fixture(params=["in memory", "evicted"])
def world(request):
    made = World(PEOPLE.app, evict=request.param == "evicted")
    yield made
    made.assert_replays()
    assert SECRET not in raw(made)


def raw(world):
    """All bytes that a world has made durable, but its keys."""
    world.host.snapshot()
    return b"".join([*world.host.frames, *world.host.cas.values()])


def say(world, name, text, what="", **more):
    return world.send(PEOPLE.Said(name, f"{MARK} {text}", what), **more)


def everything(world, name):
    """One of everything that a cell can leave behind."""
    world.send(PEOPLE.Met(name, f"{MARK} 1"))
    say(world, name, "2", "long")
    with pytest.raises(Refused, match=MARK):
        say(world, name, "3", "refuse")
    say(world, name, "4", "post")
    world.complete(world.intents[-1], PEOPLE.Posted(f"{MARK} 5"))
    say(world, name, "6", "post")
    world.fail(world.intents[-1], "post.unknown", f"{MARK} is unknown")
    say(world, name, "7", "later")
    say(world, name, "8", "post")


def test_what_a_cell_holds_is_read_as_ever_and_stands_nowhere_in_clear(world):
    everything(world, "p")
    assert world.state(PEOPLE.person, "p") == PEOPLE.Person(f"{MARK} 8", 8)
    assert world.cell(PEOPLE.person, "p").history()[-1].ann == f"{MARK} 8"
    assert world.state(PEOPLE.friend, "p").text.startswith(MARK)
    assert world.intents[-1].params == PEOPLE.Letter(f"{MARK} 8")
    assert all(MARK in event.text for event in world.emitted)
    assert [refusal.reason for refusal in world.refusals] == [f"{MARK} 3"]
    assert SECRET not in raw(world)


def test_after_it_is_erased_nobody_reads_anything_of_it(world):
    everything(world, "p")
    before = list(world.host.frames)
    world.erase(PEOPLE.person, "p")
    assert world.host.frames[: len(before)] == before
    assert world.state(PEOPLE.person, "p") is None
    assert {row.state for row in world.cell(PEOPLE.person, "p").history()} <= {ERASED, None}
    assert set(world.emitted) == {ERASED}
    assert {refusal.reason for refusal in world.refusals} == {"(erased)"}
    assert {effect.params for effect in world.effects} == {ERASED}
    assert not world.intents
    with pytest.raises(Rejected):
        world.complete(world.effects[-1], PEOPLE.Posted("late"))


def test_the_next_event_makes_a_new_cell_with_a_new_key(world):
    say(world, "p", "1")
    first = world.host.keys[key_id(world.host.world_id.bytes, "people/person", b"p")]
    world.erase(PEOPLE.person, "p")
    say(world, "p", "2")
    second = world.host.keys[key_id(world.host.world_id.bytes, "people/person", b"p")]
    assert world.state(PEOPLE.person, "p") == PEOPLE.Person(f"{MARK} 2", 1)
    assert None not in (first.key, second.key)
    assert first.key != second.key
    assert world.cell(PEOPLE.person, "p").history()[0].state is ERASED


def test_other_cells_of_the_module_are_as_they_were(world):
    say(world, "p", "1")
    say(world, "q", "1")
    world.erase(PEOPLE.person, "p")
    assert world.state(PEOPLE.person, "q") == PEOPLE.Person(f"{MARK} 1", 1)


def test_an_event_for_two_cells_is_gone_when_either_is_erased(world):
    sent = world.send(PEOPLE.Met("p", f"{MARK} 1"))
    world.erase(PEOPLE.friend, "p")
    assert world.chronicle.event(sent.height) is ERASED
    assert world.state(PEOPLE.person, "p") == PEOPLE.Person(f"{MARK} 1", 1)


def test_a_cell_that_was_deleted_is_erased_all_the_same(world):
    say(world, "p", "1")
    say(world, "p", "2", "delete")
    assert world.cell(PEOPLE.person, "p").history()[0].state == PEOPLE.Person(f"{MARK} 1", 1)
    world.erase(PEOPLE.person, "p")
    assert world.cell(PEOPLE.person, "p").history()[0].state is ERASED


def test_what_waits_in_the_queue_is_set_aside_unread(world):
    with pytest.raises(StepFailed, match=MARK):
        say(world, "p", "1", "fail")
    with pytest.raises(Parked):
        say(world, "p", "2")
    world.erase(PEOPLE.person, "p")
    letters = [letter for letter in world.letters if letter.reducer == "people/person"]
    assert [(letter.code, letter.event) for letter in letters] == [("kernel.erased", ERASED)] * 2
    say(world, "p", "3")
    assert world.state(PEOPLE.person, "p").count == 1


def test_what_was_emitted_to_others_is_set_aside_where_its_sender_is_erased_first(world):
    say(world, "p", "1", settle=False)
    world.erase(PEOPLE.person, "p")
    assert world.state(PEOPLE.crowd, "p") is None
    assert {letter.reducer for letter in world.letters} >= {"people/crowd"}
    say(world, "p", "2")
    assert world.state(PEOPLE.crowd, "p") == PEOPLE.Count(1)


def test_several_cells_go_in_one_control_and_bad_ones_are_refused(world):
    for name in "pq":
        say(world, name, "1")
    beats = len(world.host.frames)
    world.erase(PEOPLE.person, "p", "q", "p", "never there")
    assert world.host.frames[beats:]
    assert world.state(PEOPLE.person, "p") is world.state(PEOPLE.person, "q") is None
    with pytest.raises(Rejected, match="list of 1 to 1000"):
        world.erase(PEOPLE.person, *map(str, range(1_001)))


def test_a_repeated_event_is_known_again_and_another_with_its_id_is_refused(world):
    sent = say(world, "p", "1", id="one")
    assert say(world, "p", "1", id="one").height == sent.height
    with pytest.raises(Rejected, match="was used"):
        say(world, "p", "2", id="one")
    world.erase(PEOPLE.person, "p")
    with pytest.raises(Rejected, match="was used"):  # what the first said, nobody knows any more
        say(world, "p", "1", id="one")


def test_a_repeated_request_gets_the_receipt_of_the_first_and_another_is_denied(world):
    say(world, "p", "1", "post once")
    world.complete(world.intents[-1], PEOPLE.Posted(f"{MARK} done"))
    say(world, "p", "1", "post once")
    assert world.state(PEOPLE.person, "p").text == f"{MARK} done"
    say(world, "p", "2", "post once")
    assert world.effects[-1].status == "denied"


def test_timers_fire_with_their_key_and_are_gone_with_their_cell(world):
    say(world, "p", "1", "later")
    say(world, "q", "1", "later")
    world.erase(PEOPLE.person, "q")
    world.advance(hours=2)
    assert world.state(PEOPLE.person, "p").text == f"late: {MARK} 1"
    assert world.state(PEOPLE.person, "q") is None


def test_a_cell_that_failed_at_its_first_event_is_erased(world):
    """It has messages and no state, and was left halted."""
    with pytest.raises(StepFailed):
        say(world, "p", "1", "fail")
    world.erase(PEOPLE.person, "p")
    assert world.cell(PEOPLE.person, "p").status == "absent" or not world.cell(PEOPLE.person, "p").halted


# Deploys


def an_app(*, erasable):
    app = App("people")
    app.event(PEOPLE.Said, key="name")

    @app.reducer(erasable=erasable)
    def note(state: PEOPLE.Person | None, event: PEOPLE.Said) -> PEOPLE.Person:
        return PEOPLE.Person(event.text, 1 + (0 if state is None else state.count))

    return app


def test_a_module_asks_for_erasure_by_a_deploy_and_takes_it_back():
    world = World(an_app(erasable=False))
    say(world, "p", "before")
    assert SECRET in raw(world)
    with pytest.raises(Rejected, match="no module of this world asks for erasure"):
        world.erase("note", "p")
    change = world.deploy(an_app(erasable=True))
    assert "erasable" in str(change.changes)
    frames = len(world.host.frames)
    say(world, "p", "sealed")
    assert SECRET not in b"".join(world.host.frames[frames:])
    world.deploy(an_app(erasable=False))
    frames = len(world.host.frames)
    say(world, "p", "after")
    assert world.state("note", "p") == PEOPLE.Person(f"{MARK} after", 3)
    assert SECRET in b"".join(world.host.frames[frames:])
    world.host.restart()
    say(world, "p", "again")
    world.erase("note", "p")
    assert [each.state for each in world.cell("note", "p").history()] == [
        PEOPLE.Person(f"{MARK} before", 1), ERASED, PEOPLE.Person(f"{MARK} after", 3),
        PEOPLE.Person(f"{MARK} again", 4), None,
    ]  # fmt: skip
    world.assert_replays()


@pytest.mark.parametrize("options", [{"cell_mode": False}, {"erasable": 1}])
def test_what_cannot_be_erasable_is_refused_where_it_is_declared(options):
    app = App("people")
    with pytest.raises(Rejected, match="erasable"):
        app.reducer(**{"erasable": True, **options})


# Forks


def test_erasing_in_the_parent_erases_in_its_forks_and_not_the_other_way_round():
    world = World(PEOPLE.app)
    for name in "pq":
        say(world, name, "1")
    fork = world.fork()
    say(fork, "p", "2")
    say(fork, "r", "1")
    fork.erase(PEOPLE.person, "q")
    assert fork.state(PEOPLE.person, "q") is None
    assert world.state(PEOPLE.person, "q") == PEOPLE.Person(f"{MARK} 1", 1)
    world.erase(PEOPLE.person, "p", "r")
    assert fork.state(PEOPLE.person, "p") is ERASED
    fork.chronicle.journal.forget()
    assert {each.state for each in fork.cell(PEOPLE.person, "p").history()} == {ERASED}
    assert fork.state(PEOPLE.person, "r") == PEOPLE.Person(f"{MARK} 1", 1)
    with pytest.raises(StepFailed) as caught:
        say(fork, "p", "3")
    assert caught.value.code == "kernel.erased"
    fork.erase(PEOPLE.person, "p")
    say(fork, "p", "4")
    assert fork.state(PEOPLE.person, "p") == PEOPLE.Person(f"{MARK} 4", 1)
    world.assert_replays()
    fork.assert_replays()
    assert SECRET not in raw(fork)


def nonces_of(frame):
    """The nonces of all sealed values that stand in the records of a frame."""
    found = []
    for _, record in decode_frame(frame).numbered():
        fields = {**getattr(record, "extras", {}), **record._asdict()}
        values = [fields[name] for name in ("value", "state", "reply", "ann", "params") if fields.get(name)]
        found += [unwrap(value_of(stored)).nonce for stored in values if is_sealed(value_of(stored))]
    return found


def test_what_both_sides_write_at_the_same_height_are_other_bytes_under_other_nonces():
    world = World(PEOPLE.app)
    say(world, "p", "1")
    fork = world.fork()
    nonces = []
    for side in (world, fork):
        before = len(side.host.frames)
        side.send(PEOPLE.Met("p", f"{MARK} the same"))
        for frame in side.host.frames[before:]:
            nonces += nonces_of(frame)
    assert len(nonces) > 8
    assert len(set(nonces)) == len(nonces)


def test_timers_and_waiting_effects_of_a_cell_that_the_parent_erased_end_quietly():
    world = World(PEOPLE.app)
    say(world, "p", "1", "later")
    say(world, "p", "2", "post")
    fork = world.fork(effects="keep")
    world.erase(PEOPLE.person, "p")
    fork.advance(hours=2)
    fork.erase(PEOPLE.person, "p")
    world.assert_replays()
    fork.assert_replays()


def test_an_event_for_more_cells_than_a_value_has_keys_fails_its_step_and_its_verification_agrees():
    """It failed where it was sealed, which a verification does not do: each such step was told to differ."""
    app = App("people")
    app.event(PEOPLE.Said, key="name")
    app.event(PEOPLE.Met, key="name")

    @app.reducer(erasable=True)
    def tell(state: PEOPLE.Person | None, event: PEOPLE.Said) -> Step[PEOPLE.Person]:
        return Step(PEOPLE.Person(event.text, 1), emit=[PEOPLE.Met(event.name, event.text)])

    for number in range(SEAL_KEYS_MAX):

        @app.reducer(name=f"hear{number}", erasable=True)
        def hear(state: PEOPLE.Person | None, event: PEOPLE.Met) -> PEOPLE.Person:
            return PEOPLE.Person(event.text, 1)

    world = World(app)
    with pytest.raises(StepFailed, match=f"{SEAL_KEYS_MAX + 1} erasable cells; at most {SEAL_KEYS_MAX}"):
        say(world, "p", "1")
    world.assert_replays()


# Other styles


def test_runs_of_workflows_are_sealed_entry_by_entry_and_go_on_after_a_restart():
    app = App("people")
    app.event(PEOPLE.Said, key="name")
    app.event(PEOPLE.Met, key="name")

    @app.workflow(erasable=True, events=[PEOPLE.Met])
    async def talk(ctx: Workflow, said: PEOPLE.Said) -> PEOPLE.Person:
        heard = [said.text]
        for _ in range(3):
            heard.append((await ctx.event(PEOPLE.Met)).text)  # noqa: PERF401 - one after the other
        return PEOPLE.Person(" ".join(heard), 4)

    world = World(app)
    say(world, "p", "1")
    for number in (2, 3):
        world.send(PEOPLE.Met("p", f"{MARK} {number}"))
        world.host.restart()
    assert SECRET not in raw(world)
    world.send(PEOPLE.Met("p", f"{MARK} 4"))
    assert world.cell(talk, "p").state.result == PEOPLE.Person(
        " ".join(f"{MARK} {n}" for n in (1, 2, 3, 4)), 4
    )
    world.assert_replays()
    assert SECRET not in raw(world)
    world.erase(talk, "p")
    assert world.cell(talk, "p").history()[0].state is ERASED
    world.assert_replays()


def talking(awaited, **options):
    """An app with a workflow that hears so many others out."""
    app = App("people")
    app.event(PEOPLE.Said, key="name")
    app.event(PEOPLE.Met, key="name")

    @app.workflow(name="talk", events=[PEOPLE.Met], **options)
    async def talk(ctx: Workflow, said: PEOPLE.Said) -> PEOPLE.Person:
        for _ in range(awaited):
            await ctx.event(PEOPLE.Met)
        return PEOPLE.Person(said.text, awaited)

    return app


@pytest.mark.parametrize("evict", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_a_run_that_is_moved_to_an_era_of_sealed_runs_goes_on(before, evict):
    """Its whole log was sealed as one value, which is no log: the next event ended the world for good."""
    world = World(talking(2, erasable=before), evict=evict)
    say(world, "p", "1")
    world.send(PEOPLE.Met("p", f"{MARK} 2"))
    world.deploy(talking(3, erasable=True))
    frames = len(world.host.frames)
    world.migrate("talk", "p")
    assert (SECRET in b"".join(world.host.frames[frames:])) is not before  # what was in clear stays so
    frames = len(world.host.frames)
    for number in (3, 4):
        world.send(PEOPLE.Met("p", f"{MARK} {number}"))
    assert world.state("talk", "p").result == PEOPLE.Person(f"{MARK} 1", 3)
    assert SECRET not in b"".join(world.host.frames[frames:])
    world.assert_replays()
    world.erase("talk", "p")
    assert world.cell("talk", "p").history()[-2].state is ERASED
    world.assert_replays()


def test_runs_of_plans_are_sealed_too():
    app = App("people")
    app.event(PEOPLE.Said, key="name")
    steps = [{"id": "end", "op": "end", "result": {"ref": "@plan.input.text"}}]
    plan = app.plan("note", {"steps": steps}, triggers={PEOPLE.Said: "name"}, erasable=True)
    world = World(app)
    say(world, "p", "1")
    assert MARK in str(world.state(plan, "p"))
    assert SECRET not in raw(world)
    world.erase(plan, "p")
    assert world.cell(plan, "p").history()[0].state is ERASED
    world.assert_replays()


def test_what_an_aggregate_has_seen_is_sealed_too():
    app = App("people")
    app.event(PEOPLE.Said, key="name")
    words = app.aggregate("words", PEOPLE.Said, measures={"different": "distinct(text)"}, erasable=True)
    world = World(app)
    say(world, "p", "1")
    world.host.restart()
    say(world, "p", "2")
    assert MARK in str(world.state(words, "p"))
    assert SECRET not in raw(world)
    world.assert_replays()
    world.erase(words, "p")
    assert world.cell(words, "p").history()[0].state is ERASED
    world.assert_replays()
