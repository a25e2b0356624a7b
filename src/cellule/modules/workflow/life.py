"""A run that shows its life as an operation, by signals at the path of its cell; see `App.operations`.

A run that goes on anew (`ctx.again`) is the same work. One that is told to begin anew is another: the first
ends as cancelled.
"""

from __future__ import annotations

from typing import Any, Final

from cellule.kernel.heartbeat.cell_paths import cell_path
from cellule.kernel.heartbeat.shown_operations import CANCELLED, FAIL, OK, begin, end
from cellule.kernel.manifest.system import SIGNAL
from cellule.kernel.program import Emit
from cellule.modules.workflow import history
from cellule.modules.workflow.code import WorkflowCode
from cellule.values.cbor import decode_trusted, encode
from cellule.values.names import Name

_STATUS: Final = {history.COMPLETED: OK, history.FAILED: FAIL, history.CANCELLED: CANCELLED}


class Life:
    """The signals of the runs of a workflow; none for one that is no operation."""

    def __init__(self, code: WorkflowCode) -> None:
        self._shown = code.signature.mark.operation
        self._module = str(Name.parse(code.module).base)

    def begun(self, key: bytes) -> list[Emit]:
        """A run begins."""
        return self._signals(begin(cell_path(self._module, key), f"workflow/{self._module}"))

    def begun_again(self, key: bytes, *, is_over: bool) -> list[Emit]:
        """A run is told to begin anew."""
        path = cell_path(self._module, key)
        before = [] if is_over else self._signals(end(path, CANCELLED, "it was told to begin anew"))
        return [*before, *self.begun(key)]

    def ended(self, key: bytes, entry: bytes) -> list[Emit]:
        """A run is over; `entry` is the last of its history."""
        if not self._shown:
            return []
        found: Any = decode_trusted(entry)
        _, _, status, value = found
        summary = f"{value[0]}: {value[1]}" if status == history.FAILED else None
        if status == history.CANCELLED:
            summary = value or None
        return self._signals(end(cell_path(self._module, key), _STATUS[status], summary))

    def _signals(self, given: dict[str, Any]) -> list[Emit]:
        return [Emit(SIGNAL, encode(given))] if self._shown else []
