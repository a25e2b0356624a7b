"""Whether the states and transitions of a contract make sense together.

Refused are: a state that nothing leads to; a state that nothing leads out of and that is not terminal; a
terminal state with a way out; a timeout whose trigger leads nowhere; and guards that overlap so that a
transition can never be taken: a guard that stands there twice, or one behind a transition without guard, or
behind one that holds wherever it does. What else overlaps is decided by the order of the file: the first
transition whose guard holds is taken, and one without a guard that stands last is the rest.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

from cellule.modules.fsm.contract import Contract, Transition
from cellule.modules.fsm.document import Problems
from cellule.modules.fsm.overlap import covers, may_both_hold


def check_graph(contract: Contract, problems: Problems) -> None:
    """Note everything that is wrong with the graph."""
    _check_reach(contract, problems)
    _check_ends(contract, problems)
    _check_guards(contract, problems)
    _check_timeouts(contract, problems)


def reachable(contract: Contract) -> set[str]:
    """The states that can be reached from the initial one, it included."""
    found, waiting = {contract.initial}, [contract.initial]
    targets = defaultdict(set)
    for each in contract.transitions:
        targets[each.source].add(each.target)
    while waiting:
        for target in targets[waiting.pop()] - found:
            found.add(target)
            waiting.append(target)
    return found


def _check_reach(contract: Contract, problems: Problems) -> None:
    found = reachable(contract)
    for state in contract.states.values():
        if state.name not in found:
            problems.note(
                "state_unreachable", state.line, f"states.{state.name}",
                f"no transitions lead from {contract.initial} to {state.name}",
                "Add a transition to it, take it out, or name another initial_state.",
            )  # fmt: skip


def _check_ends(contract: Contract, problems: Problems) -> None:
    leaving = {each.source: each for each in reversed(contract.transitions)}
    for state in contract.states.values():
        first = leaving.get(state.name)
        if first is None and state.name not in contract.terminal:
            problems.note(
                "dead_end", state.line, f"states.{state.name}", f"no transition leads out of {state.name}",
                "Add one, or list it in terminal_states.",
            )  # fmt: skip
        if first is not None and state.name in contract.terminal:
            problems.note(
                "dead_end", first.line, first.field,
                f"{state.name} is terminal, but {first.trigger} leads on",
                "Take the transition out, or the state out of terminal_states.",
            )  # fmt: skip
        if state.timeout is not None and state.name in contract.terminal:
            problems.note(
                "dead_end", state.timeout.line, state.timeout.field,
                f"{state.name} is terminal and has no time that could run out", "Take the timeout out.",
            )  # fmt: skip


def _check_guards(contract: Contract, problems: Problems) -> None:
    for group in _rivals(contract):
        for at, each in enumerate(group):
            first = next((other for other in group[:at] if _precedes(other, each)), None)
            if first is None:
                continue
            problems.note(
                "guards_overlap", each.line, each.field,
                f"it is never taken: that on {each.trigger} at line {first.line} {_why(first, each)}",
                "The first transition whose guard holds is taken; put the one without a guard last.",
            )  # fmt: skip


def overlaps(contract: Contract) -> list[tuple[Transition, Transition]]:
    """Pairs of guarded transitions that may both fit an event; the first of each is then taken."""
    return [
        (one, two)
        for group in _rivals(contract)
        for one, two in combinations(group, 2)
        if one.guard is not None and two.guard is not None and may_both_hold(_guard(one), _guard(two))
    ]


def _rivals(contract: Contract) -> list[list[Transition]]:
    """Transitions from one state on one trigger, in the order of the file."""
    groups: dict[tuple[str, str], list[Transition]] = defaultdict(list)
    for each in contract.transitions:
        groups[each.source, each.trigger].append(each)
    return list(groups.values())


def _precedes(first: Transition, second: Transition) -> bool:
    """Whether the first is taken wherever the second could be."""
    if first.guard is None:
        return True
    return second.guard is not None and (
        _guard(first) == _guard(second) or covers(_guard(first), _guard(second))
    )


def _why(first: Transition, second: Transition) -> str:
    if first.guard is None:
        return "has no guard"
    same = second.guard is not None and _guard(first) == _guard(second)
    return "has the same guard" if same else f"holds wherever it does ({_guard(first)})"


def _guard(transition: Transition) -> str:
    return "" if transition.guard is None else " ".join(str(transition.guard.value).split())


def _check_timeouts(contract: Contract, problems: Problems) -> None:
    for state in contract.states.values():
        timeout = state.timeout
        if timeout is None or state.name in contract.terminal:
            continue
        if timeout.trigger not in contract.allowed(state.name):
            problems.note(
                "trigger_unknown", timeout.line, timeout.field,
                f"no transition leads out of {state.name} on {timeout.trigger}",
                f"Add one: from_state: {state.name}, trigger: {timeout.trigger}.",
            )  # fmt: skip
    used = {each.trigger for each in contract.transitions} | (
        {contract.start.trigger} if contract.start else set()
    )
    for trigger in contract.triggers.values():
        if trigger.name not in used and not trigger.is_timer:
            problems.note(
                "trigger_unknown", trigger.line, f"triggers.{trigger.name}", "no transition is taken on it",
                "Take it out, or add a transition.",
            )  # fmt: skip
