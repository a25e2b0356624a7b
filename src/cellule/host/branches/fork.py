"""Forking: a new world that begins where another one stands, or stood.

A fork is one batch, whatever the size of the world: it names a snapshot, and says whose history is below. If
there is no snapshot at that height yet, the world is restored up to there first, in memory, and one is
written. The owner of the store then opens the new world; its first beat makes the Fork record, and deals with
what was open (`kernel/decide/forks.py`).

What the parent's inbox and outbox hold stays the parent's. Two of its worlds never perform one effect: a
fork's outbox begins empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from cellule.errors import Rejected, Unavailable
from cellule.host.branches.answers import AnswerRows, Script, recorded_answers, scripted_answers
from cellule.host.cas_fetch import drive, put_blocks
from cellule.host.codecs import StoredCodecs, WorldCodecs
from cellule.host.journal import Head, Journal, Progress
from cellule.host.limits import ATTEMPTS_MAX, LINEAGE_MAX
from cellule.host.node import Node
from cellule.host.own.directory import UniverseInfo, WorldInfo, world_gone
from cellule.host.own.origin import Origin
from cellule.host.read.journal_reader import nanoseconds_of
from cellule.host.read.reader import Reader
from cellule.kernel.journal.records import BaselineRecord, ControlRecord, Record, SnapshotRecord
from cellule.kernel.state.branch import DROP, EFFECTS, RECORDED, SCRIPTED
from cellule.store import keys
from cellule.store.cas import OVERTAKEN_ROOT, Parts
from cellule.values.cbor import decode
from cellule.values.cid import Cid

NOTES_MAX: Final = 8  # frames, and records of one, that only note snapshots and are passed over

At = int | datetime | Cid | None
"""Where to fork: a height, a time, a kept snapshot, or now."""


class ForkPoint(NamedTuple):
    """What people mean by `main@120`: a world, or none where the command knows it, and a point of it."""

    world: str | None
    at: At


def parse_point(text: str | None, *, is_world: bool = False) -> ForkPoint:
    """Read `120`, a time, `main`, `main@120` or `main@CID`; `is_world` says that it begins with a world.

    >>> parse_point("main@120")
    ForkPoint(world='main', at=120)
    """
    if text is None:
        return ForkPoint(None, None)
    if not is_world:
        moment = _moment(text)
        if moment is not None:
            return ForkPoint(None, moment)
    world, separator, rest = text.rpartition("@")
    if not separator:
        return ForkPoint(text, None)
    at: At = _moment(rest)
    if at is None:
        try:
            at = Cid.parse(rest)
        except Rejected as error:
            raise Rejected(
                "host.fork_point", "{given} names no point of a world", given=text,
                hint="Give a height, a time, WORLD, WORLD@HEIGHT or WORLD@CID of a snapshot.",
            ) from error  # fmt: skip
    return ForkPoint(world, at)


def _moment(text: str) -> int | datetime | None:
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class ForkOptions:
    """How a fork deals with the outside, who makes it and why.

    `effects` is what becomes of those that are open: `drop` cancels them, `keep` dispatches them once more
    with the same idempotency key, `recorded` and `scripted` answer them, and later ones, without asking
    anybody. Unless it is `live`, the fork holds external effects: they are listed, and not dispatched.
    """

    effects: str = DROP
    live: bool = False
    script: Script | None = None
    who: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        if self.effects not in EFFECTS:
            raise Rejected(
                "host.fork_effects", "the effects of a fork are {known}, not {given}",
                known=", ".join(EFFECTS), given=self.effects,
            )  # fmt: skip
        if (self.script is not None) != (self.effects == SCRIPTED):
            raise Rejected(
                "host.fork_script", "a script is given exactly if the effects of the fork are scripted",
                hint="Give effects='scripted' and script=[...], or --effects scripted --script FILE.",
            )  # fmt: skip


class _Moved(Exception):
    """The snapshot that a fork was to begin from is not kept any more."""


@dataclass(slots=True)
class _Point:
    """Where a fork begins: a snapshot of the source's history; `row` holds it, if it is a kept one."""

    height: int
    root: Cid
    expect: Mapping[bytes, bytes | None] = field(default_factory=dict)


async def height_of(reader: Reader, at: At) -> int:
    """The last whole beat at or below what is meant."""
    head = await reader.journal.head()
    if at is None:
        return await _without_notes(reader, head)
    height = at
    if isinstance(at, datetime):
        height = await reader.journal.height_at(nanoseconds_of(at))
    elif isinstance(at, Cid):
        return await _height_of_snapshot(reader, at)
    if type(height) is not int or not 0 <= height <= head.height:
        raise Rejected(
            "host.height", "height {at} is not in the journal of world {world}, which ends at {height}",
            at=height, world=reader.name, height=head.height,
        )  # fmt: skip
    if height == 0:
        return 0
    header = (await reader.journal.frame(height, head)).header
    return height if header.last == height else header.first - 1


async def _without_notes(reader: Reader, head: Head) -> int:
    """The newest height that is no note of a snapshot: a fork of a world at rest needs no new one."""
    height = head.height
    for _ in range(NOTES_MAX):
        first = 0 if height == 0 else await reader.journal.first_of(height, head)
        if height == 0 or height - first >= NOTES_MAX:
            break
        if not all(map(_is_note, (await reader.journal.frame(height, head)).records)):
            break
        height = first - 1
    return height


def _is_note(record: Record) -> bool:
    if isinstance(record, ControlRecord):
        return record.verb in ("snapshot", "baseline")
    return isinstance(record, SnapshotRecord | BaselineRecord)


async def _height_of_snapshot(reader: Reader, root: Cid) -> int:
    found = await reader.journal.snapshot_height(root)
    if found is None:
        raise Rejected(
            "host.no_such_snapshot", "world {world} keeps no snapshot {cid}",
            world=reader.name, cid=str(root), hint="Give a height instead.",
        )  # fmt: skip
    return found


async def fork_world(
    node: Node, source: WorldInfo, types: WorldCodecs, name: str, at: At, options: ForkOptions,
    progress: Progress | None = None,
) -> WorldInfo:  # fmt: skip
    """Fork a world; where it begins is the `origin` of what is returned."""
    reader, universe = Reader(node, source), UniverseInfo(source.universe, str(source.universe), 0)
    lineage = source.lineage
    if len(lineage.ancestors) >= LINEAGE_MAX:
        raise Rejected(
            "host.lineage_max", "world {world} has {count} worlds above it; a fork has at most {most}",
            world=source.name, count=len(lineage.ancestors), most=LINEAGE_MAX,
        )  # fmt: skip
    await node.storage.check_new_world(universe.id)
    leaving = await node.directory.leaving(universe, name)
    if leaving is not None and node.is_owner:
        await node.delete_world(leaving)  # its deletion did not end
    made = None
    for _ in range(ATTEMPTS_MAX):
        since = await node.cas(universe.id).generation()
        height = await height_of(reader, at)
        point = await _point(node, reader, source, height, progress, is_now=at is None)
        answers = await _answers(reader, types, point.height, options)
        given = None if answers is None else await answers.put(node.cas(universe.id))
        with suppress(_Moved):
            made = await _commit(node, universe, source, name, point, options, given, since)
            break
    if made is None or made.origin is None:
        raise Unavailable(
            "host.fork_contended", "the snapshots of world {world} keep changing", world=source.name
        )
    if node.is_owner:
        await (await node.hosted(made)).wait_durable(made.origin.beat + 1)
    return made


async def fork_codecs(reader: Reader, types: WorldCodecs) -> WorldCodecs:
    """The codecs of a fork: its parent's where it runs the same, else those of what it runs."""
    stored = await reader.manifest()
    return types if types.manifest.cid == stored.cid else StoredCodecs(stored)


async def _answers(
    reader: Reader, types: WorldCodecs, height: int, options: ForkOptions
) -> AnswerRows | None:
    if options.effects == RECORDED:
        return await recorded_answers(reader, height)
    if options.effects == SCRIPTED:
        assert options.script is not None
        return scripted_answers(options.script, types, await reader.manifest_at(height))
    return None


async def _point(
    node: Node, reader: Reader, source: WorldInfo, height: int, progress: Progress | None, *, is_now: bool
) -> _Point:
    """The snapshot to begin from: a kept one, one that the owner takes now, or one of a restored copy.

    One of `is_now` may be of a height above.
    """
    cas = node.cas(source.universe)
    head = await reader.journal.head()
    kept = await Journal(node.engine, cas, source.lineage).snapshot_at(height)
    if kept is not None and kept.height == height:
        return _Point(height, kept.root, {kept.row: bytes(kept.root)})
    if height == head.height and node.may_act():
        taken, root = await (await node.hosted(source)).snapshot_now()
        if taken == height or is_now:  # it may have gone on meanwhile
            row = keys.snapshot(source.universe, source.id, taken)
            return _Point(taken, root, {row: bytes(root)})
    world, _, _ = await node.loader.restore(source, cas, progress, upto=height, fast=False)
    job: Any = world.snapshot()
    root = await drive(job.run(), world.ledger.nodes, cas)
    await put_blocks(cas, job.blocks)
    below = {} if kept is None else {kept.row: bytes(kept.root)}  # most of the new one is a part of it
    return _Point(world.ledger.height, root, below)


async def _commit(
    node: Node, universe: UniverseInfo, source: WorldInfo, name: str, point: _Point, options: ForkOptions,
    answers: tuple[Cid, int] | None, since: int,
) -> WorldInfo:  # fmt: skip
    """Make the world in one batch; `_Moved` where the snapshot went meanwhile."""
    cas, listing = node.cas(universe.id), keys.universe_world(universe.id, source.id)
    snapshot: Any = decode(await cas.get(point.root))
    lineage = source.lineage.child(UUID(int=0), point.height)
    origin = Origin(
        lineage.ancestors, snapshot["beat"], snapshot["frame"], options.effects, options.live, options.who,
        options.why, answers,
    )  # fmt: skip

    async def witness() -> Parts:
        listed, *rows = await node.engine.read([listing, *point.expect])
        if listed is None:
            raise world_gone(source.name)
        if rows != list(point.expect.values()):
            raise _Moved
        try:
            parts = await cas.witness(since)
        except Unavailable as error:
            if error.code == OVERTAKEN_ROOT:
                raise _Moved from error  # two collections began: all is put again
            raise
        return Parts({**parts.expect, **point.expect, listing: listed}, parts.set)

    return await node.directory.create_world(universe, name, point.root, witness, origin)
