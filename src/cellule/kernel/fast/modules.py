"""What the short ways know of a module whose program is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cellule.kernel.decide.eras import Compiled
from cellule.kernel.manifest.model import Module
from cellule.kernel.program import StepFunction, step_function


class FastModule(NamedTuple):
    """A module, and the quickest way to take its steps."""

    module: Module
    steps: Mapping[str, StepFunction]  # by schema, of those it takes as they are
    context: bool
    retains: bool


class FastModules:
    """The modules of a world's eras; one is known once its program was loaded the general way."""

    def __init__(self) -> None:
        self._eras: dict[int, dict[str, FastModule]] = {}

    def of(self, era: Compiled) -> dict[str, FastModule]:
        """The modules of an era that are known so far."""
        return self._eras.setdefault(era.number, {})

    def find(self, era: Compiled, base: str) -> FastModule | None:
        """A module of an era; None where its steps take a closer look, or its program is not loaded."""
        known = self.of(era)
        found = known.get(base)
        if found is not None or base not in era.programs:
            return found
        module = era.manifest.modules[base]
        if module.log or not module.cell_mode:
            return None
        steps = {
            schema: step_function(era.programs[base], schema)
            for schema, tag in module.events.items()
            if tag is None
        }
        retains = module.retention.ttl_ns is not None or module.retention.idle_ns is not None
        known[base] = found = FastModule(module, steps, module.context, retains)
        return found
