"""What a manifest stores as the `code` of a WASM module or upcaster.

    {kind: "wasm", module: link, fuel: 100000000, memory_bytes: 67108864}       stored
    {kind: "wasm", file: "counter.wasm", fuel?: int, memory_bytes?: int}        as an author writes it

`module` is the binary module as one raw block. Both limits are always stored: a default that changes later
must not change what an old journal does when it is verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple, NoReturn

from cellule.errors import Rejected
from cellule.modules.wasm.limits import (
    CODE_BYTES_MAX,
    FUEL_DEFAULT,
    FUEL_MAX,
    MEMORY_BYTES_MAX,
    MEMORY_BYTES_MIN,
)
from cellule.values.cid import Cid
from cellule.values.link import Link

WASM: Final = "wasm"
_STORED: Final = {"kind", "module", "fuel", "memory_bytes"}
_WRITTEN: Final = {"kind", "file", "fuel", "memory_bytes"}
_BOUNDS: Final = {
    "fuel": (1, FUEL_DEFAULT, FUEL_MAX),
    "memory_bytes": (MEMORY_BYTES_MIN, MEMORY_BYTES_MAX, MEMORY_BYTES_MAX),
}


class WasmCode(NamedTuple):
    """The `code` of a manifest entry, read."""

    module: Cid
    fuel: int
    memory_bytes: int

    def document(self) -> dict[str, Any]:
        """The map that stands in the manifest."""
        return {
            "kind": WASM, "module": Link(self.module), "fuel": self.fuel, "memory_bytes": self.memory_bytes,
        }  # fmt: skip


def read_code(code: Mapping[str, Any], what: str) -> WasmCode:
    """Read stored code; raises `modules.wasm_code` naming the field."""
    _check_fields(code, _STORED, what)
    module = code.get("module")
    if not isinstance(module, Link) or module.cid.codec != "raw":
        refuse_code(what, "module", "a link to a raw block is needed")
    return WasmCode(module.cid, read_limit(code, "fuel", what), read_limit(code, "memory_bytes", what))


def read_file(code: Mapping[str, Any], folder: str | None, what: str) -> bytes:
    """The bytes of the file that written code names; raises `modules.wasm_code` naming the field."""
    _check_fields(code, _WRITTEN, what)
    name = code.get("file")
    if not isinstance(name, str) or not name:
        refuse_code(what, "file", "the name of a .wasm or .wat file is needed")
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts:
        refuse_code(what, "file", f"{name!r} leaves the folder of code")
    if folder is None:
        raise Rejected(
            "modules.code_folder", "the code of {what} is {entry}: in which folder?",
            what=what, entry=name, hint='Name the folder: code="src", or --code src.',
        )  # fmt: skip
    return read_module_file(Path(folder) / name, what)


def read_module_file(path: Path, what: str) -> bytes:
    """The bytes of a file with WASM code, not longer than the limit."""
    try:
        with path.open("rb") as file:
            data = file.read(CODE_BYTES_MAX + 1)
    except OSError as error:
        refuse_code(what, "file", f"{path} cannot be read: {error.strerror}")
    if len(data) > CODE_BYTES_MAX:
        refuse_code(what, "file", f"{path} has more than {CODE_BYTES_MAX} bytes")
    return data


def read_limit(code: Mapping[str, Any], name: str, what: str) -> int:
    """One of the limits, or its default."""
    least, default, limit = _BOUNDS[name]
    value = code.get(name, default)
    if type(value) is not int or not least <= value <= limit:
        refuse_code(what, name, f"an integer from {least} to {limit} is needed, not {value!r}")
    return value


def refuse_code(what: str, field: str, problem: str) -> NoReturn:
    """Refuse the code of a module or upcaster."""
    raise Rejected(
        "modules.wasm_code", "the WASM code of {what}: {field}: {problem}",
        what=what, field=field, problem=problem,
        hint="Write code: {kind: wasm, file: counter.wasm}; see docs/guides/wasm.md.",
    )  # fmt: skip


def _check_fields(code: Mapping[str, Any], known: set[str], what: str) -> None:
    for name in sorted(set(code) - known):
        refuse_code(what, name, f"there is no such field; there are {', '.join(sorted(known))}")
