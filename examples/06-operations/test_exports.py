"""Exports as operations: how far they are, how they end, and who is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import exports as example
import main
import pytest
from exports import BEATS_MAX

from cellule.testing import World

TABLE = "/tables/orders"


@pytest.fixture
def cellule_app() -> Any:
    return example.app


def export(world: World, table: dict[str, Any]) -> str:
    """Begin an export, and give the id of its operation."""
    for name in ("begin", "copy_page"):
        world.heartbeat.bind("/tables", name, propagate=True)
    world.heartbeat.write(TABLE, table)
    world.signal("/exports/begin", TABLE)
    world.beat()
    (op,) = world.heartbeat.list("/exports")
    return op


def mail(world: World) -> list[Any]:
    return [world.heartbeat.read(f"/mail/{name}") for name in world.heartbeat.list("/mail")]


def test_a_page_is_copied_in_each_beat_and_the_end_is_told_in_the_next(world: World) -> None:
    op = export(world, {"rows": [1, 2, 3]})
    assert world.heartbeat.read(f"/exports/{op}")["rows"] == []
    world.beat()
    assert world.heartbeat.read(f"/exports/{op}")["rows"] == [1, 2]
    ending = world.beat()
    assert world.heartbeat.read(f"/exports/{op}")["rows"] == [1, 2, 3]
    assert [(each.signal, each.target) for each in ending.queued] == [("/exports/told", f"/rt/ops/{op}")]
    assert mail(world) == []
    world.beat()
    assert mail(world) == [f"{TABLE}: 3 rows"]


def test_an_export_that_waits_for_ever_is_given_up(world: World) -> None:
    op = export(world, {"rows": [1], "locked": True})
    beats = [world.beat() for _ in range(BEATS_MAX + 1)]
    late = [
        each.beat - beats[0].beat + 1 for each in beats for line in each.agenda if line.signal == "/op/tmo"
    ]
    assert late == [BEATS_MAX + 1]
    assert mail(world) == [f"/rt/ops/{op} was given up"]


def test_a_restart_in_the_middle_changes_nothing(world: World) -> None:
    op = export(world, {"rows": [1, 2, 3, 4, 5]})
    world.beat()
    world.restart()
    world.settle()
    assert world.heartbeat.read(f"/exports/{op}")["rows"] == [1, 2, 3, 4, 5]
    assert mail(world) == [f"{TABLE}: 5 rows"]


def test_a_client_waits_for_the_end(tmp_path: Path, capsys: Any) -> None:
    asyncio.run(main.main(str(tmp_path / "data")))
    assert capsys.readouterr().out.splitlines() == [
        "beat 0: ist:run",
        "beat 1: ist:copy, 2 of 5 rows",
        "beat 2: ist:copy, 4 of 5 rows",
        "beat 3: ist:ok",
        "sts:ok: 5 rows",
        "mail: /tables/orders: 5 rows",
    ]
