"""One attempt: params in, a receipt out, or the reason to try again.

Everything an adapter can do wrong ends here as data. Params and receipt are read and written by the adapter's
own record classes; what does not fit fails the effect, for another attempt would not fit either. Texts are
scrubbed of secrets before they leave, and so is a receipt. When attempts are made is the pool's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

from cellule.effects.adapter import Adapter
from cellule.effects.attempt import Attempt
from cellule.effects.outcomes import Failed, Retry
from cellule.effects.secrets import Secrets
from cellule.errors import Corrupted, Rejected
from cellule.host.outbox.limits import ERROR_CHARS_MAX, RECEIPT_INLINE_MAX
from cellule.host.outbox.receipts import Receipt
from cellule.host.outbox.rows import Row
from cellule.host.patience import Patience
from cellule.kernel.intents.identity import intent_text
from cellule.kernel.limits import RECEIPT_BYTES_MAX
from cellule.store.cas import Cas
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid
from cellule.values.link import Link
from cellule.values.schema import Codec, codec_for, derive

NAMESPACE = "effect"


class Again(NamedTuple):
    """Another attempt may succeed."""

    reason: str
    after_s: float | None = None
    timed_out: bool = False


class CasBlobs:
    """The raw objects of a universe, as adapters see them; most adapters never look."""

    __slots__ = ("_cas_of", "_universe")

    def __init__(self, cas_of: Callable[[UUID], Cas], universe: UUID) -> None:
        self._cas_of = cas_of
        self._universe = universe

    async def put(self, data: bytes | AsyncIterator[bytes], /) -> Cid:
        """Store a blob, whole or in pieces."""
        if isinstance(data, bytes | bytearray | memoryview):
            return await self._cas_of(self._universe).put(bytes(data), "raw")
        return await self._cas_of(self._universe).put_stream(data)

    async def get(self, cid: Cid, /) -> bytes:
        """Return a blob."""
        return await self._cas_of(self._universe).get(cid)


class Surroundings(NamedTuple):
    """What attempts need of the node; `note` takes an intent and a note."""

    cas_of: Callable[[UUID], Cas]
    secrets: Secrets
    note: Callable[[bytes, object], None]
    patience: Patience


class Performer:
    """Makes the attempts of one adapter."""

    def __init__(self, adapter: Adapter, around: Surroundings) -> None:
        self.adapter = adapter
        self._around = around

    @cached_property
    def _params(self) -> Codec[Any]:
        """Made at the first attempt: most nodes perform few of the kinds they could."""
        return codec_for(derive(self.adapter.params, namespace=NAMESPACE))

    @cached_property
    def _receipt(self) -> Codec[Any]:
        return codec_for(derive(self.adapter.receipt, namespace=NAMESPACE))

    async def perform(self, row: Row) -> Receipt | Again:
        """Make one attempt."""
        try:
            params = self._params.decode(await self._given(row))
        except (Rejected, Corrupted) as error:
            return self._failed(row, "effects.params", f"the params do not fit {row.kind}: {error}")
        limit = asyncio.timeout(row.timeout_ns / 1e9)
        try:
            async with limit:
                value = await self.adapter.perform(params, self._attempt(row))
        except Failed as failed:
            return self._failed(row, failed.code, failed.text)
        except Retry as retry:
            return Again(self._scrubbed(retry.reason), retry.after_s)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return self._ended(row, "cancelled", "effects.cancelled", "the adapter cancelled itself")
        except Exception as error:  # noqa: BLE001 - whatever an adapter raises is a reason to try again
            if limit.expired() and isinstance(error, TimeoutError):
                return Again(f"it took longer than {row.timeout_ns / 1e9:g} s", timed_out=True)
            return Again(self._scrubbed(f"{type(error).__name__}: {_said(error)}"))
        return await self._done(row, value)

    def gave_up(self, row: Row, again: Again) -> Receipt:
        """The receipt of an effect whose last attempt ended like this."""
        status, code = ("timeout", "effects.timeout") if again.timed_out else ("failed", "effects.exhausted")
        return Receipt(
            row.intent, row.height, status, None, code, again.reason, attempts=row.tried + 1, exhausted=True
        )

    def _attempt(self, row: Row) -> Attempt:
        around, intent = self._around, row.intent
        return Attempt(
            intent_text(intent), row.key, row.tried + 1, row.timeout_ns / 1e9, row.world, row.universe,
            row.module, row.cell, CasBlobs(around.cas_of, row.universe), around.secrets, row.grant,
            lambda value: around.note(intent, value),
        )  # fmt: skip

    async def _given(self, row: Row) -> bytes:
        if isinstance(row.params, bytes):
            return row.params
        cid = row.params.cid
        return await self._around.patience.insist(lambda: self._around.cas_of(row.universe).get(cid))

    async def _done(self, row: Row, value: object) -> Receipt:
        try:
            data = self._without_secrets(self._receipt.encode(value))
        except Rejected as error:
            return self._failed(
                row, "effects.receipt", f"what {row.kind} returned is no receipt of it: {error}"
            )
        if len(data) > RECEIPT_BYTES_MAX:
            text = (
                f"the receipt has {len(data)} bytes; at most {RECEIPT_BYTES_MAX}: put large data into a blob"
            )
            return self._failed(row, "effects.receipt", text)
        kept: bytes | Link = data
        if len(data) > RECEIPT_INLINE_MAX:
            cas = self._around.cas_of(row.universe)
            kept = Link(await self._around.patience.insist(lambda: cas.put(data, trusted=True)))
        return Receipt(row.intent, row.height, "ok", kept, attempts=row.tried + 1)

    def _without_secrets(self, data: bytes) -> bytes:
        """A secret that an adapter echoes does not reach the journal."""
        redactor = self._around.secrets.redactor
        if redactor.scrub_bytes(data) == data:
            return data
        scrubbed = encode(redactor.scrub(decode(data)))
        self._receipt.decode(scrubbed)
        return scrubbed

    def _failed(self, row: Row, code: str, text: str) -> Receipt:
        return self._ended(row, "failed", code, text)

    def _ended(self, row: Row, status: str, code: str, text: str) -> Receipt:
        return Receipt(
            row.intent, row.height, status, None, self._scrubbed(code), self._scrubbed(text), row.tried + 1
        )

    def _scrubbed(self, text: str) -> str:
        scrubbed = self._around.secrets.redactor.scrub_text(str(text))[:ERROR_CHARS_MAX]
        return scrubbed.encode("utf-8", "replace").decode()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _said(error: BaseException) -> str:
    """What an error says; a class whose text cannot be made has none."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - foreign code
        return "?"
