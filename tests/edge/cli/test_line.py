"""The line itself: global options anywhere, exit codes, errors, apps, JSON of every command."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import cellule
from cellule.cli.cell_versions import change_text, changes
from cellule.cli.errors import Exit, cellule_error, exit_code
from cellule.cli.main import app as cellule_app
from cellule.cli.main import globals_first
from cellule.errors import (
    Corrupted,
    Fenced,
    InvariantBroken,
    OutcomeUnknown,
    Parked,
    Rejected,
    StepFailed,
    Unavailable,
    VersionConflict,
)

if TYPE_CHECKING:
    Cellule = Any

READS = [
    ("universe", "list"),
    ("universe", "show", "default"),
    ("world", "list"),
    ("world", "show"),
    ("cell", "list"),
    ("cell", "show", "order", "o1"),
    ("cell", "history", "order", "o1"),
    ("cell", "export", "order", "o1"),
    ("journal", "show", "1..3"),
    ("why", "order/o1"),
    ("stuck",),
    ("verify",),
    ("check",),
    ("doctor",),
]


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_reading_commands_answer_in_json_and_change_nothing(shop: Cellule, command: tuple[str, ...]) -> None:
    before = shop("journal", "tail", "--no-follow", "-n", "100", "--json").out
    assert isinstance(shop(*command, "--json").json, dict)
    assert shop(*command).out
    assert shop("journal", "tail", "--no-follow", "-n", "100", "--json").out == before


@pytest.mark.parametrize("command", [each for each in READS if each != ("doctor",)], ids=" ".join)
def test_commands_on_a_folder_without_data_refuse_and_make_none(
    empty: Cellule, command: tuple[str, ...]
) -> None:
    error = empty(*command, "--json", code=1).error
    assert error["code"] == "store.no_data"
    assert not empty.data.exists()


def test_global_options_may_stand_anywhere(shop: Cellule) -> None:
    front = shop("--json", "--world", "main", "cell", "show", "order", "o1").json
    behind = shop("cell", "show", "order", "--world=main", "o1", "--json").json
    assert front == behind


def test_what_stands_behind_two_dashes_is_no_option() -> None:
    line = ["event", "send", "--json", "--", "--data", "x"]
    assert globals_first(line) == ["--json", "event", "send", "--", "--data", "x"]
    assert globals_first(["world", "list", "--data"]) == ["--data", "world", "list"]


def test_settings_come_from_the_environment_too(shop: Cellule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLULE_WORLD", "none")
    assert shop("world", "show", "--json", code=1).error["code"] == "host.no_world"
    assert shop("world", "show", "--world", "main", "--json").json["name"] == "main"


def test_the_real_command_ends_with_the_right_codes(shop: Cellule) -> None:
    assert shop.process("--version").out == f"cellule {cellule.__version__}\n"
    assert "Usage" in shop.process("--help").out
    assert json.loads(shop.process("world", "list", "--json").out)["worlds"]
    refused = shop.process("world", "show", "mian", code=1)
    assert refused.out == ""
    assert "error: there is no world mian" in refused.err
    assert "hint:" in refused.err
    assert "host.no_world" in refused.err
    assert "Traceback" not in refused.err
    assert shop.process("world", "shwo", code=2).err
    assert shop.process("cell", "show", "order", "o1", "--limit", code=2).err
    assert shop.process("world", "shwo", "--json", code=2).error["code"] == "cli.usage"
    assert shop.process("cell", "list", "--limit", "0", "--json", code=2).error["exit_code"] == 2


def test_python_can_run_the_package(shop: Cellule) -> None:
    command = [*shop.command("world", "list", "--json")]
    python = str(Path(command[0]).parent / "python")
    done = subprocess.run(
        [python, "-m", "cellule", *command[1:]], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout)["worlds"]


@pytest.mark.parametrize("command", [("journal", "tail", "--after", "0"), ("journal", "show", "1..3")])
def test_an_output_that_nobody_reads_is_no_error(shop: Cellule, command: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        answer = shop.command(*command, "--json")
        done = subprocess.run(
            answer, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_tail_ends_when_its_reader_does_even_if_nothing_happens(shop: Cellule) -> None:
    command = " ".join(shop.command("journal", "tail", "--after", "0", "--json")) + " | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert json.loads(done.stdout)["height"] == 1
    assert done.stderr == ""


def test_a_folder_that_cannot_be_written_is_refused(empty: Cellule) -> None:
    empty.data.write_text("a file")
    error = empty("universe", "create", "north", "--json", code=1).error
    assert error["code"] == "host.folder"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Rejected("a.b", "m"), Exit.REJECTED),
        (VersionConflict("a.b", "m"), Exit.REJECTED),
        (Unavailable("a.b", "m"), Exit.UNAVAILABLE),
        (OutcomeUnknown("a.b", "m"), Exit.UNAVAILABLE),
        (Fenced("a.b", "m"), Exit.UNAVAILABLE),
        (Corrupted("a.b", "m"), Exit.DAMAGED),
        (StepFailed("a.b", "m"), Exit.FAILED),
        (Parked("a.b", "m"), Exit.FAILED),
        (InvariantBroken("a.b", "m"), Exit.BUG),
    ],
)
def test_every_kind_of_error_has_its_exit_code(error: Any, code: Exit) -> None:
    assert exit_code(error) == code
    assert cellule_error(ExceptionGroup("x", [ValueError(), ExceptionGroup("y", [error])])) is error


def test_apps_are_found_by_file_and_by_module(
    empty: Cellule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(empty.app.rpartition(":")[0]).read_text()
    (tmp_path / "by_module.py").write_text(
        source.replace("app = App", "shop = App").replace("@app.", "@shop.")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    empty("world", "create", "one", "--app", "by_module:shop")
    empty("world", "create", "two", "--app", "by_module.py:shop")
    assert len(empty("world", "list", "--json").json["worlds"]) == 2
    error = empty("world", "create", "three", "--app", "by_module", "--json", code=1).error
    assert error["code"] == "cli.app_attribute"
    assert "shop" in error["hint"]


@pytest.mark.parametrize(
    ("text", "place", "code"),
    [
        (None, "missing.py:app", "cli.app_not_found"),
        (None, "missing_module:app", "cli.app_not_found"),
        ("app = 3", "wrong.py", "cli.app_attribute"),
        ("import missing_thing", "wrong.py", "cli.app_failed"),
        ("1 / 0", "wrong.py", "cli.app_failed"),
        ("def (", "wrong.py", "cli.app_failed"),
    ],
)
def test_an_app_that_cannot_be_loaded_says_where(
    empty: Cellule, tmp_path: Path, text: str | None, place: str, code: str
) -> None:
    if text is not None:
        (tmp_path / "wrong.py").write_text(text)
        place = str(tmp_path / place)
    error = empty("world", "create", "main", "--app", place, "--json", code=1).error
    assert error["code"] == code
    if code == "cli.app_failed":
        assert "wrong.py:1" in error["message"]


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2, "b": [1]}, ["a: 1 -> 2", "b = [1]"]),
        ({"a": 1}, {}, ["a gone (was 1)"]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ["a.b[1]: 2 -> 3"]),
        ([1], [1, 2], ["state: [1] -> [1, 2]"]),
        (1, 1.0, ["state: 1 -> 1.0"]),
        (None, {"a": 1}, ['state: null -> {"a": 1}']),
    ],
)
def test_changes_name_the_innermost_field(before: Any, after: Any, texts: list[str]) -> None:
    assert [change_text(each) for each in changes(before, after)] == texts


ROOT = Path(cellule.__file__).parents[2]


def test_every_code_of_the_command_line_is_documented() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "src/cellule/cli").glob("*.py"))
    used = set(re.findall(r'"(cli\.[a-z_]+)"', sources))
    documented = set(
        re.findall(r"^## (cli\.[a-z_]+)$", (ROOT / "docs/errors/cli.md").read_text(), re.MULTILINE)
    )
    assert used == documented


def test_every_command_and_exit_code_is_in_the_reference() -> None:
    text = (ROOT / "docs/reference/cli.md").read_text()
    for command in ("init", "dev", "why", "stuck", "verify", "check", "backup", "restore", "bench", "doctor"):
        assert f"cellule {command}" in text
    for noun, verbs in {
        "universe": ("create", "list", "show", "delete"),
        "world": ("create", "list", "show", "delete", "snapshot", "pause", "resume"),
        "cell": ("list", "show", "tail", "history", "export", "resume", "migrate"),
        "event": ("send",),
        "journal": ("tail", "show"),
    }.items():
        assert f"cellule {noun}" in text
        shown = CliRunner().invoke(cellule_app, [noun, "--help"]).stdout
        for verb in verbs:
            assert verb in shown
            assert verb in text
    for code in Exit:
        assert f"| {int(code)} |" in text
