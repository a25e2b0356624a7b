"""Modules built from source for tests, each once in a process; what cannot be compiled here is skipped."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from cellule.modules.wasm.compiler import build_module

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "wasm"
EXAMPLE = ROOT / "examples" / "08-wasm"
SUFFIXES = (".c", ".ts")
ASC_FOLDER = Path(sys.prefix) / "assemblyscript" / "node_modules" / ".bin"


def path_with_asc() -> str:
    """The PATH on which `asc` is found where `make setup` could install it."""
    return f"{os.environ['PATH']}{os.pathsep}{ASC_FOLDER}"


def need_compiler(suffix: str) -> None:
    """Skip the test where AssemblyScript is not there; a clang always is."""
    if suffix == ".ts" and (
        shutil.which("asc", path=path_with_asc()) is None or shutil.which("node") is None
    ):
        pytest.skip("AssemblyScript is not installed; `make setup` installs it where there is npm")


def built(source: Path) -> bytes:
    """The module built from a source."""
    need_compiler(source.suffix)
    return _built(source)


@cache
def _built(source: Path) -> bytes:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("PATH", path_with_asc())
        return build_module(source, Path(folder) / "module.wasm").path.read_bytes()
