"""`cellule world migrate-cells`: a map becomes cells, read by command line, node and guest alike."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cellule
from cellule.assembly import Options
from tests.support.nodes import load_app

if TYPE_CHECKING:
    Cellule = Any

APPS = Path(__file__).parents[2] / "node_apps"
WHOLE, CELLS = APPS / "till_map.py", APPS / "till_cells.py"
TO_CELLS = ("world", "migrate-cells", "--app", f"{CELLS}:app")


@pytest.fixture
def paid(empty: Cellule) -> Cellule:
    """A world whose tills are one map."""
    empty("world", "create", "main", "--app", f"{WHOLE}:app")
    for name, cents in (("ada", 5), ("bob", 7), ("ada", 7)):
        empty("event", "send", "Paid", f'{{"name": "{name}", "cents": {cents}}}')
    return empty


@pytest.fixture
def changed(tmp_path: Path) -> Any:
    """The tills in another edition."""

    def write(name: str, file: Path, old: str, new: str) -> str:
        assert old in file.read_text()
        (tmp_path / f"{name}.py").write_text(file.read_text().replace(old, new))
        return f"{tmp_path / name}.py:app"

    return write


def totals(paid: Cellule) -> dict[str, int]:
    listed = paid("cell", "list", "till", "--states", "--json").json["cells"]
    return {each["key"]: each["state"]["total"] for each in listed}


def test_a_map_is_one_cell_for_whoever_reads_it(paid: Cellule) -> None:
    shown = paid("cell", "show", "till", "--json").json
    assert shown["state"] == {"ada": {"total": 12}, "bob": {"total": 7}}
    assert (shown["key"], shown["version"]) == ("", 3)
    assert len(paid("effect", "list", "--json").json["effects"]) == 2


def test_a_preview_changes_nothing_and_says_what_would_become_cells(paid: Cellule) -> None:
    before = paid("world", "show", "--json").json
    told = paid(*TO_CELLS, "--dry-run", "--json").json
    assert told == {
        "world": "main", "moved": False, "height": 0,
        "modules": [{"module": "till/till", "cells": 2, "messages": 0, "effects": 2, "upcast": False}],
    }  # fmt: skip
    assert "would become 2 cells" in paid(*TO_CELLS, "--dry-run").out
    assert paid("world", "show", "--json").json == before


def test_a_map_becomes_cells_and_again_there_is_nothing_to_move(paid: Cellule) -> None:
    told = paid(*TO_CELLS, "--why", "it grew", "--json").json
    assert (told["moved"], told["modules"][0]["cells"]) == (True, 2)
    assert totals(paid) == {"ada": 12, "bob": 7}
    assert len(paid("effect", "list", "--json").json["effects"]) == 2
    again = paid(*TO_CELLS)
    assert "nothing to move" in again.out
    assert not paid(*TO_CELLS, "--json").json["moved"]
    paid("event", "send", "Paid", '{"name": "ada", "cents": 1}')
    history = paid("cell", "history", "till", "ada", "--json").json["versions"]
    assert [(each["version"], each["state"]["total"]) for each in history] == [(2, 13), (1, 12)]
    shown = paid("cell", "show", "till", "--at", str(told["height"] - 1), "--json").json
    assert shown["state"] == {"ada": {"total": 12}, "bob": {"total": 7}}
    record = paid("journal", "show", str(told["height"]), "--json").json
    assert "cell.spill" in str(record)
    assert "it grew" in str(record)
    assert paid("verify", "--json").json["ok"]
    assert paid("check", "--json").json["ok"]


def test_a_deploy_of_cells_is_refused_and_names_the_command(paid: Cellule) -> None:
    error = paid("deploy", "--app", f"{CELLS}:app", "--json", code=1).error
    assert error["code"] == "manifest.incompatible"
    assert "cellule world migrate-cells" in error["message"]
    assert paid("cell", "show", "till", "--json").json["version"] == 3


def test_entries_that_do_not_fit_are_refused_and_nothing_is_changed(paid: Cellule, changed: Any) -> None:
    before = paid("world", "show", "--json").json
    two = changed("broken", CELLS, "total: int = 0", "total: str = ''")
    for line in (("--dry-run",), ()):
        error = paid("world", "migrate-cells", "--app", two, *line, "--json", code=1).error
        assert error["code"] == "manifest.incompatible"
    assert paid("world", "show", "--json").json == before


def test_an_app_without_cells_has_nothing_to_move(paid: Cellule, changed: Any) -> None:
    other = changed("other", WHOLE, "Sum(0)", "Sum(1)")
    error = paid("world", "migrate-cells", "--app", other, "--json", code=1).error
    assert error["code"] == "kernel.nothing_to_spill"


async def states_of(folder: Path, app: Any, **options: Any) -> Any:
    async with cellule.open(folder, app=app, deploy="never", **options) as node:
        world = await node.world("main")
        return {cell.key: cell.state.total for cell in (await world.cells("till")).cells}


def test_owner_and_guest_read_the_cells_alike(paid: Cellule) -> None:
    app = load_app(CELLS).app

    async def both() -> tuple[Any, Any]:
        async with cellule.open(paid.data, app=app, deploy="never") as owner:
            report = await owner.migrate_cells("main", who="ada", why="it grew")
            assert report.modules["till/till"].cells == 2
            world = await owner.world("main")
            mine = {cell.key: cell.state.total for cell in (await world.cells("till")).cells}
            assert (await world.cell("till", "ada").view()).version == 1
            guest = await states_of(paid.data, app, options=Options(own=False, tune_process=False))
            return mine, guest

    assert asyncio.run(both()) == ({"ada": 12, "bob": 7},) * 2
    assert totals(paid) == {"ada": 12, "bob": 7}


def test_a_guest_moves_the_map_of_a_world_at_work_while_an_effect_is_under_way(tmp_path: Path) -> None:
    whole, cells = load_app(APPS / "fetch_map.py"), load_app(APPS / "fetch_cells.py")
    guest_options = Options(own=False, tune_process=False)

    async def work() -> None:
        async with cellule.open(tmp_path / "data", app=whole.app) as owner:
            world = await owner.world("main")
            for name in ("a", "b"):
                await world.send(whole.Wanted(name))
            async with asyncio.timeout(30):
                await whole.begun.wait()
            async with cellule.open(
                tmp_path / "data", app=cells.app, deploy="never", options=guest_options
            ) as guest:
                shown = await guest.migrate_cells("main", dry_run=True)
                assert shown.modules["fetch/page"].effects == 2
                report = await guest.migrate_cells("main", who="ada", why="it grew")
                assert (report.modules["fetch/page"].cells, report.height > 0) == (2, True)
                whole.let_go.set()
                beside = await guest.world("main")
                for name in ("a", "b"):
                    await beside.cell(cells.page, name).wait_until("state.text != ''", timeout=30)
                    assert await beside.cell(cells.page, name).state() == cells.Page(f"page {name}")

    asyncio.run(work())
