"""A state in which nothing can change goes from the step that made it to the next; others are read anew."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import msgspec
import pytest

from cellule import App, Step
from cellule.errors import StepFailed
from cellule.modules.python import program
from cellule.testing import World


class Added(msgspec.Struct, frozen=True):
    who: str
    amount: int


class Frozen(msgspec.Struct, frozen=True):
    total: int
    last: tuple[str, bool]
    note: str | None = None


class Open(msgspec.Struct):
    total: int
    last: tuple[str, bool]
    note: str | None = None


class WithList(msgspec.Struct, frozen=True):
    total: int
    last: tuple[str, bool]
    notes: list[str] = []


class WithFloat(msgspec.Struct, frozen=True):
    total: int
    last: tuple[str, bool]
    share: float = 0.5


class WithDict(msgspec.Struct, frozen=True, dict=True):
    total: int
    last: tuple[str, bool]


class Lasting(msgspec.Struct, frozen=True):
    total: int
    last: tuple[str, bool]

    def __post_init__(self):
        assert self.total >= 0


def world_of(state, *, bare=False):
    """A world of cells that add up, and what each step was given and answered."""
    app = App("kept")
    app.event(key="who")(Added)
    given, answered = [], []

    def adding(now, event):
        given.append(now)
        answered.append(state((0 if now is None else now.total) + event.amount, (event.who, True)))
        return answered[-1] if bare else Step(answered[-1])

    adding.__annotations__ = {"now": state | None, "event": Added, "return": state if bare else Step[state]}
    app.reducer(name="adding")(adding)
    return World(app, guard=False, live=True), given, answered


@pytest.mark.parametrize("bare", [False, True])
def test_a_frozen_state_of_scalars_is_handed_on(bare):
    world, given, answered = world_of(Frozen, bare=bare)
    for amount in (1, 2, 3):
        world.send(Added("a", amount))
    assert given == [None, Frozen(1, ("a", True)), Frozen(3, ("a", True))]
    assert given[1] is answered[0]
    assert given[2] is answered[1]
    world.assert_replays()


@pytest.mark.parametrize("state", [Open, WithList, WithFloat, WithDict, Lasting])
def test_any_other_state_is_read_anew(state):
    world, given, answered = world_of(state)
    for amount in (1, 2):
        world.send(Added("a", amount))
    assert given[1] == answered[0]
    assert given[1] is not answered[0]
    world.assert_replays()


def test_cells_with_the_same_bytes_keep_apart():
    world, given, _ = world_of(Frozen)
    for _ in range(3):
        world.send_many([Added("a", 1), Added("b", 1)])
    assert [None if state is None else state.total for state in given] == [None, None, 1, 1, 2, 2]


def test_no_more_states_are_kept_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(program, "KEPT_MAX", 3)
    world, given, _ = world_of(Frozen)
    for turn in range(4):
        world.send_many([Added(f"cell {number}", 1) for number in range(10)])
        assert [0 if state is None else state.total for state in given[-10:]] == [turn] * 10
    world.assert_replays()


def test_a_step_that_fails_leaves_the_state_as_it_was():
    app = App("kept")
    app.event(key="who")(Added)

    @app.reducer(failure="skip")
    def picky(state: Frozen | None, event: Added) -> Frozen:
        if event.amount < 0:
            raise ValueError("too little")
        return Frozen((0 if state is None else state.total) + event.amount, (event.who, True))

    world = World(app, guard=False, live=True)
    for amount in (5, -1, -2, 3):
        world.send(Added("a", amount), check=False)
    assert world.state(picky, "a") == Frozen(8, ("a", True))
    world.assert_replays()


class Color(StrEnum):
    RED = "red"


class Grade(IntEnum):
    ONE = 1


class Label(str):
    __slots__ = ()


class Number(int):
    pass


class Marked(msgspec.Struct, frozen=True):
    name: str
    grade: int
    pair: tuple[str, int] = ("", 0)
    note: str | None = None


class Mark(msgspec.Struct, frozen=True):
    who: str
    name: str
    grade: int


MARKED = {
    "text enum": Marked(Color.RED, 1),
    "integer enum": Marked("red", Grade.ONE),
    "text": Marked(Label("red"), 1),
    "integer": Marked("red", Number(1)),
    "inside": Marked("red", 1, (Color.RED, 1)),
    "option": Marked("red", 1, note=Label("note")),
}


def marking(answer, seen):
    """A world whose cells answer `answer`, and what each step was given: states and events."""
    app = App("kept")
    app.event(key="who")(Mark)

    def mark(state: Marked | None, event: Mark) -> Marked:
        seen.append((state, event))
        return answer

    app.reducer(mark)
    return World(app, guard=False, live=True)


def leaves(value):
    if isinstance(value, msgspec.Struct):
        return [leaf for each in msgspec.structs.astuple(value) for leaf in leaves(each)]
    return [leaf for each in value for leaf in leaves(each)] if isinstance(value, tuple) else [type(value)]


@pytest.mark.parametrize("name", MARKED)
def test_a_state_is_read_as_its_bytes_say(name):
    """An enum in a field of text was handed on as it was, and was a text after a restart."""
    seen = []
    world = marking(MARKED[name], seen)
    for _ in range(3):
        world.send(Mark("a", "n", 1))
    world.restart()
    world.send(Mark("a", "n", 1))
    states = [state for state, _ in seen[1:]]
    assert [leaves(state) for state in states] == [leaves(states[-1])] * 3
    assert set(leaves(states[0])) <= {str, int, type(None)}
    world.assert_replays()


@pytest.mark.parametrize("values", [(Color.RED, 1), ("red", Grade.ONE), (Label("red"), Number(1))])
def test_an_event_is_read_as_its_bytes_say(values):
    seen = []
    world = marking(Marked("red", 1), seen)
    world.send(Mark(Label("a"), *values))
    world.restart()
    world.assert_replays()
    assert len(seen) == 2
    assert [leaves(event) for _, event in seen] == [[str, str, int]] * 2


@pytest.mark.parametrize("evict", [False, True])
def test_a_step_that_asks_which_object_it_got_is_not_repeatable(evict):
    """States are kept in memory where that changes nothing: only a step that looks at identity can tell."""
    app = App("kept")
    app.event(key="who")(Added)
    last = [None]

    @app.reducer
    def telling(state: Frozen | None, event: Added) -> Frozen:
        same = state is not None and state is last[0]
        last[0] = Frozen(event.amount, (event.who, same))
        return last[0]

    world = World(app, guard=False, live=True, evict=evict)
    world.send(Added("a", 1))
    world.send(Added("a", 2))
    assert world.state(telling, "a") == Frozen(2, ("a", not evict))
    if evict:
        world.assert_replays()
        return
    with pytest.raises(StepFailed, match="did something else when it ran again") as caught:
        world.assert_replays()
    assert caught.value.code == "testing.not_repeatable"
    world.restart()
    world.send(Added("a", 3))
    assert world.state(telling, "a") == Frozen(3, ("a", False))
