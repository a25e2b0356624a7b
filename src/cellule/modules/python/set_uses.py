"""What lets the order of a set out, and what does not: calls, texts, and loops that build something."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Final

from cellule.modules.python.scopes import Scope, gives_set, is_sequence
from cellule.modules.python.symbols import App, Symbols

ORDER_FREE: Final = frozenset(
    {"sorted", "set", "frozenset", "sum", "any", "all", "min", "max", "len", "dict", "bool"}
)
ORDERED: Final = frozenset({
    "list", "tuple", "enumerate", "iter", "zip", "reversed", "map", "filter", "str", "repr", "ascii",
    "format",
})  # fmt: skip
TIES: Final = frozenset({"sorted", "min", "max"})
"""Where values with the same key keep the order they came in."""
_TIE_KEYS: Final = frozenset({
    "len", "abs", "bool", "int", "round", "type", "hash", "str.lower", "str.upper", "str.casefold",
    "str.strip",
})  # fmt: skip
_BUILDERS: Final = frozenset({"append", "extend", "insert", "appendleft"})
_KEEPERS: Final = frozenset({
    "builtins.dict.fromkeys", "collections.deque", "functools.reduce", "marshal.dump", "marshal.dumps",
    "pickle.dump", "pickle.dumps",
})  # fmt: skip


def keeps_order(name: object) -> bool:
    """Whether what a call of this full name gives has the order of what it was given."""
    if not isinstance(name, str):
        return False
    return name in _KEEPERS or name.startswith("itertools.") or name.removeprefix("builtins.") in ORDERED


def has_ties(name: object) -> bool:
    """Whether different values surely have the same key now and then, by this full name of a key function."""
    return isinstance(name, str) and name.removeprefix("builtins.") in _TIE_KEYS


def builds(node: ast.AST, scopes: Iterable[Scope]) -> bool:
    """Whether a statement of a loop adds to something that has an order."""
    match node:
        case ast.Yield():
            return True
        case ast.Attribute(attr=name):
            return name in _BUILDERS
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add()):
            return any(name in scope.sequences for scope in scopes)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(left=ast.Name(id=left), op=ast.Add())):
            return name == left and any(name in scope.sequences for scope in scopes)
        case _:
            return False


def percent_shown(node: ast.BinOp) -> list[ast.expr]:
    """What `"..." % ...` puts into a text."""
    if not isinstance(node.op, ast.Mod) or not is_sequence(node.left):
        return []
    return node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]


def is_set_function(symbols: Symbols, found: object) -> bool:
    """Whether this names a function of the app that surely gives a set."""
    if not isinstance(found, App):
        return False
    file = symbols.files[found.module]
    definitions = file.definitions.get(found.symbol, [])
    return bool(definitions) and all(gives_set(each, file.package) for each in definitions)
