"""Whatever an enzyme's objects do where they are touched, only its run fails: none reaches the kernel."""

from __future__ import annotations

import sys
from enum import IntEnum

import pytest

from cellule import App, EnzymeContext
from cellule.kernel.limits import RUN_ACTIONS_MAX
from cellule.testing import World

app = App("hostile")


class Text(str):
    """A text that ends the process wherever somebody looks at it."""

    __slots__ = ()

    def _exit(self, *_: object) -> object:
        sys.exit("a text was asked")

    __str__ = __repr__ = __len__ = __eq__ = __contains__ = __getitem__ = __format__ = __iter__ = _exit  # type: ignore[assignment]
    encode = split = startswith = removeprefix = lstrip = _exit  # type: ignore[assignment]

    def __hash__(self) -> int:
        return 1


class Number(int):
    """A number that ends the process wherever somebody looks at it."""

    def _exit(self, *_: object) -> object:
        sys.exit("a number was asked")

    __repr__ = __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __add__ = __bool__ = _exit  # type: ignore[assignment]

    def __hash__(self) -> int:
        return 1


class Unprintable:
    def __repr__(self) -> str:
        sys.exit("it was printed")


class Code(IntEnum):
    FINE = 7


DOES = {
    "answers what cannot be printed": lambda ctx: Unprintable(),
    "answers a number of its own": lambda ctx: Number(5),
    "answers a member": lambda ctx: Code.FINE,
    "answers true": lambda ctx: True,
    "answers a number of many digits": lambda ctx: 1 << 20_000,
    "reports a severity": lambda ctx: ctx.report(Text("warn"), "x"),
    "reports a text": lambda ctx: ctx.report("warn", Text("x")),
    "reports what cannot be printed": lambda ctx: ctx.report("warn", Unprintable()),
    "binds a name": lambda ctx: ctx.bind("/a", Text("x")),
    "binds at a path": lambda ctx: ctx.bind(Text("/a"), "x"),
    "signals": lambda ctx: ctx.signal(Text("/a")),
    "signals for a beat": lambda ctx: ctx.signal("/a", beat=Number(50)),
    "signals a payload": lambda ctx: ctx.signal("/a", payload=Text("x")),
    "writes": lambda ctx: ctx.write(Text("/w"), [Text("x"), Number(5)]),
    "writes what cannot be printed": lambda ctx: ctx.write("/w", Unprintable()),
    "reads": lambda ctx: ctx.read(Text("/w")),
    "lists": lambda ctx: ctx.list("/", after=Text("a"), limit=5),
    "lists a number": lambda ctx: ctx.list("/", limit=Number(5)),
    "registers a name": lambda ctx: ctx.register(Text("n"), "/q", module="hostile/attack"),
    "registers a query": lambda ctx: ctx.register("n", Text("/q"), module="hostile/attack"),
    "registers a module": lambda ctx: ctx.register("n", "/q", module=Text("hostile/attack")),
    "registers a match": lambda ctx: ctx.register("n", "/q", module="hostile/attack", match=Text("exact")),
    "registers access": lambda ctx: ctx.register("n", "/q", module="hostile/attack", access=Text("ro")),
    "registers a limit": lambda ctx: ctx.register("n", "/q", module="hostile/attack", depth=Number(5)),
    "starts": lambda ctx: ctx.op.start(Text("v"), Text("/t"), ttl=Number(4)),
    "tells a state": lambda ctx: ctx.op.state(ctx.op.start("v", "/t"), Text("x"), code=Number(3)),
    "awaits": lambda ctx: ctx.op.await_(ctx.op.start("v", "/t"), Text("x"), Text("/c"), ttl=Number(3)),
    "closes": lambda ctx: ctx.op.close(ctx.op.start("v", "/t"), Text("sts:ok"), summary=Text("s")),
    "asks for nothing": lambda ctx: ctx.effect(Unprintable()),
    "hides an action": lambda ctx: ctx._actions.append({"do": Text("write"), "path": Unprintable()}),
}


@app.enzyme("/attack")
def attack(ctx: EnzymeContext, signal: str | None, target: str | None) -> int | None:
    found: int | None = DOES[ctx.payload](ctx)
    return found


@app.enzyme("/many")
def many(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    for number in range(1_000_000):
        try:
            ctx.signal("/fine", payload=number)
        except BaseException:  # noqa: BLE001 - what authors should not do
            break


@app.enzyme("/fine")
def fine(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    ctx.write("/seen", ctx.payload)


def line_of(world, signal):
    """What the agenda says of the one run that a signal led to."""
    [line] = [line for beat in world.heartbeat.beats() for line in beat.agenda if line.signal == signal]
    return line


@pytest.mark.parametrize("name", DOES)
def test_an_enzyme_with_hostile_objects_fails_alone(name):
    world = World(app)
    world.heartbeat.signal("/attack", payload=name)
    world.heartbeat.signal("/fine", payload=name)
    world.settle()
    assert world.heartbeat.read("/seen") == name
    if name.startswith("answers"):
        assert line_of(world, "/attack").code == {"a number of its own": 5, "a member": 7}.get(name[8:], -2)
    world.assert_replays()


def test_a_run_that_does_too_much_is_stopped_at_its_limit():
    """The list of what a run did had no bound while it ran: two million signals took a gigabyte."""
    world = World(app)
    world.heartbeat.signal("/many")
    world.settle()
    line = line_of(world, "/many")
    assert line.code == -2
    assert str(RUN_ACTIONS_MAX) in line.text
    assert world.heartbeat.read("/seen") is None
