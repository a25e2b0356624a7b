"""Aggregates of a batch of Python values: a pure function, usable in steps, scripts and projections.

    sales = aggregate(items, {"revenue": "sum(amount)"}, by="shop", window=HOUR, at="sold_at")
    sales["berlin", nine_o_clock]["revenue"]
    sales.merged(aggregate(later, ...)) == aggregate([*items, *later], ...)

Items are records or maps. A batch is taken whole or refused with the item and field that do not fit; memory
is one partial for each namespace and window, however many items there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, NamedTuple
from uuid import UUID

from cellule.errors import CelluleError, Rejected
from cellule.modules.aggregate.limits import DISTINCT_DEFAULT, DISTINCT_MAX, WINDOW_NS_MAX
from cellule.modules.aggregate.measures import (
    NUMERIC,
    AggregateLimit,
    Measure,
    distinct_values,
    measure_problem,
    parse_measures,
)
from cellule.values.schema.scalars import EPOCH, MICROSECOND, time_ns

GROUPS_MAX: Final = 1_000_000
"""Namespaces and windows of one batch, together."""

_WHERE: Final = "of a batch"
_VALUES: Final = (int, str, bytes, Decimal, datetime, UUID, float)


class Group(NamedTuple):
    """What is kept of one namespace and window; `partials` are in the order of the measures."""

    items: int
    partials: tuple[Any, ...]


class Aggregates(Mapping[Any, dict[str, Any]]):
    """The aggregates of a batch by namespace, or by namespace and start of the window.

    Two of the same measures can be merged, and are equal if they would give the same after every merge.
    """

    def __init__(self, measures: tuple[Measure, ...], shape: object, groups: Mapping[Any, Group]) -> None:
        self._measures = measures
        self._shape = shape
        self._groups = dict(groups)

    def __getitem__(self, group: Any) -> dict[str, Any]:
        found = self._groups[group]
        pairs = zip(self._measures, found.partials, strict=True)
        return {measure.name: measure.result(partial) for measure, partial in pairs}

    def __iter__(self) -> Iterator[Any]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Aggregates):
            return NotImplemented
        return self._key() == other._key()

    __hash__ = None  # type: ignore[assignment]  # as other mappings that compare by content

    def __repr__(self) -> str:
        return f"Aggregates({dict(self)!r})"

    @property
    def total(self) -> int:
        """How many items there were."""
        return sum(group.items for group in self._groups.values())

    def distinct(self, group: Any, name: str) -> list[Any]:
        """The distinct values of a measure, as they are encoded, in the order of their bytes."""
        names = [measure.name for measure in self._measures if measure.operation == "distinct"]
        if name not in names:
            raise measure_problem(_WHERE, name, "there is no such distinct measure")
        at = [measure.name for measure in self._measures].index(name)
        return distinct_values(self._groups[group].partials[at] or frozenset())

    def merged(self, other: Aggregates) -> Aggregates:
        """The aggregates of the items of both."""
        if (self._measures, self._shape) != (other._measures, other._shape):
            raise Rejected(
                "aggregate.merge", "aggregates with other measures or windows cannot be merged",
                hint="Make both with the same measures, by, window and at.",
            )  # fmt: skip
        groups = dict(self._groups)
        for key, more in other._groups.items():
            known = groups.get(key)
            groups[key] = more if known is None else _merged(self._measures, known, more)
        _check_groups(groups)
        return Aggregates(self._measures, self._shape, groups)

    def _key(self) -> object:
        return self._measures, self._shape, self._groups


def aggregate(
    items: Iterable[Any], measures: Mapping[str, str], *, by: str | None = None,
    window: timedelta | None = None, at: str | None = None, distinct_max: int = DISTINCT_DEFAULT,
) -> Aggregates:  # fmt: skip
    """Aggregate items: `by` a field, in windows of this length by the time in the field `at`.

    Without `by` all items are of one namespace, "". Raises `Rejected` naming the item that does not fit.
    """
    if not 0 < distinct_max <= DISTINCT_MAX:
        raise measure_problem(_WHERE, "distinct_max", f"it is 1 to {DISTINCT_MAX}")
    parsed = parse_measures(measures, _WHERE, distinct_max)
    size = _window(window, at)
    groups: dict[Any, list[Any]] = {}
    for position, item in enumerate(items):
        key = _group_key(item, position, by, at, window, size)
        group = groups.get(key)
        if group is None:
            _check_groups(groups)
            group = groups[key] = [0, *(None for _ in parsed)]
        group[0] += 1
        for place, measure in enumerate(parsed, 1):
            value = _value(item, position, measure) if measure.path else True
            if value is not None:
                group[place] = _added(measure, group[place], value, position)
    made = {key: Group(count, tuple(partials)) for key, (count, *partials) in groups.items()}
    return Aggregates(parsed, (by, size, at), made)


def _added(measure: Measure, partial: Any, value: Any, position: int) -> Any:
    if measure.operation == "distinct":
        value = _encodable(value)
    try:
        return measure.added(partial, value)
    except AggregateLimit as limit:
        raise Rejected("aggregate.full", "item {item}: {why}", item=position, why=limit.text) from limit
    except (TypeError, CelluleError) as error:
        raise _unfit(
            position, measure.text, f"{value!r} does not fit the values before it: {error}"
        ) from error


def _merged(measures: tuple[Measure, ...], one: Group, other: Group) -> Group:
    try:
        partials = tuple(
            measure.merged(mine, theirs)
            for measure, mine, theirs in zip(measures, one.partials, other.partials, strict=True)
        )
    except AggregateLimit as limit:
        raise Rejected("aggregate.full", "the merge: {why}", why=limit.text) from limit
    return Group(one.items + other.items, partials)


def _check_groups(groups: Mapping[Any, Any]) -> None:
    if len(groups) >= GROUPS_MAX:
        raise Rejected(
            "aggregate.full", "{count} namespaces and windows; at most {most}", count=len(groups),
            most=GROUPS_MAX, hint="Aggregate fewer at a time, or choose longer windows.",
        )  # fmt: skip


def _window(window: timedelta | None, at: str | None) -> int | None:
    if (window is None) != (at is None):
        raise measure_problem(_WHERE, "window", "`window` and `at` stand together")
    if window is None:
        return None
    size = window // MICROSECOND * 1_000
    if not 0 < size <= WINDOW_NS_MAX:
        raise measure_problem(_WHERE, "window", f"{window} is no length of a window")
    return size


def _group_key(
    item: Any, position: int, by: str | None, at: str | None, window: timedelta | None, size: int | None
) -> Any:
    namespace = "" if by is None else _field(item, position, tuple(by.split(".")), by)
    if isinstance(namespace, Enum):
        namespace = namespace.value
    if not isinstance(namespace, str | int | bytes):
        raise _unfit(position, str(by), f"{namespace!r} is no namespace: text, bytes or an integer")
    if size is None or at is None or window is None:
        return namespace
    moment = _field(item, position, tuple(at.split(".")), at)
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return namespace, EPOCH + (moment - EPOCH) // window * window
    if type(moment) is int:
        return namespace, moment // size * size
    raise _unfit(position, at, f"{moment!r} is no time: an aware datetime, or integer nanoseconds")


def _value(item: Any, position: int, measure: Measure) -> Any:
    value = _field(item, position, measure.path, measure.text)
    if isinstance(value, Enum):
        value = value.value
    if value is None:
        return None
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if measure.operation in NUMERIC and not is_number:
        raise _unfit(position, measure.text, f"{value!r} is no int and no Decimal, so it has no exact sum")
    if isinstance(value, Decimal | float) and not _is_finite(value):
        raise _unfit(position, measure.text, f"{value!r} is not finite")
    if measure.operation != "count" and not isinstance(value, _VALUES):
        raise _unfit(position, measure.text, f"{type(value).__name__} is no single value")
    return value


def _is_finite(value: Decimal | float) -> bool:
    return value.is_finite() if isinstance(value, Decimal) else value - value == 0.0


def _encodable(value: Any) -> Any:
    if isinstance(value, datetime):
        return time_ns(value)
    return value.bytes if isinstance(value, UUID) else value


def _field(item: Any, position: int, path: tuple[str, ...], what: str) -> Any:
    found = item
    for step in path:
        if found is None:
            return None
        if isinstance(found, Mapping):
            found = found.get(step)  # a field that is absent is None, as in canonical values
            continue
        try:
            found = getattr(found, step)
        except AttributeError as error:
            raise _unfit(position, what, f"there is no field {step}") from error
    return found


def _unfit(position: int, field: str, problem: str) -> Rejected:
    return Rejected(
        "aggregate.item", "item {item}: {field}: {problem}", item=position, field=field, problem=problem
    )
