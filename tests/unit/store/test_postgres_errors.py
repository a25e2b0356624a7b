"""Every failure of the server or the driver becomes the error its caller can act on."""

from __future__ import annotations

import ssl
from pathlib import Path

import asyncpg
import pytest

from cellule.errors import Conflict, Corrupted, InvariantBroken, OutcomeUnknown, Rejected, Unavailable
from cellule.store.engines.postgres import errors
from cellule.store.engines.postgres.errors import is_usable_after, mapped, mapped_connect

ERRORS_PAGE = Path(__file__).parents[3] / "docs" / "errors" / "store.md"


def of_server(state, severity="ERROR"):
    return asyncpg.PostgresError.new({"C": state, "S": severity, "V": severity, "M": "what happened"})


DEFINITE = [
    ("40001", Unavailable, "store.aborted"),
    ("40P01", Unavailable, "store.aborted"),
    ("53100", Unavailable, "store.disk_full"),
    ("53200", Unavailable, "store.server_failed"),
    ("53300", Unavailable, "store.too_many_connections"),
    ("55P03", Unavailable, "store.timeout"),
    ("57014", Unavailable, "store.timeout"),
    ("57P03", Unavailable, "store.unreachable"),
    ("58030", Unavailable, "store.server_failed"),
    ("25006", Unavailable, "store.read_only"),
    ("XX000", Unavailable, "store.server_failed"),
    ("XX001", Corrupted, "store.server_damaged"),
    ("XX002", Corrupted, "store.server_damaged"),
    ("28P01", Rejected, "store.access_refused"),
    ("28000", Rejected, "store.access_refused"),
    ("42501", Rejected, "store.access_refused"),
    ("3D000", Rejected, "store.no_database"),
    ("42P01", Rejected, "store.postgres_layout"),
    ("42883", Rejected, "store.postgres_layout"),
    ("3F000", Rejected, "store.postgres_layout"),
    ("22012", InvariantBroken, "store.postgres"),
    ("42601", InvariantBroken, "store.postgres"),
]


@pytest.mark.parametrize(("state", "kind", "code"), DEFINITE)
@pytest.mark.parametrize("committing", [False, True])
def test_an_answer_of_the_server_is_definite(state, kind, code, committing):
    error = mapped(of_server(state), committing=committing)
    assert type(error) is kind
    assert error.code == code
    assert "what happened" in str(error)


@pytest.mark.parametrize("state", ["57P01", "57P02", "XX000", "08006", "58000"])
def test_a_server_that_ends_the_session_leaves_a_commit_unknown(state):
    for severity in ("FATAL", "PANIC"):
        assert type(mapped(of_server(state, severity), committing=True)) is OutcomeUnknown
        assert type(mapped(of_server(state, severity))) is Unavailable


@pytest.mark.parametrize(
    "lost",
    [
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.InternalClientError("got result for unknown protocol state"),
        ConnectionResetError(104, "reset"),
        TimeoutError(),
        BrokenPipeError(),
        RuntimeError("the handler is closed"),
    ],
)
def test_a_connection_that_fails_leaves_a_commit_unknown(lost):
    error = mapped(lost, committing=True)
    assert type(error) is OutcomeUnknown
    assert "may or may not have been applied" in str(error)
    assert not is_usable_after(lost)


def test_a_read_that_loses_its_connection_is_unavailable():
    assert mapped(ConnectionResetError(104, "reset")).code == "store.connection_lost"
    assert mapped(TimeoutError()).code == "store.timeout"
    assert type(mapped(asyncpg.ConnectionDoesNotExistError("closed"))) is Unavailable


@pytest.mark.parametrize(
    ("failure", "kind", "code"),
    [
        (ConnectionRefusedError(111, "refused"), Unavailable, "store.unreachable"),
        (OSError(-2, "Name or service not known"), Unavailable, "store.unreachable"),
        (TimeoutError(), Unavailable, "store.unreachable"),
        (of_server("57P03", "FATAL"), Unavailable, "store.unreachable"),
        (of_server("53300", "FATAL"), Unavailable, "store.too_many_connections"),
        (of_server("28P01", "FATAL"), Rejected, "store.access_refused"),
        (of_server("3D000", "FATAL"), Rejected, "store.no_database"),
        (asyncpg.ClientConfigurationError("bad"), Rejected, "store.postgres_dsn"),
        (ssl.SSLCertVerificationError("self-signed certificate"), Rejected, "store.certificate"),
    ],
)
def test_a_connection_that_cannot_be_made_is_told_by_its_cause(failure, kind, code):
    error = mapped_connect(failure)
    assert type(error) is kind
    assert error.code == code


def test_a_malformed_dsn_is_never_quoted():
    error = mapped_connect(ValueError("Port could not be cast to integer value as 'secret'"))
    assert error.code == "store.postgres_dsn"
    assert "secret" not in str(error)


def test_only_a_definite_answer_leaves_the_connection_usable():
    assert is_usable_after(of_server("40P01"))
    assert is_usable_after(Conflict("store.conflict", "a conflict"))
    assert not is_usable_after(of_server("57P01", "FATAL"))
    assert not is_usable_after(of_server("25006")), "another server may be the primary by now"
    assert not is_usable_after(KeyboardInterrupt())


def test_every_code_has_its_section():
    page = ERRORS_PAGE.read_text()
    texts = [value for name, value in vars(errors).items() if name.isupper() and name.startswith("_")]
    codes = {text[0] for text in texts if isinstance(text, tuple) and str(text[0]).startswith("store.")}
    codes |= {"store.postgres", "store.postgres_schema", "store.postgres_newer", "store.postgres_version"}
    codes |= {"store.postgres_limit", "store.conflict", "store.closed"}
    assert len(codes) > 10
    assert [code for code in sorted(codes) if f"\n## {code}\n" not in page] == []
