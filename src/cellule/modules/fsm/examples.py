"""Values that fit a schema, the simplest first: what tests of a machine send to get past its guards.

Numbers and texts that stand in the guards are tried, too, with the numbers beside them: those are the values
at which a guard changes its mind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any, Final

from cellule.modules.fsm.contract import Contract
from cellule.modules.fsm.limits import EXAMPLES_MAX
from cellule.values.schema import types as t
from cellule.values.schema.registry import Schemas

DEPTH_MAX: Final = 8
_SCALARS: Final = {t.Bool: True, t.Duration: 1_000_000_000, t.Dec: "1", t.Uuid: bytes(16)}

_NUMBER: Final = re.compile(r"(?<![\w.])-?\d{1,18}(?:\.\d{1,9})?(?![\w.])")
_TEXT: Final = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")


class Literals:
    """The numbers and texts of a contract's guards."""

    def __init__(self, contract: Contract) -> None:
        guards = [str(each.guard.value) for each in contract.transitions if each.guard is not None]
        texts = [one or two for guard in guards for one, two in _TEXT.findall(guard)]
        numbers = [each for guard in guards for each in _NUMBER.findall(_TEXT.sub("", guard))]
        self.texts = tuple(dict.fromkeys(texts))
        self.numbers = tuple(dict.fromkeys(numbers))

    def near(self, schema: t.Schema, schemas: Schemas) -> list[Any]:
        """Values of a scalar type that guards may be about, and both booleans, or all of an enum."""
        match schemas.resolve(schema):
            case t.Option(item=item):
                return [None, simplest(item, schemas, 0), *self.near(item, schemas)]
            case t.Bool():
                return [False, True]
            case t.Enum(values=values):
                return list(values)
            case t.Text():
                return list(self.texts)
            case t.Int() | t.Time() | t.Duration():
                return _around([int(each) for each in self.numbers if "." not in each])
            case t.Float():
                return _around([float(each) for each in self.numbers])
            case t.Dec():
                return list(self.numbers)
            case _:
                return []


def _around(numbers: list[Any]) -> list[Any]:
    return list(dict.fromkeys(near for each in numbers for near in (each, each + 1, each - 1)))


def examples(
    schema: t.Schema, schemas: Schemas, literals: Literals, now_ns: int, fixed: Iterable[str] = ()
) -> Iterator[Any]:
    """Wire values of a schema, the simplest first; `fixed` fields of a record keep their simplest value."""
    form = schemas.resolve(schema)
    if not isinstance(form, t.Record):
        yield simplest(form, schemas, now_ns)
        return
    simple = {name: simplest(each, schemas, now_ns) for name, each in form.fields}
    others = {
        name: [value for value in literals.near(each, schemas) if value != simple[name]]
        for name, each in form.fields
        if name not in set(fixed)
    }
    made = 0
    for count in range(min(len(others), 2) + 1):
        for names in combinations(others, count):
            for changed in _changes(others, names):
                value = {**simple, **changed}
                yield {name: each for name, each in value.items() if each is not None}
                made += 1
                if made == EXAMPLES_MAX:
                    return


def _changes(others: dict[str, list[Any]], names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    if not names:
        yield {}
        return
    for value in others[names[0]]:
        for rest in _changes(others, names[1:]):
            yield {names[0]: value, **rest}


def simplest(schema: t.Schema, schemas: Schemas, now_ns: int, depth: int = DEPTH_MAX) -> Any:
    """One wire value of a schema; None for an option, and where types nest for ever."""
    form = schemas.resolve(schema)
    if depth == 0:
        return None
    match form:
        case t.List(item=item, min_length=length) | t.Set(item=item, min_length=length):
            return [simplest(item, schemas, now_ns, depth - 1)] * (length or 0)
        case t.Tuple(items=items):
            return [simplest(each, schemas, now_ns, depth - 1) for each in items]
        case t.Map(key=key):
            return {} if isinstance(schemas.resolve(key), t.Text) else []
        case t.Record(fields=fields):
            value = {name: simplest(each, schemas, now_ns, depth - 1) for name, each in fields}
            return {name: each for name, each in value.items() if each is not None}
        case t.Variant(cases=((tag, case), *_)):
            return {"$tag": tag, "$value": simplest(case, schemas, now_ns, depth - 1)}
        case _:
            return _scalar(form, now_ns)


def _scalar(form: t.Schema, now_ns: int) -> Any:
    match form:
        case t.Int(min=low, max=high) | t.Float(min=low, max=high):
            one = type(low or high or 1)(1)
            return (max(low, one) if low is not None else one) if high is None or high >= 1 else high
        case t.Text(min_length=length):
            return "a" * max(length or 1, 1)
        case t.Bytes(min_length=length):
            return b"a" * max(length or 1, 1)
        case t.Enum(values=values):
            return values[0]
        case t.Time():
            return now_ns
        case _:
            return _SCALARS.get(type(form))
