"""Effects as authors declare them: a kind, the classes of params and receipt, and how it is performed.

    charge = app.effect("payments.charge", params=Charge, receipt=Charged, timeout_s=10)
    Step(order, effects=[charge(Charge(order.id, 30), key=order.id, slot="stripe")])

Calling a declaration makes the request that a step returns. A decorated adapter is a declaration too. Those
that come with Cellule are in `builtin`. Nothing here performs anything, and no driver is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from cellule.app.declarations import check_record, duration_ns, shown_value, time_ns
from cellule.effects.adapter import Adapter, AdapterLimits, check_kind
from cellule.effects.adapter_limits import RequestOptions, request_limits
from cellule.errors import Rejected
from cellule.kernel.manifest.model import TIMER_SET
from cellule.modules.python import EffectForm, TimerFired, TimerSet
from cellule.values.requests import Receipt, Request
from cellule.values.schema.annotations import shown_type

if TYPE_CHECKING:
    from typing_extensions import TypeIs, Unpack

P = TypeVar("P")
R = TypeVar("R")

_NANOSECONDS: Final = 10**9


class EffectLike(Protocol):
    """What may be listed at a reducer: a declaration, or an adapter."""

    @property
    def kind(self) -> str:
        """The kind of effect."""

    @property
    def params(self) -> type:
        """The class of its params."""

    @property
    def receipt(self) -> type:
        """The class of what its receipts bring."""

    @property
    def limits(self) -> AdapterLimits:
        """How it is performed."""


class DeclaredEffect(Generic[P, R]):
    """A declared effect; calling it makes a request."""

    __slots__ = ("kind", "limits", "own_limits", "params", "receipt")

    def __init__(
        self,
        kind: str,
        params: type[P],
        receipt: type[R],
        limits: AdapterLimits,
        own_limits: Mapping[str, int] | None = None,
    ) -> None:
        self.kind = check_kind(kind)
        self.own_limits = own_limits or {}
        """What the author said; all else is as the adapter has it."""
        self.params: type[P] = params
        self.receipt: type[R] = receipt
        self.limits = limits
        check_record(params, f"the params of {kind}")
        check_record(receipt, f"the receipt of {kind}")

    def __call__(
        self, params: P, *, key: str | None = None, slot: str | None = None, **options: Unpack[RequestOptions]
    ) -> Request[R]:
        """Ask for this effect; `key` is its idempotency key, `slot` the grant it is done under.

        `options` are for this request only: `timeout_s`, `attempts`, `deadline_s`, `priority`, `backoff_s`,
        `backoff_max_s`.
        """
        if not isinstance(params, self.params):
            raise Rejected(
                "app.effect_params", "{kind} takes {wanted}, not {given}.",
                kind=self.kind, wanted=shown_type(self.params), given=shown_value(params),
                hint=f"Give it a {self.params.__name__}(...).",
            )  # fmt: skip
        return Request(self.kind, params, slot, key, request_limits(options) if options else None)

    def is_receipt(self, event: object) -> TypeIs[Receipt[R]]:
        """Whether an event is a receipt of this effect; `event.value` is then of its class, or None."""
        return isinstance(event, Receipt) and event.kind == self.kind

    def __repr__(self) -> str:
        return f"<effect {self.kind}>"


class Timer:
    """The effect `timer.set`: the cell gets a `TimerFired` when the time has come."""

    __slots__ = ()

    kind: str = TIMER_SET
    params: type = TimerSet
    receipt: type = TimerFired
    limits: AdapterLimits = AdapterLimits(attempts=1)

    def __call__(
        self, *, after: timedelta | None = None, at: datetime | None = None, key: str | None = None
    ) -> Request:
        """Ask to be woken `after` a time, or `at` one; `key` comes back with the fired timer."""
        if (after is None) == (at is None):
            raise Rejected(
                "app.timer_time", "a timer fires after a time or at one: {given} given.",
                given="neither is" if after is None else "both are",
                hint="Write timer(after=timedelta(days=3)) or timer(at=the_time).",
            )  # fmt: skip
        after_ns = None if after is None else duration_ns("timer()", "after", after, least=0)
        at_ns = None if at is None else time_ns("timer()", "at", at)
        return Request(TIMER_SET, TimerSet(after_ns=after_ns, at_ns=at_ns, key=key))

    def __repr__(self) -> str:
        return f"<effect {TIMER_SET}>"


timer: Timer = Timer()


def form_of(effect: EffectLike) -> EffectForm:
    """The effect as modules are described with it."""
    limits = effect.limits
    if isinstance(effect, DeclaredEffect):
        own = dict(effect.own_limits)
    else:
        own = {
            "timeout_ns": round(limits.timeout_s * _NANOSECONDS),
            "deadline_ns": round(limits.deadline_s * _NANOSECONDS),
            "backoff_ns": round(limits.backoff_s * _NANOSECONDS),
            "backoff_max_ns": round(limits.backoff_max_s * _NANOSECONDS),
        }
        if limits.attempts is not None:
            own["attempts"] = limits.attempts
    own.pop("priority", None)
    return EffectForm(
        effect.kind, effect.params, effect.receipt, priority=limits.priority, needs_grant=limits.needs_grant,
        operation=limits.operation, **own,
    )  # fmt: skip


def is_effect(given: Any) -> bool:
    """Whether this can be listed as an effect."""
    return isinstance(given, DeclaredEffect | Timer | Adapter)
