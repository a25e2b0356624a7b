"""The local names of a function: what hides the names of its file, and what is known about their values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from cellule.modules.python.symbols import imported_names, is_container

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_SETS: Final = frozenset({"set", "frozenset", "Set", "AbstractSet", "FrozenSet", "MutableSet"})
_SET_OPERATORS: Final = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
_SET_METHODS: Final = frozenset({"union", "intersection", "difference", "symmetric_difference"})


IsSetCall = Callable[[ast.expr], bool]
"""Whether a call of this function surely gives a set."""


class Scope:
    """One function (or class body, or comprehension) and the names it binds."""

    def __init__(self, package: str, is_set_call: IsSetCall | None = None) -> None:
        self.package = package
        self._is_set_call = is_set_call
        self.sequences: set[str] = set()  # texts, byte strings and lists
        self.names: set[str] = set()
        self.imports: dict[str, list[str]] = {}  # one name may be bound by several imports
        self.globals: set[str] = set()
        self.sets: set[str] = set()
        self.shared_defaults: set[str] = set()

    @classmethod
    def of_function(cls, node: Function, package: str, is_set_call: IsSetCall | None = None) -> Scope:
        """The scope of a function's body."""
        scope = cls(package, is_set_call)
        scope._add_parameters(node.args)
        for statement in node.body if isinstance(node.body, list) else ():
            for inner in _own_nodes(statement):
                scope._bind(inner)
        scope.names -= scope.globals
        return scope

    @classmethod
    def of_names(cls, targets: Iterator[ast.expr] | list[ast.expr], package: str) -> Scope:
        """The scope of a comprehension or class body that binds these targets."""
        scope = cls(package)
        for target in targets:
            scope.names |= {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
        return scope

    def _add_parameters(self, arguments: ast.arguments) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        everything = [*positional, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for argument in everything:
            if argument is None:
                continue
            self.names.add(argument.arg)
            if argument.annotation is not None and is_set_annotation(argument.annotation):
                self.sets.add(argument.arg)
        defaults = [
            *zip(reversed(positional), reversed(arguments.defaults), strict=False),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        for argument, default in defaults:
            if default is not None and is_container(default):
                self.shared_defaults.add(argument.arg)

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                self.names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                self.names.add(name)
            case ast.Import() | ast.ImportFrom():
                for name, dotted in imported_names(node, self.package).items():
                    self.imports.setdefault(name, []).append(dotted)
            case ast.Global(names=names):
                self.globals.update(names)
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                self.names.add(name)
            case _:
                pass
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and is_set_annotation(node.annotation)
        ):
            self.sets.add(node.target.id)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            (self.sets.add if self.is_set(node.value) else self.sets.discard)(name)
            if is_sequence(node.value):
                self.sequences.add(name)

    def is_set(self, value: ast.expr) -> bool:
        """Whether an expression surely is a set."""
        match value:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name(id=name):
                return name in self.sets
            case ast.Call(func=ast.Name(id="set" | "frozenset" as name)) if name not in self.names:
                return True
            case ast.Call(func=function) if self._is_set_call is not None and self._is_set_call(function):
                return True
            case ast.Call(func=ast.Attribute(value=inner, attr=name)):
                return name in _SET_METHODS and self.is_set(inner)
            case ast.BinOp(left=left, op=operator, right=right):
                return isinstance(operator, _SET_OPERATORS) and (self.is_set(left) or self.is_set(right))
            case _:
                return False


def gives_set(node: ast.AST, package: str) -> bool:
    """Whether a function surely gives a set: it says so, or returns nothing else."""
    if not isinstance(node, ast.FunctionDef):
        return False
    if node.returns is not None:
        return is_set_annotation(node.returns)
    scope = Scope.of_function(node, package)
    own = [each for statement in node.body for each in _own_nodes(statement)]
    given = [each.value for each in own if isinstance(each, ast.Return)]
    return bool(given) and all(value is not None and scope.is_set(value) for value in given)


def is_sequence(value: ast.expr) -> bool:
    """Whether an expression surely is a text, a byte string or a list: adding to it keeps an order."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, str | bytes)
    return isinstance(value, ast.JoinedStr | ast.List | ast.ListComp)


def is_set_annotation(annotation: ast.expr) -> bool:
    """Whether an annotation says `set[...]` or one of its kin."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.partition("[")[0].strip() in _SETS
    base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
    return name in _SETS


def set_fields(classes: Iterable[ast.ClassDef]) -> frozenset[str]:
    """Names of fields that are sets in every class that has them."""
    sets: set[str] = set()
    others: set[str] = set()
    for node in classes:
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                (sets if is_set_annotation(field.annotation) else others).add(field.target.id)
    return frozenset(sets - others)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it that belong to the same function."""
    yield node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return
    for child in ast.iter_child_nodes(node):
        yield from _own_nodes(child)
