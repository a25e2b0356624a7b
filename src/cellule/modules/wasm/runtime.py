"""The WASM engine: compiling a module, and one call of it on a fresh instance. Only this file knows wasmtime.

Every call gets a new store and instance, so nothing of a step reaches the next one: memory, globals, tables
and dropped segments are all new. The engine's pool of instances makes that cheap: it keeps the memory of
the last instance mapped and puts its first contents back (16 instead of 39 us a call).

The same bytes give the same answer everywhere: no imports, no threads, no relaxed SIMD, one NaN, fuel instead
of a clock. Only the depth at which recursion overflows the stack depends on the processor.

Rejected: one instance for many steps, with its memory written back. Its globals are hidden from us.
Rejected: compiled code on disk. Loading native code that somebody else may have written runs it.
Rejected: `wasmtime.Func`, which reads the type of a function at each call; a step would take 115 us.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
from collections import OrderedDict
from ctypes import POINTER, addressof, byref, c_uint32, c_uint64, memmove, string_at
from functools import cache
from typing import Any, Final, NamedTuple, NoReturn
from weakref import WeakSet

import wasmtime
from wasmtime import _bindings as c_api

from cellule.errors import Rejected
from cellule.kernel.limits import ABI_OUTPUT_BYTES_MAX
from cellule.kernel.program import StepFault
from cellule.modules.wasm import limits
from cellule.values.cid import Cid

_PAGE: Final = 65_536
_LOW: Final = 0xFFFF_FFFF
_NO_FINALIZER: Final = ctypes.cast(0, ctypes.CFUNCTYPE(None, ctypes.c_void_p))
_NO_IMPORTS: Final = (c_api.wasmtime_extern_t * 0)()
_SHORTS: Final = ctypes.sizeof(c_api.wasmtime_val_raw_t) // 4  # 32-bit words of one value
_OFF: Final = (
    "wasm_threads", "wasm_relaxed_simd", "wasm_memory64", "wasm_multi_memory", "wasm_exceptions",
    "wasm_function_references", "wasm_gc", "wasm_stack_switching", "wasm_component_model",
    "wasm_wide_arithmetic", "wasm_custom_page_sizes",
)  # fmt: skip
_ALLOC: Final = (("i32",), ("i32",))
_ANSWERS: Final = ((("i32", "i32"), ("i64",)), (("i32", "i32"), ("i32", "i32")))


class Call(NamedTuple):
    """What a call needs beside its bytes: the export to call, and what it may use."""

    export: str
    fuel: int
    memory_bytes: int


class Compiled(NamedTuple):
    """A module that was compiled and fits the ABI; `places` are the positions of its exports."""

    module: wasmtime.Module
    places: dict[str, int]
    packed: dict[str, bool]  # whether an export answers one i64 instead of two i32
    memory_min: int


class Runtime:
    """The engine of a process; calls take turns."""

    def __init__(self) -> None:
        self.engine = wasmtime.Engine(_config())
        self._lock = threading.Lock()
        self._compiled: OrderedDict[Cid, Compiled] = OrderedDict()
        self._living: WeakSet[wasmtime.Module] = WeakSet()
        atexit.register(self._close)  # the package's own functions are gone when the interpreter frees ours

    def compiled(self, cid: Cid, data: bytes, what: str) -> Compiled:
        """The module with these bytes, compiled once; raises `modules.wasm_invalid` naming what is wrong."""
        with self._lock:
            found = self._compiled.get(cid)
            if found is None:
                found = self._compiled[cid] = compile_module(self.engine, data, what)
                self._living.add(found.module)
                if len(self._compiled) > limits.COMPILED_MAX:
                    self._compiled.popitem(last=False)
            self._compiled.move_to_end(cid)
            return found

    def _close(self) -> None:
        for module in list(self._living):
            module.close()
        self.engine.close()

    def inspect(self, data: bytes, what: str) -> Compiled:
        """A module that is not kept."""
        return compile_module(self.engine, data, what)

    def call(self, compiled: Compiled, call: Call, data: bytes) -> bytes:
        """The answer of one call on an instance of its own; raises `StepFault` whatever the module does."""
        with self._lock:
            store = c_api.wasmtime_store_new(self.engine.ptr(), None, _NO_FINALIZER)
            try:
                return _Instance(store, compiled, call).answer(data)
            finally:
                c_api.wasmtime_store_delete(store)


class _Instance:
    """One instance in one store, for one call."""

    def __init__(self, store: Any, compiled: Compiled, call: Call) -> None:
        self._call = call
        self._packed = compiled.packed[call.export]
        self._context = context = c_api.wasmtime_store_context(store)
        self._trap: Any = POINTER(c_api.wasm_trap_t)()
        self._raw = (c_api.wasmtime_val_raw_t * 2)()
        c_api.wasmtime_store_limiter(
            store, call.memory_bytes, limits.TABLE_ELEMENTS_MAX, 1, limits.TABLES_MAX, 1
        )
        c_api.wasmtime_context_set_fuel(context, call.fuel)
        instance = c_api.wasmtime_instance_t()
        error = c_api.wasmtime_instance_new(
            context, compiled.module.ptr(), _NO_IMPORTS, 0, byref(instance), byref(self._trap)
        )
        self._check("its start", error)
        self._memory = byref(self._export(instance, compiled.places["memory"]).memory)
        self._alloc = byref(self._export(instance, compiled.places["alloc"]).func)
        self._function = byref(self._export(instance, compiled.places[call.export]).func)

    def answer(self, data: bytes) -> bytes:
        words = ctypes.cast(self._raw, POINTER(c_uint32))
        words[0] = size = len(data)
        self._run("alloc", self._alloc, 1)
        start: int = words[0]
        memmove(self._place("alloc", start, size), data, size)
        words[0], words[_SHORTS] = start, size
        self._run(self._call.export, self._function, 2)
        if self._packed:
            both: int = ctypes.cast(self._raw, POINTER(c_uint64))[0]
            start, size = both >> 32, both & _LOW
        else:
            start, size = words[0], words[_SHORTS]
        if size > ABI_OUTPUT_BYTES_MAX:
            raise StepFault(
                "modules.wasm_output",
                f"{self._call.export} answered {size} bytes; at most {ABI_OUTPUT_BYTES_MAX}",
            )
        return string_at(self._place(self._call.export, start, size), size)

    def _export(self, instance: Any, place: int) -> Any:
        found = c_api.wasmtime_extern_t()
        name, size = POINTER(ctypes.c_char)(), ctypes.c_size_t()
        c_api.wasmtime_instance_export_nth(
            self._context, byref(instance), place, byref(name), byref(size), byref(found)
        )
        return found.of

    def _run(self, name: str, function: Any, count: int) -> None:
        error: Any = c_api.wasmtime_func_call_unchecked(
            self._context, function, self._raw, count, byref(self._trap)
        )
        if error or self._trap:
            self._check(name, error)

    def _check(self, name: str, error: Any) -> None:
        if error:
            made = wasmtime.WasmtimeError._from_ptr(error)  # noqa: SLF001 - as the package makes them
            raise StepFault("modules.wasm_trap", f"{name} could not be called: {str(made).splitlines()[0]}")
        if self._trap:
            raise _fault(name, wasmtime.Trap._from_ptr(self._trap), self._call)  # noqa: SLF001

    def _place(self, name: str, start: int, size: int) -> int:
        """The address of bytes in the module's memory; they are all inside it."""
        whole = c_api.wasmtime_memory_data_size(self._context, self._memory)
        if start + size > whole:
            raise StepFault(
                "modules.wasm_pointer",
                f"{name} answered {size} bytes at {start}, but the memory has {whole} bytes",
            )
        return addressof(c_api.wasmtime_memory_data(self._context, self._memory).contents) + start


def compile_module(engine: wasmtime.Engine, data: bytes, what: str) -> Compiled:
    """Compile and check a module; raises `modules.wasm_invalid` naming what is wrong."""
    try:
        module = wasmtime.Module(engine, data)
    except wasmtime.WasmtimeError as error:
        _refuse(what, f"it does not compile: {' '.join(str(error).split())[:500]}")
    for each in module.imports:
        _refuse(what, f"it imports {each.module}.{each.name}, and a step can call nothing outside of itself")
    exports = module.exports
    if len(exports) > limits.EXPORTS_MAX:
        _refuse(what, f"it has {len(exports)} exports; at most {limits.EXPORTS_MAX}")
    found = {each.name: each.type for each in exports}
    memory = found.get("memory")
    if not isinstance(memory, wasmtime.MemoryType):
        _refuse(what, "it does not export its memory as `memory`")
    if _form(found.get("alloc")) != _ALLOC:
        _refuse(what, "it does not export alloc(i32) -> i32")
    packed = {
        name: _form(found[name]) == _ANSWERS[0]
        for name in ("step", "upcast")
        if _form(found.get(name)) in _ANSWERS
    }
    if not packed:
        _refuse(what, "it does not export step(i32, i32) -> i64 or -> (i32, i32)")
    places = {each.name: at for at, each in enumerate(exports)}
    return Compiled(module, places, packed, memory.limits.min * _PAGE)


def to_binary(data: bytes, what: str) -> bytes:
    """A binary module from its binary or its text form (.wat)."""
    if data.startswith(b"\0asm"):
        return data
    try:
        return bytes(wasmtime.wat2wasm(data))
    except wasmtime.WasmtimeError as error:
        _refuse(
            what, f"it is neither a binary module nor its text form: {' '.join(str(error).split())[:500]}"
        )


@cache
def shared_runtime() -> Runtime:
    """The runtime of this process, made when the first module needs it."""
    return Runtime()


def _config() -> wasmtime.Config:
    config = wasmtime.Config()
    config.consume_fuel = True
    config.cranelift_nan_canonicalization = True
    config.max_wasm_stack = limits.STACK_BYTES_MAX
    config.memory_reservation = limits.MEMORY_BYTES_MAX  # instead of 4 GB of addresses for each memory
    for name in _OFF:
        setattr(config, name, False)
    pool = c_api.wasmtime_pooling_allocation_config_new()
    for name, value in (
        ("total_core_instances", 1), ("total_memories", 1), ("total_tables", limits.TABLES_MAX),
        ("max_memories_per_module", 1), ("max_tables_per_module", limits.TABLES_MAX),
        ("max_memory_size", limits.MEMORY_BYTES_MAX), ("table_elements", limits.TABLE_ELEMENTS_MAX),
        ("linear_memory_keep_resident", 2 * _PAGE),
    ):  # fmt: skip
        getattr(c_api, f"wasmtime_pooling_allocation_config_{name}_set")(pool, value)
    c_api.wasmtime_pooling_allocation_strategy_set(config.ptr(), pool)
    c_api.wasmtime_pooling_allocation_config_delete(pool)
    return config


def _form(kind: object) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    if not isinstance(kind, wasmtime.FuncType):
        return None
    return tuple(map(str, kind.params)), tuple(map(str, kind.results))


def _fault(name: str, trap: wasmtime.Trap, call: Call) -> StepFault:
    code = trap.trap_code
    if code is wasmtime.TrapCode.OUT_OF_FUEL:
        return StepFault("modules.wasm_fuel", f"{name} used up its fuel of {call.fuel}")
    if code is wasmtime.TrapCode.STACK_OVERFLOW:
        return StepFault("modules.wasm_stack", f"{name} recursed deeper than its stack")
    reason = "a trap" if code is None else code.name.lower().replace("_", " ")
    return StepFault("modules.wasm_trap", f"{name} trapped: {reason}{_where(trap)}")


def _where(trap: wasmtime.Trap) -> str:
    frames = trap.frames
    if not frames:
        return ""
    function = frames[0].func_name or f"function {frames[0].func_index}"
    return f", in {function[: limits.FUNCTION_NAME_MAX]}"


def _refuse(what: str, problem: str) -> NoReturn:
    raise Rejected(
        "modules.wasm_invalid", "the WASM module of {what}: {problem}", what=what, problem=problem,
        hint="docs/guides/wasm.md lists what a module exports.",
    )  # fmt: skip
