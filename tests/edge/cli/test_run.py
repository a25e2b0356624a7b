"""`cellule run`: a node for good, as a service manager sees it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cellule = Any


def logged(started: Any, text: str) -> dict[str, Any]:
    """The first log line with this text."""
    while True:
        line = json.loads(started.line("err"))
        if text in line.get("text", ""):
            return line


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_node_says_that_it_is_ready_and_ends_well_by_a_signal(
    empty: Cellule, tmp_path: Path, sign: int
) -> None:
    ready = tmp_path / "run" / "ready.json"
    node = empty.start("--json", "run", empty.app, "--ready-file", str(ready))
    try:
        line = logged(node, "world main is at work")
        assert (line["level"], line["logger"]) == ("info", "cellule.run")
        logged(node, "ready")
        told = json.loads(ready.read_text())
        assert told == {"pid": node.process.pid, "role": "owner", "data": str(empty.data)}
        event = '{"order_id": "o1", "total": 3}'
        assert empty("event", "send", "Placed", event, "--json").json["steps"][0]["status"] == "ok"
        assert node.end(sign) == 0
        assert "asked to end" in "".join(node.rest("err"))
    finally:
        node.close()
    assert not ready.exists()
    assert "free" in empty("doctor").out
    assert empty("verify", "--json").json["ok"] is True


def test_a_node_beside_the_owner_stands_by_and_takes_over(empty: Cellule, tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    first = empty.start("--json", "run", empty.app)
    second = None
    try:
        logged(first, "ready")
        second = empty.start("--json", "run", empty.app, "--ready-file", str(ready))
        assert str(first.process.pid) in logged(second, "standing by")["text"]
        logged(second, "ready")
        assert json.loads(ready.read_text())["role"] == "guest"
        first.process.kill()
        logged(second, "world main is at work")
        logged(second, "ready")
        assert json.loads(ready.read_text())["role"] == "owner"
        empty("event", "send", "Placed", '{"order_id": "o1", "total": 3}')
        assert second.end(signal.SIGTERM) == 0
    finally:
        first.close()
        if second is not None:
            second.close()


def test_a_node_performs_effects(pay: Cellule, vault_key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLULE_VAULT_KEY_FILE", str(vault_key))
    node = pay.start("--json", "run", pay.app)
    try:
        logged(node, "ready")
        tail = pay.start("--json", "journal", "tail")
        try:
            value = json.dumps({"order": "o9", "cents": 5, "how": "charge"})
            pay("event", "send", "Placed", value)
            while True:
                line = tail.json()
                if line["kind"] == "receipt" and line["key"] == "o9":
                    break
            assert line["status"] == "ok"
        finally:
            tail.end()
            tail.close()
        assert node.end(signal.SIGTERM) == 0
    finally:
        node.close()


def test_a_node_whose_adapter_goes_on_when_it_is_cancelled_ends_all_the_same(pay: Cellule) -> None:
    """It said that everything was finished, and its process stayed for ever."""
    node = pay.start("--json", "run", pay.app)
    try:
        logged(node, "ready")
        order = json.dumps({"order": "stubborn1", "cents": 5, "how": "charge"})
        event = pay("event", "send", "Placed", order, "--json").json
        assert event["steps"][0]["status"] == "ok"
        assert node.end(signal.SIGTERM) == 0
        assert "asked to end" in "".join(node.rest("err"))
    finally:
        node.close()


def test_without_an_app_the_stored_code_runs(shop: Cellule, tmp_path: Path) -> None:
    node = shop.start("--json", "run", cwd=tmp_path)
    try:
        assert logged(node, "no app was named")["level"] == "warning"
        logged(node, "ready")
        shop("event", "send", "Placed", '{"order_id": "o7", "total": 3}')
        assert node.end(signal.SIGTERM) == 0
    finally:
        node.close()


def test_without_an_app_and_without_a_store_nothing_is_made(empty: Cellule) -> None:
    """Started in a wrong folder, it made an empty store and waited there for ever."""
    refused = empty("--json", "run", code=1)
    assert json.loads(refused.err.splitlines()[-1])["error"]["code"] == "store.no_data"
    assert not empty.data.exists()


def test_an_app_that_worlds_cannot_take_ends_the_command_with_the_difference(
    shop: Cellule, tmp_path: Path
) -> None:
    app = tmp_path / "other.py"
    app.write_text(Path(shop.app.removesuffix(":app")).read_text().replace("total: int", "total: str"))
    answer = shop.process("run", f"{app}:app", "--ready-file", str(tmp_path / "ready"), code=1)
    assert "total" in answer.err
    assert not (tmp_path / "ready").exists()


def test_an_app_named_twice_and_a_readiness_file_that_cannot_be_are_refused(
    empty: Cellule, tmp_path: Path
) -> None:
    error = empty("--json", "--app", "a.py", "run", "b.py", code=2).error
    assert "twice" in error["message"]
    (tmp_path / "file").write_text("")
    error = empty("--json", "run", empty.app, "--ready-file", str(tmp_path / "file" / "x"), code=2).error
    assert str(tmp_path / "file" / "x") in error["message"]
    assert not empty.data.exists()
