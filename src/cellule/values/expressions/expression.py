"""`compile_expression` and `Expression`.

Compiled once, evaluated often: an evaluation reads the paths the expression mentions, runs the functions it
was compiled to and checks the answer. Neither reads anything but its arguments; an expression may be shared
by threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellule.errors import Rejected
from cellule.values.expressions.arguments import ABSENT, Path, Sizes, answer
from cellule.values.expressions.compiler import Compiler
from cellule.values.expressions.fault import ExpressionFault, Refusal
from cellule.values.expressions.limits import INT_MAX, INT_MIN, SIZE_MIN, TEXT_BYTES_MAX, size_max
from cellule.values.expressions.operators import check_is
from cellule.values.expressions.parser import parse
from cellule.values.expressions.scope import Frame, Run, Scope
from cellule.values.schema.registry import NO_SCHEMAS, Schemas
from cellule.values.schema.types import Schema


class Expression:
    """A compiled expression; make one with `compile_expression`."""

    __slots__ = ("_gives_bool", "_run", "_size_max", "_slots", "text")

    def __init__(
        self,
        text: str,
        run: Run,
        slots: tuple[tuple[Path | None, int], ...],
        size_max: int,
        gives_bool: bool,
    ) -> None:
        self.text = text
        self._run = run
        self._slots = tuple((path, _field_of(path), uses) for path, uses in slots)
        self._size_max = size_max
        self._gives_bool = gives_bool

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    @property
    def paths(self) -> tuple[Path, ...]:
        """What it reads of its arguments."""
        return tuple(path for path, _, _ in self._slots if path is not None)

    def evaluate(self, arguments: Mapping[str, Any]) -> Any:
        """Return the value for `arguments`, plain values by name; raises `ExpressionFault`."""
        value = self._run(self._frame(arguments))
        if not self._gives_bool:
            return answer(value)
        if value.__class__ is not bool:
            raise ExpressionFault("values.expression_not_bool", "the expression gave no boolean")
        return value

    def _frame(self, arguments: Mapping[str, Any]) -> Frame:
        frame: Frame = []
        size = 0
        for path, field, uses in self._slots:
            if path is None:
                frame.append(None)
                continue
            if field is None:
                value = path.read(arguments)
            else:  # most paths are one field of an argument
                holder = arguments.get(path.root)
                value = holder.get(field, ABSENT) if holder.__class__ is dict else ABSENT
            if value.__class__ is int and INT_MIN <= value <= INT_MAX:
                size += uses
                frame.append(value)
                continue
            sizes = Sizes()
            frame.append(sizes.bound(value, path))
            size += sizes.size * uses
        if size > self._size_max:
            raise ExpressionFault(
                "values.expression_cost",
                f"the values have size {size}, and the expression is for at most {self._size_max}",
            )
        return frame


def compile_expression(
    text: str, variables: Mapping[str, Schema | None], *, gives_bool: bool, schemas: Schemas = NO_SCHEMAS
) -> Expression:
    """Compile `text`, which sees `variables` and nothing else; raises `Rejected` with line, column and hint.

    A variable's schema, which may refer to `schemas`, says what its paths are; `None` lets any path pass.

    >>> near = compile_expression("o.price < 9 && o.to in ['DE', 'FR']", {"o": None}, gives_bool=True)
    >>> near.evaluate({"o": {"price": 8, "to": "FR"}})
    True
    """
    for name, schema in variables.items():
        if schema is not None:
            schemas.check(schema, name)
    try:
        _check_text(text)
        return _compiled(text, Scope(text, variables, schemas), gives_bool)
    except Refusal as refusal:
        raise refusal.rejected(text) from None


def _field_of(path: Path | None) -> str | None:
    """The field, of a path that is one field of an argument."""
    if path is None or path.asks or len(path.steps) != 1:
        return None
    step = path.steps[0]
    return step if isinstance(step, str) else None


def _check_text(text: str) -> None:
    try:
        length = len(text.encode())
    except UnicodeEncodeError as error:
        raise Refusal(
            "values.expression_syntax", error.start, "half of a surrogate pair is no character"
        ) from None
    if length > TEXT_BYTES_MAX:
        raise Rejected(
            "values.expression_too_long", "The expression has {length} bytes; the most is {most}.",
            length=length, most=TEXT_BYTES_MAX, hint="Split it into several rules.",
        )  # fmt: skip


def _compiled(text: str, scope: Scope, gives_bool: bool) -> Expression:
    node = parse(text)
    term = Compiler(scope).compile(node)
    if gives_bool:
        check_is(term.kind, "bool", node.at, "the expression")
    most = size_max(term.work)
    if most < SIZE_MIN:
        hint = "Nest fewer macros, or shorten the lists."
        raise Refusal("values.expression_cost", node.at, "the expression could take too long", hint)
    slots = tuple((path, 0 if path is None else scope.uses[path]) for path in scope.slots)
    return Expression(text, term.run, slots, most, gives_bool)
