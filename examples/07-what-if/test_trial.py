"""What was tried is told, and nothing of it happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trial


@pytest.fixture
def traded(tmp_path: Path) -> Any:
    trial.charged.clear()
    folder = str(tmp_path / "data")
    trial.trade(folder)
    return folder


@pytest.mark.usefixtures("traded")
def test_a_week_is_charged_once() -> None:
    assert sorted(trial.charged) == sorted(order.order for order in trial.WEEK)


def test_a_new_rule_is_tried_on_the_week_that_was(traded: str) -> None:
    assert trial.half_the_price(traded) == {"ada": (4_000, 3_000), "bob": (4_000, 3_000)}
    assert len(trial.charged) == len(trial.WEEK)


def test_a_bank_that_refuses_is_tried_on_the_next_order(traded: str) -> None:
    assert trial.no_money(traded) == ["ada"]
    assert len(trial.charged) == len(trial.WEEK)


def test_a_fork_takes_over_and_asked_nobody_before(traded: str) -> None:
    assert trial.take_over(traded) == (4, 5)
    assert len(trial.charged) == len(trial.WEEK)


def test_the_whole_story_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trial.charged.clear()
    trial.play(str(tmp_path / "data"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "8 orders were charged"
    assert lines[-1] == "8 orders were charged: nothing that was tried"
