"""Two runs of one history, compared step by step: the n-th step of a cell in each belongs together.

Compared are how a step ended, its state, the events it emitted and the effects it asked for. Values are
compared as the new manifest means them: what was recorded goes through its upcasters, and fields that the
recorded schema does not have are left out. A step that only one run has counts too.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple

from cellule.errors import CelluleError, Rejected
from cellule.kernel.decide.eras import CodeUnavailable, Eras
from cellule.kernel.journal.codes import DROPPED, Status
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.records import StepRecord
from cellule.kernel.limits import SHADOW_EXAMPLES_MAX
from cellule.kernel.manifest import upcasts
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.need import Need, Nodes, fetch
from cellule.kernel.program import StepFault
from cellule.kernel.prove.recorded_step import RecordedStep
from cellule.values.cbor import decode_trusted
from cellule.values.envelope import value_of
from cellule.values.link import Link
from cellule.values.schema import types as t
from cellule.values.schema.compatibility import project

Cell = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class ShadowDifference:
    """The first difference of one cell: `before` is what was recorded, `after` what the new code gives."""

    module: str
    key: bytes
    height: int  # of the recorded step; 0 where only the new run has one
    aspect: str
    before: Any
    after: Any


class Step(NamedTuple):
    """A step of a run, and the beat it was in."""

    found: RecordedStep
    era: Manifest
    beat: int
    now_ns: int
    entropy: bytes


@dataclass(slots=True)
class Tally:
    """What was compared: differences by aspect, the cells that have some, and their first ones."""

    steps: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    cells: dict[Cell, set[str]] = field(default_factory=dict)
    examples: list[ShadowDifference] = field(default_factory=list)

    def add(self, difference: ShadowDifference) -> None:
        """Count a difference; the first one of a cell may become an example."""
        cell = (difference.module, difference.key)
        self.counts[difference.aspect] += 1
        if cell not in self.cells and len(self.examples) < SHADOW_EXAMPLES_MAX:
            self.examples.append(difference)
        self.cells.setdefault(cell, set()).add(difference.aspect)


class Comparison:
    """Takes the frames of both runs and compares what they have in common so far."""

    def __init__(self, eras: Eras, nodes: Nodes) -> None:
        self.tally = Tally()
        self.recorded: dict[Cell, deque[Step]] = {}
        self._run: dict[Cell, deque[Step]] = {}
        self._eras = eras
        self._nodes = nodes
        self.ahead = 0  # steps that only one of the two has so far

    def note(self, frame: Frame, *, recorded: bool) -> Generator[Need, None, None]:
        """Take the steps of a frame of one run."""
        steps = self.recorded if recorded else self._run
        header = frame.header
        for height, record in frame.of(StepRecord):
            if record.status == DROPPED or "control" in record.extras:
                continue  # no code ran
            era = (yield from self._eras.era(record.era)).manifest
            step = Step(
                RecordedStep.of(frame, height, record), era, header.beat, header.now_ns, header.entropy
            )
            steps.setdefault((record.module, record.key), deque()).append(step)
            self.ahead += 1

    def compare(self) -> Generator[Need, None, None]:
        """Compare the steps that both runs have."""
        for cell in [cell for cell in self._run if cell in self.recorded]:
            old, new = self.recorded[cell], self._run[cell]
            while old and new:
                self.ahead -= 2
                yield from self._pair(cell, old.popleft(), new.popleft())
            for steps in (self.recorded, self._run):
                if not steps[cell]:
                    del steps[cell]

    def end(self) -> None:
        """Count the steps that only one run has."""
        for cell, steps in self.recorded.items():
            for step in steps:
                told = Status(step.found.step.status).name.lower()
                self.tally.add(ShadowDifference(*cell, step.found.height, "missing steps", told, None))
        for cell, steps in self._run.items():
            for step in steps:
                told = Status(step.found.step.status).name.lower()
                self.tally.add(ShadowDifference(*cell, 0, "further steps", None, told))

    def _pair(self, cell: Cell, old: Step, new: Step) -> Generator[Need, None, None]:
        self.tally.steps += 1
        height, before, after = old.found.height, old.found.step, new.found.step
        ends = [_ending(before), _ending(after)]
        if ends[0] != ends[1]:
            self.tally.add(ShadowDifference(*cell, height, "outcomes", *ends))
            return
        values: dict[str, tuple[list[Any], list[Any]]] = {
            "states": ([], []),
            "events": ([], []),
            "effects": ([], []),
        }
        for at, step in enumerate((old, new)):
            module = step.era.modules.get(cell[0])
            schema = module.state if module is not None and not step.found.step.extras.get("log") else ""
            values["states"][at].append((schema, step.found.step.state))
            for event in step.found.emitted:
                values["events"][at].append((event.schema, event.value, event.schema.partition("@")[0]))
            for each in step.found.asked:
                effect = step.era.effects.get(each.kind)
                asked = ("" if effect is None else effect.params, each.params)
                values["effects"][at].append((*asked, each.kind, each.extras.get("key")))
        for aspect, (one, other) in values.items():
            found = yield from self._differs(old.era, one, other)
            if found is not None:
                self.tally.add(ShadowDifference(*cell, height, aspect, *found))

    def _differs(
        self, old: Manifest, before: list[Any], after: list[Any]
    ) -> Generator[Need, None, tuple[Any, Any] | None]:
        """The first of two lists of values that is not the same in both."""
        for one, other in zip_longest(before, after):
            shown: list[Any] = [(yield from self._value(one)), (yield from self._value(other))]
            if one is None or other is None:
                return _told(one, shown[0]), _told(other, shown[1])
            if None not in shown:
                shown[0] = yield from self._upcast(one[0], other[0], shown[0])
                shown = [_plain(each) for each in shown]
                if one[0] == other[0]:
                    shown[1] = _projected(old, one[0], shown[1])
            if shown[0] != shown[1] or one[2:] != other[2:]:
                return _told(one, shown[0]), _told(other, shown[1])
        return None

    def _value(self, side: Any) -> Generator[Need, None, Any]:
        return None if side is None else (yield from self._bytes(side[1]))

    def _bytes(self, stored: Any) -> Generator[Need, None, bytes | None]:
        if stored is None:
            return None
        held = value_of(stored)
        if isinstance(held, Link):
            return (yield from fetch(self._nodes, (held.cid,)))[held.cid]
        return held

    def _upcast(self, old: str, new: str, data: bytes) -> Generator[Need, None, bytes]:
        """What was recorded, as the new manifest means it; as it is where no way leads there."""
        if old == new or not old:
            return data
        try:
            chain = upcasts.path(self._eras.current.manifest, old, new)
            return data if chain is None else (yield from self._eras.upcast(self._eras.current, chain, data))
        except (Rejected, StepFault, CodeUnavailable):
            return data


def _ending(step: StepRecord) -> str:
    code = step.extras.get("code", "")
    return f"{Status(step.status).name.lower()}{f' [{code}]' if code else ''}"


def _told(side: Any, value: Any) -> Any:
    """A value as people are told of it: events and effects with their names."""
    if side is None:
        return None
    value = _plain(value) if isinstance(value, bytes) else value
    return {side[2]: value} if len(side) > 2 else value


def _plain(data: bytes) -> Any:
    try:
        return decode_trusted(data)
    except CelluleError:
        return data


def _projected(manifest: Manifest, schema: str, value: Any) -> Any:
    if schema not in manifest.schemas:
        return value
    try:
        return project(value, t.Ref(schema), manifest.schemas)
    except (CelluleError, LookupError, TypeError, ValueError, AttributeError):
        return value
