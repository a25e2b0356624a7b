"""Walks through a machine: what has to happen to it for every transition and every path, found by trying.

A walk is a list of deeds that the machine's own program was seen to follow. From the initial state every deed
that leads on is tried, nearest first, until each transition was taken once; then each path to an end that
meets no state twice is walked. A transition that no example value gets past the guard of is taken by hand, as
an operator would, and its walk says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from cellule.modules.fsm.contract import Transition
from cellule.modules.fsm.limits import BEGINNINGS_MAX, PATHS_MAX, TRIES_MAX
from cellule.modules.fsm.trial import Deed, Spot, Trial

Place = tuple[int, str]


class Trail(NamedTuple):
    """A walk for a transition or path: its deeds, and the states it comes through."""

    deeds: tuple[Deed, ...]
    states: tuple[str, ...]

    @property
    def by_hand(self) -> bool:
        """Whether a part of it had to be moved by hand."""
        return any(deed.how == "move" for deed in self.deeds)


class Trails(NamedTuple):
    """All that was found; `missed` are transitions that nothing was found to lead along."""

    transitions: list[tuple[Transition, Trail]]
    paths: list[Trail]
    refused: list[tuple[Trail, Deed]]  # a walk to a state, and an event that is not possible there
    missed: list[Transition]


class Explorer:
    """Finds the walks of one machine."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._contract = trial.contract
        self._leaving: dict[str, list[Transition]] = {}
        for each in trial.contract.transitions:
            self._leaving.setdefault(each.source, []).append(each)

    def walks(self) -> Trails:
        """Every transition, path and impossible event."""
        nearest, found = self._explore()
        by_hand = self._by_hand(nearest, found)
        spots = {**found, **by_hand}
        every = self._contract.transitions
        walked = [(each, spots[_place(each)]) for each in every if _place(each) in spots]
        return Trails(
            [(each, Trail(spot.deeds, spot.states)) for each, spot in walked], self._paths(),
            list(self._impossible(nearest)), [each for each in every if _place(each) not in spots],
        )  # fmt: skip

    def _beginnings(self) -> list[Spot]:
        """A machine as it begins: not there yet, or made by its `start`, by values that guards ask for."""
        origin, start = self._trial.origin(), self._contract.start
        if start is None:
            return [origin]
        spots = (
            self._trial.after(origin, deed) for deed, _ in self._trial.event_deeds(origin, start.trigger)
        )
        found: dict[object, Spot] = {}
        for spot in islice(spots, BEGINNINGS_MAX):
            if spot is not None:
                found.setdefault(spot.identity, spot)
        return list(found.values())

    def _explore(self) -> tuple[dict[str, Spot], dict[Place, Spot]]:
        """The nearest walk to each state, and for each transition one that ends with it."""
        nearest: dict[str, Spot] = {}
        found: dict[Place, Spot] = {}
        waiting = self._beginnings()
        seen = {spot.identity for spot in waiting}
        for spot in waiting:
            nearest.setdefault(self._trial.state_of(spot), spot)
            for trigger in self._contract.allowed(self._trial.state_of(spot)):
                for transition, after in self._trial.steps(spot, trigger):
                    found.setdefault(_place(transition), after)
                    nearest.setdefault(transition.target, after)
                    if after.identity not in seen and self._trial.tries < TRIES_MAX // 2:
                        seen.add(after.identity)
                        waiting.append(after)
            if len(found) == len(self._contract.transitions):
                break
        return nearest, found

    def _by_hand(self, nearest: dict[str, Spot], found: dict[Place, Spot]) -> dict[Place, Spot]:
        """Walks for what no event was found for: moved by hand from the nearest walk to its source."""
        made: dict[Place, Spot] = {}
        for _ in self._contract.states:  # each round may reach a state that the next one goes on from
            for each in self._contract.transitions:
                before = nearest.get(each.source)
                if _place(each) in {**found, **made} or before is None:
                    continue
                after = self._trial.after(before, Deed("move", "", (each.source, each.target)))
                if after is not None:
                    made[_place(each)] = after
                    nearest.setdefault(each.target, after)
        return made

    def _paths(self) -> list[Trail]:
        """Every path from the initial state to an end that meets no state twice, up to a limit."""
        found: dict[tuple[Place, ...], Trail] = {}
        for spot in self._beginnings():
            ways = self._further(spot, frozenset({self._trial.state_of(spot)}), ())
            for places, walk in islice(ways, PATHS_MAX):
                known = found.get(places)
                if known is None or (known.by_hand and not walk.by_hand):
                    found[places] = walk
        return list(found.values())[:PATHS_MAX]

    def _further(
        self, spot: Spot, met: frozenset[str], places: tuple[Place, ...]
    ) -> Iterator[tuple[tuple[Place, ...], Trail]]:
        leaving = self._leaving.get(self._trial.state_of(spot), ())
        ways = [each for each in leaving if each.target not in met]
        if not ways and places:
            yield places, Trail(spot.deeds, spot.states)
        for each in ways:
            after = None if self._trial.is_over else self._along(spot, each)
            if after is not None:
                yield from self._further(after, met | {each.target}, (*places, _place(each)))

    def _along(self, spot: Spot, wanted: Transition) -> Spot | None:
        """A machine that took one transition: by an event, or by hand."""
        for transition, after in self._trial.steps(spot, wanted.trigger):
            if _place(transition) == _place(wanted):
                return after
        return self._trial.after(spot, Deed("move", "", (wanted.source, wanted.target)))

    def _impossible(self, nearest: dict[str, Spot]) -> Iterator[tuple[Trail, Deed]]:
        """For each state, the events that it does not take."""
        for state, spot in nearest.items():
            allowed = set(self._contract.allowed(state))
            if not spot.deeds and self._contract.start is not None:
                continue
            for trigger in self._contract.triggers.values():
                if trigger.name in allowed or trigger.receipt is not None or trigger.is_timer:
                    continue
                deed = next((deed for deed, _ in self._trial.event_deeds(spot, trigger.name)), None)
                if deed is not None:
                    yield Trail(spot.deeds, spot.states), deed


def _place(transition: Transition) -> Place:
    """What tells a transition from all others; one of several states is as many."""
    return transition.number, transition.source
