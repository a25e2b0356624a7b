from __future__ import annotations

import msgspec
import pytest

from cellule import App, Step
from cellule.errors import InvariantBroken
from cellule.testing import World, simulate_app


class Put(msgspec.Struct, frozen=True):
    name: str
    amount: int


class Moved(msgspec.Struct, frozen=True):
    name: str
    amount: int


class Purse(msgspec.Struct, frozen=True):
    coins: int = 0
    peak: int = 0


class Books(msgspec.Struct, frozen=True):
    total: int = 0


SEEN: list[int] = []


def purse(state: Purse | None, event: Put) -> Step[Purse]:
    now = state or Purse()
    coins = now.coins + event.amount
    if coins < 0:
        raise ValueError("empty")
    return Step(Purse(coins, max(now.peak, coins)), emit=[Moved(event.name, event.amount)])


def books(state: Books | None, event: Moved) -> Books:
    return Books((state or Books()).total + event.amount)


def forgetful(state: Books | None, event: Moved) -> Books:
    SEEN.append(event.amount)
    return Books(len(SEEN))


def make_app(*reducers) -> App:
    app = App("bank")
    app.event(key="name")(Put)
    app.event(key="name")(Moved)
    for reducer in reducers:
        app.reducer(keyed=reducer is purse)(reducer)
    return app


SENDERS = [[Put(name, amount) for amount in (5, -3, 10, -2, 7)] for name in "abc"]


def test_an_app_that_is_right_holds_through_every_schedule():
    checked = 0

    def never_negative(world: World) -> None:
        nonlocal checked
        checked += 1
        assert all(cell.state.coins >= 0 for cell in world.cells(purse))

    runs = simulate_app(make_app(purse, books), SENDERS, check=never_negative, seeds=range(10), live=True)
    assert [run.seed for run in runs] == list(range(10))
    assert all(run.events == 15 for run in runs)
    assert checked == sum(run.actions for run in runs) + sum(1 for _ in runs)


def test_a_seed_does_the_same_again_and_another_something_else():
    app = make_app(purse, books)
    first, again, other = (simulate_app(app, SENDERS, seeds=seed, live=True)[0].digest for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_the_order_of_each_sender_is_kept():
    final = []

    def look(world: World) -> None:
        states = [world.state(purse, name) for name in "abc"]
        final[:] = [None if state is None else state.coins for state in states]

    for seed in range(5):
        simulate_app(make_app(purse), SENDERS, check=look, seeds=seed, live=True)
        assert final == [17, 17, 17]


def test_a_broken_invariant_is_reported_with_its_seed_and_what_was_done():
    def small(world: World) -> None:
        assert all(cell.state.coins < 15 for cell in world.cells(purse)), "too rich"

    with pytest.raises(InvariantBroken) as failed:
        simulate_app(make_app(purse, books), SENDERS, check=small, seeds=[11], live=True)
    error = failed.value
    assert error.code == "testing.app_failed"
    assert error.fields["seed"] == 11
    assert "too rich" in str(error)
    assert "Put(name=" in str(error)
    assert "it fails identically" in str(error)
    assert "seeds=11" in str(error)
    assert isinstance(error.__cause__, AssertionError)


def test_the_replay_line_names_the_test_when_the_seeds_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("CELLULE_SIM_SEED", "8")
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/test_bank.py::test_rich (call)")

    def never(world: World) -> None:
        raise AssertionError("never right")

    with pytest.raises(InvariantBroken) as failed:
        simulate_app(make_app(purse), SENDERS, check=never, live=True)
    assert "CELLULE_SIM_SEED=8 python -m pytest 'tests/test_bank.py::test_rich'" in str(failed.value)


def test_a_reducer_with_a_memory_of_its_own_is_found():
    with pytest.raises(InvariantBroken) as failed:
        simulate_app(make_app(purse, forgetful), SENDERS, seeds=[1], live=True)
    assert "testing.not_repeatable" in repr(failed.value.__cause__)
    assert "NOT reproduced" in str(failed.value)


def test_failing_steps_are_no_failure_of_the_app_by_themselves():
    failures = []

    def look(world: World) -> None:
        failures[:] = world.failures

    simulate_app(make_app(purse), [Put("a", 5), Put("a", -9), Put("a", 1)], check=look, seeds=[2], live=True)
    assert [failure.event for failure in failures] == [Put("a", -9)]


def test_senders_can_be_made_by_chance():
    def senders(chance):
        return [[Put("a", chance.below(100)) for _ in range(5)]]

    app = make_app(purse)
    first, second = (simulate_app(app, senders, seeds=seed, live=True)[0] for seed in (1, 2))
    assert first.events == second.events == 5
    assert first.digest == simulate_app(app, senders, seeds=1, live=True)[0].digest


def test_every_kind_of_trouble_happens_somewhere_in_a_few_seeds(monkeypatch):
    traces = []
    from cellule.testing import app_simulation

    note = app_simulation._Exploration._note

    def noted(self, action, batch=()):
        traces.append(action.split()[0].strip(","))
        note(self, action, batch)

    monkeypatch.setattr(app_simulation._Exploration, "_note", noted)
    simulate_app(make_app(purse, books), SENDERS, seeds=range(8), live=True)
    assert {"send", "lose", "again", "beat", "settle", "crash", "snapshot", "wait", "step"} <= set(traces)
