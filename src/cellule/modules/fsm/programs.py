"""`FsmPrograms`: the `CodeKind` of FSM contracts.

    written   {kind: fsm, file: order.fsm.yaml}
    stored    {kind: fsm, file: order.fsm.yaml, contract: <link to its bytes>, events?: {trigger: schema}}

The file's own bytes are stored, so complaints of a later load still name its lines. Programs prove their
output themselves (`machine.py`), so the kind is trusted.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from cellule.errors import Rejected
from cellule.kernel.manifest.model import Manifest, Module
from cellule.kernel.need import Need, Nodes, fetch
from cellule.kernel.program import Program
from cellule.modules.fsm.interface import KIND, derived_events, manual_event, state_schema
from cellule.modules.fsm.limits import CONTRACT_BYTES_MAX
from cellule.modules.fsm.machine import Machine
from cellule.modules.fsm.program import FsmProgram
from cellule.modules.fsm.read import read_contract
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Link
from cellule.values.names import Name
from cellule.values.schema import types as t

_FIELDS = ("kind", "file", "contract", "events")


class FsmPrograms:
    """See `CodeKind`."""

    kinds = (KIND,)
    trusted = True

    def __init__(self) -> None:
        self._programs: dict[tuple[Cid, str], Program] = {}

    def check(self, code: Mapping[str, Any], what: str) -> None:
        """See `Programs.check`."""
        unknown = [name for name in code if name not in _FIELDS]
        if unknown:
            _refuse(what, f"there is no field {unknown[0]!r}; there are {', '.join(_FIELDS)}")
        if not isinstance(code.get("contract"), Link):
            _refuse(what, "the link `contract` is missing")
        events = code.get("events", {})
        if not isinstance(events, Mapping) or not all(isinstance(each, str) for each in events.values()):
            _refuse(what, "`events` is a map of triggers to schemas")
        if not isinstance(code.get("file", ""), str):
            _refuse(what, "`file` is the name of a file")

    def pack(
        self, code: Mapping[str, Any], folder: str | None, what: str
    ) -> tuple[Mapping[str, Any], Mapping[Cid, bytes]]:
        """See `Programs.pack`: the file becomes one raw block; it is read and checked first."""
        if "contract" in code:
            return code, {}
        file = code.get("file")
        if not isinstance(file, str) or folder is None:
            _refuse(what, "the name of its `file` and the folder of code are needed")
        data = read_file(Path(folder) / file)
        read_contract(data, file)
        cid = cid_of(data, "raw")
        return {**code, "contract": Link(cid)}, {cid: data}

    def program(self, manifest: Manifest, module: Module, nodes: Nodes) -> Generator[Need, None, Program]:
        """See `Programs.program`."""
        known = self._programs.get((manifest.cid, module.name))
        if known is not None:
            return known
        self.check(module.code, module.name)
        cid = module.code["contract"].cid
        found = yield from fetch(nodes, (cid,))
        contract = read_contract(found[cid], str(module.code.get("file") or module.name))
        name = Name.parse(module.name)
        events = {**derived_events(contract, name.namespace), **module.code.get("events", {})}
        effects = {kind: manifest.effects[kind].params for kind in module.effects_emitted}
        machine = Machine(contract, manifest.schemas, events, effects, module.key)
        _check_fits(machine, manifest, module, {*events.values(), manual_event(name)})
        made = self._programs[manifest.cid, module.name] = FsmProgram(machine, module, manifest.schemas)
        return made


def read_file(path: Path) -> bytes:
    """The bytes of a contract's file; raises `Rejected` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(CONTRACT_BYTES_MAX + 1)
    except OSError as error:
        raise Rejected(
            "fsm.file", "the contract {file} cannot be read: {why}", file=str(path),
            why=error.strerror or error,
            hint="Name a YAML file, relative to the folder of the code.",
        ) from error  # fmt: skip


def _check_fits(machine: Machine, manifest: Manifest, module: Module, events: set[str]) -> None:
    """Refuse a manifest whose entry does not fit; `cellule fsm manifest FILE` writes one that does."""
    wanted, found = state_schema(machine.contract), manifest.schemas.resolve(t.Ref(module.state))
    if found != wanted:
        _refuse(module.name, f"its state {module.state} is no record of `state`, `visit` and its data")
    missing = sorted(events - {manual_event(Name.parse(module.name))} - set(module.events))
    if missing:
        _refuse(module.name, f"it does not take {missing[0]}")
    if (machine.uses_now or machine.contract.announce) and not module.context:
        _refuse(module.name, "it reads the time or announces, so it needs `context: true`")


def _refuse(what: str, problem: str) -> NoReturn:
    raise Rejected(
        "fsm.code", "the code of {what}: {problem}", what=what, problem=problem,
        hint="cellule fsm manifest FILE writes a manifest that fits a contract.",
    )  # fmt: skip
