"""Laws of Python modules: bundles depend on sources alone, programs on their arguments alone."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.errors import Rejected
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Nodes, drive
from cellule.kernel.program import Context as KernelContext
from cellule.kernel.program import Output, StepFault
from cellule.modules.python import PythonPrograms, bundle, describe, manifest_document
from cellule.modules.python.bundle import make_bundle, read_root
from cellule.modules.python.guard import find_hazards
from cellule.testing.set_order import Call, check_set_order
from cellule.values import encode

SOME = settings(max_examples=40, deadline=None)


def in_order(texts):
    """A set as it stands in canonical bytes."""
    return sorted(texts, key=encode)


MODULES = [f"m{at}" for at in range(6)]
graphs = st.fixed_dictionaries({name: st.lists(st.sampled_from(MODULES), max_size=3) for name in MODULES})


APP = """
from uuid import UUID

import msgspec

from cellule.modules.python import Context, Step, reducer


class Hit(msgspec.Struct, frozen=True):
    name: str
    by: int = 1
    tags: frozenset[str] = frozenset()


class Tally(msgspec.Struct):
    total: int
    by_tag: dict[str, int]
    seen: set[str]
    chance: float = 0.0


class Crossed(msgspec.Struct, frozen=True):
    name: str
    tags: list[str]
    id: UUID


@reducer(reply=int, emits=[Crossed])
def tally(state: Tally | None, event: Hit, ctx: Context) -> Step[Tally]:
    # sets, maps, chance, ids, events, replies and failures
    state = state or Tally(0, {}, set())
    if event.by < -50:
        raise ValueError(f"{event.by} is too little")
    state.total += event.by
    state.seen |= event.tags
    state.chance = ctx.random.random()
    for tag in sorted(event.tags):
        state.by_tag[tag] = state.by_tag.get(tag, 0) + event.by
    crossed = [Crossed(event.name, sorted(state.seen), ctx.uuid())] if state.total > 20 else []
    return Step(state, emit=crossed, reply=state.total)
"""
names = st.text(max_size=6)
hits = st.fixed_dictionaries({
    "name": names, "by": st.integers(-60, 60), "tags": st.frozensets(names, max_size=5).map(in_order),
})  # fmt: skip


@pytest.fixture(scope="module")
def tally(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tally")
    (folder / "tally_app.py").write_text(APP)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("tally_app").tally
        del sys.modules["tally_app"]


@pytest.fixture(scope="module")
def described(tally):
    return describe(tally, namespace="app", key="name")


@pytest.fixture(scope="module")
def live(tally):
    return describe(tally, namespace="app", key="name", live=True)


def loaded(description, **options):
    manifest = load_manifest(manifest_document([description]))
    programs = PythonPrograms(limit_s=None, live=[description], **options)
    nodes = Nodes(0)
    walk = programs.program(manifest, manifest.modules["app/tally"], nodes)
    return drive(walk, nodes, lambda cids: {cid: description.blocks[cid] for cid in cids})


def context(height):
    return KernelContext(
        bytes(16), "app/tally@1", b"k", 1, height, 1_700_000_000_000_000_000, b"e" * 16, 0, 0
    )


def run(program, events):
    """The outcomes of a cell's history; a failed step leaves its state."""
    state, outcomes = None, []
    for height, event in enumerate(events, start=1):
        outcome = outcome_of(program, state, encode(event), height)
        outcomes.append(outcome)
        state = outcome.state if isinstance(outcome, Output) else state
    return outcomes


def outcome_of(program, state, value, height):
    try:
        return program.step(state, "app/Hit@1", value, b"k", context(height))
    except StepFault as fault:
        return fault.code, fault.text


@SOME
@given(st.lists(hits, max_size=6))
def test_a_program_from_its_bundle_answers_like_the_live_function(described, live, events):
    assert run(loaded(described), events) == run(loaded(live), events)


@SOME
@given(st.lists(hits, max_size=6))
def test_a_program_answers_the_same_each_time_and_under_the_guard(described, events):
    program = loaded(described)
    assert run(program, events) == run(program, events) == run(loaded(described, guarded=True), events)


def test_processes_with_other_hash_seeds_give_identical_bytes(described):
    events = [
        {"name": f"n{at}", "by": at % 90 - 55, "tags": in_order(f"tag {tag}" for tag in range(at % 7))}
        for at in range(200)
    ]
    outcomes = run(loaded(described), events)
    states = [None, *(output.state for output in outcomes if isinstance(output, Output))]
    calls = [
        Call(states[at % len(states)], "app/Hit@1", encode(event), b"k", context(at))
        for at, event in enumerate(events, start=1)
    ]
    check_set_order(described, calls)


@SOME
@given(hits, st.binary(max_size=60))
def test_whatever_bytes_are_given_only_step_faults_leave(described, event, noise):
    program = loaded(described)
    good = encode(event)
    for value in (noise, good[:-1] + noise[:1], encode(None), encode(event | {"more": 1}), good):
        for state in (None, noise):
            outcome = outcome_of(program, state, value, 1)
            assert isinstance(outcome, Output) or outcome[0].startswith("modules.")


@contextmanager
def written(files: dict[str, str]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        for path, source in files.items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source)
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        try:
            yield Path(folder)
        finally:
            sys.path.remove(folder)
            for name in [name for name in sys.modules if name.split(".")[0] == "graph_app"]:
                del sys.modules[name]


def reach(graph, start):
    found, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return found


@SOME
@given(graphs, st.randoms(use_true_random=False))
def test_a_bundle_holds_exactly_what_is_reached_in_any_order_of_writing(graph, chance):
    forms = [
        "from . import {0}; {0}.f(state, event)",
        "import graph_app.{0}; graph_app.{0}.f(state, event)",
        "from graph_app import {0} as x_{0}; x_{0}.f(state, event)",
    ]
    files = {"graph_app/__init__.py": ""}
    for name, targets in graph.items():
        lines = [f"    {chance.choice(forms).format(target)}" for target in targets]
        files[f"graph_app/{name}.py"] = "\n".join(["def f(state, event):", "    ...", *lines, ""])
    roots = set()
    for order in (list(files), list(reversed(files))):
        with written({path: files[path] for path in order}):
            found = bundle(importlib.import_module("graph_app.m0").f)
        roots.add(found.root)
        paths = {"graph_app/__init__.py", *(f"graph_app/{name}.py" for name in reach(graph, "m0"))}
        assert set(found.plan.files) == paths
    assert len(roots) == 1


@SOME
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5}){0,2}\.py", fullmatch=True), st.binary(max_size=20), max_size=5
    ),
    st.dictionaries(names, names, max_size=3),
)
def test_a_root_reads_back_as_it_was_made(sources, requires):
    made = make_bundle("a:f", sources, requires)
    plan = read_root(made.root, made.blocks[made.root])
    assert made.sources == sources
    assert (plan.entry, plan.requires) == ("a:f", requires)


@pytest.mark.parametrize(
    "module",
    [
        "argparse",
        "dataclasses",
        "typing",
        "enum",
        "inspect",
        "ast",
        "tarfile",
        "asyncio.base_events",
        "turtle",
    ],
)
def test_the_guard_reads_any_python(module):
    path = Path(importlib.util.find_spec(module).origin)
    source = path.read_bytes()
    names = [
        line.split("(")[0].split()[1] for line in source.decode().splitlines() if line.startswith("def ")
    ]
    for name in names[:3] or ["missing"]:
        found = find_hazards(make_bundle(f"x:{name}", {"x.py": source}, {}))
        assert all(finding.line > 0 for finding in found)


def test_a_bundle_needs_a_function_with_a_file():
    with pytest.raises(Rejected):
        bundle(eval("lambda state, event: state"))
