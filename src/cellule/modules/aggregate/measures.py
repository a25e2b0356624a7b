"""Measures: what an aggregate keeps of many items, and how two of them become one.

    count   count(coupon)   sum(amount)   avg(amount)   min(amount)   max(sold_at)   distinct(customer)

A measure keeps a *partial*: a count, a sum, a pair of both (avg), the least or greatest value, or the set of
canonical bytes (distinct). Partials are exact, so adding is associative and commutative: the merge of two
partial aggregates is the aggregate of both. An item that has no value for a measure leaves it as it is.

Rejected: sums of floats. Their result depends on the order, so a merge would not equal the whole.
Rejected: sketches for distinct. A count that is nearly right cannot be told from one that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Context, Decimal, Inexact, Overflow
from typing import Any, Final, NamedTuple

from cellule.errors import Rejected
from cellule.kernel.manifest.problems import near
from cellule.modules.aggregate.limits import (
    AVERAGE_DIGITS,
    DECIMAL_DIGITS,
    DISTINCT_BYTES_MAX,
    DISTINCT_DEFAULT,
    EXTREME_BYTES_MAX,
    MEASURES_MAX,
)
from cellule.values.cbor import decode, encode
from cellule.values.limits import INT_MAX, INT_MIN
from cellule.values.schema.scalars import decimal_text

OPERATIONS: Final = ("count", "sum", "avg", "min", "max", "distinct")
NUMERIC: Final = ("sum", "avg")
MEASURE_FORM: Final = re.compile(r"([a-z]+)(?:\(([\w$]+(?:\.[\w$]+)*)\))?")

_EXACT: Final = Context(prec=DECIMAL_DIGITS, traps=[Inexact, Overflow])
_AVERAGE: Final = Context(prec=AVERAGE_DIGITS, traps=[])


class AggregateLimit(Exception):
    """An item that does not fit into its aggregate any more; nothing of it was taken."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text
        self.time_ns: int | None = None  # of the item, where it has one


class Measure(NamedTuple):
    """One measure: its name, the operation, the path of the field (empty: the item itself counts)."""

    name: str
    operation: str
    path: tuple[str, ...]
    distinct_max: int = DISTINCT_DEFAULT

    @property
    def text(self) -> str:
        """The measure as it is written."""
        return f"{self.operation}({'.'.join(self.path)})" if self.path else self.operation

    def added(self, partial: Any, value: Any) -> Any:
        """The partial with one more value, which is there; raises `AggregateLimit`."""
        match self.operation:
            case "count":
                return (partial or 0) + 1
            case "sum":
                return value if partial is None else _sum(self, partial, value)
            case "avg":
                return (1, value) if partial is None else (partial[0] + 1, _sum(self, partial[1], value))
            case "distinct":
                return self._with(partial or frozenset(), frozenset((_distinct_bytes(self, value),)))
            case _:
                return _extreme(self, partial, value)

    def merged(self, one: Any, other: Any) -> Any:
        """The partial of all values of both; either may be None."""
        if one is None or other is None:
            return one if other is None else other
        match self.operation:
            case "count":
                return one + other
            case "sum":
                return _sum(self, one, other)
            case "avg":
                return (one[0] + other[0], _sum(self, one[1], other[1]))
            case "distinct":
                return self._with(one, other)
            case _:
                return _extreme(self, one, other)

    def result(self, partial: Any) -> Any:
        """What a reader sees: None where no item had a value, except for counts."""
        match self.operation:
            case "count":
                return partial or 0
            case "distinct":
                return len(partial or ())
            case "avg":
                return None if partial is None else _average(*partial)
            case _:
                return partial

    def _with(self, partial: frozenset[bytes], added: frozenset[bytes]) -> frozenset[bytes]:
        whole = partial if added <= partial else partial | added
        if len(whole) > self.distinct_max:
            raise AggregateLimit(
                "aggregate.distinct_full",
                f"{self.name}: {self.text} keeps at most {self.distinct_max} distinct values",
            )
        return whole


def parse_measures(given: object, where: str, distinct_max: int = DISTINCT_DEFAULT) -> tuple[Measure, ...]:
    """Read measures by name, sorted; raises `aggregate.measure` naming the one that is wrong."""
    if not isinstance(given, Mapping) or not given:
        raise measure_problem(where, "measures", "a map of names to measures is needed")
    if len(given) > MEASURES_MAX:
        raise measure_problem(where, "measures", f"there are {len(given)}; at most {MEASURES_MAX}")
    found = []
    for name in given:
        if not isinstance(name, str) or not name.isidentifier():
            raise measure_problem(where, "measures", f"{name!r} is no name: letters, digits and _")
    for name in sorted(given):
        text, path = given[name], f"measures.{name}"
        match = MEASURE_FORM.fullmatch(text.replace(" ", "")) if isinstance(text, str) else None
        if match is None:
            raise measure_problem(where, path, f"{text!r} is no measure", "Write count, or sum(amount).")
        operation, field = match.groups()
        if operation not in OPERATIONS:
            hint = near(operation, OPERATIONS) or f"There are {', '.join(OPERATIONS)}."
            raise measure_problem(where, path, f"there is no measure {operation}", hint)
        if field is None and operation != "count":
            raise measure_problem(where, path, f"{operation} needs a field", f"Write {operation}(amount).")
        found.append(Measure(name, operation, tuple(field.split(".")) if field else (), distinct_max))
    return tuple(found)


def measure_problem(where: str, field: str, problem: str, hint: str = "") -> Rejected:
    """The refusal of a declaration."""
    return Rejected(
        "aggregate.measure", "the aggregate {where}: {field}: {problem}", where=where, field=field,
        problem=problem, hint=hint,
    )  # fmt: skip


def _sum(measure: Measure, one: Any, other: Any) -> Any:
    if type(one) is int and type(other) is int:
        total = one + other
        if INT_MIN <= total <= INT_MAX:
            return total
    else:
        try:
            return _EXACT.add(Decimal(one), Decimal(other))
        except (Inexact, Overflow):
            pass
    raise AggregateLimit("aggregate.sum_size", f"{measure.name}: {measure.text} is too large to be exact")


def _average(count: int, total: Any) -> Decimal:
    return _AVERAGE.divide(Decimal(total), Decimal(count))


def _extreme(measure: Measure, partial: Any, value: Any) -> Any:
    if type(value) in (str, bytes) and len(value) > EXTREME_BYTES_MAX:
        raise AggregateLimit(
            "aggregate.value_size",
            f"{measure.name}: {measure.text} takes values of at most {EXTREME_BYTES_MAX} characters",
        )
    if partial is None:
        return value
    is_less = value < partial
    return value if is_less == (measure.operation == "min") and value != partial else partial


def _distinct_bytes(measure: Measure, value: Any) -> bytes:
    data = encode(decimal_text(value) if isinstance(value, Decimal) else value)
    if len(data) > DISTINCT_BYTES_MAX:
        raise AggregateLimit(
            "aggregate.value_size",
            f"{measure.name}: {measure.text} takes values of at most {DISTINCT_BYTES_MAX} bytes",
        )
    return data


def distinct_values(partial: frozenset[bytes]) -> list[Any]:
    """The values of a set, sorted by their bytes."""
    return [decode(data) for data in sorted(partial)]
