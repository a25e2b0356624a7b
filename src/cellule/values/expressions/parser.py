"""Tokens to a tree: CEL's grammar by recursive descent, with precedence climbing over `syntax.RANKS`.

Only used when an expression is compiled.
"""

from __future__ import annotations

from typing import Final

from cellule.values.expressions.fault import Refusal
from cellule.values.expressions.limits import DEPTH_MAX, INT_MAX
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
from cellule.values.expressions.tokens import Token, tokenize

_CODE: Final = "values.expression_syntax"
_CONSTANTS: Final = {"null": None, "true": True, "false": False}
_RESERVED: Final = frozenset(
    {
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"),
        *("namespace", "package", "return", "var", "void", "while"),
    }
)


def parse(text: str) -> Node:
    """Read `text` as one expression; raises `Refusal`."""
    parser = _Parser(tokenize(text))
    node = parser.choice()
    parser.expect_end()
    return node


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._position = 0
        self._depth = 0

    def choice(self) -> Node:
        """A choice, or what binds stronger. Nested parts come through here, so depth is counted here."""
        self._deeper(self._next.at)
        condition = self._chain(0)
        if self._taken("?"):
            then = self._chain(0)
            self._expect(":")
            condition = Choice(condition.at, condition, then, self.choice())
        self._depth -= 1
        return condition

    def expect_end(self) -> None:
        if self._next.kind != "end":
            raise self._unexpected("the end or an operator")

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self) -> Token:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _taken(self, sign: str) -> bool:
        if self._next.kind == "sign" and self._next.source == sign:
            self._position += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._taken(sign):
            raise self._unexpected(f"{sign!r}")

    def _unexpected(self, expected: str) -> Refusal:
        found = "the expression ends" if self._next.kind == "end" else f"{self._next.source!r} stands"
        return Refusal(_CODE, self._next.at, f"{found} where {expected} was expected")

    def _deeper(self, at: int) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise Refusal(
                "values.expression_too_deep", at, f"more than {DEPTH_MAX} levels of nesting",
                "Split the expression, or compare with a list: x in ['a', 'b'].",
            )  # fmt: skip

    def _chain(self, rank: int) -> Node:
        if rank == len(RANKS):
            return self._unary()
        terms = [self._chain(rank + 1)]
        operators: list[str] = []
        while self._next.kind in ("sign", "name") and self._next.source in RANKS[rank]:
            operators.append(self._take().source)
            terms.append(self._chain(rank + 1))
        return Chain(terms[0].at, tuple(terms), tuple(operators)) if operators else terms[0]

    def _unary(self) -> Node:
        signs: list[Token] = []
        while self._next.kind == "sign" and self._next.source in ("!", "-"):
            if signs and self._next.source != signs[0].source:
                raise Refusal(_CODE, self._next.at, "two signs in a row", "Put brackets between.")
            signs.append(self._take())
        negative = signs and signs[0].source == "-" and self._next.kind in ("int", "float")
        node = self._member(negative=signs.pop() if negative else None)
        for sign in signs[: 2 - len(signs) % 2]:  # two are as good as any even number, one as any odd
            node = Unary(sign.at, sign.source, node)
        return node

    def _member(self, negative: Token | None = None) -> Node:
        node = self._primary() if negative is None else self._negative(negative)
        steps = 0
        while True:
            at = self._next.at
            if self._taken("."):
                node = self._selected(node)
            elif self._taken("["):
                node = Index(node.at, node, self.choice())
                self._expect("]")
            else:
                self._depth -= steps
                return node
            self._deeper(at)
            steps += 1

    def _selected(self, of: Node) -> Node:
        token = self._next
        if token.kind != "name" or token.source in _CONSTANTS or token.source == "in":
            raise self._unexpected("the name of a field")
        self._take()
        if self._taken("("):
            return Call(token.at, of, token.source, self._items(")"))
        return Select(of.at, of, token.source)

    def _items(self, closing: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._taken(closing):
            items.append(self.choice())
            if not self._taken(","):
                self._expect(closing)
                break
        return tuple(items)

    def _primary(self) -> Node:
        token = self._take()
        match token.kind, token.source:
            case ("text" | "bytes", _):
                return Literal(token.at, token.value)
            case ("int" | "float", _):
                return self._positive(token)
            case ("name", name):
                return self._named(token.at, name)
            case ("sign", "("):
                node = self.choice()
                self._expect(")")
                return node
            case ("sign", "["):
                return ListOf(token.at, self._items("]"))
            case ("sign", "{"):
                return self._map(token.at)
        self._position -= 1
        raise self._unexpected("a value")

    def _positive(self, token: Token) -> Literal:
        if isinstance(token.value, int) and token.value > INT_MAX:
            raise Refusal(_CODE, token.at, f"the integer {token.source} does not fit into 64 bits")
        return Literal(token.at, token.value)

    def _negative(self, sign: Token) -> Literal:
        value = self._take().value
        assert isinstance(value, int | float)  # the caller looked ahead
        return Literal(sign.at, -value)

    def _named(self, at: int, name: str) -> Node:
        if name in _CONSTANTS:
            return Literal(at, _CONSTANTS[name])
        if name in _RESERVED or name == "in":
            raise Refusal(_CODE, at, f"{name!r} is a reserved word")
        if self._taken("("):
            return Call(at, None, name, self._items(")"))
        return Name(at, name)

    def _map(self, at: int) -> MapOf:
        entries: dict[str, Node] = {}
        while not self._taken("}"):
            key = self.choice()
            if not isinstance(key, Literal) or not isinstance(key.value, str):
                raise Refusal(
                    "values.expression_unsupported", key.at, "a key of a map must be a text literal"
                )
            if key.value in entries:
                raise Refusal(_CODE, key.at, f"the key {key.value!r} stands twice in one map")
            self._expect(":")
            entries[key.value] = self.choice()
            if not self._taken(","):
                self._expect("}")
                break
        return MapOf(at, tuple(entries.items()))
