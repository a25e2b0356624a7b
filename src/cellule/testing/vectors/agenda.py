"""The section `agenda` through a real world, beat by beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.heartbeat.entries import name_of, parse_entry
from cellule.kernel.heartbeat.impulses import check_impulse
from cellule.kernel.heartbeat.paths import parse_path
from cellule.kernel.items import Item, SignalItem
from cellule.kernel.journal.heartbeat_records import AgendaRecord, EnzymeRecord, StageRecord
from cellule.kernel.program import EnzymeCall, EnzymeOutput
from cellule.kernel.state.heartbeat_rows import is_logged, is_promoted
from cellule.testing.vectors.cases import Action, AgendaCase, Enzyme, Impulse
from cellule.testing.vectors.worlds import Beaten, CaseWorld, control, enzyme_of, module_of
from cellule.values.cbor import encode


def agenda(case: AgendaCase) -> list[Any]:
    """What each step of a case records."""
    code = CaseCode(case.enzymes)
    world = CaseWorld(code.enzymes, code.run)
    code.first = world.next_beat
    entries: dict[int, int] = {}  # the enzyme of each entry of the registry
    items: list[Item] = [control("tree.write", path=path) for path in case.cells]
    items += [register_item(code.enzymes[number]) for number in case.register]
    for each in case.bindings:
        if each.tombstone:
            items.append(control("enzyme.unbind", path=each.path, name=each.name))
        else:
            items.append(control("enzyme.bind", path=each.path, name=each.name, propagate=each.propagate))
    found = []
    for number, beat in enumerate(case.beats):
        items += [register_item(code.enzymes[enzyme]) for enzyme in beat.register]
        items += [
            SignalItem(each.signal, each.target, _payload(each), code.beat_of(each)) for each in beat.enqueue
        ]
        beaten = world.step(items)
        note_entries(beaten, entries)
        found.append({"beat": number, "ok": True, **told(beaten, entries)})
        items = []
    return found


def note_entries(beaten: Beaten, entries: dict[int, int]) -> None:
    """Take down which enzyme each entry is that a beat registered."""
    for _, record in beaten.of(EnzymeRecord):
        entries[record.number] = enzyme_of(record.entry["module"])


def register_item(enzyme: Enzyme) -> Item:
    """The item that registers an enzyme."""
    return control("enzyme.register", entry=_entry(enzyme))


def _entry(enzyme: Enzyme) -> dict[str, Any]:
    limit = {} if enzyme.retry_limit is None else {"retry_limit": enzyme.retry_limit}
    return {
        "name": enzyme.name, "module": module_of(enzyme.id), "query": enzyme.query, "match": enzyme.match,
        "before": enzyme.before, "after": enzyme.after, "backoff": enzyme.backoff,
        "flags": [str(each) for each in enzyme.flags] if isinstance(enzyme.flags, list) else [], **limit,
    }  # fmt: skip


def _payload(given: Impulse) -> bytes | None:
    return None if given.payload is None else encode(given.payload)


def told(beaten: Beaten, entries: dict[int, int]) -> dict[str, Any]:
    """What a beat recorded: its agenda, the log of its impulses, how many are queued for the next."""
    log, lines = [], []
    for _, record in beaten.of(AgendaRecord):
        where = {"signal": record.signal, "target": record.target}
        kind = record.extras.get("kind", "")
        if is_logged(kind):
            log.append(where)
        lines += [
            {"enzyme": entries[number], "rc": code, "ran": ran, **where} for number, code, ran in record.lines
        ]
        if not record.lines and is_promoted(kind):
            lines.append({"no_match": True, **where})
    promoted = sum(record.promoted for _, record in beaten.of(StageRecord))
    return {"agenda": lines, "impulse_log": log, "promoted": promoted}


def _is_taken(action: Mapping[str, Any], beat: int) -> bool:
    """Tell whether a run may do this; what is refused leaves the rest of the call as it is."""
    try:
        if action["do"] == "signal":
            check_impulse(action["signal"], action["target"], action["beat"], beat)
        elif action["do"] == "register":
            parse_entry(0, action["entry"])
        else:
            parse_path(action["path"])
            name_of(action["name"])
    except Rejected:
        return False
    return True


class CaseCode:
    """The enzymes of a case. A call is known by its beat and its impulse: run again, it does the same."""

    def __init__(self, enzymes: Sequence[Enzyme]) -> None:
        self.enzymes = {each.id: each for each in enzymes}
        self.first = 0  # the beat of the first step
        self._calls: dict[int, list[tuple[Any, ...]]] = {each.id: [] for each in enzymes}

    def run(self, enzyme: int, call: EnzymeCall) -> EnzymeOutput:
        """The return code and the actions of a call."""
        described, calls = self.enzymes[enzyme], self._calls[enzyme]
        known = (call.number, call.beat, call.signal, call.target, call.payload)
        if known not in calls:
            calls.append(known)
        number = calls.index(known) + 1
        code = described.rc[min(number, len(described.rc)) - 1] if described.rc else 0
        wanted = [self._action(each) for each in described.actions if each.call in (0, number)]
        return EnzymeOutput(code, [each for each in wanted if _is_taken(each, call.beat)])

    def beat_of(self, given: Impulse | Action) -> int | None:
        """The beat of the world that a case names by the number of its step."""
        return None if given.beat is None else self.first + given.beat

    def _action(self, action: Action) -> dict[str, Any]:
        match action.do:
            case "enqueue":
                given = {"signal": action.signal, "target": action.target, "payload": action.payload}
                return {"do": "signal", **given, "beat": self.beat_of(action)}
            case "register":
                assert action.enzyme is not None
                return {"do": "register", "entry": _entry(self.enzymes[action.enzyme])}
            case "bind":
                bound = {"path": action.path, "name": action.name, "propagate": action.propagate}
                return {"do": "bind", **bound}
            case _:
                return {"do": "unbind", "path": action.path, "name": action.name}
