"""What is wrong with a plan: all problems with their places, raised as one error when a manifest is built."""

from __future__ import annotations

from typing import NamedTuple

from cellule.errors import Rejected
from cellule.modules.plan.limits import PROBLEMS_MAX


class Problem(NamedTuple):
    """One problem: its place in the plan, and what it is."""

    path: str
    text: str


class PlanProblems:
    """Collects the problems of one plan, in the order they are found."""

    def __init__(self, plan: str) -> None:
        self._plan = plan
        self._found: dict[Problem, None] = {}

    def add(self, path: str, text: str, hint: str = "") -> None:
        """Note a problem; `hint` becomes the end of its text."""
        if len(self._found) < PROBLEMS_MAX:
            self._found.setdefault(Problem(path, f"{text}. {hint}" if hint else text))

    def __len__(self) -> int:
        return len(self._found)

    def check_none(self) -> None:
        """Raise `Rejected` with all problems, if there is any."""
        if not self._found:
            return
        first, *rest = self._found
        more = "".join(f"; at {path}: {text}" for path, text in rest)
        raise Rejected(
            "plan.invalid", "plan {plan} at {path}: {text}{more}", plan=self._plan, path=first.path,
            text=first.text, more=more, problems=[tuple(each) for each in self._found],
            hint="docs/formats/plans.md shows what a plan may say.",
        )  # fmt: skip
