"""Templates: values of a contract whose texts are CEL, compiled once to a function of the arguments.

Arguments are `data` (the machine's state), `event`, `key` and `now_ns`. What cannot be compiled is noted with
the line of the file; what gives no answer while it runs raises `ExpressionFault`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cellule.errors import CelluleError
from cellule.modules.fsm.contract import Placed
from cellule.modules.fsm.document import Problems
from cellule.values.expressions import Expression, compile_expression
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

Arguments = dict[str, Any]
Fill = Callable[[Arguments], Any]


class Templates:
    """Compiles the expressions of one contract; `roots` are the variables that they use."""

    def __init__(self, problems: Problems, schemas: Schemas) -> None:
        self._problems = problems
        self._schemas = schemas
        self._known: dict[tuple[str, bool, int, int], Expression | None] = {}
        self.roots: set[str] = set()

    def guard(self, placed: Placed | None, variables: Mapping[str, Schema | None]) -> Fill | None:
        """A guard as a function that answers a boolean; None where there is none."""
        if placed is None:
            return None
        if isinstance(placed.value, bool):
            answer = placed.value
            return lambda _arguments: answer
        if not isinstance(placed.value, str):
            self._problems.note("expression", placed.line, placed.field, "a guard is a CEL text")
            return None
        found = self._compiled(placed, placed.value, variables, gives_bool=True)
        return None if found is None else found.evaluate

    def value(self, placed: Placed, variables: Mapping[str, Schema | None]) -> Fill:
        """Any template."""
        return self._value(placed, placed.value, variables)

    def _value(self, placed: Placed, value: Any, variables: Mapping[str, Schema | None]) -> Fill:
        if isinstance(value, str):
            found = self._compiled(placed, value, variables, gives_bool=False)
            return (lambda _arguments: None) if found is None else found.evaluate
        if isinstance(value, list):
            items = [self._value(placed, each, variables) for each in value]
            return lambda arguments: [each(arguments) for each in items]
        if isinstance(value, dict):
            parts = {name: self._value(placed, each, variables) for name, each in value.items()}
            return lambda arguments: {name: each(arguments) for name, each in parts.items()}
        return lambda _arguments: value

    def _compiled(
        self, placed: Placed, text: str, variables: Mapping[str, Schema | None], *, gives_bool: bool
    ) -> Expression | None:
        place = (
            text,
            gives_bool,
            placed.line,
            hash(tuple(sorted((name, repr(each)) for name, each in variables.items()))),
        )
        if place in self._known:
            return self._known[place]
        found: Expression | None = None
        try:
            found = compile_expression(text, variables, gives_bool=gives_bool, schemas=self._schemas)
            self.roots |= {path.root for path in found.paths}
        except CelluleError as error:
            hint = str(
                error.fields.get("hint")
                or "A text here is CEL; a text itself needs quotes of its own: \"'paid'\"."
            )
            self._problems.note("expression", placed.line, placed.field, f"{text!r}: {error}", hint)
        self._known[place] = found
        return found
