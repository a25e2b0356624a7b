"""A shadow run: recorded history once more, in memory, under a manifest that is not deployed yet.

The world stands where the run begins, and the new manifest is its newest era, as a deploy would make it:
cells that follow move, pinned ones keep their code. Each recorded frame gives the items, the time and the
entropy of a beat; what the cells do with them is compared with the record. A step sees the height and beat
of the recorded step in whose place it stands, so that one more record elsewhere makes no difference here.
Timers fire in the first recorded beat after they are due. Nothing that this makes is ever stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from typing import Any, Protocol
from uuid import UUID

from cellule.kernel.decide.beat import BeatRun
from cellule.kernel.decide.eras import Eras
from cellule.kernel.decide.short_ways import GeneralWay
from cellule.kernel.decide.steps import Result, Stepper
from cellule.kernel.items import Beat, Pace, RefusedItem
from cellule.kernel.journal.frame import Frame, Header, decode_frame
from cellule.kernel.limits import SHADOW_CELLS_MAX, SHADOW_SETTLE_MAX, SHADOW_UNMATCHED_MAX
from cellule.kernel.lineage import Lineage
from cellule.kernel.manifest.model import Manifest, Module
from cellule.kernel.need import Need
from cellule.kernel.program import Context
from cellule.kernel.prove.shadow_compare import Cell, Comparison
from cellule.kernel.prove.shadow_inputs import Inputs
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.ledger import Ledger
from cellule.values.cid import Cid


class Standing(Protocol):
    """A restored world: where it stands, and its code."""

    world_id: UUID
    lineage: Lineage
    ledger: Ledger
    eras: Eras


class Shadow:
    """One run. `blocks` are those it made, for whoever drives it; `limited` tells why it ended early."""

    def __init__(self, world: Standing, manifest: Manifest) -> None:
        self._ledger, self._eras = world.ledger, world.eras
        self.blocks: dict[Cid, bytes] = {manifest.cid: manifest.data}
        self.frames = 0
        self.refused: Counter[str] = Counter()  # recorded events that the new manifest refuses, by code
        self.limited = ""
        era = self._eras.begin(manifest, self._ledger.height)
        self.comparison = Comparison(self._eras, self._ledger.nodes)
        self.inputs = Inputs(self._ledger.nodes, self._ledger.book, era)
        self._lineage = world.lineage
        self._stepper = _Stepper(self._ledger, self._eras, world.world_id.bytes, self.comparison)
        self._last: Header | None = None

    def apply(self, frame: Frame) -> Generator[Need, None, None]:
        """Do the beat of a recorded frame, and compare."""
        self.frames += 1
        items = yield from self.inputs.waited()
        items += yield from self.inputs.of(frame, self._eras.current.manifest)
        yield from self.comparison.note(frame, recorded=True)
        self._last = frame.header
        yield from self._beat(frame.header, items)

    def end(self) -> Generator[Need, None, None]:
        """Let the cells come to rest, and count what only one run has."""
        for _ in range(SHADOW_SETTLE_MAX):
            if self.limited or self._last is None:
                break
            items = yield from self.inputs.waited()
            done = yield from self._beat(self._last, items)
            if not done.more and not items:
                break
        else:
            self.limited = f"the cells did not come to rest within {SHADOW_SETTLE_MAX} beats"
        self.comparison.end()

    def _beat(self, header: Header, items: list[Any]) -> Generator[Need, None, Beat]:
        self._stepper.taken = Counter()
        run = BeatRun(
            self._ledger, self._eras, self._stepper, Pace(header.quota, header.burst), header.now_ns,
            header.entropy, lambda _: GeneralWay(self._ledger.ring), self._lineage,
        )  # fmt: skip
        done = yield from run.run(items)
        self.blocks.update(done.blocks)
        for outcome in done.outcomes:
            if isinstance(outcome, RefusedItem):
                self.refused[outcome.error.code] += 1
        if done.frame is not None:
            made = decode_frame(done.frame)
            self.inputs.run.note(made)
            yield from self.comparison.note(made, recorded=False)
        yield from self.comparison.compare()
        if self.comparison.ahead > SHADOW_UNMATCHED_MAX:
            self.limited = f"the two runs are more than {SHADOW_UNMATCHED_MAX} steps apart"
        elif len(self.comparison.tally.cells) > SHADOW_CELLS_MAX:
            self.limited = f"more than {SHADOW_CELLS_MAX} cells differ"
        return done

    def found(self, cids: tuple[Cid, ...]) -> Mapping[Cid, bytes]:
        """Those of the wanted nodes that this run made."""
        return {cid: self.blocks[cid] for cid in cids if cid in self.blocks}


class _Stepper(Stepper):
    """Steps that see the place of the recorded step which they stand for."""

    def __init__(self, ledger: Ledger, eras: Eras, world: bytes, comparison: Comparison) -> None:
        super().__init__(ledger, eras, world)
        self._comparison = comparison
        self.taken: Counter[Cell] = Counter()

    def compute(self, slot: Slot, height: int, entropy: bytes) -> Generator[Need, None, Result]:
        """See `Stepper`."""
        result = yield from super().compute(slot, height, entropy)
        self.taken[slot.cells.base, slot.key] += 1
        return result

    def context(
        self, key: bytes, module: Module, era: int, height: int, entropy: bytes, version: int
    ) -> Context:
        """See `Stepper`."""
        recorded = self._comparison.recorded.get((module.base, key), ())
        at = self.taken[module.base, key]
        if at >= len(recorded):
            return super().context(key, module, era, height, entropy, version)
        step = recorded[at]
        height = step.found.height
        return Context(
            self.world, module.name, key, step.beat, height, step.now_ns, step.entropy, era, version
        )
