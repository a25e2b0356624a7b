"""`cellule signal`, `enzyme`, `beat` and `tree`: the heartbeat from the command line."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.edge.cli.conftest import Cellule as Line

if TYPE_CHECKING:
    Cellule = Any

PHOTOS = Path(__file__).parents[2] / "node_apps" / "photos.py"


@pytest.fixture(scope="module")
def made_photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped folder with one photo, and what makes it small bound above it."""
    photos = Line(tmp_path_factory.mktemp("photos") / "data", PHOTOS)
    photos("world", "create", "main", "--app", photos.app)
    photos("tree", "write", "/p/a", '{"width": 10}')
    photos("enzyme", "bind", "/p", "shrink", "--propagate", "--why", "all photos")
    return photos.data


@pytest.fixture
def photos(tmp_path: Path, made_photos: Path) -> Cellule:
    """A copy of it for one test."""
    shutil.copytree(made_photos, tmp_path / "data")
    return Line(tmp_path / "data", PHOTOS)


def test_a_signal_is_sent_and_its_beats_are_shown(photos: Cellule) -> None:
    sent = photos("signal", "/photos/add", "--target", "/p/a", "--payload", "[1]", "--json").json
    assert sent["duplicate"] is False
    assert photos("tree", "read", "/p/a/small", "--json").json["value"] == {"width": 5}
    assert '"width": 5' in photos("tree", "read", "/p/a/small").out
    beats = photos("beat", "tail", "--no-follow", "--json").lines
    [ran] = [each for each in beats if each["agenda"] and each["agenda"][0]["ran"]]
    assert (ran["impulses"][0]["height"], ran["impulses"][0]["payload"]) == (sent["height"], [1])
    shown = photos("beat", "show", str(ran["beat"])).out
    assert "impulse  /photos/add at /p/a" in shown
    assert "agenda   /photos/add at /p/a: shrink, ok" in shown
    assert "queued   /photos/done at /p/a/small" in shown
    assert photos("beat", "show", str(ran["beat"]), "--json").json["agenda"] == ran["agenda"]
    assert "/photos/done at /p/a/small: no enzyme matches" in photos("beat", "tail", "--no-follow").out


def test_a_signal_with_an_id_is_queued_once(photos: Cellule) -> None:
    first = photos("signal", "/photos/done", "--id", "mine", "--json").json
    again = photos("signal", "/photos/done", "--id", "mine", "--json").json
    assert (again["duplicate"], again["height"]) == (True, first["height"])
    assert "queued before: /photos/done" in photos("signal", "/photos/done", "--id", "mine").out
    assert photos("tree", "read", "/log/done", "--json").json["value"] == 1


def test_the_registry_and_bindings_are_listed_and_changed(photos: Cellule) -> None:
    listed = photos("enzyme", "list", "--json").json["enzymes"]
    assert [(each["number"], each["name"]) for each in listed] == [(0, "shrink"), (1, "log")]
    photos("enzyme", "register", "/photos/*", "second", "photos/log", "--before", "log", "--match", "prefix")
    assert "before log" in photos("enzyme", "list", "--after", "1").out
    photos("enzyme", "unregister", "2")
    assert len(photos("enzyme", "list", "--json").json["enzymes"]) == 2
    photos("enzyme", "unbind", "/p/a", "shrink")
    assert photos("enzyme", "bindings", "/p/a", "--json").json["bindings"] == {"shrink": "ended"}
    assert "propagating" in photos("enzyme", "bindings", "/p").out
    assert "nothing is bound" in photos("enzyme", "bindings", "/q").out


def test_a_pause_keeps_impulses_and_a_beat_can_be_had_now(photos: Cellule) -> None:
    photos("beat", "pause", "--why", "lunch")
    photos("signal", "/photos/done")
    photos("beat", "now")
    photos("tree", "read", "/log/done", code=1)
    assert "no impulse waits" in photos("beat", "agenda").out
    photos("beat", "resume")
    photos("beat", "now")
    assert photos("tree", "read", "/log/done", "--json").json["value"] == 1


def test_the_tree_is_listed_written_and_deleted(photos: Cellule) -> None:
    photos("tree", "write", "/env/fs/b", "-", stdin="[1, 2]")
    photos("tree", "write", "/env/fs/a")
    assert photos("tree", "list", "/env/fs").out.split() == ["a", "b"]
    assert photos("tree", "list", "/env/fs", "--limit", "1", "--json").json["names"] == ["a"]
    assert photos("tree", "list", "/env/fs", "--after", "a", "--json").json["names"] == ["b"]
    views = photos("tree", "list", "/rt", "--json").json["names"]
    assert views == ["analytics", "beat", "budgets", "metrics", "ops"]
    assert photos("tree", "read", "/rt/beat/1/stage", "--json").json["value"]["promoted"] == 0
    seen = photos("tree", "watch", "/env", "--after", "0", "--count", "4", "--json").lines
    assert [(each["path"], each["value"]) for each in seen] == [
        ("/env", None), ("/env/fs", None), ("/env/fs/b", [1, 2]), ("/env/fs/a", None),
    ]  # fmt: skip
    assert "/env/fs/b  [1, 2]" in photos("tree", "watch", "/env", "--after", "0", "--count", "3").out
    photos("tree", "delete", "/env")
    assert "nothing below" in photos("tree", "list", "/env").out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("signal",), "heartbeat.impulse_empty"),
        (("signal", "/a//b"), "heartbeat.path"),
        (("signal", "/a", "--beat", "1"), "heartbeat.beat_past"),
        (("beat", "show", "9999"), "heartbeat.no_beat"),
        (("tree", "read", "/nowhere"), "heartbeat.no_node"),
        (("tree", "delete", "/nowhere"), "heartbeat.no_node"),
        (("tree", "write", "/rt/beat/1", "1"), "heartbeat.read_only"),
        (("tree", "list", "/rt/beat", "--after", "x"), "heartbeat.beat_number"),
        (("enzyme", "unregister", "99"), "heartbeat.enzyme_unknown"),
        (("enzyme", "bind", "/p", ""), "heartbeat.enzyme"),
    ],
)
def test_what_is_wrong_is_told_and_changes_nothing(photos: Cellule, arguments: Any, code: str) -> None:
    before = photos("beat", "tail", "--all", "--no-follow", "--json").lines
    assert photos(*arguments, "--json", code=1).error["code"] == code
    assert photos("beat", "tail", "--all", "--no-follow", "--json").lines == before
