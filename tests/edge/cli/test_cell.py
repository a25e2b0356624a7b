"""`cellule cell`: lists, states, histories, exports, and letting stopped cells go on."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from cellule.values.cbor import encode

if TYPE_CHECKING:
    from pathlib import Path

    Cellule = Any


def test_cells_are_listed_with_how_fresh_the_list_is(shop: Cellule) -> None:
    listed = shop("cell", "list", "--json").json
    names = [(each["module"], each["key"], each["version"]) for each in listed["cells"]]
    assert names == [("shop/order", "o1", 3), ("shop/order", "o2", 1), ("shop/parcels", "", 1)]
    assert listed["as_of"]["height"] == shop("world", "show", "--json").json["height"]
    assert (listed["total"], listed["next"]) == (3, None)
    states = [shop("cell", "show", *_named(each), "--json").json["state"] for each in listed["cells"]]
    assert [each["size"] for each in listed["cells"]] == [len(encode(state)) for state in states]
    assert "o1" in shop("cell", "list", "order").out


def _named(cell: dict[str, Any]) -> list[str]:
    return [cell["module"], *([cell["key"]] if cell["key"] else [])]


def test_pages_hold_every_cell_once(shop: Cellule) -> None:
    for number in range(7):
        shop("event", "send", "Counted", json.dumps({"number": number}))
    found: list[tuple[str, str]] = []
    after: list[str] = []
    while True:
        page = shop("cell", "list", "--limit", "3", "--json", *after).json
        assert len(page["cells"]) <= 3
        found += [(each["module"], each["key"]) for each in page["cells"]]
        if page["next"] is None:
            break
        after = ["--after", page["next"]]
    everything = shop("cell", "list", "--json").json["cells"]
    assert sorted(found) == sorted((each["module"], each["key"]) for each in everything)
    assert len(found) == len(set(found)) == 10


def test_a_list_of_one_module_holds_no_other(shop: Cellule) -> None:
    listed = shop("cell", "list", "order", "--json").json
    assert {each["module"] for each in listed["cells"]} == {"shop/order"}
    assert listed["total"] == 2


def test_a_wrong_module_gets_suggestions(shop: Cellule) -> None:
    error = shop("cell", "list", "ordr", "--json", code=1).error
    assert error["code"] == "host.no_module"
    assert "order" in error["hint"]


def test_a_list_takes_a_prefix_and_a_range_of_keys(shop: Cellule) -> None:
    def keys(*options: str) -> list[str]:
        return [each["key"] for each in shop("cell", "list", "order", *options, "--json").json["cells"]]

    for key in ("p1", "o10", "a"):
        shop("event", "send", "Placed", json.dumps({"order_id": key, "total": 1}))
    assert keys() == ["a", "o1", "o10", "o2", "p1"]
    assert keys("--prefix", "o1") == ["o1", "o10"]
    assert keys("--from", "o10", "--to", "p1") == ["o10", "o2"]
    page = shop("cell", "list", "order", "--prefix", "o", "--limit", "2", "--json").json
    assert [each["key"] for each in page["cells"]] == ["o1", "o10"]
    assert keys("--prefix", "o", "--after", page["next"]) == ["o2"]


def test_a_range_needs_a_module_and_a_prefix_keys_of_text(shop: Cellule) -> None:
    assert shop("cell", "list", "--prefix", "o", "--json", code=2).error["code"] == "cli.usage"
    error = shop("cell", "list", "parcels", "--prefix", "o", "--json", code=1).error
    assert error["code"] == "app.key_prefix"


@pytest.mark.parametrize("cursor", ["x", "shop/order:zz", f"shop/order:{'00' * 600}", "shop/tally:"])
def test_a_cursor_that_is_none_is_a_usage_error(shop: Cellule, cursor: str) -> None:
    assert shop("cell", "list", "order", "--after", cursor, "--json", code=2).error["code"] == "cli.usage"


def test_a_cell_is_shown_now_and_as_it_was(shop: Cellule) -> None:
    now = shop("cell", "show", "order", "o1", "--json").json
    assert now["state"] == {"total": 3, "paid": 3, "status": "shipped"}
    assert (now["version"], now["status"], now["queue"]) == (3, "waiting", 0)
    assert now["size"] == len(encode(now["state"]))
    versions = shop("cell", "history", "order", "o1", "--json").json["versions"]
    for version in versions:
        then = shop("cell", "show", "order", "o1", "--at", str(version["height"]), "--json").json
        assert (then["version"], then["state"]) == (version["version"], version["state"])
        at_time = shop("cell", "show", "order", "o1", "--at", version["time"], "--json").json
        assert at_time["version"] == version["version"]
    assert "shipped" in shop("cell", "show", "shop/order", "o1").out


def test_a_time_means_the_last_whole_beat_at_or_before_it(shop: Cellule) -> None:
    placed = shop("cell", "history", "order", "o1", "--json").json["versions"][-1]
    then = shop("cell", "show", "order", "o1", "--at", placed["time"], "--json").json
    assert then["state"] == {"total": 3, "paid": 0, "status": "open"}
    assert shop("cell", "show", "order", "o1", "--at", "2001-01-01T00:00:00Z", "--json", code=1).error[
        "code"
    ] == ("cli.no_cell")


def test_a_height_beyond_the_journal_is_refused(shop: Cellule) -> None:
    error = shop("cell", "show", "order", "o1", "--at", "99999", "--json", code=1).error
    assert error["code"] == "host.height"
    assert "99999" in error["message"]


def test_what_is_neither_height_nor_time_is_a_usage_error(shop: Cellule) -> None:
    error = shop("cell", "show", "order", "o1", "--at", "yesterday", "--json", code=2).error
    assert "2026-01-31T12:00:00Z" in error["hint"]


def test_a_cell_without_key_is_shown_by_its_module_alone(shop: Cellule) -> None:
    assert shop("cell", "show", "parcels", "--json").json["state"] == {"count": 1}


def test_a_key_is_written_as_in_the_events(shop: Cellule) -> None:
    shop("event", "send", "Counted", '{"number": 7}')
    assert shop("cell", "show", "tally", "7", "--json").json["key"] == "7"
    assert shop("cell", "show", "tally", "seven", "--json", code=1).error["code"] == "app.key_value"


def test_a_cell_that_is_not_there_names_those_like_it(shop: Cellule) -> None:
    error = shop("cell", "show", "order", "o3", "--json", code=1).error
    assert error["code"] == "cli.no_cell"
    assert "o1" in error["hint"]
    assert shop("cell", "history", "order", "o3", "--json", code=1).error["code"] == "cli.no_cell"
    assert shop("cell", "export", "order", "o3", "--json", code=1).error["code"] == "cli.no_cell"


def test_a_history_tells_what_changed_in_each_version(shop: Cellule) -> None:
    history = shop("cell", "history", "order", "o1", "--json").json
    shipped, paid, placed = history["versions"]
    assert shipped["changes"] == [{"field": "status", "before": "paid", "after": "shipped"}]
    assert {each["field"] for each in paid["changes"]} == {"paid", "status"}
    assert {each["field"]: each["after"] for each in placed["changes"]}["total"] == 3
    assert [each["event"] for each in history["versions"]] == [
        "shop/Shipped@1",
        "shop/Paid@1",
        "shop/Placed@1",
    ]
    assert history["more"] is False
    assert 'status: "paid" -> "shipped"' in shop("cell", "history", "order", "o1").out


def test_a_short_history_still_tells_changes(shop: Cellule) -> None:
    history = shop("cell", "history", "order", "o1", "--limit", "1", "--json").json
    assert history["more"] is True
    assert history["versions"][0]["changes"] == [{"field": "status", "before": "paid", "after": "shipped"}]


def test_an_export_holds_state_and_history(shop: Cellule, tmp_path: Path) -> None:
    exported = shop("cell", "export", "order", "o1", "--json").json
    assert exported["state"]["status"] == "shipped"
    assert [each["version"] for each in exported["history"]] == [3, 2, 1]
    assert json.loads(shop("cell", "export", "order", "o1").out) == exported
    told = shop("cell", "export", "order", "o1", "--output", str(tmp_path / "o1.json"), "--json").json
    assert told["versions"] == 3
    assert json.loads((tmp_path / "o1.json").read_text()) == exported
    missing = str(tmp_path / "none" / "o1.json")
    assert (
        shop("cell", "export", "order", "o1", "--output", missing, "--json", code=1).error["code"]
        == "cli.output"
    )


def test_an_export_reads_the_history_to_its_end_page_by_page(
    shop: Cellule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once an export ended silently at the most versions that one call gives."""
    whole = shop("cell", "export", "order", "o1", "--json").json
    monkeypatch.setattr("cellule.cli.cell_versions.HISTORY_MAX", 2)
    assert shop("cell", "export", "order", "o1", "--json").json == whole
    listed = shop("cell", "history", "order", "o1", "--limit", "3", "--json").json
    assert ([each["version"] for each in listed["versions"]], listed["more"]) == ([3, 2, 1], False)
    short = shop("cell", "history", "order", "o1", "--limit", "2", "--json").json
    assert ([each["version"] for each in short["versions"]], short["more"]) == ([3, 2], True)


def test_a_stopped_cell_is_resumed(shop: Cellule) -> None:
    failed = shop("event", "send", "Paid", '{"order_id": "o9", "amount": 1}', "--json", code=5).error
    assert "there is no such order" in failed["message"]
    shop("event", "send", "Placed", '{"order_id": "o9", "total": 5}', code=5)
    stuck = shop("stuck", "--json").json["stopped"]
    assert [(each["key"], each["status"], each["queue"]) for each in stuck] == [("o9", "halted", 2)]
    resumed = shop("cell", "resume", "order", "o9", "--json").json
    assert resumed["cells"] == [{"module": "shop/order", "key": "o9"}]


def test_a_cell_that_is_not_stopped_cannot_be_resumed(shop: Cellule) -> None:
    assert shop("cell", "resume", "order", "o1", "--json", code=1).error["code"] == "kernel.not_stopped"


def test_a_running_owner_refuses_the_same(running: Cellule) -> None:
    assert running("cell", "resume", "order", "o1", "--json", code=1).error["code"] == "kernel.not_stopped"


def test_all_stopped_cells_are_resumed_at_once(shop: Cellule) -> None:
    for name in ("x", "y"):
        shop("event", "send", "Paid", json.dumps({"order_id": name, "amount": 1}), code=5)
    assert len(shop("cell", "resume", "--json").json["cells"]) == 2
    assert len(shop("cell", "resume", "order", "--json").json["cells"]) == 2


def test_migrate_moves_what_waits_for_it(shop: Cellule) -> None:
    assert shop("cell", "migrate", "--json").json["cells"] == []
    assert shop("cell", "migrate", "order", "none", "--json", code=1).error["code"] == "kernel.no_cell"


def test_cells_of_a_running_node_are_read_as_of_its_newest_beat(running: Cellule) -> None:
    running("event", "send", "Placed", '{"order_id": "o7", "total": 1}')
    assert running("cell", "show", "order", "o7", "--json").json["version"] == 1
    assert "o7" in [each["key"] for each in running("cell", "list", "order", "--json").json["cells"]]
    assert running("cell", "history", "order", "o7", "--json").json["versions"][0]["status"] == "ok"


def test_a_tail_tells_the_steps_of_its_cell_only(running: Cellule) -> None:
    tail = running.start("cell", "tail", "order", "o2", "--count", "1")
    try:
        assert "following shop/order o2" in tail.line("err")
        running("event", "send", "Counted", '{"number": 5}')
        running("event", "send", "Paid", '{"order_id": "o2", "amount": 1}')
        [line] = tail.rest()
        assert "shop/order/o2 ok v2" in line
        assert tail.process.wait(60) == 0
    finally:
        tail.close()


def test_a_list_is_chosen_by_an_expression_and_shows_states(shop: Cellule) -> None:
    listed = shop("cell", "list", "order", "--where", "state.paid < state.total", "--states", "--json").json
    everything = shop("cell", "list", "order", "--states", "--json").json["cells"]
    wanted = [each for each in everything if each["state"]["paid"] < each["state"]["total"]]
    assert wanted
    assert (listed["cells"], listed["scanned"], listed["failed"]) == (wanted, len(everything), 0)
    shown = shop("cell", "list", "order", "--states").out
    assert '"total"' in shown
    assert "STATE" in shown


def test_an_expression_that_fails_on_cells_is_told(shop: Cellule) -> None:
    told = shop("cell", "list", "order", "--where", "1 / (state.total - state.total) > 0")
    assert "gave no answer for 2 of them" in told.err
    error = shop("cell", "list", "order", "--where", "state.totl > 1", "--json", code=1).error
    assert "column 1" in error["message"]
    assert "'totl'" in error["message"]
    assert shop("cell", "list", "--where", "true", "--json", code=2).error["code"] == "cli.usage"


@pytest.fixture(params=["stopped", "running"])
def either(request: pytest.FixtureRequest) -> Cellule:
    """The same command on a folder that nobody owns, and on one that another process works on."""
    return request.getfixturevalue("shop" if request.param == "stopped" else "running")


BAD = ("event", "send", "Paid", '{"order_id": "o9", "amount": 1}')


def test_an_event_is_dropped_and_its_cell_goes_on(either: Cellule) -> None:
    assert either(*BAD, "--json", code=5).error["kind"] == "StepFailed"
    either("event", "send", "Placed", '{"order_id": "o9", "total": 4}', "--id", "placed", code=5)
    dropped = either("cell", "drop", "order", "o9", "--why", "never ordered", "--json").json
    assert (dropped["verb"], dropped["why"]) == ("cell.drop", "never ordered")
    assert either("cell", "show", "order", "o9", "--json").json["state"]["total"] == 4
    assert either("cell", "drop", "order", "o9", "--json", code=1).error["code"] == "kernel.not_stopped"
    chain = either("why", "placed", "--effects").out
    assert "shop/order/o9 ok v1" in chain


def test_first_events_of_all_halted_cells_of_a_module_are_dropped(shop: Cellule) -> None:
    for key in ("x1", "x2"):
        shop("event", "send", "Paid", json.dumps({"order_id": key, "amount": 1}), code=5)
    cells = shop("cell", "drop", "order", "--json").json["cells"]
    assert [each["key"] for each in cells] == ["x1", "x2"]
    assert shop("stuck", "--json").json["stopped"] == []


def test_cells_are_deleted_by_their_keys(either: Cellule) -> None:
    told = either("cell", "delete", "order", "o1", "o2", "--why", "a test account", "--json").json
    assert (len(told["heights"]), [each["key"] for each in told["cells"]]) == (2, ["o1", "o2"])
    assert either("cell", "show", "order", "o1", "--json", code=1).error["code"] == "cli.no_cell"
    either("cell", "delete", "parcels")
    assert either("cell", "delete", "order", "--json", code=2).error["code"] == "cli.usage"
    assert either("cell", "delete", "order", "o1", "--json", code=1).error["code"] == "kernel.no_cell"


def test_dead_letters_are_listed_redriven_and_dismissed(either: Cellule) -> None:
    for name in ("d1", "d2", "d3"):
        either("event", "send", "Dropped", json.dumps({"name": name}), code=5)
    letters = either("letter", "list", "--module", "fragile", "--json").json["letters"]
    assert [each["key"] for each in letters] == ["d1", "d2", "d3"]
    assert "it broke" in either("letter", "list").out
    redriven = either("letter", "redrive", str(letters[0]["height"]), "--why", "try again", "--json").json
    assert redriven["letters"] == [letters[0]["height"]]
    either("letter", "dismiss", str(letters[1]["height"]))
    assert either("letter", "dismiss", "1", "--json", code=1).error["code"] == "kernel.no_letter"
    assert either("letter", "redrive", "--json", code=2).error["code"] == "cli.usage"
    wrong = ("letter", "dismiss", "900", str(letters[0]["height"]), "901", "--why", "done with", "--json")
    assert either(*wrong, code=1).error["notes"] == ["3 of 3 were refused; the others are done"]
    assert "note:  3 of 3 were refused" in either(*wrong[:-1], code=1).err
    either("letter", "dismiss", "--all", "--module", "fragile")
    either("letter", "dismiss", "--all")
    assert either("letter", "list", "--json").json["letters"] == []


FIRST = """
import msgspec
from cellule import App

app = App("notes")

@app.event(key="name")
class Written(msgspec.Struct, frozen=True):
    name: str
    body: bytes = b"hello, you"

{state}

@app.reducer(name="note", version={version})
def note(state: {kind} | None, event: Written) -> {kind}:
    return {kind}(event.body{more})
"""
NOTE = "class Note(msgspec.Struct):\n    body: bytes\n"
SECOND = (
    NOTE
    + """
@app.state(version=2)
class Letter(msgspec.Struct):
    body: bytes
    count: int

@app.upcaster
def up(old: Note) -> Letter:
    return Letter(old.body, 7)
"""
)


@pytest.fixture
def notes(empty: Cellule, tmp_path: Path) -> Cellule:
    file = tmp_path / "notes.py"
    file.write_text(FIRST.format(state=NOTE, version=1, kind="Note", more=""))
    empty("world", "create", "main", "--app", f"{file}:app")
    for name in ("a", "b", "c"):
        empty("event", "send", "Written", json.dumps({"name": name}))
    return empty


def test_all_cells_are_moved_after_a_deploy_with_an_upcaster(notes: Cellule, tmp_path: Path) -> None:
    """`cell migrate` moves what waits for it: no cell does, as each would follow at its next event."""
    file = tmp_path / "notes.py"
    file.write_text(FIRST.format(state=SECOND, version=2, kind="Letter", more=", 1"))
    notes.process("world", "deploy", "main", "--app", f"{file}:app")
    assert notes("cell", "migrate", "--json").json["cells"] == []
    error = notes("cell", "migrate", "note", "a", "--all", "--json", code=2).error
    assert "--all" in error["message"]
    moved = notes("cell", "migrate", "--all", "--json").json
    assert [cell["key"] for cell in moved["cells"]] == ["a", "b", "c"]
    assert notes("cell", "show", "note", "b", "--json").json["state"]["count"] == 7
    assert notes("cell", "migrate", "note", "--all", "--json").json["cells"] == []
    assert notes("verify", "--json").json["ok"] is True


def test_bytes_that_are_text_are_shown_to_people_as_text(notes: Cellule) -> None:
    """They were shown as base64, which programs still get."""
    assert "hello, you" in notes("cell", "show", "note", "a").out
    assert "hello, you" in notes("journal", "show", "1..7").out
    encoded = base64.b64encode(b"hello, you").decode()
    assert notes("cell", "show", "note", "a", "--json").json["state"]["body"] == encoded
    binary = base64.b64encode(b"\xff\x00").decode()
    notes("event", "send", "Written", json.dumps({"name": "x", "body": binary}))
    assert binary in notes("cell", "show", "note", "x").out


def test_one_is_not_many(notes: Cellule) -> None:
    notes("cell", "halt", "note", "a")
    assert "1 cell (" in notes("cell", "resume").out
    assert ": 0 cells" in notes("cell", "resume").out
