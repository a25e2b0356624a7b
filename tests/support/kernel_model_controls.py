"""Operators' verbs, as the rules say them: what each records and changes, and when it is refused whole.

Part of the executable specification; see `kernel_model.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from cellule.kernel.items import ControlItem
from tests.support.kernel_model_steps import Address, Park, Refusal, upcast_state

if TYPE_CHECKING:
    from tests.support.kernel_model import ModelWorld


def control(world: ModelWorld, item: ControlItem) -> int:
    """Do one control and answer the height of its record, or raise `Refusal`."""
    arguments = dict(item.arguments)
    match item.verb:
        case "pause" | "resume":
            height = _told(world, item, arguments)
            world.paused = item.verb == "pause"
        case "cell.resume":
            cells = _to_resume(world, arguments)
            height = _told(world, item, {**arguments, "cells": cells})
            for address in cells:
                _release(world, address)
        case "cell.migrate":
            height = _migrate(world, item, arguments)
        case "deploy":
            height = _told(world, item, arguments)
            world.record("manifest", height, arguments["manifest"], len(world.eras))
            before = world.eras[-1]
            world.eras.append(world.manifests[arguments["manifest"]])
            world.sweep(before, height + 1)
        case "snapshot" | "baseline":
            height = _told(world, item, arguments)
            world.record(item.verb, height, arguments["height"], arguments["snapshot"])
        case _:
            raise Refusal("kernel.verb_unknown")
    return height


def stopped(world: ModelWorld, base: str | None = None, why: str | None = None) -> list[Address]:
    """The stopped cells (of one module, for one reason), those stopped longest first."""
    found = [
        (cell.stop[1], address)
        for address, cell in world.cells.items()
        if cell.stop and base in (None, address[0]) and why in (None, cell.stop[0])
    ]
    return [address for _, address in sorted(found)]


def _told(world: ModelWorld, item: ControlItem, arguments: dict[str, Any]) -> int:
    given = item.id.bytes if isinstance(item.id, UUID) else item.id
    return world.record("control", 0, item.verb, item.who, item.why, arguments, given)


def _to_resume(world: ModelWorld, arguments: dict[str, Any]) -> list[Address]:
    if "key" not in arguments:
        return stopped(world, arguments.get("module"))
    address = (arguments["module"], arguments["key"])
    if world.cell(address).stop is None:
        raise Refusal("kernel.not_stopped")
    return [address]


def _release(world: ModelWorld, address: Address) -> None:
    cell = world.cell(address)
    if cell.stop is not None:
        cell.stop = None
        world.ring.append(address)


def _migrate(world: ModelWorld, item: ControlItem, arguments: dict[str, Any]) -> int:
    """Move cells to the current era, all or none, and let them run."""
    now = len(world.eras) - 1
    cells = _to_migrate(world, arguments)
    states = {at: _migrated(world, at, now) for at in cells if world.cell(at).state is not None}
    height = _told(world, item, {**arguments, "cells": cells})
    for address, state in states.items():
        cell = world.cell(address)
        if cell.era == now:
            continue
        told = None if world.eras[now].modules[address[0]].log else state  # of a log, only the tail is told
        world.record("migrated", height, *address, cell.born, cell.era, now, told)
        cell.state, cell.era = state, now
    for address in cells:
        _release(world, address)
    return height


def _to_migrate(world: ModelWorld, arguments: dict[str, Any]) -> list[Address]:
    if "key" not in arguments:
        return stopped(world, arguments.get("module"), "needs migration")
    address = (arguments["module"], arguments["key"])
    if world.cell(address).state is None and world.cell(address).stop is None:
        raise Refusal("kernel.no_cell")
    return [address]


def _migrated(world: ModelWorld, address: Address, now: int) -> Any:
    cell = world.cell(address)
    if cell.era != now and address[0] not in world.eras[now].modules:
        raise Refusal("kernel.no_module")
    try:
        return upcast_state(world.eras, address[0], cell, now)[0]
    except (Park, Refusal) as error:
        raise Refusal("kernel.cannot_migrate") from error
