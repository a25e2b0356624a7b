"""Errors of the server and the driver, mapped once to the error tree, by SQLSTATE and never by text.

The one question is what an error says about a commit that was sent. An `ERROR` of the server is a definite
answer: the transaction was rolled back. Everything else (a lost connection, a timeout of ours, a `FATAL` of a
server going down) leaves the outcome unknown. Before anything was sent, every failure is `Unavailable`.
"""

from __future__ import annotations

import ssl

import asyncpg

from cellule.errors import CelluleError, Corrupted, InvariantBroken, OutcomeUnknown, Rejected, Unavailable

DRIVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    RuntimeError,
)
"""What the driver raises. `TimeoutError` is an `OSError`; a dead socket may show as `RuntimeError`, and a
farewell of the server on an idle connection shows as `InternalClientError` at the next call."""

_UNREACHABLE = (
    "store.unreachable",
    "PostgreSQL takes no connection: {text}",
    "Retry; check address and server.",
)
_GOING_DOWN = "store.unreachable", "PostgreSQL is starting or stopping: {text}", "Retry in a moment."
_TOO_MANY = (
    "store.too_many_connections", "PostgreSQL has no connection left: {text}",
    "Raise max_connections, or lower pool_max of the nodes.",
)  # fmt: skip
_LOST = "store.connection_lost", "the connection to PostgreSQL was lost: {text}", "Retry."
_TIMEOUT = (
    "store.timeout", "PostgreSQL did not finish in time: {text}",
    "Retry; if it lasts, look for long transactions and for a server short of disk or processor.",
)  # fmt: skip
_ABORTED = "store.aborted", "PostgreSQL gave up one of two transactions: {text}", "Retry."
_FULL = (
    "store.disk_full", "the disk of the PostgreSQL server is full: {text}",
    "Free some space; commits work again as soon as there is room.",
)  # fmt: skip
_READ_ONLY = (
    "store.read_only", "PostgreSQL is read-only: {text}",
    "It is a standby, or was made read-only: connect to the primary (target_session_attrs=read-write).",
)  # fmt: skip
_FAILED = "store.server_failed", "PostgreSQL failed: {text}", "Look into the log of the server, then retry."

_ACCESS = (
    "store.access_refused", "PostgreSQL refuses access: {text}",
    "Check user, password, pg_hba.conf and the role's rights; docs/formats/postgres.md lists the grants.",
)  # fmt: skip
_NO_DATABASE = (
    "store.no_database",
    "PostgreSQL has no such database: {text}",
    "Create it, or correct the dsn.",
)
_LAYOUT = (
    "store.postgres_layout", "the PostgreSQL schema is not as Cellule made it: {text}",
    "Something dropped or replaced its tables or function: restore them, or open another schema.",
)  # fmt: skip
_DSN = (
    "store.postgres_dsn",
    "the dsn cannot be used: {text}",
    "Write postgresql://user:password@host:port/database.",
)
_CERTIFICATE = (
    "store.certificate", "the TLS certificate of PostgreSQL is not trusted: {text}",
    "Give the right sslrootcert and host name, or another sslmode.",
)  # fmt: skip
_DAMAGED = (
    "store.server_damaged", "PostgreSQL found damaged data: {text}",
    "Stop writing, run pg_amcheck, and restore from a backup.",
)  # fmt: skip

_Texts = tuple[str, str, str]

# The longest prefix of a SQLSTATE wins.
_UNAVAILABLE: dict[str, _Texts] = {
    "08": _LOST,
    "25006": _READ_ONLY,
    "25P03": _LOST,
    "40": _ABORTED,
    "53": _FAILED,
    "53100": _FULL,
    "53300": _TOO_MANY,
    "55P03": _TIMEOUT,
    "57": _FAILED,
    "57014": _TIMEOUT,
    "57P01": _GOING_DOWN,
    "57P02": _GOING_DOWN,
    "57P03": _GOING_DOWN,
    "57P05": _LOST,
    "58": _FAILED,
    "XX": _FAILED,
}
_REJECTED: dict[str, _Texts] = {
    "28": _ACCESS,
    "3D": _NO_DATABASE,
    "3F": _LAYOUT,
    "42501": _ACCESS,
    "42703": _LAYOUT,
    "42883": _LAYOUT,
    "42P01": _LAYOUT,
}
_CORRUPTED: dict[str, _Texts] = {"XX001": _DAMAGED, "XX002": _DAMAGED}


def mapped(error: BaseException, *, committing: bool = False) -> CelluleError:
    """Return the error to raise for an error of the driver; `committing` if a commit may have been sent."""
    if isinstance(error, asyncpg.PostgresError):
        return _of_server(error, committing)
    texts = _TIMEOUT if isinstance(error, TimeoutError) else _LOST
    return _unknown(error, texts) if committing else _built(Unavailable, texts, error)


def mapped_connect(error: BaseException) -> CelluleError:
    """Return the error to raise when a connection could not be made."""
    if isinstance(error, asyncpg.PostgresError):
        return _of_server(error, committing=False)
    if isinstance(error, ssl.SSLCertVerificationError):
        return _built(Rejected, _CERTIFICATE, error)
    if isinstance(error, asyncpg.ClientConfigurationError):
        return _built(Rejected, _DSN, error)
    if isinstance(error, ValueError):
        # Its text may quote a part of the dsn, and that part may be the password.
        return _built(Rejected, _DSN, ValueError())
    return _built(Unavailable, _UNREACHABLE, error)


def is_usable_after(error: BaseException) -> bool:
    """Tell whether the connection that met `error` can serve the next call."""
    if isinstance(error, asyncpg.PostgresError):
        return _is_definite(error) and error.sqlstate != "25006"
    return isinstance(error, CelluleError)


def _of_server(error: asyncpg.PostgresError, committing: bool) -> CelluleError:
    state = error.sqlstate or ""
    if texts := _longest(_CORRUPTED, state):
        return _built(Corrupted, texts, error)
    unavailable = _longest(_UNAVAILABLE, state)
    if committing and not _is_definite(error):
        return _unknown(error, unavailable or _FAILED)
    if unavailable:
        return _built(Unavailable, unavailable, error)
    if texts := _longest(_REJECTED, state):
        return _built(Rejected, texts, error)
    return InvariantBroken(
        "store.postgres",
        "PostgreSQL refused a statement of ours: {text} ({state})",
        text=_text(error),
        state=state,
    )


def _is_definite(error: asyncpg.PostgresError) -> bool:
    """An `ERROR` says that the statement was rolled back; errors made by the driver have no severity."""
    return (error.severity_en or error.severity) == "ERROR"


def _longest(texts: dict[str, _Texts], state: str) -> _Texts | None:
    return texts.get(state) or texts.get(state[:2])


def _unknown(error: BaseException, texts: _Texts) -> OutcomeUnknown:
    code, message, _ = texts
    return OutcomeUnknown(
        code, message + "; the batch may or may not have been applied", text=_text(error),
        hint="Read the keys it expects before submitting it again.",
    )  # fmt: skip


def _built(kind: type[CelluleError], texts: _Texts, error: BaseException) -> CelluleError:
    code, message, hint = texts
    return kind(code, message, hint=hint, text=_text(error), state=getattr(error, "sqlstate", None))


def _text(error: BaseException) -> str:
    """One line; an error without words is told by its class."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
