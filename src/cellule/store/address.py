"""Where a store is: texts become named parts here and nowhere else; passwords stay out of everything shown.

    data                                      a folder: one SQLite file
    postgresql://user@host:5432/database      a PostgreSQL database; `?schema=name` chooses the schema
    memory:                                   this process only, gone when the store is closed

Beside each of them, where large values, snapshots and blobs go (without it they stay with the rows):

    folder | s3://bucket/prefix?region=...&endpoint=... | gs://bucket/prefix | az://container/prefix

What has no `scheme://` is a folder, whatever it looks like. An address that is refused is never quoted: the
part that could not be understood may be the password.

Rejected: an address that is a `Path`. It swallows a slash, so `postgresql://` would become a folder's name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from cellule.errors import Rejected
from cellule.values.words import type_name

ADDRESS_CHARACTERS_MAX = 4_000
SCHEMA_DEFAULT = "cellule"
ENGINES = "a folder, postgresql://user@host/database or memory:"
BUCKETS = "a folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"

_POSTGRES = ("postgresql", "postgres")
_REMOTE = ("s3", "gs", "az")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_KNOWN = re.compile(rf"({'|'.join((*_POSTGRES, *_REMOTE))}):", re.IGNORECASE)
_COLLAPSED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:@\[\]]*)(:[0-9]{1,5})?\Z")
_SECRET = re.compile(r"key|secret|token|password|sas|credential|certificate", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FolderAddress:
    """A folder; `path` is absolute, so that a later change of directory means nothing."""

    text: str
    path: Path


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A schema of a PostgreSQL database; `text` is without the password."""

    text: str
    schema: str
    dsn: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class MemoryAddress:
    """Rows of this process, for tests and notebooks."""

    text: str = "memory:"


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """A bucket or container with a prefix; `settings` are the driver's options by its names."""

    text: str
    settings: Mapping[str, str]
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_plain_http(self) -> bool:
        """Whether the endpoint is reached without TLS."""
        names = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
        found = [self.settings.get("endpoint"), *map(os.environ.get, names)]
        return next((each for each in found if each), "").startswith("http://")


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where the rows of a store are and, if it has an object store, where that is."""

    rows: FolderAddress | PostgresAddress | MemoryAddress
    objects: FolderAddress | BucketAddress | None = None

    def __str__(self) -> str:
        return self.rows.text

    @property
    def folder(self) -> Path | None:
        """The data folder, if the rows are in one."""
        return self.rows.path if isinstance(self.rows, FolderAddress) else None


def parse_address(
    address: str | os.PathLike[str],
    objects: str | os.PathLike[str] | None = None,
    *,
    credentials: Mapping[str, str] | None = None,
) -> StoreAddress:
    """Read the address of a store; `Rejected` says what would be accepted."""
    text = _text(address, "the address of a store", "store.address", ENGINES)
    if text == "memory:":
        rows: FolderAddress | PostgresAddress | MemoryAddress = MemoryAddress()
    elif _scheme_of(text) in _POSTGRES:
        rows = _postgres(text)
    else:
        rows = _folder(text, "the address of a store", "store.address", ENGINES)
    return StoreAddress(rows, None if objects is None else parse_objects(objects, credentials))


def parse_objects(
    address: str | os.PathLike[str], credentials: Mapping[str, str] | None = None
) -> FolderAddress | BucketAddress:
    """Read the address of an object store."""
    text = _text(address, "the address of an object store", "objects.address", BUCKETS)
    if _scheme_of(text) in _REMOTE:
        return parse_bucket(text, credentials)
    return _folder(text, "the address of an object store", "objects.address", BUCKETS)


def parse_bucket(url: str, credentials: Mapping[str, str] | None = None) -> BucketAddress:
    """Read the address of a bucket, refusing credentials inside it: addresses are shown and logged."""
    parts = urlsplit(url)
    if parts.scheme not in _REMOTE or not parts.netloc or parts.fragment:
        raise _bad_bucket("it must read s3://bucket/prefix, gs://bucket/prefix or az://container/prefix")
    if "@" in parts.netloc or ":" in parts.netloc:
        raise _has_credentials("before the bucket")
    pairs = _options(parts.query)
    if pairs is None:
        raise _bad_bucket("its options must read name=value&name=value, each once")
    for name in pairs:
        if _SECRET.search(name):
            raise _has_credentials(f"in the option {name}")
    return BucketAddress(f"{parts.scheme}://{parts.netloc}{parts.path}", pairs, dict(credentials or {}))


def _postgres(text: str) -> PostgresAddress:
    parts = urlsplit(text)
    person, _, hosts = parts.netloc.rpartition("@")
    if parts.fragment or not all(_HOST.match(host) for host in hosts.split(",")):
        raise _bad_postgres("its host or port cannot be read")
    if "@" in parts.path or parts.path.count("/") > 1:
        raise _bad_postgres("the name of its database cannot be read")
    pairs = _options(parts.query)
    if pairs is None:
        raise _bad_postgres("its options must read name=value&name=value, each once")
    schema = pairs.pop("schema", SCHEMA_DEFAULT)
    query = f"?{urlencode(pairs)}" if pairs else ""
    user = person.partition(":")[0]
    shown = f"postgresql://{user}{'@' if user else ''}{hosts}{parts.path}"
    shown += "" if schema == SCHEMA_DEFAULT else f"?schema={schema}"
    return PostgresAddress(shown, schema, f"postgresql://{parts.netloc}{parts.path}{query}")


def _options(query: str) -> dict[str, str] | None:
    """The options of an address; None where they cannot be read."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        return None
    return dict(pairs) if len(dict(pairs)) == len(pairs) else None


def _scheme_of(text: str) -> str:
    """The scheme of an address; empty for a folder."""
    found = _SCHEME.match(text)
    return "" if found is None else found[1].lower()


def _text(address: object, what: str, code: str, accepted: str) -> str:
    """The address as text that can be one."""
    text = os.fspath(address) if isinstance(address, os.PathLike) else address
    if not isinstance(text, str):
        raise _refused(code, what, f"is a {type_name(address)}, not text", accepted)
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise _refused(code, what, "is no Unicode: it holds half of a surrogate pair", accepted) from None
    if not text or "\0" in text or len(text) > ADDRESS_CHARACTERS_MAX:
        raise _refused(code, what, "is empty, too long, or holds a zero byte", accepted)
    if not isinstance(address, str) and _COLLAPSED.match(text):
        raise _refused(code, what, "is a path that begins like a URL", f"text: {accepted}")
    return text


def _folder(text: str, what: str, code: str, accepted: str) -> FolderAddress:
    scheme = _scheme_of(text)
    known = _KNOWN.match(text)
    if scheme:
        raise _refused(code, what, f"begins with {scheme}://, which is not known here", accepted)
    if known is not None:
        raise _refused(code, what, f"lacks the two slashes of {known[1].lower()}://", accepted)
    return FolderAddress(text, Path(text).absolute())


def _refused(code: str, what: str, problem: str, accepted: str) -> Rejected:
    return Rejected(code, "{what} {problem}", what=what, problem=problem, hint=f"Give {accepted}.")


def _bad_postgres(reason: str) -> Rejected:
    return Rejected(
        "store.address", "the address of the PostgreSQL database is not understood: {reason}", reason=reason,
        hint="Write postgresql://user:password@host:port/database, and / ? # @ : % inside a password as %2F"
        " %3F %23 %40 %3A %25.",
    )  # fmt: skip


def _bad_bucket(reason: str) -> Rejected:
    return Rejected(
        "objects.address", "the object store's address is not understood: {reason}", reason=reason,
        hint=f"Give {BUCKETS}.",
    )  # fmt: skip


def _has_credentials(where: str) -> Rejected:
    return Rejected(
        "objects.credentials_in_address", "the object store's address holds credentials {where}", where=where,
        hint="Give credentials in the environment or as `credentials`; addresses are shown and logged.",
    )  # fmt: skip
