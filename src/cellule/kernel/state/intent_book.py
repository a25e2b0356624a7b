"""What a world remembers of intents: the open ones, idempotency keys, counts, and schedules.

Part of the ledger, so changed by the same methods live and in replay. Nothing here routes, reads a
manifest or decides; what was decided comes in as the fields of a record.

    open        height of the Intent record -> [id, module, key, born, kind, status, more]
                status: open (an adapter has it), parked (waits for an approval), waiting (for the receipt of
                another intent with its idempotency key), timer, denied (until its receipt, in the same frame)
                more: params, since_ns, and where there is one: key, slot, due (its timer's key), grant, rule,
                same (the height of the intent it waits for), text (why it waits for an approval)
    keys        hash of kind and idempotency key -> [height, since_ns, receipt, waiters]
                receipt: null while the intent is open, else [status, schema, value]
    ages        (since_ns, height) -> the hash of that key: for forgetting
    counts      open intents of each module that adapters have; `over` are the modules at their limit
    spent       of each grant with a budget: [period, count]
    schedules   name -> [fingerprint, due_ns, paused]

Rejected: counting open intents by walking them. A limit is asked at every request.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from cellule.errors import Corrupted
from cellule.kernel.index.keys import pair_key
from cellule.kernel.index.layer import MISSING
from cellule.kernel.index.ordered import OrderedIndex
from cellule.kernel.limits import DEDUPE_WINDOW_NS, IDEMPOTENCY_FORGET_PER_ADD
from cellule.kernel.need import Need, Nodes
from cellule.kernel.state.intent_id import idempotency_hash
from cellule.kernel.state.snapshot_schema import is_intent, is_remembered_key

OPEN = "open"
PARKED = "parked"
WAITING = "waiting"
TIMER = "timer"
DENIED = "denied"


class Book:
    """All that is kept of intents and schedules."""

    __slots__ = ("ages", "counts", "keys", "open", "over", "parked", "schedules", "spent", "timers")

    def __init__(self, nodes: Nodes) -> None:
        self.open = OrderedIndex(None, nodes)
        self.keys = OrderedIndex(None, nodes)
        self.ages = OrderedIndex(None, nodes)
        self.counts: dict[str, int] = {}
        self.over: set[str] = set()
        self.spent: dict[str, list[int]] = {}
        self.schedules: dict[str, list[Any]] = {}
        self.parked = 0
        self.timers = 0

    # Open intents

    def find(self, height: int) -> Generator[Need, None, list[Any] | None]:
        """The open intent whose record stands at `height`, or None; `height` may be anything."""
        if not _is_height(height):
            return None
        key = pair_key(height, 0)
        held: Any = self.open.held(key)
        if held is not MISSING:  # it was made here, and needs no proof
            made: list[Any] | None = held
            return made
        found: list[Any] | None = yield from self.open.get(key)
        if found is not None and not is_intent(found):
            raise Corrupted(
                "kernel.intent_damaged", "intent {height} is not what it should be", height=height
            )
        return found

    def expect(self, heights: Iterable[int]) -> Generator[Need, None, None]:
        """Read open intents that this beat will ask for, all together."""
        yield from self.open.warm(pair_key(height, 0) for height in heights if _is_height(height))

    def add(self, height: int, entry: list[Any]) -> None:
        """An intent was decided for the first time."""
        self.open.insert(pair_key(height, 0), entry)
        self._count(entry, +1)

    def change(self, height: int, entry: list[Any], status: str, **fields: Any) -> list[Any]:
        """Give an open intent another status, and other fields of `more` (None takes one away)."""
        self._count(entry, -1)
        more = {**entry[6], **fields}
        changed = [*entry[:5], status, {name: field for name, field in more.items() if field is not None}]
        self.open.put(pair_key(height, 0), changed)
        self._count(changed, +1)
        return changed

    def remove(self, height: int, entry: list[Any]) -> None:
        """An intent is settled."""
        self.settled(pair_key(height, 0), entry)

    def settled(self, place: bytes, entry: list[Any]) -> None:
        """The intent at this place of `open` is settled."""
        self.open.remove(place)
        self._count(entry, -1)

    def _count(self, entry: list[Any], change: int) -> None:
        status, base = entry[5], entry[1]
        if status == OPEN:
            count = self.counts.get(base, 0) + change
            if count:
                self.counts[base] = count
            else:
                self.counts.pop(base, None)
        elif status == PARKED:
            self.parked += change
        elif status == TIMER:
            self.timers += change

    # Grants

    def spend(self, grant: str, period: int) -> None:
        """One more intent of a grant in this period."""
        known = self.spent.get(grant)
        self.spent[grant] = (
            [period, known[1] + 1] if known is not None and known[0] == period else [period, 1]
        )

    def spent_in(self, grant: str, period: int) -> int:
        """How many intents a grant gave in this period."""
        known = self.spent.get(grant)
        return known[1] if known is not None and known[0] == period else 0

    # Idempotency keys

    def remembered(self, kind: str, key: str, now_ns: int) -> Generator[Need, None, list[Any] | None]:
        """What is known of an idempotency key: [height, since_ns, receipt, waiters], or None."""
        found = yield from self.keys.get(idempotency_hash(kind, key))
        if found is None:
            return None
        if not is_remembered_key(found):
            raise Corrupted("kernel.idempotency_damaged", "what is kept of key {key} is damaged", key=key)
        is_old = found[2] is not None and found[1] + DEDUPE_WINDOW_NS <= now_ns
        return None if is_old else found

    def remember(self, kind: str, key: str, height: int, now_ns: int) -> Generator[Need, None, None]:
        """An intent with an idempotency key was opened; keys that were settled long ago are forgotten."""
        place = idempotency_hash(kind, key)
        old = yield from self.keys.get(place)
        if old is not None:
            self.ages.delete(pair_key(old[1], old[0]))
        self.keys.put(place, [height, now_ns, None, []])
        self.ages.insert(pair_key(now_ns, height), place)
        yield from self._forget(now_ns)

    def wait_for(self, kind: str, key: str, known: list[Any], waiter: int) -> None:
        """Another intent waits for the receipt of the first with its key."""
        self.keys.put(idempotency_hash(kind, key), [*known[:3], [*known[3], waiter]])

    def answered(self, kind: str, key: str, known: list[Any], receipt: list[Any]) -> None:
        """The first intent with this key got its receipt; nobody waits any more."""
        place = idempotency_hash(kind, key)
        self.keys.put(place, [*known[:2], receipt, []])
        self.ages.put(pair_key(known[1], known[0]), place)  # an open one may have lost its age

    def no_longer_waits(self, kind: str, key: str, known: list[Any], waiter: int) -> None:
        """A waiting intent was settled on its own."""
        waiters = [height for height in known[3] if height != waiter]
        self.keys.put(idempotency_hash(kind, key), [*known[:3], waiters])

    def _forget(self, now_ns: int) -> Generator[Need, None, None]:
        if now_ns < DEDUPE_WINDOW_NS:
            return
        end = pair_key(now_ns - DEDUPE_WINDOW_NS, 0)
        page = yield from self.ages.scan(b"", end, IDEMPOTENCY_FORGET_PER_ADD)
        for age, place in page:
            known = yield from self.keys.get(place)
            if known is None or known[2] is not None:  # an open one is kept, however old; its age goes
                self.keys.delete(place)
            self.ages.remove(age)


def _is_height(height: object) -> bool:
    return type(height) is int and 0 < height < 1 << 63
