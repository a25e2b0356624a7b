"""Machines on the command line: contracts checked and drawn, histories, moves by hand, written tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from tests.unit.modules.fsm.test_contract import SEED

if TYPE_CHECKING:
    Cellule = Any

EXAMPLE = Path(__file__).parents[3] / "examples" / "11-fsm"
DOOR = """key: door_id
triggers:
  lock: {fields: {code: int}}
states: [closed, {name: open, timeout: {after: 5m, trigger: swing_shut}}, locked]
transitions:
  - {from: closed, to: open, trigger: open}
  - {from: open, to: closed, trigger: swing_shut}
  - {from: closed, to: locked, trigger: lock, guard: event.code > 1000 && event.code % 7 == 3}
terminal_states: [locked]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "door.fsm.yaml"
    path.write_text(DOOR)
    return path


@pytest.fixture
def doors(empty: Cellule, tmp_path: Path, file: Path) -> Cellule:
    """A world that runs the contract by the manifest that the command writes, with one open door."""
    manifest = tmp_path / "doors.yaml"
    empty("fsm", "manifest", str(file), "--name", "house/door@1", "--out", str(manifest))
    empty("world", "create", "w", "--manifest", str(manifest), "--code", str(tmp_path))
    empty("event", "send", "open", '{"door_id": "front"}')
    return empty


def run_tests(file: Path, **settings: str) -> str:
    command = (sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "cellule.testing.plugin")
    options = ("-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", file.name)
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **settings}
    done = subprocess.run(
        (*command, *options), cwd=file.parent, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_a_contract_is_checked_and_its_mistakes_are_told_by_line(empty: Cellule, file: Path) -> None:
    found = empty("fsm", "check", str(file), "--json").json
    assert found["states"] == ["closed", "open", "locked"]
    assert (found["initial"], found["terminal"], found["events"]) == ("closed", ["locked"], ["lock", "open"])
    assert found["transitions"][1] == "open -> closed on swing_shut"
    assert found["effects"] == ["timer.set"]
    assert found["overlaps"] == []
    both = "  - {from: closed, to: open, trigger: lock, guard: event.code > 2000}\nterminal"
    file.write_text(DOOR.replace("terminal", both))
    (told,) = empty("fsm", "check", str(file), "--json").json["overlaps"]
    assert told == "lines 8 and 9: both may fit lock in closed; the first is taken"
    file.write_text(DOOR.replace("to: open", "to: opne"))
    error = empty("fsm", "check", str(file), "--json", code=1).error
    assert error["code"] == "fsm.state_unknown"
    assert "door.fsm.yaml, line 6: transitions[0].to: there is no state opne" in error["message"]
    assert error["hint"] == "Did you mean open?"
    assert empty("fsm", "check", "nothing.yaml", "--json", code=1).error["code"] == "fsm.file"


def test_the_seeds_contract_is_drawn_as_mermaid(empty: Cellule, tmp_path: Path) -> None:
    (tmp_path / "contract.yaml").write_text(SEED)
    text = empty("fsm", "diagram", str(tmp_path / "contract.yaml")).out
    assert text.splitlines()[:2] == ["stateDiagram-v2", '    state "PENDING" as s0']
    assert "    s1 --> s3 : processing_failed" in text.splitlines()


def test_a_picture_is_a_file_with_all_states_and_triggers(empty: Cellule, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "door.svg"
    assert empty("fsm", "diagram", str(file), "--out", str(out), "--json").json["file"] == str(out)
    texts = ["".join(each.itertext()) for each in ET.parse(out).iter() if each.tag.endswith("}text")]
    assert {"closed", "open", "locked", "swing_shut after 5m"} <= set(texts)
    assert out.read_text() == empty("fsm", "diagram", str(file), "--svg", "--json").json["text"]


def test_a_machine_of_a_world_is_drawn_with_the_state_it_is_in(doors: Cellule) -> None:
    told = doors("fsm", "diagram", "door/front", "--json").json
    assert told["state"] == "open"
    assert "    class s1 current\n" in told["text"]
    assert doors("fsm", "diagram", "door", "--json").json["state"] is None


def test_a_move_by_hand_stands_in_the_history_with_from_to_trigger_and_time(doors: Cellule) -> None:
    done = doors("fsm", "transition", "door/front", "--from", "OPEN", "--to", "closed", "--json").json
    assert (done["change"]["from"], done["change"]["to"], done["change"]["trigger"]) == (
        "open",
        "closed",
        "manual",
    )
    doors("event", "send", "lock", '{"door_id": "front", "code": 1004}')
    rows = doors("fsm", "history", "door/front", "--json").json["changes"]
    assert [(row["from"], row["to"], row["trigger"]) for row in rows] == [
        (None, "closed", "open"), ("closed", "open", "open"), ("open", "closed", "manual"),
        ("closed", "locked", "lock"),
    ]  # fmt: skip
    assert all(row["time"].endswith("Z") for row in rows)
    assert done["change"] == rows[2]
    shown = doors("fsm", "history", "door/front").out.splitlines()
    assert shown[0].split() == ["time", "from", "to", "trigger", "height"]
    assert shown[-1].split()[1:4] == ["closed", "locked", "lock"]
    versions = doors("cell", "history", "door", "front", "--json").json["versions"]
    assert versions[0]["ann"][0]["$value"]["to_state"] == "locked"
    assert doors("verify", "--json").code == 0


def test_a_move_that_the_contract_does_not_have_is_refused_and_changes_nothing(doors: Cellule) -> None:
    options = ("--from", "open", "--to", "locked", "--json")
    error = doors("fsm", "transition", "door/front", *options, code=1).error
    assert error["code"] == "fsm.transition_invalid"
    assert "door is in open: no transition leads to locked (manual)" in error["message"]
    options = ("--from", "closed", "--to", "open", "--json")
    assert (
        "it is not in closed" in doors("fsm", "transition", "door/front", *options, code=1).error["message"]
    )
    assert doors("cell", "show", "door", "front", "--json").json["state"]["state"] == "open"


def test_a_move_with_the_same_id_is_done_once(doors: Cellule) -> None:
    options = ("--from", "open", "--to", "closed", "--id", "move-1", "--json")
    first = doors("fsm", "transition", "door/front", *options).json
    again = doors("fsm", "transition", "door/front", *options).json
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert len(doors("fsm", "history", "door/front", "--json").json["changes"]) == 3


def test_a_module_that_is_no_machine_is_refused(shop: Cellule) -> None:
    error = shop("fsm", "history", "order/o1", "--json", code=1).error
    assert (error["code"], error["fields"]["module"]) == ("cli.no_machine", "shop/order")


def test_written_tests_walk_every_transition_and_pass(
    empty: Cellule, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = empty("fsm", "paths", "door.fsm.yaml", "--json").json
    assert made["file"] == "test_door_paths.py"
    assert (made["transitions"], made["paths"], made["by_hand"], made["missed"]) == (3, 2, 1, 0)
    text = (tmp_path / "test_door_paths.py").read_text()
    assert '("move", "closed", "locked"),' in text  # no value at its guard's numbers passes
    assert '("waited", 300.0),' in text
    assert f"{made['tests']} passed" in run_tests(tmp_path / "test_door_paths.py")
    error = empty("fsm", "paths", "door.fsm.yaml", "--json", code=1).error
    assert error["code"] == "cli.file_exists"


def test_a_file_that_cannot_be_written_is_told(empty: Cellule, file: Path, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere" / "x")
    for command in (("diagram", str(file)), ("paths", str(file)), ("manifest", str(file))):
        error = empty("fsm", *command, "--out", nowhere, "--json", code=1).error
        assert (error["code"], error["fields"]["file"]) == ("cli.output", nowhere)


def test_written_tests_fail_when_the_contract_changes(
    empty: Cellule, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    empty("fsm", "paths", "door.fsm.yaml")
    file.write_text(DOOR.replace("after: 5m", "after: 6m"))
    assert "after ('waited', 300.0)" in run_tests(tmp_path / "test_door_paths.py")


def test_the_written_tests_of_the_example_are_current(
    empty: Cellule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLE)
    out = tmp_path / "test_parcel_paths.py"
    made = empty(
        "--app", str(EXAMPLE / "parcels.py"), "fsm", "paths", "parcel", "--out", str(out), "--json"
    ).json
    assert (made["transitions"], made["by_hand"]) == (7, 0)
    assert out.read_text() == (EXAMPLE / out.name).read_text()


def test_a_file_with_effects_is_walked_with_its_app(empty: Cellule, tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "t.py"), "--json")
    error = empty("fsm", "paths", str(EXAMPLE / "parcel.fsm.yaml"), *out, code=1).error
    assert error["code"] == "fsm.effect_unknown"
    assert "nobody declares the effect carrier.post" in error["message"]
    assert empty("fsm", "paths", "parcel", *out, code=2).error["code"] == "cli.usage"
