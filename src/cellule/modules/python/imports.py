"""Which modules a source file imports: read from its syntax tree, without running anything.

Imports inside functions and methods run when those do: they carry the name of the definition they stand in.
Those under `if TYPE_CHECKING` and `if __name__ == "__main__"` never run in a bundle and do not count. One
inside `try` may fail by design.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Imported:
    """One import: an absolute module name, and the names taken from it that may be modules themselves."""

    module: str
    names: tuple[str, ...]
    line: int
    optional: bool
    inside: str | None = None  # the top-level definition that it runs with; None = when the file is loaded


def imports_of(tree: ast.Module, module: str, *, is_package: bool) -> list[Imported]:
    """All imports of the file that is `module`, relative ones made absolute."""
    package = module if is_package else module.rpartition(".")[0]
    return list(_walk(tree.body, package, optional=False))


def is_main_guard(node: ast.stmt) -> bool:
    """Whether this is `if __name__ == "__main__":` without an `else`."""
    match node:
        case ast.If(
            test=ast.Compare(
                left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]
            ),
            orelse=[],
        ):
            return True
        case _:
            return False


def absolute(package: str, name: str, level: int) -> str:
    """The absolute name of `from <level dots><name> import ...` inside `package`."""
    if not level:
        return name
    parts = package.split(".") if package else []
    base = parts[: len(parts) - level + 1]
    return ".".join([*base, name] if name else base)


def _walk(
    body: list[ast.stmt], package: str, *, optional: bool, top: str | None = None, inside: str | None = None
) -> Iterator[Imported]:
    """The imports of a block; `top` is the top-level definition around it, `inside` if it runs later."""
    for node in body:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Imported(alias.name, (), node.lineno, optional, inside)
            case ast.ImportFrom(module=module, names=names, level=level):
                name = absolute(package, module or "", level)
                yield Imported(name, tuple(alias.name for alias in names), node.lineno, optional, inside)
            # Never run: its names are for type checkers only.
            case ast.If(test=test, orelse=orelse) if _is_type_checking(test):
                yield from _walk(orelse, package, optional=optional, top=top, inside=inside)
            case ast.If() if is_main_guard(node):
                pass
            # What a `try` guards may be missing, and so may what its handlers import in its place.
            case ast.Try(body=inner, handlers=handlers, orelse=orelse, finalbody=final):
                yield from _walk(inner, package, optional=True, top=top, inside=inside)
                for handler in handlers:
                    yield from _walk(handler.body, package, optional=True, top=top, inside=inside)
                rest = [*orelse, *final]
                yield from _walk(rest, package, optional=optional, top=top, inside=inside)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield from _walk(node.body, package, optional=optional, top=top or name, inside=top or name)
            case ast.ClassDef(name=name):
                yield from _walk(node.body, package, optional=optional, top=top or name, inside=inside)
            case _:
                for block in _bodies(node):
                    yield from _walk(block, package, optional=optional, top=top, inside=inside)


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of statements inside a statement."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
    for case in getattr(node, "cases", ()):
        yield case.body


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"
