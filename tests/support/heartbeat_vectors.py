"""The model of the heartbeat behind the file of cases: what it gives for each case."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from cellule.testing.vectors.cases import (
    Action,
    AgendaCase,
    ClockCase,
    MessageCase,
    OpsCase,
    RetentionCase,
    TtlCase,
)
from tests.support.heartbeat_model import RETRY_LIMIT, Entry, Impulse, Model, Run
from tests.support.heartbeat_model_mail import Clock, Mailbox, resolve_ttl


def payload_of(given: Any) -> str | None:
    return None if given.payload is None else json.dumps(given.payload, sort_keys=True)


class AgendaCalls:
    """The enzymes of a case, and how often each was called."""

    def __init__(self, case: AgendaCase) -> None:
        self.enzymes = {each.id: each for each in case.enzymes}
        self.calls = dict.fromkeys(self.enzymes, 0)

    def entry(self, number: int) -> Entry:
        each = self.enzymes[number]
        limit = RETRY_LIMIT if each.retry_limit is None else each.retry_limit
        return Entry(
            0, each.id, each.name, each.query, each.match, tuple(each.before), tuple(each.after),
            each.backoff, limit,
        )  # fmt: skip

    def call(self, found: Entry, _: Impulse) -> Run:
        each = self.enzymes[found.id]
        self.calls[found.id] += 1
        number = self.calls[found.id]
        code = each.rc[min(number, len(each.rc)) - 1] if each.rc else 0
        return Run(code, [self.action(one) for one in each.actions if one.call in (0, number)])

    def action(self, action: Action) -> tuple[Any, ...]:
        match action.do:
            case "enqueue":
                return ("enqueue", action.signal, action.target, payload_of(action), action.beat)
            case "register":
                return ("register", self.entry(action.enzyme))
            case "bind":
                return ("bind", action.path, action.name, "propagate" if action.propagate else "local")
            case _:
                return ("bind", action.path, action.name, "tombstone")


def agenda(case: AgendaCase) -> list[Any]:
    code = AgendaCalls(case)
    model = Model(code.call)
    for path in case.cells:
        model.grow(path)
    for number in case.register:
        model.register(code.entry(number))
    for each in case.bindings:
        kind = "tombstone" if each.tombstone else "propagate" if each.propagate else "local"
        model.bind(each.path, each.name, kind)
    found = []
    for beat in case.beats:
        for number in beat.register:
            model.register(code.entry(number))
        for impulse in beat.enqueue:
            model.enqueue(Impulse(impulse.signal, impulse.target, payload_of(impulse)), impulse.beat)
        found.append({"ok": True, **vars(model.step())})
    return found


def ops(case: OpsCase) -> list[Any]:
    model = Model(lambda *_: Run())
    found: list[Any] = []
    for line in case.script:
        match line.do:
            case "start":
                found.append(model.operate(line.op, "start", line.verb, line.target, line.mode))
            case "state":
                found.append(model.operate(line.op, "set", line.state, line.code, line.note))
            case "await":
                found.append(model.operate(line.op, "wait", line.want, line.ttl, line.cont))
            case "close":
                found.append(model.operate(line.op, "close", line.status, line.summary))
            case "snapshot":
                known = model.operations.get(line.op)
                found.append(
                    None if known is None else msgspec.json.decode(msgspec.json.encode(known.dossier()))
                )
            case _:
                told = model.step()
                found.append({"beat": told.beat, "fired": told.fired, "cei_warnings": told.cei_warnings})
    return found


def wallclock(case: ClockCase) -> list[Any]:
    clock, found = Clock(), list[Any]()
    for line in case.script:
        match line.do:
            case "publish":
                found.append(clock.publish(line.beat, line.ns))
            case "lookup":
                found.append(clock.told.get(line.beat))
            case "set_window":
                found.append({"ok": clock.set_window(line.window), "window": clock.window})
            case _:
                found.append([[beat, clock.spacing[beat]] for beat in sorted(clock.spacing)])
    return found


def ttl(case: TtlCase) -> list[Any]:
    clock = Clock()
    for beat, ns in case.published:
        clock.publish(beat, ns)
    specs = [
        None if each is None else msgspec.to_builtins(each)
        for each in (case.message, case.mailbox, case.topology)
    ]
    return [resolve_ttl(specs, msgspec.to_builtins(case.context), clock, msgspec.to_builtins(case.settings))]


def message_ids(case: MessageCase) -> list[Any]:
    mailbox, found = Mailbox(), []
    for line in case.script:
        sealed = line.envelope if line.sealed else None
        result = mailbox.select(line.explicit, sealed)
        if result["ok"] and line.store and result["mode"] != "reused":
            mailbox.messages[result["id"]] = sealed
        found.append(result)
    return found


def retention(case: RetentionCase) -> list[Any]:
    mailbox, settings = Mailbox(), {"wallclock_disabled": False, "beat_lookahead": 32, "spacing_samples": 8}
    for each in case.records:
        given = msgspec.to_builtins(each)
        mailbox.record(case.message, resolve_ttl([given, None, None], given, Clock(), settings))
    plans: list[Any] = [mailbox.plan(each.current_beat, each.current_unix_ns) for each in case.plans]
    return [*plans, {"beats": sorted(mailbox.beats), "wallclock": sorted(mailbox.wall)}]


MODEL = {
    "agenda": agenda, "ops": ops, "wallclock": wallclock, "ttl": ttl, "message_ids": message_ids,
    "retention": retention,
}  # fmt: skip
