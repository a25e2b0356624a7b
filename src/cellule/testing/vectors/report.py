"""What each case expects, beside what came out of an implementation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from cellule.errors import CelluleError
from cellule.testing.vectors.cases import (
    AgendaCase,
    Case,
    RetentionCase,
    TtlCase,
)
from cellule.testing.vectors.document import Entry

Perform = Callable[[Any], list[Any]]
"""Runs a case; returns a value for each of its expectations, in their order."""

_NAMES: Final = {"signal", "target", "cont"}
FAILURES_SHOWN: Final = 5


class CaseResult(NamedTuple):
    """A case that ran, and where it was not as expected."""

    section: str
    id: str
    failures: list[str]


def run(entries: Iterable[Entry], implementation: Mapping[str, Perform]) -> Iterator[CaseResult]:
    """Run all cases, in their order; one that is none has failed."""
    for section, id, case, problem in ((each.section, each.id, each.case, each.problem) for each in entries):
        failures = [f"expected a case, actual {problem}"]
        yield CaseResult(section, id, failures if case is None else _failures(case, implementation[section]))


def _failures(case: Case, perform: Perform) -> list[str]:
    expected = expectations(case)
    wanted = f"expected {len(expected)} results"
    try:
        actual = perform(case)
    except CelluleError as error:
        return [f"{wanted}, actual: it ended with {error.code}: {error}"]
    except Exception as error:  # noqa: BLE001  a case that breaks is one failure; the others still run
        return [f"{wanted}, actual: it ended with {type(error).__name__}: {error}"]
    if len(actual) != len(expected):
        return [f"{wanted}, actual {len(actual)}"]
    found = []
    for (place, value), result in zip(expected, actual, strict=True):
        if value is not msgspec.UNSET and not is_as_expected(value, result):
            found.append(f"{place}: expected {_shown(value)}, actual {_shown(result)}")
    if len(found) > FAILURES_SHOWN:
        rest = len(found) - FAILURES_SHOWN
        found[FAILURES_SHOWN:] = [f"and {rest} more places"]
    return found


def expectations(case: Case) -> list[tuple[str, Any]]:
    """The places of a case that expect something, and what."""
    if isinstance(case, AgendaCase):
        return [(f"step {number}", value) for number, value in enumerate(case.expect)]
    if isinstance(case, TtlCase):
        return [("ttl", case.expect)]
    if isinstance(case, RetentionCase):
        plans = [(f"plan {number}", each.expect) for number, each in enumerate(case.plans)]
        return [*plans, ("buckets", case.buckets)]
    script: list[Any] = getattr(case, "script")  # noqa: B009  the three kinds with a script share no type
    return [(f"line {number} ({action.do})", action.expect) for number, action in enumerate(script)]


def is_as_expected(expected: Any, actual: Any, key: str = "") -> bool:
    """Compare: an object may have more fields than expected, a path may miss its first slash."""
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(
            name in actual and is_as_expected(value, actual[name], name) for name, value in expected.items()
        )
    if isinstance(expected, list | tuple):
        return (
            isinstance(actual, list | tuple)
            and len(actual) == len(expected)
            and all(is_as_expected(a, b) for a, b in zip(expected, actual, strict=True))
        )
    if key in _NAMES and isinstance(expected, str) and isinstance(actual, str):
        return expected.lstrip("/") == actual.lstrip("/")
    return type(expected) is type(actual) and bool(expected == actual)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
