from __future__ import annotations

import asyncio
import itertools

import pytest

from cellule.errors import InvariantBroken, Rejected, Unavailable
from cellule.store.engine import Batch
from cellule.testing import CALM, Simulation, seeds_wanted, simulate


async def two_writers(simulation: Simulation):
    async def write(node):
        engine = simulation.engine_for(node)
        for number in range(5):
            try:
                await engine.commit(Batch(set={node.encode(): b"%d" % number}))
            except Unavailable as error:
                simulation.note(f"{node} {number} {error.code}")

    async with asyncio.TaskGroup() as group:
        for node in ("a", "b"):
            group.create_task(write(node))
    await simulation.wire.settle()
    return simulation.disk.dump()


def test_every_seed_runs_once_in_its_own_world():
    runs = simulate(two_writers, seeds=range(20))
    assert len(runs) == 20
    assert len({run.digest for run in runs}) == 20
    assert simulate(two_writers, seeds=range(20)) == runs
    assert simulate(two_writers, seeds=[13]) == [runs[13]]


def test_a_calm_simulation_has_no_faults():
    runs = simulate(two_writers, seeds=range(5), faults=CALM)
    assert all(run.result == {b"a": b"4", b"b": b"4"} for run in runs)


async def fails_for_some_orders(simulation: Simulation):
    order = []

    async def step(name):
        await asyncio.sleep(0)
        order.append(name)

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(step(name))
    assert order != ["c", "b", "a"], "backwards"


def test_a_failing_seed_is_replayed_and_reported_with_a_command(monkeypatch):
    monkeypatch.delenv("CELLULE_SIM_SEED", raising=False)
    monkeypatch.setenv("CELLULE_SIM_SEEDS", "200")
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/simulation/test_x.py::test_y (call)")
    with pytest.raises(InvariantBroken) as caught:
        simulate(fails_for_some_orders)
    error, seed = caught.value, caught.value.fields["seed"]
    assert error.code == "testing.seed_failed"
    assert isinstance(error.__cause__, AssertionError)
    assert "backwards" in str(error)
    assert "fails identically" in str(error)
    assert f"CELLULE_SIM_SEED={seed} python -m pytest 'tests/simulation/test_x.py::test_y'" in str(error)
    monkeypatch.setenv("CELLULE_SIM_SEED", str(seed))
    with pytest.raises(InvariantBroken) as replayed:
        simulate(fails_for_some_orders)
    assert replayed.value.fields["digest"] == error.fields["digest"]


def test_a_failing_seed_given_by_name_is_replayed_by_a_snippet():
    with pytest.raises(InvariantBroken) as caught:
        simulate(fails_for_some_orders, seeds=range(200))
    assert f"simulate(fails_for_some_orders, seeds=[{caught.value.fields['seed']}])" in str(caught.value)


def test_a_scenario_that_depends_on_more_than_its_seed_is_found_out_with_the_step_where_runs_part():
    turns = itertools.count()

    async def leaky(_simulation):
        for _ in range(next(turns)):
            await asyncio.sleep(1)
        raise AssertionError("always")

    with pytest.raises(InvariantBroken) as caught:
        simulate(leaky, seeds=[1])
    assert "NOT reproduced" in str(caught.value)
    assert "Two replays part at step" in str(caught.value)


def test_a_scenario_that_fails_only_once_is_found_out():
    turns = itertools.count()

    async def once(_simulation):
        assert next(turns) > 0

    with pytest.raises(InvariantBroken) as caught:
        simulate(once, seeds=[1])
    assert "NOT reproduced" in str(caught.value)
    assert "agree with each other" in str(caught.value)


def test_pytest_outcomes_inside_a_scenario_are_reported_with_their_seed():
    async def gives_up(_simulation):
        pytest.fail("gave up")

    with pytest.raises(InvariantBroken) as caught:
        simulate(gives_up, seeds=[3])
    assert "gave up" in str(caught.value)


def test_the_environment_chooses_the_seeds(monkeypatch):
    monkeypatch.delenv("CELLULE_SIM_SEED", raising=False)
    monkeypatch.delenv("CELLULE_SIM_SEEDS", raising=False)
    assert list(seeds_wanted()) == list(range(50))
    monkeypatch.setenv("CELLULE_SIM_SEEDS", "3")
    assert list(seeds_wanted()) == [0, 1, 2]
    monkeypatch.setenv("CELLULE_SIM_SEED", "17")
    assert list(seeds_wanted()) == [17]
    monkeypatch.setenv("CELLULE_SIM_SEED", "many")
    with pytest.raises(Rejected) as caught:
        seeds_wanted()
    assert caught.value.code == "testing.seed_setting"


def test_each_handle_and_clock_of_a_node_has_chance_of_its_own():
    async def scenario(simulation):
        engines = [simulation.engine_for(node) for node in ("a", "a", "b")]
        chances = [engine._entropy.bytes(8) for engine in engines]
        clocks = [simulation.clock_for(node).now_ns() for node in ("a", "b", "a")]
        return chances, clocks

    chances, clocks = simulate(scenario, seeds=[5])[0].result
    assert len(set(chances)) == 3
    assert clocks[0] == clocks[2] != clocks[1]


def test_a_crashed_node_does_nothing_durable_while_it_ends_and_its_store_survives():
    async def scenario(simulation):
        async def main(engine):
            await engine.commit(Batch(set={b"started": b"1"}))
            try:
                await asyncio.sleep(1_000)
            finally:
                await engine.commit(Batch(set={b"ended": b"1"}))

        node = simulation.start("a", main)
        await asyncio.sleep(1)
        running = node.is_done()
        await node.crash()
        return running, node.is_done(), simulation.disk.dump()

    assert simulate(scenario, seeds=[1], faults=CALM)[0].result == (False, True, {b"started": b"1"})


def test_the_own_error_of_a_node_is_raised_by_whoever_waits_for_it_or_crashes_it():
    async def scenario(simulation):
        async def main(_engine):
            raise KeyError("broken")

        with pytest.raises(KeyError):
            await simulation.start("a", main).wait()
        node = simulation.start("b", main)
        await asyncio.sleep(1)
        with pytest.raises(KeyError):
            await node.crash()

    simulate(scenario, seeds=range(3))
