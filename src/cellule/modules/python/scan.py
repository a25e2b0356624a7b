"""Scanning one definition: which rules it breaks, and which other names of the app it reaches.

Only what is certain from the text is reported. A name that a function binds itself is its own business;
annotations are followed to classes, but using a type is no offence.
"""

from __future__ import annotations

import ast
from typing import Final

from cellule.modules.python.rules import FILE_METHODS, Finding, rule_of, rule_of_call
from cellule.modules.python.scopes import Function, Scope
from cellule.modules.python.set_uses import (
    ORDER_FREE,
    TIES,
    builds,
    has_ties,
    is_set_function,
    keeps_order,
    percent_shown,
)
from cellule.modules.python.symbols import App, SourceFile, Symbols

_MUTATORS: Final = frozenset({
    "append", "extend", "insert", "add", "update", "pop", "popitem", "remove", "discard", "clear", "sort",
    "setdefault", "reverse", "appendleft", "extendleft", "popleft", "rotate", "subtract",
})  # fmt: skip


class Scan:
    """Walks one definition; `findings` and `reached` are its result."""

    def __init__(self, symbols: Symbols, file: SourceFile, set_fields: frozenset[str]) -> None:
        self.findings: list[Finding] = []
        self.reached: set[App] = set()
        self._symbols = symbols
        self._file = file
        self._set_fields = set_fields
        self._scopes: list[Scope] = []
        self._functions: list[str] = []
        self._free: set[int] = set()

    def walk(self, node: ast.AST) -> None:
        """Scan a node and all below it."""
        handler = _HANDLERS.get(type(node))
        if handler is None:
            self._below(node)
        else:
            getattr(self, handler)(node)

    def _below(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self.walk(child)

    # Names

    def _meaning(self, node: ast.expr) -> App | str | None:
        """What an expression refers to, if that is certain."""
        if isinstance(node, ast.Name):
            for scope in reversed(self._scopes):
                if node.id in scope.imports:
                    return self._imported(scope.imports[node.id])
                if node.id in scope.names:
                    return None
            return self._symbols.lookup(self._file, node.id)
        if isinstance(node, ast.Attribute):
            base = self._meaning(node.value)
            return None if base is None else self._symbols.attribute(base, node.attr)
        return None

    def _builtin(self, node: ast.expr) -> str:
        found = self._meaning(node)
        return (
            found.removeprefix("builtins.")
            if isinstance(found, str) and found.startswith("builtins.")
            else ""
        )

    def _add(self, node: ast.AST, rule: str, what: str) -> None:
        line = getattr(node, "lineno", 1)
        self.findings.append(Finding(self._file.path, line, rule, what, getattr(node, "end_lineno", line)))

    def _imported(self, targets: list[str]) -> App | str:
        """What a name means that imports of one function bind: the last, but any of them may be what runs."""
        *others, found = [self._symbols.follow(each) for each in targets]
        for other in others:
            if isinstance(other, App) and other.symbol:
                self.reached.add(other)
            elif isinstance(other, App):  # a whole module: which of its names is meant, the last one decides
                self.reached.update(
                    App(other.module, name) for name in self._symbols.files[other.module].definitions
                )
        return found

    def _attribute(self, node: ast.Attribute) -> None:
        self._refer(node)
        self.walk(node.value)

    def _refer(self, node: ast.Name | ast.Attribute) -> None:
        found = self._meaning(node)
        if isinstance(found, App):
            self.reached.add(found)
        elif found is not None and isinstance(node.ctx, ast.Load):
            rule = rule_of(found)
            if found == "builtins.hash" and self._functions[-1:] != ["__hash__"]:
                rule = "identity"
            if rule is not None:
                self._add(node, rule, found.removeprefix("builtins."))

    # Scopes

    def _function(self, node: Function) -> None:
        scope = Scope.of_function(node, self._file.package, self._is_set_call)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.walk(default)
        name = "<lambda>"
        if not isinstance(node, ast.Lambda):
            name = node.name
            self._annotations(node)
            self._check_escape(node)
            for decorator in node.decorator_list:
                self.walk(decorator)
        self._scopes.append(scope)
        self._functions.append(name)
        for statement in node.body if isinstance(node.body, list) else [node.body]:
            self.walk(statement)
        self._functions.pop()
        self._scopes.pop()

    def _annotations(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        for annotation in (*(argument.annotation for argument in arguments), node.returns):
            if annotation is not None:
                self._annotation(annotation)

    def _annotation(self, node: ast.expr) -> None:
        """Reach the classes an annotation names; what else it says is not run."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                return
        for inner in ast.walk(node):
            found = self._meaning(inner) if isinstance(inner, ast.Name | ast.Attribute) else None
            if isinstance(found, App):
                self.reached.add(found)

    def _annotated(self, node: ast.AnnAssign) -> None:
        self._annotation(node.annotation)
        self._changed(node.target, node)
        if node.value is not None:
            self.walk(node.value)

    def _class(self, node: ast.ClassDef) -> None:
        for part in (*node.bases, *(keyword.value for keyword in node.keywords), *node.decorator_list):
            self.walk(part)
        for statement in node.body:
            self.walk(statement)

    # Changes that outlive the step

    def _global(self, node: ast.Global) -> None:
        self._add(node, "globals", f"global {', '.join(node.names)}")

    def _check_escape(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A closure that changes what it closes over and is handed out keeps a state of its own."""
        inner = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        returned = {
            each.value.id
            for each in ast.walk(node)
            if isinstance(each, ast.Return) and isinstance(each.value, ast.Name)
        }
        for name in inner.keys() & returned:
            for each in ast.walk(inner[name]):
                if isinstance(each, ast.Nonlocal):
                    self._add(
                        each, "globals", f"nonlocal {', '.join(each.names)} in a function that is handed out"
                    )

    def _assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._changed(target, node)
        self._below(node)

    def _augmented(self, node: ast.AugAssign) -> None:
        self._changed(node.target, node)
        self._below(node)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._changed(target, node)
        self._below(node)

    def _changed(self, target: ast.expr, node: ast.AST) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self._changed(part, node)
        if not self._functions or not isinstance(target, ast.Subscript | ast.Attribute):
            return
        found = self._meaning(target.value)
        if isinstance(target, ast.Attribute) and isinstance(found, App):
            self._add(node, "globals", f"{ast.unparse(target)} is changed inside a function")
        elif self._outlives(target.value):
            self._add(node, "globals", f"{ast.unparse(target.value)} is changed inside a function")

    def _outlives(self, node: ast.expr) -> bool:
        """Whether this container, or what it stands in, is shared between calls."""
        while isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name) and self._scopes and node.id in self._scopes[-1].shared_defaults:
            return True
        return bool(self._functions) and self._symbols.is_container(self._meaning(node))

    # Calls, and sets that become ordered

    def _call(self, node: ast.Call) -> None:
        found = self._meaning(node.func)
        if isinstance(found, str):
            rule = rule_of_call(found, len(node.args) + len(node.keywords))
            if rule is not None:
                self._add(node, rule, f"{found}() with {'no' if not node.args else 'only one'} argument")
        name = self._builtin(node.func)
        keys = [self._meaning(each.value) for each in node.keywords if each.arg == "key"]
        if name in TIES and any(map(has_ties, keys)):
            for argument in node.args:
                self._ordered(argument, f"{name}() of a set by a key that may be equal")
        # What does not depend on the order of its argument may be given a set.
        if name in ORDER_FREE:
            self._free.update(id(argument) for argument in node.args)
        if keeps_order(found) and id(node) not in self._free:
            for argument in node.args:
                self._ordered(argument, f"{ast.unparse(node.func)}() of a set")
        if isinstance(node.func, ast.Attribute):
            self._method(node, node.func)
        self._below(node)

    def _shown(self, node: ast.FormattedValue) -> None:
        self._ordered(node.value, "the text of a set")
        self._below(node)

    def _binary(self, node: ast.BinOp) -> None:
        for shown in percent_shown(node):
            self._ordered(shown, "the text of a set")
        self._below(node)

    def _method(self, node: ast.Call, function: ast.Attribute) -> None:
        if function.attr in _MUTATORS and self._outlives(function.value):
            self._add(node, "globals", f"{ast.unparse(function)}() changes what outlives the step")
        if function.attr in {"join", "format"}:
            for argument in node.args:
                self._ordered(argument, f"{function.attr}() of a set")
        if function.attr == "pop" and not node.args and self._is_set(function.value):
            self._add(node, "order", "pop() of a set")
        if function.attr == "astimezone" and not node.args and not node.keywords:
            self._add(node, "environment", "astimezone() without a zone")
        if function.attr in FILE_METHODS and self._file.imports.keys() & {"pathlib", "Path"}:
            self._add(node, "files", f"{function.attr}()")

    def _for(self, node: ast.For) -> None:
        inner = [each for statement in node.body for each in ast.walk(statement)]
        if any(builds(each, self._scopes) for each in inner):
            self._ordered(node.iter, "a loop over a set that builds a list or a text")
        self._below(node)

    def _list(self, node: ast.ListComp) -> None:
        self._comprehension(node, [node.elt], node.generators, "a list made from a set")

    def _other(self, node: ast.GeneratorExp | ast.SetComp) -> None:
        self._comprehension(node, [node.elt], node.generators, "")

    def _dict(self, node: ast.DictComp) -> None:
        self._comprehension(node, [node.key, node.value], node.generators, "")

    def _comprehension(
        self, node: ast.expr, parts: list[ast.expr], generators: list[ast.comprehension], what: str
    ) -> None:
        scope = Scope.of_names([generator.target for generator in generators], self._file.package)
        for generator in generators:
            if what and id(node) not in self._free:
                self._ordered(generator.iter, what)
            self.walk(generator.iter)
        self._scopes.append(scope)
        for part in (*parts, *(test for generator in generators for test in generator.ifs)):
            self.walk(part)
        self._scopes.pop()

    def _starred(self, node: ast.Starred) -> None:
        if isinstance(node.ctx, ast.Load):
            self._ordered(node.value, "* of a set")
        self._below(node)

    def _ordered(self, node: ast.expr, what: str) -> None:
        if isinstance(node, ast.GeneratorExp):
            for generator in node.generators:
                self._ordered(generator.iter, what)
        elif self._is_set(node):
            self._add(node, "order", what)

    def _is_set(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in self._set_fields and self._meaning(node.value) is None
        return bool(self._scopes) and any(scope.is_set(node) for scope in self._scopes)

    def _is_set_call(self, function: ast.expr) -> bool:
        """Whether this names a function of the app that surely gives a set."""
        return isinstance(function, ast.Name) and is_set_function(self._symbols, self._meaning(function))


_HANDLERS: Final[dict[type[ast.AST], str]] = {
    ast.Name: "_refer",
    ast.Attribute: "_attribute",
    ast.FunctionDef: "_function",
    ast.AsyncFunctionDef: "_function",
    ast.Lambda: "_function",
    ast.ClassDef: "_class",
    ast.Global: "_global",
    ast.AnnAssign: "_annotated",
    ast.Assign: "_assign",
    ast.AugAssign: "_augmented",
    ast.Delete: "_delete",
    ast.Call: "_call",
    ast.For: "_for",
    ast.ListComp: "_list",
    ast.GeneratorExp: "_other",
    ast.SetComp: "_other",
    ast.DictComp: "_dict",
    ast.Starred: "_starred",
    ast.FormattedValue: "_shown",
    ast.BinOp: "_binary",
}
