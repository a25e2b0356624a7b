"""A test's world is run again in another process with another hash seed."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from textwrap import dedent, indent

import pytest

from cellule.errors import StepFailed, Unavailable
from cellule.testing import World
from cellule.testing.other_process import OTHER_PROCESS, OtherProcess, other_seed

HEAD = """
import msgspec
from cellule import App

app = App("seeds")


@app.event(key="who")
class Named(msgspec.Struct, frozen=True):
    who: str
    names: list[str]


class Seen(msgspec.Struct, frozen=True):
    text: str


def pieces(event):
    return {name.upper() for name in event.names}


@app.reducer
def seen(state: Seen | None, event: Named) -> Seen:
    text = ""
    s = set(event.names)
"""
NAMES = [f"name {number}" for number in range(40)]
numbers = count()

# Each gives other bytes in every process, and nothing within one of them tells.
DEPENDS = {
    "a loop": "for x in s: text += x",
    "join": 'text = ",".join(x for x in s)',
    "ties": "text = repr(sorted(s, key=len))",
    "format": 'text = f"{s}"',
    "a helper": "for x in pieces(event): text += x",
    "keys": "text = repr(dict.fromkeys(s))",
    "hashes": "text = repr(list(map(hash, event.names)))",
    "pickle": "import pickle\ntext = pickle.dumps(s).hex()",
    "parent": "import os\ntext = str(os.getppid())",
}


@pytest.fixture
def write_app(tmp_path, monkeypatch):
    """Write a step's body into a file of its own and import its app."""

    def write(body):
        name = f"seeds_{next(numbers)}"
        marked = "\n".join(
            f"{line}  # cellule: allow order, identity, environment - on purpose" for line in body.split("\n")
        )
        source = HEAD + indent(marked, "    ") + "\n    return Seen(text)\n"
        (tmp_path / f"{name}.py").write_text(dedent(source))
        monkeypatch.syspath_prepend(tmp_path)
        return importlib.import_module(name)

    return write


@pytest.mark.parametrize("name", DEPENDS)
def test_what_differs_between_processes_is_seen(write_app, name):
    shop = write_app(DEPENDS[name])
    world = World(shop.app, guard=False)
    world.send(shop.Named("a", NAMES))
    with pytest.raises(StepFailed, match="did something else in another process") as caught:
        world.assert_replays()
    assert caught.value.code == "testing.differs_elsewhere"
    assert "state.text" in str(caught.value)


def test_what_is_the_same_everywhere_passes(write_app):
    shop = write_app('text = ",".join(sorted(s))')
    world = World(shop.app)
    for number in range(3):
        world.send(shop.Named(f"cell {number}", NAMES * (1 + number * 500)))  # long values lie in the CAS
    world.assert_replays()
    process = OTHER_PROCESS._process
    World(shop.app).assert_replays()
    assert OTHER_PROCESS._process is process


def test_a_world_may_be_replayed_here_only(write_app):
    shop = write_app("for x in s: text += x")
    world = World(shop.app, guard=False, elsewhere=False)
    world.send(shop.Named("a", NAMES))
    world.assert_replays()


def test_a_process_that_ended_is_started_again(write_app):
    shop = write_app('text = ",".join(sorted(s))')
    world = World(shop.app)
    process = OtherProcess()
    world.host.check_elsewhere(process)
    first = process._process
    first.kill()
    first.wait()
    world.host.check_elsewhere(process)
    assert process._process is not first
    process.close()
    assert process._process is None


def test_a_process_that_cannot_run_the_world_says_why(write_app):
    shop = write_app('text = ",".join(sorted(s))')
    world = World(shop.app)
    world.send(shop.Named("a", []))
    world.host.frames[-1] = b"\x00"
    process = OtherProcess()
    with pytest.raises(Unavailable, match="Traceback") as caught:
        world.host.check_elsewhere(process)
    assert caught.value.code == "testing.other_process"
    process.close()


def test_the_seed_is_never_our_own():
    assert [other_seed({"PYTHONHASHSEED": seed}) for seed in ("0", "1", "2", "random")] == [
        "1",
        "2",
        "1",
        "1",
    ]


def test_the_process_ends_with_the_tests(tmp_path):
    """It reads until its input ends: whoever is killed leaves none behind."""
    script = """
        import importlib, os, sys
        sys.path.insert(0, sys.argv[1])
        from cellule.testing import World
        from cellule.testing.other_process import OTHER_PROCESS
        shop = importlib.import_module("seeds_end")
        world = World(shop.app)
        world.assert_replays()
        print(OTHER_PROCESS._process.pid, flush=True)
        os._exit(3)
    """
    (tmp_path / "seeds_end.py").write_text(dedent(HEAD) + "    return Seen(text)\n")
    source = Path(__file__).parents[3] / "src"
    done = subprocess.run(
        [sys.executable, "-c", dedent(script), str(tmp_path)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(source)},
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    pid = int(done.stdout)
    while _is_alive(pid):
        os.sched_yield()


def _is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
