"""`cellule world create` and `deploy` with a manifest document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cellule.cli.app_file import load_app
from cellule.values import decode
from cellule.values.json_view import to_json

if TYPE_CHECKING:
    Cellule = Any

FIXTURES = Path(__file__).parents[2] / "fixtures" / "manifests"
NOTES, CODE = str(FIXTURES / "notes.yaml"), str(FIXTURES / "notes")
OPENED = '{"note_id": "a", "title": "milk"}'


def test_a_world_from_a_manifest_takes_events(empty: Cellule) -> None:
    made = empty("world", "create", "n", "--manifest", NOTES, "--code", CODE, "--json").json
    assert made["name"] == "n"
    empty("event", "send", "Opened", OPENED)
    assert empty("cell", "show", "note", "a", "--json").json["state"] == {"title": "Milk", "open": True}
    assert empty("verify", "--json").code == 0


def test_a_deploy_shows_its_changes_first_and_then_does_them(empty: Cellule, tmp_path: Path) -> None:
    empty("world", "create", "n", "--manifest", NOTES, "--code", CODE)
    changed = tmp_path / "notes.yaml"
    changed.write_text(
        Path(NOTES).read_text().replace("state: notes/Note@1\n", "state: notes/Note@1\n    failure: skip\n")
    )
    line = ("world", "deploy", "n", "--manifest", str(changed), "--code", CODE)
    before = empty("world", "show", "--json").json
    dry = empty(*line, "--dry-run", "--json").json
    assert dry["deployed"] is False
    assert [each["what"] for each in dry["changes"]] == ["failure changed"]
    assert empty("world", "show", "--json").json["height"] == before["height"]
    told = empty(*line, "--why", "less noise").out
    assert "failure applies from the next step on" in told
    assert "deployed to world n" in told
    after = empty("world", "show", "--json").json
    assert after["eras"] == before["eras"] + 1
    assert "less noise" in empty("journal", "tail", "--no-follow", "--json").out


def test_a_manifest_is_tried_on_recorded_history_with_the_code_beside_it(
    empty: Cellule, tmp_path: Path
) -> None:
    empty("world", "create", "n", "--manifest", NOTES, "--code", CODE)
    empty("event", "send", "Opened", OPENED)
    for each in Path(CODE).glob("*.py"):
        (tmp_path / each.name).write_text(each.read_text().replace("capitalize", "upper"))
    line = ("deploy", "n", "--manifest", NOTES, "--shadow", "--all-history", "--gate", "--json")
    error = empty(*line, "--code", str(tmp_path), code=1).error
    assert error["code"] == "cli.shadow_differs"
    assert "notes/note/a" in error["message"]
    assert '"MILK"' in error["message"]
    assert empty(*line, "--code", CODE, "--dry-run").json["shadow"]["same"]


def test_a_deploy_that_cells_cannot_follow_is_marked_and_refused(empty: Cellule, tmp_path: Path) -> None:
    empty("world", "create", "n", "--manifest", NOTES, "--code", CODE)
    empty("event", "send", "Opened", OPENED)
    other = str(FIXTURES / "keyed_workflows.json")
    shown = empty("world", "deploy", "n", "--manifest", other, "--dry-run").out
    assert "! $.modules" in shown
    assert "it would be refused" in shown
    error = empty("world", "deploy", "n", "--manifest", other, "--json", code=1).error
    assert error["code"] == "manifest.incompatible"


def test_a_manifest_that_cannot_be_taken_leaves_no_world(empty: Cellule, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({"modules": {"a/B@1": {}}}))
    error = empty("world", "create", "n", "--manifest", str(bad), "--json", code=1).error
    assert error["code"] == "manifest.state_missing"
    missing = str(tmp_path / "none.json")
    assert (
        empty("world", "create", "n", "--manifest", missing, "--json", code=1).error["code"]
        == "host.manifest_file"
    )
    assert empty("world", "list", "--json").json["worlds"] == []


def test_an_app_is_deployed_with_its_changes_shown(shop: Cellule) -> None:
    dry = shop("world", "deploy", "--app", shop.app, "--dry-run", "--json").json
    assert (dry["changes"], dry["compatible"]) == ([], True)


def test_a_deploy_goes_through_a_running_owner(running: Cellule, tmp_path: Path) -> None:
    """The document is the JSON view of what runs: its code is in the store already."""
    document = to_json(decode(load_app(running.app).build().manifest.data))
    name = next(iter(document["modules"]))
    document["modules"][name]["failure"] = "skip"
    file = tmp_path / "shop.json"
    file.write_text(json.dumps(document))
    before = running("world", "show", "--json").json["eras"]
    told = running("world", "deploy", "--manifest", str(file), "--why", "go on", "--json").json
    assert (told["deployed"], [each["what"] for each in told["changes"]]) == (True, ["failure changed"])
    assert running("world", "show", "--json").json["eras"] == before + 1
    running("event", "send", "Placed", '{"order_id": "o8", "total": 1}')
    del document["modules"][name]
    document["routing"]["subscriptions"] = [
        each for each in document["routing"]["subscriptions"] if each["module"] != name
    ]
    file.write_text(json.dumps(document))
    refused = running("world", "deploy", "--manifest", str(file), "--json", code=3).error
    assert refused["code"] == "host.not_owner"
