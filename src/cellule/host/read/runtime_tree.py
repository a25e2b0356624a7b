"""The tree below `/rt`: a read-only view of what is recorded of beats, of the wall clock and of operations.

    /rt/beat/<N>/{impulses, agenda, stage, meta/unix_ts_ns}
    /rt/analytics/spacing/<N>/interval_ns
    /rt/ops/<id>/{envelope, state, history, watchers, close}
    /rt/budgets/<grant>      {intents, period_ns, by?, spent}: of each grant with a budget, in this period
    /rt/metrics/<name>       how many of what the world holds

Nothing of it is stored: frames tell of beats, cells of operations. There are no folders for tokens or locks,
because those belong to the host, and no link `inbox`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final, NamedTuple

from cellule.errors import Rejected
from cellule.host.read.beat_view import beat_view, entries_in
from cellule.host.read.heartbeat import names_of, published_at
from cellule.host.read.operations import as_json, get_operation, list_operations
from cellule.host.read.reader import Reader
from cellule.kernel.heartbeat.paths import parse_path, segments_of
from cellule.kernel.journal.frame import Frame
from cellule.kernel.manifest.model import Grant
from cellule.kernel.need import Need
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.world import World

RUNTIME: Final = "rt"
_BEAT: Final = ("agenda", "impulses", "meta", "stage")
_OPERATION: Final = ("close", "envelope", "history", "state", "watchers")


class Node(NamedTuple):
    """A node of the view: its value, or the names below it. Names of many come in pages instead."""

    value: Any = None
    names: tuple[str, ...] = ()


def is_runtime(path: str) -> bool:
    """Tell whether a path is `/rt` or below it."""
    return segments_of(parse_path(path))[:1] == (RUNTIME,)


class RuntimeTree:
    """The view of one world."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def node(self, path: str) -> Node | None:
        """The node at a path below `/rt`; None where there is none."""
        match segments_of(parse_path(path))[1:]:
            case ():
                return Node(names=("analytics", "beat", "budgets", "metrics", "ops"))
            case ("analytics",):
                return Node(names=("spacing",))
            case ("beat",) | ("ops",) | ("analytics", "spacing"):
                return Node()
            case ("beat", number, *rest):
                return await self._beat(number, rest)
            case ("analytics", "spacing", number, *rest):
                return await self._interval(number, rest)
            case ("ops", id, *rest):
                return await self._operation(id, rest)
            case ("budgets" | "metrics" as part, *rest) if len(rest) < 2:
                found = await (self._budgets() if part == "budgets" else self._reader.ask(_metrics))
                if not rest:
                    return Node(names=tuple(sorted(found)))
                return Node(found[rest[0]]) if rest[0] in found else None
        return None

    async def names(self, path: str, after: str | None, limit: int) -> list[str]:
        """The names right below a path, behind the name `after`."""
        segments = segments_of(parse_path(path))[1:]
        match segments:
            case ("beat",):
                last = (await self._reader.journal.head()).beat
                begin = 1 if after is None else _number(after) + 1
                return [str(beat) for beat in range(begin, min(last, begin + limit - 1) + 1)]
            case ("analytics", "spacing"):
                begin = 0 if after is None else _number(after) + 1
                intervals = await self._reader.ask(lambda world: _intervals(world.ledger))
                return [str(beat) for beat in sorted(intervals) if beat >= begin][:limit]
            case ("ops",):
                page = await list_operations(self._reader, after, limit, None)
                return [each.id for each in page.operations]
        found = await self.node(path)
        return [name for name in (() if found is None else found.names) if after is None or name > after][
            :limit
        ]

    async def _beat(self, number: str, rest: list[str]) -> Node | None:
        frame = await self._reader.journal.frame_of_beat(_number(number)) if _is_number(number) else None
        if frame is None:
            return None
        match rest:
            case []:
                return Node(names=_BEAT)
            case ["meta"]:
                return Node(names=("unix_ts_ns",))
            case ["meta", "unix_ts_ns"]:
                return Node(await self._time(frame))
            case ["impulses" | "agenda" | "stage" as name]:
                return Node(await self._of_frame(frame, name))
        return None

    async def _of_frame(self, frame: Frame, name: str) -> Any:
        numbers = entries_in(frame)
        view = beat_view(frame, await self._reader.ask(lambda world: names_of(world.ledger, numbers)))
        if name == "stage":
            return {"promoted": view.promoted, "unix_ts_ns": await self._time(frame)}
        if name == "impulses":
            return [
                _without_none(signal=each.signal, target=each.target, payload=each.payload)
                for each in view.impulses
            ]
        return [
            _without_none(
                enzyme=each.enzyme, number=each.number, code=each.code, signal=each.signal,
                target=each.target, text=each.text or None, ran=each.ran, no_match=each.no_match or None,
            )
            for each in view.agenda
        ]  # fmt: skip

    async def _time(self, frame: Frame) -> int:
        """When a beat was: as the world published it, else by its frame."""
        told = await self._reader.ask(lambda world: published_at(world.ledger, frame.header.beat))
        return frame.header.now_ns if told is None else told

    async def _interval(self, number: str, rest: list[str]) -> Node | None:
        intervals = await self._reader.ask(lambda world: _intervals(world.ledger))
        found = intervals.get(_number(number)) if _is_number(number) else None
        if found is None:
            return None
        match rest:
            case []:
                return Node(names=("interval_ns",))
            case ["interval_ns"]:
                return Node(found)
        return None

    async def _budgets(self) -> dict[str, Any]:
        grants = (await self._reader.manifest()).grants
        return await self._reader.ask(lambda world: _budgets(world, grants))

    async def _operation(self, id: str, rest: list[str]) -> Node | None:
        try:
            view = as_json(await get_operation(self._reader, id))
        except Rejected:
            return None
        envelope = {name: view[name] for name in ("verb", "target", "mode", "ttl", "issued_beat")}
        parts = {
            "envelope": envelope, "state": _without_none(**{n: view[n] for n in ("state", "code", "note")}),
            "history": view["history"], "watchers": view["watchers"],
            "close": _without_none(**{n: view[n] for n in ("status", "summary", "closed_beat")}) or None,
        }  # fmt: skip
        match rest:
            case []:
                return Node(names=tuple(name for name in _OPERATION if parts[name] is not None))
            case [name] if parts.get(name) is not None:
                return Node(parts[name])
        return None


def _budgets(world: World, grants: Mapping[str, Grant]) -> Generator[Need, None, dict[str, Any]]:
    """What each grant with a budget gave in the period of the newest beat; by spender, the sum of all."""
    yield from ()
    found: dict[str, Any] = {}
    for name, grant in grants.items():
        if grant.budget is not None:
            intents, period_ns, by = grant.budget
            book, period = world.ledger.book, world.ledger.now_ns // period_ns
            spent = sum(book.spenders(name, period).values()) if by else book.spent_in(name, period)
            found[name] = _without_none(intents=intents, period_ns=period_ns, by=by, spent=spent)
    return found


def _metrics(world: World) -> Generator[Need, None, dict[str, Any]]:
    ledger = world.ledger
    heartbeat, book = ledger.heartbeat, ledger.book
    letters = yield from ledger.dead_letters.count()
    found = {
        "approvals": book.parked, "beat": ledger.beat, "dead_letters": letters,
        "effects": sum(book.counts.values()), "height": ledger.height, "timers": book.timers,
        "impulses": 0, "enzymes": 0,
    }  # fmt: skip
    if heartbeat is not None:
        found["impulses"] = heartbeat.queued
        found["enzymes"] = yield from heartbeat.registry.count()
    return found


def _intervals(ledger: Ledger) -> Generator[Need, None, Mapping[int, int]]:
    yield from ()
    return {} if ledger.heartbeat is None else dict(ledger.heartbeat.wall_clock.intervals)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _number(text: str) -> int:
    if not _is_number(text) or len(text) > 19:
        raise Rejected("heartbeat.beat_number", "{text} is no number of a beat", text=repr(text)[:80])
    return int(text)


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
