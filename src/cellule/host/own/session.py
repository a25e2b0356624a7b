"""Sessions: which nodes are alive on a shared store, told by rows that their nodes keep changing.

    session/<node>   {address, count, pid, roles, since_ns, ttl_ms}     count rises with every renewal

Nobody compares clocks. A node trusts its session until `ttl_ms` after it *began* to ask for the renewal, less
a margin for clocks of different rates; another node counts `ttl_ms` from when it *saw* the count, which was
later. Then it clears the row, expecting exactly what it saw, so a renewal and an expiry cannot both succeed.
A cleared session never returns: a node that lost its own acquires another, under a new id. What a session is
good for does not live here; see `lease.py`.

Rejected: a time of expiry in the row. It would make the store depend on clocks that agree.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from cellule.errors import CelluleError
from cellule.host.limits import SESSION_MARGIN, SESSION_TTL_S_MAX, SESSIONS_MAX
from cellule.host.own.ownership import SessionInfo
from cellule.host.store_retry import settle
from cellule.sources import Clock, Entropy, uuid7
from cellule.store import keys
from cellule.store.engine import Batch, Engine
from cellule.values.cbor import decode, encode

ROLES = ("worker",)
UNREADABLE: Final = "a machine that this version cannot read of"
TTL_MS_MAX: Final = int(SESSION_TTL_S_MAX * 1_000)


class Session:
    """This node's session; `until_ns`, on its own monotonic clock, is how long it may be trusted."""

    __slots__ = ("asked_ns", "clock", "fields", "node", "renewed_ns", "row", "until_ns")

    def __init__(self, node: UUID, clock: Clock, fields: dict[str, Any]) -> None:
        self.node = node
        self.clock = clock
        self.fields = fields
        self.row = b""  # as the store holds it, as far as is known
        self.until_ns = self.renewed_ns = 0
        self.asked_ns: int | None = None  # when the renewal under way was first asked for

    def is_valid(self) -> bool:
        """Tell whether nobody can have taken it to be dead."""
        return self.clock.monotonic_ns() < self.until_ns

    @property
    def key(self) -> bytes:
        """Where it stands."""
        return keys.session(self.node)


@dataclass(frozen=True, slots=True)
class Seen:
    """Another node's session: its row, and since when it has been the same on our monotonic clock."""

    node: UUID
    row: bytes
    since_ns: int
    fields: dict[str, Any]

    @property
    def expires_ns(self) -> int:
        """When it is dead, unless it changes."""
        return self.since_ns + int(self.fields["ttl_ms"]) * 1_000_000

    def info(self, now_ns: int, *, owns: bool) -> SessionInfo:
        """As people see it."""
        left_ms = max(0, (self.expires_ns - now_ns) // 1_000_000)
        at = self.fields
        return SessionInfo(at["address"], at["pid"], at["since_ns"], owns, self.node, left_ms)


class Sessions:
    """The sessions of one store, as one node sees them."""

    def __init__(self, engine: Engine, clock: Clock, entropy: Entropy, ttl_ms: int) -> None:
        self._engine = engine
        self._clock = clock
        self._entropy = entropy
        self._ttl_ms = ttl_ms
        self._seen: dict[UUID, Seen] = {}

    async def acquire(self) -> Session:
        """A new session."""
        now_ns = self._clock.now_ns()
        node = uuid7(now_ns, self._entropy.bytes(10))
        fields = {
            "address": socket.gethostname(), "count": -1, "pid": os.getpid(), "roles": list(ROLES),
            "since_ns": now_ns, "ttl_ms": self._ttl_ms,
        }  # fmt: skip
        session = Session(node, self._clock, fields)
        await self.renew(session)
        return session

    async def renew(self, session: Session) -> bool:
        """Tell the others that the node lives; False, for good, where one of them took it to be dead.

        A renewal whose outcome was unknown is the same one when it is asked for again, and counts from when
        it was asked for first: others may have seen it since then.
        """
        if session.asked_ns is None:
            session.asked_ns = self._clock.monotonic_ns()
        fields = {**session.fields, "count": session.fields["count"] + 1}
        row = encode(fields)
        batch = Batch(expect={session.key: session.row or None}, set={session.key: row})
        if not await settle(self._engine, batch, session.key, row):
            session.until_ns = 0
            return False
        session.row, session.fields = row, fields
        session.until_ns = session.asked_ns + int(self._ttl_ms * 1e6 * (1 - SESSION_MARGIN))
        session.renewed_ns, session.asked_ns = session.asked_ns, None
        return True

    async def release(self, session: Session) -> None:
        """End the session; whoever waits for its end need not wait any longer."""
        session.until_ns = 0
        batch = Batch(expect={session.key: session.row}, clear=[session.key])
        await settle(self._engine, batch, session.key, None)

    async def look(self) -> list[Seen]:
        """All sessions there are, and since when each has been as it is."""
        page = await self._engine.scan(*keys.session_range(), limit=SESSIONS_MAX)
        now_ns = self._clock.monotonic_ns()  # after the answer: it was like that before
        found = {}
        for key, row in page.items:
            node = keys.session_node(key)
            before = self._seen.get(node)
            is_same = before is not None and before.row == row
            found[node] = before if before and is_same else Seen(node, row, now_ns, fields_of(row))
        self._seen = found
        return list(found.values())

    async def expire(self, seen: Seen) -> bool:
        """Clear the session of a node that has not renewed it for its time; False if it just has."""
        key = keys.session(seen.node)
        return await settle(self._engine, Batch(expect={key: seen.row}, clear=[key]), key, None)


def fields_of(row: bytes) -> dict[str, Any]:
    """Read a session row; of one that says nothing we understand only its silence counts.

    It was written by another version, or damaged: its node lives as long as the row changes, and is given the
    longest time that a session may have.
    """
    try:
        fields: Any = decode(row)
        known = all(type(fields[name]) is int for name in ("count", "pid", "since_ns", "ttl_ms"))
        if known and isinstance(fields["address"], str) and 0 < fields["ttl_ms"] <= TTL_MS_MAX:
            found: dict[str, Any] = fields
            return found
    except (CelluleError, TypeError, KeyError):
        pass
    return {"address": UNREADABLE, "count": 0, "pid": 0, "since_ns": 0, "ttl_ms": TTL_MS_MAX}
