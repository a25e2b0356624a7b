"""WASM modules for tests, as text: some that answer fixed bytes, and hostile ones."""

from __future__ import annotations

from typing import Any

from cellule.values import encode

ALLOC = """
  (global $next (mut i32) (i32.const 4096))
  (func (export "alloc") (param i32) (result i32)
    global.get $next
    (global.set $next (i32.add (global.get $next) (local.get 0))))
"""


def module(body: str, *, memory: str = "1", alloc: str = ALLOC) -> str:
    """A module with memory and alloc."""
    return f'(module (memory (export "memory") {memory}) {alloc} {body})'


def answers(data: bytes, *, packed: bool = True) -> str:
    """A module that answers these bytes to whatever it is given."""
    text = "".join(f"\\{byte:02x}" for byte in data)
    return module(f'(data (i32.const 1024) "{text}") {_step(1024, len(data), packed=packed)}')


def state_answer(state: Any, **parts: Any) -> bytes:
    """An answer of the ABI with a state."""
    return encode({"state": encode(state), **parts})


def step(body: str) -> str:
    """A module whose packed step has this body, which leaves an i64."""
    return module(f'(func $step (export "step") (param i32 i32) (result i64) {body})')


def _step(start: int, size: int, *, packed: bool) -> str:
    if packed:
        return f'(func (export "step") (param i32 i32) (result i64) (i64.const {start << 32 | size}))'
    return f'(func (export "step") (param i32 i32) (result i32 i32) (i32.const {start}) (i32.const {size}))'


GOOD = state_answer({"n": 1})

HOSTILE = {
    "endless loop": (step("(loop $l (br $l)) i64.const 0"), "modules.wasm_fuel"),
    "endless start": (
        module(
            '(func $s (loop $l (br $l))) (start $s)'
            ' (func (export "step") (param i32 i32) (result i64) i64.const 0)'
        ),
        "modules.wasm_fuel",
    ),
    "memory bomb": (
        step("(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable"),
        "modules.wasm_trap",
    ),
    "recursion": (step("(call $step (local.get 0) (local.get 1))"), "modules.wasm_stack"),
    "pointer out of range": (step(f"(i64.const {0xFFFF_0000 << 32 | 16})"), "modules.wasm_pointer"),
    "lying length": (step(f"(i64.const {1024 << 32 | 70_000})"), "modules.wasm_pointer"),
    "negative length": (step("(i64.const -1)"), "modules.wasm_output"),
    "oversized output": (step(f"(i64.const {4_000_001})"), "modules.wasm_output"),
    "alloc out of range": (
        module(
            '(func (export "step") (param i32 i32) (result i64) i64.const 0)',
            alloc='(func (export "alloc") (param i32) (result i32) (i32.const 65530))',
        ),
        "modules.wasm_pointer",
    ),
    "alloc traps": (
        module(
            '(func (export "step") (param i32 i32) (result i64) i64.const 0)',
            alloc='(func (export "alloc") (param i32) (result i32) unreachable)',
        ),
        "modules.wasm_trap",
    ),
    "reads out of memory": (step("(i64.load (i32.const 0x7fffffff))"), "modules.wasm_trap"),
    "divides by zero": (
        step("(i64.div_u (i64.const 1) (i64.extend_i32_u (i32.const 0)))"),
        "modules.wasm_trap",
    ),
    "empty output": (step("(i64.const 0)"), "abi.invalid"),
    "garbage": (answers(b"\xff\x00garbage"), "abi.invalid"),
    "not an envelope": (answers(encode([1, 2, 3])), "abi.invalid"),
    "unknown field": (answers(encode({"state": None, "extra": 1})), "abi.invalid"),
    "state of another schema": (answers(state_answer({"n": "one"})), "kernel.output_invalid"),
    "state that is no CBOR": (answers(encode({"state": b"\xff"})), "kernel.output_invalid"),
    "NaN": (answers(encode({"state": b"\xa1\x61n\xfb\x7f\xf8" + bytes(6)})), "kernel.output_invalid"),
    "event that nobody declared": (
        answers(state_answer({"n": 1}, domain_events=[{"schema": "a/B@1", "value": b"\xa0"}])),
        "kernel.output_invalid",
    ),
    "event of Cellule's own": (
        answers(state_answer({"n": 1}, domain_events=[{"schema": "sys/StepFailed@1", "value": b"\xa0"}])),
        "kernel.output_invalid",
    ),
    "effect that nobody declared": (
        answers(state_answer({"n": 1}, effects=[{"kind": "timer.set", "params": b"\xa0"}])),
        "kernel.effect_undeclared",
    ),
}  # fmt: skip
