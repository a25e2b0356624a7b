"""A library that a machine does not have parks the cells that need it; where it is there, they go on."""

from __future__ import annotations

import importlib
import sys

import pytest

from cellule.kernel.journal.codes import HALTED, OK, PARKED
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import EmittedRecord
from cellule.modules.python import PythonPrograms, describe, manifest_document
from cellule.testing import World
from tests.support.kernel_world import KernelWorld

MODELS = """
import msgspec

class Hit(msgspec.Struct, frozen=True):
    name: str

class Count(msgspec.Struct):
    total: int
"""
LAZY = """
from parts.models import Count, Hit
def tally(state: Count | None, event: Hit) -> Count:
    import abacus
    return Count(abacus.add(state.total if state else 0))
"""
OWN = LAZY.replace("import abacus", "import parts.models as abacus; from parts.models import gone")
EAGER = LAZY.replace("    import abacus\n", "").replace("def tally", "import abacus\ndef tally")


class Library:
    """An installed package that comes and goes."""

    def __init__(self, folder):
        self.folder = folder
        self.info = folder / "abacus-1.0.dist-info"

    def install(self, source="def add(total):\n    return total + 1\n"):
        self.info.mkdir(parents=True, exist_ok=True)
        (self.info / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus\nVersion: 1.0\n")
        (self.info / "top_level.txt").write_text("abacus\n")
        (self.folder / "abacus.py").write_text(source)
        self.forget()

    def remove(self, *, info=True):
        (self.folder / "abacus.py").unlink()
        if info:
            for file in self.info.iterdir():
                file.unlink()
            self.info.rmdir()
        self.forget()

    def forget(self):
        sys.modules.pop("abacus", None)
        importlib.invalidate_caches()


@pytest.fixture
def library(tmp_path, monkeypatch):
    found = Library(tmp_path / "site-packages")
    found.install()
    monkeypatch.syspath_prepend(found.folder)
    yield found
    found.forget()


@pytest.fixture
def world_of(import_app):
    """A world of the app with this source, and a function that opens it again, as another machine would."""
    opened = []

    def programs():
        opened.append(PythonPrograms())
        return opened[-1]

    def make(source):
        files = {"parts/__init__.py": "", "parts/models.py": MODELS, "parts/main.py": source}
        module = import_app(files, "parts.main")
        description = describe(module.tally, key="name", namespace="app")
        world = KernelWorld(manifest_document([description]), programs())
        world.cas.update(description.blocks)

        def elsewhere():
            bundles = [vars(each).get("__cellule_bundle__") for each in list(sys.modules.values())]
            for bundle in [each for each in bundles if each is not None]:
                bundle.unload()
            world.programs = programs()
            world.world = world.restored(0)

        return world, elsewhere

    yield make
    for each in opened:
        each.close()


def hit(world):
    return [(step.status, step.code) for step in world.send("app/Hit@1", {"name": "a"}).steps]


@pytest.mark.parametrize(
    ("source", "info"), [(LAZY, True), (LAZY, False), (EAGER, True), (EAGER, False)], ids=str
)
def test_a_missing_library_parks_its_cells_and_they_go_on_where_it_is(library, world_of, source, info):
    """It was recorded as a failure of the step, which could never be verified where the library is."""
    world, elsewhere = world_of(source)
    assert hit(world) == [(OK, "")]
    library.remove(info=info)
    elsewhere()
    beat = world.send("app/Hit@1", {"name": "a"})
    assert [(step.status, step.code) for step in beat.steps] == [(PARKED, "kernel.code_unavailable")]
    entry = world.entry("app/tally", b"a")
    assert (entry.get("status"), entry.version) == ("needs code", 1)
    assert "abacus" in entry.get("text")
    assert list(decode_frame(beat.frame).of(EmittedRecord)) == []
    assert {step.status for step in world.control("cell.resume").steps} == {PARKED}
    library.install()
    assert [step.status for step in world.control("cell.resume").steps] == [OK]
    assert world.state("app/tally", b"a") == {"total": 2}
    assert world.verify() is None
    world.assert_replays()


def test_a_library_that_needs_another_one_parks_its_cells(library, world_of):
    library.install("import beads_that_nobody_has\n")
    world, _ = world_of(LAZY)
    assert hit(world) == [(PARKED, "kernel.code_unavailable")]
    assert "beads_that_nobody_has" in world.entry("app/tally", b"a").get("text")


def test_a_module_of_the_app_that_is_not_there_is_a_mistake_of_the_app(library, world_of):
    world, _ = world_of(OWN)
    assert hit(world) == [(HALTED, "modules.exception")]


def test_an_import_error_that_the_code_raises_is_an_exception(library, world_of):
    world, _ = world_of(LAZY.replace("import abacus", "raise ImportError('mine')"))
    assert hit(world) == [(HALTED, "modules.exception")]


APP = """
import msgspec
from cellule import App

app = App("reports")

@app.event(key="name")
class Hit(msgspec.Struct, frozen=True):
    name: str

class Count(msgspec.Struct):
    total: int

@app.reducer
def tally(state: Count | None, event: Hit) -> Count:
    return Count(1 + (state.total if state else 0))

def report():
    import a_library_for_pictures
    return a_library_for_pictures.draw()

if __name__ == "__main__":
    import a_web_server
    a_web_server.run(app)
"""


def test_an_app_runs_without_the_libraries_of_what_stands_beside_its_reducers(import_app):
    reports = import_app({"reports_app.py": APP}, "reports_app")
    world = World(reports.app)
    world.send(reports.Hit("a"))
    assert world.state(reports.tally, "a") == reports.Count(1)
    world.assert_replays()
