"""What `cellule dev` tells of effects beside the journal: attempts that failed, kinds that nobody performs.

A world's journal has the request and the receipt. What happens between is in the outbox, which is looked at
from time to time; each thing is told once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from rich.text import Text

from cellule.cli.lines import clock_text
from cellule.cli.session import Session
from cellule.errors import Unavailable
from cellule.host.ingress.handles import WorldHandle
from cellule.host.read.effects.model import EffectView
from cellule.kernel.state.rows import OPEN
from cellule.sources import SystemClock

LOOK_S = 1.0
SHOWN_MAX = 100  # effects looked at each time


async def watch_effects(session: Session, world: WorldHandle) -> None:
    """Tell of failed attempts and missing adapters, until cancelled."""
    told: set[tuple[str, str]] = set()
    while True:
        effects: list[EffectView] = []
        with suppress(Unavailable):  # whoever sends is told; this looks again
            effects = await world.effects(status=OPEN, limit=SHOWN_MAX)
        news = {_mark(each): each for each in effects if _is_news(each)}
        for mark, effect in news.items():
            if mark not in told:
                _tell(session, effect)
        told = {mark for mark in told | set(news) if mark in news or mark[0] == "no adapter"}
        await asyncio.sleep(LOOK_S)


def _is_news(effect: EffectView) -> bool:
    return effect.attempts is not None and effect.attempts.state in ("retrying", "no adapter")


def _mark(effect: EffectView) -> tuple[str, str]:
    """What is told once: every failed attempt, and every kind without adapter."""
    assert effect.attempts is not None
    if effect.attempts.state == "no adapter":
        return "no adapter", effect.kind
    return effect.id, str(effect.attempts.tried)


def _tell(session: Session, effect: EffectView) -> None:
    attempts = effect.attempts
    assert attempts is not None
    line = {
        "kind": "attempt", "effect": effect.kind, "intent": effect.id, "state": attempts.state,
        "tried": attempts.tried, "most": attempts.most, "error": attempts.error or None,
        "reason": effect.reason,
    }  # fmt: skip
    now = clock_text(SystemClock().now_ns())
    session.output.line(line, Text(f"{'':>8}  {now}  {'attempt':<9}{effect.kind}: {effect.reason}", "yellow"))
