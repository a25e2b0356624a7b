"""What would happen if: a fork in memory, other code or events or answers, and what then differs.

The world is restored at a point, with a fork's record of its own; it gets what is asked for, and works until
it rests. Nothing is written, no effect leaves, and nothing is left when the answer is there. With `replay` it
gets the events that the world itself got from that point on, at their times, and the answers that adapters
gave; the difference is then to what really became of it.

Rejected: a stored fork that is deleted after. A crash would leave it, and its blocks would be garbage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from cellule.errors import readable
from cellule.host.branches.answers import AnswerRows, recorded_answers, scripted_answers
from cellule.host.branches.difference import WorldDifference, difference_of
from cellule.host.branches.fork import At, ForkOptions, height_of
from cellule.host.branches.point import WorldPoint, point_of, with_blocks
from cellule.host.cas_fetch import fetch_present
from cellule.host.codecs import WorldCodecs
from cellule.host.journal import Progress
from cellule.host.node import Node
from cellule.host.own.directory import WorldInfo
from cellule.host.read.reader import Reader
from cellule.kernel.index.chunk import LISTS
from cellule.kernel.index.write import build
from cellule.kernel.items import Beat, ControlItem, EventItem, ForkItem, Item, RefusedItem
from cellule.kernel.journal.codes import HALTED, SKIPPED
from cellule.kernel.journal.frame import Frame, decode_frame
from cellule.kernel.journal.records import EventRecord, StepRecord
from cellule.kernel.lineage import Lineage
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.need import Need
from cellule.kernel.state.branch import RECORDED, SCRIPTED
from cellule.kernel.world import World
from cellule.sources import uuid7
from cellule.values.cid import Cid
from cellule.values.link import Link
from cellule.values.sealed_value import is_sealed

BEATS_MAX: Final = 100_000  # beats of one run
PROBLEMS_MAX: Final = 100  # refusals and failed steps that the answer tells


@dataclass(frozen=True, slots=True)
class WhatIfOptions:
    """What is tried: other code, further events, other answers, and how much time passes after them."""

    manifest: Manifest | None = None
    code: Mapping[Cid, bytes] = field(default_factory=dict)
    events: Sequence[tuple[str, bytes]] = ()
    fork: ForkOptions = field(default_factory=ForkOptions)
    replay: bool = False
    advance: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would happen: what differs, and what went wrong on the way.

    `steps` are those that ran; `failed` and `refused` tell the first, each with its cell or event; `limited`
    says why the run ended before the world came to rest, and is empty otherwise.
    """

    difference: WorldDifference
    beats: int
    steps: int
    failed: tuple[str, ...]
    refused: tuple[str, ...]
    limited: str = ""


async def what_if(
    node: Node, info: WorldInfo, types: WorldCodecs, at: At, options: WhatIfOptions,
    progress: Progress | None = None,
) -> WhatIf:  # fmt: skip
    """Try it in memory, and compare: with `replay` to the world as it is, else to where it began."""
    reader = Reader(node, info)
    height = await height_of(reader, at)
    run = await _Run.begin(node, info, reader, height, types, options)
    if options.manifest is not None:
        await run.deploy(options.manifest, options.code)
    if options.replay:
        await run.replay(height, progress)
    for schema, value in options.events:
        await run.beat([EventItem(schema, value)])
    await run.settle(run.world.ledger.now_ns + options.advance // timedelta(microseconds=1) * 1_000)
    end = await run.point(info)
    start = await point_of(node, info, None if options.replay else height)
    found = await difference_of(start, end)
    return WhatIf(
        found, run.beats, run.steps, tuple(run.failed[:PROBLEMS_MAX]), tuple(run.refused[:PROBLEMS_MAX]),
        run.limited,
    )  # fmt: skip


class _Run:
    """One world in memory."""

    def __init__(self, world: World, lineage: Lineage, reader: Reader, node: Node) -> None:
        self.world = world
        self.blocks: dict[Cid, bytes] = {}
        self.frames: list[Frame] = []
        self.beats = self.steps = 0
        self.failed: list[str] = []
        self.refused: list[str] = []
        self.limited = ""
        self._now_ns = world.ledger.now_ns
        self._lineage = lineage
        self._reader = reader
        self._node = node
        self._cas = reader.cas

    @classmethod
    async def begin(
        cls, node: Node, info: WorldInfo, reader: Reader, height: int, types: WorldCodecs,
        options: WhatIfOptions,
    ) -> _Run:  # fmt: skip
        """Restore the world at a height, as a fork of its own."""
        world, _, _ = await node.loader.restore(info, node.cas(info.universe), upto=height, fast=False)
        own = uuid7(node.clock.now_ns(), node.entropy.bytes(10))
        lineage = info.lineage.child(own, height)
        run = cls(world.renamed(lineage), lineage, reader, node)
        answers = await _answers(reader, types, height, options)
        given = None
        if answers is not None and answers.rows:
            made = build(answers.rows, LISTS)
            assert made.root is not None
            run.blocks |= {**answers.blocks, **made.blocks}
            given = (made.root, len(answers.rows))
        fork = options.fork
        item = ForkItem(info.id.bytes, height, fork.effects, False, fork.who, fork.why, given)
        await run.beat([item], quiet=True)
        return run

    async def deploy(self, manifest: Manifest, code: Mapping[Cid, bytes]) -> None:
        """Let it go on with other code."""
        self.blocks |= {**code, manifest.cid: manifest.data}
        arguments = {"manifest": Link(manifest.cid)}
        done = await self.beat([ControlItem("deploy", "what-if", "tried out", arguments)])
        for outcome in done.outcomes:
            if isinstance(outcome, RefusedItem):
                raise outcome.error

    async def replay(self, above: int, progress: Progress | None) -> None:
        """Give it the events that the world got above a height, at their times."""
        head = await self._reader.journal.head()
        async for frame in self._reader.journal.frames(above + 1, head.height):
            items = []
            for height, record in frame.of(EventRecord):
                item = await self._event(record)
                if is_sealed(item.value):  # type: ignore[arg-type]
                    self.refused.append(f"the event at height {height} is erased")
                elif not record.cause:
                    items.append(item)
            await self.settle(frame.header.now_ns)
            if items:
                await self.beat([item for item in items if not item.system])
            if progress is not None:
                progress(frame.header.last - above, head.height - above)
            if self.limited:
                return

    async def _event(self, record: EventRecord) -> EventItem:
        value = await self._reader.bytes_of(record.value)
        return EventItem(record.schema, value, system=record.schema.startswith("sys/"))

    async def settle(self, until_ns: int) -> None:
        """Beat until nothing is to do up to a time, waking the world for its timers."""
        while not self.limited:
            done = await self.beat()
            if done.more:
                continue
            if done.wake is None or done.wake > until_ns:
                break
            self._now_ns = max(self._now_ns, done.wake)
        self._now_ns = max(self._now_ns, until_ns)

    async def beat(self, items: Sequence[Item] = (), *, quiet: bool = False) -> Beat:
        """One beat, in memory."""
        self._now_ns = max(self._now_ns, self.world.ledger.now_ns)
        answer = self.world.beat(items, self._now_ns, self._node.entropy.bytes(16), quiet=quiet)
        while isinstance(answer, Need):
            await self._reader.keys.feed(self.world.ledger.keys, answer)
            made = {cid: self.blocks[cid] for cid in answer.cids if cid in self.blocks}
            rest = tuple(cid for cid in answer.cids if cid not in made)
            answer = self.world.resume({**made, **await fetch_present(self._cas, rest)})
        await asyncio.sleep(0)  # the worlds at work here have their turns meanwhile
        self.blocks.update(answer.blocks)
        self.beats += 1
        if self.beats >= BEATS_MAX:
            self.limited = f"it was still busy after {BEATS_MAX} beats"
        self._note(answer)
        return answer

    def _note(self, beat: Beat) -> None:
        for outcome in beat.outcomes:
            if isinstance(outcome, RefusedItem):
                self.refused.append(str(outcome.error))
        if beat.frame is None:
            return
        frame = decode_frame(beat.frame)
        self.frames.append(frame)
        for _, step in frame.of(StepRecord):
            self.steps += 1
            if step.status in (HALTED, SKIPPED):
                self.failed.append(f"{step.module}/{readable(step.key)}: {step.extras.get('text', '')}")

    async def point(self, info: WorldInfo) -> WorldPoint:
        """Where it came to."""
        job: Any = self.world.snapshot()
        root = await with_blocks(job.run(), self.world.ledger.nodes, self.blocks, self._cas)
        return WorldPoint(
            f"{info.name} (what if)", self._lineage, self.world.ledger.height, root, self._cas, self._reader,
            {**self.blocks, **job.blocks}, self.frames, self.world.ledger.keys,
        )  # fmt: skip


async def _answers(
    reader: Reader, types: WorldCodecs, height: int, options: WhatIfOptions
) -> AnswerRows | None:
    if options.fork.effects == SCRIPTED:
        assert options.fork.script is not None
        return scripted_answers(options.fork.script, types, await reader.manifest_at(height))
    if options.fork.effects == RECORDED:
        return await recorded_answers(reader, height)
    return None
