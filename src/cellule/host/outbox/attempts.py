"""One attempt: params in, a receipt out, or the reason to try again.

Everything an adapter can do wrong ends here as data. Params and receipt are read and written by the adapter's
own record classes; what does not fit fails the effect, for another attempt would not fit either. Texts are
scrubbed of secrets before they leave, and so is a receipt. When attempts are made is the pool's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from functools import cached_property
from types import CoroutineType, coroutine
from typing import Any, NamedTuple
from uuid import UUID

from cellule.effects.adapter import Adapter, FunctionAdapter
from cellule.effects.attempt import Attempt
from cellule.effects.outcomes import Failed, Retry
from cellule.effects.secrets import Secrets
from cellule.errors import CelluleError, Corrupted, Rejected
from cellule.host.outbox.limits import ERROR_CHARS_MAX, RECEIPT_INLINE_MAX
from cellule.host.outbox.receipts import Receipt
from cellule.host.outbox.rows import Row
from cellule.host.store_retry import StoreRetry
from cellule.kernel.limits import RECEIPT_BYTES_MAX
from cellule.kernel.state.intent_id import intent_text
from cellule.store.cas import Cas
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid
from cellule.values.link import Link
from cellule.values.schema import Codec, codec_for, derive

NAMESPACE = "effect"
_new = tuple.__new__  # a NamedTuple without its Python-level constructor


class Again(NamedTuple):
    """Another attempt may succeed."""

    reason: str
    after_s: float | None = None
    timed_out: bool = False


Outcome = Receipt | Again


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
    patience: StoreRetry


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

    def perform(self, row: Row) -> Outcome | Coroutine[Any, Any, Outcome]:
        """Make one attempt: what came of it, or, where something is waited for, what is to be awaited.

        Called in the task that then awaits: the adapter's first step runs right here, without a timer, and
        most quick adapters have no other. One that waits does so under its timeout, which began here too.
        """
        if isinstance(row.params, Link):
            return self._perform_linked(row, row.params)
        begun_s = asyncio.get_running_loop().time()
        try:
            params = self._params.decode(row.params)
        except (Rejected, Corrupted) as error:
            return self._unfit(row, error)
        try:
            work = self._work(params, row)
            if type(work) is not CoroutineType:  # whatever else can be awaited begins when it is
                return self._wait(row, work, begun_s)
            waited = work.send(None)
        except StopIteration as end:
            return self._done(row, end.value)
        except BaseException as error:  # noqa: BLE001 - what is not an outcome is raised again
            return self._outcome(row, error)
        return self._wait(row, _resumed(work, waited), begun_s)

    async def _perform_linked(self, row: Row, params: Link) -> Outcome:
        """Make an attempt whose params are in the CAS."""
        cas = self._around.cas_of(row.universe)
        try:
            data = await self._around.patience.call(lambda: cas.get(params.cid))
        except (Rejected, Corrupted) as error:
            return self._unfit(row, error)
        outcome = self.perform(row._replace(params=data))
        return outcome if isinstance(outcome, Receipt | Again) else await outcome

    async def _wait(self, row: Row, work: Awaitable[Any], begun_s: float) -> Outcome:
        limit = asyncio.timeout_at(begun_s + row.timeout_ns / 1e9)
        try:
            async with limit:
                value = await work
        except BaseException as error:  # noqa: BLE001 - what is not an outcome is raised again
            return self._outcome(row, error, expired=limit.expired())
        outcome = self._done(row, value)
        return outcome if isinstance(outcome, Receipt | Again) else await outcome

    def _outcome(self, row: Row, error: BaseException, *, expired: bool = False) -> Outcome:
        """What an exception of an adapter means; what comes from elsewhere is raised again."""
        match error:
            case Failed():
                return self._failed(row, error.code, error.text)
            case Retry():
                return Again(self._scrubbed(error.reason), error.after_s)
            case TimeoutError() if expired:
                return Again(f"it took longer than {row.timeout_ns / 1e9:g} s", timed_out=True)
            case Exception():  # whatever an adapter raises is a reason to try again
                return Again(self._scrubbed(f"{type(error).__name__}: {_said(error)}"))
            case asyncio.CancelledError() if not _is_cancelled():
                return self._ended(row, "cancelled", "effects.cancelled", "the adapter cancelled itself")
        raise error

    def gave_up(self, row: Row, again: Again) -> Receipt:
        """The receipt of an effect whose last attempt ended like this."""
        status, code = ("timeout", "effects.timeout") if again.timed_out else ("failed", "effects.exhausted")
        return Receipt(
            row.intent, row.height, status, None, code, again.reason, attempts=row.tried + 1, exhausted=True
        )

    def _work(self, params: Any, row: Row) -> Awaitable[Any]:
        adapter = self.adapter
        if type(adapter) is FunctionAdapter:
            return adapter.begin(params, lambda: self._attempt(row))
        return adapter.perform(params, self._attempt(row))

    def _attempt(self, row: Row) -> Attempt:
        around, intent = self._around, row.intent
        return Attempt(
            intent_text(intent), row.key, row.tried + 1, row.timeout_ns / 1e9, row.world, row.universe,
            row.module, row.cell, CasBlobs(around.cas_of, row.universe), around.secrets, row.grant,
            lambda value: around.note(intent, value),
        )  # fmt: skip

    def _done(self, row: Row, value: object) -> Outcome | Coroutine[Any, Any, Outcome]:
        """The receipt of a value; a long one has to be put first."""
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
        if len(data) > RECEIPT_INLINE_MAX:
            return self._put(row, data)
        return _ok(row, data)

    async def _put(self, row: Row, data: bytes) -> Receipt:
        cas = self._around.cas_of(row.universe)
        cid = await self._around.patience.call(lambda: cas.put(data, trusted=True))
        return _ok(row, Link(cid))

    def _without_secrets(self, data: bytes) -> bytes:
        """A secret that an adapter echoes does not reach the journal."""
        redactor = self._around.secrets.redactor
        if redactor.scrub_bytes(data) == data:
            return data
        scrubbed = encode(redactor.scrub(decode(data)))
        self._receipt.decode(scrubbed)
        return scrubbed

    def _unfit(self, row: Row, error: CelluleError) -> Receipt:
        return self._failed(row, "effects.params", f"the params do not fit {row.kind}: {error}")

    def _failed(self, row: Row, code: str, text: str) -> Receipt:
        return self._ended(row, "failed", code, text)

    def _ended(self, row: Row, status: str, code: str, text: str) -> Receipt:
        return Receipt(
            row.intent, row.height, status, None, self._scrubbed(code), self._scrubbed(text), row.tried + 1
        )

    def _scrubbed(self, text: str) -> str:
        scrubbed = self._around.secrets.redactor.scrub_text(str(text))[:ERROR_CHARS_MAX]
        return scrubbed.encode("utf-8", "replace").decode()


def _ok(row: Row, value: bytes | Link) -> Receipt:
    return _new(Receipt, (
        row.intent, row.height, "ok", value, "", "", row.tried + 1, False, None, None, "",
    ))  # fmt: skip


@coroutine
def _resumed(work: Coroutine[Any, Any, Any], waited: Any) -> Generator[Any, Any, Any]:
    """Go on with a coroutine whose first step was made: it waits for `waited`. Otherwise as `await` does."""
    try:
        while True:
            try:
                sent = yield waited
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's, as everything else
                waited = work.throw(error)
            else:
                waited = work.send(sent)
    except StopIteration as end:
        return end.value


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _said(error: BaseException) -> str:
    """What an error says; a class whose text cannot be made has none."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - foreign code
        return "?"
