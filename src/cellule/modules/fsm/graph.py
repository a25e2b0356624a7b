"""Whether the states and transitions of a contract make sense together.

Refused are: a state that nothing leads to; a state that nothing leads out of and that is not terminal; a
terminal state with a way out; a timeout whose trigger leads nowhere; and guards that overlap so that a
transition can never be taken: a guard that stands there twice, or one behind a transition without guard. What
else overlaps is decided by the order of the file: the first transition whose guard holds is taken, and one
without a guard that stands last is the rest.
"""

from __future__ import annotations

from collections import defaultdict

from cellule.modules.fsm.contract import Contract, Transition
from cellule.modules.fsm.document import Problems


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
    groups: dict[tuple[str, str], list[Transition]] = defaultdict(list)
    for each in contract.transitions:
        groups[each.source, each.trigger].append(each)
    for group in groups.values():
        seen: dict[str, Transition] = {}
        for each in group:
            text = "" if each.guard is None else " ".join(str(each.guard.value).split())
            first = seen.get("", seen.get(text))
            if first is not None:
                why = "the same guard" if text and "" not in seen else "no guard"
                problems.note(
                    "guards_overlap", each.line, each.field,
                    f"it is never taken: the transition on {each.trigger} at line {first.line} has {why}",
                    "The first transition whose guard holds is taken; put the one without a guard last.",
                )  # fmt: skip
            seen.setdefault(text, each)


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
