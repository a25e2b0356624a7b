"""What the names in an expression stand for, and where paths lead; collected while it is lowered.

Every path from an argument gets a variable of its own (`v0`, `v1`); every macro's variable a fresh name
(`m1`, `m2`). A field that a schema does not have is refused here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from cellule.values.expressions import shapes
from cellule.values.expressions.fault import Refusal
from cellule.values.expressions.paths import Path
from cellule.values.expressions.syntax import Index, Literal, Name, Node, Select
from cellule.values.expressions.terms import Term
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema


class Scope:
    """One expression's names: `variables` are its arguments, `macros` the variables of the macros around.

    `spent` are the macro variables whose inner lists a loop around runs over already; `patterns` are the
    regular expressions met, with their offsets.
    """

    def __init__(self, variables: Mapping[str, Schema | None], schemas: Schemas) -> None:
        self.variables = variables
        self.schemas = schemas
        self.macros: dict[str, Term] = {}
        self.spent: set[str] = set()
        self.patterns: list[tuple[int, str]] = []
        self._uses: Counter[Path] = Counter()
        self._names: dict[Path, str] = {}
        self._macros_made = 0

    @property
    def bindings(self) -> tuple[tuple[str, Path, int], ...]:
        """Each variable of the new text, the path it stands for, and how often it occurs."""
        return tuple((name, path, self._uses[path]) for path, name in self._names.items())

    def bind(self, path: Path) -> str:
        """The variable that stands for `path`."""
        self._uses[path] += 1
        return self._names.setdefault(path, f"v{len(self._names)}")

    def macro_variable(self, schema: Schema | None) -> Term:
        """A fresh variable for a macro."""
        self._macros_made += 1
        name = f"m{self._macros_made}"
        return Term(name, kind=shapes.kind_of(schema, self.schemas), schema=schema, variable=name)

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
