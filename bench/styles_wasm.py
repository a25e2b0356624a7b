"""A WASM step beside the bare calls of wasmtime that it cannot do without, with the same bytes. CPU time.

Step     what the kernel calls: the envelope is written, the module runs on an instance of its own with its
         fuel and memory cap, its answer is copied, read and checked against the schema of the state.
Package  the same module, engine, fuel, cap and input bytes by the classes of the package wasmtime: a store,
         an instance, `alloc`, a write, `step`, a read. The answer is checked by nobody.
Floor    the same by the C functions below those classes, with everything left out that the module does not
         force: the least that a call on a fresh instance costs from Python.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from ctypes import POINTER, addressof, byref, c_uint32, c_uint64, memmove, string_at

import wasmtime
from wasmtime import _bindings as c_api

from bench.report import Row, at_most, measured
from bench.styles_apps import total_module, wasm_app
from bench.timing import best_of, repeat
from cellule.kernel.abi import Input, encode_input
from cellule.kernel.need import Nodes, drive
from cellule.kernel.programs import ProgramKinds
from cellule.modules.wasm import WasmPrograms
from cellule.modules.wasm.limits import FUEL_DEFAULT, MEMORY_BYTES_MAX
from cellule.modules.wasm.runtime import shared_runtime
from cellule.values import cid_of, encode

STEP_MAX = 1.5
STATE = encode({"is_on": True, "count": 7, "amount": 700})
EVENT = encode({"key": "key-17", "amount": 100})
INPUT = encode_input(Input(STATE, "bench/Ticked@1", EVENT, b"key-17"))


def wasm_rows(*, quick: bool) -> Iterator[Row]:
    """The step beside both."""
    count, rounds = (50, 1) if quick else (2_000, 15)
    step, package, floor = _step(), _package(), _floor()
    assert package() == floor()
    sides = [repeat(side, count=count) for side in (step, package, floor)]
    step_s, package_s, floor_s = best_of(*sides, rounds=rounds)
    yield at_most("styles", "wasm", "a step vs bare wasmtime", step_s / package_s, "x", STEP_MAX)
    yield measured("styles", "wasm", "a step vs its bare C functions", step_s / floor_s, "x")
    yield measured("styles", "wasm", "a step", step_s / count * 1e6, "us")


def _step() -> Callable[[], object]:
    built = wasm_app().build()
    [module] = built.manifest.modules.values()
    nodes = Nodes(0)
    walk = ProgramKinds(WasmPrograms()).program(built.manifest, module, nodes)
    program = drive(walk, nodes, lambda cids: {cid: built.blocks[cid] for cid in cids})
    return lambda: program.step(STATE, "bench/Ticked@1", EVENT, b"key-17", None)


def _package() -> Callable[[], bytes]:
    engine, module = shared_runtime().engine, _compiled()

    def call() -> bytes:
        store = wasmtime.Store(engine)
        store.set_limits(memory_size=MEMORY_BYTES_MAX)
        store.set_fuel(FUEL_DEFAULT)
        exports = wasmtime.Instance(store, module, []).exports(store)
        memory = exports["memory"]
        start = exports["alloc"](store, len(INPUT))
        memory.write(store, INPUT, start)
        both = exports["step"](store, start, len(INPUT)) & 0xFFFF_FFFF_FFFF_FFFF
        start, size = both >> 32, both & 0xFFFF_FFFF
        return bytes(memory.read(store, start, start + size))

    return call


def _floor() -> Callable[[], bytes]:
    engine, module = shared_runtime().engine.ptr(), _compiled()
    places = {each.name: at for at, each in enumerate(module.exports)}
    no_imports = (c_api.wasmtime_extern_t * 0)()
    no_finalizer = ctypes.cast(0, ctypes.CFUNCTYPE(None, ctypes.c_void_p))
    raw = (c_api.wasmtime_val_raw_t * 2)()
    words, wide = ctypes.cast(raw, POINTER(c_uint32)), ctypes.cast(raw, POINTER(c_uint64))
    second = ctypes.sizeof(c_api.wasmtime_val_raw_t) // 4
    name, length = POINTER(ctypes.c_char)(), ctypes.c_size_t()

    def export(context: object, instance: object, what: str) -> object:
        found = c_api.wasmtime_extern_t()
        c_api.wasmtime_instance_export_nth(
            context, byref(instance), places[what], byref(name), byref(length), byref(found)
        )
        return found.of

    def call() -> bytes:
        store = c_api.wasmtime_store_new(engine, None, no_finalizer)
        context = c_api.wasmtime_store_context(store)
        c_api.wasmtime_store_limiter(store, MEMORY_BYTES_MAX, -1, -1, -1, -1)
        c_api.wasmtime_context_set_fuel(context, FUEL_DEFAULT)
        instance, trap = c_api.wasmtime_instance_t(), POINTER(c_api.wasm_trap_t)()
        c_api.wasmtime_instance_new(context, module.ptr(), no_imports, 0, byref(instance), byref(trap))
        memory = byref(export(context, instance, "memory").memory)
        alloc, step = (byref(export(context, instance, each).func) for each in ("alloc", "step"))
        words[0] = len(INPUT)
        c_api.wasmtime_func_call_unchecked(context, alloc, raw, 1, byref(trap))
        start = words[0]
        memmove(addressof(c_api.wasmtime_memory_data(context, memory).contents) + start, INPUT, len(INPUT))
        words[0], words[second] = start, len(INPUT)
        c_api.wasmtime_func_call_unchecked(context, step, raw, 2, byref(trap))
        start, size = wide[0] >> 32, wide[0] & 0xFFFF_FFFF
        answer = string_at(addressof(c_api.wasmtime_memory_data(context, memory).contents) + start, size)
        c_api.wasmtime_store_delete(store)
        return answer

    return call


def _compiled() -> wasmtime.Module:
    data = total_module().read_bytes()
    return shared_runtime().compiled(cid_of(data, "raw"), data, "the module of the benchmark").module
