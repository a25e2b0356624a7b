"""Kernel worlds of FSM contracts, for tests: a contract as text, its manifest, and what its journal holds."""

from __future__ import annotations

from typing import Any

from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import StepRecord
from cellule.kernel.programs import ProgramKinds
from cellule.modules.fsm import FsmPrograms
from cellule.modules.fsm.interface import interface_of
from cellule.modules.fsm.read import read_contract
from cellule.values import decode
from tests.support.kernel_world import KernelWorld

NAME = "shop/order@1"


def machine_world(
    text: str, extras: dict[str, Any] | None = None, *, fast: bool = True, **entry: Any
) -> KernelWorld:
    """A world with one module `shop/order`; `extras` are sections of the manifest, `entry` of the module."""
    contract = read_contract(text.encode(), "order.fsm.yaml")
    made = interface_of(contract, NAME, uses_now="now_ns" in text)
    document = made.document()
    document["modules"][NAME] |= entry
    for section, entries in (extras or {}).items():
        document[section] = {**document.get(section, {}), **entries}
    world = KernelWorld(document, ProgramKinds(FsmPrograms()), fast=fast)
    world.cas.update(made.blocks)
    return world


def steps(world: KernelWorld) -> list[StepRecord]:
    """The steps of the journal."""
    return [
        record
        for frame in world.frames
        for record in decode_frame(frame).records
        if isinstance(record, StepRecord)
    ]


def refusals(world: KernelWorld) -> list[tuple[str, str]]:
    """Code and text of all steps that refused or failed."""
    return [(each.extras["code"], each.extras["text"]) for each in steps(world) if "code" in each.extras]


def notes(world: KernelWorld) -> list[Any]:
    """The notes of all steps that have one."""
    return [decode(each.extras["ann"][0]) for each in steps(world) if "ann" in each.extras]
