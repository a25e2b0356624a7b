"""What an event costs that is more than the plainest one: the part of `ingest` without a floor.

Each way sends the same number of events, 1,000 in flight over 1,000 keys, into a world of its own on one node
with full durability. The ways and the plainest take turns; a ratio is the median of the rounds' ratios, and
tells how much of the plainest's speed a way reaches. Wall time.

Ids           each event has an id of its own, which the world remembers.
Replies       each step answers a number, which the sender waits for.
Emits         each step emits an event, which another cell steps on: two events, two steps.
Subscribers   three modules take each event: one event, three steps.
Integer keys  the key is a number.
2 kB          event and state hold a text of 2,000 bytes.
One hot key   all events go to one cell.
100 worlds    the events go to 100 worlds in turns.
"""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import cellule
from bench import ingest_ways_app as app
from bench.ingest_app import key_of
from bench.report import Row, measured, ratio
from cellule.host.ingress.handles import WorldHandle
from cellule.host.service import Cellule

KEYS = IN_FLIGHT = 1_000
EVENTS = 10_000
ROUNDS = 9
WORLDS = 100
Wait = Literal["applied", "reply"]
TEXT = "x" * 2_000


@dataclass(frozen=True, slots=True)
class Way:
    """One way to send: its event of a number, and what else is given."""

    name: str
    event: Callable[[str, int], Any]
    has_ids: bool = False
    wait: Wait = "applied"
    keys: int = KEYS
    worlds: int = 1


PLAIN = Way("the plainest", app.Plain)
WAYS = (
    Way("with ids", app.Plain, has_ids=True),
    Way("with replies", app.Asked, wait="reply"),
    Way("with an emitted event", app.Forwarded),
    Way("three subscribers", app.Shared),
    Way("integer keys", lambda key, number: app.Numbered(int(key[-8:]), number)),
    Way("2 kB values", lambda key, number: app.Large(key, number, TEXT)),
    Way("one hot key", app.Plain, keys=1),
    Way("100 worlds", app.Plain, worlds=WORLDS),
)


async def measure(*, quick: bool) -> AsyncGenerator[Row, None]:
    """Every way beside the plainest."""
    share, rounds = (50, 1) if quick else (1, ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        async with cellule.open(Path(folder) / "data", app.app) as node:
            plain = await _Sender.open(node, PLAIN, EVENTS // share)
            for way in WAYS:
                sender = await _Sender.open(node, way, EVENTS // share)
                for row in await _beside(plain, sender, rounds):
                    yield row


async def _beside(plain: _Sender, sender: _Sender, rounds: int) -> list[Row]:
    taken = [(await plain.one(), await sender.one()) for _ in range(rounds)]
    case = f"1,000 in flight, {sender.way.name}"
    return [
        ratio("ingest", case, "events vs the plainest", median(ours / its for ours, its in taken)),
        measured("ingest", case, "events", sender.count / min(its for _, its in taken), "/s"),
    ]


class _Sender:
    """One way at work on its worlds."""

    def __init__(self, way: Way, worlds: Sequence[WorldHandle], count: int) -> None:
        self.way = way
        self.count = count
        self._worlds = worlds
        self._next = 0

    @classmethod
    async def open(cls, node: Cellule, way: Way, count: int) -> _Sender:
        names = [f"{way.name.replace(' ', '-')}-{number}".lower() for number in range(way.worlds)]
        sender = cls(way, [await node.world(name) for name in names], count)
        await sender.one()  # makes the cells, outside every clock
        return sender

    async def one(self) -> float:
        """Seconds for a round of events."""
        first, self._next = self._next, self._next + self.count
        way, worlds = self.way, self._worlds
        events = [
            (
                worlds[number % len(worlds)],
                way.event(key_of(number % way.keys), number),
                f"event-{number:012d}" if way.has_ids else None,
            )
            for number in range(first, self._next)
        ]
        start = time.perf_counter()
        await _send(events, way.wait)
        return time.perf_counter() - start


async def _send(events: Sequence[tuple[WorldHandle, Any, str | None]], wait: Wait) -> None:
    under_way: deque[Any] = deque()
    for world, event, event_id in events:
        if len(under_way) >= IN_FLIGHT:
            await under_way[0].wait(wait)
            while under_way and under_way[0].finished:
                under_way.popleft()
        sent = world.send_nowait(event) if event_id is None else world.send_nowait(event, id=event_id)
        under_way.append(await sent)
    for each in under_way:
        await each.wait(wait)
