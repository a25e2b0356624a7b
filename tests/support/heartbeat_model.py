"""The rules of the heartbeat as the shortest program that keeps them: simple, slow, apart from the real one.

Written from the text of the rules alone; it imports nothing of what it judges. Beats count from 0, the first
step. A test drives it beside a real world and compares what both record; it passes the file of cases, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

RETRY_LIMIT = 16
WARN, TIMEOUT = "/sig_cei/warn", "/op/tmo"


def parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def is_path(path: str | None) -> bool:
    """A name without a leading slash means that path; no segment is empty."""
    return path is None or path == "/" or all(path.removeprefix("/").split("/"))


def as_path(path: str | None) -> str | None:
    return path if path is None or path.startswith("/") else f"/{path}"


def ancestors(path: str) -> list[str]:
    """The root first, the path itself last."""
    segments = parts(path)
    return ["/" + "/".join(segments[:count]) for count in range(len(segments) + 1)]


def segment_fits(pattern: str, segment: str) -> bool:
    return (
        re.fullmatch(".*".join(re.escape(piece) for piece in pattern.split("*")), segment, re.DOTALL)
        is not None
    )


def fits(query: list[str], signal: list[str], prefix: bool) -> bool:
    if not query:
        return prefix or not signal
    if query[0] == "**":
        return fits(query[1:], signal, prefix) or (bool(signal) and fits(query, signal[1:], prefix))
    return bool(signal) and segment_fits(query[0], signal[0]) and fits(query[1:], signal[1:], prefix)


def specificity(query: str) -> int:
    total = 0
    for segment in parts(query):
        if "*" not in segment:
            total += 2
        elif segment not in ("*", "**"):
            total += 1
    return total


@dataclass(frozen=True)
class Entry:
    """A registered enzyme; `number` is its registration."""

    number: int
    id: int
    name: str
    query: str
    match: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    backoff: int = 0
    limit: int = RETRY_LIMIT

    def matches(self, signal: str) -> bool:
        query = parts(self.query)
        return not query or fits(query, parts(signal), self.match == "prefix")

    @property
    def has_literal_head(self) -> bool:
        query = parts(self.query)
        return bool(query) and "*" not in query[0]


@dataclass(frozen=True)
class Impulse:
    """`kind`: an impulse, a retry (not logged), or a continuation or warning (neither logged nor counted)."""

    signal: str | None
    target: str | None
    payload: Any = None
    kind: str = "impulse"
    tries: tuple[tuple[int, int], ...] = ()

    @property
    def identity(self) -> tuple[Any, ...]:
        return (self.signal, self.target, self.payload)


def is_diagnostic(impulse: Impulse) -> bool:
    return parts(impulse.signal or "")[:1] == ["sig_cei"]


@dataclass
class Run:
    """What a call of an enzyme does: actions in order, then its return code."""

    rc: int = 0
    actions: list[tuple[Any, ...]] = field(default_factory=list)


@dataclass
class Beat:
    """What is recorded of a beat."""

    beat: int
    impulse_log: list[dict[str, Any]] = field(default_factory=list)
    agenda: list[dict[str, Any]] = field(default_factory=list)
    promoted: int = 0
    fired: list[dict[str, Any]] = field(default_factory=list)
    cei_warnings: int = 0


class Model:
    """A world of the heartbeat. `call(entry, impulse)` is the code of all enzymes."""

    def __init__(self, call: Callable[[Entry, Impulse], Run]) -> None:
        self.call = call
        self.beat = 0
        self.entries: list[Entry] = []
        self.pending: list[Entry] = []
        self.tree: set[str] = {"/"}
        self.bindings: dict[str, dict[str, str]] = {}
        self.queue: dict[int, list[Impulse]] = {}
        self.operations: dict[Any, Operation] = {}
        self.paused = False
        self.parked: list[Impulse] = []
        self.registered = 0

    # What comes from outside, between beats.

    def register(self, entry: Entry) -> None:
        entry = replace(entry, number=self.registered)
        self.registered += 1
        (self.pending if self.beat else self.entries).append(entry)

    def grow(self, path: str) -> None:
        self.tree.update(ancestors(path))

    def bind(self, path: str, name: str, record: str) -> None:
        """`record` is local, propagate or tombstone; only the newest of a name counts."""
        self.bindings.setdefault(path, {})[name] = record

    def enqueue(self, impulse: Impulse, beat: int | None = None) -> bool:
        if impulse.signal is None and impulse.target is None:
            return False
        if not (is_path(impulse.signal) and is_path(impulse.target)):
            return False
        impulse = replace(impulse, signal=as_path(impulse.signal), target=as_path(impulse.target))
        beat = self.beat + 1 if beat is None else beat
        if beat <= self.beat:
            return False
        self.queue.setdefault(beat, []).append(impulse)
        return True

    # A beat

    def step(self) -> Beat:
        told = Beat(self.beat)
        self.entries += self.pending
        self.pending = []
        later: list[tuple[Any, ...]] = []
        memo: dict[Any, list[Entry] | None] = {}
        done: dict[tuple[Any, ...], int] = {}
        for impulse in self._impulses():
            quiet = impulse.kind in ("continuation", "warning")
            if impulse.kind == "impulse":
                told.impulse_log.append({"signal": impulse.signal, "target": impulse.target})
            key = (impulse.identity, impulse.kind == "continuation")
            if key not in memo:
                memo[key] = self.resolve(impulse)
            if memo[key] is None and not is_diagnostic(impulse):
                later.append(("warn", ("cycle", impulse.signal, impulse.target)))
            self._run_list(memo[key] or [], impulse, done, told, later, quiet)
        for action in later:
            self._apply(action)
        told.promoted = sum(
            each.kind in ("impulse", "retry") for each in self.queue.get(self.beat + 1, ())
        )  # fmt: skip
        self._commit(told)
        self.beat += 1
        return told

    def _impulses(self) -> list[Impulse]:
        due = self.queue.pop(self.beat, [])
        if not self.paused:
            backlog, self.parked = self.parked, []
            return backlog + due
        self.parked += [each for each in due if not self._passes(each)]
        return [each for each in due if self._passes(each)]

    @staticmethod
    def _passes(impulse: Impulse) -> bool:
        return impulse.kind in ("continuation", "warning") or parts(impulse.signal or "")[:1] == ["sig_cei"]

    def _run_list(
        self, entries: list[Entry], impulse: Impulse, done: dict[tuple[Any, ...], int], told: Beat,
        later: list[tuple[Any, ...]], quiet: bool,
    ) -> None:  # fmt: skip
        where = {"signal": impulse.signal, "target": impulse.target}
        tries = dict(impulse.tries)  # of each entry; all who send the impulse again send these along
        if not entries and not quiet:
            told.agenda.append({"no_match": True, **where})
        for entry in entries:
            key = (entry.number, impulse.identity)
            ran = key not in done
            run = self.call(entry, impulse) if ran else Run(done[key])
            done[key] = run.rc
            told.agenda.append({"enzyme": entry.id, "rc": run.rc, "ran": ran, **where})
            if ran and run.rc != -2:
                later += run.actions
            if ran and run.rc == -1:
                tries[entry.number] = tries.get(entry.number, 0) + 1
                later.append(("retry", entry, impulse, tries))
            if run.rc == -2:
                return

    def _apply(self, action: tuple[Any, ...]) -> None:
        match action:
            case ("enqueue", signal, target, payload, beat):
                self.enqueue(Impulse(signal, target, payload), beat)
            case ("retry", entry, impulse, tries) if tries[entry.number] > entry.limit:
                self._apply(("warn", ("retries", entry.name, impulse.signal, impulse.target)))
            case ("retry", entry, impulse, tries):
                again = replace(impulse, kind="retry", tries=tuple(sorted(tries.items())))
                self.queue.setdefault(self.beat + 1 + entry.backoff, []).append(again)
            case ("register", entry):
                entry = replace(entry, number=self.registered)
                self.registered += 1
                self.pending.append(entry)
            case ("bind", path, name, record):
                self.bind(path, name, record)
            case ("write", path):
                self.grow(path)
            case ("warn", about):  # it tells what went wrong, so two of them are the same only if that is
                warning = Impulse(WARN, None, about, kind="warning")
                self.queue.setdefault(self.beat + 1, []).append(warning)
            case ("op", key, verb, arguments):
                self.operate(key, verb, *arguments)

    # Resolving

    def effective(self, target: str) -> set[str]:
        """The names bound to a target."""
        chain = ancestors(target)
        found = set()
        for name in {name for node in chain for name in self.bindings.get(node, {})}:
            records = [self.bindings.get(node, {}).get(name) for node in chain]
            if records[-1] in ("local", "propagate"):
                found.add(name)
            for place, record in enumerate(records[:-1]):
                if record == "propagate" and "tombstone" not in records[place:]:
                    found.add(name)
        return found

    def resolve(self, impulse: Impulse) -> list[Entry] | None:
        """The entries in their order; None for a cycle."""
        signal = impulse.signal
        fitting = [each for each in self.entries if signal is None or each.matches(signal)]
        names = None
        if impulse.target is not None:
            exists = impulse.target in self.tree or impulse.target in self._operation_paths()
            names = self.effective(impulse.target) if exists else set()
            if not names and exists and impulse.kind == "continuation":
                names = None
        if names is not None:
            best = []
            for name in names:
                same = [each for each in fitting if each.name == name]
                best += sorted(same, key=lambda each: (-specificity(each.query), each.number))[:1]
            fitting = best
        return self._ordered(fitting)

    def _operation_paths(self) -> set[str]:
        return {f"/rt/ops/{key}" for key in self.operations}

    @staticmethod
    def _ordered(candidates: list[Entry]) -> list[Entry] | None:
        def first(name: str) -> list[Entry]:
            same = [each for each in candidates if each.name == name]
            return sorted(same, key=lambda each: (not each.has_literal_head, each.number))[:1]

        edges = set()
        for entry in candidates:
            edges |= {(entry.number, other.number) for name in entry.before for other in first(name)}
            edges |= {(other.number, entry.number) for name in entry.after for other in first(name)}
        ordered: list[Entry] = []
        left = list(candidates)
        while left:
            blocked = {behind for ahead, behind in edges if ahead in {each.number for each in left}}
            ready = [each for each in left if each.number not in blocked]
            if not ready:
                return None
            best = min(ready, key=lambda e: (-specificity(e.query), e.name.encode(), e.number))
            ordered.append(best)
            left.remove(best)
        return ordered

    # Operations

    def operate(self, key: Any, verb: str, *arguments: Any) -> bool:
        if verb == "start":
            if key in self.operations or not Operation.may_start(*arguments):
                return False
            self.operations[key] = Operation(self.beat)
            return True
        operation = self.operations.get(key)
        return operation is not None and getattr(operation, verb)(self.beat, *arguments)

    def _commit(self, told: Beat) -> None:
        for key, operation in self.operations.items():
            for late, watcher in operation.take_due(self.beat):
                if late:
                    self._apply(("warn", ("timeout", key)))
                    told.cei_warnings += 1
                signal = TIMEOUT if late else watcher["cont"]
                path = signal if signal.startswith("/") else f"/{signal}"
                impulse = Impulse(path, f"/rt/ops/{key}", watcher["payload"], "continuation")
                self.queue.setdefault(self.beat + 1, []).append(impulse)
                told.fired.append({"op": key, "signal": signal})


FINAL = {"sts:ok": "ist:ok", "sts:fail": "ist:fail", "sts:cnl": "ist:cnl"}


class Operation:
    """One long work, and who waits for it."""

    def __init__(self, beat: int) -> None:
        self.issued = beat
        self.state, self.code, self.note = "ist:run", 0, None
        self.history = [{"state": "ist:run", "beat": beat, "code": 0, "note": None}]
        self.watchers: list[dict[str, Any]] = []
        self.closed: dict[str, Any] | None = None

    @staticmethod
    def may_start(verb: str, target: str, mode: str) -> bool:
        return bool(verb) and bool(target) and is_path(target) and mode in ("opm:direct", "opm:states")

    def set(self, beat: int, state: str, code: int, note: str | None) -> bool:
        if self.closed is not None or not state:
            return False
        repeated = self.state == state and self._tail_is(state, beat)
        self.state, self.code = state, code
        if note is not None:
            self.note = note
        if not repeated:
            self.history.append({"state": state, "beat": beat, "code": code, "note": note})
            self._arm(lambda want: want not in FINAL and want == state)
        return True

    def wait(self, beat: int, want: str, ttl: int, cont: str, payload: Any = None) -> bool:
        if not want or not cont:
            return False
        if want in FINAL:
            armed = self.closed is not None and self.closed["status"] == want
        else:
            armed = self.state == want
        deadline = beat + ttl if ttl and not armed else None
        self.watchers.append(
            {"want": want, "cont": cont, "armed": armed, "deadline": deadline, "payload": payload}
        )
        return True

    def close(self, beat: int, status: str, summary: str | None) -> bool:
        if status not in FINAL:
            return False
        if self.closed is not None:
            return bool(self.closed["status"] == status)
        self.closed = {"status": status, "closed_beat": beat, "summary": summary}
        self.state = FINAL[status]
        if not self._tail_is(self.state, beat):
            self.history.append({"state": self.state, "beat": beat, "code": 0, "note": None})
        self._arm(lambda want: want in (status, FINAL[status]))
        return True

    def take_due(self, beat: int) -> list[tuple[bool, dict[str, Any]]]:
        armed = [each for each in self.watchers if each["armed"]]
        late = [
            each for each in self.watchers
            if not each["armed"] and each["deadline"] is not None and each["deadline"] <= beat
        ]  # fmt: skip
        self.watchers = [each for each in self.watchers if each not in armed and each not in late]
        return [(False, each) for each in armed] + [(True, each) for each in late]

    def dossier(self) -> dict[str, Any]:
        return {
            "state": self.state, "code": self.code, "note": self.note, "issued_beat": self.issued,
            "history": self.history, "watchers": self.watchers, "close": self.closed,
        }  # fmt: skip

    def _tail_is(self, state: str, beat: int) -> bool:
        return self.history[-1]["state"] == state and self.history[-1]["beat"] == beat

    def _arm(self, wanted: Callable[[str], bool]) -> None:
        for each in self.watchers:
            each["armed"] = each["armed"] or wanted(each["want"])
