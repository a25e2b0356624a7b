"""What a person mistypes: texts that Python reads badly, refused paths, files that are not there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cellule.cli.given import JSON_DEPTH_MAX, json_of

if TYPE_CHECKING:
    Cellule = Any

LONG = "a" * 300  # no file system takes a name of that length
MISTAKES = {
    "a height in another script": ("journal", "show", "²"),
    "a range in another script": ("journal", "show", "1..²"),
    "a height without end": ("why", "1" * 5_000),
    "a version in another script": ("why", "order/o1@²"),
    "a height in the past without end": ("cell", "show", "order", "o1", "--at", "1" * 5_000),
    "a beat in another script": ("tree", "read", "/rt/beat/²"),
    "a beat to list from": ("tree", "list", "/rt/beat", "--after", "²"),
    "a version of a cell": ("event", "send", "Placed", "{}", "--expected-version", "1" * 5_000),
    "brackets without end": ("event", "send", "Placed", "[" * 5_000),
    "brackets in a payload": ("signal", "/a", "--payload", "[" * 5_000),
    "digits without end in a payload": ("signal", "/a", "--payload", "1" * 5_000),
    "no number in a payload": ("signal", "/a", "--payload", "NaN"),
    "brackets in an event that is tried": ("world", "what-if", "--event", f"Placed={'[' * 5_000}"),
    "no end of time": ("world", "what-if", "--advance", "inf"),
    "more than all time": ("world", "what-if", "--advance", "1e300"),
    "a picture in no folder": ("world", "tree", "--svg", "no/folder/tree.svg"),
    "a picture over a folder": ("world", "tree", "--svg", "."),
    "a name that is too long": ("doctor", LONG),
    "a script that is too long": ("world", "fork", "x", "--effects", "scripted", "--script", LONG),
    "a project that is too long": ("init", LONG),
    "a source that is too long": ("restore", LONG),
}


@pytest.mark.parametrize("line", MISTAKES.values(), ids=MISTAKES)
def test_a_mistyped_line_is_told_as_one_and_changes_nothing(shop: Cellule, line: tuple[str, ...]) -> None:
    before = shop("journal", "tail", "--no-follow", "-n", "100", "--json").out
    for told in (shop(*line, code=None), shop(*line, "--json", code=None)):
        assert told.code in (1, 2, 3)
        assert "Traceback" not in told.err
    assert shop("journal", "tail", "--no-follow", "-n", "100", "--json").out == before


@pytest.mark.parametrize("line", [("world", "list"), ("check",), ("doctor",), ("event", "send", "Placed")])
def test_a_data_folder_that_the_system_refuses_is_told(shop: Cellule, line: tuple[str, ...]) -> None:
    """It was a trace, as was a folder of another user: looking whether there is data was not guarded."""
    shop.data = shop.data.parent / LONG
    told = shop(*line, "--json", code=None)
    assert told.code in (1, 3)
    assert "too long" in told.err + told.out


def test_a_file_that_cannot_be_imported_makes_no_store(empty: Cellule, shop: Cellule, tmp_path: Path) -> None:
    exported = tmp_path / "main.car"
    shop("world", "export", "main", str(exported))
    cut = tmp_path / "cut.car"
    cut.write_bytes(exported.read_bytes()[:-9])
    shutil.rmtree(empty.data, ignore_errors=True)
    assert empty("world", "import", "nowhere.car", "--json", code=1).error["code"] == "archive.file"
    assert empty("world", "import", str(cut), "--json", code=1).error["code"] == "archive.broken"
    found = empty("world", "import", str(exported), "--name", "other", "--dry-run", "--json").json
    assert (found["name"], found["here"], found["dry_run"]) == ("other", False, True)
    assert not empty.data.exists()
    assert empty("world", "import", str(exported), "--json").json["name"] == "main"


def test_a_store_without_worlds_says_so_when_it_is_verified(empty: Cellule) -> None:
    empty("universe", "create", "other")
    assert "no world yet" in empty("verify").out


def test_the_way_into_a_new_project_can_be_typed(empty: Cellule, tmp_path: Path) -> None:
    folder = tmp_path / "my shop"
    assert f"cd '{folder}'" in empty("init", str(folder)).out


def test_json_is_as_deep_as_a_value_may_be_and_brackets_in_texts_do_not_count() -> None:
    assert json_of(json.dumps({"a": "[" * 5_000, 'b\\"[': [1]})) == {"a": "[" * 5_000, 'b\\"[': [1]}
    assert json_of("[" * JSON_DEPTH_MAX + "]" * JSON_DEPTH_MAX)
    assert json_of(str([[1]] * 1_000)) == [[1]] * 1_000
    with pytest.raises(ValueError, match="nests more than"):
        json_of("[" * (JSON_DEPTH_MAX + 1) + "]" * (JSON_DEPTH_MAX + 1))
