"""What the names in an expression stand for, and where paths lead; collected while it is compiled.

Every part of an expression becomes a `Term`: a function of the frame, and what is known of its value. A frame
is a list with a slot for every path from an argument and one for every macro's variable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cellule.values.expressions import shapes
from cellule.values.expressions.arguments import ABSENT, Path
from cellule.values.expressions.fault import ExpressionFault, Refusal, position
from cellule.values.expressions.limits import ONE, Work
from cellule.values.expressions.shapes import Kind
from cellule.values.expressions.syntax import Index, Literal, Name, Node, Select
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

Frame = list[Any]
Run = Callable[[Frame], Any]


class Term(NamedTuple):
    """A part of an expression; `variable` is the slot of the macro's variable that a path begins at."""

    run: Run
    kind: Kind = None
    work: Work = ONE
    schema: Schema | None = None
    variable: int | None = None
    is_argument: bool = False


class Scope:
    """One expression's names: `variables` are its arguments, `macros` the variables of the macros around.

    `slots` holds the path that each slot of a frame is for, None for a macro's variable; `uses` how often a
    path is mentioned; `spent` the macro variables whose inner lists a loop around runs over already.
    """

    def __init__(self, text: str, variables: Mapping[str, Schema | None], schemas: Schemas) -> None:
        self.text = text
        self.variables = variables
        self.schemas = schemas
        self.macros: dict[str, Term] = {}
        self.spent: set[int | None] = set()
        self.slots: list[Path | None] = []
        self.uses: Counter[Path] = Counter()

    def place(self, at: int) -> str:
        """Where a fault arises, to end its text with."""
        line, column = position(self.text, at)
        return f" at line {line}, column {column}" if "\n" in self.text else f" at column {column}"

    def read(self, path: Path, at: int) -> Run:
        """What reads the value at `path` from a frame."""
        if path not in self.uses:
            self.slots.append(path)
        self.uses[path] += 1
        slot = self.slots.index(path)
        missing = f"there is no {path.missing}{self.place(at)}"

        def run(frame: Frame) -> Any:
            value = frame[slot]
            if value is ABSENT:
                raise ExpressionFault("values.expression_missing", missing)
            return value

        return run

    def macro_variable(self, schema: Schema | None) -> tuple[int, Term]:
        """A slot for a macro's variable, and the variable."""
        slot = len(self.slots)
        self.slots.append(None)
        kind = shapes.kind_of(schema, self.schemas)
        return slot, Term(lambda frame: frame[slot], kind, schema=schema, variable=slot)

    def path(self, node: Node) -> tuple[Path, Schema | None] | None:
        """The path from an argument that `node` is, with its schema; None for anything else."""
        match node:
            case Name(name=name) if name not in self.macros and name in self.variables:
                return Path(name), self.variables[name]
            case Select(of=of, field=field) | Index(of=of, key=Literal(value=str() as field)):
                found = self.path(of)
                return found and (found[0].longer(field), self.field(found[1], field, node.at))
            case Index(of=of, key=Literal(value=int() as index)) if not isinstance(index, bool):
                found = self.path(of)
                return found and (found[0].longer(index), self.item(found[1], index, node.at))
            case _:
                return None

    def field(self, schema: Schema | None, name: str, at: int) -> Schema | None:
        """The schema of the field `name`; raises where there is none."""
        step = shapes.field_step(schema, name, self.schemas)
        if step.found:
            return step.schema
        known = f"The fields are: {', '.join(step.known)}." if step.known else "It has no fields."
        raise Refusal("values.expression_unknown_field", at, f"there is no field {name!r} here", known)

    def item(self, schema: Schema | None, index: int | None, at: int) -> Schema | None:
        """The schema of an item; `index` is None where it is not known yet. Raises where there is none."""
        step = shapes.item_step(schema, index, self.schemas)
        if step.found:
            return step.schema
        raise Refusal("values.expression_unknown_field", at, "there is no such item here")
