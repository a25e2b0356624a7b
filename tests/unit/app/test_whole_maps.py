"""`cell_mode=False`: one cell holds the map of all keys, and the same function serves both modes."""

from __future__ import annotations

from typing import Any

import pytest

from cellule.errors import Rejected, StepFailed
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
