"""The effects of one world: seeing, approving, cancelling, retrying, injecting, repairing.

It works the same on the owner and elsewhere: what changes the world goes through its journal, with who and
why; what only concerns the outbox changes rows, expecting what was read. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Protocol

from cellule.errors import Conflict, Corrupted, Rejected, Unavailable
from cellule.host.codecs import WorldCodecs
from cellule.host.ingress.arguments import Id, check_id, check_text, check_who_and_why
from cellule.host.ingress.inject import inject
from cellule.host.ingress.outcomes import Applied
from cellule.host.journal import Progress
from cellule.host.node import Node
from cellule.host.outbox.receipts import Receipt
from cellule.host.outbox.repair import Report, Wanted, repair
from cellule.host.outbox.rows import Stored, read_row, store_row
from cellule.host.outbox.signatures import NodeKey
from cellule.host.own.directory import WorldInfo, read_head
from cellule.host.read.causes import following_of
from cellule.host.read.effects.letters import list_letters, walk_letters
from cellule.host.read.effects.model import OPEN_STATUSES, EffectDetail, EffectRef, EffectView, Letter
from cellule.host.read.effects.opened import HEIGHT_MAX, IntentAt, OpenIntents
from cellule.host.read.effects.openings import openings_of
from cellule.host.read.effects.past import Past
from cellule.host.read.effects.references import parse_reference, receipt_bytes, shown_reference
from cellule.host.read.reader import Reader
from cellule.kernel.items import Verb
from cellule.kernel.journal.records import IntentRecord
from cellule.kernel.state.intent_id import intent_text, parse_token
from cellule.kernel.state.wait_reasons import RECEIPT
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.store.sound_scan import sound_read
from cellule.values.cbor import encode

LIST_MAX: Final = 1_000
GIVEN: Final = ("ok", "failed", "timeout", "cancelled", "denied")


class Control(Protocol):
    """Does an operator's verb, and says at which height it is journaled."""

    def __call__(
        self, verb: Verb, /, *, who: str, why: str, id: Id | None = None, **arguments: Any
    ) -> Awaitable[Applied[Any]]:
        """Raises what the world refuses."""


class WorldEffects:
    """The effects of one world."""

    def __init__(
        self, node: Node, info: WorldInfo, reader: Reader, types: Callable[[], WorldCodecs], control: Control
    ) -> None:
        self._node = node
        self._info = info
        self._reader = reader
        self._types = types
        self._control = control
        self._opened = OpenIntents(node, info, reader)
        self._past = Past(node, info, reader)

    # Seeing

    async def listed(self, status: str | None, kind: str | None, limit: int, after: int) -> list[EffectView]:
        """Open intents above a height, in order."""
        check_limit(limit)
        if status is not None and status not in OPEN_STATUSES:
            raise Rejected(
                "host.effect_status", "no open effect is {status!r}; they are {known}", status=status,
                known=", ".join(OPEN_STATUSES), hint="Settled ones are found by id, height or cause.",
            )  # fmt: skip
        if not 0 <= after <= HEIGHT_MAX:
            raise Rejected("host.effect_after", "{after} is no height", after=after)
        return await self._opened.listed(status, kind, limit, after)

    async def caused_by(
        self, cause: int, status: str | None, kind: str | None, limit: int
    ) -> list[EffectView]:
        """The first intents that the record at a height led to, open or settled, in order."""
        check_limit(limit)
        following = await following_of(self._reader.journal, cause)
        found: list[EffectView] = []
        for height, kind_of in following.found:
            if kind_of is IntentRecord and len(found) < limit:
                view = (await self.at(height)).view
                if status in (None, view.status) and kind in (None, view.kind):
                    found.append(view)
        return found

    async def find(self, intent: EffectRef, progress: Progress | None = None) -> EffectDetail:
        """One intent, open or settled."""
        reference = parse_reference(intent)
        if isinstance(reference, int):
            return await self.at(reference, progress)
        opened = await self._opened.by_id(reference)
        height = await self._past.find(reference, progress) if opened is None else opened.height
        return await self.at(height, progress)

    async def at(self, height: int, progress: Progress | None = None) -> EffectDetail:
        """The intent whose record stands at a height."""
        opened = await self._opened.at(height)
        view = None
        if opened is not None:
            view = await self._opened.view(opened, await self._reader.frame(height))
        return await self._past.detail(height, view, progress)

    async def reason(self, base: str, key: bytes) -> str:
        """What a cell waits for, with what the outbox says where that is a receipt."""
        reasons = await self._reader.reasons(base, key)
        if not reasons:
            return ""
        text = reasons[0].beside_status
        opened = await self._opened.at(reasons[0].since) if reasons[0].what == RECEIPT else None
        if opened is not None:
            view = await self._opened.view(opened)
            text = f"{view.kind}: {view.reason}"
        return f"{text}, and {len(reasons) - 1} more" if len(reasons) > 1 else text

    async def letters(self, limit: int, after: int) -> list[Letter]:
        """Dead letters above a height."""
        check_limit(limit)
        return await list_letters(self._reader, limit, after)

    async def notes(self, intent: EffectRef) -> AsyncIterator[object]:
        """What running attempts tell, until the intent is settled."""
        pool = self._node.pool
        if pool is None:
            raise Unavailable(
                "host.notes_elsewhere", "progress notes are only in the process that performs effects",
                hint="Read them there: they are not journaled. `cellule effect show` has the rest.",
            )  # fmt: skip
        opened = await self._open(intent)
        async for note in pool.notes(self._opened.sent_as(opened)):
            yield note

    # Steering

    async def perform(self, verb: Verb, intent: EffectRef, who: str, why: str, id: Id | None) -> Applied[Any]:
        """Approve, deny or cancel an open intent, once for an id."""
        who, why = check_who_and_why(who, why)
        done = await self._done_before(id)
        if done is not None:
            return done
        opened = await self._open(intent)
        return await self._control(verb, who=who, why=why, id=id, intent=opened.height)

    async def retry(self, intent: EffectRef, who: str, why: str, id: Id | None) -> Applied[Any]:
        """Ask again for a dead letter, or make an open intent's next attempt due now.

        The height is 0 where only a row was moved, which no journal tells.
        """
        who, why = check_who_and_why(who, why)
        done = await self._done_before(id)
        if done is not None:
            return done
        reference = parse_reference(intent)
        opened = await self._find_open(reference)
        if opened is not None:
            await self._hasten(opened)
            return Applied(0, id, False, (), None)
        letter = await self._letter(reference)
        return await self._control("effect.retry", who=who, why=why, id=id, letter=letter.height)

    async def inject(
        self, intent: EffectRef, status: str, value: Any, code: str, text: str, who: str, why: str
    ) -> int:
        """Settle an open intent by hand; returns the height of its Receipt record."""
        who, why = check_who_and_why(who, why)
        code, text = check_text("code", code), check_text("text", text)
        if status not in GIVEN:
            raise Rejected(
                "effects.inject_status", "{status} is no status of a receipt given by hand", status=status,
                hint=f"Use one of {', '.join(GIVEN)}.",
            )  # fmt: skip
        opened = await self._open(intent)
        digest, kind = opened.intent.id, opened.intent.kind
        data = None
        if status == "ok" or value is not None:
            data = receipt_bytes(self._types(), await self._reader.manifest(), kind, value)
        return await self._hand_in(
            Receipt(digest, opened.height, status, data, code, text, who=who, why=why), who, why
        )

    async def complete(
        self, token: str, status: str, value: Any, code: str, text: str, who: str, why: str
    ) -> Applied[Any]:
        """Settle the intent that a token names; the height is that of its Receipt record.

        Whether it is open and of this world the beat decides: what is refused is recorded.
        """
        who, why = check_who_and_why(who, why)
        _, height, digest = parse_token(token)
        opened = await self._opened.at(height) if 0 < height <= HEIGHT_MAX else None
        data = encode(None) if status == "ok" else None
        if data is not None and opened is not None and opened.intent.id == digest:
            data = receipt_bytes(self._types(), await self._reader.manifest(), opened.intent.kind, value)
        receipt = Receipt(digest, height, status, data, code, text, who=who, why=why)
        return Applied(await self._hand_in(receipt, who, why), None, False, (), None)

    async def _hand_in(self, receipt: Receipt, who: str, why: str) -> int:
        """Put a receipt into the inbox, and wait for what becomes of it."""
        before = await read_head(self._node.engine, self._info)
        cas = self._node.cas(self._info.universe)
        row = await inject(
            self._node.engine, await self._signing(), cas, self._info.id, receipt, self._node.entropy
        )
        if self._node.is_owner:
            (await self._node.hosted(self._info)).ring()
        shown = intent_text(receipt.intent)
        height = await self._reader.await_receipt(shown, receipt.height, (who, why), before.height, row)
        if not height:
            raise Unavailable(
                "host.receipt_lost", "the receipt of {intent} left the inbox without a record", intent=shown,
                hint="Look at the effect again.",
            )  # fmt: skip
        return height

    async def repair(self, *, dry_run: bool) -> Report:
        """Make the outbox agree with the open intents."""
        cas = self._node.cas(self._info.universe)

        now_ns = self._node.clock.now_ns()

        async def openings() -> Wanted:
            return Wanted(*await openings_of(self._opened, self._reader, now_ns))

        report = await repair(self._node.engine, cas, self._info.id, openings, now_ns, dry_run=dry_run)
        if self._node.pool is not None and not dry_run:
            self._node.pool.search()
        return report

    # Inside

    async def _done_before(self, id: Id | None) -> Applied[Any] | None:
        """What came of a verb that was done with this id: then its intent need not be open any more."""
        height = None if id is None else await self._reader.seen(check_id(id))
        return None if height is None else Applied(height, id, True, (), None)

    async def _find_open(self, reference: int | bytes) -> IntentAt | None:
        if isinstance(reference, int):
            return await self._opened.at(reference)
        return await self._opened.by_id(reference)

    async def _open(self, intent: EffectRef) -> IntentAt:
        opened = await self._find_open(parse_reference(intent))
        if opened is None:
            raise Rejected(
                "host.effect_not_open", "no effect {intent} is open in world {world}",
                intent=shown_reference(intent), world=self._info.name,
                hint="It may be settled: see `cellule effect show`. Open ones: `cellule effect list`.",
            )  # fmt: skip
        return opened

    async def _letter(self, reference: int | bytes) -> Letter:
        wanted = reference if isinstance(reference, int) else intent_text(reference)
        async for letter in walk_letters(self._reader):
            if letter.kind is not None and wanted in (letter.height, letter.intent_height, letter.intent):
                return letter
        raise Rejected(
            "host.no_letter", "{intent} is neither an open effect nor one that was given up",
            intent=wanted, hint="Dead letters are listed by `cellule stuck`.",
        )  # fmt: skip

    async def _hasten(self, opened: IntentAt) -> None:
        stored = await self._row(opened)
        now_ns = self._node.clock.now_ns()
        if stored is None or stored.row.ready_ns <= now_ns:
            raise Rejected(
                "host.effect_not_waiting", "effect {intent} does not wait for a next attempt: it is {status}",
                intent=intent_text(opened.intent.id),
                status=opened.intent.status if stored is None else "due, or running",
                hint="See why: cellule effect show.",
            )  # fmt: skip
        moved = store_row(stored.row._replace(ready_ns=now_ns))
        rows = {moved.at: moved.value, moved.place: moved.at}
        try:
            await self._node.engine.commit(
                Batch(expect={stored.at: stored.value}, set=rows, clear=[stored.at])
            )
        except Conflict as error:
            raise Unavailable(
                "host.effect_moved", "the effect was just begun or settled", hint="Look at it again."
            ) from error
        if self._node.pool is not None:
            self._node.pool.search()

    async def _row(self, opened: IntentAt) -> Stored | None:
        engine = self._node.engine
        [at], _ = await sound_read(engine, [keys.effect_at(self._opened.sent_as(opened))])
        [value], _ = ([None], None) if at is None else await sound_read(engine, [at])
        try:
            return None if at is None or value is None else read_row(at, value)
        except Corrupted:
            return None

    async def _signing(self) -> NodeKey:
        key = self._node.loader.key
        if key is None and self._node.vouch is not None:
            key = await self._node.vouch()
        if key is None:
            raise Unavailable(
                "host.no_node_key", "this process has no key to sign a receipt with",
                hint="Give the receipt where the data folder is.",
            )  # fmt: skip
        return key


def check_limit(limit: int) -> None:
    """Refuse a page that is too long."""
    if not 1 <= limit <= LIST_MAX:
        raise Rejected(
            "host.page_limit", "a page has 1 to {most} effects, not {limit}", limit=limit, most=LIST_MAX
        )
