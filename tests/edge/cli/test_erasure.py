"""Erasure on the command line: `cell erase`, and what every other command then shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edge.cli.conftest import Cellule

PEOPLE = Path(__file__).parents[2] / "node_apps" / "people.py"
MARK = "Elm Street"


@pytest.fixture
def people(tmp_path: Path) -> Cellule:
    made = Cellule(tmp_path / "data", PEOPLE)
    made("world", "create", "main", "--app", made.app)
    for name, what in (("p", ""), ("p", "long"), ("q", "")):
        text = f'{{"name": "{name}", "text": "{MARK} 1", "what": "{what}"}}'
        made("event", "send", "Said", text)
    return made


def test_a_cell_is_erased_and_every_command_says_so(people: Cellule, tmp_path: Path) -> None:
    assert MARK in people("cell", "show", "person", "p").out
    assert MARK in people("journal", "show", "2").out
    asked = people("cell", "erase", "person", "p", "--json", code=2).error
    assert (asked["code"], asked["hint"]) == ("cli.usage", "Say --yes if you are sure.")
    done = people("cell", "erase", "person", "p", "--why", "letter of 3 May", "--yes", "--json").json
    assert (done["verb"], done["why"], done["cells"]) == (
        "cell.erase", "letter of 3 May", [{"module": "people/person", "key": "p"}],
    )  # fmt: skip
    history = people("cell", "history", "person", "p", "--json").json["versions"]
    assert [each.get("state") for each in history] == [None, {"erased": True}, {"erased": True}]
    assert people("journal", "show", "2", "--json").json["records"][0]["value"] == {"erased": True}
    verified = people("verify", "--json").json["worlds"][0]
    assert verified["erased"] > 2
    assert "erased, and not run again" in people("verify").out
    people("check")
    assert people("cell", "list", "person", "--json").json["cells"][0]["key"] == "q"


def test_several_cells_are_erased_at_once_and_wrong_ones_are_told(people: Cellule) -> None:
    done = people.process("cell", "erase", "person", "p", "q", "--yes")
    assert "people/person/p, people/person/q" in done.out
    assert people("cell", "erase", "person", "--yes", "--json", code=2).error["code"] == "cli.usage"
    assert people("cell", "erase", "nobody", "p", "--yes", "--json", code=1).error["code"] == "host.no_module"
    files = b"".join(path.read_bytes() for path in people.data.rglob("*") if path.is_file())
    assert MARK.encode() not in files


def test_a_world_is_moved_with_its_keys_or_without(people: Cellule, tmp_path: Path) -> None:
    file, keys = tmp_path / "main.car", tmp_path / "main.keys"
    assert people("world", "export", "main", str(file), "--keys", str(keys), "--json").json["keys"] == 4
    for name, given in (("without", ()), ("with", ("--keys", str(keys)))):
        other = Cellule(tmp_path / name, PEOPLE)
        other("world", "import", str(file), *given)
        state = other("cell", "show", "person", "p", "--json").json["state"]
        assert state == ({"text": f"{MARK} 1" * 100, "count": 2} if given else {"erased": True})
        other("check")
        other("verify")
