"""What a world remembers of intents: the open ones, idempotency keys, counts, and schedules.

Part of the ledger, so changed by the same methods live and in replay. Nothing here routes, reads a
manifest or decides; what was decided comes in as the fields of a record.

    open        height of the Intent record -> OpenIntent
    keys        hash of module, kind and idempotency key -> KnownKey
    ages        (since_ns, height) -> the hash of that key: for forgetting
    counts      open intents of each module that adapters have; `over` are the modules at their limit
    spent       of each grant with a budget: the period, and how many intents it gave in it
    spent_by    of each grant whose budget counts by something: the period, and a count for each hash of that
    schedules   name -> ScheduleRow; `waiting` are those with a run that waits

Rejected: counting open intents by walking them. A limit is asked at every request.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any

from cellule.errors import ensure
from cellule.kernel.index.keys import is_number, pair_key
from cellule.kernel.index.ordered import OrderedIndex
from cellule.kernel.limits import DEDUPE_WINDOW_NS, IDEMPOTENCY_FORGET_PER_ADD
from cellule.kernel.need import Need, Nodes
from cellule.kernel.state.rows import (
    HELD,
    OPEN,
    OUTSIDE,
    PARKED,
    TIMER,
    KnownKey,
    KnownReceipt,
    OpenIntent,
    ScheduleRow,
    unpack_intent,
    unpack_key,
    unpack_place,
)


class Book:
    """All that is kept of intents and schedules."""

    __slots__ = (
        "ages", "counts", "keys", "open", "over", "parked", "schedules", "spent", "spent_by",
        "timers", "waiting",
    )  # fmt: skip

    def __init__(self, nodes: Nodes) -> None:
        self.open: OrderedIndex[OpenIntent] = OrderedIndex(None, nodes, unpack=unpack_intent)
        self.keys: OrderedIndex[KnownKey] = OrderedIndex(None, nodes, unpack=unpack_key)
        self.ages: OrderedIndex[bytes] = OrderedIndex(None, nodes, unpack=unpack_place)
        self.counts: dict[str, int] = {}
        self.over: set[str] = set()
        self.spent: dict[str, tuple[int, int]] = {}
        self.spent_by: dict[str, tuple[int, dict[bytes, int]]] = {}
        self.schedules: dict[str, ScheduleRow] = {}
        self.waiting: set[str] = set()
        self.parked = 0
        self.timers = 0

    def put_schedule(self, name: str, row: ScheduleRow | None) -> None:
        """A schedule is this now, or gone."""
        self.waiting.discard(name)
        if row is None:
            self.schedules.pop(name, None)
            return
        self.schedules[name] = row
        if row.waiting_ns:
            self.waiting.add(name)

    # Open intents

    def find(self, height: int) -> Generator[Need, None, OpenIntent | None]:
        """The open intent whose record stands at `height`, or None; `height` may be anything."""
        return (yield from self.open.get(pair_key(height, 0))) if is_number(height) else None

    def expect(self, heights: Iterable[int]) -> Generator[Need, None, None]:
        """Read open intents that this beat will ask for, all together."""
        yield from self.open.warm(pair_key(height, 0) for height in heights if is_number(height))

    def add(self, height: int, intent: OpenIntent) -> None:
        """An intent was decided for the first time."""
        self.open.insert(pair_key(height, 0), intent)
        self._count(intent, +1)

    def change(self, height: int, intent: OpenIntent, status: str, **extras: Any) -> OpenIntent:
        """Give an open intent another status, and other extras (None takes one away)."""
        self._count(intent, -1)
        kept = {name: value for name, value in {**intent.extras, **extras}.items() if value is not None}
        changed = intent._replace(status=status, extras=kept)
        self.open.put(pair_key(height, 0), changed)
        self._count(changed, +1)
        return changed

    def remove(self, height: int, intent: OpenIntent) -> None:
        """An intent is settled."""
        self.open.remove(pair_key(height, 0))
        self._count(intent, -1)

    def below(self, limits: Mapping[str, int]) -> list[str]:
        """The modules at their limit of open intents that are below these limits."""
        return sorted(base for base in self.over if base not in limits or self.counts[base] < limits[base])

    def _count(self, intent: OpenIntent, change: int) -> None:
        status, base = intent.status, intent.module
        if status in (OPEN, HELD):
            count = self.counts.get(base, 0) + change
            if count > 0:
                self.counts[base] = count
                return
            ensure(count == 0, "kernel.intent_count", "{module} has {n} open intents", module=base, n=count)
            self.counts.pop(base, None)
        elif status == PARKED:
            self.parked += change
            ensure(self.parked >= 0, "kernel.intent_count", "{module} parks too few", module=base)
        elif status in (TIMER, OUTSIDE):
            self.timers += change
            ensure(self.timers >= 0, "kernel.intent_count", "{module} has too few timers", module=base)

    # Grants

    def spend(self, grant: str, period: int) -> None:
        """One more intent of a grant in this period."""
        self.spent[grant] = (period, self.spent_in(grant, period) + 1)

    def spent_in(self, grant: str, period: int) -> int:
        """How many intents a grant gave in this period."""
        last, count = self.spent.get(grant, (period, 0))
        return count if last == period else 0

    def spend_by(self, grant: str, period: int, spender: bytes) -> None:
        """One more intent of a grant in this period, counted for a spender; those of other periods go."""
        counts = self.spenders(grant, period)
        counts[spender] = counts.get(spender, 0) + 1
        self.spent_by[grant] = (period, counts)

    def spenders(self, grant: str, period: int) -> dict[bytes, int]:
        """How many intents a grant gave in this period, by spender."""
        last, counts = self.spent_by.get(grant, (period, {}))
        return counts if last == period else {}

    # Idempotency keys

    def remembered(self, place: bytes, now_ns: int) -> Generator[Need, None, KnownKey | None]:
        """What is known of an idempotency key (by its hash), or None."""
        found = yield from self.keys.get(place)
        if found is None:
            return None
        return None if found.is_settled and found.since_ns + DEDUPE_WINDOW_NS <= now_ns else found

    def remember(self, place: bytes, params: bytes, height: int, now_ns: int) -> Generator[Need, None, None]:
        """An intent with an idempotency key was opened; keys that were settled long ago are forgotten.

        `params` is the digest of what it asks for.
        """
        old = yield from self.keys.get(place)
        if old is not None:
            self.ages.delete(pair_key(old.since_ns, old.height))
        self.keys.put(place, KnownKey(height, now_ns, None, [], params))
        self.ages.insert(pair_key(now_ns, height), place)
        yield from self._forget(now_ns)

    def wait_for(self, place: bytes, known: KnownKey, waiter: int) -> None:
        """Another intent waits for the receipt of the first with its key."""
        is_new = waiter != known.height and waiter not in known.waiters
        ensure(is_new, "kernel.key_order", "intent {height} waits for its key already", height=waiter)
        self.keys.put(place, known._replace(waiters=[*known.waiters, waiter]))

    def answered(self, place: bytes, known: KnownKey, receipt: KnownReceipt) -> None:
        """The first intent with this key got its receipt; those who wait leave as they get it."""
        is_first = known.receipt is None
        ensure(is_first, "kernel.key_order", "intent {height} is answered twice", height=known.height)
        self.keys.put(place, known._replace(receipt=receipt))
        self.ages.put(pair_key(known.since_ns, known.height), place)  # an open one may have lost its age

    def no_longer_waits(self, place: bytes, known: KnownKey, waiter: int) -> None:
        """A waiting intent was settled."""
        waiters = [height for height in known.waiters if height != waiter]
        self.keys.put(place, known._replace(waiters=waiters))

    def _forget(self, now_ns: int) -> Generator[Need, None, None]:
        if now_ns < DEDUPE_WINDOW_NS:
            return
        end = pair_key(now_ns - DEDUPE_WINDOW_NS, 0)
        # A few with each new key, so that no beat pays for all of them.
        page = yield from self.ages.scan(b"", end, IDEMPOTENCY_FORGET_PER_ADD)
        for age, place in page:
            known = yield from self.keys.get(place)
            if known is not None and known.receipt is not None and known.waiters:
                continue
            if known is None or known.is_settled:  # an open one is kept, however old; its age goes
                self.keys.delete(place)
            self.ages.remove(age)
