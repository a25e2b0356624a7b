"""Runs of workflows on the command line: shown, told line by line, cancelled, begun anew, found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cellule = Any

TRIPS = Path(__file__).parents[2] / "node_apps" / "trips.py"


@pytest.fixture
def trips(empty: Cellule) -> Cellule:
    """A world with two trips, of which one is paid."""
    empty("--app", f"{TRIPS}:app", "world", "create", "w")
    for key in ("t1", "t2"):
        empty("event", "send", "Booked", f'{{"trip": "{key}", "cents": 100}}', "--id", key)
    answer(empty, "t1")
    return empty


def answer(trips: Cellule, key: str, id: str = "c1") -> None:
    (effect,) = [each for each in trips("effect", "list", "--json").json["effects"] if each["key"] == key]
    trips("receipt", "inject", effect["id"], "--why", "test", "--value", f'{{"id": "{id}"}}')


def test_a_run_is_shown_with_what_it_waits_for(trips: Cellule) -> None:
    run = trips("workflow", "show", "trip", "t1", "--json").json["run"]
    assert (run["status"], run["published"], run["commands"]) == ("running", {"paid": "c1"}, 3)
    [wait] = run["waits"]
    assert (wait["what"], wait["place"]) == ("event Begun", "trips.py:44")
    shown = trips("workflow", "show", "trip", "t1").out
    assert "event Begun" in shown
    assert "trips.py:44" in shown


def test_the_history_of_a_run_is_told_line_by_line(trips: Cellule) -> None:
    trips("event", "send", "Begun", '{"trip": "t1", "parts": 4}')
    steps = trips("workflow", "history", "trip", "t1", "--json").json["steps"]
    lines = [line for step in steps for line in step["lines"]]
    assert lines[0] == 'run 1 begins with trips/Booked@1 {"trip": "t1", "cents": 100}'
    assert lines[1] == "-> effect bank.charge (trips.py:41)"
    assert 'bank.charge ok {"id": "c1"}' in lines
    assert lines[-1] == "completed: 25.0"
    assert "-> effect bank.charge (trips.py:41)" in trips("workflow", "history", "trip", "t1").out
    assert "completed: 25.0" in trips("cell", "history", "trip", "t1").out


def test_a_cell_that_is_a_run_is_shown_as_one(trips: Cellule) -> None:
    state = trips("cell", "show", "trip", "t2", "--json").json["state"]
    assert (state["status"], state["number"], state["event"]) == ("running", 1, "trips/Booked@1")
    assert [each["what"] for each in state["waits"]] == ["effect bank.charge"]


def test_runs_are_found_by_what_they_say(trips: Cellule) -> None:
    found = trips("cell", "list", "trip", "--where", "state.published != null", "--json").json["cells"]
    assert [each["key"] for each in found] == ["t1"]
    waiting = 'state.status == "running" && state.waits[0].what == "effect bank.charge"'
    found = trips("cell", "list", "trip", "--where", waiting, "--json").json["cells"]
    assert [each["key"] for each in found] == ["t2"]


def test_a_run_is_cancelled_and_undoes_what_it_did(trips: Cellule) -> None:
    told = trips("workflow", "cancel", "trip", "t1", "--why", "she is ill", "--json").json
    assert (told["verb"], told["run"]["status"]) == ("cancel", "running")
    answer(trips, "t1")
    run = trips("workflow", "show", "trip", "t1", "--json").json["run"]
    assert (run["status"], run["text"]) == ("cancelled", "she is ill")


def test_a_halted_run_begins_anew_and_what_waited_is_dropped(trips: Cellule) -> None:
    trips("event", "send", "Begun", '{"trip": "t1", "parts": 0}', code=None)
    assert trips("workflow", "show", "trip", "t1", "--json").json["status"] == "halted"
    told = trips("workflow", "cancel", "trip", "t1").out
    assert "cellule cell resume trip t1" in told
    again = trips("workflow", "rerun", "trip", "t1", "--why", "a mistake", "--json").out
    assert '"dropped": 2' in again
    run = trips("workflow", "show", "trip", "t1", "--json").json
    assert (run["status"], run["run"]["number"], run["run"]["status"]) == ("waiting", 2, "running")
    answer(trips, "t1", "c2")
    trips("event", "send", "Begun", '{"trip": "t1", "parts": 2}')
    assert trips("workflow", "show", "trip", "t1", "--json").json["run"]["result"] == 50.0


def test_what_is_no_workflow_and_no_run_is_told(trips: Cellule) -> None:
    assert trips("workflow", "show", "trip", "t9", "--json", code=1).error["code"] == "cli.no_cell"


def test_cells_that_wait_for_long_are_listed_with_what_they_wait_for(trips: Cellule) -> None:
    found = trips("stuck", "--long", "0s", "--json").json["long"]
    assert {(each["key"], each["what"].partition(" until")[0]) for each in found} == {
        ("t1", "event Begun"),
        ("t2", "effect bank.charge (trips.py:41)"),
    }
    assert trips("stuck", "--long", "1h", "--json").json["long"] == []
    assert "event Begun until" in trips("stuck", "--long", "0s").out
    assert trips("stuck", "--long", "soon", code=2)


PARCELS = Path(__file__).parents[2] / "node_apps" / "parcels.py"


@pytest.mark.parametrize(
    ("what", "result"), [("ship", "shipped"), ("refuse", "refused: too heavy"), ("keep", None)]
)
def test_a_call_is_answered_refused_or_waits_for_the_called_cell(
    empty: Cellule, what: str, result: Any
) -> None:
    empty("--app", f"{PARCELS}:app", "world", "create", "w")
    empty("event", "send", "Ordered", f'{{"order": "o1", "what": "{what}"}}')
    shown = empty("workflow", "show", "order", "o1", "--json").json
    assert shown["run"].get("result") == result
    if result is None:
        [called] = shown["called"]
        assert (called["module"], called["key"], called["reason"]) == ("parcels/parcel", "p1", "an event")
        empty("cell", "delete", "parcel", "p1", "--why", "lost")
        run = empty("workflow", "show", "order", "o1", "--json").json["run"]
        assert run["result"] == "deleted: the cell was deleted before it answered"
    assert empty("verify", "--json").json["ok"]
    assert empty("check", "--json").json["ok"]


def test_a_run_shows_why_the_cell_that_it_called_waits(empty: Cellule) -> None:
    empty("--app", f"{PARCELS}:app", "world", "create", "w")
    empty("event", "send", "Ordered", '{"order": "o1", "what": "break"}')
    [called] = empty("workflow", "show", "order", "o1", "--json").json["called"]
    assert called["what"] == "call Ship, event Shipped"
    assert called["reason"].startswith("halted: ValueError: the scale broke")
    shown = empty("workflow", "show", "order", "o1").out
    assert "parcels/parcel p1, which it called: halted" in shown
    empty("cell", "drop", "parcel", "p1", "--why", "no use")
    run = empty("workflow", "show", "order", "o1", "--json").json["run"]
    assert run["result"].startswith("dropped: dropped by ")
