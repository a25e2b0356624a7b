"""The `CodeKind` of aggregates: the code is data of the manifest, so there is nothing to load.

Its programs are part of Cellule and trusted: they write canonical bytes of their own schemas only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.manifest.model import Manifest, Module, Upcaster
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

    def upcaster(
        self,
        manifest: Manifest,  # noqa: ARG002 - the contract's
        upcaster: Upcaster,
        nodes: Nodes,  # noqa: ARG002 - the contract's
    ) -> Generator[Need, None, Callable[[bytes], bytes]]:
        """See `Programs.upcaster`: an aggregate is none."""
        yield from ()
        raise Rejected(
            "aggregate.upcaster", "the upcaster {old} -> {new} cannot be an aggregate", old=upcaster.old,
            new=upcaster.new, hint="Write it in Python.",
        )  # fmt: skip
