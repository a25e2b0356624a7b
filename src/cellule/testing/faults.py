"""Which faults happen when: by rates and a seed (`Faults`), or by a script (`FaultPlan`).

Both answer one question, what happens to the n-th operation, with a `Fault`; `faulty_engine.py` performs it.
Every fault is one that the engine contract allows, so a caller that fails under them has a bug.

Rejected: a `Conflict` out of nothing. By contract it says that an expected key held another value, and
callers may act on that ("this name is taken"). Conflicts here are genuine: delays let other writers in
between, and a plan can name a `rival` batch that is committed first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum, auto
from typing import Literal, Protocol

from cellule.errors import Rejected
from cellule.store.engine import Batch
from cellule.testing.entropy import SeededEntropy

Operation = Literal["read", "scan", "commit", "watch"]

MILLISECOND = 1_000_000


class Fate(Enum):
    """How an operation ends."""

    ANSWERED = auto()
    UNAVAILABLE = auto()  # raised; nothing was applied
    UNKNOWN_APPLIED = auto()  # OutcomeUnknown; it arrived, only the answer is lost
    UNKNOWN_LOST = auto()  # OutcomeUnknown; it never arrived
    UNKNOWN_LATE = auto()  # OutcomeUnknown; it arrives after the caller was told, if it still can
    CRASH_APPLIED = auto()  # the handle crashes once the batch is durable; nobody is told
    CRASH_LOST = auto()  # the handle crashes before the batch left
    FOR_NOTHING = auto()  # a watch that returns although nothing changed


_COMMIT_FATES = frozenset(Fate) - {Fate.FOR_NOTHING}
_READ_FATES = frozenset({Fate.ANSWERED, Fate.UNAVAILABLE, Fate.CRASH_LOST})
_FATES = {
    "commit": _COMMIT_FATES,
    "read": _READ_FATES,
    "scan": _READ_FATES,
    "watch": _READ_FATES | {Fate.FOR_NOTHING},
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one operation; the default is nothing."""

    fate: Fate = Fate.ANSWERED
    before_ns: int = 0  # under way to the store
    after_ns: int = 0  # the answer under way back
    late_ns: int = 0  # UNKNOWN_LATE: until it arrives; FOR_NOTHING and UNAVAILABLE watches: until it ends
    stamped_early: bool = False  # its stamps are taken when it leaves: larger ones may be seen first
    rival: Batch | None = None  # committed by somebody else just before this one


class FaultSource(Protocol):
    """Decides the fault of each operation."""

    def fault(self, operation: Operation, number: int, entropy: SeededEntropy) -> Fault:
        """The fault of the `number`-th (from 1) `operation` of a handle."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Rates from 0 to 1 and bounds of times; the default is a store without faults or delays.

    `unavailable` concerns every operation, `unknown_...` and `early_stamp` commits, `for_nothing` watches.
    `delay` is the chance of a delay, up to `delay_ns_max`, before an operation and again after it.
    """

    unavailable: float = 0.0
    unknown_applied: float = 0.0
    unknown_lost: float = 0.0
    unknown_late: float = 0.0
    late_ns_max: int = 200 * MILLISECOND
    early_stamp: float = 0.0
    for_nothing: float = 0.0
    delay: float = 0.0
    delay_ns_max: int = 20 * MILLISECOND

    def __post_init__(self) -> None:
        for rate in fields(self):
            value = getattr(self, rate.name)
            top = float("inf") if rate.name.endswith("_ns_max") else 1
            if not 0 <= value <= top:
                raise Rejected(
                    "testing.fault_rate", "{name} is {value}; it goes from 0 to {top}",
                    name=rate.name, value=value, top=top,
                )  # fmt: skip

    def fault(self, operation: Operation, number: int, entropy: SeededEntropy) -> Fault:
        """Draw the fault of one operation."""
        # Every number is drawn every time, so that changing one rate leaves the other draws alone.
        fate_at, early = entropy.below(1 << 53) / (1 << 53), entropy.chance(self.early_stamp)
        before_ns, after_ns, late_ns = self._delay_ns(entropy), self._delay_ns(entropy), self.late_ns(entropy)
        if early and operation == "commit":
            before_ns += 1 + entropy.below(self.delay_ns_max + 1)
        return Fault(
            self._fate(operation, fate_at), before_ns, after_ns, late_ns, early and operation == "commit"
        )

    def late_ns(self, entropy: SeededEntropy) -> int:
        """Draw how long a commit that nobody waits for is still under way."""
        return entropy.below(self.late_ns_max + 1)

    def _delay_ns(self, entropy: SeededEntropy) -> int:
        delayed, delay_ns = entropy.chance(self.delay), entropy.below(self.delay_ns_max + 1)
        return delay_ns if delayed else 0

    def _fate(self, operation: Operation, at: float) -> Fate:
        rates = [(Fate.UNAVAILABLE, self.unavailable)]
        if operation == "commit":
            rates.append((Fate.UNKNOWN_APPLIED, self.unknown_applied))
            rates.append((Fate.UNKNOWN_LOST, self.unknown_lost))
            rates.append((Fate.UNKNOWN_LATE, self.unknown_late))
        elif operation == "watch":
            rates.append((Fate.FOR_NOTHING, self.for_nothing))
        for fate, rate in rates:
            if at < rate:
                return fate
            at -= rate
        return Fate.ANSWERED


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Exact faults: the n-th (from 1) commit, read, scan or watch of a handle meets the one listed."""

    commit: Mapping[int, Fault] = field(default_factory=dict)
    read: Mapping[int, Fault] = field(default_factory=dict)
    scan: Mapping[int, Fault] = field(default_factory=dict)
    watch: Mapping[int, Fault] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for operation, allowed in _FATES.items():
            for number, fault in getattr(self, operation).items():
                if number < 1 or fault.fate not in allowed:
                    raise Rejected(
                        "testing.fault_plan", "{operation} {number} cannot meet {fate}",
                        operation=operation, number=number, fate=fault.fate.name,
                        hint="Operations count from 1; only commits have unknown outcomes.",
                    )  # fmt: skip

    def fault(self, operation: Operation, number: int, entropy: SeededEntropy) -> Fault:
        """Look the fault up."""
        listed: Mapping[int, Fault] = getattr(self, operation)
        return listed.get(number, _NO_FAULT)

    def late_ns(self, entropy: SeededEntropy) -> int:
        """A commit that nobody waits for arrives at once, if at all."""
        return 0


_NO_FAULT = Fault()

CALM = Faults()
"""No fault and no delay."""

ROUGH = Faults(
    unavailable=0.05, unknown_applied=0.05, unknown_lost=0.05, unknown_late=0.05, early_stamp=0.2,
    for_nothing=0.2, delay=0.5,
)  # fmt: skip
"""A little of everything, often: what simulations use unless they say otherwise."""
