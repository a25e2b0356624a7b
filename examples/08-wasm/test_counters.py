"""The counters in all languages keep the same states and answer the same."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from counters import Added, Cleared, Reached, counters

from cellule import Refused
from cellule.testing import World

HERE = Path(__file__).parent
LANGUAGES = {"in_c": "counter.c", "in_assemblyscript": "counter.ts"}


@pytest.fixture(scope="module", params=LANGUAGES)
def built(request, tmp_path_factory):
    """The name of a module and its file, compiled by `cellule module build`."""
    path = tmp_path_factory.mktemp("built") / f"{request.param}.wasm"
    command = (sys.executable, "-m", "cellule", "module", "build", str(HERE / LANGUAGES[request.param]))
    done = subprocess.run(  # noqa: S603 - the command line of this very project
        (*command, "--out", str(path)), capture_output=True, text=True, check=False
    )
    if "modules.compiler_missing" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return request.param, path


EVENTS = [
    Added("a", 30, "first"), Added("b", 7), Added("a", 69, "größer"), Added("a", 1), Added("a", -100),
    Added("a", -1), Cleared("b"), Added("b", 2**40), Added("a", 200), Cleared("a"),
]  # fmt: skip


def test_the_same_events_lead_to_the_same_histories(built):
    name, path = built
    world = World(counters({name: path}))
    for event in EVENTS:
        with suppress(Refused):
            world.send(event)
    assert [each.code for each in world.refusals] == 2 * ["counters.below_zero"]
    for key in ("a", "b"):
        ours, theirs = world.cell("in_python", key).history(), world.cell(name, key).history()
        assert len(ours) > 1
        assert [each.state for each in theirs] == [each.state for each in ours]
        assert [each.reply for each in theirs] == [each.reply for each in ours]
    assert world.emitted == 2 * [Reached("a", 100)] + 2 * [Reached("b", 2**40)] + 2 * [Reached("a", 200)]
    world.assert_replays()
