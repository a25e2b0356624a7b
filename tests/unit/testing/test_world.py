"""`testing.World`: what it answers and refuses, and that it replays. Apps here run live, without files."""

from __future__ import annotations

import gc
import logging
import os
import threading
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from cellule import (
    App,
    Context,
    Keyed,
    Refuse,
    Refused,
    Rejected,
    Retention,
    Step,
    StepFailed,
    VersionConflict,
)
from cellule.app import StepFailed as StepFailedEvent
from cellule.app import WorldStarted
from cellule.errors import Parked
from cellule.modules.python import Effect
from cellule.testing import Failure, World


class Added(msgspec.Struct, frozen=True):
    name: str
    amount: int = 1


class Doubled(msgspec.Struct, frozen=True):
    name: str


class Broken(msgspec.Struct, frozen=True):
    name: str
    why: str = ""


class Removed(msgspec.Struct, frozen=True):
    name: str


class Note(msgspec.Struct, frozen=True):
    text: str


class Total(msgspec.Struct, frozen=True):
    count: int = 0


class TotalV2(msgspec.Struct, frozen=True):
    count: int
    unit: str


class Log(msgspec.Struct, frozen=True):
    lines: list[str] = []


FIXED: dict[str, bool] = {}


def total(state: Total | None, event: Added | Doubled | Broken | Removed, ctx: Context) -> Step[Total]:
    now = state or Total()
    match event:
        case Added(name=name, amount=amount):
            emit = [Doubled(name)] if amount == 100 else []
            return Step(Total(now.count + amount), reply=now.count + amount, emit=emit, ann={"by": amount})
        case Doubled():
            return Step(Total(now.count * 2))
        case Removed():
            return Step.delete(reply="gone")
        case Broken(why=why):
            raise RuntimeError(why)


def make_app(**options: Any) -> App:
    app = App("test")
    for event in (Added, Doubled, Broken, Removed):
        app.event(key="name")(event)
    app.event(Note)
    app.reducer(emits=[Doubled], **options)(total)
    return app


@pytest.fixture
def app() -> App:
    return make_app()


@pytest.fixture
def world(make_world, app) -> World:
    return make_world(app, live=True)


def added_to(app: App, function: Any, **options: Any) -> App:
    app.reducer(**options)(function)
    return app


# Sending


def test_an_event_is_applied_and_its_reply_is_at_hand(world):
    sent = world.send(Added("a", 3))
    assert (sent.applied, sent.status, sent.reply, sent.failed) == (True, "applied", 3, None)
    assert sent.event == Added("a", 3)
    assert world.state(total, "a") == Total(3)
    assert sent.check() is sent


def refusing(state: Total | None, event: Added | Doubled) -> Step[Total] | Refuse:
    if isinstance(event, Doubled) or event.amount < 0:
        return Refuse("not here", code="total.no")
    return Step(Total(event.amount), emit=[Doubled(event.name)])


def test_a_refusal_is_an_answer_of_its_own(make_world):
    app = App("test")
    app.event(key="name")(Added)
    app.event(key="name")(Doubled)
    app.reducer(emits=[Doubled])(refusing)
    world = make_world(app, live=True)
    sent = world.send(Added("a", -1), id="one", check=False)
    assert (sent.status, sent.applied, sent.failed) == ("refused", False, None)
    assert (sent.refused.reason, sent.refused.code) == ("not here", "total.no")
    assert sent.refused.cell == "test/refusing 'a'"
    assert "not here" in repr(sent)
    with pytest.raises(Refused, match="refused the event: not here"):
        sent.check()
    assert world.send(Added("a", -1), id="one", check=False).refused.height == sent.refused.height
    assert (world.send(Added("a", 2)).status, world.state(refusing, "a")) == ("applied", Total(2))
    assert [(each.reason, each.cell) for each in world.refusals] == [("not here", "test/refusing 'a'")] * 2
    assert (world.failures, world.cell(refusing, "a").status) == ([], "waiting")


def test_what_a_step_emits_is_delivered_and_at_hand(world):
    sent = world.send(Added("a", 100))
    assert world.state("total", "a") == Total(200)
    assert sent.emitted == [Doubled("a")]
    assert world.emitted == [Doubled("a")]
    assert world.emitted.of(Doubled) == [Doubled("a")]
    assert world.emitted.of(Added) == []


def test_emitted_events_wait_for_the_next_beat(world):
    world.send(Added("a", 100), settle=False)
    assert world.state(total, "a") == Total(100)
    world.settle()
    assert world.state(total, "a") == Total(200)


def test_many_events_go_into_one_beat(world):
    frames = len(world.host.frames)
    sent = world.send_many(Added("a", n) for n in range(50))
    assert len(world.host.frames) == frames + 1
    assert [each.reply for each in sent][-1] == sum(range(50))


def test_more_events_than_a_beat_takes_go_into_several(world):
    sent = world.send_many(Added("x" * 400 + str(n)) for n in range(6_000))
    assert len(sent) == 6_000
    assert all(each.applied for each in (sent[0], sent[-1]))
    assert len({row.now_ns for row in world.chronicle.journal.sent()}) == 1


def test_the_same_id_is_applied_once_and_answered_alike(world):
    first, second = (world.send(Added("a", 5), id="one") for _ in range(2))
    assert (first.duplicate, second.duplicate) == (False, True)
    assert (second.height, second.reply) == (first.height, 5)
    assert world.state(total, "a") == Total(5)


def test_an_id_used_for_another_event_is_refused(world):
    world.send(Added("a", 5), id="one")
    with pytest.raises(Rejected) as refused:
        world.send(Added("a", 6), id="one")
    assert refused.value.code == "kernel.id_reused"
    assert world.state(total, "a") == Total(5)


def test_an_expected_version_that_differs_is_a_conflict_and_changes_nothing(world):
    world.send(Added("a"), expected_version=0).check()
    sent = world.send(Added("a"), expected_version=7, check=False)
    assert (sent.conflict, sent.applied, sent.status) == (True, False, "conflict")
    with pytest.raises(VersionConflict):
        sent.check()
    assert world.cell(total, "a").version == 1


def test_what_is_no_event_is_refused(world):
    for wrong, code in ((Total(1), "app.event_expected"), (Note("x"), "routing.no_subscriber")):
        with pytest.raises(Rejected) as refused:
            world.send(wrong)
        assert refused.value.code == code


def test_a_key_can_come_from_the_sender(make_world):
    def noted(state: Log | None, event: Note | Added, ctx: Context) -> Log:
        return Log([*(state or Log()).lines, f"{ctx.key}:{type(event).__name__}"])

    world = make_world(added_to(make_app(), noted, key={Note: None, Added: "name"}), live=True)
    world.send(Note("hello"), key="a")
    world.send(Added("a"))
    assert world.state(noted, "a") == Log(["a:Note", "a:Added"])
    with pytest.raises(Rejected):
        world.send(Note("hello"))


def test_an_event_may_be_emitted_with_an_explicit_key(make_world):
    def noted(state: Log | None, event: Note | Added) -> Step[Log]:
        emit = [Keyed(Note("from " + event.name), "b")] if isinstance(event, Added) else []
        return Step(Log([*(state or Log()).lines, "x"]), emit=emit)

    world = make_world(added_to(make_app(), noted, key={Note: None, Added: "name"}), live=True)
    world.send(Added("a"))
    assert world.cell(noted, "b").exists


# Failures


def test_a_send_raises_what_a_nodes_send_raises(world):
    """A failed step was silent here, so a test passed where production raised."""
    with pytest.raises(StepFailed, match="no such thing"):
        world.send(Broken("a", "no such thing"))
    with pytest.raises(Parked):
        world.send(Added("a"))
    with pytest.raises(Parked):
        world.send(Added("a"), id="one")
    with pytest.raises(VersionConflict):
        world.send(Added("b"), expected_version=7)
    assert world.send(Added("c"), settle=False).status in {"applied", "waiting"}
    assert [sent.status for sent in world.send_many([Added("a"), Added("b")])] == ["waiting", "applied"]


def test_a_failed_step_is_an_answer_with_its_reason(world):
    sent = world.send(Broken("a", "no such thing"), check=False)
    assert (sent.applied, sent.status) == (False, "failed")
    failed = sent.failed
    assert isinstance(failed, Failure)
    assert (failed.reducer, failed.key, failed.event, failed.skipped) == (
        "test/total", "a", Broken("a", "no such thing"), False,
    )  # fmt: skip
    assert failed.code == "modules.exception"
    assert "RuntimeError: no such thing (" in failed.text
    assert "test_world.py" in failed.text
    assert "no such thing" in repr(sent)
    assert "test/total 'a'" in str(failed)
    assert world.failures == [failed]
    with pytest.raises(StepFailed, match="no such thing"):
        sent.check()


def test_a_halted_cell_keeps_its_queue_until_it_is_resumed(make_world):
    FIXED.clear()

    def careful(state: Total | None, event: Added | Broken) -> Total:
        if isinstance(event, Broken) and not FIXED.get("yes"):
            raise RuntimeError("not yet")
        return Total((state or Total()).count + 1)

    app = make_app()
    world = World(added_to(app, careful), live=True)
    broken = world.send(Broken("a"), check=False)
    waiting = world.send(Added("a"), check=False)
    cell = world.cell(careful, "a")
    assert (cell.status, cell.queue) == ("halted", [Broken("a"), Added("a")])
    assert "not yet" in cell.reason
    assert waiting.status == "waiting"
    with pytest.raises(Parked):
        waiting.check()
    FIXED["yes"] = True
    world.resume(careful, "a")
    assert world.state(careful, "a") == Total(2)
    assert (cell.status, cell.reason, cell.queue) == ("waiting", "an event", [])
    assert broken.status == "failed"  # its other cell is still halted
    assert waiting.status == "waiting"


def alarms(state: Total | None, event: StepFailedEvent) -> Total:
    return Total((state or Total()).count + 1)


def notes(state: Total | None, event: Note) -> Total:
    raise RuntimeError("broken")


def test_failures_by_the_key_of_their_cell_are_refused_where_a_reducer_has_none(app):
    added_to(app, alarms, key={StepFailedEvent: "key"})
    added_to(app, notes, keyed=False)
    with pytest.raises(Rejected, match=r"has an empty key .* about test/notes@1.*Route it by `module`"):
        World(app, live=True)


def test_failures_are_counted_by_the_module_that_failed(make_world, app):
    added_to(app, alarms, key={StepFailedEvent: "module"})
    added_to(app, notes, keyed=False)
    world = make_world(app, live=True)
    world.send_many([Broken("a"), Note("b")])
    counts = {cell.key: cell.state.count for cell in world.cells(alarms)}
    assert counts == {"test/notes": 1, "test/total": 1}


def test_a_halted_cell_goes_on_when_its_first_event_is_dropped(world):
    bad = world.send(Broken("a"), check=False)
    behind = world.send(Added("a", 3), check=False)
    world.drop(total, "a")
    assert (bad.status, behind.status, world.state(total, "a")) == ("dropped", "applied", Total(3))
    with pytest.raises(StepFailed, match="dropped by test"):
        bad.check()


def test_a_cell_is_deleted_by_hand(world):
    world.send(Added("a", 3))
    world.delete(total, "a")
    assert not world.cell(total, "a").exists
    assert [(step.version, step.event, step.state) for step in world.cell(total, "a").history()] == [
        (1, Added("a", 3), Total(3)),
        (2, None, None),
    ]
    world.send(Added("a", 1))
    assert world.state(total, "a") == Total(1)


def test_dead_letters_are_at_hand_and_can_be_redriven_and_dismissed(make_world):
    world = make_world(make_app(failure="skip"), live=True, guard=False)
    world.send(Broken("a", "once"), check=False)
    [letter] = world.letters
    assert (letter.reducer, letter.key, letter.event) == ("test/total", "a", Broken("a", "once"))
    assert "RuntimeError: once" in letter.text
    world.redrive(letter)
    [again] = world.letters
    assert again.height > letter.height
    world.dismiss(again)
    assert world.letters == []
    with pytest.raises(Rejected, match="there is no dead letter"):
        world.dismiss(again)


def test_all_halted_cells_of_a_reducer_or_of_the_world_are_resumed_together(world):
    for name in "abc":
        world.send(Broken(name), check=False)
    world.resume(total)
    assert len(world.failures) == 6
    world.resume()
    assert len(world.failures) == 9
    with pytest.raises(Rejected) as refused:
        world.resume(total, "never")
    assert refused.value.code == "kernel.not_stopped"


def test_a_bulk_resume_goes_on_until_all_are_resumed_once(world, monkeypatch):
    """It resumed as many as one frame had room for; a node goes on."""
    monkeypatch.setattr("cellule.kernel.decide.controls.RESUME_PER_CONTROL_MAX", 2)
    for name in "abcde":
        world.send(Broken(name), check=False)
    world.resume()
    assert sorted(failed.key for failed in world.failures) == sorted("abcde" * 2)


def test_a_bulk_migration_goes_on_until_all_are_moved(make_world, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.migrations.MIGRATE_SCAN_MAX", 2)
    monkeypatch.setattr("cellule.kernel.decide.migrations.MIGRATE_SCAN_PAGE", 2)
    world = make_world(make_app(upgrade="pin"), live=True)
    world.send_many([Added(name, 5) for name in "abcde"])
    app = second_version(upgrade="pin")
    app.upcaster(up)
    world.deploy(app)
    world.migrate(all=True)
    world.send_many([Added(name, 1) for name in "abcde"])
    assert [world.state("total", name) for name in "abcde"] == [TotalV2(6, "pieces")] * 5


def test_a_reducer_that_skips_goes_on_after_a_failure(make_world):
    world = make_world(make_app(failure="skip"), live=True)
    sent = world.send(Broken("a"), check=False)
    assert sent.failed is not None
    assert sent.failed.skipped
    assert world.send(Added("a")).applied


def test_failures_can_be_subscribed_to(make_world):
    def seen(state: Log | None, event: StepFailedEvent | WorldStarted) -> Log:
        shown = event.code if isinstance(event, StepFailedEvent) else "started"
        return Log([*(state or Log()).lines, shown])

    world = make_world(added_to(make_app(), seen), live=True)
    world.send(Broken("a"), check=False)
    assert world.state(seen) == Log(["started", "modules.exception"])
    assert world.emitted == []


def test_effects_that_a_reducer_does_not_list_fail_its_step(make_world):
    def asks(state: Total | None, event: Added) -> Step[Total]:
        return Step(Total(1), effects=[Effect("http.request", {"url": "x"})])

    world = make_world(added_to(make_app(), asks), live=True)
    sent = world.send(Added("a"), check=False)
    assert sent.failed is not None
    assert "http.request" in sent.failed.text


# Looking


def test_a_cell_tells_its_state_version_and_history(world):
    cell = world.cell(total, "a")
    assert (cell.exists, cell.state, cell.version, cell.status) == (False, None, 0, "absent")
    assert cell.history() == []
    world.send(Added("a", 1))
    world.advance(hours=1)
    world.send(Added("a", 100))
    assert (cell.exists, cell.version, cell.status, cell.key) == (True, 3, "waiting", "a")
    assert cell.size > 0
    first, second, third = cell.history()
    assert (first.version, first.state, first.event, first.reply) == (1, Total(1), Added("a", 1), 1)
    assert (second.ann, second.at - first.at) == ({"by": 100}, timedelta(hours=1))
    assert (third.event, third.state) == (Doubled("a"), Total(202))
    assert "test/total 'a'" in repr(cell)


def test_a_deleted_cell_is_gone_and_can_be_born_again(world):
    world.send(Added("a", 5))
    assert world.send(Removed("a")).reply == "gone"
    assert not world.cell(total, "a").exists
    world.send(Added("a", 2))
    assert world.state(total, "a") == Total(2)
    assert [version.state for version in world.cell(total, "a").history()] == [Total(5), None, Total(2)]


def test_all_cells_of_a_reducer_are_listed(world):
    world.send_many([Added("a"), Added("b"), Added("c"), Removed("b")])
    assert [cell.key for cell in world.cells(total)] == ["a", "c"]


def test_cells_are_listed_in_the_order_of_their_keys_by_prefix_and_range(world):
    world.send_many([Added(key) for key in ("b2", "a", "b10", "b1", "ä", "c", "Z")])
    keys = ["Z", "a", "b1", "b10", "b2", "c", "ä"]
    assert [cell.key for cell in world.cells(total)] == keys
    assert [cell.key for cell in world.cells(total, prefix="b1")] == ["b1", "b10"]
    assert [cell.key for cell in world.cells(total, start="b10", end="c")] == ["b10", "b2"]
    assert [cell.key for cell in world.cells(total, prefix="b", start="b2")] == ["b2"]
    world.restart()
    assert [cell.key for cell in world.cells(total)] == keys


def test_long_states_are_read_back(make_world):
    def long(state: Log | None, event: Added) -> Log:
        return Log([*(state or Log()).lines, "x" * 6_000])

    world = make_world(added_to(make_app(), long), live=True)
    world.send_many([Added("a"), Added("a")])
    assert [len(version.state.lines) for version in world.cell(long, "a").history()] == [1, 2]
    assert len(world.state(long, "a").lines) == 2


# Time


def test_time_stands_still_until_it_is_advanced(world):
    before = world.now
    world.send(Added("a"))
    assert world.now == before
    world.advance(days=365, minutes=1)
    assert world.now - before == timedelta(days=365, minutes=1)


def test_cells_expire_while_time_passes(make_world):
    world = make_world(make_app(retention=Retention(idle=timedelta(days=30))), live=True)
    world.send_many([Added("a"), Added("b")])
    world.advance(days=20)
    world.send(Added("a"))
    world.advance(days=20)
    assert world.cell(total, "a").exists
    assert not world.cell(total, "b").exists
    world.advance(days=365)
    assert world.cells(total) == []


@pytest.mark.parametrize("span", [{}, {"days": 0}, {"hours": -1}])
def test_time_passes_forward_only(world, span):
    with pytest.raises(Rejected) as refused:
        world.advance(**span)
    assert refused.value.code == "testing.advance"


def test_a_step_sees_the_time_and_chance_of_its_world(make_world):
    def lucky(state: Log | None, event: Added, ctx: Context) -> Log:
        return Log([str(ctx.now), str(ctx.uuid()), str(ctx.random.random())])

    def run(seed: int) -> Log:
        world = make_world(added_to(make_app(), lucky), live=True, seed=seed)
        world.advance(days=1)
        world.send(Added("a"))
        found = world.state(lucky, "a")
        assert found.lines[0] == str(world.now)
        return found

    assert run(1) == run(1)
    assert run(1) != run(2)


# Replay


def test_eviction_after_every_beat_changes_nothing(make_world):
    def run(*, evict: bool) -> list[bytes]:
        world = make_world(make_app(), live=True, evict=evict)
        for n in range(30):
            world.send(Added("ab"[n % 2], 100 if n % 7 == 0 else n), id=f"{n}")
        world.send(Broken("a"), check=False)
        world.advance(days=1)
        world.send(Added("a"), id="3x", check=False)
        return world.host.frames

    assert run(evict=True) == run(evict=False)


def test_a_world_that_dies_is_the_same_afterwards(world):
    world.send(Added("a", 100), settle=False)
    world.restart()
    assert world.state(total, "a") == Total(100)
    world.settle()
    assert world.state(total, "a") == Total(200)
    assert world.send(Added("a", 1)).reply == 201


def test_a_step_that_remembers_something_itself_does_not_replay():
    seen: list[int] = []

    def remembers(state: Total | None, event: Added) -> Total:
        seen.append(1)
        return Total(len(seen))

    world = World(added_to(make_app(), remembers), live=True)
    world.send(Added("a"))
    with pytest.raises(StepFailed) as failed:
        world.assert_replays()
    assert failed.value.code == "testing.not_repeatable"
    assert "test/remembers" in str(failed.value)


def test_a_step_that_reads_the_environment_fails_under_the_guard(make_world):
    def reads(state: Log | None, event: Added) -> Log:
        return Log([os.environ.get("HOME", "")])

    app = added_to(make_app(), reads)
    sent = make_world(app, live=True).send(Added("a"), check=False)
    assert sent.failed is not None
    assert sent.failed.code == "modules.nondeterministic"
    assert make_world(app, live=True, guard=False).send(Added("a")).applied


def test_two_reducers_that_answer_each_other_for_ever_are_noticed(monkeypatch):
    def echo(state: Total | None, event: Added) -> Step[Total]:
        return Step(Total(1), emit=[Added(event.name)])

    world = World(added_to(make_app(), echo, name="echo"), live=True)
    monkeypatch.setattr("cellule.testing.memory_host.BEATS_MAX", 20)
    world.send(Added("a"), settle=False)
    with pytest.raises(StepFailed) as failed:
        world.host.settle(beats_max=20)
    assert failed.value.code == "testing.never_rests"
    with pytest.raises(StepFailed):
        world.advance(days=1)


# Deploying


def new_total(state: TotalV2 | None, event: Added) -> Step[TotalV2]:
    return Step(TotalV2((state.count if state else 0) + event.amount, "pieces"))


def up(old: Total) -> TotalV2:
    return TotalV2(old.count, "old")


def second_version(**options: Any) -> App:
    app = App("test", version=2)
    for event in (Added, Doubled, Broken, Removed):
        app.event(key="name")(event)
    app.state(name="Total", version=1)(Total)
    app.state(name="Total", version=2)(TotalV2)
    app.reducer(name="total", **options)(new_total)
    return app


def test_a_new_version_takes_over_and_upcasts_states(world):
    world.send_many([Added("a", 5), Added("b", 6)])
    app = second_version()
    app.upcaster(up)
    change = world.deploy(app)
    assert change.compatible
    assert world.state("total", "a") == TotalV2(5, "old")
    assert world.send(Added("a", 1)).applied
    assert world.state("total", "a") == TotalV2(6, "pieces")
    assert [version.state for version in world.cell("total", "a").history()] == [
        TotalV2(5, "old"),
        TotalV2(6, "pieces"),
    ]


def test_a_version_that_cells_cannot_follow_is_refused_and_changes_nothing(world):
    world.send(Added("a", 5))
    height = len(world.host.frames)
    with pytest.raises(Rejected) as refused:
        world.deploy(second_version())
    assert refused.value.code == "manifest.incompatible"
    assert "no upcaster" in str(refused.value)
    assert len(world.host.frames) == height
    assert world.send(Added("a", 1)).applied


def test_changed_code_under_the_same_name_is_told_apart_from_the_old(world):
    world.send(Added("a", 5))

    def make(by: int) -> App:
        def total(state: Total | None, event: Added | Doubled | Broken | Removed) -> Step[Total]:
            return Step(Total((state or Total()).count + by))

        return added_to(App("test"), total)

    def declared(app: App) -> App:
        for event in (Added, Doubled, Broken, Removed):
            app.event(key="name")(event)
        return app

    for by, expected in ((10, 15), (1_000, 1_015)):
        world.deploy(declared(make(by)))
        world.send(Added("a"))
        assert world.state("total", "a") == Total(expected)


def test_a_pinned_cell_stays_with_its_code_until_it_is_migrated(make_world):
    world = make_world(make_app(upgrade="pin"), live=True)
    world.send(Added("a", 5))
    app = second_version(upgrade="pin")
    app.upcaster(up)
    world.deploy(app)
    world.send_many([Added("a", 1), Added("b", 1)])
    assert world.state("total", "a") == TotalV2(6, "old")
    assert world.state("total", "b") == TotalV2(1, "pieces")
    world.send(Added("a", 1))
    assert world.state("total", "a") == TotalV2(7, "old")
    world.migrate("total", "a")
    world.send(Added("a", 1))
    assert world.state("total", "a") == TotalV2(8, "pieces")


# Live apps, and what is no app


def test_an_app_without_a_file_runs_live_and_says_so_once(caplog, make_world):
    def inside(state: Total | None, event: Added) -> Total:
        return Total(1)

    app = added_to(make_app(), inside)
    with caplog.at_level(logging.WARNING, "cellule.testing"):
        assert make_world(app).built.live
        assert make_world(app).built.live
    (record,) = caplog.records
    assert "inside" in record.message
    assert "top level of a file" in record.message


def test_what_is_no_app_is_refused():
    with pytest.raises(Rejected) as refused:
        World("shop")  # type: ignore[arg-type]
    assert refused.value.code == "testing.not_an_app"


def test_a_step_that_runs_too_long_is_ended_where_a_limit_is_given(make_world):
    def endless(state: Total | None, event: Added) -> Total:
        while True:
            pass

    world = make_world(added_to(make_app(), endless), live=True, limit_s=0.05)
    sent = world.send(Added("a"), check=False)
    assert sent.failed is not None
    assert sent.failed.code == "modules.timed_out"


def test_a_world_without_a_limit_starts_no_thread(make_world):
    before = threading.active_count()
    make_world(make_app(), live=True).send(Added("a"))
    gc.collect()
    assert threading.active_count() <= before
