"""`app.wasm`: a WebAssembly module with the classes of an app, tested and read like every other module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cellule import App, timer
from cellule.errors import Rejected, StepFailed
from cellule.testing import World
from cellule.values import encode
from tests.support.wasm_modules import HOSTILE, answers, state_answer


class Added(msgspec.Struct, frozen=True):
    id: str
    n: int = 1


class Count(msgspec.Struct, frozen=True):
    n: int


class Told(msgspec.Struct, frozen=True):
    id: str


def app_of(path: Path | str, **options: Any) -> tuple[App, Any]:
    app = App("t")
    app.event(key="id")(Added)
    app.event(key="id")(Told)
    return app, app.wasm("counter", path, Added, state=Count, **options)


@pytest.fixture
def seven(tmp_path: Path) -> Path:
    path = tmp_path / "seven.wat"
    path.write_text(answers(state_answer({"n": 7}, reply=encode({"n": 8}))))
    return path


def test_states_and_replies_are_objects_of_the_apps_classes(seven):
    app, counter = app_of(seven, reply=Count)
    world = World(app)
    assert world.send(Added("a")).reply == Count(8)
    assert world.state(counter, "a") == Count(7)
    assert world.state(counter, "b") is None
    world.assert_replays()


def test_a_module_without_keys_has_one_cell(seven):
    app, counter = app_of(seven, keyed=False)
    world = World(app)
    world.send(Added("a"))
    assert world.state(counter) == Count(7)
    world.assert_replays()


def test_all_that_is_declared_stands_in_the_manifest(seven):
    app, _ = app_of(
        seven, fuel=5, memory_bytes=65_536, context=True, emits=[Told], effects=[timer], failure="skip",
        upgrade="pin", open_max=3, version=4,
    )  # fmt: skip
    entry = app.build().manifest.modules["t/counter"]
    assert (entry.code["fuel"], entry.code["memory_bytes"], entry.context) == (5, 65_536, True)
    assert (entry.failure, entry.upgrade, entry.open_max) == ("skip", "pin", 3)
    assert set(entry.events) == {"t/Added@1", "sys/TimerFired@1"}
    assert list(entry.effects_emitted) == ["timer.set"]


def test_a_step_that_traps_fails_with_its_own_code(tmp_path):
    path = tmp_path / "loop.wat"
    path.write_text(HOSTILE["endless loop"][0])
    app, _ = app_of(path, fuel=1_000, failure="skip")
    world = World(app)
    with pytest.raises(StepFailed) as caught:
        world.send(Added("a"))
    world.assert_replays()
    assert caught.value.code == "modules.wasm_fuel"


def test_a_relative_path_counts_from_the_file_of_the_call():
    app, _ = app_of("gone.wasm")
    with pytest.raises(Rejected, match="cannot be read") as caught:
        app.build()
    assert str(Path(__file__).parent / "gone.wasm") in str(caught.value)
    assert "t/counter@1" in str(caught.value)


@pytest.mark.parametrize("damaged", [b"\0asm\2\0\0\0", b"\0asm", b"\0asm\1\0\0\0\xff", b"", b"MZ\x90"])
def test_a_file_with_a_damaged_header_is_refused_when_the_app_is_built(tmp_path, damaged):
    (tmp_path / "bad.wasm").write_bytes(damaged)
    app, _ = app_of(tmp_path / "bad.wasm")
    with pytest.raises(Rejected) as caught:
        app.build()
    assert caught.value.code == "modules.wasm_invalid"


@pytest.mark.parametrize("options", [
    {"fuell": 1}, {"failure": "stop"}, {"upgrade": "never"}, {"open_max": 0}, {"retention": 3},
])  # fmt: skip
def test_an_option_that_is_not_possible_is_refused_at_once(seven, options):
    with pytest.raises(Rejected, match=next(iter(options))) as caught:
        app_of(seven, **options)
    assert caught.value.code == "app.option"
    assert "app.wasm" in str(caught.value)


@pytest.mark.parametrize(
    "options", [{"fuel": 0}, {"memory_bytes": 1}, {"key": "nothing"}, {"emits": [Count]}]
)
def test_what_does_not_fit_the_app_is_refused_when_it_is_built(seven, options):
    app, _ = app_of(seven, **options)
    with pytest.raises(Rejected):
        app.build()


def test_events_are_needed(seven):
    with pytest.raises(Rejected, match="events"):
        App("t").wasm("counter", seven, state=Count)
