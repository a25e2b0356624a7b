"""How a value that does not fit is described: where, what was expected, what was found.

Checking code raises `Fault` at the spot and adds one path segment per level on the way out, so the
path costs nothing while values are good. Only the outermost function turns a fault into `Rejected`.

Rejected: passing the path down. It would be built for every good value and read for almost none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Self

from cellule.errors import Rejected
from cellule.values.path import path_text
from cellule.values.schema import types as t
from cellule.values.schema.types import Schema
from cellule.values.words import printed

SHOWN_CHARACTERS_MAX = 60
SHOWN_VALUES_MAX = 8
INT_SHOWN_BITS_MAX = 200

Segment = str | int


class Fault(Exception):
    """One value that does not fit, with the path to it collected from the inside out."""

    def __init__(self, code: str, problem: str, *, hint: str = "") -> None:
        super().__init__(problem)
        self.code = code
        self.problem = problem
        self.hint = hint
        self.segments: list[Segment] = []

    def at(self, segment: Segment) -> Self:
        """Add the segment of the enclosing level: a field, a key or an index."""
        self.segments.append(segment)
        return self

    def rejected(self, what: str = "") -> Rejected:
        """Make the error for the caller; `what` names the schema or class."""
        return Rejected(
            self.code,
            "{what}{path}: {problem}.",
            what=f"{what} " if what else "",
            path=path_text(reversed(self.segments)),
            problem=self.problem,
            hint=self.hint,
        )


def mismatch(expected: str, got: object, *, hint: str = "") -> Fault:
    """Make the fault of a value of the wrong type or out of bounds."""
    return Fault("schema.mismatch", f"expected {expected}, got {shown(got)}", hint=hint)


def wrong_length(allowed: str, length: int) -> Fault:
    """Make the fault of a text or container that is too short or too long."""
    return Fault("schema.mismatch", f"expected {allowed}, got a length of {length}")


def duplicate(what: str) -> Fault:
    """Make the fault of a set item or map key that occurs twice."""
    return Fault("schema.duplicate", f"{'an item' if what == 'set' else 'a key'} of the {what} occurs twice")


def unknown_field(name: object, fields: Collection[str]) -> Fault:
    """Make the fault of a field that the record does not have."""
    known = ", ".join(sorted(fields)) or "none"
    return Fault("schema.field_unknown", f"unknown field {name!r}", hint=f"The fields are: {known}.")


def missing_field(name: str) -> Fault:
    """Make the fault of a required field that is absent or null."""
    return Fault("schema.field_missing", f"the required field {name!r} is missing")


def key_segment(key: object) -> str:
    """Return the path segment of a map's key, which need not be text."""
    return key if isinstance(key, str) else shown(key)


def locate(fault: Fault, convert: Callable[..., object], items: Iterable[object]) -> Fault:
    """Find by a second pass which of `items` raised `fault`, and add its index.

    Comprehensions are faster than loops that count, and a fault is rare.
    """
    for index, item in enumerate(items):
        try:
            convert(item)
        except Fault as found:
            return found.at(index)
    return fault


def shown(value: object) -> str:
    """Name a value briefly: its kind, and its content where that is short."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f"the text {_cut(repr(str.__str__(value)))}"
        case int():
            bits = int.bit_length(value)
            return (
                f"the integer {int.__index__(value)}"
                if bits <= INT_SHOWN_BITS_MAX
                else f"an integer of {bits} bits"
            )
        case float():
            return f"the float {float.__repr__(value)}"
        case bytes():
            return f"{bytes.__len__(value)} bytes"
        case list() | tuple():
            return f"a list of {_length(value)}"
        case dict():
            return f"a map of {dict.__len__(value)}"
        case _:
            return _cut(printed(value))


def _length(value: list[object] | tuple[object, ...]) -> int:
    return list.__len__(value) if isinstance(value, list) else tuple.__len__(value)


def expected(schema: Schema) -> str:  # noqa: C901 - one line per member of a closed union
    """Name in words what `schema` accepts."""
    match schema:
        case t.Unit():
            return "null"
        case t.Bool():
            return "a boolean"
        case t.Int(min=low, max=high):
            return f"an integer{_bounds(low, high)}" if _bounds(low, high) else _ANY_INT
        case t.Float(min=low, max=high):
            return f"a finite float{_bounds(low, high)}"
        case t.Text(min_length=low, max_length=high):
            return f"text{_lengths(low, high, 'characters')}"
        case t.Bytes(min_length=low, max_length=high):
            return f"bytes{_lengths(low, high, 'bytes')}"
        case t.Time():
            return "a time in integer nanoseconds since 1970"
        case t.Duration():
            return "a duration in integer nanoseconds"
        case t.Dec():
            return "a plain decimal as text, like '12.5'"
        case t.Uuid():
            return "a UUID as 16 bytes"
        case t.Hash():
            return "a link"
        case t.Any():
            return "a value that is not null"
        case t.Enum(values=values):
            names = ", ".join(repr(value) for value in values[:SHOWN_VALUES_MAX])
            return f"one of {names}{', ...' if len(values) > SHOWN_VALUES_MAX else ''}"
        case t.List(min_length=low, max_length=high):
            return f"a list{_lengths(low, high, 'items')}"
        case t.Set(min_length=low, max_length=high):
            return f"a set as a list{_lengths(low, high, 'items')}"
        case t.Tuple(items=items):
            return f"a list of exactly {len(items)}"
        case t.Map(min_length=low, max_length=high):
            return f"a map{_lengths(low, high, 'entries')}"
        case t.Option(item=item):
            return f"{expected(item)} or null"
        case t.Record():
            return "a record"
        case t.Variant(cases=cases):
            return f"a variant {{'$tag', '$value'}} of {', '.join(tag for tag, _ in cases)}"
        case t.Ref(name=name):
            return name


_ANY_INT = "an integer from -2^64 to 2^64-1"


def _bounds(low: float | None, high: float | None) -> str:
    if low is None:
        return "" if high is None else f" of at most {high}"
    return f" of at least {low}" if high is None else f" from {low} to {high}"


def _lengths(low: int | None, high: int | None, unit: str) -> str:
    bounds = _bounds(low, high)
    return f"{bounds} {unit}" if bounds else ""


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}..."
