"""The `CodeKind` of aggregates: the code is data of the manifest, so there is nothing to load.

Its programs are part of Cellule and trusted: they write canonical bytes of their own schemas only.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from cellule.kernel.manifest.model import Manifest, Module
from cellule.kernel.need import Need, Nodes
from cellule.kernel.program import Program
from cellule.modules.aggregate.program import AggregateProgram
from cellule.modules.aggregate.spec import checked_spec, read_spec
from cellule.values.cid import Cid


class AggregateKind:
    """`code.kind: aggregate`."""

    kinds = ("aggregate",)
    trusted = True

    def check(self, code: Mapping[str, Any], what: str) -> None:
        """See `Programs.check`."""
        read_spec(code, what)

    def pack(
        self,
        code: Mapping[str, Any],
        folder: str | None,  # noqa: ARG002 - the contract's
        what: str,
    ) -> tuple[Mapping[str, Any], Mapping[Cid, bytes]]:
        """See `Programs.pack`: there are no files."""
        read_spec(code, what)
        return code, {}

    def program(
        self,
        manifest: Manifest,
        module: Module,
        nodes: Nodes,  # noqa: ARG002 - the contract's
    ) -> Generator[Need, None, Program]:
        """See `Programs.program`; what does not fit the events of the module is refused here."""
        yield from ()
        return AggregateProgram(checked_spec(manifest, module))
