"""Forks of a `testing.World`: the same first beat as on a node, and the same answers.

What a node reads from its journal is at hand here; so what gathers recorded answers runs through without
ever waiting.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar, cast

from cellule.app.built_app import Built
from cellule.errors import InvariantBroken
from cellule.host.branches.answers import AnswerRows, recorded_answers, scripted_answers
from cellule.host.branches.fork import ForkOptions
from cellule.host.codecs import AppCodecs
from cellule.host.journal import Head
from cellule.host.read.reader import Reader
from cellule.kernel.index.chunk import LISTS
from cellule.kernel.index.write import build
from cellule.kernel.items import ForkItem
from cellule.kernel.journal.frame import Frame, decode_frame
from cellule.kernel.state.branch import RECORDED, SCRIPTED
from cellule.testing.memory_host import MemoryHost
from cellule.values.envelope import value_of

T = TypeVar("T")
SEED_STEP = 1_000_003  # between the seeds of a world's forks


def forked(host: MemoryHost, built: Built, number: int, at: int | None, options: ForkOptions) -> MemoryHost:
    """The host of a fork, after its first beat; `number` tells the forks of one world apart."""
    height, before = host.place_at(at)
    answers = _answers(host, built, height, options)
    given = None
    if answers is not None and answers.rows:
        made = build(answers.rows, LISTS)
        assert made.root is not None
        host.cas.update({**answers.blocks, **made.blocks})
        given = (made.root, len(answers.rows))
    item = ForkItem(
        host.world_id.bytes, height, options.effects, options.live, options.who, options.why, given
    )
    seed = (host.world_id.int + SEED_STEP * number) % (1 << 127)
    return host.fork(seed, height, before, item)


def _answers(host: MemoryHost, built: Built, height: int, options: ForkOptions) -> AnswerRows | None:
    if options.effects == SCRIPTED:
        assert options.script is not None
        return scripted_answers(options.script, AppCodecs(built), built.manifest)
    if options.effects == RECORDED:
        return _finished(recorded_answers(cast(Reader, _Journal(host)), height))
    return None


class _Journal:
    """What `recorded_answers` asks of a reader."""

    def __init__(self, host: MemoryHost) -> None:
        self._host = host
        self._frames = [decode_frame(frame) for frame in host.frames]
        self.journal = self

    async def head(self) -> Head:
        """Where the journal ends."""
        header = self._frames[-1].header
        return Head(header.last, header.beat, None)

    async def frames(self, first: int, last: int) -> AsyncIterator[Frame]:
        """The frames whose last heights lie between these two."""
        for frame in self._frames:
            if first <= frame.header.last <= last:
                yield frame

    async def frame(self, height: int) -> Frame:
        """The frame that holds a height."""
        return next(each for each in self._frames if each.header.last >= height)

    async def stored_bytes(self, stored: Any) -> bytes:
        """The bytes of a value that a record holds."""
        value = value_of(stored)
        return value if isinstance(value, bytes) else self._host.cas[value.cid]


def _finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise InvariantBroken("testing.fork_waits", "gathering what was recorded waited for something")
