"""The edges of a plan: which step follows which, and that no circle of them goes round without waiting.

Edges of one step are tried in their order. A plan without `edges` runs its steps as they are listed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from cellule.modules.plan.limits import EDGES_MAX
from cellule.modules.plan.problems import PlanProblems


class EdgeDraft(NamedTuple):
    """An edge as read; `when` is an expression, None where it always holds."""

    path: str
    to: str
    when: Any


Edges = Mapping[str, Sequence[EdgeDraft]]


def read_edges(problems: PlanProblems, section: Any, ids: Sequence[str]) -> dict[str, list[EdgeDraft]]:
    """The edges by the step they leave."""
    if section is None:
        return {one: [EdgeDraft("edges", other, None)] for one, other in pairwise(ids)}
    if not isinstance(section, list) or len(section) > EDGES_MAX:
        problems.add("edges", f"a list of at most {EDGES_MAX} edges is needed")
        return {}
    found: dict[str, list[EdgeDraft]] = {}
    for at, item in enumerate(section):
        path = f"edges[{at}]"
        if not isinstance(item, Mapping) or set(item) - {"from", "to", "when"}:
            problems.add(path, "an edge is {from, to, when?}")
            continue
        ends = [item.get("from"), item.get("to")]
        for name, end in zip(("from", "to"), ends, strict=True):
            if end not in ids:
                problems.add(f"{path}.{name}", f"there is no step {end!r}")
        if all(end in ids for end in ends):
            found.setdefault(str(ends[0]), []).append(EdgeDraft(path, str(ends[1]), item.get("when")))
    return found


def check_graph(
    problems: PlanProblems, ids: Sequence[str], edges: Edges, waits: Collection[str], ends: Collection[str]
) -> None:
    """Note steps that nothing leads to, edges behind an end, and circles without a step that waits."""
    reached, left = {ids[0]}, [ids[0]]
    while left:
        for edge in edges.get(left.pop(), ()):
            if edge.to not in reached:
                reached.add(edge.to)
                left.append(edge.to)
    for step in ids:
        if step not in reached:
            problems.add(f"steps.{step}", "no edge leads to this step")
        if step in ends and edges.get(step) and edges[step][0].path != "edges":
            problems.add(edges[step][0].path, f"{step} ends the run; nothing follows it")
    circle = _circle(ids, edges, waits)
    if circle:
        problems.add(
            f"steps.{circle[0]}", f"{' -> '.join([*circle, circle[0]])} goes round without waiting",
            "Put an await_event or await_receipt into the circle.",
        )  # fmt: skip


def _circle(ids: Sequence[str], edges: Edges, waits: Collection[str]) -> list[str]:
    """A circle of steps none of which waits, or an empty list."""
    done: set[str] = set()
    for start in ids:
        if start in waits or start in done:
            continue
        trail: list[str] = [start]
        open_edges = [iter(edges.get(start, ()))]
        while trail:
            edge = next(open_edges[-1], None)
            if edge is None:
                done.add(trail.pop())
                open_edges.pop()
            elif edge.to in trail:
                return trail[trail.index(edge.to) :]
            elif edge.to not in waits and edge.to not in done:
                trail.append(edge.to)
                open_edges.append(iter(edges.get(edge.to, ())))
    return []
