"""One attempt: params in, a receipt out, or the reason to try again.

Everything an adapter can do wrong ends here as data. Params and receipt are read and written by the adapter's
own record classes; what does not fit fails the effect, for another attempt would not fit either. Texts are
scrubbed of secrets before they leave, and so is a receipt. When attempts are made is the pool's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from functools import cached_property, partial
from types import CoroutineType, coroutine
from typing import Any, NamedTuple
from uuid import UUID

from cellule.effects.adapter import Adapter, FunctionAdapter
from cellule.effects.attempt import Attempt
from cellule.effects.failure import error_text, place_text, safe_text, sole_error, trace_text
from cellule.effects.outcomes import Failed, Later, Retry
from cellule.effects.secrets import Secrets
from cellule.errors import CelluleError, Corrupted, Rejected
from cellule.host.erasure_keys import ErasureKeys
from cellule.host.outbox.backoff import SECOND_NS, seconds_of
from cellule.host.outbox.limits import ERROR_CHARS_MAX, RECEIPT_INLINE_MAX
from cellule.host.outbox.receipts import Receipt
from cellule.host.outbox.rows import Row
from cellule.host.store_retry import StoreRetry
from cellule.kernel.limits import OUTSIDE_NS_MAX, RECEIPT_BYTES_MAX
from cellule.kernel.state.intent_id import intent_text, intent_token
from cellule.store.cas import Cas
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid
from cellule.values.link import Link
from cellule.values.schema import Codec, codec_for, derive
from cellule.values.sealed_value import is_sealed

NAMESPACE = "effect"
_new = tuple.__new__  # a NamedTuple without its Python-level constructor


class Again(NamedTuple):
    """Another attempt may succeed."""

    reason: str
    after_s: float | None = None
    timed_out: bool = False
    is_last: bool = False  # it would fail again
    progress: bytes | None = None  # the last that it reported
    trace: str = ""  # the whole traceback, for the log


Outcome = Receipt | Again


class Waiting(NamedTuple):
    """The rest of an attempt that waits, and until when on the loop's clock it may."""

    work: Awaitable[Any]
    until_s: float


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
    keys_of: Callable[[UUID], ErasureKeys]


class Performer:
    """Makes the attempts of one adapter."""

    def __init__(self, adapter: Adapter, around: Surroundings) -> None:
        self.adapter = adapter
        self.kind, self.limits = adapter.kind, adapter.limits  # asked once: they may be code of its own
        self._around = around

    @cached_property
    def _params(self) -> Codec[Any]:
        """Made at the first attempt: most nodes perform few of the kinds they could."""
        return codec_for(derive(self.adapter.params, namespace=NAMESPACE))

    @cached_property
    def _receipt(self) -> Codec[Any]:
        return codec_for(derive(self.adapter.receipt, namespace=NAMESPACE))

    def perform(
        self, row: Row, on_progress: Callable[[bytes], None]
    ) -> Outcome | Awaitable[Receipt] | Waiting:
        """Make the first step of an attempt: what came of it, or what is left to wait for.

        Called in the attempt's own task. Whatever the adapter's code raises is an outcome.
        """
        begun_s = asyncio.get_running_loop().time()
        try:
            params = self._params.decode(row.params)  # type: ignore[arg-type] # linked ones are fetched first
        except BaseException as error:  # noqa: BLE001 - classes of params may have code of their own
            return self._unfit(row, error)
        try:
            work = self._work(params, row, on_progress)
            if type(work) is not CoroutineType:  # whatever else can be awaited begins when it is
                return Waiting(work, begun_s + self.timeout_s(row))
            waited = work.send(None)
        except StopIteration as end:
            return self.returned(row, end.value)
        except asyncio.CancelledError as error:
            return self.cancelled_itself(row, error)
        except BaseException as error:  # noqa: BLE001 - whatever an adapter raises ends its attempt only
            return self.raised(row, error)
        return Waiting(_resumed(work, waited), begun_s + self.timeout_s(row))

    async def fetched(self, row: Row, params: Link | bytes) -> Row | Receipt:
        """The row with its params and its grant, which are in the CAS, or sealed."""
        around, cas, grant = self._around, self._around.cas_of(row.universe), row.grant
        try:
            if isinstance(grant, Link):
                grant = decode(await around.patience.call(partial(cas.get, grant.cid)))  # type: ignore[assignment]
            if isinstance(params, Link):
                params = await around.patience.call(partial(cas.get, params.cid))
            if is_sealed(params):
                params = await around.patience.call(partial(around.keys_of(row.universe).opened, params))
        except (Rejected, Corrupted) as error:
            return self._unfit(row, error)
        if is_sealed(params):
            return self._failed(row, "kernel.erased", "its params were erased before it was performed")
        return row._replace(params=params, grant=grant)

    def raised(self, row: Row, error: BaseException, *, timed_out: bool = False) -> Outcome:
        """What an exception of an adapter means."""
        try:
            match sole_error(error):
                case Failed() as failed:
                    return self._failed(row, safe_text(failed.code), safe_text(failed.text))
                case Later() as later:
                    return self._outside(row, later)
                case Retry() as retry:
                    reason, after_s = safe_text(retry.reason), seconds_of(retry.after_s)
                    if after_s is None and retry.after_s is not None:
                        reason += f"; its after_s is no number of seconds{place_text(retry)}"
                    return Again(self._scrubbed(reason), after_s)
        except BaseException as broken:  # noqa: BLE001 - its fields may be code of its own
            error = broken
        if timed_out:
            return self.timed_out(row)
        is_last = _is_one_of(error, self.limits.no_retry)
        return Again(self._scrubbed(error_text(error)), is_last=is_last, trace=trace_text(error))

    def timed_out(self, row: Row, *, left: bool = False, said: BaseException | None = None) -> Again:
        """The outcome of an attempt whose time is over; `left` where it did not even stop then."""
        text = f"it took longer than {self.timeout_s(row):g} s"
        if said is not None and type(said) is asyncio.CancelledError and said.args:
            text += f": {self._scrubbed(safe_text(said))}"
        return Again(text + (", and goes on although it was cancelled" if left else ""), timed_out=True)

    def silent(self) -> Again:
        """The outcome of an attempt that reported no progress for too long."""
        return Again(f"it reported no progress for {self.limits.progress_s or 0:g} s", timed_out=True)

    def timeout_s(self, row: Row) -> float:
        """How long an attempt may take: as the request or its declaration say, else the adapter."""
        return row.timeout_ns / 1e9 if row.timeout_ns else self.limits.timeout_s

    def cancelled_itself(self, row: Row, error: BaseException) -> Again:
        """The outcome of an attempt that was cancelled by nobody but its adapter."""
        return Again(f"the adapter of {row.kind} cancelled its own task{place_text(error)}")

    def gave_up(self, row: Row, again: Again) -> Receipt:
        """The receipt of an effect whose last attempt ended like this."""
        status, code = ("timeout", "effects.timeout") if again.timed_out else ("failed", "effects.exhausted")
        return Receipt(
            row.intent, row.height, status, None, code, again.reason, attempts=row.tried + 1, exhausted=True
        )

    def _work(self, params: Any, row: Row, on_progress: Callable[[bytes], None]) -> Awaitable[Any]:
        adapter = self.adapter
        if type(adapter) is FunctionAdapter:
            return adapter.begin(params, lambda: self._attempt(row, on_progress))
        return adapter.perform(params, self._attempt(row, on_progress))

    def _attempt(self, row: Row, on_progress: Callable[[bytes], None]) -> Attempt:
        around, intent = self._around, row.intent
        held: Any = row.grant  # a linked one was fetched first
        grant: Any = None if held is None else decode(encode(held))  # the world's own is for all its requests
        return Attempt(
            intent_text(intent), row.key, row.tried + 1, self.timeout_s(row), row.world, row.universe,
            row.module, row.cell, CasBlobs(around.cas_of, row.universe), around.secrets, grant,
            lambda value: around.note(intent, value), intent_token(row.world.bytes, row.height, intent),
            None if row.progress is None else decode(row.progress), on_progress,
        )  # fmt: skip

    def returned(self, row: Row, value: object) -> Receipt | Awaitable[Receipt]:
        """The receipt of a value; a long one has to be put first."""
        try:
            data = self._without_secrets(self._receipt.encode(value))
        except BaseException as error:  # noqa: BLE001 - classes of receipts may have code of their own
            why = safe_text(error) if isinstance(error, CelluleError) else error_text(error)
            if self._around.secrets.redactor.holds(value):  # of which `why` may quote a part
                why = "it holds a secret, and is not shown for that"
            return self._failed(
                row, "effects.receipt", f"what {row.kind} returned is no receipt of it: {why}"
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

    def _unfit(self, row: Row, error: BaseException) -> Receipt:
        why = safe_text(error) if isinstance(error, CelluleError) else error_text(error)
        return self._failed(row, "effects.params", f"the params do not fit {row.kind}: {why}")

    def _outside(self, row: Row, later: Later) -> Outcome:
        """Somebody outside completes it: what the world hears of that."""
        timeout_s = seconds_of(later.timeout_s, OUTSIDE_NS_MAX / SECOND_NS)
        if timeout_s is None:
            return Again(f"its timeout_s is no number of seconds{place_text(later)}")
        after_ns = round(timeout_s * SECOND_NS)
        return Receipt(row.intent, row.height, "outside", encode(after_ns), attempts=row.tried + 1)

    def _failed(self, row: Row, code: str, text: str) -> Receipt:
        return self._ended(row, "failed", code, text)

    def _ended(self, row: Row, status: str, code: str, text: str) -> Receipt:
        return Receipt(
            row.intent, row.height, status, None, self._scrubbed(code), self._scrubbed(text), row.tried + 1
        )

    def _scrubbed(self, text: str) -> str:
        scrubbed = self._around.secrets.redactor.scrub_text(text)[:ERROR_CHARS_MAX]
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


def _is_one_of(error: BaseException, classes: tuple[type[BaseException], ...]) -> bool:
    try:
        return bool(classes) and isinstance(sole_error(error), classes)
    except BaseException:  # noqa: BLE001 - `__class__` may be code of its own
        return False
