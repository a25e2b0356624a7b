"""Who works on a store: the contract between a node and whatever tells it that it is the owner.

A `Claim` is one unbroken time of owning. It ends once and never returns: what was loaded under it is dropped,
and owning again is another claim. `is_valid` is asked before anything is acknowledged or read, so a process
that was stopped says nothing it may not know. `folder.py` owns by a lock of the operating system, `lease.py`
by a session in a shared store, `Alone` has a store that no other process can see.

Rejected: one flag on the node. Between its setting and its reading another node may have owned the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from cellule.errors import Unavailable
from cellule.values.schema.text_forms import time_text


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A node as others see it; `expires_ms` is how long it lasts unless it is renewed.

    `node` and `expires_ms` are None where a lock of the operating system tells: it ends with its process.
    """

    host: str
    pid: int
    since_ns: int
    owns: bool
    node: UUID | None = None
    expires_ms: int | None = None

    @property
    def is_alive(self) -> bool:
        """Tell whether it was not found silent for its whole time."""
        return self.expires_ms is None or self.expires_ms > 0

    def __str__(self) -> str:
        named = "" if self.node is None else f"node {self.node}, "
        since = f" since {time_text(self.since_ns)}" if self.since_ns else ""
        return f"{named}process {self.pid} on {self.host}{since}"


def not_owner(sessions: Iterable[SessionInfo], lapsed: UUID | None) -> Unavailable:
    """Why a node may not act; `lapsed` is the session under which it last lost the store."""
    owner = next((each for each in sessions if each.owns), None)
    if owner is not None and owner.node is not None and owner.node == lapsed:
        return Unavailable(
            "host.session_lapsed", "this node could not renew its session in time and stopped working",
            hint="Nobody else owns the store; the node owns it again once it reaches it. Try again.",
        )  # fmt: skip
    return Unavailable(
        "host.not_owner", "this process does not own the store: {owner} does", owner=owner or "nobody yet",
        hint="Send through the inbox, or stop the owner: another process then takes over.",
    )  # fmt: skip


def node_closed() -> Unavailable:
    """The error of whoever calls a handle after the block of its node has ended."""
    return Unavailable(
        "host.node_closed", "the node is closed",
        hint="Call its handles inside `async with cellule.open(...)`, or open it again.",
    )  # fmt: skip


class Claim(Protocol):
    """One time of owning."""

    @property
    def node(self) -> UUID:
        """Who owns: what the epochs of worlds name."""

    @property
    def witness(self) -> Mapping[bytes, bytes]:
        """Rows that prove it: a batch that takes a world expects them."""

    def is_valid(self) -> bool:
        """Tell whether it lasts at this moment; once it does not, it never does again."""


class Ownership(Protocol):
    """How a node gets, keeps and loses a store."""

    @property
    def claim(self) -> Claim | None:
        """The claim of this node, while it has one."""

    @property
    def contends(self) -> bool:
        """Tell whether this node owns the store when nobody else does."""

    def contending(self, changed: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """Try to own until the block ends, then release; `changed` is called, on this loop, at each change.

        The first try is over when the block begins.
        """

    def check_store(self) -> None:
        """Refuse to write to a store that is not the one of its address any more."""

    async def sessions(self) -> list[SessionInfo]:
        """The nodes there are, as far as can be told from here."""


@dataclass(frozen=True, slots=True)
class Sole:
    """The claim of a process that nobody can displace."""

    node: UUID
    witness: Mapping[bytes, bytes]

    def is_valid(self) -> bool:
        """Always."""
        return True


class Alone:
    """A store that only this process has; `node` is None where it is not to work on it."""

    contends = True  # there is nobody to look for

    def __init__(self, node: UUID | None) -> None:
        self.claim: Claim | None = None if node is None else Sole(node, {})

    def contending(self, changed: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """See `Ownership`; there is nobody to contend with."""
        del changed
        return nullcontext()

    def check_store(self) -> None:
        """See `Ownership`."""

    async def sessions(self) -> list[SessionInfo]:
        """See `Ownership`."""
        return []
