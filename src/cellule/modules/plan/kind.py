"""`PlanPrograms`: the `CodeKind` of plans. A plan is data of the manifest; it needs no block of the CAS."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.manifest.model import Manifest, Module
from cellule.kernel.need import Need, Nodes, fetch
from cellule.kernel.program import Program
from cellule.modules.plan.compile import compile_plan
from cellule.modules.plan.program import PlanProgram
from cellule.values.cid import Cid

PLAN = "plan"


class PlanPrograms:
    """The programs of plans, compiled once for each manifest and module."""

    def __init__(self) -> None:
        self._programs: dict[tuple[Cid, str], PlanProgram] = {}

    @property
    def kinds(self) -> tuple[str, ...]:
        """See `CodeKind.kinds`."""
        return (PLAN,)

    @property
    def trusted(self) -> bool:
        """See `CodeKind.trusted`: codecs of the schemas write every event and every request."""
        return True

    def check(self, code: Mapping[str, Any], what: str) -> None:
        """See `Programs.check`."""
        if not isinstance(code.get("plan"), Mapping) or not isinstance(code.get("triggers"), Mapping):
            raise Rejected(
                "plan.code", "the code of {what} has no plan and triggers", what=what,
                hint="Write the plan into the manifest's section `plans`.",
            )  # fmt: skip

    def pack(
        self,
        code: Mapping[str, Any],
        folder: str | None,  # noqa: ARG002
        what: str,  # noqa: ARG002
    ) -> tuple[Mapping[str, Any], Mapping[Cid, bytes]]:
        """See `Programs.pack`: a plan stands in the manifest as it is."""
        return code, {}

    def program(self, manifest: Manifest, module: Module, nodes: Nodes) -> Generator[Need, None, Program]:
        """See `Programs.program`."""
        known = self._programs.get((manifest.cid, module.name))
        if known is None:
            self.check(module.code, module.name)
            known = self._programs[manifest.cid, module.name] = PlanProgram(compile_plan(manifest, module))
        yield from fetch(nodes, ())  # it needs none: the plan stands in the manifest
        return known
