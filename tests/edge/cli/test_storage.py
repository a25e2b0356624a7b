"""Storage on the command line: snapshots, compaction, collection, quotas, files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cellule.values.cbor import decode
from tests.edge.cli.conftest import SHOP, Cellule


def test_snapshots_are_listed_kept_and_chosen(shop: Cellule) -> None:
    shop("world", "retention", "main", "--snapshots", "4")
    for _ in range(3):
        shop("event", "send", "Placed", '{"order_id": "o7", "total": 3}')
        shop("world", "snapshot")
    found = shop("world", "snapshots", "--json").json["snapshots"]
    assert len(found) >= 4
    assert [each["baseline"] for each in found] == [False] * (len(found) - 1) + [True]
    older = found[-2]["height"]
    assert shop("world", "promote", "main", str(older), "--json").json["baseline"]
    assert {
        each["height"]: each["baseline"] for each in shop("world", "snapshots", "--json").json["snapshots"]
    }[older]
    assert shop("world", "promote", "main", "3", "--json", code=1).error["code"] == "host.no_such_snapshot"


def test_a_world_is_compacted_and_collected(shop: Cellule) -> None:
    shop("world", "snapshot")
    done = shop("world", "compact", "--everything", "--json").json
    assert done["segments"] == 1
    assert "frames" in shop("world", "compact").out
    would = shop("gc", "run", "--dry-run", "--json").json
    assert would["dry_run"]
    assert would["kept"] > 0
    assert "would be removed" in shop("gc", "run", "--dry-run").out
    assert shop("gc", "show", "--json").json["phase"] is None
    assert shop("gc", "run", "--now", "--json").json["phase"] == "done"
    assert shop("gc", "show", "--json").json["ended"]
    shop("verify")
    shop("check")


def test_an_object_is_explained_and_pinned(shop: Cellule) -> None:
    cid = shop("world", "snapshot", "--json").json["snapshot"]
    why = shop("gc", "explain-retention", cid, "--json").json
    assert "world main" in why["kept_by"]
    pin = shop("gc", "pin", cid, "--for", "60", "--why", "an audit", "--json").json
    assert [each["why"] for each in shop("gc", "pins", "--json").json["pins"]] == ["an audit"]
    shop("gc", "unpin", pin["id"])
    assert shop("gc", "unpin", pin["id"], "--json", code=1).error["code"] == "host.no_pin"
    assert shop("gc", "unpin", "nonsense", "--json", code=2).error["code"] == "cli.usage"


def test_history_is_held(shop: Cellule) -> None:
    assert shop("world", "retention", "main", "--history", "drop", "--json").json["history"] == "drop"
    shop("world", "hold", "report", "5", "main")
    assert shop("world", "holds", "--json").json["holds"] == [{"name": "report", "height": 5}]
    shop("world", "release", "report")
    error = shop("world", "retention", "main", "--history", "burn", "--json", code=1).error
    assert error["code"] == "host.retention_history"


def test_quotas_are_set_shown_and_heeded(shop: Cellule) -> None:
    shown = shop("universe", "quota", "--worlds", "1", "--json").json
    assert shown["quotas"]["worlds"] == shown["usage"]["worlds"] == 1
    assert "stored_bytes" in shop("universe", "quota").out
    assert (
        shop("world", "create", "b", "--app", f"{SHOP}:app", "--json", code=1).error["code"] == "host.quota"
    )
    shop("universe", "quota", "--clear")
    shop("world", "create", "b", "--app", f"{SHOP}:app")


def test_a_world_moves_through_a_file(shop: Cellule, tmp_path: Path) -> None:
    file = tmp_path / "main.car"
    done = shop("world", "export", "main", str(file), "--json").json
    assert done["bytes"] == file.stat().st_size
    assert shop("world", "import", str(file), "--json", code=1).error["code"] == "host.world_exists"
    shop("world", "delete", "main", "--yes")
    assert shop("world", "import", str(file), "--name", "back", "--json").json["name"] == "back"
    assert shop("cell", "show", "order", "o1", "--json").json["state"]["status"] == "shipped"
    shop("verify")
    file.write_bytes(file.read_bytes()[:-5])
    assert shop("world", "import", str(file), "--json", code=1).error["code"] == "archive.broken"


def test_a_cell_is_exported_without_what_nobody_shall_see(shop: Cellule, tmp_path: Path) -> None:
    file = tmp_path / "o1.car"
    done = shop("cell", "archive", "order", "o1", str(file), "--redact", "total", "--json").json
    assert done["frames"] >= 2
    data = file.read_bytes()
    size = data[0]
    root = decode(data[1 + size :][2 + 36 :][: ((data[1 + size] & 0x7F) | data[2 + size] << 7) - 36])
    assert (root["kind"], root["redacted"]) == ("cellule/cell", ["total"])
    assert b"shipped" in data
    error = shop("cell", "archive", "order", "nobody", str(tmp_path / "x.car"), "--json", code=1).error
    assert error["code"] == "archive.no_cell"


def test_a_cell_moves_through_a_file(shop: Cellule, tmp_path: Path) -> None:
    file = str(tmp_path / "o1.car")
    root = shop("cell", "archive", "order", "o1", file, "--json").json["root"]
    assert shop("cell", "import", file, "--json", code=1).error["code"] == "archive.cell_lives"
    shop("world", "create", "b", "--app", f"{SHOP}:app")
    assert "would be in world b" in shop("--world", "b", "cell", "import", file, "--dry-run").out
    done = shop("--world", "b", "cell", "import", file, "--why", "it was lost", "--json").json
    assert (done["module"], done["key"], done["root"], done["dry_run"]) == ("shop/order", "o1", root, False)
    assert shop("--world", "b", "cell", "show", "order", "o1", "--json").json["state"]["status"] == "shipped"
    shop("verify")
    shop("check")


def test_a_world_is_exported_without_what_nobody_shall_see(shop: Cellule, tmp_path: Path) -> None:
    file = str(tmp_path / "main.car")
    done = shop("world", "export", "main", file, "--redact", "total", "--json").json
    assert done["redacted"] == ["total"]
    for command in (("world", "import", file, "--dry-run"), ("test-from", file)):
        assert shop(*command, "--json", code=1).error["code"] == "archive.redacted"
    whole = str(tmp_path / "whole.car")
    shop("world", "export", "main", whole)
    assert shop("world", "import", whole, "--dry-run", "--json").json["here"] is True


@pytest.mark.parametrize("is_changed", [False, True])
def test_history_from_production_is_a_test(shop: Cellule, tmp_path: Path, is_changed: bool) -> None:
    shop("world", "export", "main", str(tmp_path / "main.car"))
    code = SHOP.read_text()
    if is_changed:
        assert '"shipped"' in code
        code = code.replace('"shipped")', '"lost")').replace('status="shipped"', 'status="lost"')
        code = code.replace('"shipped"]', '"shipped", "lost"]')
    (tmp_path / "cli_shop.py").write_text(code)
    made = shop("test-from", str(tmp_path / "main.car"), "--app", "cli_shop.py:app", "--json").json
    assert made["test"].endswith("test_main_history.py")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", made["test"]],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (ran.returncode == 0) is not is_changed, ran.stdout
