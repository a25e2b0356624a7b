"""How an open store answers: time of commits and of objects, rights to write, who owns it, its clock.

The probes write under keys and names of their own and remove them again; a running node does not notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median
from typing import Literal

from cellule.cli.errors import Exit, exit_code, message_of
from cellule.cli.output import counted
from cellule.errors import CelluleError
from cellule.host.node import Node
from cellule.sources import uuid7
from cellule.store import keys
from cellule.store.engine import Batch, ServerClock
from cellule.store.object_store import ObjectStore

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    status: Status
    text: str
    exit: Exit = Exit.OK

    def json(self) -> dict[str, str]:
        """The finding as JSON data."""
        return {"what": self.what, "status": self.status, "text": self.text}

    @classmethod
    def of_error(cls, what: str, error: CelluleError) -> Finding:
        """What went wrong, and what to do about it."""
        return cls(what, "fail", f"{message_of(error)} {error.hint}".strip(), exit_code(error))


ROUNDS = 5
PROBE_S = 20.0
OBJECT_BYTES = 20_000
COMMIT_SLOW_MS = 100.0
OBJECT_SLOW_MS = 1_000.0
CLOCK_APART_S = 2.0


async def probe(node: Node, *, is_shared: bool) -> list[Finding]:
    """Try everything a node does with its store; the lock of a folder tells its owner already."""
    findings = [await _told("commits", lambda: _commits(node))]
    if node.objects is not None:
        objects = node.objects
        findings.append(await _told("objects", lambda: _objects(node, objects)))
    if is_shared:
        findings.append(await _told("owner", lambda: _owner(node)))
    if isinstance(node.engine, ServerClock):
        engine = node.engine
        findings.append(await _told("clock", lambda: _clock(node, engine)))
    return findings


async def _told(what: str, look: Callable[[], Awaitable[Finding]]) -> Finding:
    """A finding, whatever happens; nothing is waited for longer than `PROBE_S`."""
    try:
        async with asyncio.timeout(PROBE_S):
            return await look()
    except CelluleError as error:
        return Finding.of_error(what, error)
    except TimeoutError:
        return Finding(what, "warn", f"no answer within {PROBE_S:g} s")


async def _commits(node: Node) -> Finding:
    key = keys.probe(uuid7(node.clock.now_ns(), node.entropy.bytes(10)))
    batch = Batch(set={key: b"probe"})
    try:
        times = [await _timed(node, node.engine.commit(batch)) for _ in range(ROUNDS)]
    finally:
        await node.engine.commit(Batch(clear=[key]))
    return Finding(
        "commits", _status(median(times), COMMIT_SLOW_MS), f"{median(times):.1f} ms each (median of {ROUNDS})"
    )


async def _objects(node: Node, objects: ObjectStore) -> Finding:
    name, body = f"doctor/{node.entropy.bytes(8).hex()}", node.entropy.bytes(OBJECT_BYTES)
    put = await _timed(node, objects.put(name, body))
    try:
        got = await _timed(node, objects.get(name))
    finally:
        deleted = await _timed(node, objects.delete(name))
    text = f"put {put:.0f} ms, get {got:.0f} ms, delete {deleted:.0f} ms, {OBJECT_BYTES} bytes"
    return Finding("objects", _status(max(put, got, deleted), OBJECT_SLOW_MS), text)


async def _owner(node: Node) -> Finding:
    sessions = await node.ownership.sessions()
    owner = next((each for each in sessions if each.owns), None)
    if owner is None:
        return Finding("owner", "ok", "nobody owns the store")
    lasts = f"for {(owner.expires_ms or 0) / 1_000:.1f} s unless it is renewed"
    return Finding("owner", "ok", f"{owner}, {lasts}; {counted(len(sessions) - 1, 'other node')}")


async def _clock(node: Node, engine: ServerClock) -> Finding:
    before_ns = node.clock.now_ns()
    server_ns = await engine.server_time_ns()
    apart_s = (server_ns - (before_ns + node.clock.now_ns()) // 2) / 1e9
    way = "ahead" if apart_s > 0 else "behind"
    return Finding("clock", _status(abs(apart_s), CLOCK_APART_S), f"the server is {abs(apart_s):.3f} s {way}")


def _status(found: float, limit: float) -> Status:
    return "ok" if found <= limit else "warn"


async def _timed(node: Node, call: Awaitable[object]) -> float:
    """Milliseconds."""
    begun_ns = node.clock.monotonic_ns()
    await call
    return (node.clock.monotonic_ns() - begun_ns) / 1e6
