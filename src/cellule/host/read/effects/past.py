"""Intents in the journal: what became of one, and where one of some id stands.

The journal has no index of intents. From an Intent record the walk goes forward to its receipt; an id is
looked for from the newest record back, by making the id of every Intent record on the way. Both tell how far
they are, and the search for an id has an end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from cellule.errors import Rejected
from cellule.host.journal import Progress, read_frames
from cellule.host.node import Node
from cellule.host.own.directory import WorldInfo, read_head
from cellule.host.read.effects.model import DecisionView, EffectDetail, EffectView, ReceiptView
from cellule.host.read.reader import Reader
from cellule.host.read.record_view import shown
from cellule.kernel.journal.codes import DECISION, INTENT, NOBODY, RECEIPT, Settled, VerdictCode
from cellule.kernel.journal.frame import Frame, decode_frame
from cellule.kernel.journal.table import Row as Record
from cellule.kernel.state.intent_id import intent_digest, intent_text

SEARCH_WINDOW: Final = 10_000  # records of one stretch of the search, which goes backwards
SEARCH_RECORDS_MAX: Final = 2_000_000  # records looked at for one id
WALK_FRAMES_MAX: Final = 10_000  # frames looked at for later decisions about an intent that is still open


class Past:
    """Reads the intents of one world's journal."""

    def __init__(self, node: Node, info: WorldInfo, reader: Reader) -> None:
        self._node = node
        self._info = info
        self._reader = reader

    async def find(self, digest: bytes, progress: Progress | None = None) -> int:
        """The height of the Intent record of an id; `Rejected` where it is not found."""
        head = await read_head(self._node.engine, self._info)
        last, least = head.height, max(0, head.height - SEARCH_RECORDS_MAX)
        while last > least:
            first = max(least, last - SEARCH_WINDOW) + 1
            async for frame in self._frames(first, last):
                for height, record in _of_kind(frame, INTENT):
                    if await self._digest(frame, record) == digest:
                        return height
            last = first - 1
            if progress is not None:
                progress(head.height - last, head.height - least)
        raise Rejected(
            "host.no_effect", "world {world} has no effect {intent} above height {height}",
            world=self._info.name, intent=intent_text(digest), height=least,
            hint="List the open ones with `cellule effect list`, or name it by its height."
            if not least else "Further back it is only found by its height.",
        )  # fmt: skip

    async def intent(self, height: int) -> tuple[Frame, Record]:
        """The Intent record at a height, and its frame; `Rejected` where another record stands."""
        frame = await self._reader.frame(height)
        record = frame.rows[height - frame.header.first]
        if record[0] != INTENT:
            raise Rejected(
                "host.not_an_effect", "the record at height {height} is no request for an effect",
                height=height, hint=f"See what it is: cellule journal show {height}.",
            )  # fmt: skip
        return frame, record

    async def detail(
        self, height: int, opened: EffectView | None, progress: Progress | None = None
    ) -> EffectDetail:
        """All that the journal says of an intent; `opened` is its view while it is open."""
        frame, record = await self.intent(height)
        decisions: list[DecisionView] = []
        receipt: ReceiptView | None = None
        head = await read_head(self._node.engine, self._info)
        looked = 0
        async for each in self._frames(frame.header.last, head.height):
            decisions += [_decision(each, at, found) for at, found in _of_kind(each, DECISION, height)]
            for at, found in _of_kind(each, RECEIPT, height):
                receipt = await self._receipt(each, at, found)
            looked += 1
            if receipt is not None or (opened is not None and looked >= WALK_FRAMES_MAX):
                break
            if progress is not None:
                progress(each.header.last - height, head.height - height)
        view = opened or await self._settled(frame, height, record, decisions, receipt)
        return EffectDetail(view, await self._params(frame, height, record), tuple(decisions), receipt)

    async def _settled(
        self, frame: Frame, height: int, record: Record, decisions: list[DecisionView],
        receipt: ReceiptView | None,
    ) -> EffectView:  # fmt: skip
        _, cause, _, base, key, born, kind, _, more = record
        more = more or {}
        first = decisions[0] if decisions else None
        status = "settling" if receipt is None else receipt.status
        reason = "" if receipt is None else receipt.text
        return EffectView(
            intent_text(await self._digest(frame, record)), height, cause, frame.names[kind],
            frame.names[base], key, born, status, frame.header.now_ns, reason, more.get("key"),
            more.get("slot"), None if first is None else first.grant, None if first is None else first.rule,
        )  # fmt: skip

    async def _params(self, frame: Frame, height: int, record: Record) -> Any:
        manifest = await self._reader.manifest_at(height)
        effect = manifest.effects.get(frame.names[record[6]])
        data = await self._reader.bytes_of(record[7])
        return shown(data, None if effect is None else effect.params, manifest)

    async def _receipt(self, frame: Frame, height: int, record: Record) -> ReceiptView:
        _, _, _, _, _, status, schema_at, held, how, more = record
        more, schema = more or {}, frame.names[schema_at]
        manifest = await self._reader.manifest_at(height)
        value = shown(await self._reader.bytes_of(held), schema, manifest)
        return ReceiptView(
            height, Settled(status).name.lower(), frame.header.now_ns, schema, value, how != NOBODY,
            more.get("code", ""), more.get("text", ""), more.get("by", ""), more.get("attempts", 0),
            more.get("exhausted", False), more.get("who"), more.get("why"), more.get("control"),
        )  # fmt: skip

    async def _digest(self, frame: Frame, record: Record) -> bytes:
        _, cause, position, base, key, born, kind, held, _ = record
        params = await self._reader.bytes_of(held)
        return intent_digest(
            self._info.id.bytes, frame.names[base], key, born, cause, position, frame.names[kind], params
        )

    async def _frames(self, first: int, last: int) -> AsyncIterator[Frame]:
        """The frames whose last heights lie in a range."""
        info = self._info
        async for _, data in read_frames(self._node.engine, info.universe, info.id, first, last):
            yield decode_frame(data)


def _of_kind(frame: Frame, kind: int, cause: int | None = None) -> list[tuple[int, Record]]:
    first = frame.header.first
    return [
        (first + at, record)
        for at, record in enumerate(frame.rows)
        if record[0] == kind and cause in (None, record[1])
    ]


def _decision(frame: Frame, height: int, record: Record) -> DecisionView:
    more = record[3] or {}
    return DecisionView(
        height, VerdictCode(record[2]).name.lower(), frame.header.now_ns, more.get("rule"), more.get("grant"),
        more.get("code", ""), more.get("text", ""), more.get("due_ns"), more.get("same"), more.get("control"),
    )  # fmt: skip
