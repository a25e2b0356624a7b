"""The numbers of WASM code. What a step may use stands in the manifest, so that a replay has the same."""

from __future__ import annotations

CODE_BYTES_MAX = 4_000_000  # a compiled module as a file; longer ones take long to compile
FUEL_DEFAULT = 100_000_000  # about one for each instruction: some tenths of a second
FUEL_MAX = 10_000_000_000
MEMORY_BYTES_MAX = 64 * 1024 * 1024  # linear memory of one step, also the default
MEMORY_BYTES_MIN = 64 * 1024  # one page
TABLES_MAX = 4
TABLE_ELEMENTS_MAX = 10_000
STACK_BYTES_MAX = 512 * 1024  # the stack of native frames
EXPORTS_MAX = 1_000
COMPILED_MAX = 64  # compiled modules kept in memory
FUNCTION_NAME_MAX = 100  # characters of a function's name in a failure
BUILD_S_MAX = 300  # seconds of a compiler
BUILD_MESSAGE_MAX = 4_000  # characters of what a compiler says, in an error
