"""Commands on stores by address: PostgreSQL and a bucket, credentials by environment, bad addresses."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from tests.edge.cli.conftest import SHOP, Cellule, CliRunner, cellule_app

PASSWORD = "hush-hush-9"


@pytest.fixture
def shared(s3_server, postgres_server, monkeypatch, tmp_path, request) -> Cellule:
    """An empty place on PostgreSQL and S3, named by the environment only."""
    schema = f"cli_{abs(hash(request.node.name)) % 10**8}"
    address = postgres_server.dsn.replace("postgres@", f"postgres:{PASSWORD}@")
    monkeypatch.setenv("CELLULE_OBJECTS", f"s3://cellule-test/{schema}?region=us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    return Cellule(f"{address}?schema={schema}")


def test_a_shop_lives_on_postgres_and_s3(shared: Cellule, tmp_path, monkeypatch) -> None:
    assert shared("world", "list", "--json", code=1).error["code"] == "store.no_data"
    shared("world", "create", "main", "--app", shared.app)
    shared("event", "send", "Placed", '{"order_id": "o1", "total": 3}', "--id", "p1")
    told = shared("cell", "show", "order", "o1", "--json")
    assert told.json["state"]["total"] == 3
    assert shared("check", "--json").json["ok"] is True
    assert shared("verify", "--json").code == 0
    found = shared("doctor", "--json").json
    by_name = {each["what"]: each for each in found["findings"]}
    assert found["ok"] is True
    assert {"commits", "objects", "owner", "clock", "format", "default/main"} <= by_name.keys()
    assert by_name["objects"]["text"].startswith("put ")
    backup = shared("backup", str(tmp_path / "backup"), "--json").json
    assert PASSWORD not in str(backup)
    monkeypatch.delenv("CELLULE_OBJECTS")
    copied = Cellule(tmp_path / "backup")
    assert copied("check", "--json").json["ok"] is True
    assert copied("cell", "show", "order", "o1", "--json").json["state"]["total"] == 3
    restored = Cellule(tmp_path / "restored")
    restored("restore", str(tmp_path / "backup"))
    assert restored("cell", "show", "order", "o1", "--json").json["state"]["total"] == 3
    assert shared("world", "list", "--json", code=1).error["code"] == "store.objects_missing"
    assert "none was named" in shared("doctor", "--json", code=1).json["findings"][-1]["text"]


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("mysql://me:hush-hush-9@host/db", "store.address"),
        ("sqlite:///data", "store.address"),
        ("postgresql:/me:hush-hush-9@host/db", "store.address"),
        ("postgresql://me:hush/hush-9@host/db", "store.address"),
        ("postgresql://me:hush-hush-9@host:port/db", "store.address"),
        ("postgresql://me:hush-hush-9@127.0.0.1:1/db", "store.unreachable"),
        ("postgresql://me:hush-hush-9@nowhere.invalid/db", "store.unreachable"),
    ],
)
def test_an_address_that_cannot_work_is_told_without_its_password(address, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cellule_app, ["--json", "--data", address, "world", "list"])
    assert result.exit_code in (1, 3)
    assert f'"{code}"' in result.stderr
    for command in (["world", "list"], ["doctor"], ["world", "create", "w", "--app", f"{SHOP}:app"]):
        result = CliRunner().invoke(cellule_app, ["--data", address, *command])
        assert result.exit_code in (1, 3)
        assert "hush" not in result.output + result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_database_gets_no_tables(postgres_server):
    async def schemas() -> int:
        connection = await asyncpg.connect(postgres_server.dsn)
        try:
            return await connection.fetchval("SELECT count(*) FROM pg_namespace")
        finally:
            await connection.close()

    before = asyncio.run(schemas())
    wrong = Cellule(f"{postgres_server.dsn}?schema=nobody_made_it")
    assert wrong("world", "list", "--json", code=1).error["code"] == "store.no_data"
    assert asyncio.run(schemas()) == before
