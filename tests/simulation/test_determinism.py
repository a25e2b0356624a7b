"""The same seed is the same run: twice, after a hundred others, and in a process with another hash seed.

Run as a script, this file prints the digests of the seeds it is given.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cellule.errors import InvariantBroken
from cellule.testing import simulate

pytestmark = pytest.mark.simulation

HERE = Path(__file__).resolve().parent
SCENARIOS = ["test_journal", "test_inbox", "test_watches"]


def scenario_in(name):
    spec = importlib.util.spec_from_file_location(f"simulated_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.scenario


async def turmoil(simulation):
    """Everything whose order a set, a collector or an address could decide."""
    ended = []

    async def child(number):
        try:
            await asyncio.sleep(number % 3 if number % 5 else 1_000)
        finally:
            ended.append(number)
        if number == 37:
            raise KeyError(number)

    async def abandoned():
        try:
            for number in range(10):
                yield number
        finally:
            ended.append("abandoned")

    async for _ in abandoned():
        break
    for round_number in range(5):
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(40):
                    group.create_task(child(number))
        except* KeyError:
            simulation.note(f"round {round_number}")
        done, pending = await asyncio.wait(
            {asyncio.create_task(child(number)) for number in range(12)}, timeout=1.5
        )
        ended.extend(task.number for task in [*done, *pending])
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    simulation.note(repr(ended))


def digests_of(seeds):
    scenarios = [*map(scenario_in, SCENARIOS), turmoil]
    return [run.digest for scenario in scenarios for run in simulate(scenario, seeds=seeds)]


def test_a_seed_run_twice_takes_the_identical_schedule():
    assert digests_of([3, 4]) == digests_of([3, 4])


def test_different_seeds_take_different_schedules():
    digests = digests_of(range(5))
    assert len(set(digests)) == len(digests)


def test_a_seed_run_after_a_hundred_others_takes_the_identical_schedule():
    alone = digests_of([7])
    others = scenario_in("test_watches")
    litter = [[object() for _ in range(number)] for number in range(500)]
    simulate(others, seeds=range(100, 200))
    del litter[::2]
    gc.collect()
    assert digests_of([7]) == alone


def test_a_failing_seed_fails_identically_after_a_hundred_others():
    async def failing(simulation):
        await scenario_in("test_watches")(simulation)
        raise AssertionError(simulation.entropy.below(1_000_000))

    def failure():
        with pytest.raises(InvariantBroken) as caught:
            simulate(failing, seeds=[11])
        return caught.value.fields["digest"], str(caught.value.__cause__)

    first = failure()
    simulate(scenario_in("test_watches"), seeds=range(100))
    assert failure() == first


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_a_process_with_another_hash_seed_takes_the_identical_schedule(hash_seed):
    printed = subprocess.run(
        [sys.executable, __file__, "5", "6"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert json.loads(printed) == digests_of([5, 6])


if __name__ == "__main__":
    sys.stdout.write(json.dumps(digests_of([int(seed) for seed in sys.argv[1:]])))
