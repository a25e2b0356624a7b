"""The file of cases through the command, as users of it run it: against real worlds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cellule.testing.vectors.__main__ import main
from cellule.testing.vectors.document import SECTIONS, read
from cellule.testing.vectors.real import REAL
from cellule.testing.vectors.report import run

FIXTURES = Path(__file__).parents[2] / "fixtures"
CASES = FIXTURES / "heartbeat.json"


@pytest.mark.parametrize("name", ["heartbeat.json", "heartbeat_by_hand.json"])
@pytest.mark.parametrize("section", SECTIONS)
def test_the_real_implementation_passes_every_case_of_a_section(section, name):
    results = list(run([each for each in read(FIXTURES / name) if each.section == section], REAL))
    assert results
    assert [each for each in results if each.failures] == []


@pytest.fixture
def broken(tmp_path):
    """The cases with a wrong expectation in one of each section."""
    document = json.loads(CASES.read_text())
    document["agenda"][0]["expect"][1]["promoted"] = 99
    document["ops"][0]["script"][1]["expect"] = False
    document["wallclock"][0]["script"][0]["expect"] = False
    document["ttl"][1]["expect"]["wall_deadline"] = 1
    document["message_ids"][0]["script"][0]["expect"]["id"] = "other"
    document["retention"][0]["plans"][0]["expect"]["future_beats"] = True
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(document))
    return path


def test_each_failing_case_is_named_with_expected_and_actual(broken, capsys):
    assert main([str(broken)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "86 passed, 6 failed"
    assert lines[0].startswith("FAILED agenda/hand-01: step 1: expected ")
    assert '"promoted": 99' in lines[0]
    assert '"promoted": 0' in lines[0].partition("actual")[2]
    assert [line.split()[1].partition("/")[0] for line in lines[:-1]] == list(SECTIONS)


def test_the_command_ends_with_the_counts(tmp_path):
    small = tmp_path / "small.json"
    document = json.loads(CASES.read_text())
    small.write_text(json.dumps({**document, "agenda": document["agenda"][:2], "ops": document["ops"][:1]}))
    command = [sys.executable, "-m", "cellule.testing.vectors", str(small)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "37 passed, 0 failed")


def test_a_file_that_cannot_be_read_is_another_end(tmp_path, capsys):
    path = tmp_path / "cases.json"
    path.write_text("{")
    assert main([str(path)]) == 2
    assert "testing.vectors_malformed" in capsys.readouterr().err
    assert main([]) == 2
    assert main(["--odd"]) == 2


def test_for_ever_may_be_written_in_several_ways(tmp_path):
    forever = {"ok": True, "forever": True, "beat_deadline": None, "wall_deadline": None}
    cases = [
        {"id": str(number), "message": {"beats": 3}, "mailbox": spec, "context": {}, "expect": forever}
        for number, spec in enumerate(({"forever": True}, {"mode": "forever"}, {"ttl_mode": "forever"}))
    ]
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"ttl": cases}))
    assert [each.failures for each in run(read(path), REAL)] == [[], [], []]


def test_a_start_that_is_refused_takes_no_number(tmp_path):
    start = {"do": "start", "verb": "op/x", "mode": "opm:direct"}
    script = [
        {**start, "op": 0, "target": "/a//b", "expect": False},
        {**start, "op": 1, "mode": "opm:odd", "expect": False},
        {**start, "op": 2, "expect": True},
        {"do": "state", "op": 2, "state": "ist:x", "expect": True},
        {"do": "state", "op": 0, "state": "ist:x", "expect": False},
        {"do": "snapshot", "op": 1, "expect": None},
        {"do": "step", "expect": {"beat": 0, "fired": [], "cei_warnings": 0}},
    ]
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"ops": [{"id": "o", "script": script}]}))
    assert [each.failures for each in run(read(path), REAL)] == [[]]
