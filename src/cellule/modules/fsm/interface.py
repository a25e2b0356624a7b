"""What a contract means in a manifest: the schemas of state, events and records, the entry and the routes.

    trigger `pay` -> the event <namespace>/pay@1, unless the contract or the app names one
    <module>_transition@1: what an operator sends to move a machine by hand

Every data field is optional in the state's schema, so that a contract can grow under running machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.manifest.system import TIMER_FIRED, receipt_event
from cellule.modules.fsm.contract import Contract, Trigger
from cellule.modules.python.describe import key_part
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Link
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.document import to_document
from cellule.values.schema.registry import Schemas

KIND: Final = "fsm"
INITIALIZED: Final = "fsm_state_initialized"
TRANSITIONED: Final = "fsm_state_transitioned"
MANUAL: Final = "manual"

_TEXT: Final = t.Option(t.Text())
RECORDS: Final[Mapping[str, t.Record]] = {
    INITIALIZED: t.record({
        "machine": t.Text(), "state": t.Text(), "trigger": t.Text(), "key": _TEXT,
        "at_ns": t.Option(t.Time()),
    }),
    TRANSITIONED: t.record({
        "machine": t.Text(), "from_state": t.Text(), "to_state": t.Text(), "trigger": t.Text(), "key": _TEXT,
        "at_ns": t.Option(t.Time()),
    }),
}  # fmt: skip
"""The typed records of a machine; `key` and `at_ns` only where they are announced as events."""


@dataclass(frozen=True, slots=True)
class MachineInterface:
    """The parts of a manifest that a contract brings."""

    name: str
    entry: Mapping[str, Any]
    subscriptions: tuple[Mapping[str, Any], ...]
    schemas: Mapping[str, t.Schema]
    events: Mapping[str, str]  # the schema of each trigger
    blocks: Mapping[Cid, bytes] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """A manifest document with this module alone."""
        return {
            "schemas": {name: to_document(schema) for name, schema in self.schemas.items()},
            "modules": {self.name: dict(self.entry)},
            "routing": {"subscriptions": [dict(each) for each in self.subscriptions]},
        }


@dataclass(frozen=True, slots=True)
class KnownEvent:
    """An event that is declared elsewhere: its schema, and the path of its key, if the value holds it."""

    schema: str
    key: str | None


def interface_of(
    contract: Contract, name: str, known: Mapping[str, KnownEvent] | None = None, *, uses_now: bool = False,
    key_schema: t.Schema | None = None,
) -> MachineInterface:  # fmt: skip
    """What a contract brings under a module's full name; `known` has declared events, by folded name."""
    full = Name.parse(name)
    key_type = key_schema or t.Text()
    events: dict[str, str] = {}
    routes: list[Mapping[str, Any]] = []
    schemas: dict[str, t.Schema] = {}
    for trigger in contract.triggers.values():
        if trigger.is_timer:
            continue
        found = _event(trigger, full.namespace, known or {})
        events[trigger.name] = found.schema
        if trigger.receipt is not None:
            continue
        if trigger.schema is None and folded(trigger.name) not in (known or {}):
            schemas[found.schema] = t.record({contract.key: key_type, **(trigger.fields or {})})
            found = KnownEvent(found.schema, contract.key)
        path = trigger.key or found.key
        routes.append({"event": found.schema, "module": name, **key_part(path)})
    manual = manual_event(full)
    schemas[manual] = t.record({
        contract.key: key_type, "from_state": t.Text(), "to_state": t.Text(), "trigger": _TEXT,
    })  # fmt: skip
    routes.append({"event": manual, "module": name, "key_field": contract.key})
    schemas |= {f"{full.namespace}/{each}@1": form for each, form in RECORDS.items()}
    state = f"{full.namespace}/{full.local}_state@1"
    schemas[state] = state_schema(contract)
    source = cid_of(contract.source, "raw")
    entry = {
        "kind": "workflow", "style": "fsm", "state": state,
        "event": sorted({*events.values(), manual, *_timers(contract)}),
        "key": to_document(key_type), "context": uses_now or contract.announce,
        "effects_emitted": list(contract.effect_kinds()),
        "code": {"kind": KIND, "contract": Link(source), "file": contract.file, "events": dict(events)},
    }  # fmt: skip
    return MachineInterface(name, entry, tuple(routes), schemas, events, {source: contract.source})


def state_schema(contract: Contract) -> t.Record:
    """The schema of a machine's cells."""
    own = {each.name: t.Option(each.schema) for each in contract.data.values()}
    return t.record({"state": t.Text(), "visit": t.Option(t.Int(min=0)), **own})


def manual_event(name: Name) -> str:
    """The event that moves a machine of a module by hand."""
    return f"{name.namespace}/{name.local}_transition@1"


def derived_events(contract: Contract, namespace: str) -> dict[str, str]:
    """The schema of each trigger where nothing else is known."""
    return {
        each.name: _event(each, namespace, {}).schema
        for each in contract.triggers.values()
        if not each.is_timer
    }


def folded(name: str) -> str:
    """A name as triggers and events are compared: `payment_received` is `PaymentReceived`."""
    return name.replace("_", "").replace("-", "").lower()


def _event(trigger: Trigger, namespace: str, known: Mapping[str, KnownEvent]) -> KnownEvent:
    if trigger.receipt is not None:
        return KnownEvent(receipt_event(trigger.receipt), None)
    wanted = trigger.schema or trigger.name
    if "/" in wanted:
        same = next((each for each in known.values() if each.schema == wanted), None)
        return same or KnownEvent(wanted, trigger.key)
    found = known.get(folded(wanted))
    if found is not None:
        return found
    if trigger.schema is not None and known:
        raise Rejected(
            "fsm.trigger_unknown", "line {line}: triggers.{trigger}: there is no event {event}",
            line=trigger.line, trigger=trigger.name, event=wanted, hint="Declare it with @app.event.",
        )  # fmt: skip
    return KnownEvent(f"{namespace}/{wanted}@1", trigger.key)


def _timers(contract: Contract) -> tuple[str, ...]:
    return (TIMER_FIRED,) if any(state.timeout for state in contract.states.values()) else ()


def merged(schemas: Mapping[str, t.Schema], others: Schemas) -> Schemas:
    """The schemas of a contract beside others."""
    return others.merged(Schemas({name: form for name, form in schemas.items() if name not in others}))
