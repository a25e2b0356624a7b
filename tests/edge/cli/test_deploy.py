"""`cellule deploy`: shadow runs, the gate, rolling back; pinned and following cells beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cellule = Any

TILL = """
from __future__ import annotations
import msgspec
from cellule import App, Step

app = App("till")


@app.event(key="name")
class Paid(msgspec.Struct, frozen=True):
    name: str
    cents: int


@app.event(key="name")
class Noted(msgspec.Struct, frozen=True):
    name: str
    total: int


class Sum(msgspec.Struct, frozen=True):
    total: int = 0


@app.reducer
def till(state: Sum | None, event: Paid) -> Step[Sum]:
    total = (state or Sum()).total + event.cents
    return Step(Sum(total), emit=[Noted(event.name, total)])


@app.reducer(upgrade="pin")
def book(state: Sum | None, event: Noted) -> Step[Sum]:
    return Step(Sum((state or Sum()).total + 1))
"""
FEE = TILL.replace("+ event.cents", "+ event.cents + (7 if event.name == 'ada' else 0)")
OTHER_BOOK = TILL.replace(".total + 1))", ".total + 100))")
NOTED = TILL.replace("total: int = 0\n", 'total: int = 0\n    note: str = ""\n')


@pytest.fixture
def files(tmp_path: Path) -> Any:
    def write(name: str, text: str) -> str:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "till.py").write_text(text)
        return f"{folder / 'till.py'}:app"

    return write


@pytest.fixture
def paid(empty: Cellule, files: Any) -> Cellule:
    """A world whose tills have taken some money."""
    empty("world", "create", "main", "--app", files("one", TILL))
    for name, cents in (("ada", 5), ("bob", 6), ("ada", 7)):
        empty("event", "send", "Paid", f'{{"name": "{name}", "cents": {cents}}}')
    return empty


@pytest.mark.parametrize("history", [("--all-history",), ("--recent", "3"), ()])
def test_a_shadow_of_the_same_code_finds_nothing(paid: Cellule, files: Any, history: tuple[str, ...]) -> None:
    again = files("two", TILL.replace("class Sum", "\n\n\nclass Sum"))
    told = paid("deploy", "--app", again, "--shadow", *history, "--gate", "--dry-run", "--json").json
    assert told["shadow"]["same"], told
    assert told["shadow"]["steps"] >= 1


def test_a_shadow_names_the_cells_that_differ_and_only_them(paid: Cellule, files: Any) -> None:
    before = paid("world", "show", "--json").json
    line = ("deploy", "--app", files("two", FEE), "--shadow", "--all-history")
    told = paid(*line, "--dry-run", "--json").json["shadow"]
    assert not told["same"]
    assert (told["cells"], told["modules"]) == (1, {"till/till": 1})
    assert told["differences"] == {"states": 2, "events": 2}
    [first] = told["examples"]
    assert (first["key"], first["aspect"]) == ("ada", "states")
    assert (first["before"], first["after"]) == ({"total": 5}, {"total": 12})
    assert "till/till/ada" in paid(*line, "--dry-run").out
    assert paid("world", "show", "--json").json == before


def test_the_gate_refuses_a_deploy_that_differs_and_lets_another_through(paid: Cellule, files: Any) -> None:
    before = paid("world", "show", "--json").json
    fee = files("two", FEE)
    line = ("deploy", "--app", fee, "--shadow", "--all-history", "--gate")
    error = paid(*line, "--json", code=1).error
    assert error["code"] == "cli.shadow_differs"
    assert paid("world", "show", "--json").json == before
    paid("deploy", "--app", files("three", NOTED), "--shadow", "--all-history", "--gate")
    assert paid("world", "show", "--json").json["eras"] == before["eras"] + 1
    paid("deploy", "--app", fee, "--gate", code=2)


def test_pinned_cells_keep_code_whose_source_is_gone_and_a_roll_back_needs_no_source(
    paid: Cellule, files: Any, tmp_path: Path
) -> None:
    two = files("two", OTHER_BOOK.replace("+ event.cents", "+ event.cents + 1000"))
    (tmp_path / "one" / "till.py").unlink()
    paid("deploy", "--app", two)
    (tmp_path / "two" / "till.py").unlink()
    paid("event", "send", "Paid", '{"name": "ada", "cents": 1}')
    paid("event", "send", "Paid", '{"name": "new", "cents": 1}')

    def totals(module: str) -> dict[str, int]:
        listed = paid("cell", "list", module, "--states", "--json").json["cells"]
        return {each["key"]: each["state"]["total"] for each in listed}

    assert totals("till") == {"ada": 1013, "bob": 6, "new": 1001}
    assert totals("book") == {"ada": 3, "bob": 1, "new": 100}
    assert '$.modules["till/till@1"].code' in paid("deploy", "--era", "0", "--dry-run").out
    paid("deploy", "--era", "0", "--why", "the fee was wrong")
    paid("event", "send", "Paid", '{"name": "bob", "cents": 1}')
    assert totals("till")["bob"] == 7
    assert paid("deploy", "--era", "9", "--json", code=1).error["code"] == "host.era_unknown"
    assert paid("verify", "--json").json["ok"]


def test_another_key_is_refused_while_cells_live(paid: Cellule, files: Any) -> None:
    by_cents = TILL.replace('@app.event(key="name")\nclass Paid', '@app.event(key="cents")\nclass Paid')
    two = files("two", by_cents)
    assert "it would be refused" in paid("deploy", "--app", two, "--dry-run").out
    error = paid("deploy", "--app", two, "--json", code=1).error
    assert error["code"] == "manifest.incompatible"
    assert "requires migration" in error["message"]


def test_a_migration_is_previewed_done_in_batches_and_goes_on_after_an_interruption(
    paid: Cellule, files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid("deploy", "--app", files("two", OTHER_BOOK))
    line = ("cell", "migrate", "book", "--all")
    before = paid("world", "show", "--json").json
    told = paid(*line, "--dry-run", "--json").json
    assert told["moves"] == [{"module": "till/book", "from": 0, "to": 1, "cells": 2}]
    assert (told["stays"], told["whole"]) == ([], True)
    assert "2 cells of era 0 would move to era 1" in paid(*line, "--dry-run").out
    assert paid("world", "show", "--json").json == before

    monkeypatch.setattr("cellule.kernel.decide.migrations.FRAME_BYTES_ADMIT", 0)  # one cell in a batch
    assert paid(*line, "--dry-run", "--json").json["batches"] == 2
    monkeypatch.setattr("cellule.host.ingress.controls.BULK", ())  # interrupted behind the first batch
    assert [each["key"] for each in paid(*line, "--json").json["cells"]] == ["ada"]
    monkeypatch.undo()
    assert [each["cells"] for each in paid(*line, "--dry-run", "--json").json["moves"]] == [1]
    paid(*line)
    assert paid(*line, "--dry-run", "--json").json["moves"] == []
    paid("event", "send", "Paid", '{"name": "ada", "cents": 1}')
    assert paid("cell", "show", "book", "ada", "--json").json["state"]["total"] == 102

    assert paid(*line, "--to", "0", "--dry-run", "--json").json["moves"][0]["cells"] == 2
    paid(*line, "--to", "0", "--why", "back to the old book")
    paid("event", "send", "Paid", '{"name": "ada", "cents": 1}')
    assert paid("cell", "show", "book", "ada", "--json").json["state"]["total"] == 103
    assert (
        paid("cell", "migrate", "book", "ada", "--to", "7", "--json", code=1).error["code"]
        == "kernel.argument"
    )
    assert paid("verify", "--json").json["ok"]


SUMS = TILL[: TILL.index("class Sum")]
VERSIONS = [
    SUMS
    + f"""
@app.state(name="Sum", version={number})
class Sum(msgspec.Struct, frozen=True):
    {field}: int = 0


@app.reducer(upgrade="{upgrade}")
def till(state: Sum | None, event: Paid) -> Step[Sum]:
    return Step(Sum((state or Sum()).{field} + event.cents))
"""
    for number, field, upgrade in ((1, "one", "pin"), (2, "two", "pin"), (3, "three", "follow"))
]
LATER = """

@app.state(name="Sum", version={0})
class Sum{0}(msgspec.Struct, frozen=True):
    {1}: int = 0


@app.upcaster
def sum{0}(old: Sum{0}) -> Sum:
    return Sum(old.{1})
"""


def test_a_state_with_no_way_parks_its_cell_alone_and_says_what_to_write(empty: Cellule, files: Any) -> None:
    empty("world", "create", "main", "--app", files("one", VERSIONS[0]))
    pay = ("event", "send", "Paid")
    empty(*pay, '{"name": "first", "cents": 1}')
    empty("deploy", "--app", files("two", VERSIONS[1]))
    empty(*pay, '{"name": "second", "cents": 2}')
    missing = empty("deploy", "--app", files("none", VERSIONS[2]), "--json", code=1).error
    assert missing["code"] == "manifest.incompatible"
    assert "no upcaster leads from till/Sum@2 to till/Sum@3" in missing["message"]
    empty("deploy", "--app", files("three", VERSIONS[2] + LATER.format(2, "two")))
    empty(*pay, '{"name": "second", "cents": 3}')
    empty(*pay, '{"name": "first", "cents": 4}', code=None)
    assert empty("cell", "show", "till", "second", "--json").json["state"] == {"three": 5}
    assert "no upcaster leads from state till/Sum@1 to till/Sum@3" in empty("stuck", code=None).out
    [stays] = empty("cell", "migrate", "till", "--all", "--dry-run", "--json").json["stays"]
    assert (stays["key"], "write one (old: till/Sum@1) -> till/Sum@3" in stays["why"]) == ("first", True)
    ways = LATER.format(2, "two") + LATER.format(1, "one")
    empty("deploy", "--app", files("four", VERSIONS[2] + ways))
    empty("cell", "migrate")
    assert empty("cell", "show", "till", "first", "--json").json["state"] == {"three": 5}
    assert empty("verify", "--json").json["ok"]
