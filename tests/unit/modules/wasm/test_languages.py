"""The same counter in Python, C and AssemblyScript: their journals hold the same bytes."""

from __future__ import annotations

import importlib.util
import random
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

from cellule.errors import Refused
from cellule.kernel.journal.records import EmittedRecord, StepRecord
from cellule.modules.kinds import CodeKinds
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from tests.support.nodes import check_store, open_node, records_of
from tests.support.wasm_sources import EXAMPLE, SUFFIXES, built


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("counters", EXAMPLE / "counters.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "counters", module)
        spec.loader.exec_module(module)
        yield module


def events_of(example: ModuleType, count: int) -> list[object]:
    chance = random.Random(7)
    return [
        example.Cleared(chance.choice("ab"))
        if chance.random() < 0.1
        else example.Added(
            chance.choice("ab"), chance.choice((-40, 1, 24, 300, 2**45)), chance.choice(("", "é" * 40))
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("suffix", SUFFIXES)
async def test_histories_are_the_same_byte_for_byte(example, tmp_path: Path, suffix: str) -> None:
    (tmp_path / "m.wasm").write_bytes(built(EXAMPLE / f"counter{suffix}"))
    app = example.counters({"in_wasm": tmp_path / "m.wasm"}).build()
    disk, programs = MemoryDisk(), CodeKinds(limit_s=None)
    try:
        async with open_node(MemoryEngine(disk), app, programs) as node:
            info = await node.create_world("w")
            world = await node.world("w")
            for event in events_of(example, 80):
                with suppress(Refused):
                    await world.send(event)
            records = [record for _, record in await records_of(MemoryEngine(disk), info)]
        await check_store(MemoryEngine(disk), programs)
    finally:
        programs.close()
    steps = {name: _history(records, name) for name in ("counters/in_python", "counters/in_wasm")}
    assert steps["counters/in_wasm"] == steps["counters/in_python"]
    assert len(steps["counters/in_wasm"]) == 80
    assert len({status for _, status, *_ in steps["counters/in_wasm"]}) == 3  # kept, deleted, refused
    emitted = [record.value for record in records if isinstance(record, EmittedRecord)]
    assert len(emitted) > 4
    assert emitted[::2] == emitted[1::2]


def _history(records: list[object], module: str) -> list[tuple[object, ...]]:
    """All that a step record holds, but its place: key, status, version, state, reply, error."""
    return [
        (each.key, each.status, each.version, each.state, each.extras)
        for each in records
        if isinstance(each, StepRecord) and each.module == module
    ]
