"""WebAssembly modules as cells: code in any language that compiles to wasm32, called with the ABI's bytes.

`WasmPrograms` gives them to the kernel. Reading order: `code` (what a manifest stores), `limits`, `runtime`
(the engine, compiling and one call; the only file that imports wasmtime), `programs`.
"""

from __future__ import annotations

from cellule.modules.wasm.programs import WasmPrograms

__all__ = ["WasmPrograms"]
