"""Finding the contract that a command is about: a file, a module of `--app`, or a module of the world."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cellule.app import App, Built
from cellule.cli.session import Session, cell_named, renderer_of
from cellule.errors import Rejected
from cellule.host.cas_fetch import fetch_block
from cellule.host.codecs import StoredCodecs
from cellule.host.ingress.cell_handle import CellHandle
from cellule.host.ingress.handles import WorldHandle
from cellule.kernel.manifest.model import Manifest, Module
from cellule.modules.fsm.contract import Contract
from cellule.modules.fsm.interface import KIND
from cellule.modules.fsm.programs import read_file
from cellule.modules.fsm.read import read_contract

_FILES: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class FoundContract:
    """A contract, and the state of the cell that was asked for."""

    contract: Contract
    current: str | None = None


def is_file(source: str) -> bool:
    """Whether a person means a file, not a module."""
    return source.endswith(_FILES) or Path(source).is_file()


def contract_in_file(file: str) -> Contract:
    """The contract of a file; `Rejected` names the lines of what is wrong."""
    path = Path(file)
    return read_contract(read_file(path), path.name)


async def contract_named(session: Session, source: str) -> FoundContract:
    """The contract of a file, module or cell (`order/o1`); of a cell with its state."""
    if is_file(source):
        return FoundContract(contract_in_file(source))
    app = session.load_app()
    if app is not None:
        built, module = built_machine(app, source)
        cid = module.code["contract"].cid
        return FoundContract(read_contract(built.blocks[cid], module.code["file"]))
    async with session.world_to_read() as world:
        manifest = await renderer_of(world).manifest()
        if source in {name for base in manifest.modules for name in (base, base.rpartition("/")[2])}:
            return FoundContract(await _stored(world, manifest, StoredCodecs(manifest).module(source)))
        _, _, cell, contract = await machine_of(world, source)
        state = await cell.state()
        return FoundContract(contract, None if state is None else str(state["state"]))


async def machine_of(
    world: WorldHandle, named: str
) -> tuple[str, Manifest, CellHandle[dict[str, object]], Contract]:
    """The module, manifest, handle and contract of a cell as people name it: `order/o1`."""
    manifest = await renderer_of(world).manifest()
    base, key = cell_named(manifest, named)
    return base, manifest, CellHandle(world, base, key), await _stored(world, manifest, base)


async def _stored(world: WorldHandle, manifest: Manifest, base: str) -> Contract:
    module = checked_machine(manifest, base)
    data = await fetch_block(world.follower.cas, module.code["contract"].cid)
    return read_contract(data, str(module.code.get("file") or base))


def built_machine(app: App, name: str) -> tuple[Built, Module]:
    """The built app and its module of that name, which is a machine."""
    built = app.build()
    base = StoredCodecs(built.manifest).module(name)
    return built, checked_machine(built.manifest, base)


def checked_machine(manifest: Manifest, base: str) -> Module:
    """A module whose code is a contract; `Rejected` for any other."""
    module = manifest.modules[base]
    if module.code.get("kind") == KIND:
        return module
    known = [name for name, each in manifest.modules.items() if each.code.get("kind") == KIND]
    hint = f"There are: {', '.join(known)}." if known else "Machines are declared with app.fsm(...)."
    raise Rejected("cli.no_machine", "{module} is no FSM", module=base, hint=hint)
