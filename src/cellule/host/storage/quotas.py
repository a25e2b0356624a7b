"""Quotas of a universe: how much of everything it may have, what it has, and refusals that name the quota.

    u/<universe>/quotas = {cells?, events_per_s?, snapshots?, stored_bytes?, worlds?,
                           usage?: {cells, snapshots, stored_bytes, worlds}}      as the owner measured it

The owner of the store measures its universes now and then, and leaves what it found for processes that do
not own it; so what is refused is what was too much a short while ago: a quota bounds growth and is no exact
count. New worlds, forks and imports are counted when they are made. Events are refused at the edge, before
they are acknowledged; what is in the store goes on: receipts, timers, effects, and what people do.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from cellule.errors import CelluleError, Conflict, Corrupted, Rejected
from cellule.host.cas_fetch import fetch_block
from cellule.host.limits import COLLECT_PAGE, QUOTA_BURST_S, QUOTA_MAX, SNAPSHOTS_KEPT_MAX
from cellule.host.own.counted_rows import check_counted, set_counted
from cellule.host.own.directory import WorldInfo, baseline_of
from cellule.host.storage.event_rates import SECOND_NS, allowance, counted, read_counts
from cellule.sources import Clock
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Batch, Engine, counter_value
from cellule.values.cbor import decode, decode_trusted, encode
from cellule.values.words import printed, type_name

QUOTAS = "the row of a universe's quotas"


@dataclass(frozen=True, slots=True)
class Quotas:
    """What a universe may have; None: as much as it likes."""

    worlds: int | None = None
    snapshots: int | None = None  # kept ones, of all its worlds
    stored_bytes: int | None = None  # of objects: states, snapshots, blobs, segments
    cells: int | None = None  # as of the baselines of its worlds
    events_per_s: int | None = None  # sent to its worlds, by all processes together

    def __post_init__(self) -> None:
        for name in self.__slots__:
            most = getattr(self, name)
            if most is not None and not (type(most) is int and 0 <= most <= QUOTA_MAX):
                raise Rejected(
                    "host.quota_value", "the quota {quota} is {value}; it is a whole number, 0 to {most}",
                    quota=name, most=QUOTA_MAX,
                    value=printed(most) if isinstance(most, int) else f"a {type_name(most)}",
                )  # fmt: skip

    def row(self, usage: Usage | None = None) -> bytes:
        """As the store holds it, with what the owner measured."""
        row: dict[str, Any] = {name: most for name, most in asdict(self).items() if most is not None}
        return encode(row if usage is None else {**row, "usage": asdict(usage)})

    @classmethod
    def of_row(cls, stored: Any) -> tuple[Quotas, Usage]:
        """Read a stored row, and what its owner measured last; without one there is no quota."""
        if stored is None:
            return cls(), Usage()
        try:
            row: Any = decode(stored)
            usage = Usage(**row.pop("usage", {}))
            return cls(**row), usage
        except (CelluleError, TypeError, AttributeError) as error:
            raise Corrupted(
                "host.quotas_damaged", "the quotas of a universe cannot be read: {why}", why=error,
                hint="Set them again: cellule universe quota NAME --worlds 10",
            ) from error  # fmt: skip


@dataclass(frozen=True, slots=True)
class Usage:
    """What a universe has."""

    worlds: int = 0
    snapshots: int = 0
    stored_bytes: int = 0
    cells: int = 0


async def read_quotas(engine: Engine, universe: UUID) -> Quotas:
    """The quotas of a universe."""
    row, count = await engine.read([keys.universe_quotas(universe), keys.row_count("quotas", universe)])
    return Quotas.of_row(check_counted(row, count, QUOTAS))[0]


async def write_quotas(engine: Engine, universe: UUID, quotas: Quotas) -> None:
    """Set the quotas of a universe; what it already has stays."""
    meta = keys.universe_meta(universe)
    [known] = await engine.read([meta])
    key, count = keys.universe_quotas(universe), keys.row_count("quotas", universe)
    await set_counted(engine, key, quotas.row(), count, {meta: known})


async def write_usage(engine: Engine, universe: UUID, quotas: Quotas, usage: Usage) -> None:
    """Leave what was measured beside the quotas, unless somebody changes them meanwhile."""
    key = keys.universe_quotas(universe)
    [stored] = await engine.read([key])
    if Quotas.of_row(stored)[0] != quotas or stored == quotas.row(usage):
        return
    with suppress(Conflict):
        await engine.commit(Batch(expect={key: stored}, set={key: quotas.row(usage)}))


async def usage_of(
    engine: Engine, cas: Cas, worlds: Iterable[WorldInfo], *, with_bytes: bool = True
) -> Usage:
    """Measure a universe: rows of all objects, and the baselines of its worlds."""
    count = snapshots = cells = size = 0
    for info in worlds:
        count += 1
        begin, end = keys.snapshot_range(info.universe, info.id)
        snapshots += len((await engine.scan(begin, end, limit=2 * SNAPSHOTS_KEPT_MAX)).items)
        [baseline] = await engine.read([keys.world_baseline(info.universe, info.id)])
        if baseline is not None:
            snapshot: Any = decode_trusted(await fetch_block(cas, baseline_of(baseline)[1]))
            cells += sum(number for _, number in snapshot["modules"].values())
    after = None
    while with_bytes and (entries := await cas.entries(limit=COLLECT_PAGE, after=after)):
        size += sum(each.size for each in entries)
        after = entries[-1].cid
    return Usage(count, snapshots, size, cells)


async def check_new_world(engine: Engine, universe: UUID, name: str) -> None:
    """Refuse a world that would be one too many."""
    most = (await read_quotas(engine, universe)).worlds
    [stored] = await engine.read([keys.row_count("worlds", universe)])
    if most is not None and counter_value(stored) >= most:
        raise exceeded(name, "worlds", most, counter_value(stored))


async def check_more_snapshots(
    engine: Engine, cas: Cas, name: str, worlds: Iterable[WorldInfo], count: int
) -> None:
    """Refuse to keep so many more snapshots than now if the universe may not."""
    most = (await read_quotas(engine, cas.universe)).snapshots
    if most is None or count <= 0:
        return
    found = (await usage_of(engine, cas, worlds, with_bytes=False)).snapshots
    if found + count > most:
        raise exceeded(name, "snapshots", most, found)


def exceeded(universe: str, quota: str, limit: int, found: int) -> Rejected:
    """The error of what a quota does not allow."""
    return Rejected(
        "host.quota", "universe {universe} has {found} of the {most} {quota} that its quota allows",
        universe=universe, quota=quota, most=limit, found=found,
        hint=f"Remove some, or raise it: cellule universe quota {universe} --{quota.replace('_', '-')} N",
    )  # fmt: skip


def full_quota(quotas: Quotas, usage: Usage) -> tuple[str, int, int] | None:
    """The quota of cells or bytes that is used up, as `exceeded` takes it; None where there is room."""
    for name in ("stored_bytes", "cells"):
        most, found = getattr(quotas, name), getattr(usage, name)
        if most is not None and found >= most:
            return name, most, found
    return None


class Gate:
    """Decides which events a universe with quotas may take, in the process that owns it."""

    def __init__(self, name: str, quotas: Quotas, usage: Usage, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self.per_s = quotas.events_per_s
        self.left = float((self.per_s or 0) * QUOTA_BURST_S)
        self.at_ns = clock.monotonic_ns()
        self.taken = 0  # and not told to other processes yet
        self.known: dict[int, int] | None = None  # events by the second that `left` takes into account
        self._over = full_quota(quotas, usage)

    def check(self, count: int) -> None:
        """Take so many events, or refuse all of them with the quota's name."""
        if self._over is not None:
            raise exceeded(self._name, *self._over)
        if self.per_s is None:
            return
        now_ns = self._clock.monotonic_ns()
        self.left += (now_ns - self.at_ns) / 1e9 * self.per_s
        self.left = min(self.left, float(self.per_s * QUOTA_BURST_S))
        self.at_ns = now_ns
        if self.left < count:
            raise exceeded(self._name, "events_per_s", self.per_s, self.per_s)
        self.left -= count
        self.taken += count

    def follow(self, before: Gate | None) -> None:
        """Go on with what the gate before it had left of this second."""
        if before is not None and before.per_s == self.per_s:
            self.left, self.at_ns = before.left, before.at_ns
            self.taken, self.known = before.taken, before.known

    async def share(self, engine: Engine, universe: UUID) -> None:
        """Take off what other processes sent, and tell them what was taken here."""
        assert self.per_s is not None
        now_ns = self._clock.now_ns()
        counts = await read_counts(engine, universe, now_ns)
        if self.known is None:  # the first look of this owner
            self.left = min(self.left, allowance(counts, self.per_s, now_ns))
        else:
            others = sum(count - self.known.get(second, 0) for second, count in counts.items())
            self.left = max(self.left - others, -float(self.per_s * QUOTA_BURST_S))
        self.known = counts
        if self.taken:
            count, self.taken = self.taken, 0
            await engine.commit(counted(universe, now_ns, count))
            second = now_ns // SECOND_NS
            counts[second] = counts.get(second, 0) + count
