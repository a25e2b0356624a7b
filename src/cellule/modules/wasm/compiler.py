"""Building a module from its source: which compiler runs, with which flags, and what it may answer.

C is compiled by the package ziglang, which is a clang with its linker, or else by `clang`; AssemblyScript by
`assemblyscript` in the `node_modules` of the source's folder or of one above it, or else by `asc`. Nothing is
fetched. A module that does not fit the ABI is not written: what was built before stays.

Rejected: copies of the SDK in each project. They would stay behind what the runtime reads.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from cellule.errors import Rejected
from cellule.modules.wasm import limits
from cellule.modules.wasm.code import read_module_file
from cellule.modules.wasm.programs import pack_module, wasm_runtime
from cellule.values.cid import cid_of

SUFFIXES: Final = {".c": "C", ".ts": "AssemblyScript"}
_C_FLAGS: Final = (
    "-std=c11", "-O2", "-nostdlib", "-ffreestanding", "-Wall", "-Wextra", "-Wl,--no-entry",
    "-Wl,--strip-debug", "-Wl,-z,stack-size=65536",
)  # fmt: skip
_ASC_FLAGS: Final = ("--runtime", "stub", "--use", "abort=", "-O3", "--noColors")  # abort would be an import
_ASC: Final = Path("node_modules", "assemblyscript", "bin", "asc.js")


class Built(NamedTuple):
    """A module that was written, and the command that made it."""

    path: Path
    command: tuple[str, ...]
    facts: Mapping[str, Any]


def build_module(source: Path, target: Path | None = None) -> Built:
    """Compile a source, check the module, write it; `modules.build_failed` says what the compiler said."""
    if source.suffix not in SUFFIXES:
        known = " or ".join(f"{suffix} ({name})" for suffix, name in SUFFIXES.items())
        _refuse(source, f"its name ends with {source.suffix or 'nothing'}", f"A source is a file of {known}.")
    if not source.is_file():
        _refuse(source, "there is no such file", "Name the source, such as counter.c.")
    target = target or source.with_suffix(".wasm")
    with tempfile.TemporaryDirectory(prefix="cellule-build-") as folder:
        made = Path(folder) / "module.wasm"
        command = _command(source, made)
        _run(command, source)
        facts = module_facts(made)
        try:
            shutil.copyfile(made, target)
        except OSError as error:
            _refuse(
                source, f"{target} cannot be written: {error.strerror}", "Choose another file with --out."
            )
    return Built(target, command, facts)


def module_facts(path: Path) -> dict[str, Any]:
    """What a module is and needs; raises `modules.wasm_invalid` when it does not fit the ABI."""
    what = str(path)
    [data] = pack_module(read_module_file(path, what), {}, what)[1].values()
    found = wasm_runtime(what).shared_runtime().inspect(data, what)
    answers = {name: "i64" if packed else "(i32, i32)" for name, packed in found.packed.items()}
    return {
        "bytes": len(data), "cid": str(cid_of(data, "raw")), "exports": answers,
        "memory_bytes": found.memory_min,
    }  # fmt: skip


def _command(source: Path, made: Path) -> tuple[str, ...]:
    sdk = Path(str(files("cellule.modules.wasm") / "sdk"))
    if source.suffix == ".c":
        place = ("-I", str(sdk / "c"), f"./{source.name}", "-o", str(made))
        return (*_c_compiler(source), *_C_FLAGS, *place)
    place = (f"./{source.name}", "--outFile", str(made), "--path", str(sdk / "assemblyscript"))
    return (*_asc(source), *place, *_ASC_FLAGS)


def _c_compiler(source: Path) -> tuple[str, ...]:
    if find_spec("ziglang") is not None:
        return sys.executable, "-m", "ziglang", "cc", "-target", "wasm32-freestanding"
    clang = shutil.which("clang")
    if clang is None:
        _missing(source, "a clang for wasm32", "Install one: pip install ziglang; or clang with lld.")
    return clang, "--target=wasm32-unknown-unknown"


def _asc(source: Path) -> tuple[str, ...]:
    node = shutil.which("node")
    for folder in source.resolve().parents:
        if node is not None and (folder / _ASC).is_file():
            return node, str(folder / _ASC)
    found = shutil.which("asc")
    if found is None or node is None:
        hint = "Install Node.js, then: npm install --save-dev assemblyscript"
        _missing(source, "node and the package assemblyscript", hint)
    return (found,)


def _run(command: tuple[str, ...], source: Path) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - the compiler of the person who builds, on a file of theirs
            command, cwd=source.resolve().parent, capture_output=True, check=False, timeout=limits.BUILD_S_MAX
        )
    except subprocess.TimeoutExpired:
        _refuse(source, f"the compiler took more than {limits.BUILD_S_MAX} s", "See what it waits for.")
    except OSError as error:
        _refuse(source, f"the compiler {command[0]} cannot be run: {error.strerror}", "Install it again.")
    if done.returncode != 0:
        said = (done.stderr + done.stdout).decode(errors="replace").strip()
        _refuse(source, f"\n{said[: limits.BUILD_MESSAGE_MAX]}", "Correct the source, and build it again.")


def _refuse(source: Path, problem: str, hint: str) -> NoReturn:
    raise Rejected(
        "modules.build_failed",
        "{source} is not built: {problem}",
        source=str(source),
        problem=problem,
        hint=hint,
    )


def _missing(source: Path, needed: str, hint: str) -> NoReturn:
    raise Rejected(
        "modules.compiler_missing", "to build {source}, {needed} is needed",
        source=str(source), needed=needed, hint=hint,
    )  # fmt: skip
