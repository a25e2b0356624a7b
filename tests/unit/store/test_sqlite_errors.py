"""SQLite's result codes become the errors of the contract, with both drivers."""

from __future__ import annotations

import sqlite3

import apsw
import pytest

from cellule.errors import Corrupted, InvariantBroken, OutcomeUnknown, Unavailable
from cellule.store.engines.sqlite.errors import is_busy, mapped, result_code, told

EXPECTED = [
    (apsw.SQLITE_BUSY, Unavailable, "store.busy"),
    (apsw.SQLITE_BUSY_SNAPSHOT, Unavailable, "store.busy"),
    (apsw.SQLITE_LOCKED, Unavailable, "store.busy"),
    (apsw.SQLITE_PROTOCOL, Unavailable, "store.busy"),
    (apsw.SQLITE_NOMEM, Unavailable, "store.no_memory"),
    (apsw.SQLITE_READONLY_DBMOVED, Unavailable, "store.read_only"),
    (apsw.SQLITE_IOERR_FSYNC, Unavailable, "store.io"),
    (apsw.SQLITE_FULL, Unavailable, "store.disk_full"),
    (apsw.SQLITE_CANTOPEN, Unavailable, "store.cannot_open"),
    (apsw.SQLITE_CORRUPT_INDEX, Corrupted, "store.file_damaged"),
    (apsw.SQLITE_NOTADB, Corrupted, "store.file_damaged"),
    (apsw.SQLITE_IOERR_DATA, Corrupted, "store.file_damaged"),
    (apsw.SQLITE_IOERR_CORRUPTFS, Corrupted, "store.file_damaged"),
    (apsw.SQLITE_MISUSE, InvariantBroken, "store.sqlite"),
]


def standard(code):
    error = sqlite3.OperationalError("text")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize("made", [standard, apsw.exception_for])
@pytest.mark.parametrize(("code", "kind", "name"), EXPECTED)
def test_each_result_code_has_its_error(made, code, kind, name):
    error = mapped(made(code), "/data/store.db")
    assert type(error) is kind
    assert error.code == name
    assert "/data/store.db" in str(error)


@pytest.mark.parametrize(("code", "kind", "name"), EXPECTED)
def test_failures_of_commit_itself_leave_the_outcome_unknown(code, kind, name):
    error = mapped(standard(code), "/data/store.db", committing=True)
    assert type(error) is (OutcomeUnknown if kind is Unavailable else kind)
    assert error.code == name


def test_only_locks_of_others_are_worth_another_try():
    codes = [apsw.SQLITE_BUSY_RECOVERY, apsw.SQLITE_LOCKED, apsw.SQLITE_FULL, apsw.SQLITE_IOERR]
    assert [is_busy(standard(code)) for code in codes] == [True, True, False, False]
    assert not is_busy(ValueError())


def test_errors_of_other_origin_have_no_result_code():
    assert result_code(ValueError("no")) is None
    assert result_code(sqlite3.ProgrammingError("closed")) is None


def test_text_that_is_not_utf8_can_only_come_from_a_damaged_page():
    with pytest.raises(UnicodeDecodeError) as caught:
        b"\xff".decode()
    assert isinstance(mapped(caught.value, "/data/store.db"), Corrupted)


def test_an_unforeseen_error_of_a_thread_is_told_as_ours_with_its_cause():
    cause = RuntimeError("broken")
    error = told(cause)
    assert isinstance(error, InvariantBroken)
    assert error.__cause__ is cause
    assert told(error) is error
