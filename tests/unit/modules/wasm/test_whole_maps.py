"""One binary for both modes: the counter in C and AssemblyScript as one map, then as cells, as in Python."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cellule import App
from cellule.errors import Refused
from cellule.testing import World
from tests.support.wasm_sources import EXAMPLE, SUFFIXES, built

ENTRIES = {
    ".c": [("CELLULE_STEP(count)", "CELLULE_ENTRIES(count)")],
    ".ts": [
        ("answer(count(read(pointer, length)))", "answerEntry(read(pointer, length), count)"),
        ("answer, read }", "answerEntry, read }"),
    ],
}


class Added(msgspec.Struct, frozen=True):
    id: str
    by: int
    note: str = ""


class Cleared(msgspec.Struct, frozen=True):
    id: str


class Reached(msgspec.Struct, frozen=True):
    id: str
    total: int


class Count(msgspec.Struct, frozen=True):
    total: int
    events: int
    mean: float
    last: str


@pytest.fixture(scope="module", params=SUFFIXES)
def binary(request, tmp_path_factory) -> Path:
    """The example's counter, with the SDK's wrapper for both modes."""
    suffix = request.param
    text = (EXAMPLE / f"counter{suffix}").read_text()
    for old, new in ENTRIES[suffix]:
        assert old in text
        text = text.replace(old, new)
    source = tmp_path_factory.mktemp("entries") / f"counter{suffix}"
    source.write_text(text)
    path = source.with_suffix(".wasm")
    path.write_bytes(built(source))
    return path


def counters(binary: Path, **options: Any) -> tuple[App, Any]:
    app = App("counters")
    for event in (Added, Cleared, Reached):
        app.event(key="id")(event)
    module = app.wasm(
        "counter", binary, Added, Cleared, state=Count, reply=int, emits=[Reached], fuel=200_000, **options
    )
    return app, module


EVENTS = [
    Added("a", 5), Added("b", 7, "seven"), Added("a", -2), Added("b", -99), Added("c", 200), Cleared("b"),
    Added("b", 1), Added("61", 3), Cleared("never"),
]  # fmt: skip


def states(world: World, counter: Any, whole: bool) -> dict[str, Any]:
    if whole:
        return dict(world.state(counter) or {})
    return {cell.key: cell.state for cell in world.cells(counter)}


def test_one_binary_serves_the_map_and_the_cells_and_the_move_between_them(binary):
    app, counter = counters(binary)
    cells = World(app)
    whole_app, whole_counter = counters(binary, cell_mode=False)
    whole = World(whole_app)
    for event in EVENTS:
        answers = []
        for world in (cells, whole):
            with suppress(Refused):
                answers.append(world.send(event).reply)
        assert answers in ([], answers[:1] * 2)
    assert states(whole, whole_counter, True) == states(cells, counter, False)
    assert list(whole.emitted) == list(cells.emitted) == [Reached("c", 200)]
    whole.deploy(app, migrate_cells=True)
    for world in (cells, whole):
        world.send(Added("a", 1, "last"))
    assert states(whole, counter, False) == states(cells, counter, False)
    assert [cell.key for cell in whole.cells(counter)] == [cell.key for cell in cells.cells(counter)]
    for world in (cells, whole):
        world.assert_replays()


def test_the_wrapper_finds_keys_that_are_no_texts(binary):
    """The map is a list of pairs then; the state of one key is what the counter says of it."""
    app = App("counters")

    class Added(msgspec.Struct, frozen=True):  # the counter reads `by` and `note` of an event of this name
        id: int
        by: int
        note: str = ""

    app.event(key="id")(Added)
    app.event(key="id")(Reached)
    counter = app.wasm("counter", binary, Added, state=Count, fuel=200_000, cell_mode=False)
    world = World(app)
    for id, by in ((300, 5), (-7, 6), (300, 1), (24, 2)):
        world.send(Added(id, by))
    assert {key: state.total for key, state in world.state(counter).items()} == {300: 6, -7: 6, 24: 2}
    world.assert_replays()
