"""WASM modules in worlds: what they may do, what hostile ones cannot, and that no state leaks."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cellule.errors import Parked, Rejected, StepFailed
from cellule.host.service import Cellule
from cellule.modules.kinds import CodeKinds
from cellule.modules.wasm import limits
from cellule.modules.wasm.programs import pack_module
from cellule.modules.wasm.runtime import Call, Runtime, shared_runtime
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.values import cid_of, encode
from tests.support.nodes import check_store, open_node
from tests.support.wasm_modules import ALLOC, GOOD, HOSTILE, answers, module, state_answer, step

SCHEMAS = {
    "t/Added@1": {"record": {"id": {"text": {}}, "n": {"int": {}}}},
    "t/Count@1": {"record": {"n": {"int": {}}}},
}


def document(code: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "schemas": SCHEMAS,
        "modules": {
            "t/counter@1": {
                "state": "t/Count@1", "event": "t/Added@1", "key": {"text": {}}, "code": code,
                "failure": "skip", **more,
            },
        },
        "routing": {"subscriptions": [{"event": "t/Added@1", "module": "t/counter@1", "key_field": "id"}]},
    }  # fmt: skip


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


async def made(node: Cellule, folder: Path, text: str, **code: Any) -> Any:
    (folder / "m.wat").write_text(text)
    await node.create_world("w", manifest=document({"kind": "wasm", "file": "m.wat", **code}), code=folder)
    return await node.world("w")


def added(key: str, n: int = 1) -> tuple[str, dict[str, Any]]:
    return ("Added", {"id": key, "n": n})


@pytest.mark.parametrize("packed", [True, False])
async def test_a_step_answers_by_one_i64_or_by_two_values(node, tmp_path, packed):
    world = await made(node, tmp_path, answers(state_answer({"n": 7}, reply=encode("hi")), packed=packed))
    sent = await world.send(added("a"), wait="reply")
    assert sent.reply == "hi"
    assert await world.cell("counter", "a").state() == {"n": 7}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_module_fails_one_step_and_the_world_goes_on(node, tmp_path, name):
    text, code = HOSTILE[name]
    world = await made(node, tmp_path, text, fuel=1_000_000)
    for key in ("a", "b"):
        with pytest.raises(StepFailed) as caught:
            await world.send(added(key))
        assert caught.value.code == code
        assert await world.cell("counter", key).state() is None
    (tmp_path / "m.wat").write_text(answers(GOOD))
    await node.deploy_world("w", manifest=document({"kind": "wasm", "file": "m.wat"}), code=tmp_path)
    await world.send(added("a"))
    assert await world.cell("counter", "a").state() == {"n": 1}


LEAK = module(
    """
  (global $seen (mut i32) (i32.const 0))
  (table 2 funcref) (func $f) (elem declare func $f)
  (data $once "x")
  (func (export "step") (param i32 i32) (result i64)
    (memory.init $once (i32.const 60000) (i32.const 0) (i32.const 1)) (data.drop $once)
    (if (global.get $seen) (then unreachable))
    (if (i32.load (i32.const 50000)) (then unreachable))
    (if (i32.load (i32.const 0)) (then unreachable))
    (if (i32.ne (memory.size) (i32.const 1)) (then unreachable))
    (if (i32.eqz (ref.is_null (table.get (i32.const 1)))) (then unreachable))
    (global.set $seen (i32.const 1))
    (i32.store (i32.const 50000) (i32.const 1))
    (i32.store (i32.const 0) (i32.const 1))
    (table.set (i32.const 1) (ref.func $f))
    (drop (memory.grow (i32.const 3)))
    (i32.store (i32.const 200000) (i32.const 1))
    (i64.const DATA))
"""
)


async def test_nothing_of_a_step_reaches_the_next_one(node, tmp_path):
    """The module traps when it finds anything it left: in memory, a global, a table or a segment."""
    text = "".join(f"\\{byte:02x}" for byte in GOOD)
    whole = LEAK.replace("DATA", str(1024 << 32 | len(GOOD))).replace(
        "(func $f)", f'(func $f) (data (i32.const 1024) "{text}")'
    )
    world = await made(node, tmp_path, whole)
    for key in ("a", "b", "a", "c"):
        await world.send(added(key))
    assert await world.cell("counter", "a").state() == {"n": 1}


def test_pages_that_an_instance_grew_into_are_zero_in_the_next_one():
    """Also when its first contents were put back by the pool: the next module asks for what it left."""
    runtime = Runtime()
    write = "(drop (memory.grow (i32.const 100)))" + "".join(
        f"(i32.store (i32.const {at}) (i32.const 0x41414141))" for at in (8, 70_000, 140_000, 6_000_000)
    )
    read = "(drop (memory.grow (i32.const 100)))" + "".join(
        f"(if (i32.load (i32.const {at})) (then unreachable))" for at in (8, 70_000, 140_000, 6_000_000)
    )
    call = Call("step", 1_000_000, limits.MEMORY_BYTES_MAX)
    for text in (write, read, write, read):
        binary = _binary(step(f"{text} (i64.const 0)"))
        compiled = runtime.compiled(cid_of(binary, "raw"), binary, "m")
        assert runtime.call(compiled, call, b"input") == b""


def _binary(text: str) -> bytes:
    [binary] = pack_module(text.encode(), {}, "m")[1].values()
    return binary


async def test_the_cap_of_memory_is_what_the_module_gets(node, tmp_path):
    body = (
        "(if (i32.ne (memory.grow (i32.const 3)) (i32.const -1)) (then unreachable))"
        "(if (i32.ne (memory.grow (i32.const 1)) (i32.const 1)) (then unreachable)) (i64.const 0)"
    )
    world = await made(node, tmp_path, step(body), memory_bytes=131_072)
    with pytest.raises(StepFailed, match=r"abi|CBOR"):
        await world.send(added("a"))


REFUSED = {
    "import": ('(module (import "env" "now" (func)))', r"it imports env\.now"),
    "no memory": ("(module)", "does not export its memory"),
    "no alloc": ('(module (memory (export "memory") 1))', "does not export alloc"),
    "no step": (f'(module (memory (export "memory") 1) {ALLOC})', "does not export step"),
    "wrong step": (
        module('(func (export "step") (param i32) (result i64) i64.const 0)'), "does not export step",
    ),
    "threads": ('(module (memory (export "memory") 1 2 shared))', "does not compile"),
    "64-bit memory": ('(module (memory (export "memory") i64 1))', "does not compile"),
    "relaxed SIMD": (
        step("(drop (i8x16.relaxed_swizzle (v128.const i64x2 0 0) (v128.const i64x2 0 0))) i64.const 0"),
        "does not compile",
    ),
    "two memories": (step("i64.const 0").replace("(global", "(memory 1) (global", 1), "does not compile"),
    "too much memory": (module("", memory="2000"), "does not compile"),
    "no module": ("\0asm nothing", "does not compile"),
    "no text": ("(module", "neither a binary module nor"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_a_module_that_does_not_fit_is_refused_before_a_world_is_made(node, tmp_path, name):
    text, problem = REFUSED[name]
    with pytest.raises(Rejected, match=problem) as caught:
        await made(node, tmp_path, text)
    assert caught.value.code == "modules.wasm_invalid"
    assert await node.worlds() == []


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ({"file": "gone.wasm"}, "file: .*gone.wasm cannot be read"),
        ({"file": "../m.wat"}, "leaves the folder"),
        ({"file": "/m.wat"}, "leaves the folder"),
        ({}, "the name of a .wasm or .wat file is needed"),
        ({"file": "m.wat", "fuel": 0}, "fuel: an integer from 1"),
        ({"file": "m.wat", "fuel": True}, "fuel: an integer from 1"),
        ({"file": "m.wat", "memory_bytes": 1}, "memory_bytes: an integer"),
        ({"file": "m.wat", "entry": "x"}, "entry: there is no such field"),
        ({"module": "bafy"}, "a link to a raw block"),
    ],
)
async def test_code_that_is_written_wrong_is_refused_with_its_field(node, tmp_path, code, problem):
    (tmp_path / "m.wat").write_text(answers(GOOD))
    with pytest.raises(Rejected, match=problem):
        await node.create_world("w", manifest=document({"kind": "wasm", **code}), code=tmp_path)


async def test_a_file_that_is_too_long_is_refused(node, tmp_path, monkeypatch):
    monkeypatch.setattr("cellule.modules.wasm.code.CODE_BYTES_MAX", 10)
    with pytest.raises(Rejected, match="more than 10 bytes"):
        await made(node, tmp_path, answers(GOOD))


async def test_memory_that_the_module_begins_with_must_fit_its_cap(node, tmp_path):
    with pytest.raises(Rejected, match="begins with 131072 bytes"):
        await made(node, tmp_path, answers(GOOD).replace('"memory") 1', '"memory") 2'), memory_bytes=65_536)


async def test_without_wasmtime_a_world_says_what_to_install(node, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "cellule.modules.wasm.runtime")
    monkeypatch.delattr("cellule.modules.wasm.runtime")
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    with pytest.raises(Rejected, match=r'pip install "cellule\[wasm\]"'):
        await made(node, tmp_path, answers(GOOD))
    monkeypatch.undo()


def test_a_module_is_compiled_once_and_the_kept_ones_are_bounded(monkeypatch):
    monkeypatch.setattr(limits, "COMPILED_MAX", 2)
    runtime = Runtime()
    found = {}
    for n in range(3):
        binary = _binary(answers(state_answer({"n": n})))
        found[n] = binary, runtime.compiled(cid_of(binary, "raw"), binary, "m")
    assert runtime.compiled(cid_of(found[2][0], "raw"), found[2][0], "m") is found[2][1]
    assert runtime.compiled(cid_of(found[0][0], "raw"), found[0][0], "m") is not found[0][1]
    assert len(runtime._compiled) == 2


def test_a_nan_that_a_module_computes_has_one_form():
    body = (
        "(f64.store (i32.const 0) (f64.div (f64.const 0) (f64.const 0)))"
        "(f64.store (i32.const 8) (f64.add (f64.const nan:0x4000000000001) (f64.const 1))) (i64.const 16)"
    )
    binary = _binary(step(body))
    runtime = shared_runtime()
    compiled = runtime.compiled(cid_of(binary, "raw"), binary, "m")
    answer = runtime.call(compiled, Call("step", 1_000, limits.MEMORY_BYTES_MAX), b"")
    assert answer == 2 * (bytes(6) + b"\xf8\x7f")


async def test_a_failing_cell_stops_and_goes_on_after_a_fix(node, tmp_path):
    (tmp_path / "m.wat").write_text(HOSTILE["endless loop"][0])
    code = {"kind": "wasm", "file": "m.wat", "fuel": 1_000}
    await node.create_world("w", manifest=document(code, failure="halt"), code=tmp_path)
    world = await node.world("w")
    with pytest.raises(StepFailed, match="used up its fuel of 1000"):
        await world.send(added("a"))
    with pytest.raises(Parked):
        await world.send(added("a"))
