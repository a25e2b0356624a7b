"""The model of the heartbeat keeps the rules: it passes the file of cases, and so may judge others."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellule.testing.vectors.document import read
from cellule.testing.vectors.report import run
from tests.support.heartbeat_vectors import MODEL

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASES = FIXTURES / "heartbeat.json"


@pytest.mark.parametrize(("name", "count"), [("heartbeat.json", 92), ("heartbeat_by_hand.json", 244)])
def test_the_model_passes_every_case(name, count):
    results = list(run(read(FIXTURES / name), MODEL))
    assert len(results) == count
    assert [each for each in results if each.failures] == []


@pytest.mark.parametrize("section", sorted(MODEL))
def test_an_expectation_that_is_changed_is_noticed(section):
    """The comparison would be worth nothing if it let a wrong value pass."""
    wrong = {"agenda": [None] * 3, "ops": [None], "retention": [None]}

    def perform(case):
        found = MODEL[section](case)
        return [wrong.get(section, [None]) if value is not None else "wrong" for value in found]

    results = [each for each in run(read(CASES), {**MODEL, section: perform}) if each.section == section]
    assert all(each.failures for each in results)
