"""`cellule init` and `cellule dev`: from nothing to a running app that reloads on save."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cellule = Any


@pytest.fixture
def project(empty: Cellule, tmp_path: Path) -> Path:
    folder = tmp_path / "my-shop"
    made = empty("init", str(folder), "--json").json
    assert made["namespace"] == "my_shop"
    assert made["files"] == [".gitignore", "README.md", "app.py", "test_app.py"]
    return folder


def test_a_new_project_passes_its_own_tests(project: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_a_new_project_is_typed_and_its_match_is_exhaustive(project: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "app.py"]
    environment = {**os.environ, "MYPYPATH": ""}
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, timeout=240, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_project_runs(project: Path) -> None:
    def run(*arguments: str) -> str:
        command = [str(Path(sys.executable).parent / "cellule"), *arguments]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("world", "create", "main", "--app", "app.py")
    run("event", "send", "Placed", '{"order_id": "o1", "total": 30}')
    assert '"paid"' in run("event", "send", "Paid", '{"order_id": "o1", "amount": 30}', "--wait", "reply")
    assert "paid" in run("cell", "show", "order", "o1")


def test_a_folder_that_is_not_empty_is_refused(empty: Cellule, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "app.py").write_text("mine")
    error = empty("init", str(tmp_path / "old"), "--json", code=1).error
    assert error["code"] == "cli.not_empty"
    assert (tmp_path / "old" / "app.py").read_text() == "mine"
    (tmp_path / "file").write_text("")
    assert empty("init", str(tmp_path / "file"), "--json", code=1).error["code"] == "cli.not_empty"


def test_an_empty_folder_will_do(empty: Cellule, tmp_path: Path) -> None:
    (tmp_path / "3d").mkdir()
    assert empty("init", str(tmp_path / "3d"), "--json").json["namespace"] == "my_3d"


def test_a_folder_that_cannot_be_made_is_refused(empty: Cellule, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert empty("init", str(tmp_path / "file" / "below"), "--json", code=1).error["code"] == "cli.folder"


def test_dev_needs_an_app(empty: Cellule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error = empty("dev", "--json", code=2).error
    assert "--app" in error["hint"]


def test_dev_beside_another_owner_gives_up(running: Cellule) -> None:
    answer = running.process("--json", "--app", running.app, "dev", code=3)
    assert answer.error["code"] == "host.not_owner"


def test_dev_uses_the_only_world_there_is(project: Path, empty: Cellule) -> None:
    """It made a second one, `main`, beside it."""
    empty("world", "create", "shop", "--app", f"{project / 'app.py'}:app")
    dev = empty.start("--json", "dev", "--no-reload", cwd=project)
    try:
        assert dev.json()["world"] == "shop"
        assert dev.end(signal.SIGINT) == 0
    finally:
        dev.close()
    assert [each["name"] for each in empty("world", "list", "--json").json["worlds"]] == ["shop"]


def test_dev_asks_which_of_several_worlds_is_meant(project: Path, empty: Cellule) -> None:
    for name in ("one", "two"):
        empty("world", "create", name, "--app", f"{project / 'app.py'}:app")
    error = empty.process("--json", "dev", "--no-reload", cwd=project, code=1).error
    assert error["code"] == "cli.which_world"


def test_dev_tells_what_happens_and_reloads_on_save(project: Path, empty: Cellule) -> None:
    dev = empty.start("--json", "dev", cwd=project)
    try:
        ready = dev.json()
        assert (ready["kind"], ready["events"]) == (
            "ready", ["my_shop/Cancelled@1", "my_shop/Paid@1", "my_shop/Placed@1"],
        )  # fmt: skip
        empty("event", "send", "Placed", '{"order_id": "o1", "total": 30}')
        assert [dev.json()["kind"], dev.json()["kind"]] == ["event", "step"]
        app = project / "app.py"
        app.write_text(app.read_text().replace('reply="placed"', 'reply="welcome"'))
        assert dev.json() == {"kind": "reload", "files": ["app.py"]}
        again = dev.json()
        assert again["kind"] == "ready"
        assert again["height"] > ready["height"]
        event = '{"order_id": "o2", "total": 30}'
        assert empty("event", "send", "Placed", event, "--wait", "reply", "--json").json["reply"] == "welcome"
        assert dev.end(signal.SIGINT) == 0
    finally:
        dev.close()
    assert empty("verify", "--json").json["ok"] is True
    assert "free" in empty("doctor").out


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_dev_in_the_background_of_a_shell_ends_well_by_a_signal(
    project: Path, empty: Cellule, sign: int
) -> None:
    """A shell starts it with SIGINT ignored; an interrupt did nothing, and reloading waited for ever."""
    dev = empty.start(
        "--json", "dev", cwd=project, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
    )
    try:
        dev.json()
        app = project / "app.py"
        app.write_text(app.read_text().replace('reply="placed"', 'reply="welcome"'))
        assert [dev.json()["kind"], dev.json()["kind"]] == ["reload", "ready"]
        assert dev.end(sign) == 0
    finally:
        dev.close()
    assert "free" in empty("doctor").out


def test_a_file_that_does_not_load_is_told_and_the_next_save_tries_again(
    project: Path, empty: Cellule
) -> None:
    app = project / "app.py"
    good = app.read_text()
    app.write_text("def broken(:\n")
    dev = empty.start("--json", "dev", cwd=project)
    try:
        error = dev.line("err")
        assert "cli.app_failed" in error
        assert "app.py:1" in error
        app.write_text(good)
        assert dev.json()["kind"] == "reload"
        assert dev.json()["kind"] == "ready"
        assert dev.end(signal.SIGTERM) == 0
    finally:
        dev.close()


def test_a_change_that_worlds_cannot_take_is_refused_with_the_difference(
    project: Path, empty: Cellule
) -> None:
    app = project / "app.py"
    empty("world", "create", "main", "--app", f"{app}:app")
    app.write_text(app.read_text().replace("total: int\n    paid", "total: str\n    paid"))
    error = empty.process("--json", "--app", f"{app}:app", "dev", "--no-reload", code=1).error
    assert error["kind"] == "Rejected"
    assert "Order" in error["message"]


def test_the_child_ends_when_its_parent_was_killed(project: Path, empty: Cellule) -> None:
    dev = empty.start("--json", "dev", cwd=project)
    try:
        dev.json()
        dev.process.kill()
        dev.process.wait(60)
        dev.rest()  # the child holds the pipe until it ends
    finally:
        dev.close()
    assert "free" in empty("doctor").out
