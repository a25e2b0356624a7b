"""Plan expressions: JSON that says a value, compiled once to a closure.

    7, "text", true, null       itself                     {"value": ...}    any value as it stands
    {"ref": "@plan.input.x"}    what stands there          {"record": {...}} a map of expressions
    {"list": [...]}             a list of expressions      {"op": "add", "args": [...]}

Refs begin with `@plan.input`, `@plan.correlation`, `@local.NAME` (or `@var:NAME`), `@step.ID` (or `@step:ID`)
and, where an event is looked at, `@event`. A field that is not there is null. Names and types are checked
when a plan is built, as far as schemas tell; errors of both times name the place of the expression.

Rejected: CEL in plans. Their JSON stands in documents of the older design, and must load as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from cellule.kernel.program import StepFault
from cellule.modules.plan.limits import EXPR_DEPTH_MAX, EXPR_NODES_MAX
from cellule.modules.plan.operators import LAZY, OPERATORS
from cellule.modules.plan.problems import PlanProblems
from cellule.modules.plan.shapes import misfit, missing_fields, part_of
from cellule.values.schema import types as t
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

SCHEMA_FIELD: Final = "$schema"
_FORMS: Final = ("ref", "record", "list", "op", "value")


class Seen(NamedTuple):
    """What an expression sees when it runs."""

    input: Any
    correlation: Any
    local: Mapping[str, Any]
    step: Mapping[str, Any]
    event: Any = None


Value = Callable[[Seen], Any]


class Names(NamedTuple):
    """What refs may name where an expression stands, with types as far as they are known."""

    inputs: tuple[Schema, ...]
    correlation: Schema | None
    local: Mapping[str, Schema | None]
    step: Mapping[str, Schema | None]
    event: Schema | None = None
    has_event: bool = False


class ExprCompiler:
    """Compiles the expressions of one plan."""

    def __init__(self, problems: PlanProblems, schemas: Schemas) -> None:
        self._problems = problems
        self._schemas = schemas
        self._nodes = 0

    def compile(
        self, expr: Any, path: str, names: Names, wanted: Schema | None = None, depth: int = 0
    ) -> Value:
        """The closure of an expression whose value has to fit `wanted`; problems are noted."""
        self._nodes += 1
        if self._nodes > EXPR_NODES_MAX or depth > EXPR_DEPTH_MAX:
            most = f"{EXPR_NODES_MAX} parts and {EXPR_DEPTH_MAX} levels"
            self._problems.add(path, f"the expressions of a plan have at most {most}")
            return _constant(None)
        if isinstance(expr, list):
            self._problems.add(path, "a list is written as {'list': [...]}")
            return _constant(None)
        if not isinstance(expr, Mapping):
            self._check(path, _literal_type(expr), wanted, expr)
            return _constant(expr)
        form = next((name for name in _FORMS if name in expr), None)
        extra = set(expr) - ({form, "args"} if form == "op" else {form})
        if form is None or extra:
            listed = ", ".join(_FORMS)
            found = ", ".join(map(repr, sorted(map(str, expr)))) or "nothing"
            self._problems.add(path, f"an expression is a literal or has one of {listed}; here is {found}")
            return _constant(None)
        made: Value = getattr(self, f"_{form}")(expr, f"{path}.{form}", names, wanted, depth + 1)
        return made

    def _value(self, expr: Any, path: str, _names: Names, wanted: Schema | None, _depth: int) -> Value:
        self._check(path, _literal_type(expr["value"]), wanted, expr["value"])
        return _constant(expr["value"])

    def _ref(self, expr: Any, path: str, names: Names, wanted: Schema | None, _depth: int) -> Value:
        ref = expr["ref"]
        if not isinstance(ref, str) or not ref.startswith("@"):
            self._problems.add(path, "a ref is a text such as '@plan.input.order_id'")
            return _constant(None)
        root, steps, found = self._root(ref, path, names)
        if root is None:
            return _constant(None)
        types = []
        for each in found:
            at, problem = part_of(each, steps, self._schemas)
            if problem:
                self._problems.add(path, f"{ref}: {problem}")
            types.append(at)
        for each in types:
            self._check(path, each, wanted, None)
        return _walk(root, steps, ref, path)

    def _root(
        self, ref: str, path: str, names: Names
    ) -> tuple[Value | None, tuple[str, ...], tuple[Schema | None, ...]]:
        """Where a ref begins, the fields that follow, and the types that may stand there."""
        head, *rest = ref[1:].replace("var:", "local.").replace("step:", "step.").split(".")
        if head == "plan" and rest[:1] == ["input"]:
            return (lambda seen: seen.input), tuple(rest[1:]), names.inputs
        if head == "plan" and rest == ["correlation"]:
            return (lambda seen: seen.correlation), (), (names.correlation,)
        if head == "event" and names.has_event:
            return (lambda seen: seen.event), tuple(rest), (names.event,)
        if head in ("local", "step") and rest:
            name, known = rest[0], names.local if head == "local" else names.step
            if name in known:
                part = _entry_of(head, name)
                return part, tuple(rest[1:]), (known[name],)
            here = ", ".join(sorted(known)) or "none"
            what = "local" if head == "local" else "step with a result"
            self._problems.add(path, f"{ref}: there is no {what} {name!r}; there are: {here}")
            return None, (), ()
        begin = "@plan.input, @plan.correlation, @local.NAME, @step.ID"
        more = ", @event" if names.has_event else ""
        self._problems.add(path, f"{ref!r} names nothing that is here; refs begin with {begin}{more}")
        return None, (), ()

    def _record(self, expr: Any, path: str, names: Names, wanted: Schema | None, depth: int) -> Value:
        fields = expr["record"]
        if not isinstance(fields, Mapping):
            self._problems.add(path, "a record is a map of expressions")
            return _constant(None)
        shape = self._schemas.resolve(wanted) if wanted is not None else None
        if isinstance(shape, t.Option):
            shape = self._schemas.resolve(shape.item)
        if shape is not None and not isinstance(shape, t.Record | t.Map | t.Any | t.Variant):
            self._problems.add(path, f"a record stands where {type(shape).__name__.lower()} is needed")
        known = dict(shape.fields) if isinstance(shape, t.Record) else None
        parts: list[tuple[str, Value]] = []
        for name, each in fields.items():
            if name == SCHEMA_FIELD:
                continue
            if known is not None and name not in known:
                self._problems.add(f"{path}.{name}", f"there is no field {name!r} in this record")
            inner = None if known is None else known.get(name)
            parts.append((str(name), self.compile(each, f"{path}.{name}", names, inner, depth)))
        for name in missing_fields(shape, fields, self._schemas):
            self._problems.add(path, f"the field {name!r} is missing")

        def record(seen: Seen) -> dict[str, Any]:
            return {name: part(seen) for name, part in parts}

        return record

    def _list(self, expr: Any, path: str, names: Names, wanted: Schema | None, depth: int) -> Value:
        items = expr["list"]
        if not isinstance(items, list):
            self._problems.add(path, "a list of expressions is needed")
            return _constant(None)
        shape = self._schemas.resolve(wanted) if wanted is not None else None
        inner = shape.item if isinstance(shape, t.List | t.Set) else None
        if shape is not None and not isinstance(shape, t.List | t.Set | t.Tuple | t.Any | t.Option):
            self._problems.add(path, f"a list stands where {type(shape).__name__.lower()} is needed")
        parts = [self.compile(each, f"{path}[{at}]", names, inner, depth) for at, each in enumerate(items)]
        return lambda seen: [part(seen) for part in parts]

    def _op(self, expr: Any, path: str, names: Names, wanted: Schema | None, depth: int) -> Value:
        name, args = expr["op"], expr.get("args", [])
        operator = OPERATORS.get(name) if isinstance(name, str) else None
        if operator is None or not isinstance(args, list):
            self._problems.add(path, f"{name!r} with `args`, a list, is none of {', '.join(OPERATORS)}")
            return _constant(None)
        if not args or operator.arity not in (None, len(args)):
            self._problems.add(path, f"{name} takes {operator.arity or 'at least one'} arguments")
            return _constant(None)
        self._check(path, operator.gives, wanted, None)
        inner = t.Bool() if name in ("and", "or", "not") else None
        place = path.removesuffix(".op")
        parts = [
            self.compile(each, f"{place}.args[{at}]", names, t.Bool() if name == "if" and at == 0 else inner,
                         depth)
            for at, each in enumerate(args)
        ]  # fmt: skip
        return _lazy(name, parts, path) if name in LAZY else _called(name, parts, path)

    def _check(self, path: str, found: Schema | None, wanted: Schema | None, literal: Any) -> None:
        problem = misfit(found, wanted, self._schemas, literal)
        if problem:
            self._problems.add(path, problem)


def _constant(value: Any) -> Value:
    return lambda _: value


def _literal_type(value: Any) -> Schema | None:
    kinds: dict[type, Schema] = {
        str: t.Text(), int: t.Int(), float: t.Float(), bool: t.Bool(), bytes: t.Bytes(), type(None): t.Unit(),
    }  # fmt: skip
    return kinds.get(type(value))


def _entry_of(head: str, name: str) -> Value:
    if head == "local":
        return lambda seen: seen.local.get(name)
    return lambda seen: seen.step.get(name)


def _walk(root: Value, steps: tuple[str, ...], ref: str, path: str) -> Value:
    if not steps:
        return root
    if len(steps) == 1:
        (only,) = steps

        def field(seen: Seen) -> Any:
            found = root(seen)
            if type(found) is dict:
                return found.get(only)
            return _deeper(found, steps, ref, path)

        return field
    return lambda seen: _deeper(root(seen), steps, ref, path)


def _deeper(found: Any, steps: tuple[str, ...], ref: str, path: str) -> Any:
    for step in steps:
        if found is None:
            return None
        if type(found) is not dict:
            raise StepFault("plan.value", f"{path}: {ref}: {step!r} is looked for in no map")
        found = found.get(step)
    return found


def _called(name: str, parts: list[Value], path: str) -> Value:
    function = OPERATORS[name].function

    def call(seen: Seen) -> Any:
        values = [part(seen) for part in parts]
        try:
            return function(*values)
        except (TypeError, ValueError, OverflowError) as error:
            raise StepFault("plan.value", f"{path}: {name}: {error}") from error

    return call


def _lazy(name: str, parts: list[Value], path: str) -> Value:
    def truth(part: Value, seen: Seen) -> bool:
        found = part(seen)
        if type(found) is not bool:
            raise StepFault("plan.value", f"{path}: {name}: true or false is needed, not {found!r:.100}")
        return found

    if name == "if":
        test, then, other = parts
        return lambda seen: then(seen) if truth(test, seen) else other(seen)
    stop = name == "or"
    return lambda seen: any(truth(part, seen) for part in parts) if stop else _all(truth, parts, seen)


def _all(truth: Callable[[Value, Seen], bool], parts: list[Value], seen: Seen) -> bool:
    return all(truth(part, seen) for part in parts)
