"""A tree checked against names, schemas and limits, and written anew as the text the library evaluates.

In the new text every path from an argument is a variable (`v0`), macros have variables of their own (`m0`),
and arithmetic that could leave the finite numbers is guarded. The invariant: whatever is written gives the
same answer, or the same fault, in every process. Macros and functions are in `calls`.

Rejected: handing over the author's text. Its paths would bind whole arguments, an infinity would pass as a
large number, and a second reading of precedence could differ from ours.
Rejected: guards as Python functions. A call out of the library logs every failure.
"""

from __future__ import annotations

from typing import Final, assert_never

from cellule.values.expressions import shapes
from cellule.values.expressions.calls import lower_call
from cellule.values.expressions.fault import Refusal
from cellule.values.expressions.functions import TYPE_NAMES
from cellule.values.expressions.operators import arithmetic_kind, check_compared, check_is
from cellule.values.expressions.scope import Scope
from cellule.values.expressions.syntax import (
    RANKS,
    BytesLiteral,
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
from cellule.values.expressions.terms import ATOM, CHOICE, UNARY, Term, literal_text
from cellule.values.expressions.work import ALL, ONE, plus, times
from cellule.values.schema import types as t
from cellule.values.schema.types import Schema

_LOGICAL: Final = RANKS[0] | RANKS[1]
_RELATIONAL: Final = RANKS[2]


class Lowering:
    """Lowers one expression; all it learns is in its scope."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._schemas = scope.schemas

    def lower(self, node: Node) -> Term:
        """Check `node` and write it; raises `Refusal`."""
        match node:
            case Literal(value=value):
                return literal_text(value)
            case BytesLiteral(source=source):
                return Term(source, kind="bytes")
            case Name() | Select() | Index():
                return self._part(node)
            case Call():
                return lower_call(self._scope, node, self.lower)
            case ListOf(items=items):
                return self._list([self.lower(item).settled() for item in items])
            case MapOf(entries=entries):
                return self._map(
                    [(literal_text(key.value), self.lower(item).settled()) for key, item in entries]
                )
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
            return Term(self._scope.bind(path), kind=kind, work=work, schema=schema, is_argument=True)
        match node:
            case Name():
                return self._name(node)
            case Select(of=of, field=field):
                term = self.lower(of).settled()
                schema = self._scope.field(self._shape(term, node.at), field, node.at)
                return self._inside(term, f".{field}", schema)
            case Index():
                return self._index(node)
        assert_never(node)

    def _name(self, node: Name) -> Term:
        if node.name in self._scope.macros:
            return self._scope.macros[node.name]
        if node.name in TYPE_NAMES:
            return Term(node.name, kind="type")
        known = ", ".join(sorted({*self._scope.macros, *self._scope.variables})) or "none"
        raise Refusal(
            "values.expression_unknown_variable", node.at, f"there is no variable {node.name!r}",
            f"The variables are: {known}.",
        )  # fmt: skip

    def _index(self, node: Index) -> Term:
        term, key = self.lower(node.of).settled(), self.lower(node.key).settled()
        shape = self._shape(term, node.at)
        match node.key:
            case Literal(value=str() as text):
                schema = self._scope.field(shape, text, node.at)
            case Literal(value=bool() | float() | None) | BytesLiteral() | ListOf() | MapOf():
                raise Refusal("values.expression_types", node.key.at, "an index is a text or an integer")
            case Literal(value=int() as index):
                schema = self._scope.item(shape, index, node.at)
            case _:
                schema = self._entry(shape, key, node)
        inside = self._inside(term, f"[{key.source}]", schema)
        return inside._replace(work=plus(term.work, key.work))

    def _entry(self, shape: Schema | None, key: Term, node: Index) -> Schema | None:
        """The schema of an entry whose key is not known yet."""
        if key.kind not in (None, "int", "string"):
            raise Refusal(
                "values.expression_types", node.key.at, f"an index is a text or an integer, not {key.kind}"
            )
        inner = shapes.bare(shape, self._schemas)
        if isinstance(inner, t.Map) and self._schemas.is_text_keyed(inner):
            return inner.value
        return self._scope.item(shape, None, node.at)

    def _inside(self, of: Term, step: str, schema: Schema | None) -> Term:
        kind = shapes.kind_of(schema, self._schemas)
        return Term(of.above(UNARY) + step, ATOM, kind, plus(of.work), schema, of.variable)

    def _shape(self, term: Term, at: int) -> Schema | None:
        """The schema that steps into `term` are checked against; raises if it has no parts."""
        if term.schema is None and term.kind not in (None, "list", "map"):
            raise Refusal("values.expression_types", at, f"{term.kind} has no fields and no items")
        return term.schema

    def _list(self, items: list[Term]) -> Term:
        schemas = {item.schema for item in items}
        only = schemas.pop() if len(schemas) == 1 else None
        source = f"[{', '.join(item.source for item in items)}]"
        work = plus(*(item.work for item in items))
        return Term(source, ATOM, "list", work, None if only is None else t.List(only))

    def _map(self, entries: list[tuple[Term, Term]]) -> Term:
        source = ", ".join(f"{key.source}: {item.source}" for key, item in entries)
        return Term(f"{{{source}}}", ATOM, "map", plus(*(item.work for _, item in entries)))

    def _unary(self, node: Unary) -> Term:
        term = self.lower(node.of).settled()
        if node.operator == "!":
            check_is(term.kind, "bool", node.of.at, "what ! denies")
            return Term(f"!{term.above(UNARY)}", UNARY, "bool", plus(term.work))
        if term.kind is not None and term.kind not in shapes.NUMBERS:
            raise Refusal("values.expression_types", node.of.at, f"{term.kind} has no negative")
        return term.negated()

    def _choice(self, node: Choice) -> Term:
        condition, then, otherwise = (
            self.lower(part).settled() for part in (node.condition, node.then, node.otherwise)
        )
        check_is(condition.kind, "bool", node.condition.at, "a condition")
        source = f"{condition.above(CHOICE)} ? {then.above(CHOICE)} : {otherwise.source}"
        kind = then.kind if then.kind == otherwise.kind else None
        schema = then.schema if then.schema == otherwise.schema else None
        return Term(source, CHOICE, kind, plus(condition.work, then.work, otherwise.work), schema)

    def _chain(self, node: Chain) -> Term:
        terms = [self.lower(term) for term in node.terms]
        rank = next(rank for rank, operators in enumerate(RANKS, 1) if node.operators[0] in operators)
        if node.operators[0] in _LOGICAL:
            return self._logical(node, [term.settled() for term in terms], rank)
        if node.operators[0] in _RELATIONAL:
            return self._comparison(node, [term.settled() for term in terms], rank)
        return self._arithmetic(node, terms, rank)

    def _logical(self, node: Chain, terms: list[Term], rank: int) -> Term:
        for part, term in zip(node.terms, terms, strict=True):
            check_is(term.kind, "bool", part.at, f"what {node.operators[0]} joins")
        return Term(_joined(node, terms, rank), rank, "bool", plus(*(term.work for term in terms)))

    def _comparison(self, node: Chain, terms: list[Term], rank: int) -> Term:
        kind = terms[0].kind
        for operator, part, term in zip(node.operators, node.terms[1:], terms[1:], strict=True):
            check_compared(operator, kind, term.kind, part.at)
            kind = "bool"
        # A comparison ends with the smaller side, so one that has no size of its own bounds the other.
        brief = "in" not in node.operators and any(len(term.work) == 1 for term in terms)
        works = [ONE if brief and term.is_argument else term.work for term in terms]
        return Term(_joined(node, terms, rank), rank, "bool", plus(*works))

    def _arithmetic(self, node: Chain, terms: list[Term], rank: int) -> Term:
        kind = terms[0].kind
        settled = [terms[0]]
        for operator, part, term in zip(node.operators, node.terms[1:], terms[1:], strict=True):
            kind = arithmetic_kind(operator, kind, term.kind, part.at)
            # Only a division can make an infinity disappear: 1.0 / infinity is 0.0.
            settled.append(term.settled() if operator == "/" else term)
        work = plus(*(term.work for term in terms))
        if "+" in node.operators and kind not in shapes.NUMBERS:
            work = times((len(terms) - 1,), work)  # joined text is copied once for every term that follows
        return Term(_joined(node, settled, rank), rank, kind, work, loose=kind in (None, "double"))


def _joined(node: Chain, terms: list[Term], rank: int) -> str:
    parts = [terms[0].above(rank)]
    for operator, term in zip(node.operators, terms[1:], strict=True):
        parts += [operator, term.above(rank)]
    return " ".join(parts)
