"""Addresses: what is accepted, what is refused and how, and that no password is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellule.errors import Rejected
from cellule.store.address import (
    BucketAddress,
    FolderAddress,
    MemoryAddress,
    PostgresAddress,
    parse_address,
    parse_objects,
)

SECRET = "hush-hush-9"


@pytest.mark.parametrize(
    "text",
    ["data", "/var/lib/x", "C:\\data", "C:/data", "odd:name", "a b", "-", "~", "memory", "x:/y", "."],
)
def test_what_has_no_scheme_is_a_folder(text):
    address = parse_address(text)
    assert isinstance(address.rows, FolderAddress)
    assert address.folder == Path(text).absolute()
    assert str(address) == text


def test_a_folder_may_be_a_path_and_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    address = parse_address(Path("data"), Path("objects"))
    monkeypatch.chdir("/")
    assert address.folder == tmp_path / "data"
    assert address.objects == FolderAddress("objects", tmp_path / "objects")


@pytest.mark.parametrize(
    ("text", "shown", "dsn", "schema"),
    [
        ("postgresql://host/db", "postgresql://host/db", "postgresql://host/db", "cellule"),
        ("postgres://host/db", "postgresql://host/db", "postgresql://host/db", "cellule"),
        (
            f"postgresql://me:{SECRET}@host:5433/db?sslmode=require",
            "postgresql://me@host:5433/db",
            f"postgresql://me:{SECRET}@host:5433/db?sslmode=require",
            "cellule",
        ),
        (
            f"postgresql://me@a:1,b:2/db?schema=two&password={SECRET}",
            "postgresql://me@a:1,b:2/db?schema=two",
            f"postgresql://me@a:1,b:2/db?password={SECRET}",
            "two",
        ),
        ("postgresql://[::1]:5/db", "postgresql://[::1]:5/db", "postgresql://[::1]:5/db", "cellule"),
        ("postgresql:///db", "postgresql:///db", "postgresql:///db", "cellule"),
        ("postgresql://me:a%2Fb@h/d", "postgresql://me@h/d", "postgresql://me:a%2Fb@h/d", "cellule"),
    ],
)
def test_postgres_is_shown_without_its_password(text, shown, dsn, schema):
    address = parse_address(text)
    assert address.rows == PostgresAddress(shown, schema, dsn)
    assert address.folder is None
    assert SECRET not in f"{address!r} {address}"


def test_memory_and_buckets():
    address = parse_address(
        "memory:", "s3://bucket/a/b?region=r&endpoint=http://h:9", credentials={"access_key_id": SECRET}
    )
    assert address.rows == MemoryAddress()
    assert isinstance(address.objects, BucketAddress)
    assert (address.objects.text, address.objects.is_plain_http) == ("s3://bucket/a/b", True)
    assert SECRET not in repr(address)
    for text in ("gs://bucket", "az://container/prefix?account_name=me"):
        assert isinstance(parse_objects(text), BucketAddress)


@pytest.mark.parametrize(
    "address",
    [
        "mysql://me:hush-hush-9@h/db", "sqlite:///x", "file:///x", "fdb://x", "s3://b", "gs://b", "http://h",
        "POSTGRESQL+asyncpg://h/d", "postgresql:/me:hush-hush-9@h/db", "postgres:me:hush-hush-9@h",
        "S3:x", "", "a\0b", "x" * 5_000,
        "postgresql://me:hush-hush-9@h:port/db", "postgresql://me:hush-hush/9@h/db",
        "postgresql://me:hush-hush#9@h/db", "postgresql://me:hush-hush?9@h/db",
        "postgresql://h/db?novalue", "postgresql://h/db?a=1&a=2",
        None, 5, b"data", object(), Path("postgresql://me:hush-hush-9@h/db"), Path("s3://b/x"),
    ],
)  # fmt: skip
def test_what_cannot_be_an_address_is_refused_without_being_shown(address):
    with pytest.raises(Rejected) as caught:
        parse_address(address)
    error = caught.value
    assert error.code == "store.address"
    assert "postgresql://user" in error.hint
    assert "hush" not in f"{error} {error!r} {error.fields}"


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("ftp://h/x", "objects.address"), ("postgresql://h/d", "objects.address"),
        ("s3:b", "objects.address"),
        ("s3://", "objects.address"), ("s3://b/p#f", "objects.address"), ("s3://b?x", "objects.address"),
        ("s3://key:hush@b/p", "objects.credentials_in_address"),
        ("s3://b/p?secret_access_key=hush", "objects.credentials_in_address"),
        ("az://c/p?sas=hush", "objects.credentials_in_address"), (7, "objects.address"),
        ("", "objects.address"),
    ],
)  # fmt: skip
def test_object_stores_are_refused_by_their_cause(address, code):
    with pytest.raises(Rejected) as caught:
        parse_address("data", address)
    assert caught.value.code == code
    assert "hush" not in f"{caught.value} {caught.value!r}"
