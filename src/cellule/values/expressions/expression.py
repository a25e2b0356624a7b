"""`compile_expression` and `Expression`: the library behind a wall of our own checks.

Compiled once, evaluated often: an evaluation binds the paths the expression mentions, runs the library's
program and checks the answer. Neither reads anything but its arguments; an expression may be shared by
threads. The library is imported at the first compilation, because it brings a terminal program with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from cellule.errors import Rejected
from cellule.values.expressions.bind import Sizes, answer
from cellule.values.expressions.fault import ExpressionFault, Refusal
from cellule.values.expressions.limits import SHOWN_CHARS_MAX, SIZE_MIN, TEXT_BYTES_MAX
from cellule.values.expressions.lower import Lowering
from cellule.values.expressions.operators import check_is
from cellule.values.expressions.parser import parse
from cellule.values.expressions.paths import ABSENT, Path
from cellule.values.expressions.scope import Scope
from cellule.values.expressions.terms import NOT_A_NUMBER, NOT_FINITE, literal_text
from cellule.values.expressions.work import size_max
from cellule.values.schema.registry import NO_SCHEMAS, Schemas
from cellule.values.schema.types import Schema

if TYPE_CHECKING:
    import cel

_UNDEFINED: Final = re.compile(r"Undefined variable or function: '([^']*)'")
_FUNCTION: Final = re.compile(r"Function '(\w+)' error")


class Expression:
    """A compiled expression; make one with `compile_expression`."""

    __slots__ = ("_bindings", "_gives_bool", "_program", "_size_max", "text")

    def __init__(
        self,
        text: str,
        program: cel.Program,
        bindings: tuple[tuple[str, Path, int], ...],
        most: int,
        gives_bool: bool,
    ) -> None:
        self.text = text
        self._program = program
        self._bindings = bindings
        self._size_max = most
        self._gives_bool = gives_bool

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def evaluate(self, arguments: Mapping[str, Any]) -> Any:
        """Return the value for `arguments`, plain values by name; raises `ExpressionFault`."""
        bound = self._bound(arguments)
        try:
            value = self._program.execute(bound)
        except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
            raise self._fault(error) from None
        if not self._gives_bool:
            return answer(value)
        if value.__class__ is not bool:
            raise ExpressionFault("values.expression_not_bool", "the expression gave no boolean")
        return value

    def _bound(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        sizes = Sizes()
        bound: dict[str, Any] = {}
        for name, path, uses in self._bindings:
            value = path.read(arguments)
            if value is ABSENT:
                continue
            before = sizes.size
            bound[name] = sizes.bound(value, path)
            sizes.size += (sizes.size - before) * (uses - 1)
        if sizes.size > self._size_max:
            raise ExpressionFault(
                "values.expression_cost",
                f"the values have size {sizes.size}, and the expression is for at most {self._size_max}",
            )
        return bound

    def _fault(self, error: Exception) -> ExpressionFault:
        match error:
            case ZeroDivisionError():
                return ExpressionFault("values.expression_division", "division by zero")
            case OverflowError():
                return ExpressionFault("values.expression_overflow", "an integer left the range of 64 bits")
            case KeyError():
                return ExpressionFault(
                    "values.expression_missing", f"there is no key {str(error)[:SHOWN_CHARS_MAX]}"
                )
            case IndexError():
                return ExpressionFault("values.expression_missing", "an index lies outside its list")
            case TypeError():
                return ExpressionFault("values.expression_types", "an operator got a value of the wrong kind")
            case _:
                return self._fault_named(str(error))

    def _fault_named(self, message: str) -> ExpressionFault:
        """Tell what happened from the one name in the library's message."""
        undefined = _UNDEFINED.search(message)
        if undefined is None:
            function = _FUNCTION.search(message)
            what = f"{function[1]}() cannot convert its value" if function else "the evaluation failed"
            return ExpressionFault("values.expression_conversion", what)
        if undefined[1] == NOT_FINITE:
            return ExpressionFault("values.expression_not_finite", "a number is not finite")
        if undefined[1] == NOT_A_NUMBER:
            return ExpressionFault("values.expression_types", "an operator got a value of the wrong kind")
        for name, path, _ in self._bindings:
            if name == undefined[1]:
                what = f"map {path.parent}" if path.asks else str(path)
                return ExpressionFault("values.expression_missing", f"there is no {what}")
        return ExpressionFault("values.expression_types", f"{undefined[1]}() got a value of the wrong kind")


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
        return _compiled(text, Scope(variables, schemas), gives_bool)
    except Refusal as refusal:
        raise refusal.rejected(text) from None


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
    term = Lowering(scope).lower(node).settled()
    if gives_bool:
        check_is(term.kind, "bool", node.at, "the expression")
    for at, pattern in scope.patterns:
        _check_pattern(at, pattern)
    most = size_max(term.work)
    if most < SIZE_MIN:
        hint = "Nest fewer macros, or shorten the lists."
        raise Refusal("values.expression_cost", node.at, "the expression could take too long", hint)
    return Expression(text, _program(node.at, term.source), scope.bindings, most, gives_bool)


def _program(at: int, source: str) -> cel.Program:
    import cel

    try:
        return cel.compile(source)
    except ValueError:
        hint = "Look at its byte strings: b'...' takes fewer escapes than a text."
        raise Refusal("values.expression_syntax", at, "the expression cannot be read", hint) from None


def _check_pattern(at: int, pattern: str) -> None:
    try:
        _program(at, f"''.matches({literal_text(pattern).source})").execute({})
    except RuntimeError:
        raise Refusal(
            "values.expression_pattern", at, "the pattern is no regular expression",
            "Close every bracket; look-around and back references do not exist here.",
        ) from None  # fmt: skip
