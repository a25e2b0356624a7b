"""`WasmPrograms`: finds, compiles and runs the WASM code that a manifest names, for the kernel.

Nothing a module answers is trusted: the kernel checks it all. wasmtime is imported when the first module is
packed or loaded; a node without it runs every other world.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

from cellule.errors import Rejected
from cellule.kernel.abi import AbiProgram
from cellule.kernel.manifest.model import Manifest, Module, Upcaster
from cellule.kernel.need import Need, Nodes, fetch
from cellule.kernel.program import Program
from cellule.modules.wasm.code import WASM, WasmCode, read_code, read_file, read_limit, refuse_code
from cellule.values.cid import Cid, cid_of

if TYPE_CHECKING:
    from types import ModuleType

    from cellule.modules.wasm.runtime import Compiled


class WasmPrograms:
    """The `CodeKind` of WASM modules."""

    kinds = (WASM,)
    trusted = False

    def check(self, code: Mapping[str, Any], what: str) -> None:
        """See `Programs.check`."""
        read_code(code, what)
        wasm_runtime(what)

    def pack(
        self, code: Mapping[str, Any], folder: str | None, what: str
    ) -> tuple[Mapping[str, Any], Mapping[Cid, bytes]]:
        """See `Programs.pack`: the file becomes one raw block, in binary form."""
        if "module" in code:
            return code, {}
        return pack_module(read_file(code, folder, what), code, what)

    def program(self, manifest: Manifest, module: Module, nodes: Nodes) -> Generator[Need, None, Program]:
        """See `Programs.program`."""
        call = yield from _load(module.code, "step", module.name, nodes)
        return AbiProgram.of(manifest, module, call)

    def upcaster(
        self, manifest: Manifest, upcaster: Upcaster, nodes: Nodes
    ) -> Generator[Need, None, Callable[[bytes], bytes]]:
        """See `Programs.upcaster`: the export `upcast` turns the bytes of a value into those of the next."""
        del manifest
        what = f"the upcaster {upcaster.old} -> {upcaster.new}"
        return (yield from _load(upcaster.code, "upcast", what, nodes))


def pack_module(
    data: bytes, options: Mapping[str, Any], what: str
) -> tuple[Mapping[str, Any], Mapping[Cid, bytes]]:
    """The code of a manifest and its block, from a module in binary or text form."""
    runtime = wasm_runtime(what)
    binary: bytes = runtime.to_binary(data, what)
    cid = cid_of(binary, "raw")
    runtime.shared_runtime().compiled(cid, binary, what)
    code = WasmCode(cid, read_limit(options, "fuel", what), read_limit(options, "memory_bytes", what))
    return code.document(), {cid: binary}


def wasm_runtime(what: str) -> ModuleType:
    """The module `runtime`, which needs wasmtime; `Rejected` says what to install."""
    try:
        from cellule.modules.wasm import runtime
    except ImportError as error:
        raise Rejected(
            "modules.wasm_missing", "{what} is WASM code, which needs the package wasmtime: {why}",
            what=what, why=error, hint='Install it: pip install "cellule[wasm]".',
        ) from error  # fmt: skip
    return runtime


def _load(
    given: Mapping[str, Any], export: str, what: str, nodes: Nodes
) -> Generator[Need, None, Callable[[bytes], bytes]]:
    module = wasm_runtime(what)
    runtime = module.shared_runtime()
    code = read_code(given, what)
    found = yield from fetch(nodes, (code.module,))
    compiled: Compiled = runtime.compiled(code.module, found[code.module], what)
    if export not in compiled.packed:
        refuse_code(what, "module", f"it does not export {export}(i32, i32) -> i64 or -> (i32, i32)")
    if compiled.memory_min > code.memory_bytes:
        problem = f"{code.memory_bytes}, but the module begins with {compiled.memory_min} bytes of memory"
        refuse_code(what, "memory_bytes", problem)
    call = module.Call(export, code.fuel, code.memory_bytes)
    return lambda data: runtime.call(compiled, call, data)
