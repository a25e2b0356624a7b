"""The symbols of a bundle's files: what each name at the top level of a file is, and where names lead.

A full name is either one of the app (`App("shop.pricing", "rate")`) or a dotted one of the outside
(`datetime.datetime.now`). Imports are followed through the app's files, however they rename things.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from cellule.modules.python.imports import absolute

_CONTAINERS: Final = frozenset({
    "list", "dict", "set", "bytearray", "defaultdict", "deque", "Counter", "OrderedDict",
})  # fmt: skip
_HOPS_MAX: Final = 50


class App(NamedTuple):
    """A name of the app: a symbol of one of its modules; an empty symbol is the module itself."""

    module: str
    symbol: str


class SourceFile:
    """One file of a bundle, parsed."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.is_package = path.endswith("/__init__.py")
        stem = path.removesuffix("/__init__.py") if self.is_package else path.removesuffix(".py")
        self.module = stem.replace("/", ".")
        self.package = self.module if self.is_package else self.module.rpartition(".")[0]
        self.definitions: dict[str, list[ast.AST]] = {}
        self.imports: dict[str, str] = {}
        self.containers: set[str] = set()
        for node in _top_level(ast.parse(text, path).body):
            self._add(node)

    def _add(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                self.definitions.setdefault(name, []).append(node)
            case ast.Import() | ast.ImportFrom():
                self.imports.update(imported_names(node, self.package))
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, value)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._bind(target, value)
            case _:
                pass

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        for name in (node for node in ast.walk(target) if isinstance(node, ast.Name)):
            self.definitions.setdefault(name.id, []).append(value)
            if is_container(value):
                self.containers.add(name.id)


class Symbols:
    """All files of a bundle."""

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        found = (SourceFile(path, source.decode()) for path, source in sorted(sources.items()))
        self.files = {file.module: file for file in found}

    def lookup(self, file: SourceFile, name: str) -> App | str | None:
        """What a name at the top level of a file means; a builtin is `builtins.x`."""
        if name in file.imports:
            return self.follow(file.imports[name])
        if name in file.definitions:
            return App(file.module, name)
        return f"builtins.{name}" if hasattr(builtins, name) else None

    def follow(self, dotted: str, hops: int = 0) -> App | str:
        """Where a dotted name leads, through the app's own imports."""
        parts = dotted.split(".")
        for count in range(len(parts), 0, -1):
            file = self.files.get(".".join(parts[:count]))
            if file is None:
                continue
            if count == len(parts):
                return App(file.module, "")
            symbol, rest = parts[count], parts[count + 1 :]
            if symbol in file.imports and hops < _HOPS_MAX:
                return self.follow(".".join([file.imports[symbol], *rest]), hops + 1)
            return App(file.module, symbol)
        return dotted

    def attribute(self, base: App | str, name: str) -> App | str:
        """What an attribute of something means; attributes of the app's classes belong to the class."""
        if isinstance(base, str):
            return f"{base}.{name}"
        if base.symbol:
            return base
        return self.follow(f"{base.module}.{name}")

    def is_container(self, name: App | str | None) -> bool:
        """Whether this is a list, dict or set at the top level of a file."""
        return isinstance(name, App) and name.symbol in self.files[name.module].containers


def imported_names(node: ast.Import | ast.ImportFrom, package: str) -> dict[str, str]:
    """What an import statement binds: dotted names by local ones."""
    if isinstance(node, ast.Import):
        return {
            alias.asname or alias.name.partition(".")[0]: alias.name
            if alias.asname
            else alias.name.partition(".")[0]
            for alias in node.names
        }
    base = absolute(package, node.module or "", node.level)
    return {
        alias.asname or alias.name: f"{base}.{alias.name}" if base else alias.name for alias in node.names
    }


def is_container(value: ast.expr) -> bool:
    """Whether an expression makes a list, dict or set that can change."""
    if isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        return True
    if not isinstance(value, ast.Call):
        return False
    function = value.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in _CONTAINERS


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a file's top level, also those inside `if`, `try`, `with` and loops."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield from _top_level(block)
        for handler in getattr(node, "handlers", ()):
            yield from _top_level(handler.body)
