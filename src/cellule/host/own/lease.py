"""Owning a shared store: a node with a session claims it when the session of the claim before is gone.

    owner   {n, node}     n rises with every claim; the row stays when its session goes

One loop does everything in turns: renew the session, look at the others, expire the dead, claim what is free.
It runs on a thread of its own (`keeper.py`), so that a busy node is not taken to be dead. The node reads
`claim`; nothing else crosses over. The owner row is read before the sessions: a claim is made only by a node
with a session, so one without was left by a node that is gone.

A claim is as good as its session. One that was found invalid once, by whoever asked, is never good again,
even if nobody took the store meanwhile: the worlds loaded under it were told so.

Rejected: the claim in the session's row. The cluster claims worlds, many a session; the row of a session is
written three times in its ttl.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from cellule.errors import Corrupted, InvariantBroken, Rejected, Unavailable
from cellule.host.limits import (
    SESSION_RELEASE_S,
    SESSION_RENEWALS,
    SESSION_RETRY_S,
    SESSION_TTL_S_MAX,
    SESSION_TTL_S_MIN,
)
from cellule.host.own.keeper import Keeper, Signals
from cellule.host.own.ownership import Claim, SessionInfo
from cellule.host.own.session import Seen, Session, Sessions
from cellule.host.store_retry import settle
from cellule.sources import Clock, Entropy
from cellule.store import keys
from cellule.store.engine import Batch, Engine
from cellule.values.cbor import decode, encode

OWNER = keys.store_owner()
_log = logging.getLogger("cellule.host")


class StoreClaim:
    """The claim on a store, good while the session is, and until it was once found not to be."""

    def __init__(self, session: Session, row: bytes, doubted: Callable[[], None]) -> None:
        self.session = session
        self.witness: Mapping[bytes, bytes] = {OWNER: row}
        self._doubted = doubted
        self._is_over = False

    @property
    def node(self) -> UUID:
        """See `Claim`."""
        return self.session.node

    def is_valid(self) -> bool:
        """See `Claim`."""
        if not self._is_over and not self.session.is_valid():
            self._is_over = True
            self._doubted()
        return not self._is_over


class Lease:
    """The ownership of a shared store. `contends` is False for a node that only reads and enqueues."""

    def __init__(
        self, engine: Engine, keeper: Keeper, clock: Clock, entropy: Entropy, ttl_s: float, *,
        contends: bool = True,
    ) -> None:  # fmt: skip
        check_ttl(ttl_s)
        self.claim: Claim | None = None
        self._engine = engine
        self._keeper = keeper
        self._clock = clock
        self._entropy = entropy
        self._ttl_ms = int(ttl_s * 1_000)
        self.contends = contends
        self._session: Session | None = None
        self._others = Sessions(engine, clock, entropy, self._ttl_ms)
        self._nudge: Callable[[], None] = lambda: None
        self._tell: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def contending(self, changed: Callable[[], None]) -> AsyncIterator[None]:
        """See `Ownership`."""
        if not self.contends:
            yield
            return
        self._tell = partial(_tell, asyncio.get_running_loop(), changed)
        async with self._keeper.running(self._keep) as self._nudge:
            yield

    def check_store(self) -> None:
        """See `Ownership`: a server answers for its address."""

    async def sessions(self) -> list[SessionInfo]:
        """See `Ownership`."""
        [row] = await self._engine.read([OWNER])
        owner = None if row is None else claim_of(row)[1]
        found, now_ns = await self._others.look(), self._clock.monotonic_ns()
        return [each.info(now_ns, owns=each.node == owner) for each in found]

    # The loop; all below runs where the keeper does

    async def _keep(self, engine: Engine, signals: Signals) -> None:
        sessions = Sessions(engine, self._clock, self._entropy, self._ttl_ms)
        try:
            rest = await self._timed(engine, sessions)
            signals.began()
            while not signals.is_stopping:
                await _rest(engine, signals.nudge, rest)
                rest = Rest(SESSION_RETRY_S)
                with suppress(Unavailable):
                    rest = await self._timed(engine, sessions)
                self._notice()
        except (Corrupted, InvariantBroken):
            _log.exception("this node cannot own its store any more")
            raise
        finally:
            await self._let_go(sessions)

    async def _timed(self, engine: Engine, sessions: Sessions) -> Rest:
        """A turn, which may take no longer than the claim lasts: then it is over, whatever the store does."""
        claim, most_s = self.claim, self._ttl_ms / 1_000
        if isinstance(claim, StoreClaim):
            most_s = max((claim.session.until_ns - self._clock.monotonic_ns()) / 1e9, SESSION_RETRY_S)
        try:
            async with asyncio.timeout(most_s):
                return await self._turn(engine, sessions)
        except TimeoutError as error:
            raise Unavailable(
                "host.session_stalled", "the store did not answer within {seconds} s",
                seconds=round(most_s, 1), hint="This node does not own the store; it tries on.",
            ) from error  # fmt: skip

    async def _turn(self, engine: Engine, sessions: Sessions) -> Rest:
        """Renew, look, expire, claim; says how long to rest."""
        session = self._session
        if session is None:
            session = self._session = await sessions.acquire()
        elif self._clock.monotonic_ns() >= self._renew_ns(session) and not await sessions.renew(session):
            self._session = None
            return Rest(0)
        [row] = await engine.read([OWNER])
        found = {each.node: each for each in await sessions.look() if each.node != session.node}
        # The same count for its whole time, on our own monotonic clock: no wall clock decides who owns.
        for seen in list(found.values()):
            if self._clock.monotonic_ns() >= seen.expires_ns and await sessions.expire(seen):
                del found[seen.node]
        owner = await self._contend(engine, session, row, found)
        others = [each.expires_ns for each in found.values()]
        wait_ns = min([self._renew_ns(session), *others]) - self._clock.monotonic_ns()
        return Rest(max(wait_ns / 1e9, 0), owner)

    async def _contend(
        self, engine: Engine, session: Session, row: bytes | None, found: Mapping[UUID, Seen]
    ) -> Seen | None:
        """Claim the store if it is free; else say whose it is."""
        number, owner = (0, None) if row is None else claim_of(row)
        if owner is not None and owner != session.node:
            [held] = await engine.read([keys.session(owner)])
            if held is not None:
                return found.get(owner)
        if row is None or owner != session.node:
            claimed = encode({"n": number + 1, "node": session.node.bytes})
            expect = {OWNER: row, session.key: session.row}
            if not await settle(engine, Batch(expect=expect, set={OWNER: claimed}), OWNER, claimed):
                return None
            row = claimed
        if self.claim is None and session.is_valid():
            self.claim = StoreClaim(session, row, self._doubt)
            self._tell()
        return None

    def _doubt(self) -> None:
        """A claim was found invalid, here or on the node's loop: look at once."""
        self._nudge()

    def _renew_ns(self, session: Session) -> int:
        return session.renewed_ns + self._ttl_ms * 1_000_000 // SESSION_RENEWALS

    def _notice(self) -> None:
        """Drop a claim whose session is lost, or was not renewed in time."""
        claim = self.claim
        if claim is not None and not claim.is_valid():
            self.claim = None
            self._tell()

    async def _let_go(self, sessions: Sessions) -> None:
        """The end: nobody need wait for the session to expire."""
        session, self._session, self.claim = self._session, None, None
        self._tell()
        if session is not None:
            with suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(SESSION_RELEASE_S):
                    await sessions.release(session)


class Rest(NamedTuple):
    """How long to rest at most, and the session whose change ends it."""

    most_s: float
    watched: Seen | None = None


async def _rest(engine: Engine, nudge: asyncio.Event, rest: Rest) -> None:
    """Wait for the next turn, for a nudge, or for the owner's session to change."""
    waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(nudge.wait())]
    if rest.watched is not None:
        waits.append(asyncio.ensure_future(_watch(engine, rest.watched)))
    try:
        await asyncio.wait(waits, timeout=rest.most_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    nudge.clear()


async def _watch(engine: Engine, seen: Seen) -> None:
    try:
        await engine.watch(keys.session(seen.node), seen.row)
    except Unavailable:
        await asyncio.sleep(SESSION_RETRY_S)


def claim_of(row: bytes) -> tuple[int, UUID]:
    """Read the owner row: the number of the claim, and the node."""
    try:
        fields: Any = decode(row)
        return int(fields["n"]), UUID(bytes=fields["node"])
    except (ValueError, TypeError, KeyError) as error:
        raise Corrupted(
            "host.owner_row", "the row that says who owns the store cannot be read",
            hint="It was written by another version, or damaged.",
        ) from error  # fmt: skip


def check_ttl(ttl_s: float) -> None:
    """Refuse a session time that no clock or network can keep."""
    if not SESSION_TTL_S_MIN <= ttl_s <= SESSION_TTL_S_MAX:
        raise Rejected(
            "host.session_ttl", "session_ttl_s is {ttl_s}; it must be {least} to {most} seconds",
            ttl_s=ttl_s, least=SESSION_TTL_S_MIN, most=SESSION_TTL_S_MAX,
        )  # fmt: skip


def _tell(loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
    """Call `changed` on the node's loop, unless that has ended."""
    with suppress(RuntimeError):
        if asyncio.get_running_loop() is loop:
            changed()
        else:
            loop.call_soon_threadsafe(changed)
