"""`where`: a CEL expression that says of each cell whether it is meant.

It sees the cell as it would be listed: `state` (upcast to the newest schema), `key`, and what stands beside
them. Values are those of the wire: times and durations are nanoseconds, decimals are text. A field without
a value is null.
"""

from __future__ import annotations

from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.state.cells import Entry
from cellule.modules.workflow.view import is_workflow, run_value
from cellule.values.cbor import decode_trusted
from cellule.values.expressions import compile_expression
from cellule.values.schema import types as t
from cellule.values.schema.compatibility import completed
from cellule.values.schema.types import Schema
from cellule.values.words import type_name

BESIDE: Final[dict[str, Schema]] = {
    "version": t.Int(), "status": t.Text(), "size": t.Int(), "queue": t.Int(), "born": t.Int(),
    "era": t.Int(), "height": t.Int(), "active_ns": t.Int(),
}  # fmt: skip


class CellFilter:
    """A compiled `where` of one module's cells; raises `Rejected` with the place of what is wrong in it."""

    def __init__(self, where: str, manifest: Manifest, base: str) -> None:
        if not isinstance(where, str):
            raise Rejected(
                "host.where", "where is a CEL expression as text, not {found}",
                found=type_name(where), hint="Write where='state.total > 100 && status == \"waiting\"'.",
            )  # fmt: skip
        self.module = manifest.modules[base]
        self._schemas = manifest.schemas
        state, key = t.Ref(self.module.state), self.module.cell_key or t.Unit()
        self._is_workflow = is_workflow(self.module)
        variables: dict[str, Schema | None] = {"state": state, "key": key, **BESIDE}
        if self._is_workflow:
            variables["state"] = None  # what readers see of a run has no schema
        self._expression = compile_expression(where, variables, gives_bool=True, schemas=manifest.schemas)

    def matches(self, key: Any, entry: Entry, data: bytes) -> bool:
        """Whether a cell is meant; `data` is its state in the newest schema. Raises `ExpressionFault`."""
        state: Any = decode_trusted(data)
        if self._is_workflow:
            state = run_value(state)
        else:
            state = completed(state, t.Ref(self.module.state), self._schemas)
        found: bool = self._expression.evaluate({
            "state": state, "key": key, "version": entry.version, "status": status_of(entry),
            "size": entry.size, "queue": len(entry.get("queue", ())), "born": entry.born, "era": entry.era,
            "height": entry.last, "active_ns": entry.active_ns,
        })  # fmt: skip
        return found


def status_of(entry: Entry) -> str:
    """`waiting`, or why the cell does not run."""
    return str(entry.get("status", "waiting"))
