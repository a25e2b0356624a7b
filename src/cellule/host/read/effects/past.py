"""Intents in the journal: what became of one, and where one of some id stands.

The journal has no index of intents. From an Intent record the walk goes forward to its receipt; an id is
looked for from the newest record back, by making the id of every Intent record on the way. Both tell how far
they are, and the search for an id has an end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from cellule.errors import Rejected
from cellule.host.journal import Progress
from cellule.host.node import Node
from cellule.host.own.directory import WorldInfo
from cellule.host.read.effects.model import DecisionView, EffectDetail, EffectView, ReceiptView
from cellule.host.read.reader import Reader
from cellule.host.read.record_view import shown
from cellule.kernel.journal.codes import NOBODY, Settled, VerdictCode
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.records import DecisionRecord, IntentRecord, ReceiptRecord
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
        head = await self._reader.journal.head()
        last, least = head.height, max(0, head.height - SEARCH_RECORDS_MAX)
        while last > least:
            first = max(least, last - SEARCH_WINDOW) + 1
            async for frame in self._reader.journal.frames(first, last):
                for height, record in frame.of(IntentRecord):
                    if await self._digest(record) == digest:
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

    async def intent(self, height: int) -> tuple[Frame, IntentRecord]:
        """The Intent record at a height, and its frame; `Rejected` where another record stands."""
        frame = await self._reader.frame(height)
        record = frame.at(height)
        if not isinstance(record, IntentRecord):
            raise Rejected(
                "host.not_an_effect", "the record at height {height} is no request for an effect",
                height=height, hint=f"See what it is: cellule journal show {height}.",
            )  # fmt: skip
        return frame, record

    async def detail(
        self, height: int, opened: EffectView | None, progress: Progress | None = None
    ) -> EffectDetail:
        """All that the journal says of an intent; `opened` is its view while it is open."""
        frame, intent = await self.intent(height)
        decisions: list[DecisionView] = []
        receipt: ReceiptView | None = None
        head = await self._reader.journal.head()
        looked = 0
        async for each in self._reader.journal.frames(frame.header.last, head.height):
            for at, record in each.numbered():
                if record.cause == height and isinstance(record, DecisionRecord):
                    found = _decision(each, at, record)
                    text = await self._reader.keys.opened_text(found.text)
                    decisions.append(replace(found, text=text))
                elif record.cause == height and isinstance(record, ReceiptRecord):
                    receipt = await self._receipt(each, at, record)
            looked += 1
            # A settled one ends with its receipt; an open one would be followed to the end of the journal.
            if receipt is not None or (opened is not None and looked >= WALK_FRAMES_MAX):
                break
            if progress is not None:
                progress(each.header.last - height, head.height - height)
        view = opened or await self._settled(frame, height, intent, decisions, receipt)
        return EffectDetail(view, await self._params(height, intent), tuple(decisions), receipt)

    async def _settled(
        self, frame: Frame, height: int, record: IntentRecord, decisions: list[DecisionView],
        receipt: ReceiptView | None,
    ) -> EffectView:  # fmt: skip
        extras = record.extras
        first = decisions[0] if decisions else None
        status = "settling" if receipt is None else receipt.status
        reason = "" if receipt is None else receipt.text
        return EffectView(
            intent_text(await self._digest(record)), height, record.cause, record.kind, record.module,
            record.key, record.born, status, frame.header.now_ns, reason, extras.get("key"),
            extras.get("slot"), None if first is None else first.grant, None if first is None else first.rule,
        )  # fmt: skip

    async def _params(self, height: int, record: IntentRecord) -> Any:
        manifest = await self._reader.manifest_at(height)
        effect = manifest.effects.get(record.kind)
        data = await self._reader.bytes_of(record.params)
        return shown(data, None if effect is None else effect.params, manifest)

    async def _receipt(self, frame: Frame, height: int, record: ReceiptRecord) -> ReceiptView:
        extras, manifest = record.extras, await self._reader.manifest_at(height)
        value = shown(await self._reader.bytes_of(record.value), record.schema, manifest)
        return ReceiptView(
            height, Settled(record.status).name.lower(), frame.header.now_ns, record.schema, value,
            record.delivery != NOBODY, extras.get("code", ""),
            await self._reader.keys.opened_text(extras.get("text", "")), extras.get("by", ""),
            extras.get("attempts", 0), extras.get("exhausted", False), extras.get("who"), extras.get("why"),
            extras.get("control"),
        )  # fmt: skip

    async def _digest(self, record: IntentRecord) -> bytes:
        world = self._info.lineage.world_at(record.cause).bytes
        return intent_digest(
            world, record.module, record.key, record.born, record.cause, record.position, record.kind,
            await self._reader.stored_bytes(record.params),
        )  # fmt: skip


def _decision(frame: Frame, height: int, record: DecisionRecord) -> DecisionView:
    extras = record.extras
    return DecisionView(
        height, VerdictCode(record.verdict).name.lower(), frame.header.now_ns, extras.get("rule"),
        extras.get("grant"), extras.get("code", ""), extras.get("text", ""), extras.get("due_ns"),
        extras.get("same"), extras.get("control"),
    )  # fmt: skip
