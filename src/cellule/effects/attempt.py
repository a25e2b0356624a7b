"""`Attempt`: what an adapter is told about the try it makes, and the three things it may ask for.

The key is the same for every attempt of an intent, also after a crash: hand it to the other side, and doing
the work twice does no harm. Secrets, blobs and notes come through here, so an adapter reaches nothing else of
the node. Notes are progress for people who watch; they are scrubbed, and no journal keeps them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from uuid import UUID

from cellule.effects.limits import PROGRESS_BYTES_MAX
from cellule.effects.outcomes import Failed
from cellule.effects.secrets.resolver import Secrets
from cellule.values.cbor import encode
from cellule.values.cid import Cid

T = TypeVar("T")


class Blobs(Protocol):
    """The CAS of the intent's universe, as an adapter sees it."""

    async def put(self, data: bytes | AsyncIterator[bytes], /) -> Cid:
        """Store a blob, whole or in pieces, and return its CID; the same bytes give the same CID."""

    async def get(self, cid: Cid, /) -> bytes:
        """Return a blob; `Rejected` when this universe has none of that name."""


def _unheard(_note: object) -> None:
    """Where notes and progress go when nobody watches."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to perform an intent; `number` counts from 1, `grant` is what the capability allows.

    `token` names the intent to whoever completes it later, after the adapter raised `Later`.
    """

    intent: str
    key: str
    number: int
    timeout_s: float
    world: UUID
    universe: UUID
    module: str
    cell: bytes
    blobs: Blobs = field(repr=False)
    secrets: Secrets = field(default_factory=Secrets, repr=False)
    grant: Mapping[str, Any] | None = None
    on_note: Callable[[object], None] = field(default=_unheard, repr=False)
    token: str = ""
    last_progress: Any = None
    on_progress: Callable[[bytes], None] = field(default=_unheard, repr=False)
    loop: asyncio.AbstractEventLoop | None = field(default=None, repr=False)  # the node's, for a thread

    def note(self, value: object) -> None:
        """Tell who watches how far this is; plain data, passed on without the secrets in it."""
        self._on_loop(self.on_note, self.secrets.redactor.scrub(value))

    def progress(self, value: object = None) -> None:
        """Report how far this is, as plain data: the next attempt finds it in `last_progress`.

        Where the adapter has `progress_s`, an attempt that reports nothing for so long is over.
        """
        data = encode(self.secrets.redactor.scrub(value))
        if len(data) > PROGRESS_BYTES_MAX:
            raise Failed(
                "effects.progress",
                f"The progress has {len(data)} bytes; at most {PROGRESS_BYTES_MAX}. Put it into a blob.",
            )
        self._on_loop(self.on_progress, data)

    def wait(self, awaitable: Coroutine[Any, Any, T]) -> T:
        """Wait in an adapter that is a plain `def`: `attempt.wait(attempt.blobs.get(cid))`."""
        if self.loop is None:
            raise RuntimeError("attempt.wait is for adapters that are a plain def; write await")
        return asyncio.run_coroutine_threadsafe(awaitable, self.loop).result()

    def _on_loop(self, call: Callable[[Any], None], value: Any) -> None:
        if self.loop is None:
            call(value)
        else:
            self.loop.call_soon_threadsafe(call, value)

    def scrub(self, text: str) -> str:
        """Return `text` without the secrets that this node has resolved."""
        return self.secrets.redactor.scrub_text(text)
