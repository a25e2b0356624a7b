"""`cellule op`: operations from the command line, on a folder at rest and beside a running node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cellule = Any


def test_an_operation_from_its_start_to_its_end(pay: Cellule) -> None:
    op = pay("op", "start", "op/import", "/env/a", "--ttl", "5", "--payload", '{"rows": 5}').out.strip()
    told = pay("op", "state", op, "ist:copy", "--code", "3", "--note", "half", "--json").json
    assert (told["id"], told["state"], told["code"], told["note"]) == (op, "ist:copy", 3, "half")
    pay("op", "await", op, "sts:ok", "op/done")
    text = pay("op", "get", op).out
    assert "state    ist:copy, code 3: half" in text
    assert "watcher  sts:ok -> /op/done, for ever" in text
    closed = pay("op", "close", op, "--summary", "all of it", "--json").json
    assert (closed["status"], closed["summary"], closed["watchers"]) == ("sts:ok", "all of it", [])
    assert pay("op", "close", op, "sts:ok", "--json").json["status"] == "sts:ok"
    assert pay("op", "wait", op, "--json").json["status"] == "sts:ok"
    listed = pay("op", "list", "--json").json
    assert [each["id"] for each in listed["operations"]] == [op]
    assert listed["next"] is None
    assert "op/import" in pay("op", "list").out
    assert "no such operations" in pay("op", "list", "--state", "ist:run").out


def test_the_journal_tells_what_happens_to_an_operation(pay: Cellule) -> None:
    op = pay("op", "start", "op/import", "/env/a").out.strip()
    pay("op", "await", op, "ist:run", "op/done", "--payload", "[1]")
    height = pay("journal", "show", "1..9000", "--json", code=1).error["fields"]["height"]
    records = pay("journal", "show", f"38..{height}", "--json").json["records"]
    by_kind = {each["kind"]: each for each in records}
    assert by_kind["write"]["operation"] == op
    assert by_kind["write"]["state"]["state"] == "ist:run"
    signal = by_kind["signal"]
    assert (signal["signal"], signal["target"], signal["payload"]) == ("/op/done", f"/rt/ops/{op}", [1])
    assert signal["impulse_kind"] == "continuation"
    shown = pay("journal", "show", f"38..{height}").out
    assert f"/op/done at /rt/ops/{op} [1] for beat" in shown


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("start", "op/x", "/a//b"), "heartbeat.path"),
        (("start", "op/x", "/a", "--mode", "opm:odd"), "operation.argument"),
        (("state", "9-9", "ist:x"), "operation.unknown"),
        (("await", "9-9", "ist:x", "go"), "operation.unknown"),
        (("close", "9-9"), "operation.unknown"),
        (("get", "odd"), "operation.unknown"),
        (("wait", "9-9"), "operation.unknown"),
        (("list", "--after", "odd"), "operation.unknown"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_a_code(pay: Cellule, arguments: tuple[str, ...], code: str) -> None:
    error = pay("op", *arguments, "--json", code=1).error
    assert error["code"] == code
    assert error["message"]


def test_an_operation_beside_a_running_node(paying: Cellule) -> None:
    op = paying("op", "start", "op/import", "/env/a", "--json").json["id"]
    paying("op", "close", op, "sts:cnl")
    assert paying("op", "get", op, "--json").json["status"] == "sts:cnl"
