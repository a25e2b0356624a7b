"""All kinds of code that Cellule runs, in one list: node, command line, builder and test kit share it.

A new way to write a cell is one package beside this file and one line here. A kind that needs a library of
its own imports it when the first of its modules is loaded, so that the base install stays small.
"""

from __future__ import annotations

from collections.abc import Iterable

from cellule.kernel.programs import ProgramKinds
from cellule.modules.aggregate import AggregateKind
from cellule.modules.enzyme.program import ENZYME, enzyme_program
from cellule.modules.fsm import FsmPrograms
from cellule.modules.plan import PlanPrograms
from cellule.modules.python import PythonPrograms
from cellule.modules.python.describe import Description
from cellule.modules.python.watchdog import LIMIT_S
from cellule.modules.wasm import WasmPrograms
from cellule.modules.workflow.program import WORKFLOW, workflow_program


class CodeKinds(ProgramKinds):
    """The programs of all kinds; close it to end the watchdog of Python code.

    The arguments are those of `PythonPrograms`.
    """

    def __init__(
        self, *, limit_s: float | None = LIMIT_S, live: Iterable[Description] = (), any_version: bool = False,
        guarded: bool = False,
    ) -> None:  # fmt: skip
        self._python = PythonPrograms(
            limit_s=limit_s, live=live, any_version=any_version, guarded=guarded,
            forms={WORKFLOW: workflow_program, ENZYME: enzyme_program},
        )  # fmt: skip
        super().__init__(self._python, AggregateKind(), FsmPrograms(), PlanPrograms(), WasmPrograms())

    def close(self) -> None:
        """End the watchdog's thread."""
        self._python.close()
