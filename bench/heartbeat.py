"""The heartbeat: impulses beside a registry that grows, cascades, open operations, a large tree. CPU time.

Impulses    a beat with 1,000 impulses, each with a signal of its own, so that each is resolved; one enzyme
            runs for each and does nothing. Beside it the registry holds 10, 1,000 and 100,000 entries that
            match none of them. Worlds take turns.
Cascade     an enzyme that emits the next signal, 500 beats long.
Operations  100,000 that are open, each with a watcher; then a beat beside them and beside ten.
Tree        1,000,000 nodes written from outside, 1,000 a beat; then reads and listings of what is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

from bench.report import Row, at_most, measured
from bench.timing import Side, best_of
from cellule import App, EnzymeContext
from cellule.host.read.heartbeat import names_below, value_at
from cellule.kernel.items import LATER, ControlItem, Item, RefusedItem, SignalItem, Verb
from cellule.kernel.need import drive
from cellule.modules.kinds import CodeKinds
from tests.support.kernel_world import KernelWorld

BATCH = 1_000
ENTRIES = (10, 1_000, 100_000)
CASCADE = 500
OPERATIONS = 100_000
NODES = 1_000_000
READS = 1_000
GROWTH_MAX = 3


def run(*, quick: bool) -> Iterator[Row]:
    """Impulses, cascades, operations and the tree."""
    yield from _impulses((3, 30) if quick else ENTRIES, 10 if quick else BATCH, 1 if quick else 7)
    yield from _cascade(5 if quick else CASCADE, 1 if quick else 5)
    yield from _operations(20 if quick else OPERATIONS, 1 if quick else 5)
    yield from _tree(200 if quick else NODES, 20 if quick else READS)


def bench_app() -> App:
    """One enzyme that does nothing, and one that goes on until its number is used up."""
    app = App("bench")

    @app.enzyme("/bench/run", match="prefix")
    def quiet(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
        pass

    @app.enzyme("/bench/chain")
    def chain(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:  # noqa: ARG001
        if ctx.payload:
            ctx.signal("/bench/chain", payload=ctx.payload - 1)

    return app


@contextmanager
def heart_world() -> Iterator[KernelWorld]:
    """A new world of the app; its functions run live."""
    built: Any = bench_app().build(live=True)
    programs = CodeKinds(live=built.descriptions)
    try:
        world = KernelWorld(built.manifest.data, programs)
        world.cas.update(built.blocks)
        world.beat()
        yield world
    finally:
        programs.close()


def _impulses(sizes: tuple[int, ...], impulses: int, rounds: int) -> Iterator[Row]:
    with ExitStack() as stack:
        sides = [_with_entries(stack.enter_context(heart_world()), size, impulses) for size in sizes]
        taken = best_of(*sides, rounds=rounds)
    for size, taken_s in zip(sizes, taken, strict=True):
        yield measured(
            "heartbeat", f"{size:,} entries that do not match", "impulses", impulses / taken_s, "/s"
        )
    case = f"{sizes[-1]:,} entries that do not match"
    growth = taken[-1] / taken[0]
    yield at_most("heartbeat", case, f"an impulse, vs {sizes[0]:,} entries", growth, "x", GROWTH_MAX)


def _with_entries(world: KernelWorld, size: int, impulses: int) -> Side:
    entries = ({"name": f"e{n}", "query": f"/other/{n}/*", "module": "bench/quiet"} for n in range(size))
    _do_all(world, (_control("enzyme.register", entry=entry) for entry in entries))
    turns = count()

    def prepare() -> list[Item]:
        turn = next(turns)
        return [SignalItem(f"/bench/run/{turn}/{number}") for number in range(impulses)]

    return Side(lambda items: _settle(world, items), prepare)


def _cascade(length: int, rounds: int) -> Iterator[Row]:
    with heart_world() as world:
        payload = length.to_bytes(1, "big") if length < 24 else b"\x19" + length.to_bytes(2, "big")
        [best_s] = best_of(
            Side(lambda _: _settle(world, [SignalItem("/bench/chain", payload=payload)])), rounds=rounds
        )
    yield measured("heartbeat", f"a cascade of {length:,} beats", "a beat", best_s / length * 1e6, "us")


def _operations(size: int, rounds: int) -> Iterator[Row]:
    with heart_world() as few, heart_world() as many:
        _open_operations(few, min(size, 10))
        [opened_s] = best_of(Side(lambda _: _open_operations(many, size)), rounds=1)
        beat: list[Item] = [_control("heartbeat.beat")]
        few_s, many_s = best_of(
            Side(lambda _: few.beat(beat)), Side(lambda _: many.beat(beat)), rounds=rounds
        )
    case = f"{size:,} open operations, each with a watcher"
    yield measured("heartbeat", case, "start and await, each", opened_s / size * 1e6, "us")
    yield measured("heartbeat", case, "a beat beside them", many_s * 1e6, "us")
    yield at_most("heartbeat", case, "a beat, vs ten", many_s / few_s, "x", GROWTH_MAX)


def _open_operations(world: KernelWorld, size: int) -> None:
    start = _control("op.start", verb="bench/work", target="/bench", mode="opm:states", ttl=0)
    for begin in range(0, size, BATCH):
        number = min(BATCH, size - begin)
        assert not world.beat([start] * number).more
        beat = world.world.ledger.beat
        ids = [f"{beat}-{each}" for each in range(1, number + 1)]
        awaits = [_control("op.await", operation=id, want="sts:ok", cont="/bench/run", ttl=0) for id in ids]
        _settle(world, list(awaits))


def _tree(size: int, reads: int) -> Iterator[Row]:
    with heart_world() as world:
        paths = [f"/tree/{number % 1_000}/{number // 1_000}" for number in range(size)]
        writes = (_control("tree.write", path=path, value={"number": 1}) for path in paths)
        [written_s] = best_of(Side(lambda _: _do_all(world, writes)), rounds=1)
        world.snapshot()
        step, ledger = max(1, size // reads), world.world.ledger

        def read(_: None) -> None:
            for path in paths[::step]:
                assert drive(value_at(ledger, path), ledger.nodes, world.fetch) is not None

        def listed(_: None) -> None:
            assert drive(names_below(ledger, "/tree", None, 1_000), ledger.nodes, world.fetch)

        read_s, listed_s = best_of(Side(read), Side(listed), rounds=1)
    case = f"a tree of {size:,} nodes"
    yield measured("heartbeat", case, "a write", written_s / size * 1e6, "us")
    yield measured("heartbeat", case, "a read", read_s / len(paths[::step]) * 1e6, "us")
    yield measured("heartbeat", case, "a listing of up to 1,000 names", listed_s * 1e3, "ms")


def _do_all(world: KernelWorld, items: Iterator[Item]) -> None:
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == BATCH:
            _settle(world, batch)
            batch = []
    if batch:
        _settle(world, batch)


def _settle(world: KernelWorld, items: list[Item]) -> None:
    """Beat until all items are taken and nothing is left to do; none of them may be refused."""
    left = items
    while True:
        answer = world.beat(left)
        refused = [each for each in answer.outcomes if isinstance(each, RefusedItem)]
        assert not refused, refused[0].error
        left = [item for item, outcome in zip(left, answer.outcomes, strict=True) if outcome is LATER]
        if not left and not answer.more:
            return


def _control(verb: Verb, /, **arguments: Any) -> ControlItem:
    return ControlItem(verb, "bench", "measured", arguments)
