"""A small bank whose orders ask for effects: what each event makes them do stands in the event.

Tests of intents run on it: by hand (`Bank`), and by machines that try every edition of its manifest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from cellule.kernel.items import Beat, Opening, ReceiptItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.state.intent_book import Book
from cellule.values.cbor import encode
from tests.support.kernel_world import START_NS, Did, FunctionPrograms, KernelWorld

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
HEARD_MAX = 50
CHARGE = "bank.charge"
TIMER = "timer.set"

_ASK = {
    "record": {
        "order": {"text": {}}, "asks": {"list": {"any": {}}}, "delete": {"option": {"bool": {}}},
        "again": {"option": {"int": {}}}, "cancel": {"option": {"list": {"text": {}}}},
    }
}  # fmt: skip
SCHEMAS: dict[str, Any] = {
    "bank/Ask@1": _ASK,
    "bank/Tell@1": _ASK,
    "bank/Tick@1": {"record": {"order": {"text": {}}}},
    "bank/Charge@1": {"record": {
        "amount": {"int": {}, "min": 0}, "url": {"option": {"text": {}}}, "method": {"option": {"text": {}}},
        "pad": {"option": {"text": {}}},
    }},
    "bank/Charged@1": {"record": {"id": {"text": {}}}},
    "bank/Order@1": {"record": {"heard": {"list": {"any": {}}}, "again": {"option": {"list": {"any": {}}}}}},
}  # fmt: skip


def document(**changes: Any) -> dict[str, Any]:
    """The bank's manifest; `order` and `clerk` change its modules, everything else a section.

    The clerk, who hears of unfit receipts, is there only if asked for.
    """
    order = {
        "kind": "workflow", "style": "reducer", "state": "bank/Order@1", "key": {"text": {}},
        "event": [
            "bank/Ask@1", "bank/Tick@1", "effect.bank/charge@1", "effect.timer/set@1", "sys/TimerFired@1"
        ],
        "effects_emitted": [CHARGE, TIMER],
        **changes.pop("order", {}),
    }  # fmt: skip
    modules, subscriptions = {"bank/Order@1": order}, _routes("bank/Order@1", "bank/Ask@1", "bank/Tick@1")
    if "clerk" in changes:
        modules["bank/Clerk@1"] = {
            **order, "event": ["bank/Tell@1", "effect.bank/charge@1", "sys/EffectReceiptRejected@1"],
            "effects_emitted": [CHARGE], **changes.pop("clerk"),
        }  # fmt: skip
        subscriptions += _routes("bank/Clerk@1", "bank/Tell@1")
    return {
        "schemas": SCHEMAS,
        "modules": modules,
        "effects": {CHARGE: {"params": "bank/Charge@1", "receipt": "bank/Charged@1", "attempts": 3}},
        "routing": {"subscriptions": subscriptions},
        **changes,
    }


def _routes(module: str, *events: str) -> list[dict[str, Any]]:
    return [{"event": event, "module": module, "key_field": "order"} for event in events]


@dataclass(frozen=True, slots=True)
class Edition:
    """The options of one manifest of the bank with its clerk."""

    open_max: int = 10_000
    policy: Literal["none", "ask", "ask at once", "deny", "micro"] = "none"
    schedule: Literal["none", "allow", "skip", "backfill", "slow"] = "none"
    budget: int | None = 3  # of the grant in slot `pay`; None = the slot is not there
    upgrade: Literal["pin", "follow"] = "follow"
    charges: bool = True  # whether the effect is declared at all

    def document(self) -> dict[str, Any]:
        """The manifest of this edition."""
        module: dict[str, Any] = {"open_max": self.open_max, "upgrade": self.upgrade}
        sections: dict[str, Any] = {}
        if self.budget is not None:
            module["cap_slots"] = {"pay": "till"}
            budget = {"count": self.budget, "period_ns": HOUR}
            sections["capabilities"] = {"till": {"effects": [TIMER, CHARGE], "budget": budget}}
        if not self.charges:
            sections["effects"] = {}
            sections["capabilities"] = {"till": {"effects": [TIMER]}} if self.budget is not None else {}
            timed = ["bank/Ask@1", "bank/Tick@1", "effect.timer/set@1", "sys/TimerFired@1"]
            return document(
                order={**module, "effects_emitted": [TIMER], "event": timed},
                clerk={**module, "effects_emitted": [], "event": ["bank/Tell@1"]},
                **sections, **_POLICIES[self.policy], **_SCHEDULES[self.schedule],
            )  # fmt: skip
        return document(
            order=module, clerk=module, **sections, **_POLICIES[self.policy], **_SCHEDULES[self.schedule]
        )


def _ask_over_10(**more: Any) -> dict[str, Any]:
    when = 'effect.kind != "bank.charge" || effect.params.amount > 10'
    rule = {"name": "ask", "when": when, "then": "require_approval", "reason": "over 10", **more}
    return {"policy": {"rules": [rule]}}


_POLICIES: dict[str, dict[str, Any]] = {
    "none": {},
    "ask": _ask_over_10(),
    "ask at once": _ask_over_10(expires_ns=5 * MINUTE),
    "deny": {"policy": {"rules": [{"name": "no", "when": 'effect.kind == "bank.charge"', "then": "deny"}]}},
    "micro": {"policy": "reducers-micro-only"},
}


def every(period_ns: int, **more: Any) -> dict[str, Any]:
    """A schedule that ticks order `s`, on the full periods of the world's clock."""
    start = START_NS - START_NS % period_ns
    value = encode({"order": "s"})
    return {
        "tick": {"every_ns": period_ns, "start_ns": start, "event": "bank/Tick@1", "value": value, **more}
    }


_SCHEDULES: dict[str, dict[str, Any]] = {
    "none": {},
    "allow": {"schedules": every(MINUTE)},
    "skip": {"schedules": every(MINUTE, overlap="skip", catch_up="skip")},
    "buffer": {"schedules": every(MINUTE, overlap="buffer")},
    "backfill": {"schedules": every(MINUTE, catch_up="backfill", limit=3)},
    "slow": {"schedules": every(HOUR)},
}


def order(state: Any, schema: str, event: Any, _ctx: Any) -> Did:
    """Ask for what the event says; keep what was heard, and ask once more as often as told."""
    state = state or {"heard": []}
    heard, again = [*state["heard"], [schema, event]][-HEARD_MAX:], state.get("again")
    effects: list[Any] = []
    if schema in ("bank/Ask@1", "bank/Tell@1"):
        heard[-1] = [schema, len(event["asks"])]
        effects = [_effect(ask) for ask in event["asks"]]
        if event.get("again"):
            again = [event["again"], event["asks"]]
    elif schema.startswith("effect.") and again:
        effects = [_effect(ask) for ask in again[1]]
        again = [again[0] - 1, again[1]] if again[0] > 1 else None
    cancel = event.get("cancel") or ()
    if event.get("delete"):
        return Did(None, effects=effects, cancel=cancel)
    return Did({"heard": heard, **({"again": again} if again else {})}, effects=effects, cancel=cancel)


def _effect(ask: Any) -> tuple[Any, ...]:
    kind, params, slot, key, *limits = ask
    return kind, encode(params), slot, key, *limits


PROGRAMS = FunctionPrograms({"bank/Order": order, "bank/Clerk": order})


class Bank:
    """A kernel world of the bank, and short ways to do things with it."""

    def __init__(self, world: KernelWorld) -> None:
        self.world = world

    def ask(self, *asks: Any, order: str = "o1", schema: str = "bank/Ask@1", **more: Any) -> Beat:
        """One event that makes the order ask: each ask is (kind, params, slot, key)."""
        rows = [[*each, *([None] * (4 - len(each)))] for each in asks]
        return self.world.send(schema, {"order": order, "asks": rows, **more})

    def charge(
        self, amount: int = 1, *, order: str = "o1", slot: str | None = None, key: str | None = None,
        **params: Any,
    ) -> Beat:  # fmt: skip
        """One event that makes the order ask for one charge."""
        return self.ask((CHARGE, {"amount": amount, **params}, slot, key), order=order)

    def receive(self, opening: Opening, status: str = "ok", value: Any = None, **more: Any) -> Beat:
        """A receipt for an intent, in a beat of its own."""
        data = encode({"id": "c-1"} if value is None else value) if status == "ok" else None
        return self.world.beat([ReceiptItem(opening.intent, opening.height, status, data, **more)])

    def heard(self, order: str = "o1", base: str = "bank/Order") -> list[Any]:
        """Everything an order has heard: schema and event."""
        state = self.world.state(base, order.encode())
        return [] if state is None else state["heard"]

    def last(self, order: str = "o1", base: str = "bank/Order") -> Any:
        """The newest message the order has heard: schema and event."""
        return tuple(self.heard(order, base)[-1])

    def intents(self, order: str = "o1", base: str = "bank/Order") -> list[int]:
        """The heights of an order's open intents."""
        entry = self.world.entry(base, order.encode())
        return [] if entry is None else entry.get("intents", [])

    def records(self) -> list[Any]:
        """All records of the journal."""
        return [record for frame in self.world.frames for record in decode_frame(frame).records]

    @property
    def book(self) -> Book:
        """What the world remembers of intents."""
        return self.world.world.ledger.book

    def restore_in_place(self) -> None:
        """Forget everything in memory, and go on from a snapshot and the frames."""
        self.world.snapshot()
        self.world.world = self.world.restored(len(self.world.snapshots) - 1)
