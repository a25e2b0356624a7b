"""Cells and enzymes tell each other: signals that steps emit, impulses for cells, failures as diagnostics."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cellule import App, EnzymeContext, Rejected, Signal, Step, StepFailed
from cellule.testing import World

app = App("post")


@app.event(key="who")
class Sent(msgspec.Struct, frozen=True):
    who: str
    what: str


@app.reducer
def box(state: list[Any] | None, event: Sent | Signal) -> Step[list[Any]]:
    held = list(state or [])
    if isinstance(event, Signal):
        return Step([*held, [event.signal, event.target, event.payload]])
    match event.what:
        case "tell":
            return Step([*held, "told"], emit=[Signal("/mail/new", payload={"who": event.who})])
        case "later":
            return Step(held, emit=[Signal("/mail/new", "/shelf", payload=1, beat=50)])
        case "loop":
            return Step(held, emit=[Signal("/loop", target=f"/cells/post/box/{event.who}")])
        case "nothing":
            return Step(held, emit=[Signal()])
        case "fail":
            raise ValueError("no luck")
    return Step(held)


@app.reducer(keyed=False)
def total(state: int | None, event: Sent) -> int:
    return (state or 0) + 1


@app.enzyme("/mail", match="prefix")
def sort(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    ctx.write("/sorted", ctx.payload)
    ctx.signal("/for/you", target="/cells/post/box/eve", payload=[ctx.payload])


@app.enzyme("/sig_cei/error")
def worry(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    ctx.write("/worries/" + str(ctx.beat), ctx.payload["text"])


@app.enzyme("/sig_cei/warn")
def warned(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    ctx.write("/warned", ctx.payload["code"])


@pytest.fixture
def world():
    made = World(app)
    yield made
    made.assert_replays()


def test_a_signal_of_a_step_runs_in_the_next_beat_and_an_impulse_for_a_cell_is_its_message(world):
    world.send(Sent("ada", "tell"))
    assert world.heartbeat.read("/sorted") == {"who": "ada"}
    assert world.state(box, "eve") == [["/for/you", "/cells/post/box/eve", [{"who": "ada"}]]]
    assert world.state(box, "ada") == ["told"]


def test_a_signal_of_a_step_may_be_for_a_later_beat(world):
    world.send(Sent("ada", "later"))
    assert not world.heartbeat.exists("/sorted")
    world.heartbeat.write("/shelf")
    world.heartbeat.bind("/shelf", "sort")
    world.advance(minutes=2)
    assert world.heartbeat.read("/sorted") == 1


def test_a_signal_that_is_none_fails_the_step(world):
    with pytest.raises(StepFailed, match="neither"):
        world.send(Sent("ada", "nothing"))


def test_a_failed_step_is_told_as_a_diagnostic(world):
    with pytest.raises(StepFailed):
        world.send(Sent("ada", "fail"))
    (name,) = world.heartbeat.list("/worries")
    assert "no luck" in world.heartbeat.read(f"/worries/{name}")


@pytest.mark.parametrize("place", ["total", "nobody", "box"])
def test_an_impulse_for_a_cell_that_takes_none_is_dropped_with_a_warning(world, place):
    """A module that takes no signals, one that is not there, and a keyed one without a key."""
    world.signal("/x", target=f"/cells/post/{place}")
    world.settle()
    assert world.heartbeat.read("/warned") == "heartbeat.cell_refuses"


def test_a_key_that_is_no_segment_of_a_path_is_escaped(world):
    world.signal("/x", target="/cells/post/box/a%2Fb%25", payload=None)
    world.settle()
    assert world.state(box, "a/b%") == [["/x", "/cells/post/box/a%2Fb%25", None]]


@pytest.mark.parametrize("target", ["/cells", "/cells/post", "/cells/post/box/a/b", "/cells/post/box/%2"])
def test_a_path_of_no_cell_is_refused(world, target):
    with pytest.raises(Rejected) as caught:
        world.signal("/x", target=target)
    assert caught.value.code == "heartbeat.cell_path"
