"""The open intents of a world: pages of them in the order of their heights, and one by its id.

They are read from the world's memory on its owner and from a copy elsewhere, a page at a time, so that a
million timers keep nobody waiting. When and why an intent was opened is read from its frame. Why a
dispatched one has not happened yet is told in words, never just "pending"; what others wait for, the world
tells (`kernel/state/wait_reasons.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple, assert_never

from cellule.host.node import Node
from cellule.host.outbox.listing import ListedRow, find_row
from cellule.host.own.directory import WorldInfo
from cellule.host.read.effects.model import Attempts, EffectView
from cellule.host.read.reader import Reader
from cellule.host.read.record_view import shown
from cellule.kernel.index.keys import pair_key, pair_of
from cellule.kernel.journal.frame import Frame
from cellule.kernel.need import Need
from cellule.kernel.state.intent_id import dispatch_id, intent_text
from cellule.kernel.state.rows import OPEN, PARKED, OpenIntent
from cellule.kernel.state.wait_reasons import reason_of_intent
from cellule.kernel.world import World
from cellule.values.schema.text_forms import time_text

PAGE: Final = 1_000
HEIGHT_MAX: Final = (1 << 63) - 1


class IntentAt(NamedTuple):
    """An open intent as the world keeps it, and the height of its record."""

    height: int
    intent: OpenIntent


class OpenIntents:
    """Reads the open intents of one world."""

    def __init__(self, node: Node, info: WorldInfo, reader: Reader) -> None:
        self._node = node
        self._info = info
        self._reader = reader

    async def at(self, height: int) -> IntentAt | None:
        """The open intent whose record stands at `height`."""
        if not 1 <= height <= HEIGHT_MAX:
            return None
        intent = await self._reader.ask(lambda world: world.ledger.book.find(height))
        return None if intent is None else IntentAt(height, intent)

    def sent_as(self, opened: IntentAt) -> bytes:
        """The id under which an intent is in the outbox: a fork's own for what it has from its parent."""
        if self._info.origin is None or opened.height > self._info.origin.height:
            return opened.intent.id
        return dispatch_id(self._info.id.bytes, opened.intent.id)

    async def by_id(self, digest: bytes) -> IntentAt | None:
        """The open intent of an id: by its outbox row, or by looking at all that have none."""
        found = await find_row(self._node.engine, self._node.clock, digest)
        if found is not None and found.row is not None and found.row.world == self._info.id:
            opened = await self.at(found.row.height)
            if opened is not None and opened.intent.id == digest:
                return opened
        async for opened in self.walk():
            if opened.intent.id == digest:
                return opened
        return None

    async def walk(self, after: int = 0) -> AsyncIterator[IntentAt]:
        """All open intents above a height, in order."""
        begin = pair_key(after + 1, 0)
        while True:
            page = await self._reader.ask(_page(begin))
            for key, intent in page:
                yield IntentAt(pair_of(key)[0], intent)
            if len(page) < PAGE:
                return
            begin = page[-1][0] + b"\0"

    async def _parked(self) -> int:
        """How many intents wait for approvals."""

        def ask(world: World) -> Generator[Need, None, int]:
            yield from ()
            return world.ledger.book.parked

        return await self._reader.ask(ask)

    async def listed(self, status: str | None, kind: str | None, limit: int, after: int) -> list[EffectView]:
        """Up to `limit` open intents above a height, with what the outbox says of them."""
        found: list[EffectView] = []
        if status == PARKED and not await self._parked():
            return found
        frame: Frame | None = None
        async for opened in self.walk(after):
            if status not in (None, opened.intent.status) or kind not in (None, opened.intent.kind):
                continue
            if frame is None or frame.header.last < opened.height:
                frame = await self._reader.frame(opened.height)
            found.append(await self.view(opened, frame))
            if len(found) == limit:
                break
        return found

    async def view(self, opened: IntentAt, frame: Frame | None = None) -> EffectView:
        """An open intent as it is shown; without `frame`, which holds its record, its cause is not known."""
        height, (digest, base, key, born, kind, status, kept) = opened
        cause, since_ns = 0, kept["since_ns"]
        if frame is not None:
            cause, since_ns = frame.at(height).cause, frame.header.now_ns
        view = EffectView(
            intent_text(digest), height, cause, kind, base, key, born, status, since_ns, "",
            kept.get("key"), kept.get("slot"), kept.get("grant"), kept.get("rule"),
            pair_of(kept["due"])[0] if "due" in kept else None,
        )  # fmt: skip
        if status != OPEN:
            return replace(view, reason=reason_of_intent(height, opened.intent).words)
        row = await find_row(self._node.engine, self._node.clock, self.sent_as(opened), self._node.pool)
        view = replace(view, attempts=None if row is None else attempts_of(row))
        reason = dispatch_reason(view, await self._performed(), self._node.clock.now_ns())
        return replace(view, reason=reason)

    async def _performed(self) -> Performed:
        """Where effects are performed, as far as this process knows."""
        if self._node.pool is not None:
            return "here"
        if self._node.is_owner:
            return "nowhere"
        return "elsewhere" if any(each.owns for each in await self._node.ownership.sessions()) else "nowhere"


def _page(begin: bytes) -> Any:
    def ask(world: World) -> Generator[Need, None, list[tuple[bytes, OpenIntent]]]:
        return (yield from world.ledger.book.open.scan(begin, None, PAGE))

    return ask


Performed = Literal["here", "elsewhere", "nowhere"]
"""Whether effects are performed by this process, by another one, or by none at the moment."""


def attempts_of(row: ListedRow) -> Attempts:
    """What an outbox row says of its effect."""
    if row.row is None:
        return Attempts(row.state, 0, 0, 0, row.reason)
    held = row.row
    progress = None if held.progress is None else shown(held.progress)
    return Attempts(row.state, held.tried, held.attempts, held.ready_ns, held.error or "", progress)


def dispatch_reason(view: EffectView, performed: Performed, now_ns: int) -> str:
    """Why an effect that an adapter may perform has no receipt yet."""
    attempts = view.attempts
    if attempts is None:
        return "its receipt is on its way; if that does not come, its row is lost: cellule effect repair"
    match attempts.state:
        case "running":
            return f"attempt {attempts.tried + 1}{_of(attempts.most)} is running"
        case "no adapter":
            return f"no adapter for {view.kind} on this node"
        case "unreadable":
            return f"its outbox row cannot be read: cellule effect repair ({attempts.error})"
        case "retrying":
            when = f"retrying at {moment(attempts.next_ns)}"
            failed = f"after attempt {attempts.tried}{_of(attempts.most)} failed: {attempts.error}"
            return f"{when} {failed}{_idle(performed)}"
        case _:
            return _not_begun(view, attempts, performed, now_ns)


def _of(limit: int) -> str:
    """How many attempts there are at most, where that was said."""
    return f" of {limit}" if limit else ""


def _not_begun(view: EffectView, attempts: Attempts, performed: Performed, now_ns: int) -> str:
    if attempts.next_ns > now_ns:
        return f"its first attempt at {moment(attempts.next_ns)}{_idle(performed)}"
    due = f"due since {moment(attempts.next_ns)}"
    match performed:
        case "here":
            return f"{due}: its adapter has no free place for it"
        case "elsewhere":
            return (
                f"{due}: it runs, or the owner of the folder has no adapter for {view.kind} or no free place"
            )
        case "nowhere":
            return f"{due}: no process performs effects of this folder now"
    assert_never(performed)


def _idle(performed: Performed) -> str:
    return ", once a process performs effects of this folder" if performed == "nowhere" else ""


def moment(time_ns: int) -> str:
    """A time in UTC, to the millisecond."""
    return time_text(time_ns // 1_000_000 * 1_000_000)
