"""What a world does beside beats: snapshots, restore, verification. CPU time.

Snapshot  of a world of 100,000 orders after 10, 1,000 and 10,000 of them changed: fixing the state, writing
          all slices, and taking the blocks into a CAS in memory. The cost follows what changed: it shows as a
          time per changed cell, which sinks as changes share nodes.
Restore   a second world from the first baseline and all frames above it, of 1,000 events and steps each.
Verify    the same, and every recorded step is run again and compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.kernel_order import event_items, new_world
from bench.report import Row, measured
from bench.timing import Side, best_of
from tests.support.kernel_world import KernelWorld

CELLS = 100_000
CHANGED = (10, 1_000, 10_000)
BEAT_EVENTS = 1_000


def run(*, quick: bool) -> Iterator[Row]:
    """Snapshots, then restore and verify."""
    yield from _snapshots(500 if quick else CELLS, (5, 50, 500) if quick else CHANGED, 1 if quick else 5)
    yield from _restore(2 if quick else 50, 1 if quick else 5)


def _snapshots(cells: int, counts: tuple[int, ...], rounds: int) -> Iterator[Row]:
    with new_world() as world:
        _send(world, range(cells), 0)
        case = f"snapshot of {cells:,} cells"
        [first_s] = best_of(Side(lambda _: world.snapshot()), rounds=1)
        yield measured("kernel", case, f"the first, all {cells:,} new", first_s * 1e3, "ms")
        for changed in counts:
            turns = iter(range(1, rounds + 1))

            def change(changed: int = changed, turns: Iterator[int] = turns) -> None:
                turn = next(turns)
                step = cells // changed
                _send(world, range(turn % step, cells, step), turn)

            [best_s] = best_of(Side(lambda _: world.snapshot(), change), rounds=rounds)
            yield measured("kernel", case, f"{changed:,} changed", best_s * 1e3, "ms")
            yield measured("kernel", case, f"{changed:,} changed, each", best_s / changed * 1e6, "us")


def _restore(turns: int, rounds: int) -> Iterator[Row]:
    with new_world() as world:
        for turn in range(turns):
            _send(world, range(BEAT_EVENTS), turn)
        steps = turns * BEAT_EVENTS
        records = world.world.ledger.height

        def verify(_: None) -> None:
            assert world.verify() is None

        restore_s, verify_s = best_of(Side(lambda _: world.restored()), Side(verify), rounds=rounds)
    case = f"{len(world.frames):,} frames, {records:,} records"
    yield measured("kernel", case, "restore, records", records / restore_s, "/s")
    yield measured("kernel", case, "verify, steps", steps / verify_s, "/s")


def _send(world: KernelWorld, numbers: range, turn: int) -> None:
    for start in range(0, len(numbers), BEAT_EVENTS):
        world.beat(event_items(numbers[start : start + BEAT_EVENTS], turn))
