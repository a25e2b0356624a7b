"""`cell_mode=False`: one cell holds the map of all keys, and the same function serves both modes."""

from __future__ import annotations

from typing import Any

import pytest

from cellule.errors import Rejected, StepFailed
from cellule.kernel.items import ControlItem
from cellule.testing import World

JOBS = """
    from __future__ import annotations
    from datetime import timedelta
    from uuid import UUID
    import msgspec
    from cellule import App, Context, Receipt, Refuse, Step, TimerFired, timer

    app = App("jobs")

    class Ask(msgspec.Struct, frozen=True):
        what: str

    class Answer(msgspec.Struct, frozen=True):
        number: int

    @app.event(key="name")
    class Do(msgspec.Struct, frozen=True):
        name: str
        what: str

    @app.event(key="name")
    class Done(msgspec.Struct, frozen=True):
        name: str

    class Job(msgspec.Struct, frozen=True):
        steps: int = 0
        last: str = ""

    ask = app.effect("jobs.ask", params=Ask, receipt=Answer)

    @app.reducer(effects=[ask, timer], emits=[Done], reply=str, failure="skip", MODE)
    def job(
        state: Job | None, event: Do | Done | Receipt[Answer] | TimerFired, ctx: Context
    ) -> Step[Job] | Refuse:
        steps = (state.steps if state else 0) + 1
        match event:
            case Do(what="nap"):
                nap = timer(after=timedelta(minutes=1), key="nap")
                return Step(Job(steps, "napping"), effects=[nap], reply=ctx.key)
            case Do(what="wake"):
                return Step(Job(steps, "woken"), cancel=["nap"])
            case Do(what="ask"):
                return Step(Job(steps, "asking"), effects=[ask(Ask(event.name))])
            case Do(what="end"):
                return Step.delete()
            case Do(what="refuse"):
                return Refuse("no")
            case Do(what="fail"):
                raise ValueError("broken")
            case Do(what="emit"):
                return Step(Job(steps, "emitting"), emit=[Done(event.name)])
            case Do():
                return Step(Job(steps, event.what))
            case Done():
                return Step(Job(steps, f"done {ctx.cell_mode}"))
            case TimerFired():
                return Step(Job(steps, f"rested {ctx.key}"))
            case Receipt():
                return Step(Job(steps, f"{ctx.key}: {event.value.number if event.value else event.status}"))
"""


def app_of(project: Any, mode: str = "cell_mode=False", name: str = "job_app") -> Any:
    return project({f"{name}.py": JOBS.replace("MODE", mode)}, name)


def states(world: World, jobs: Any, mode: bool) -> dict[str, Any]:
    if not mode:
        return {key: (each.steps, each.last) for key, each in (world.state(jobs.job) or {}).items()}
    return {cell.key: (cell.state.steps, cell.state.last) for cell in world.cells(jobs.job)}


def story(world: World, jobs: Any) -> list[Any]:
    """All that a cell can go through, of several keys that have the same names for their timers."""
    answers: list[Any] = []
    for name, what in (("a", "nap"), ("b", "nap"), ("c", "ask"), ("d", "emit"), ("e", "work"), ("a", "more")):
        answers.append(world.send(jobs.Do(name, what)).reply)
    for name, what in (("e", "refuse"), ("e", "fail")):
        answers.append(world.send(jobs.Do(name, what), check=False).status)
    world.send(jobs.Do("b", "wake"))
    world.send(jobs.Do("f", "nap"))
    world.send(jobs.Do("f", "end"))
    world.send(jobs.Do("e", "end"))
    world.send(jobs.Do("g", "end"), check=False)
    (asked,) = world.intents.of("jobs.ask")
    world.complete(asked, jobs.Answer(7))
    world.restart()
    world.advance(minutes=2)
    world.send(jobs.Do("e", "again"))
    return answers


def test_the_same_function_does_the_same_in_one_map_as_in_cells(project):
    found = []
    for mode in (True, False):
        jobs = app_of(project, f"cell_mode={mode}", f"jobs_{mode}".lower())
        world = World(jobs.app)
        answers = story(world, jobs)
        found.append((answers, states(world, jobs, mode), len(world.intents), len(world.failures)))
        world.assert_replays()
    one, other = found
    expected = {key: (n, last.replace("True", "False")) for key, (n, last) in one[1].items()}
    assert (one[0], expected, *one[2:]) == other
    assert other[1] == {
        "a": (3, "rested a"), "b": (2, "woken"), "c": (2, "c: 7"), "d": (2, "done False"), "e": (1, "again"),
    }  # fmt: skip


def test_an_entry_that_is_gone_takes_its_timers_with_it_and_no_others(project):
    jobs = app_of(project)
    world = World(jobs.app)
    world.send(jobs.Do("a", "nap"))
    world.send(jobs.Do("b", "nap"))
    world.send(jobs.Do("a", "end"))
    assert len(world.intents) == 1
    world.advance(minutes=2)
    assert states(world, jobs, False) == {"b": (2, "rested b")}
    world.assert_replays()


def test_a_map_without_entries_stays_and_one_that_never_was_is_not_made(project):
    jobs = app_of(project)
    world = World(jobs.app)
    world.send(jobs.Do("a", "end"), check=False)
    assert world.state(jobs.job) is None
    world.send(jobs.Do("a", "work"))
    world.send(jobs.Do("a", "end"))
    assert world.state(jobs.job) == {}
    world.assert_replays()


def test_keys_of_other_types_than_text_are_pairs_in_order(project):
    numbers = project({"totals.py": """
        import msgspec
        from cellule import App

        app = App("numbers")

        @app.event(key="n")
        class Seen(msgspec.Struct, frozen=True):
            n: int

        class Total(msgspec.Struct, frozen=True):
            count: int = 0

        @app.reducer(cell_mode=False)
        def total(state: Total | None, event: Seen) -> Total:
            return Total((state or Total()).count + 1)
    """}, "totals")  # fmt: skip
    world = World(numbers.app)
    for n in (300, -1, 7, 300):
        world.send(numbers.Seen(n))
    assert world.state(numbers.total) == {7: numbers.Total(1), 300: numbers.Total(2), -1: numbers.Total(1)}
    world.assert_replays()


def test_more_entries_than_a_map_may_have_fail_the_step_and_say_where_to_go(project, monkeypatch):
    monkeypatch.setattr("cellule.kernel.whole_map.MAP_ENTRIES_MAX", 2)
    jobs = app_of(project)
    world = World(jobs.app)
    world.send(jobs.Do("a", "work"))
    world.send(jobs.Do("b", "work"))
    with pytest.raises(StepFailed, match="at most 2: move the map to cells: `cellule world migrate-cells`"):
        world.send(jobs.Do("c", "work"))
    assert world.send(jobs.Do("b", "more")).status == "applied"


def test_a_map_longer_than_a_step_may_answer_fails_the_step(project):
    jobs = app_of(project)
    world = World(jobs.app)
    world.send(jobs.Do("a", "x" * 600_000))
    with pytest.raises(StepFailed, match=r"the map has .* bytes; at most 1000000") as caught:
        world.send(jobs.Do("b", "x" * 600_000))
    assert caught.value.code == "kernel.map_bytes"
    world.assert_replays()


@pytest.mark.parametrize(
    ("mode", "code", "told"),
    [
        ("cell_mode=False, keyed=False", "app.option", "only one of"),
        ("cell_mode=0", "app.option", "True or False"),
        ("cell_mode=False, retention=__import__('cellule').Retention(idle=timedelta(1))", "app.option",
         "removes cells"),
        ("cell_mode=False, key={Do: None, Done: 'name'}", "app.cell_mode", "the sender gives the key of Do"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_for_one_map_is_refused_when_the_app_is_built(project, mode, code, told):
    with pytest.raises(Rejected, match=told) as caught:
        app_of(project, mode).app.build()
    assert caught.value.code == code


# Moving the map to cells


def moved(project: Any, work: Any, name: str = "cells_app") -> tuple[World, Any, Any]:
    """A world that worked with one map, and has cells now."""
    jobs, cells = app_of(project), app_of(project, "cell_mode=True", name)
    world = World(jobs.app)
    work(world, jobs)
    world.deploy(cells.app, migrate_cells=True)
    return world, jobs, cells


def cell_states(world: World, jobs: Any) -> dict[str, Any]:
    return {cell.key: (cell.state.steps, cell.state.last) for cell in world.cells(jobs.job)}


def test_each_entry_becomes_a_cell_with_its_state_timers_and_effects(project):
    def work(world, jobs):
        for name, what in (("a", "nap"), ("b", "nap"), ("c", "ask"), ("d", "work"), ("b", "more")):
            world.send(jobs.Do(name, what))

    world, _, cells = moved(project, work)
    assert cell_states(world, cells) == {
        "a": (1, "napping"), "b": (2, "more"), "c": (1, "asking"), "d": (1, "work"),
    }  # fmt: skip
    assert world.state(cells.job, "c") == cells.Job(1, "asking")
    assert [cell.version for cell in world.cells(cells.job)] == [1, 1, 1, 1]
    (asked,) = world.intents.of("jobs.ask")
    world.complete(asked, cells.Answer(7))
    world.restart()
    world.send(cells.Do("b", "wake"))
    world.send(cells.Do("e", "nap"))
    world.advance(minutes=2)
    assert cell_states(world, cells) == {
        "a": (2, "rested a"), "b": (3, "woken"), "c": (2, "c: 7"), "d": (1, "work"), "e": (2, "rested e"),
    }  # fmt: skip
    assert [step.state for step in world.cell(cells.job, "a").history()] == [
        cells.Job(1, "napping"), cells.Job(2, "rested a"),
    ]  # fmt: skip
    world.assert_replays()


def test_what_waits_for_the_map_goes_to_the_cells(project):
    def work(world, jobs):
        world.send(jobs.Do("a", "nap"))
        world.send(jobs.Do("b", "emit"), settle=False)
        world.send(jobs.Do("c", "ask"))
        (asked,) = world.intents.of("jobs.ask")
        world.host.beat([ControlItem("pause", "test", "")])
        world.send_many([jobs.Do("b", "later"), jobs.Do("new", "born"), jobs.Do("b", "last")], settle=False)
        world.give(asked, "ok", jobs.Answer(9))

    world, _, cells = moved(project, work)
    world.host.beat([ControlItem("resume", "test", "")])
    world.settle()
    assert cell_states(world, cells) == {
        "a": (1, "napping"), "b": (4, "last"), "c": (2, "c: 9"), "new": (1, "born"),
    }  # fmt: skip
    world.assert_replays()


def test_a_map_that_is_stopped_lets_only_the_cell_stop_that_stopped_it(project):
    halting = JOBS.replace('failure="skip", MODE', "MODE")
    jobs = project({"halt_map.py": halting.replace("MODE", "cell_mode=False")}, "halt_map")
    cells = project({"halt_cells.py": halting.replace("MODE", "cell_mode=True")}, "halt_cells")
    world = World(jobs.app)
    world.send(jobs.Do("a", "work"))
    world.send(jobs.Do("b", "fail"), check=False)
    world.send(jobs.Do("a", "more"), check=False)
    assert world.cell(jobs.job).status == "halted"
    world.deploy(cells.app, migrate_cells=True)
    assert world.state(cells.job, "a") == cells.Job(2, "more")
    assert world.cell(cells.job, "b").status == "halted"
    world.assert_replays()


def test_a_deploy_alone_does_not_move_a_map(project):
    jobs, cells = app_of(project), app_of(project, "", "cells_only")
    world = World(jobs.app)
    world.send(jobs.Do("a", "work"))
    with pytest.raises(Rejected, match="cellule world migrate-cells"):
        world.deploy(cells.app)
    world.send(jobs.Do("a", "more"))
    assert states(world, jobs, False) == {"a": (2, "more")}
    world.assert_replays()


def test_a_reducer_that_kept_a_map_by_itself_is_moved_where_its_values_have_a_name(project):
    own = """
        import msgspec
        from cellule import App

        app = App("own")

        @app.event(key="name")
        class Hit(msgspec.Struct, frozen=True):
            name: str

        class Score(msgspec.Struct, frozen=True):
            hits: int = 0

        REDUCER
    """
    whole = """@app.reducer(keyed=False)
        def score(state: dict[str, Score] | None, event: Hit) -> dict[str, Score]:
            scores = state or {}
            return {**scores, event.name: Score(scores.get(event.name, Score()).hits + 1)}"""
    split = """@app.reducer
        def score(state: Score | None, event: Hit) -> Score:
            return Score((state or Score()).hits + 1)"""
    old = project({"own_map.py": own.replace("REDUCER", whole)}, "own_map")
    new = project({"own_cells.py": own.replace("REDUCER", split)}, "own_cells")
    world = World(old.app)
    for name in ("a", "b", "a"):
        world.send(old.Hit(name))
    world.deploy(new.app, migrate_cells=True)
    world.send(new.Hit("a"))
    assert {cell.key: cell.state.hits for cell in world.cells(new.score)} == {"a": 3, "b": 1}
    world.assert_replays()


def test_entries_are_upcast_on_the_way_and_later_maps_too(project):
    first_job, second_job = (f"class {name}(msgspec.Struct, frozen=True):" for name in ("Job", "Job1"))
    second = JOBS.replace(first_job, second_job).replace(
        "    ask = app.effect", """    app.state(name="Job", version=1)(Job1)

    @app.state(version=2)
    class Job(msgspec.Struct, frozen=True):
        steps: int = 0
        last: str = ""
        note: str = ""

    @app.upcaster
    def job_2(old: Job1) -> Job:
        return Job(old.steps, old.last, "upcast")

    ask = app.effect""")  # fmt: skip
    first = app_of(project)
    map_2 = project({"map_2.py": second.replace("MODE", "cell_mode=False")}, "map_2")
    cells_2 = project({"cells_2.py": second.replace("MODE", "cell_mode=True")}, "cells_2")
    for steps in ([cells_2], [map_2, cells_2]):
        world = World(first.app)
        world.send(first.Do("a", "work"))
        world.send(first.Do("b", "work"))
        for each in steps:
            world.deploy(each.app, migrate_cells=each is cells_2)
            if each is map_2:
                assert world.state(map_2.job)["a"] == map_2.Job(1, "work", "upcast")
                world.send(map_2.Do("a", "more"))
        assert world.state(cells_2.job, "b") == cells_2.Job(1, "work", "upcast")
        world.assert_replays()


def test_a_map_in_the_middle_of_everything_is_moved_at_any_beat(project):
    """The same events, moved after each of them: the cells end as if they had been cells from the start."""
    events = [
        ("a", "nap"),
        ("b", "work"),
        ("a", "more"),
        ("c", "emit"),
        ("b", "end"),
        ("c", "work"),
        ("a", "wake"),
    ]
    cells = app_of(project, "", "cells_any")
    jobs = app_of(project)
    direct = World(cells.app)
    for name, what in events:
        direct.send(cells.Do(name, what))
    expected = cell_states(direct, cells)
    for at in range(1, len(events)):
        world = World(jobs.app, elsewhere=False)
        for number, (name, what) in enumerate(events):
            if number == at:
                world.deploy(cells.app, migrate_cells=True)
            world.send((cells if number >= at else jobs).Do(name, what))
        world.settle()
        assert {
            key: (n, last.replace("False", "True")) for key, (n, last) in cell_states(world, cells).items()
        } == expected
        world.assert_replays()
