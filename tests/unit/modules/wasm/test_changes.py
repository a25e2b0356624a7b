"""WASM code under change and damage: upcasters, one export with and without keys, files with wrong bytes."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cellule.errors import Parked, Rejected, StepFailed
from cellule.host.service import Cellule
from cellule.kernel.program import StepFault
from cellule.modules.kinds import CodeKinds
from cellule.modules.wasm.compiler import build_module
from cellule.modules.wasm.programs import pack_module
from cellule.modules.wasm.runtime import Call, Runtime
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.values import encode
from tests.support.nodes import check_store, open_node
from tests.support.wasm_modules import HOSTILE, answers
from tests.support.wasm_sources import EXAMPLE, built

COUNTER = """
#include "cellule.h"
static cl_output count(const cl_input *in) {
    int64_t n = cl_is_null(in->state) ? 0 : cl_to_int(cl_get(in->state, "FIELD"));
    n += cl_to_int(cl_get(in->event, "n"));
    return cl_state(cl_record(1, (cl_field[]){{"FIELD", cl_int(n)}}));
}
CELLULE_STEP(count)
"""
UPCAST = """
#include "cellule.h"
static cl_value up(cl_value old) { return cl_record(1, (cl_field[]){{"total", cl_get(old, "n")}}); }
CELLULE_UPCAST(up)
"""
TEXT, INT = {"text": {}}, {"int": {}}
SCHEMAS = {
    "t/Added@1": {"record": {"id": TEXT, "n": INT}},
    "t/Count@1": {"record": {"n": INT}},
    "t/Count@2": {"record": {"total": INT}},
}


def document(state: str, file: str, *upcasters: dict[str, Any]) -> dict[str, Any]:
    code = {"kind": "wasm", "file": file}
    module = {"state": state, "event": "t/Added@1", "code": code, "failure": "skip"}
    by_id = {"event": "t/Added@1", "module": "t/counter@1", "key_field": "id"}
    return {
        "schemas": SCHEMAS,
        "modules": {"t/counter@1": {**module, "key": TEXT}, "t/whole@1": module},
        "routing": {"subscriptions": [by_id, {"event": "t/Added@1", "module": "t/whole@1"}]},
        "upcasters": list(upcasters),
    }


@pytest.fixture
async def node() -> AsyncIterator[Cellule]:
    """A node whose worlds are all replayed and verified at the end."""
    disk, programs = MemoryDisk(), CodeKinds(limit_s=None)
    try:
        async with open_node(MemoryEngine(disk), None, programs) as found:
            yield found
        await check_store(MemoryEngine(disk), programs)
    finally:
        programs.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("code")
    sources = {"one": COUNTER.replace("FIELD", "n"), "two": COUNTER.replace("FIELD", "total"), "up": UPCAST}
    for name, source in sources.items():
        (found / f"{name}.c").write_text(source)
        build_module(found / f"{name}.c")
    (found / "loop.wat").write_text(HOSTILE["endless loop"][0].replace('"step"', '"upcast"'))
    (found / "breaks.wat").write_text(answers(encode({"total": "seven"})).replace('"step"', '"upcast"'))
    (found / "garbage.wat").write_text(answers(b"\xff\xff").replace('"step"', '"upcast"'))
    return found


def upcaster(file: str, **limits: int) -> dict[str, Any]:
    return {"from": "t/Count@1", "to": "t/Count@2", "code": {"kind": "wasm", "file": file, **limits}}


def added(key: str, n: int) -> tuple[str, dict[str, Any]]:
    return ("Added", {"id": key, "n": n})


async def test_one_export_serves_a_module_with_keys_and_one_without(node, folder):
    await node.create_world("w", manifest=document("t/Count@1", "one.wasm"), code=folder)
    world = await node.world("w")
    for key, n in (("a", 3), ("b", 4), ("a", 5)):
        await world.send(added(key, n))
    assert await world.cell("counter", "a").state() == {"n": 8}
    assert await world.cell("counter", "b").state() == {"n": 4}
    assert await world.cell("whole").state() == {"n": 12}


async def test_an_upcaster_changes_the_states_of_cells_that_go_on(node, folder):
    await node.create_world("w", manifest=document("t/Count@1", "one.wasm"), code=folder)
    world = await node.world("w")
    await world.send(added("a", 3))
    changed = document("t/Count@2", "two.wasm", upcaster("up.wasm"))
    await node.deploy_world("w", manifest=changed, code=folder)
    await world.send(added("a", 4))
    assert await world.cell("counter", "a").state() == {"total": 7}


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("loop.wat", "modules.wasm_fuel"),
        ("breaks.wat", "kernel.output_invalid"),
        ("garbage.wat", "kernel.output_invalid"),
    ],
)
async def test_a_hostile_upcaster_stops_one_cell_and_no_other(node, folder, file, code):
    await node.create_world("w", manifest=document("t/Count@1", "one.wasm"), code=folder)
    world = await node.world("w")
    await world.send(added("a", 3))
    await node.deploy_world(
        "w", manifest=document("t/Count@2", "two.wasm", upcaster(file, fuel=10_000)), code=folder
    )
    with pytest.raises((StepFailed, Parked)) as caught:
        await world.send(added("a", 4))
    assert caught.value.code == code


def test_a_file_that_is_cut_anywhere_is_refused(folder):
    data = (folder / "one.wasm").read_bytes()
    for end in random.Random(3).sample(range(4, len(data) - 1), 60):
        with pytest.raises(Rejected) as caught:
            pack_module(data[:end], {}, "m")
        assert caught.value.code == "modules.wasm_invalid"


def test_a_file_with_changed_bytes_is_refused_or_fails_its_steps_alone():
    """Whatever a byte becomes: the module is refused, fails by a fault, or answers bytes; nothing else."""
    data, chance, runtime = built(EXAMPLE / "counter.c"), random.Random(11), Runtime()
    event = {"schema": "counters/Added@1", "value": encode({"id": "a", "by": 1, "note": ""}), "key": b"a"}
    given = encode({"version": 1, "state": None, "event": event})
    outcomes = set()
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            changed[chance.randrange(8, len(changed))] = chance.randrange(256)
        try:
            compiled = runtime.inspect(bytes(changed), "m")
            answer = runtime.call(compiled, Call("step", 100_000, 8_000_000), given)
            outcomes.add(type(answer).__name__)
        except (Rejected, StepFault) as error:
            outcomes.add(error.code)
    assert {"bytes", "modules.wasm_invalid", "modules.wasm_trap"} <= outcomes
    assert all(each == "bytes" or each.startswith("modules.wasm_") for each in outcomes)
