"""The fields of the heartbeat's records: what each may be, and how it stands in a frame. See `fields.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from cellule.kernel.journal.codes import Bound
from cellule.kernel.journal.fields import Form, code_form, is_count


def _is_path(value: Any, _: int) -> bool:
    return value is None or (isinstance(value, str) and value.startswith("/"))


def _are_lines(value: Any, _: int) -> bool:
    return isinstance(value, list) and all(
        isinstance(line, list) and len(line) == 3 and is_count(line[0]) and type(line[1]) is int
        and isinstance(line[2], bool)
        for line in value
    )  # fmt: skip


def _are_counts(value: Any, _: int) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_count, value))


def _are_tries(value: Any, names: int) -> bool:
    return (
        isinstance(value, list) and bool(value)
        and all(isinstance(each, list) and len(each) == 2 and _are_counts(each, names) for each in value)
    )  # fmt: skip


def _are_failures(value: Any, _: int) -> bool:
    return isinstance(value, list) and bool(value) and all(
        isinstance(each, list) and len(each) == 3 and is_count(each[0])
        and all(isinstance(part, str) for part in each[1:])
        for each in value
    )  # fmt: skip


def _is_entry(value: Any, _: int) -> bool:
    return value is None or (isinstance(value, dict) and all(isinstance(name, str) for name in value))


def _is_impulse_kind(value: Any, _: int) -> bool:
    return value in ("retry", "continuation", "warning")


PathOrNull = Annotated[str | None, Form("path or null", _is_path)]
AgendaLine = tuple[int, int, bool]
"""The number of an entry, its return code, and whether it ran."""
AgendaLines = Annotated[Sequence[AgendaLine], Form(
    "lines", _are_lines, lambda value, _: [tuple(line) for line in value],
    lambda value, _: [list(line) for line in value],
)]  # fmt: skip
Numbers = Annotated[list[int], Form("ints", _are_counts)]
Tries = Annotated[list[list[int]], Form("pairs of int", _are_tries)]
Failures = Annotated[list[list[Any]], Form("failures", _are_failures)]
EntryMap = Annotated[Mapping[str, Any] | None, Form("map or null", _is_entry)]
ImpulseKind = Annotated[str, Form("retry, continuation or warning", _is_impulse_kind)]
BoundHow = Annotated[int, code_form(Bound)]
