"""The tree of an expression: the accepted subset of CEL as a closed union of frozen nodes.

Every node knows the offset at which it begins, for messages. Terms joined by operators of one rank are one
`Chain`, as they are written, so that long lists of conditions do not nest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Literal:
    """Null, a boolean, an integer, a float, a text or bytes."""

    at: int
    value: bool | int | float | str | bytes | None


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, a macro's variable or the name of a type."""

    at: int
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A field: `of.field`."""

    at: int
    of: Node
    field: str


@dataclass(frozen=True, slots=True)
class Index:
    """An entry: `of[key]`."""

    at: int
    of: Node
    key: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A function: `name(arguments)`, or `of.name(arguments)`."""

    at: int
    of: Node | None
    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list literal."""

    at: int
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map literal; its keys are text literals."""

    at: int
    entries: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Unary:
    """`!of` or `-of`."""

    at: int
    operator: str
    of: Node


@dataclass(frozen=True, slots=True)
class Chain:
    """Terms joined by operators of one rank, grouped from the left; one operator fewer than terms."""

    at: int
    terms: tuple[Node, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """`condition ? then : otherwise`."""

    at: int
    condition: Node
    then: Node
    otherwise: Node


Node: TypeAlias = Literal | Name | Select | Index | Call | ListOf | MapOf | Unary | Chain | Choice

MACROS = frozenset({"all", "exists", "exists_one", "map", "filter"})
"""The methods that bind a variable and run over a list."""

RANKS: tuple[frozenset[str], ...] = (
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"==", "!=", "<", "<=", ">", ">=", "in"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
"""Operators from the weakest to the strongest."""
