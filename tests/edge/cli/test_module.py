"""`cellule module`: a new module that runs as its README says, building, checking."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.wasm_modules import GOOD, answers
from tests.support.wasm_sources import need_compiler, path_with_asc

if TYPE_CHECKING:
    Cellule = Any

FILES = {
    "c": [".gitignore", "README.md", "counter.c", "manifest.yaml"],
    "assemblyscript": [".gitignore", "README.md", "counter.ts", "manifest.yaml", "package.json"],
}


@pytest.mark.parametrize("language", FILES)
def test_a_new_module_runs_as_its_readme_says(
    empty: Cellule, tmp_path: Path, monkeypatch, language: str
) -> None:
    need_compiler({"c": ".c", "assemblyscript": ".ts"}[language])
    monkeypatch.setenv("PATH", path_with_asc())
    made = empty("module", "init", str(tmp_path / "my-counter"), "--language", language, "--json").json
    assert made == {
        "folder": str(tmp_path / "my-counter"),
        "namespace": "my_counter",
        "files": FILES[language],
    }
    monkeypatch.chdir(tmp_path / "my-counter")
    lines = re.findall(r"^    cellule (.+)$", Path("README.md").read_text(), re.MULTILINE)
    assert len(lines) == 6
    said = [empty(*shlex.split(line, comments=True), code=1 if "refused" in line else 0) for line in lines]
    assert "exports step -> i64" in said[0].out
    assert "below zero" in said[3].err
    assert empty("cell", "show", "counter", "a", "--json").json["state"] == {"n": 2}
    assert empty("verify").code == 0


def test_a_folder_that_is_not_empty_is_kept(empty: Cellule, tmp_path: Path) -> None:
    (tmp_path / "mine.c").write_text("mine")
    assert empty("module", "init", str(tmp_path), "--json", code=1).error["code"] == "cli.not_empty"
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["mine.c"]


def test_what_a_module_exports_and_needs_is_shown(empty: Cellule, tmp_path: Path) -> None:
    (tmp_path / "m.wat").write_text(answers(GOOD, packed=False))
    shown = empty("module", "check", str(tmp_path / "m.wat"), "--json").json
    assert shown["exports"] == {"step": "(i32, i32)"}
    assert shown["memory_bytes"] == 65_536
    assert shown["cid"].startswith("bafkrei")
    assert "exports step -> (i32, i32)" in empty("module", "check", str(tmp_path / "m.wat")).out


def test_a_module_that_does_not_fit_is_refused(empty: Cellule, tmp_path: Path) -> None:
    (tmp_path / "m.wat").write_text('(module (import "env" "now" (func)))')
    error = empty("module", "check", str(tmp_path / "m.wat"), "--json", code=1).error
    assert error["code"] == "modules.wasm_invalid"
    assert "imports env.now" in error["message"]
    gone = empty("module", "check", str(tmp_path / "gone.wasm"), "--json", code=1).error
    assert gone["code"] == "modules.wasm_code"


IMPORTS = """
#include "cellule.h"
extern int now(void) __attribute__((import_name("now"), import_module("env")));
static cl_output f(const cl_input *in) { (void)in; return cl_state(cl_int(now())); }
CELLULE_STEP(f)
"""
REFUSED = {
    "syntax": ("int broken(", r"error: expected"),
    "an import": (IMPORTS, r"imports env\.now"),
    "no step": ("int nothing;", "does not export"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_source_that_cannot_be_built_leaves_the_module_as_it_was(
    empty: Cellule, tmp_path: Path, name: str
) -> None:
    source, problem = REFUSED[name]
    (tmp_path / "m.c").write_text(source)
    (tmp_path / "m.wasm").write_bytes(b"before")
    error = empty("module", "build", str(tmp_path / "m.c"), "--json", code=1).error
    assert error["code"] in ("modules.build_failed", "modules.wasm_invalid")
    assert re.search(problem, error["message"])
    assert (tmp_path / "m.wasm").read_bytes() == b"before"


@pytest.mark.parametrize(
    ("name", "problem"),
    [("m.rs", "its name ends with .rs"), ("m", "ends with nothing"), ("gone.c", "no such file")],
)
def test_what_is_no_source_is_refused(empty: Cellule, tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "m.rs").write_text("")
    error = empty("module", "build", str(tmp_path / name), "--json", code=1).error
    assert error["code"] == "modules.build_failed"
    assert problem in error["message"]


@pytest.mark.parametrize(("name", "words"), [("m.c", "pip install ziglang"), ("m.ts", "npm install")])
def test_without_a_compiler_it_is_said_what_to_install(
    empty: Cellule, tmp_path: Path, monkeypatch, name: str, words: str
) -> None:
    (tmp_path / name).write_text("")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ziglang", None)
    monkeypatch.setattr("cellule.modules.wasm.compiler.find_spec", lambda name: None)
    error = empty("module", "build", str(tmp_path / name), "--json", code=1).error
    assert error["code"] == "modules.compiler_missing"
    assert words in error["hint"]


def test_a_target_that_cannot_be_written_is_refused(empty: Cellule, tmp_path: Path) -> None:
    (tmp_path / "m.c").write_text(
        '#include "cellule.h"\nstatic cl_value up(cl_value old) { return old; }\nCELLULE_UPCAST(up)'
    )
    place = str(tmp_path / "gone" / "m.wasm")
    error = empty("module", "build", str(tmp_path / "m.c"), "--out", place, "--json", code=1).error
    assert "cannot be written" in error["message"]
    built = empty("module", "build", str(tmp_path / "m.c"), "--json").json
    assert built["exports"] == {"upcast": "i64"}
    assert "./m.c" in built["command"]
