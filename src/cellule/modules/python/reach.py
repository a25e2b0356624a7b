"""What an entry leads to: the definitions of the app's files that its code names, directly or not.

`reach` follows names from the entry alone: what the guard looks at. `reached_names` also counts whatever may
run although nobody names it: top-level statements, functions that a decorator may have registered, and
subclasses of what is reached. It decides which imports inside functions belong to a bundle.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Final

from cellule.modules.python.imports import is_main_guard
from cellule.modules.python.scan import Scan
from cellule.modules.python.symbols import App, SourceFile, Symbols

_APP_DECORATORS: Final = frozenset({"reducer", "upcaster", "adapter"})
"""What they decorate runs when a world calls it, as an entry of its own."""
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def reach(symbols: Symbols, entry: App) -> list[tuple[SourceFile, ast.AST]]:
    """All definitions of the app that the entry leads to."""
    return _Reach(symbols).follow([entry])


def reached_names(symbols: Symbols, entry: App) -> set[App]:
    """The names of all definitions that may run with the entry."""
    found = _Reach(symbols)
    found.follow([entry])
    for file in symbols.files.values():
        found.follow(_started(symbols, file))
    while heirs := [name for name in _heirs(symbols, found.names) if name not in found.names]:
        found.follow(heirs)
    return found.names


def is_adapter(node: ast.AST) -> bool:
    """Whether this is an adapter: a reducer that calls it makes a request, and its code runs elsewhere."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "adapter" in _decorators(node)


class _Reach:
    """Names that were followed so far."""

    def __init__(self, symbols: Symbols) -> None:
        self.names: set[App] = set()
        self._symbols = symbols

    def follow(self, names: Iterable[App]) -> list[tuple[SourceFile, ast.AST]]:
        waiting = list(names)
        found: list[tuple[SourceFile, ast.AST]] = []
        while waiting:
            name = waiting.pop()
            if name in self.names:
                continue
            self.names.add(name)
            file = self._symbols.files[name.module]
            for node in file.definitions.get(name.symbol, ()):
                if is_adapter(node):
                    continue
                found.append((file, node))
                waiting.extend(_named(self._symbols, file, node))
        return found


def _named(symbols: Symbols, file: SourceFile, node: ast.AST) -> set[App]:
    scan = Scan(symbols, file, frozenset())
    scan.walk(node)
    return scan.reached


def _started(symbols: Symbols, file: SourceFile) -> list[App]:
    """What runs, or may be kept by somebody, when a file is loaded."""
    found: list[App] = []
    for node in ast.parse(file.text).body:
        if not isinstance(node, _DEFINITIONS):
            found += () if is_main_guard(node) else _named(symbols, file, node)
        elif node.decorator_list and not _APP_DECORATORS & set(_decorators(node)):
            found.append(App(file.module, node.name))
    return found


def _heirs(symbols: Symbols, names: set[App]) -> list[App]:
    """Classes that are made of reached ones."""
    return [
        App(file.module, name)
        for file in symbols.files.values()
        for name, definitions in file.definitions.items()
        for node in definitions
        if isinstance(node, ast.ClassDef) and any(_named(symbols, file, base) & names for base in node.bases)
    ]


def _decorators(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[str]:
    called = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    return [each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in called]
