"""`AdapterLimits`: how the pool treats an adapter; checked where it stands in its author's file.

A declaration in an app, and a single request, may say other attempts, timeout, deadline, priority and pauses;
what neither of them says is as it stands here. A request says its own where the step asks:

    charge(Charge("o1", 30), key="o1", priority=0, timeout_s=5, attempts=3, deadline_s=60)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from cellule.effects import limits as most
from cellule.errors import Rejected


def check_number(name: str, value: object, low: float, high: float) -> float:
    """Return a number within its bounds; `Rejected` otherwise."""
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
        return value
    raise _refusal(name, value, f"a number from {low:g} to {high:g}")


def check_count(name: str, value: object, low: int, high: int) -> int:
    """Return a whole number within its bounds; `Rejected` otherwise."""
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return value
    raise _refusal(name, value, f"a whole number from {low} to {high}")


def check_named(given: Mapping[str, object], form: type) -> None:
    """Refuse an option that `form`, a TypedDict, does not have: misspelt, it would mean nothing."""
    for name in given:
        if name not in form.__annotations__:
            raise Rejected(
                "effects.limit", "there is no option {name}", name=name,
                hint=f"There are: {', '.join(form.__annotations__)}.",
            )  # fmt: skip


def _refusal(name: str, value: object, allowed: str) -> Rejected:
    shown = repr(value)[:100]
    return Rejected(
        "effects.limit", "{name} is {allowed}, not {value}", name=name, allowed=allowed, value=shown
    )


class LimitOptions(TypedDict, total=False):
    """The fields of `AdapterLimits`, as a decorator takes them."""

    timeout_s: float
    attempts: int | None
    concurrency: int
    rate_per_s: float | None
    priority: int
    backoff_s: float
    backoff_max_s: float
    needs_grant: bool
    deadline_s: float
    no_retry: tuple[type[BaseException], ...]
    progress_s: float | None
    concurrency_by: Mapping[str, int]
    rate_by: Mapping[str, float]
    operation: bool


@dataclass(frozen=True, slots=True)
class AdapterLimits:
    """How the pool treats an adapter; priority 0 is served first, 9 last.

    Attempts go on until one succeeds or fails for good, `attempts` were made, or one fails after
    `deadline_s`. An exception of a class of `no_retry` ends them at once. An attempt that reports no
    progress for `progress_s` is over. `concurrency_by={"tenant": 2}` lets two attempts run at once for each
    value of that field of the params, `rate_by={"tenant": 5.0}` lets five begin in a second.
    With `operation` each effect shows its life as an operation; see `App.operations`.
    """

    timeout_s: float = most.TIMEOUT_S
    attempts: int | None = None
    concurrency: int = most.CONCURRENCY
    rate_per_s: float | None = None
    priority: int = most.PRIORITY
    backoff_s: float = most.BACKOFF_S
    backoff_max_s: float = most.BACKOFF_MAX_S
    needs_grant: bool = False
    deadline_s: float = most.DEADLINE_S
    no_retry: tuple[type[BaseException], ...] = ()
    progress_s: float | None = None
    concurrency_by: Mapping[str, int] = field(default_factory=dict)
    rate_by: Mapping[str, float] = field(default_factory=dict)
    operation: bool = False

    def __post_init__(self) -> None:
        check_number("timeout_s", self.timeout_s, 0.001, most.TIMEOUT_S_MAX)
        if self.attempts is not None:
            check_count("attempts", self.attempts, 1, most.ATTEMPTS_MAX)
        check_count("concurrency", self.concurrency, 1, most.CONCURRENCY_MAX)
        check_count("priority", self.priority, 0, most.PRIORITY_MAX)
        check_number("backoff_s", self.backoff_s, 0.0, most.TIMEOUT_S_MAX)
        check_number("backoff_max_s", self.backoff_max_s, self.backoff_s, most.TIMEOUT_S_MAX)
        check_number("deadline_s", self.deadline_s, 0.001, most.DEADLINE_S_MAX)
        if self.rate_per_s is not None:
            check_number("rate_per_s", self.rate_per_s, 0.000_01, 1_000_000.0)
        if self.progress_s is not None:
            check_number("progress_s", self.progress_s, 0.001, most.TIMEOUT_S_MAX)
        _check_classes(self.no_retry)
        for name, limit in _by_one_field("concurrency_by", self.concurrency_by).items():
            check_count(f"concurrency_by[{name!r}]", limit, 1, most.CONCURRENCY_MAX)
        for name, rate in _by_one_field("rate_by", self.rate_by).items():
            check_number(f"rate_by[{name!r}]", rate, 0.000_01, 1_000_000.0)


def _check_classes(given: object) -> None:
    if isinstance(given, tuple) and all(
        isinstance(each, type) and issubclass(each, BaseException) for each in given
    ):
        return
    raise Rejected(
        "effects.limit", "no_retry is a tuple of classes of exceptions, not {value}",
        value=repr(given)[:100], hint="Write no_retry=(ValueError, TypeError).",
    )  # fmt: skip


def _by_one_field(name: str, given: Any) -> Mapping[str, Any]:
    if isinstance(given, Mapping) and len(given) <= 1 and all(isinstance(path, str) for path in given):
        return given
    raise Rejected(
        "effects.limit", "{name} names one field of the params and its limit, not {value}",
        name=name, value=repr(given)[:100], hint=f'Write {name}={{"tenant": 2}}.',
    )  # fmt: skip


_SECOND_NS = 1_000_000_000


class RequestOptions(TypedDict, total=False):
    """What may be given with one request; see `AdapterLimits` for what each means."""

    timeout_s: float
    attempts: int
    deadline_s: float
    priority: int
    backoff_s: float
    backoff_max_s: float


def request_limits(options: RequestOptions) -> dict[str, int] | None:
    """The limits of a request as its record holds them; None where it has none."""
    check_named(options, RequestOptions)
    found: dict[str, int] = {}
    if "attempts" in options:
        found["attempts"] = check_count("attempts", options["attempts"], 1, most.ATTEMPTS_MAX)
    if "priority" in options:
        found["priority"] = check_count("priority", options["priority"], 0, most.PRIORITY_MAX)
    spans = {
        "timeout": (options.get("timeout_s"), 0.001, most.TIMEOUT_S_MAX),
        "deadline": (options.get("deadline_s"), 0.001, most.DEADLINE_S_MAX),
        "backoff": (options.get("backoff_s"), 0.0, most.TIMEOUT_S_MAX),
        "backoff_max": (options.get("backoff_max_s"), options.get("backoff_s") or 0.0, most.TIMEOUT_S_MAX),
    }
    for name, (value, least, limit) in spans.items():
        if value is not None:
            found[f"{name}_ns"] = round(check_number(f"{name}_s", value, least, limit) * _SECOND_NS)
    return found or None
