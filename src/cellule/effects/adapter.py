"""Adapters: what performs an intent. The contract, the decorator for one async function, and the registry.

An adapter states its kind, the record classes of its params and receipt, and its limits; `perform` makes one
attempt. When attempts are made, how often and at what pace is the pool's business, what becomes of the value
the kernel's. The decorated function is also how a step asks for the effect: calling it gives a `Request`.

Rejected: registration when the decorator runs. A module that is merely imported must not change a node.
Rejected: retrying inside adapters. Only the pool's pauses survive a restart.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload, runtime_checkable

from cellule.effects import limits as most
from cellule.effects.adapter_limits import (
    AdapterLimits,
    LimitOptions,
    RequestOptions,
    check_named,
    request_limits,
)
from cellule.effects.attempt import Attempt, Blobs
from cellule.effects.outcomes import Failed, Later, Retry
from cellule.effects.signature import read_signature
from cellule.effects.threads import Threads
from cellule.errors import Rejected
from cellule.values.requests import Receipt, Request
from cellule.values.schema import Derived, derive
from cellule.values.schema.paths import leads_to
from cellule.values.words import printed

if TYPE_CHECKING:
    from typing_extensions import TypeIs, Unpack

__all__ = [
    "Adapter", "AdapterLimits", "Adapters", "Attempt", "Blobs", "Failed", "FunctionAdapter", "Later", "Retry",
    "adapter", "check_kind",
]  # fmt: skip

P = TypeVar("P")
R = TypeVar("R")
_KIND = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")


@runtime_checkable
class Adapter(Protocol):
    """What performs intents of one kind; made once a node, used by many attempts at a time."""

    @property
    def kind(self) -> str:
        """The kind of effect, dotted and lower case: `payments.charge`."""

    @property
    def params(self) -> type:
        """The record class of the params."""

    @property
    def receipt(self) -> type:
        """The record class of the value that `perform` returns."""

    @property
    def limits(self) -> AdapterLimits:
        """How the pool treats it."""

    async def perform(self, params: Any, attempt: Attempt) -> Any:
        """Make one attempt and return the receipt's value.

        Raises `Failed` when no further attempt can help and `Retry` when one may; any other exception counts
        as `Retry`. May run twice for one intent, also at the same time after a takeover: `attempt.key` is the
        same then. Cancellation ends it at once.
        """

    async def close(self) -> None:
        """Let go of connections; no attempt is running any more."""


class FunctionAdapter(Generic[P, R]):
    """A function as an adapter; calling it makes the request that a step returns.

    One that is a plain `def` runs on threads of its own, as many as attempts may run at once.
    """

    __slots__ = ("_takes_attempt", "_threads", "function", "kind", "limits", "params", "receipt")

    def __init__(self, kind: str, function: Callable[..., Any], limits: AdapterLimits) -> None:
        self.kind = check_kind(kind)
        self.function = function
        self.limits = limits
        self.params, self.receipt, self._takes_attempt = read_signature(function)
        blocks = not inspect.iscoroutinefunction(function)
        self._threads = Threads(limits.concurrency, f"cellule-{kind}") if blocks else None

    def __call__(
        self, params: P, *, key: str | None = None, slot: str | None = None, **options: Unpack[RequestOptions]
    ) -> Request[R]:
        """Ask for this effect; `key` is its idempotency key, `slot` the capability slot it uses.

        `options` are for this request only: `timeout_s`, `attempts`, `deadline_s`, `priority`, `backoff_s`,
        `backoff_max_s`.
        """
        if not isinstance(params, self.params):
            raise Rejected(
                "effects.params", "{kind} takes {expected}, not {given}",
                kind=self.kind, expected=self.params.__qualname__, given=type(params).__qualname__,
                hint=f"Write {self.name}({self.params.__qualname__}(...)): that makes the request for your"
                " step; only the node performs it.",
            )  # fmt: skip
        return Request(self.kind, params, slot, key, request_limits(options) if options else None)

    def is_receipt(self, event: object) -> TypeIs[Receipt[R]]:
        """Whether an event is a receipt of this effect; `event.value` is then of its class, or None."""
        return isinstance(event, Receipt) and event.kind == self.kind

    async def perform(self, params: P, attempt: Attempt) -> R:
        """Call the function once."""
        return await self.begin(params, lambda: attempt)

    def begin(self, params: P, attempt: Callable[[], Attempt]) -> Awaitable[R]:
        """Call the function once, for who awaits it; the attempt is made only for one that takes it."""
        if self._threads is not None:
            return self._on_thread(self._threads, params, attempt)
        made: Awaitable[R] = (
            self.function(params, attempt()) if self._takes_attempt else self.function(params)
        )
        return made

    def _on_thread(self, threads: Threads, params: P, attempt: Callable[[], Attempt]) -> Awaitable[R]:
        function: Callable[..., Any] = self.function
        if not self._takes_attempt:
            return _awaited(threads.run(lambda: function(params)))
        here = replace(attempt(), loop=asyncio.get_running_loop())
        return _awaited(threads.run(lambda: function(params, here)))

    async def close(self) -> None:
        """A function holds nothing."""

    @property
    def name(self) -> str:
        """The name of the function, for messages."""
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)

    def __repr__(self) -> str:
        return f"<adapter {self.kind} by {self.name}>"


async def _awaited(call: Awaitable[Any]) -> Any:
    """What a call gives; an async function behind a decorator that is none gives what is to be awaited."""
    value = await call
    return await value if inspect.isawaitable(value) else value


class Decorator(Protocol):
    """What `adapter(kind)` gives: it takes the function with or without the attempt."""

    @overload
    def __call__(self, function: Callable[[P, Attempt], Awaitable[R]], /) -> FunctionAdapter[P, R]: ...

    @overload
    def __call__(self, function: Callable[[P], Awaitable[R]], /) -> FunctionAdapter[P, R]: ...

    @overload
    def __call__(self, function: Callable[[P, Attempt], R], /) -> FunctionAdapter[P, R]: ...

    @overload
    def __call__(self, function: Callable[[P], R], /) -> FunctionAdapter[P, R]: ...


def adapter(kind: str, **limits: Unpack[LimitOptions]) -> Decorator:
    """Make an adapter of `async def charge(params: Charge, attempt: Attempt) -> Charged`.

    The types of params and receipt come from the annotations; the parameter `attempt` may be left out. A
    plain `def` runs on a thread. `limits` are the fields of `AdapterLimits`.
    """
    check_kind(kind)
    check_named(limits, LimitOptions)
    made = AdapterLimits(**limits)

    def decorate(function: Callable[..., Any]) -> FunctionAdapter[Any, Any]:
        return FunctionAdapter(kind, function, made)

    return decorate


def check_kind(kind: object) -> str:
    """Return `kind` if it may name an effect; `Rejected` otherwise."""
    if isinstance(kind, str) and len(kind) <= most.KIND_CHARS_MAX and _KIND.fullmatch(kind):
        return kind
    raise Rejected(
        "effects.kind", "{kind} is no kind of effect",
        kind=repr(kind)[: most.KIND_CHARS_MAX],
        hint='Write at least two lower-case words with dots between, as in @adapter("payments.charge").',
    )  # fmt: skip


def check_limits_of(adapter: Adapter) -> None:
    """Refuse limits that are none, or that count by a field which the params do not have."""
    limits: object = adapter.limits
    if not isinstance(limits, AdapterLimits):
        raise Rejected(
            "effects.limit", "the limits of {kind} are {given}, no AdapterLimits",
            kind=adapter.kind, given=repr(limits)[:100], hint="Write limits = AdapterLimits(concurrency=4).",
        )  # fmt: skip
    for name, by in (("concurrency_by", limits.concurrency_by), ("rate_by", limits.rate_by)):
        for path in by:
            params: Derived[Any] = derive(adapter.params, namespace="effect")
            if not leads_to(params.schema, params.schemas, path.split(".")):
                raise Rejected(
                    "effects.limit_path", "{name} of {kind} counts by {path!r}, which {params} does not have",
                    name=name, kind=adapter.kind, path=path, params=adapter.params.__qualname__,
                    hint="Name a field of the params, such as tenant or to.tenant.",
                )  # fmt: skip


def check_adapter(given: object) -> None:
    """Refuse what is no adapter, as a function without its decorator, or has no fit kind or limits."""
    if not isinstance(given, Adapter):
        raise Rejected(
            "effects.adapter", "{given} is no adapter", given=printed(given)[:100],
            hint='Decorate an async function: @adapter("payments.charge").',
        )  # fmt: skip
    check_kind(given.kind)
    check_limits_of(given)


class Adapters(Mapping[str, Adapter]):
    """The adapters of a node by kind; each kind once."""

    def __init__(self, adapters: Iterable[Adapter] = ()) -> None:
        self._by_kind: dict[str, Adapter] = {}
        for each in adapters:
            self.add(each)

    def add(self, new: Adapter) -> None:
        """Add an adapter; `Rejected` when its kind is taken or it is none."""
        check_adapter(new)
        taken = self._by_kind.setdefault(new.kind, new)
        if taken is not new:
            raise Rejected(
                "effects.kind_taken", "{kind} has two adapters: {first!r} and {second!r}",
                kind=new.kind, first=taken, second=new, hint="Remove one, or give it another kind.",
            )  # fmt: skip

    def find(self, kind: str) -> Adapter:
        """Return the adapter of `kind`; `Rejected` with the nearest kinds when there is none."""
        found = self._by_kind.get(kind)
        if found is not None:
            return found
        near = get_close_matches(kind[: most.KIND_CHARS_MAX], sorted(self._by_kind), 3, 0.5)
        raise Rejected(
            "effects.kind_unknown", "this node has no adapter for {kind}",
            kind=kind[: most.KIND_CHARS_MAX],
            hint=f"Did you mean {' or '.join(near)}?" if near else "Give the node an adapter of this kind.",
        )  # fmt: skip

    def __getitem__(self, kind: str) -> Adapter:
        return self._by_kind[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_kind)

    def __len__(self) -> int:
        return len(self._by_kind)
