"""The code of an aggregate module: data in the manifest, read and checked against the module's events.

    code:
      kind: aggregate
      measures: {orders: count, revenue: sum(amount), customers: distinct(customer)}
      window: {size_ns: 3600000000000, time: sold_at, grace_ns: 60000000000}
      items: rows             the path of a list in the event, where one event brings many items
      batch: 1000             items after which `sys/BatchProcessed@1` is emitted
      distinct_max: 1000      distinct values of a measure
      windows_max: 16         open windows of a namespace
      on_limit: refuse        or fail: what an item does that exceeds a limit
      closes: [shop/DayEnded@1]     events that complete all open windows of their namespace
      fails: [shop/DayBroken@1]     events that end them as failed

`grace_ns` keeps a window open for items that come late. An item more than `ahead_ns` (a day) ahead of world
time is refused, so that one wrong clock closes no windows. Without `window.time` windows are of world time
and end by a timer; without `window` there is one aggregation from the first item to the event that closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from cellule.kernel.manifest.model import TIMER_SET, Manifest, Module
from cellule.kernel.manifest.problems import near
from cellule.kernel.manifest.system import AGGREGATE, TIMER_FIRED
from cellule.modules.aggregate.limits import (
    AHEAD_NS_DEFAULT,
    BATCH_DEFAULT,
    BATCH_MAX,
    DISTINCT_DEFAULT,
    DISTINCT_MAX,
    WINDOW_NS_MAX,
    WINDOWS_DEFAULT,
    WINDOWS_MAX,
)
from cellule.modules.aggregate.measures import Measure, measure_problem, parse_measures
from cellule.values.schema import types as t
from cellule.values.schema.types import Schema

FIELDS: Final = (
    "kind", "measures", "window", "items", "batch", "distinct_max", "windows_max", "on_limit", "closes",
    "fails",
)  # fmt: skip
_WINDOW_FIELDS: Final = ("size_ns", "time", "grace_ns", "ahead_ns")
_SINGLE: Final = (
    t.Bool, t.Int, t.Float, t.Text, t.Bytes, t.Time, t.Duration, t.Dec, t.Uuid, t.Enum,
)  # fmt: skip
_ORDERED: Final = (t.Int, t.Float, t.Text, t.Bytes, t.Time, t.Duration, t.Dec)
_EXACT: Final = (t.Int, t.Dec, t.Duration)

Reader = Callable[[Any], Any]


class Spec(NamedTuple):
    """A read declaration; `decimals` are the measures whose values are decimals."""

    measures: tuple[Measure, ...]
    decimals: frozenset[str]
    size_ns: int | None
    time: tuple[str, ...]  # the path of the event time; empty = world time
    grace_ns: int
    ahead_ns: int
    items: tuple[str, ...]
    batch: int
    windows_max: int
    fails_at_limit: bool
    closes: frozenset[str]
    fails: frozenset[str]

    @property
    def sets_timers(self) -> bool:
        """Whether windows end by the clock of the world."""
        return self.size_ns is not None and not self.time


def read_spec(code: Mapping[str, Any], where: str) -> Spec:
    """Read a declaration by itself; raises `aggregate.measure` naming the field."""
    for name in code:
        if name not in FIELDS:
            hint = near(str(name), FIELDS) or f"There are {', '.join(FIELDS)}."
            raise measure_problem(where, str(name), "there is no such field", hint)
    distinct_max = _whole(code, "distinct_max", where, DISTINCT_DEFAULT, 1, DISTINCT_MAX)
    on_limit = code.get("on_limit", "refuse")
    if on_limit not in ("refuse", "fail"):
        raise measure_problem(where, "on_limit", f"{on_limit!r} is neither refuse nor fail")
    size, time, grace, ahead = _window(code.get("window"), where)
    return Spec(
        parse_measures(code.get("measures"), where, distinct_max), frozenset(), size, time, grace, ahead,
        _path(code, "items", where), _whole(code, "batch", where, BATCH_DEFAULT, 1, BATCH_MAX),
        _whole(code, "windows_max", where, WINDOWS_DEFAULT, 1, WINDOWS_MAX), on_limit == "fail",
        _names(code, "closes", where), _names(code, "fails", where),
    )  # fmt: skip


def checked_spec(manifest: Manifest, module: Module) -> Spec:
    """Read a module's declaration, and check it against the schemas of the module and its events."""
    where = module.name
    spec = read_spec(module.code, where)
    _check_module(manifest, module, spec)
    control = spec.closes | spec.fails
    for name in sorted(control - set(module.events)):
        raise measure_problem(where, "closes", f"the module takes no event {name}", near(name, module.events))
    decimals: dict[str, bool] = {}
    counted = [each for each in sorted(module.events) if each not in control and each != TIMER_FIRED]
    if not counted:
        raise measure_problem(where, "event", "no event brings items")
    for event in counted:
        item, path = _item_schema(manifest, where, event, spec)
        if spec.time:
            _check_type(manifest, where, f"window.time of {event}", item, spec.time, (t.Time, t.Int))
        for measure in (each for each in spec.measures if each.path):
            what = f"measures.{measure.name} of {event}{path}"
            found = _check_type(manifest, where, what, item, measure.path, _types(measure))
            is_decimal = isinstance(found, t.Dec)
            if decimals.setdefault(measure.name, is_decimal) != is_decimal:
                raise measure_problem(where, what, "it is a decimal in one event and not in another")
    return spec._replace(decimals=frozenset(name for name, is_decimal in decimals.items() if is_decimal))


def reader(path: tuple[str, ...]) -> Reader:
    """A function that finds what stands at a path of a canonical value; None where it is absent."""

    def read(value: Any) -> Any:
        for step in path:
            if value is None:
                return None
            value = value.get(step)
        return value

    return read


def read_decimal(value: Any) -> Decimal:
    """A decimal from its wire form."""
    return Decimal(value)


def _check_module(manifest: Manifest, module: Module, spec: Spec) -> None:
    where = module.name
    if module.state != AGGREGATE:
        raise measure_problem(where, "state", f"it is {module.state}", f"Write {AGGREGATE}.")
    if module.key is not None and not isinstance(manifest.schemas.resolve(module.key), t.Text):
        raise measure_problem(where, "key", "a namespace is a text", "Choose a text field as key_field.")
    if not module.context:
        raise measure_problem(where, "context", "an aggregate needs the time of its world", "Write true.")
    if module.event is not None:
        raise measure_problem(where, "event", "a variant is not taken", "List its cases by their names.")
    if not spec.sets_timers:
        return
    if TIMER_SET not in module.effects_emitted:
        hint = f"Write [{TIMER_SET}], or name the field of the event time in window.time."
        raise measure_problem(where, "effects_emitted", "windows of world time end by a timer", hint)
    if TIMER_FIRED not in module.events:
        raise measure_problem(where, "event", "windows of world time end by a timer", f"Add {TIMER_FIRED}.")


def _item_schema(manifest: Manifest, where: str, event: str, spec: Spec) -> tuple[Schema, str]:
    whole: Schema = t.Ref(event)
    if not spec.items:
        return whole, ""
    path = ".".join(spec.items)
    found = _check_type(manifest, where, f"items of {event}", whole, spec.items, (t.List,))
    assert isinstance(found, t.List)
    return found.item, f", {path}[]"


def _types(measure: Measure) -> tuple[type, ...]:
    match measure.operation:
        case "sum" | "avg":
            return _EXACT
        case "min" | "max":
            return _ORDERED
        case _:
            return _SINGLE


def _check_type(
    manifest: Manifest, where: str, what: str, schema: Schema, path: tuple[str, ...], types: tuple[type, ...]
) -> Schema:
    """The type at a path of a schema, if it is one of these."""
    resolve = manifest.schemas.resolve
    for step in path:
        schema = resolve(schema)
        schema = resolve(schema.item) if isinstance(schema, t.Option) else schema
        fields = dict(schema.fields) if isinstance(schema, t.Record) else {}
        if step not in fields:
            hint = near(step, fields) or f"There are {', '.join(sorted(fields)) or 'none'}."
            raise measure_problem(where, what, f"there is no field {step}", hint)
        schema = fields[step]
    schema = resolve(schema)
    schema = resolve(schema.item) if isinstance(schema, t.Option) else schema
    if not isinstance(schema, types):
        name, wanted = type(schema).__name__.lower(), ", ".join(each.__name__.lower() for each in types)
        hint = "Floats have no exact sum: send decimals or integers." if types == _EXACT else ""
        raise measure_problem(where, what, f"{'.'.join(path)} is of type {name}, not {wanted}", hint)
    return schema


def _window(given: Any, where: str) -> tuple[int | None, tuple[str, ...], int, int]:
    if given is None:
        return None, (), 0, 0
    if not isinstance(given, Mapping):
        raise measure_problem(where, "window", "a map is needed", "Write {size_ns: ..., time: sold_at}.")
    for name in given:
        if name not in _WINDOW_FIELDS:
            hint = f"There are {', '.join(_WINDOW_FIELDS)}."
            raise measure_problem(where, f"window.{name}", "there is no such field", hint)
    size = _whole(given, "size_ns", where, 0, 1, WINDOW_NS_MAX)
    if not size:
        raise measure_problem(where, "window.size_ns", "it is missing")
    time, grace = _path(given, "time", where), _whole(given, "grace_ns", where, 0, 0, WINDOW_NS_MAX)
    ahead = _whole(given, "ahead_ns", where, AHEAD_NS_DEFAULT, 0, WINDOW_NS_MAX)
    if not time and ("grace_ns" in given or "ahead_ns" in given):
        raise measure_problem(
            where, "window", "grace_ns and ahead_ns are of event time", "Name it in `time`."
        )
    return size, time, grace, ahead


def _whole(given: Mapping[str, Any], name: str, where: str, default: int, least: int, most: int) -> int:
    value = given.get(name, default)
    if type(value) is not int or (name in given and not least <= value <= most):
        raise measure_problem(where, name, f"{value!r} is no whole number from {least} to {most}")
    return value


def _path(given: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    value = given.get(name, "")
    if not isinstance(value, str) or (value and not all(value.split("."))):
        raise measure_problem(where, name, f"{value!r} is no path of a field")
    return tuple(value.split(".")) if value else ()


def _names(given: Mapping[str, Any], name: str, where: str) -> frozenset[str]:
    value = given.get(name, [])
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise measure_problem(where, name, "a list of event schemas is needed")
    return frozenset(value)
