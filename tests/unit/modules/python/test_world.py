"""Reducers inside a kernel world: eras side by side, upcasts, failures, replay and verification."""

from __future__ import annotations

import pytest

from cellule.kernel.journal.codes import HALTED, OK, PARKED
from cellule.modules.python import (
    ModuleOptions,
    PythonPrograms,
    describe,
    describe_upcaster,
    manifest_document,
)
from tests.support.kernel_world import KernelWorld

MODELS = """
from __future__ import annotations
import msgspec

class Hit(msgspec.Struct, frozen=True):
    name: str
    by: int = 1

class Count(msgspec.Struct):
    total: int

class Total(msgspec.Struct):
    total: int
    factor: int
"""
FIRST = """
from app.models import Count, Hit
def tally(state: Count | None, event: Hit) -> Count:
    return Count((state.total if state else 0) + event.by)
"""
SECOND = """
from app.models import Count, Hit, Total
def tally(state: Total | None, event: Hit) -> Total:
    state = state or Total(0, 10)
    return Total(state.total + event.by * state.factor, state.factor)
def up(old: Count) -> Total:
    return Total(old.total, 100)
"""
TOTAL = {"key": "name", "namespace": "app"}


@pytest.fixture
def programs():
    found = PythonPrograms(limit_s=0.3)
    yield found
    found.close()


@pytest.fixture
def version(import_app):
    """Write one version of the app and import it."""

    def load(source):
        return import_app({"app/__init__.py": "", "app/models.py": MODELS, "app/main.py": source}, "app.main")

    return load


def world_of(programs, *descriptions):
    world = KernelWorld(manifest_document(descriptions), programs)
    return with_blocks(world, *descriptions)


def with_blocks(world, *descriptions):
    for description in descriptions:
        world.cas.update(description.blocks)
    return world


def statuses(beat):
    return [(step.key, step.status) for step in beat.steps]


def test_a_pinned_cell_keeps_running_its_old_code_beside_the_new(programs, version):
    pinned = ModuleOptions(upgrade="pin")
    one = describe(version(FIRST).tally, **TOTAL, options=pinned)
    world = world_of(programs, one)
    world.send("app/Hit@1", {"name": "old", "by": 5})
    two = describe(version(SECOND).tally, **TOTAL, version=2, options=pinned)
    with_blocks(world, two).deploy(manifest_document([two]))
    world.send("app/Hit@1", {"name": "old", "by": 5})
    world.send("app/Hit@1", {"name": "new", "by": 5})
    assert world.state("app/tally", b"old") == {"total": 10}
    assert world.state("app/tally", b"new") == {"total": 50, "factor": 10}
    world.assert_replays()


def test_a_following_cell_is_upcast_at_its_next_event(programs, version):
    world = world_of(programs, describe(version(FIRST).tally, **TOTAL))
    world.send("app/Hit@1", {"name": "a", "by": 5})
    module = version(SECOND)
    two = describe(module.tally, **TOTAL, version=2)
    up = describe_upcaster(module.up, namespace="app")
    with_blocks(world, two, up).deploy(manifest_document([two], [up]))
    world.send("app/Hit@1", {"name": "a", "by": 1})
    assert world.state("app/tally", b"a") == {"total": 105, "factor": 100}
    world.assert_replays()


def test_a_failed_step_is_recorded_the_same_when_it_is_run_again(programs, version):
    source = FIRST.replace(
        "    return", "    if event.by < 0: raise ValueError(f'{object()} is negative')\n    return"
    )
    world = world_of(programs, describe(version(source).tally, **TOTAL))
    beat = world.send("app/Hit@1", {"name": "a", "by": -1})
    assert statuses(beat) == [(b"a", HALTED)]
    assert beat.steps[0].text == "ValueError: <object object> is negative (app/main.py:4 in tally)"
    assert statuses(world.send("app/Hit@1", {"name": "b", "by": 1})) == [(b"b", OK)]
    world.assert_replays()


def test_a_step_that_timed_out_is_not_run_again_by_verify(programs, version):
    source = FIRST.replace("    return", "    while event.by < 0: pass\n    return")
    world = world_of(programs, describe(version(source).tally, **TOTAL))
    beat = world.send("app/Hit@1", {"name": "a", "by": -1})
    assert beat.steps[0].code == "modules.timed_out"
    world.assert_replays()


def test_verify_finds_a_step_that_depends_on_what_it_kept_aside(programs, version):
    source = "SEEN = []\n" + FIRST.replace(
        "    return", "    SEEN.append(1)\n    event = Hit('x', len(SEEN))\n    return"
    )
    world = world_of(programs, describe(version(source).tally, **TOTAL, guard=False))
    world.send("app/Hit@1", {"name": "a"})
    difference = world.verify()
    assert difference is not None
    assert difference.field == "state.total"
    assert "app.main:tally" in str(difference)


def test_code_that_cannot_be_loaded_parks_its_cell_and_fails_nobody(programs, version):
    broken = version("from app.models import Count, Hit\nimport os\n" + FIRST)
    description = describe(broken.tally, **TOTAL)
    world = world_of(programs, description)
    document = manifest_document([description])
    document["modules"]["app/tally@1"]["code"] = {**description.code.document(), "entry": "app.main:gone"}
    world.deploy(document)
    beat = world.send("app/Hit@1", {"name": "a"})
    assert statuses(beat) == [(b"a", PARKED)]
    assert beat.steps[0].code == "kernel.code_unavailable"
    world.assert_replays()
