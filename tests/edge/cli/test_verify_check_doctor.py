"""`cellule verify`, `check`, `doctor` and `bench`: proofs of a folder, and what damage looks like."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    Cellule = Any


def change_rows(data: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(data / "cellule.db")
    try:
        connection.execute(statement, values)
        connection.commit()
    finally:
        connection.close()


def test_verify_runs_every_step_again(shop: Cellule) -> None:
    found = shop("verify", "--json").json
    assert found["ok"] is True
    [world] = found["worlds"]
    assert (world["world"], world["steps"], world["skipped"]) == ("main", 5, 0)
    assert "verified" in shop("verify").out


def test_verify_holds_the_baseline_against_the_journal(shop: Cellule) -> None:
    height = shop("world", "snapshot", "--json").json["height"]
    shop("event", "send", "Counted", '{"number": 1}')
    [world] = shop("verify", "--json").json["worlds"]
    assert world["baseline"] == height
    assert world["height"] > height


def test_verify_of_all_worlds_or_of_one(shop: Cellule) -> None:
    shop("world", "create", "other", "--app", shop.app)
    assert len(shop("verify", "--json").json["worlds"]) == 2
    assert len(shop("verify", "--world", "other", "--json").json["worlds"]) == 1


def test_verify_works_beside_a_running_owner(running: Cellule) -> None:
    assert running("verify", "--json").json["ok"] is True
    assert running("check", "--json").json["ok"] is True


def test_a_step_that_depends_on_the_hash_seed_is_found_where_the_seed_is_fixed(
    empty: Cellule, tmp_path: Path
) -> None:
    """Recorded and verified with the same seed, it did the same again."""
    file = tmp_path / "unsorted.py"
    file.write_text(UNSORTED)
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    empty.process("world", "create", "main", "--app", f"{file}:app", env=environment)
    empty.process("event", "send", "Asked", '{"name": "a"}', "--app", f"{file}:app", env=environment)
    for command in (("verify", "--json"), ("--json", "verify", "--world", "main")):
        answer = empty.process(*command, env=environment, code=4)
        assert answer.json["worlds"][0]["difference"]["field"] == "state.text"
    found = empty.process("verify", "--json", env={**environment, "CELLULE_RESEEDED": "1"}).json
    assert found["ok"] is True


def test_code_that_is_not_deterministic_is_found(empty: Cellule, tmp_path: Path) -> None:
    """The step reads a clock: running history again gives other bytes."""
    file = tmp_path / "impure.py"
    file.write_text(IMPURE)
    empty("world", "create", "main", "--app", f"{file}:app")
    for _ in range(3):
        empty("event", "send", "Asked", '{"name": "a"}', "--app", f"{file}:app")
    answer = empty("verify", "--json", code=4)
    [world] = answer.json["worlds"]
    assert world["difference"]["field"].startswith("state.")
    assert (world["difference"]["module"], world["difference"]["key"]) == ("impure/asking", "a")
    assert "DIFFERENT" in empty("verify", code=4).out


UNSORTED = """
import msgspec
from cellule import App

app = App("unsorted")

@app.event(key="name")
class Asked(msgspec.Struct, frozen=True):
    name: str

class Answer(msgspec.Struct):
    text: str

@app.reducer
def answer(state: Answer | None, event: Asked) -> Answer:
    return Answer(",".join({f"part {number}" for number in range(20)}))  # cellule: allow order - on purpose
"""

IMPURE = """
from __future__ import annotations

import time

import msgspec

from cellule import App, Step

app = App("impure")


@app.event(key="name")
class Asked(msgspec.Struct, frozen=True):
    name: str


class Answer(msgspec.Struct, frozen=True):
    moment: int


@app.reducer
def asking(state: Answer | None, event: Asked) -> Step[Answer]:
    return Step(Answer(time.monotonic_ns()))  # cellule: allow clock - it is wrong on purpose
"""


def test_a_sound_folder_checks(shop: Cellule) -> None:
    shop("world", "snapshot")
    found = shop("check", "--json").json
    assert found["ok"] is True
    assert found["file"]["rows"] > 10
    [world] = found["worlds"]
    assert (world["universe"], world["world"], world["snapshots"]) == ("default", "main", 2)
    assert world["blocks"] > 3
    assert "sound" in shop("check").out


def test_a_damaged_row_is_found(shop: Cellule) -> None:
    change_rows(shop.data, "UPDATE rows SET value = zeroblob(length(value)) WHERE rowid = 5")
    answer = shop("check", "--json", code=4)
    assert answer.json["file"]["problem_count"] >= 1
    assert answer.json["worlds"] == []
    assert "problems" in shop("check", code=4).out


def test_a_missing_frame_is_found(shop: Cellule) -> None:
    change_rows(
        shop.data, "DELETE FROM rows WHERE key = (SELECT key FROM rows WHERE instr(key, 'journal') LIMIT 1)"
    )
    answer = shop("check", "--json", code=4)
    assert answer.json["file"]["problem_count"] == 0
    assert answer.json["worlds"][0]["problem"]["code"] == "host.frame_missing"
    assert "DAMAGED" in shop("check", code=4).out
    assert shop("verify", "--json", code=4).error["kind"] == "Corrupted"


def test_a_missing_block_is_found(shop: Cellule) -> None:
    shop("world", "snapshot")
    change_rows(
        shop.data, "DELETE FROM rows WHERE key = (SELECT max(key) FROM rows WHERE instr(key, X'02636173'))"
    )
    answer = shop("check", "--json", code=4)
    assert answer.json["ok"] is False


def test_the_doctor_finds_a_healthy_folder_healthy(shop: Cellule) -> None:
    found = shop("doctor", "--json").json
    assert found["ok"] is True
    whats = [each["what"] for each in found["findings"]]
    wanted = [
        "python",
        "versions",
        "permissions",
        "disk",
        "file",
        "lock",
        "integrity",
        "format",
        "commits",
        "default/main",
    ]
    assert whats == wanted
    assert "free" in next(each["text"] for each in found["findings"] if each["what"] == "lock")
    assert "permissions" in shop("doctor").out


def test_the_doctor_names_a_running_owner(running: Cellule) -> None:
    found = running("doctor", "--json").json["findings"]
    assert "owned by process" in next(each["text"] for each in found if each["what"] == "lock")


def test_the_doctor_looks_at_a_folder_that_is_not_there_yet(empty: Cellule) -> None:
    found = empty("doctor", "--json").json
    assert found["ok"] is True
    assert {"what": "folder", "status": "warn"}.items() <= found["findings"][2].items()
    assert not empty.data.exists()


def test_the_doctor_tells_nothing_of_the_data_of_the_folder_above(shop: Cellule) -> None:
    """It told of the database and the lock of the nearest folder that was there, as if they were the ones."""
    found = shop.process("doctor", "--json", "--data", str(shop.data / "none")).json
    assert {each["what"] for each in found["findings"]}.isdisjoint({"file", "lock"})


def test_the_doctor_refuses_what_is_no_folder(empty: Cellule) -> None:
    empty.data.write_text("a file")
    assert empty("doctor", "--json", code=1).json["ok"] is False


def test_the_doctor_finds_a_journal_without_its_end(shop: Cellule) -> None:
    change_rows(
        shop.data, "DELETE FROM rows WHERE key = (SELECT max(key) FROM rows WHERE instr(key, 'journal'))"
    )
    found = shop("doctor", "--json", code=4).json["findings"]
    assert next(each["status"] for each in found if each["what"] == "default/main") == "fail"


def test_the_doctor_finds_a_file_that_is_no_database(shop: Cellule) -> None:
    (shop.data / "cellule.db").write_bytes(b"not a database, but long enough to be one" * 1000)
    for rest in shop.data.glob("cellule.db-*"):
        rest.unlink()
    assert shop("doctor", "--json", code=4).json["ok"] is False
    assert shop("world", "list", "--json", code=4).error["kind"] == "Corrupted"
    assert shop("check", "--json", code=4).json["ok"] is False


def test_a_folder_of_a_newer_version_is_refused(shop: Cellule) -> None:
    from cellule.store import keys
    from cellule.store.rows import seal_row
    from cellule.values import encode

    key = keys.format_version()
    change_rows(
        shop.data, "UPDATE rows SET value = ? WHERE key = ?", seal_row(key, encode({"version": 999})), key
    )
    error = shop("world", "list", "--json", code=1).error
    assert error["code"] == "store.format_newer"
    assert "999" in error["message"]
    assert shop("doctor", "--json", code=1).json["ok"] is False


@pytest.mark.timeout(120)
def test_bench_measures_and_leaves_nothing_behind(shop: Cellule) -> None:
    before = sorted(each.name for each in shop.data.iterdir())
    found = shop.process("bench", "--seconds", "0.2", "--json").json
    assert found["alone"]["events"] > 0
    assert found["together"]["events"] >= 1000
    assert found["alone"]["p50_ms"] <= found["alone"]["p99_ms"]
    assert found["bytes_per_event"] > 0
    assert sorted(each.name for each in shop.data.iterdir()) == before
    assert "in flight" in shop.process("bench", "--seconds", "0.2").out


RATES = """
from __future__ import annotations

import msgspec
import taxrates

from cellule import App, Step

app = App("rates")


@app.event(key="name")
class Sold(msgspec.Struct, frozen=True):
    name: str
    cents: int


class Due(msgspec.Struct, frozen=True):
    tax: int


@app.reducer
def due(state: Due | None, event: Sold) -> Step[Due]:
    return Step(Due((state.tax if state else 0) + taxrates.tax(event.cents)))
"""


def install(site: Path, version: str, percent: int) -> None:
    """Put a library into a folder as an installer does, in place of the version that was there."""
    for old in site.glob("taxrates-*"):
        shutil.rmtree(old)
    (site / f"taxrates-{version}.dist-info").mkdir(parents=True)
    (site / f"taxrates-{version}.dist-info" / "METADATA").write_text(f"Name: taxrates\nVersion: {version}\n")
    (site / f"taxrates-{version}.dist-info" / "RECORD").write_text("taxrates.py,,\n")
    (site / "taxrates.py").write_text(f"def tax(cents):\n    return cents * {percent} // 100\n")


def test_steps_that_need_another_version_of_a_library_are_counted_apart(
    empty: Cellule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once they were called different, without the reason."""
    site = tmp_path / "site"
    install(site, "1.0", 19)
    (tmp_path / "rates_app.py").write_text(RATES)
    environment = {**os.environ, "PYTHONPATH": str(site)}

    def run(*words: str, code: int = 0) -> Any:
        return empty.process(*words, code=code, env=environment)

    app = ("--app", f"{tmp_path / 'rates_app.py'}:app")
    run(*app, "world", "create", "main")
    for number in range(3):
        run(*app, "event", "send", "Sold", json.dumps({"name": "a", "cents": 100 + number}))
    assert run("--json", "verify").json["worlds"][0]["not_run"] == []
    install(site, "2.0", 7)
    found = run("--json", "verify", code=3).json
    [world] = found["worlds"]
    assert (found["ok"], world["steps"], "difference" in world) == (False, 0, False)
    [apart] = world["not_run"]
    assert apart["steps"] == 3
    assert "taxrates 1.0; here is 2.0" in apart["why"]
    told = run("verify", code=3).out
    assert "3 steps cannot be run here" in told
    install(site, "1.0", 19)
    assert run("--json", "verify").json["worlds"][0]["steps"] == 3
