"""The ways to write a cell that a node knows, by the manifest's `code.kind`.

A new way is one package with a `CodeKind` and one line in the assembly. Code of a kind that is not known is
refused when a world is made, deployed to or opened. A module without code may stand in a manifest: its cells
wait until code is deployed. The output of a kind that is not trusted is checked here, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Protocol

from cellule.errors import Rejected
from cellule.kernel.checked_program import CheckedProgram, checked_upcaster
from cellule.kernel.manifest.model import Manifest, Module, Upcaster
from cellule.kernel.manifest.problems import near
from cellule.kernel.need import Need, Nodes
from cellule.kernel.program import ModuleCode, Program, Programs, UpcasterCode
from cellule.values.cid import Cid


class CodeKind(ModuleCode, Protocol):
    """One way to write modules; it writes upcasters, too, if it is also an `UpcasterCode`."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The values of `code.kind` that it runs."""

    @property
    def trusted(self) -> bool:
        """Whether its programs prove their output themselves; if not, the kernel does."""


class ProgramKinds:
    """`Programs` by kind."""

    def __init__(self, *kinds: CodeKind) -> None:
        self._kinds = {name: kind for kind in kinds for name in kind.kinds}

    def check(self, code: Mapping[str, Any], what: str) -> None:
        """See `Programs.check`; no code at all is fine, a kind that nobody knows is not."""
        if code:
            self._kind(code, what).check(code, what)

    def program(self, manifest: Manifest, module: Module, nodes: Nodes) -> Generator[Need, None, Program]:
        """See `Programs.program`."""
        kind = self._kind(module.code, module.name)
        program = yield from kind.program(manifest, module, nodes)
        return program if kind.trusted else CheckedProgram(program, manifest, module)

    def upcaster(
        self, manifest: Manifest, upcaster: Upcaster, nodes: Nodes
    ) -> Generator[Need, None, Callable[[bytes], bytes]]:
        """See `Programs.upcaster`."""
        kind = self._kind(upcaster.code, upcaster_name(upcaster))
        if not isinstance(kind, UpcasterCode):
            raise _no_upcaster(upcaster)
        function = yield from kind.upcaster(manifest, upcaster, nodes)
        return function if kind.trusted else checked_upcaster(function, manifest, upcaster)

    def pack(
        self, code: Mapping[str, Any], folder: str | None, what: str
    ) -> tuple[Mapping[str, Any], Mapping[Cid, bytes]]:
        """See `Programs.pack`; no code stays none."""
        return self._kind(code, what).pack(code, folder, what) if code else (code, {})

    def _kind(self, code: Mapping[str, Any], what: str) -> CodeKind:
        if not code:
            raise Rejected(
                "kernel.code_missing", "{what} has no code", what=what,
                hint="Deploy a manifest whose `code` names it; its cells keep their events until then.",
            )  # fmt: skip
        name = code.get("kind")
        found = self._kinds.get(name) if isinstance(name, str) else None
        if found is None:
            known = ", ".join(sorted(self._kinds)) or "none"
            raise Rejected(
                "kernel.code_kind", "the code of {what} is of kind {kind!r}; this node runs: {known}",
                what=what, kind=name, known=known, hint=near(str(name), self._kinds),
            )  # fmt: skip
        return found


def check_code(manifest: Manifest, programs: Programs) -> None:
    """Refuse a manifest with code that can never run here."""
    for module in manifest.modules.values():
        programs.check(module.code, module.name)
    for group in manifest.upcasters.values():
        for upcaster in group:
            programs.check(upcaster.code, upcaster_name(upcaster))


def _no_upcaster(upcaster: Upcaster) -> Rejected:
    return Rejected(
        "kernel.upcaster_kind", "{what} is code of kind {kind}, in which only modules are written",
        what=upcaster_name(upcaster), kind=upcaster.code["kind"], hint="Write it in Python, or as WASM.",
    )  # fmt: skip


def upcaster_name(upcaster: Upcaster) -> str:
    """An upcaster as messages call it."""
    return f"the upcaster {upcaster.old} -> {upcaster.new}"


def load_all(manifest: Manifest, programs: Programs, nodes: Nodes) -> Generator[Need, None, None]:
    """Load all code of a manifest, so that what cannot be loaded is refused before the first event."""
    for module in manifest.modules.values():
        if module.code:
            yield from programs.program(manifest, module, nodes)
    for group in manifest.upcasters.values():
        for upcaster in group:
            yield from programs.upcaster(manifest, upcaster, nodes)
