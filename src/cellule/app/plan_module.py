"""`app.plan(...)`: a plan of an app, from a file or as data; its runs are started by events of the app.

The plan becomes a module and subscriptions in the same way as in a manifest document
(`kernel/manifest/plans.py`); its steps are checked when the app is built, with file and line. The file is
read then, too, not when the plan is declared: a node that loads the app from its bundle has no such file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cellule.app.effects_config import Listed
from cellule.app.modules import check_events
from cellule.app.styles import BuildScope, DeclaredStyle, StyleDescription
from cellule.errors import Rejected
from cellule.kernel.manifest.effects import KIND_ALIASES
from cellule.kernel.manifest.model import TIMER_SET, Manifest
from cellule.kernel.manifest.plans import with_plans
from cellule.kernel.manifest.problems import Problems
from cellule.modules.plan.compile import compile_plan
from cellule.modules.plan.source import PlanFile
from cellule.values.schema.registry import NO_SCHEMAS


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredPlan(DeclaredStyle):
    """See `DeclaredModule`."""

    source: Mapping[str, Any] | Path
    triggers: Mapping[type, str]
    cap_slots: Mapping[str, str]
    operation: bool = False
    erasable: bool = False
    _read: list[PlanFile] = field(default_factory=list)

    @property
    def where(self) -> str:
        """See `DeclaredModule`."""
        return f'app.plan("{self.full.local}")'

    @property
    def effects(self) -> tuple[Listed, ...]:
        """See `DeclaredModule`: the kinds that its steps emit."""
        found = dict.fromkeys(kind for _, kind in self._kinds())
        return tuple(kind for kind in found if kind != TIMER_SET)

    def place_of(self, kind: str) -> str:
        """See `TellsPlaces`."""
        path = next((f"steps[{at}].kind" for at, each in self._kinds() if each == kind), "steps")
        return self._read[0].place(path) if self._read else f"{self.where}, {path},"

    def described(self, scope: BuildScope) -> StyleDescription:
        """See `DeclaredModule`."""
        name = str(self.full)
        check_events(scope.app, self.where, self.triggers, "is started by", system=())
        triggers = [
            {"event": scope.app.events[event].name, "plan": name, "correlate_by": by}
            for event, by in self.triggers.items()
        ]
        slots = {"cap_slots": dict(self.cap_slots)} if self.cap_slots else {}
        problems = Problems()
        shown = {"operation": True} if self.operation else {}
        erasable = {"erasable": True} if self.erasable else {}
        plan = {**self._plan(), **slots, **shown, **erasable}
        made: Any = with_plans(problems, {"plans": {name: plan}, "triggers": triggers})
        problems.check_none()
        return StyleDescription(
            self.handle, name, made["modules"][name], tuple(made["routing"]["subscriptions"]), NO_SCHEMAS
        )

    def check_in(self, manifest: Manifest) -> None:
        """Check the steps against the whole app; raises `Rejected` with file and line."""
        try:
            compile_plan(manifest, manifest.modules[str(self.full.base)])
        except Rejected as error:
            if not self._read or error.code != "plan.invalid":
                raise
            raise self._read[0].located(error) from None

    def _kinds(self) -> list[tuple[int, str]]:
        """The steps that emit an effect, and its kind."""
        steps = self._plan().get("steps")
        return [
            (at, KIND_ALIASES.get(str(step.get("kind")), str(step.get("kind"))))
            for at, step in enumerate(steps if isinstance(steps, list) else ())
            if isinstance(step, Mapping) and step.get("op") == "emit_effect"
        ]

    def _plan(self) -> Mapping[str, Any]:
        if isinstance(self.source, Mapping):
            return self.source
        if not self._read:
            self._read.append(PlanFile(self.source))
        return self._read[0].document()
