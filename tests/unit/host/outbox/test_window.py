"""How many rows are in memory, and how many bytes of them."""

from __future__ import annotations

import msgspec

from cellule.effects.adapter import adapter
from cellule.host.outbox import window
from cellule.host.outbox.attempts import Performer
from cellule.host.outbox.kind_queue import KindQueue
from cellule.host.outbox.rows import opening_rows
from cellule.host.outbox.window import Window
from cellule.testing import VirtualClock, run
from tests.support.outbox import UNIVERSE, WORLD, opening


class Work(msgspec.Struct, frozen=True):
    number: int
    text: str = ""


async def work(params: Work, attempt) -> Work:
    return params


def test_all_kinds_together_hold_no_more_bytes_than_the_window(monkeypatch):
    monkeypatch.setattr(window, "WINDOW_BYTES", 40_000)

    async def main():
        searches = []
        held = Window(lambda: searches.append(1))
        clock = VirtualClock()
        for kind in ("test.a", "test.b"):
            held.queues[kind] = KindQueue(Performer(adapter(kind)(work), None), clock)
        long = {"number": 1, "text": "x" * 1_000}
        for kind in held.queues:
            rows = opening_rows(UNIVERSE, WORLD, [opening(n, kind, params=long) for n in range(50)], 0)
            for stored in rows.stored:
                held.take_in(stored, known=True)
        kept = [len(entry.stored.value) for entry in held.entries.values()]
        longest = max(kept)
        assert 40_000 - 2 * longest <= sum(kept) < 40_000 + 2 * longest
        first, second = held.queues.values()
        assert abs(first.bytes - second.bytes) <= longest
        for entry in list(held.entries.values()):
            held.forget(entry)
        assert (first.bytes, first.count, bool(searches)) == (0, 0, True)

    run(main, seed=0)
