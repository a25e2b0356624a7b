"""What can be asked of a world's heartbeat: its enzymes, its tree, and what the next agenda holds.

Each is a walk through the ledger that reads, and changes nothing: a node asks the world at work or a copy of
it, and a test its own world.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.decide.resolution import Resolver
from cellule.kernel.heartbeat.entries import Entry
from cellule.kernel.heartbeat.paths import parse_path
from cellule.kernel.journal.codes import LOCAL, PROPAGATING, TOMBSTONE
from cellule.kernel.need import Need
from cellule.kernel.state import tree
from cellule.kernel.state.ledger import Ledger
from cellule.values.cbor import decode_trusted

PAGE_MAX: Final = 1_000  # names, enzymes or beats that one page holds
_BOUND: Final = {LOCAL: "local", PROPAGATING: "propagating", TOMBSTONE: "ended"}


@dataclass(frozen=True, slots=True)
class Resolved:
    """An impulse of the next beat, and the names of the enzymes that it resolves to, in their order."""

    signal: str | None
    target: str | None
    enzymes: list[str]


@dataclass(frozen=True, slots=True)
class EnzymeView:
    """One entry of the registry, by its number; what is not said is at its default."""

    number: int
    name: str
    module: str
    query: str
    match: str
    before: list[str]
    after: list[str]
    access: str
    options: dict[str, Any]


def entry_names(ledger: Ledger) -> Generator[Need, None, Mapping[int, str]]:
    """The names of all entries, by their numbers."""
    names: dict[int, str] = {}
    begin, heartbeat = 0, ledger.heartbeat
    while heartbeat is not None:
        page = yield from heartbeat.entries(begin, PAGE_MAX)
        names.update((entry.number, entry.name) for entry in page)
        if len(page) < PAGE_MAX:
            break
        begin = page[-1].number + 1
    return names


def names_of(ledger: Ledger, numbers: set[int]) -> Generator[Need, None, Mapping[int, str]]:
    """The names of some entries, by their numbers; those that were removed have none."""
    names: dict[int, str] = {}
    for number in sorted(numbers):
        entry = None if ledger.heartbeat is None else (yield from ledger.heartbeat.entry(number))
        if entry is not None:
            names[number] = entry.name
    return names


def enzymes(ledger: Ledger, after: int | None, limit: int) -> Generator[Need, None, list[EnzymeView]]:
    """A page of the registry, in the order of registration."""
    if ledger.heartbeat is None:
        return []
    page = yield from ledger.heartbeat.entries(0 if after is None else max(0, after + 1), limit)
    return [_view(entry) for entry in page]


def bindings(ledger: Ledger, path: str) -> Generator[Need, None, Mapping[str, str]]:
    """The newest binding of each name at one node: local, propagating, or ended there."""
    heartbeat, place = ledger.heartbeat, parse_path(path)
    found = {} if heartbeat is None else (yield from heartbeat.bound_at(place))
    return {name: _BOUND[how] for name, how in sorted(found.items())}


def agenda(ledger: Ledger) -> Generator[Need, None, list[Resolved]]:
    """What the next beat runs, as things stand: resolved, and not run."""
    heartbeat = ledger.heartbeat
    if heartbeat is None:
        return []
    resolver, found, after = Resolver(ledger, heartbeat), list[Resolved](), b""
    while True:
        page = yield from heartbeat.due(ledger.beat + 1, after, PAGE_MAX)
        for _, impulse in page:
            resolved = yield from resolver.resolve(impulse)
            names = [entry.name for entry in resolved.entries]
            found.append(Resolved(impulse.signal, impulse.target, names))
        if len(page) < PAGE_MAX:
            return found
        after = page[-1][0] + b"\0"


def published_at(ledger: Ledger, beat: int) -> Generator[Need, None, int | None]:
    """The time that the world published for a beat."""
    return None if ledger.heartbeat is None else (yield from ledger.heartbeat.wall_clock.find(beat))


def value_at(ledger: Ledger, path: str) -> Generator[Need, None, dict[str, Any] | None]:
    """What a node of the tree holds: a map with its `value`, if it has one; None where there is no node."""
    place = parse_path(path)
    state = yield from tree.state_at(ledger, place)
    if state is None:
        return {} if (yield from tree.has_node(ledger, place)) else None
    held: Any = decode_trusted(state)
    return {"value": held["value"]} if "value" in held else {}


def names_below(ledger: Ledger, path: str, after: str | None, limit: int) -> Generator[Need, None, list[str]]:
    """The names right below a node, a page at a time."""
    return (yield from tree.names_below(ledger, parse_path(path), after, limit))


def check_page(limit: object) -> int:
    """How many a page may hold."""
    if type(limit) is not int or not 0 < limit <= PAGE_MAX:
        raise Rejected(
            "heartbeat.page", "limit is {limit}; a page has 1 to {most} rows", limit=repr(limit)[:80],
            most=PAGE_MAX, hint="Go on behind the last one with `after`.",
        )  # fmt: skip
    return limit


def _view(entry: Entry) -> EnzymeView:
    data = entry.as_data()
    options: dict[str, Any] = {
        name: data[name] for name in ("retry_limit", "backoff", "depth", "signals", "flags") if name in data
    }
    return EnzymeView(
        entry.number, entry.name, entry.module, entry.query.path, entry.query.policy, list(entry.before),
        list(entry.after), entry.access, options,
    )  # fmt: skip
