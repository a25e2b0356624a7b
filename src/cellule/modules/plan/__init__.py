"""Plans: steps with guarded edges, written as data. See docs/formats/plans.md."""

from __future__ import annotations

from cellule.modules.plan.kind import PlanPrograms

__all__ = ["PlanPrograms"]
