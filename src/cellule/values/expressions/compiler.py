"""A tree checked against names, schemas and limits, and compiled to functions that call each other.

The invariant: what is compiled gives the same answer, or the same fault, in every process. Calls and macros
are in `macros`.

Rejected: a library for CEL. The one there is reads maps in random order, counts text in bytes and stops
`exists` at a fault before a match, so most of what it did had to be guarded by work of our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, assert_never

from cellule.values.expressions import shapes
from cellule.values.expressions.fault import ExpressionFault, Refusal
from cellule.values.expressions.functions import TYPE_NAMES
from cellule.values.expressions.limits import ALL, ONE, PART_BYTES, plus, times
from cellule.values.expressions.macros import compile_call
from cellule.values.expressions.operators import (
    OPERATIONS,
    arithmetic_kind,
    check_compared,
    check_is,
    entry,
    is_true,
    negative,
)  # fmt: skip
from cellule.values.expressions.scope import Frame, Run, Scope, Term
from cellule.values.expressions.syntax import (
    RANKS,
    Call,
    Chain,
    Choice,
    Index,
    ListOf,
    Literal,
    MapOf,
    Name,
    Node,
    Select,
    Unary,
)  # fmt: skip
from cellule.values.schema import types as t
from cellule.values.schema.types import Schema

_CODE: Final = "values.expression_types"
_LOGICAL: Final = RANKS[0] | RANKS[1]
_RELATIONAL: Final = RANKS[2]
_KINDS: Final[dict[type, str]] = {
    bool: "bool", int: "int", float: "double", str: "string", bytes: "bytes", type(None): "null",
}  # fmt: skip


class Compiler:
    """Compiles one expression; all it learns is in its scope."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._schemas = scope.schemas

    def compile(self, node: Node) -> Term:
        """Check `node` and compile it; raises `Refusal`."""
        match node:
            case Literal(value=value):
                size = len(value) // PART_BYTES if isinstance(value, str | bytes) else 0
                return Term(lambda _: value, _KINDS[type(value)], (1 + size,))
            case Name() | Select() | Index():
                return self._part(node)
            case Call():
                return compile_call(self._scope, node, self.compile)
            case ListOf(items=items):
                return _list([self.compile(item) for item in items])
            case MapOf(entries=entries):
                return _map([(key, self.compile(item)) for key, item in entries])
            case Unary():
                return self._unary(node)
            case Chain():
                return self._chain(node)
            case Choice():
                return self._choice(node)
        assert_never(node)

    def _part(self, node: Name | Select | Index) -> Term:
        found = self._scope.path(node)
        if found is not None:
            path, schema = found
            kind = shapes.kind_of(schema, self._schemas)
            work = ONE if kind in shapes.SMALL else ALL
            return Term(self._scope.read(path, node.at), kind, work, schema, is_argument=True)
        match node:
            case Name():
                return self._name(node)
            case Select(of=of, field=field):
                term = self.compile(of)
                schema = self._scope.field(self._shape(term, node.at), field, node.at)
                return self._inside(node, term, _constant(field), schema)
            case Index():
                return self._index(node)
        assert_never(node)

    def _name(self, node: Name) -> Term:
        if node.name in self._scope.macros:
            return self._scope.macros[node.name]
        if node.name in TYPE_NAMES:
            return Term(_constant(TYPE_NAMES[node.name]), "type")
        known = ", ".join(sorted({*self._scope.macros, *self._scope.variables})) or "none"
        raise Refusal(
            "values.expression_unknown_variable", node.at, f"there is no variable {node.name!r}",
            f"The variables are: {known}.",
        )  # fmt: skip

    def _index(self, node: Index) -> Term:
        term, key = self.compile(node.of), self.compile(node.key)
        shape = self._shape(term, node.at)
        if key.kind not in (None, "int", "string"):
            raise Refusal(_CODE, node.key.at, f"an index is a text or an integer, not {key.kind}")
        match node.key:
            case Literal(value=str() as text):
                schema = self._scope.field(shape, text, node.at)
            case Literal(value=int() as index):
                schema = self._scope.item(shape, index, node.at)
            case _:
                schema = self._entry(shape, node.at)
        return self._inside(node, term, key.run, schema)._replace(work=plus(term.work, key.work))

    def _entry(self, shape: Schema | None, at: int) -> Schema | None:
        """The schema of an entry whose key is not known yet."""
        inner = shapes.bare(shape, self._schemas)
        if isinstance(inner, t.Map) and self._schemas.is_text_keyed(inner):
            return inner.value
        return self._scope.item(shape, None, at)

    def _inside(self, node: Node, of: Term, key: Run, schema: Schema | None) -> Term:
        run, place = of.run, self._scope.place(node.at)
        kind = shapes.kind_of(schema, self._schemas)
        return Term(
            lambda frame: entry(run(frame), key(frame), place), kind, plus(of.work), schema, of.variable
        )

    def _shape(self, term: Term, at: int) -> Schema | None:
        """The schema that steps into `term` are checked against; raises if it has no parts."""
        if term.schema is None and term.kind not in (None, "list", "map"):
            raise Refusal(_CODE, at, f"{term.kind} has no fields and no items")
        return term.schema

    def _unary(self, node: Unary) -> Term:
        term, place = self.compile(node.of), self._scope.place(node.of.at)
        run = term.run
        if node.operator == "!":
            check_is(term.kind, "bool", node.of.at, "what ! denies")
            return Term(lambda frame: not is_true(run(frame), place), "bool", plus(term.work))
        if term.kind is not None and term.kind not in shapes.NUMBERS:
            raise Refusal(_CODE, node.of.at, f"{term.kind} has no negative")
        return Term(lambda frame: negative(run(frame), place), term.kind, plus(term.work))

    def _choice(self, node: Choice) -> Term:
        condition, then, otherwise = map(self.compile, (node.condition, node.then, node.otherwise))
        check_is(condition.kind, "bool", node.condition.at, "a condition")
        kind = then.kind if then.kind == otherwise.kind else None
        schema = then.schema if then.schema == otherwise.schema else None
        work = plus(condition.work, then.work, otherwise.work)
        ask, yes, no, place = condition.run, then.run, otherwise.run, self._scope.place(node.condition.at)
        return Term(lambda frame: yes(frame) if is_true(ask(frame), place) else no(frame), kind, work, schema)

    def _chain(self, node: Chain) -> Term:
        terms = [self.compile(term) for term in node.terms]
        if node.operators[0] in _LOGICAL:
            return self._logical(node, terms)
        if node.operators[0] in _RELATIONAL:
            return self._comparison(node, terms)
        return self._arithmetic(node, terms)

    def _logical(self, node: Chain, terms: list[Term]) -> Term:
        for part, term in zip(node.terms, terms, strict=True):
            check_is(term.kind, "bool", part.at, f"what {node.operators[0]} joins")
        conditions = [
            (term.run, self._scope.place(part.at)) for part, term in zip(node.terms, terms, strict=True)
        ]
        run = _joined(conditions, node.operators[0] == "||")
        return Term(run, "bool", plus(*(term.work for term in terms)))

    def _comparison(self, node: Chain, terms: list[Term]) -> Term:
        kind = terms[0].kind
        for operator, part, term in zip(node.operators, node.terms[1:], terms[1:], strict=True):
            check_compared(operator, kind, term.kind, part.at)
            kind = "bool"
        # A comparison ends with the smaller side, so one that has no size of its own bounds the other.
        brief = "in" not in node.operators and any(len(term.work) == 1 for term in terms)
        works = [ONE if brief and term.is_argument else term.work for term in terms]
        return Term(self._folded(node, terms), "bool", plus(*works))

    def _arithmetic(self, node: Chain, terms: list[Term]) -> Term:
        kind = terms[0].kind
        for operator, part, term in zip(node.operators, node.terms[1:], terms[1:], strict=True):
            kind = arithmetic_kind(operator, kind, term.kind, part.at)
        work = plus(*(term.work for term in terms))
        if "+" in node.operators and kind not in shapes.NUMBERS:
            work = times((len(terms) - 1,), work)  # joined text is copied once for every term that follows
        return Term(self._folded(node, terms), kind, work)

    def _folded(self, node: Chain, terms: list[Term]) -> Run:
        """What applies one operator after the other, from the left."""
        first = terms[0].run
        rest = [
            (OPERATIONS[operator], term.run, self._scope.place(part.at))
            for operator, part, term in zip(node.operators, node.terms[1:], terms[1:], strict=True)
        ]
        if len(rest) == 1:
            operate, second, place = rest[0]
            return lambda frame: operate(first(frame), second(frame), place)

        def run(frame: Frame) -> Any:
            value = first(frame)
            for operate, term, place in rest:
                value = operate(value, term(frame), place)
            return value

        return run


def _constant(value: Any) -> Run:
    return lambda _: value


def _joined(conditions: Sequence[tuple[Run, str]], decisive: bool) -> Run:
    """What looks for a condition that decides; only without one is the first fault the outcome."""

    def run(frame: Frame) -> bool:
        fault: ExpressionFault | None = None
        for condition, place in conditions:
            try:
                if is_true(condition(frame), place) is decisive:
                    return decisive
            except ExpressionFault as error:
                fault = fault or error
        if fault is not None:
            raise fault
        return not decisive

    return run


def _list(items: list[Term]) -> Term:
    schemas = {item.schema for item in items}
    only = schemas.pop() if len(schemas) == 1 else None
    runs = [item.run for item in items]
    work = plus(*(item.work for item in items))
    return Term(
        lambda frame: [run(frame) for run in runs], "list", work, None if only is None else t.List(only)
    )


def _map(entries: list[tuple[str, Term]]) -> Term:
    runs = [(key, item.run) for key, item in entries]
    work = plus(*(item.work for _, item in entries))
    return Term(lambda frame: {key: run(frame) for key, run in runs}, "map", work)
