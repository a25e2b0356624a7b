"""One scenario, many seeds: each runs in a fresh deterministic loop with its own store, clock and chance.

Invariant: a scenario that keeps all its state inside itself does the same for the same seed, whatever ran
before. A failing seed is run again at once, and the report says whether it failed identically and how to
replay it alone. What the scenario checks is its own business.

Rejected: shrinking a failing seed. A seed has no parts to leave out; a shorter scenario or a trace does more.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from itertools import zip_longest
from typing import Any, TypeVar

from cellule.errors import InvariantBroken, Rejected, Unavailable
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing.clock import WALL_ORIGIN_NS, VirtualClock
from cellule.testing.entropy import SeededEntropy
from cellule.testing.faults import ROUGH, FaultPlan, Faults
from cellule.testing.faulty_engine import FaultyEngine
from cellule.testing.loop import STEPS_MAX, DeterministicLoop
from cellule.testing.runs import Attempt, Run, attempt
from cellule.testing.wire import Wire

T = TypeVar("T")

SEEDS_DEFAULT = 50
SKEW_NS_MAX = 2_000_000_000


class Simulation:
    """What one seeded run is given: virtual time, seeded chance, and one store behind faulty handles."""

    def __init__(self, seed: int, faults: Faults | FaultPlan) -> None:
        self.seed = seed
        self.faults = faults
        self.clock = VirtualClock()
        self.entropy = SeededEntropy(seed, "scenario")
        self.disk = MemoryDisk()
        self.wire = Wire()
        self._root = SeededEntropy(seed, "simulation")
        self._handles: Counter[str] = Counter()

    def engine_for(self, node: str, faults: Faults | FaultPlan | None = None) -> FaultyEngine:
        """A new handle to the store for `node`: each call is the same node after another restart."""
        self._handles[node] += 1
        entropy = self._root.child("engine").child(node).child(str(self._handles[node]))
        chosen = self.faults if faults is None else faults
        return FaultyEngine(MemoryEngine(self.disk), chosen, entropy=entropy, wire=self.wire)

    def clock_for(self, node: str) -> VirtualClock:
        """The clock of `node`: its wall time is up to two seconds away from that of `clock`."""
        skew_ns = self._root.child("clock").child(node).below(2 * SKEW_NS_MAX) - SKEW_NS_MAX
        return VirtualClock(wall_ns=WALL_ORIGIN_NS + skew_ns)

    def start(self, node: str, main: Callable[[FaultyEngine], Coroutine[Any, Any, object]]) -> Node:
        """Start `main(engine)` as the process of `node`, with a new handle."""
        engine = self.engine_for(node)
        return Node(engine, asyncio.get_running_loop().create_task(main(engine), name=node))

    def note(self, text: str) -> None:
        """Put `text` into the run's digest and trace."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, DeterministicLoop)
        loop.note(text)


class Node:
    """A running process that can crash."""

    def __init__(self, engine: FaultyEngine, task: asyncio.Task[object]) -> None:
        self.engine = engine
        self._task = task

    def is_done(self) -> bool:
        """Tell whether the process has ended, by itself or by a crash."""
        return self._task.done()

    async def wait(self) -> None:
        """Wait until the process ends by itself; raise what it raised."""
        await self._task

    async def crash(self) -> None:
        """End the process: its store handle first, so that nothing it does while ending is durable."""
        self.engine.crash()
        self._task.cancel("the node crashed")
        await asyncio.wait([self._task])
        error = None if self._task.cancelled() else self._task.exception()
        if error is not None and not (isinstance(error, Unavailable) and error.code == "testing.crashed"):
            raise error


def simulate(
    scenario: Callable[[Simulation], Coroutine[Any, Any, T]],
    *,
    seeds: Iterable[int] | None = None,
    faults: Faults | FaultPlan = ROUGH,
    steps_max: int = STEPS_MAX,
) -> list[Run[T]]:
    """Run `scenario(simulation)` once a seed and return the runs; raise at the first seed that fails.

    Without `seeds`, `CELLULE_SIM_SEED` names one seed and `CELLULE_SIM_SEEDS` how many to try.
    """
    runs = []
    for seed in seeds_wanted() if seeds is None else seeds:
        tried = _try_seed(scenario, seed, faults, steps_max, traced=False)
        if tried.error is not None:
            confirmed = _confirm(scenario, seed, faults, steps_max, tried)
            raise _seed_failed(scenario, seed, tried, confirmed, by_name=seeds is not None) from tried.error
        done = tried.run
        runs.append(Run(done.result, done.digest, done.steps, done.now_ns))
    return runs  # type: ignore[return-value]


def seeds_wanted(default: int = SEEDS_DEFAULT) -> Iterable[int]:
    """The seeds the environment asks for: `CELLULE_SIM_SEED` alone, or `CELLULE_SIM_SEEDS` from 0 up."""
    one, many = os.environ.get("CELLULE_SIM_SEED"), os.environ.get("CELLULE_SIM_SEEDS")
    if one is not None:
        return [_whole("CELLULE_SIM_SEED", one)]
    return range(default if many is None else _whole("CELLULE_SIM_SEEDS", many))


def _try_seed(
    scenario: Callable[[Simulation], Coroutine[Any, Any, T]],
    seed: int,
    faults: Faults | FaultPlan,
    steps_max: int,
    *,
    traced: bool,
) -> Attempt[T]:
    async def main() -> T:
        simulation = Simulation(seed, faults)
        result = await scenario(simulation)
        await simulation.wire.close()
        return result

    return attempt(main, seed=seed, steps_max=steps_max, traced=traced)


def _confirm(
    scenario: Callable[[Simulation], Coroutine[Any, Any, T]],
    seed: int,
    faults: Faults | FaultPlan,
    steps_max: int,
    failed: Attempt[T],
) -> str:
    """Run a failed seed again and say whether it failed identically; if not, say where runs part."""
    again = _try_seed(scenario, seed, faults, steps_max, traced=True)
    if again.run.digest == failed.run.digest and type(again.error) is type(failed.error):
        return f"Replayed: it fails identically (digest {failed.run.digest[:16]})."
    third = _try_seed(scenario, seed, faults, steps_max, traced=True)
    lines = enumerate(zip_longest(again.trace, third.trace), start=1)
    apart = next((f"step {step}: {one!r} or {two!r}" for step, (one, two) in lines if one != two), None)
    where = f"Two replays part at {apart}." if apart else "Two replays agree with each other, not with it."
    return f"NOT reproduced: the scenario depends on something outside its seed. {where}"


def _seed_failed(
    scenario: Callable[..., object], seed: int, failed: Attempt[T], confirmed: str, *, by_name: bool
) -> InvariantBroken:
    name = getattr(scenario, "__qualname__", type(scenario).__qualname__)
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    replay = f"simulate({name.rpartition('.')[2]}, seeds=[{seed}])"
    if test and not by_name:
        replay = f"CELLULE_SIM_SEED={seed} python -m pytest '{test}'"
    return InvariantBroken(
        "testing.seed_failed",
        "{scenario} fails with seed {seed} (step {steps}, second {second}): {error!r}\n"
        "{confirmed}\nReplay: {replay}",
        scenario=name, seed=seed, steps=failed.run.steps, second=failed.run.now_ns / 1e9, error=failed.error,
        confirmed=confirmed, replay=replay, digest=failed.run.digest,
    )  # fmt: skip


def _whole(name: str, text: str) -> int:
    if not text.strip().isdigit():
        raise Rejected(
            "testing.seed_setting", "{name} is {text!r}; it takes a whole number", name=name, text=text
        )
    return int(text)
