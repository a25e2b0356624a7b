"""A real kind of untrusted code for tests: `code.kind` is `template`, and the code is bytes of the CAS.

A template is canonical DAG-CBOR: for each schema the output of a step, with holes.

    {"shop/Placed@1": {"state": {"total": {"$": "event.total"}}, "reply": {"+": [{"$": "state.total"}, 1]}}}

`{"$": path}` takes a field of `event`, `state` or `ctx` (null where there is none), `{"+": [...]}` adds.
`raw` answers these very bytes, `trap` raises, `spin` runs out of fuel. It never runs Python of the author.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.abi import AbiProgram, Input, decode_context, decode_input
from cellule.kernel.manifest.model import Manifest, Module, Upcaster
from cellule.kernel.need import Need, Nodes, fetch
from cellule.kernel.program import Program, StepFault
from cellule.values import Link, cid_of, decode, encode
from cellule.values.cid import Cid

FUEL = 1_000


class TemplateKind:
    """The `CodeKind` of templates."""

    kinds = ("template",)
    trusted = False

    def check(self, code: Mapping[str, Any], what: str) -> None:
        """See `Programs.check`."""
        if not isinstance(code.get("blob"), Link):
            raise Rejected("test.template_blob", "the code of {what} has no link `blob`", what=what)

    def pack(
        self, code: Mapping[str, Any], folder: str | None, what: str
    ) -> tuple[Mapping[str, Any], Mapping[Cid, bytes]]:
        """See `Programs.pack`: the file becomes one raw block."""
        if "file" not in code or folder is None:
            return code, {}
        data = (Path(folder) / code["file"]).read_bytes()
        return code_of(data), {cid_of(data, "raw"): data}

    def program(self, manifest: Manifest, module: Module, nodes: Nodes) -> Generator[Need, None, Program]:
        """See `Programs.program`."""
        cases = yield from _cases(module.code, nodes)
        return AbiProgram.of(manifest, module, lambda data: _step(cases, data))

    def upcaster(
        self, manifest: Manifest, upcaster: Upcaster, nodes: Nodes
    ) -> Generator[Need, None, Callable[[bytes], bytes]]:
        """See `Programs.upcaster`: the case of the old schema gives the new value."""
        cases = yield from _cases(upcaster.code, nodes)
        return lambda data: encode(_Run(state=decode(data)).value(cases[upcaster.old]))


def code_of(data: bytes) -> dict[str, Any]:
    """The `code` of a manifest for a template's bytes."""
    return {"kind": "template", "blob": Link(cid_of(data, "raw"))}


def _cases(code: Mapping[str, Any], nodes: Nodes) -> Generator[Need, None, Mapping[str, Any]]:
    cid = code["blob"].cid
    found = yield from fetch(nodes, (cid,))
    cases: Any = decode(found[cid])
    return dict(cases)


def _step(cases: Mapping[str, Any], data: bytes) -> bytes:
    call: Input = decode_input(data)
    case = cases[call.schema]
    if "raw" in case:
        raw: bytes = case["raw"]
        return raw
    if "trap" in case:
        raise RuntimeError(case["trap"])
    run = _Run(
        state=None if call.state is None else decode(call.state), event=decode(call.value),
        ctx=None if call.context is None else decode_context(call.context), spin=case.get("spin", 0),
    )  # fmt: skip
    output = {name: run.part(name, part) for name, part in case.items() if name != "spin"}
    return encode({"state": None, **output})


class _Run:
    """One evaluation; it has so much fuel."""

    def __init__(self, *, spin: int = 0, **names: Any) -> None:
        self._names = names
        self._fuel = FUEL
        for _ in range(spin):
            self._burn()

    def part(self, name: str, part: Any) -> Any:
        """A field of the output: its values become bytes."""
        if name not in ("domain_events", "effects"):
            value = self.value(part)
            return None if value is None else encode(value)
        held = "value" if name == "domain_events" else "params"
        return [{**each, held: encode(self.value(each[held]))} for each in part]

    def value(self, template: Any) -> Any:
        """A value with its holes filled."""
        self._burn()
        if isinstance(template, dict):
            if "$" in template:
                return self._find(template["$"])
            if "+" in template:
                return sum(self.value(each) or 0 for each in template["+"])
            return {name: self.value(each) for name, each in template.items()}
        return [self.value(each) for each in template] if isinstance(template, list) else template

    def _find(self, path: str) -> Any:
        found: Any = self._names
        for step in path.split("."):
            found = None if found is None else found.get(step)
        return found

    def _burn(self) -> None:
        if self._fuel == 0:
            raise StepFault("test.fuel", "the template ran out of fuel")
        self._fuel -= 1
