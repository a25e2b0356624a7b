"""`Attempt`: what an adapter is told about the try it makes, and the three things it may ask for.

The key is the same for every attempt of an intent, also after a crash: hand it to the other side, and doing
the work twice does no harm. Secrets, blobs and notes come through here, so an adapter reaches nothing else of
the node. Notes are progress for people who watch; they are scrubbed, and no journal keeps them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from cellule.effects.secrets.resolver import Secrets
from cellule.values.cid import Cid


class Blobs(Protocol):
    """The CAS of the intent's universe, as an adapter sees it."""

    async def put(self, data: bytes | AsyncIterator[bytes], /) -> Cid:
        """Store a blob, whole or in pieces, and return its CID; the same bytes give the same CID."""

    async def get(self, cid: Cid, /) -> bytes:
        """Return a blob; `Rejected` when this universe has none of that name."""


def _unheard(_note: object) -> None:
    """Where notes go when nobody watches."""


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

    def note(self, value: object) -> None:
        """Tell who watches how far this is; plain data, passed on without the secrets in it."""
        self.on_note(self.secrets.redactor.scrub(value))

    def scrub(self, text: str) -> str:
        """Return `text` without the secrets that this node has resolved."""
        return self.secrets.redactor.scrub_text(text)
