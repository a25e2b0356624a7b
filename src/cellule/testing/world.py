"""`testing.World`: an app in memory, synchronous, with a clock that only tests move.

    world = World(app)
    assert world.send(Placed("o1", 30)).applied
    assert world.state(order, "o1") == Order(total=30)
    world.advance(days=365)
    world.assert_replays()

It is a real world without disk and network. What it tells is read from the journal. Steps run under a guard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar, overload

from cellule.app import App, Built
from cellule.app.builder import revise
from cellule.effects.adapter import Adapter
from cellule.errors import CelluleError, Refused, Rejected, TimedOut
from cellule.host.branches.answers import Script
from cellule.host.branches.fork import ForkOptions
from cellule.host.codecs import AppCodecs
from cellule.host.ingress.arguments import check_expected, check_id, check_issued
from cellule.host.read.cell_list import KeyRange
from cellule.host.read.journal_reader import nanoseconds_of
from cellule.kernel.items import Admitted, ControlItem, Duplicate, EventItem, Item, RefusedItem, Verb
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import ControlRecord
from cellule.kernel.manifest.compare import ManifestChange
from cellule.kernel.state.branch import DROP
from cellule.kernel.state.cells import Entry
from cellule.modules.python import check_not_loading
from cellule.testing.answers import Cell, Events, Failure, Letter, Sent
from cellule.testing.app_programs import AppPrograms, build_for_tests
from cellule.testing.attempts import Attempts
from cellule.testing.chronicle import Chronicle
from cellule.testing.clock import WALL_ORIGIN_NS
from cellule.testing.deploys import change_to
from cellule.testing.effects import Answer, Intent, Intents, Named, Outside
from cellule.testing.forks import forked
from cellule.testing.heartbeat import Heartbeat
from cellule.testing.memory_host import MemoryHost
from cellule.testing.other_process import OTHER_PROCESS
from cellule.testing.recordings import Recording
from cellule.testing.waits import Waits, never_rests
from cellule.values.link import Link
from cellule.values.records import EventLike, StepOf

Reducer = StepOf[Any] | str
S = TypeVar("S")

ANSWERS_MAX = 10_000
MOMENTS_MAX = 100_000


class World:
    """One world of an app.

    `seed` decides what `ctx.random` and `ctx.uuid` give. `evict` forgets all memory after every beat. With
    `guard=False` steps may use clocks, files and chance. `live` runs functions as they stand, for debuggers;
    apps without a file do so anyway. `limit_s` ends long steps. `elsewhere=False` replays in this process.
    """

    def __init__(
        self, app: App, *, seed: int = 0, evict: bool = False, guard: bool = True, live: bool | None = None,
        limit_s: float | None = None, elsewhere: bool = True,
    ) -> None:  # fmt: skip
        check_not_loading("make a testing.World")
        built = build_for_tests(app, live)
        self._builds = [built]  # by era
        self._programs = AppPrograms(guard=guard, limit_s=limit_s)
        self._programs.add(built)
        self._elsewhere = elsewhere
        self.host = MemoryHost(
            built.manifest, self._programs, built.blocks, seed=seed, now_ns=WALL_ORIGIN_NS, evict=evict
        )
        self._forks = 0
        self._wire()
        self.host.start()

    def _wire(self) -> None:
        """Make what reads the host, and what answers it."""
        waits = Waits(lambda: self.host.now_ns, self._advance_to_due)
        self.chronicle = Chronicle(self.host, self._builds, waits)
        self._outside, self._attempts = Outside(self), Attempts(self)
        self.heartbeat = beats = Heartbeat(self)  # its enzymes, signals and tree
        self.signal, self.agenda, self.beat = beats.signal, beats.agenda, beats.beat

    @property
    def built(self) -> Built:
        """The app the world runs now."""
        return self._builds[-1]

    @property
    def now(self) -> datetime:
        """The world's time; it stands still until `advance`."""
        return self.chronicle.time(self.host.now_ns)

    # Work

    def send(
        self, event: EventLike, *, key: Any = None, id: Any = None,
        expected_version: int | str | None = None, issued: datetime | None = None, settle: bool = True,
        check: bool = True,
    ) -> Sent:  # fmt: skip
        """Send an event, and let the world work until it rests.

        It raises what a node's `send` raises: `StepFailed`, `Refused`, `VersionConflict` or `Parked`, and
        `Rejected` for what never gets in (an unknown event, a value that does not fit, an id that was used).
        With `check=False` the first four are answers: `sent.failed`, `sent.refused`, `sent.status`.
        `settle=False` does one beat only: what the event's steps emit waits for `settle()`.
        """
        item = self.item(event, key=key, id=id, expected_version=expected_version, issued=issued)
        (sent,) = self._admit([item])
        if settle:
            self.settle()
        if check and (settle or sent.status != "waiting"):
            sent.check()
        return sent

    def send_many(self, events: Iterable[EventLike], *, settle: bool = True) -> list[Sent]:
        """Send events together: in one beat, or as few as take them. As a node, it raises no outcome."""
        answers = self._admit([self.item(event) for event in events])
        if settle:
            self.settle()
        return answers

    def settle(self) -> None:
        """Beat until the world has nothing more to do, and what answers itself is answered."""
        self.host.settle()
        for _ in range(ANSWERS_MAX):
            if not self._outside.answer_all():
                return
            self.host.settle()
        said = f"the world still asked for effects after {ANSWERS_MAX} rounds of answers."
        raise never_rests(said, "A cell probably asks again for whatever it is answered.")

    def advance(self, **span: float) -> None:
        """Let time pass: `advance(hours=24)`, with the names of `timedelta`.

        On the way due timers run, and what answers itself (`world.on`) is answered, each at its time.
        """
        ns = timedelta(**span) // timedelta(microseconds=1) * 1_000
        if ns <= 0:
            raise Rejected(
                "testing.advance", "time cannot pass by {span}.", span=span or "nothing",
                hint="Name how long, as in advance(minutes=5).",
            )  # fmt: skip
        until = self.host.now_ns + ns
        for _ in range(MOMENTS_MAX):
            if not self._advance_to_due(until):
                break
        else:
            said = f"more than {MOMENTS_MAX} timers and answers were due by then."
            raise never_rests(said, "Let less time pass, or look for a cell that sets timers for ever.")
        self.host.now_ns = until
        self.settle()

    def wait_idle(self) -> None:
        """Do as a node's `wait_idle`: work until nothing is left; raises `TimedOut` for open effects."""
        self.settle()
        left = [intent for intent in self.intents if intent.status == "open"]
        if left:
            raise TimedOut(
                "testing.idle_timeout", "{count} effects are open and nobody answers them: {first}.",
                count=len(left), first=left[0],
                hint="Answer them with world.complete or world.fail, or let world.on do it.",
            )  # fmt: skip

    def _advance_to_due(self, until_ns: int) -> bool:
        """Go to the next moment at which a timer or an answer is due, up to a time; tell if there is one."""
        self.settle()
        wake = self.host.beat().wake
        dues = [each for each in (wake, self._outside.next_due(until_ns)) if each is not None]
        if not dues or min(dues) > until_ns:
            return False
        self.host.now_ns = max(self.host.now_ns, min(dues))
        self._outside.deliver_due()
        self.settle()
        return True

    # Effects

    @property
    def intents(self) -> Intents:
        """The requests that wait: for a receipt, an approval, their time; `.of(charge)` those of one kind."""
        return self._outside.open()

    @property
    def effects(self) -> Intents:
        """Every request that steps ever made, with how it stands or ended."""
        return self._outside.all()

    @property
    def approvals(self) -> Intents:
        """The requests that wait for an approval."""
        return Intents(intent for intent in self.intents if intent.status == "parked")

    def complete(self, intent: Intent | str, value: Any, *, after: timedelta | None = None) -> None:
        """Answer a request: its cell gets the receipt `ok` with this value, now or after some time.

        The request may be given by its completion token.
        """
        self.give(intent, "ok", value, after=after)

    def fail(
        self, intent: Intent | str, code: str = "test.failed", text: str = "failed by the test", *,
        exhausted: bool = False, after: timedelta | None = None,
    ) -> None:  # fmt: skip
        """Answer a request with `failed`; `exhausted` as after all attempts, which leaves a dead letter."""
        self.give(intent, "failed", code=code, text=text, exhausted=exhausted, after=after)

    def hold(self, intent: Intent, timeout: timedelta = timedelta(days=1)) -> str:
        """Let a request wait to be completed from outside, as if its adapter raised `Later`; its token."""
        self._outside.hold(intent, timeout)
        self.settle()
        return intent.token

    def perform(self, intent: Intent, adapter: Adapter | None = None) -> None:
        """Let the app's adapter, or this one, make one attempt at an open request.

        Its value, `Failed` and `Later` count as on a node; all else is raised, and the next has its progress.
        """
        self._attempts.perform(intent, adapter)

    def time_out(self, intent: Intent, *, after: timedelta | None = None) -> None:
        """Answer a request with `timeout`, as after all attempts."""
        text = "the last attempt took too long"
        self.give(intent, "timeout", code="effects.timeout", text=text, exhausted=True, after=after)

    def repeat(self, intent: Intent) -> CelluleError:
        """Hand the same receipt in once more, as a slow network would; returns why it is refused."""
        return self._outside.repeat(intent)

    def approve(self, intent: Intent, *, why: str = "approved by the test") -> None:
        """Let a parked request be performed."""
        self._control("effect.approve", {"intent": intent.height}, why)

    def deny(self, intent: Intent, *, why: str = "denied by the test") -> None:
        """Refuse a parked request."""
        self._control("effect.deny", {"intent": intent.height}, why)

    def cancel(self, intent: Intent, *, why: str = "cancelled by the test") -> None:
        """Cancel an open request."""
        self._control("effect.cancel", {"intent": intent.height}, why)

    def trigger_schedule(self, name: str, *, why: str = "triggered by the test") -> None:
        """Send the event of a schedule now."""
        self._control("schedule.trigger", {"name": name}, why)

    def backfill_schedule(self, name: str, first: datetime, last: datetime) -> None:
        """Send the event of a schedule for every due time of a range in the past, however many."""
        begin: Any = nanoseconds_of(first)
        while begin:
            times = {"from_ns": begin, "to_ns": nanoseconds_of(last)}
            _, written = self._control("schedule.backfill", {"name": name, **times})
            begin = written.get("more")

    def on(self, effect: str | Named, answer: Answer) -> None:
        """Answer a kind by a function of its params from now on; it may raise `Failed` or `Retry`."""
        self._outside.on(effect, answer)
        self.settle()

    def replay(self, recording: Recording) -> None:
        """Answer requests as they were answered when this was recorded."""
        self._outside.replay(recording)
        self.settle()

    def give(self, intent: Intent | str, status: str, value: Any = None, **more: Any) -> None:
        """Answer a request with any status; see `complete`, `fail` and `time_out`."""
        intent = self._outside.by_token(intent) if isinstance(intent, str) else intent
        self._outside.give(intent, status, value, **more)
        self.settle()

    def resume(self, reducer: Reducer | None = None, key: Any = None) -> None:
        """Let halted cells run again: one, those of a reducer, or all."""
        self._control_all("cell.resume", self._named(reducer, key))

    def drop(self, reducer: Reducer, key: Any = None, *, count: int = 1) -> None:
        """Take the first events out of a halted cell's queue, or one of each halted cell of a reducer."""
        self._control("cell.drop", {**self._named(reducer, key), "count": count})

    def erase(self, reducer: Reducer, *keys: Any) -> None:
        """Destroy the keys of cells, as an operator would: nobody can read any more what they hold."""
        wanted = [self.built.key_bytes(reducer, key) for key in keys] or [b""]
        self._control("cell.erase", {**self._named(reducer, None), "keys": wanted})
        self.chronicle.journal.forget()

    def delete(self, reducer: Reducer, key: Any = None) -> None:
        """Delete a cell, as an operator would; what waits for it finds no state."""
        self._control("cell.delete", {"key": b"", **self._named(reducer, key)})

    @property
    def letters(self) -> list[Letter]:
        """The dead letters, oldest first."""
        return self.chronicle.letters()

    def redrive(self, *letters: Letter) -> None:
        """Let dead letters happen again: an event goes to its cell, an effect is requested once more."""
        for letter in letters:
            self._control("letter.redrive", {"letter": letter.height})

    def dismiss(self, *letters: Letter) -> None:
        """Let dead letters go for good."""
        for letter in letters:
            self._control("letter.dismiss", {"letter": letter.height})

    def migrate(
        self, reducer: Reducer | None = None, key: Any = None, *, all: bool = False, to: int | None = None
    ) -> None:
        """Move cells to the newest era: one, or those of a reducer or of the world that wait for it.

        `all` moves also those that would follow at their next event, and those that are pinned;
        `to` names an era other than the newest, for pinned ones.
        """
        extra: dict[str, Any] = {"all": True} if all else {}
        arguments = {**self._named(reducer, key), **extra, **({} if to is None else {"to": to})}
        self._control_all("cell.migrate", arguments)

    def deploy(self, app: App, *, migrate_cells: bool = False) -> ManifestChange:
        """Go on with another version of the app, if the cells can; `migrate_cells` makes cells of maps."""
        built = build_for_tests(app, True if self.built.live else None)
        if built.live and self._programs.knows(built.manifest.cid):
            built = revise(built, len(self._builds))
        empty = [base for base in self.built.manifest.modules if not any(self._existing(base))]
        change, spilled = change_to(self._builds, built, empty, spills=migrate_cells)
        self._programs.add(built)
        self.host.cas.update(built.blocks)
        self._builds.append(built)
        try:
            self._control("cell.spill" if spilled else "deploy", {"manifest": Link(built.manifest.cid)})
        except Rejected:
            del self._builds[-1]
            raise
        return change

    def fork(
        self, *, at: int | None = None, effects: str = DROP, live: bool = False, script: Script | None = None
    ) -> World:
        """A world that begins as this one is, or was at a height; the same as a node's `world.fork`."""
        child, self._forks = copy(self), self._forks + 1
        options = ForkOptions(effects, live, script, "test", "forked by the test")
        child.host = forked(self.host, self.built, self._forks, at, options)
        World._wire(child)
        child.settle()
        return child

    def restart(self) -> None:
        """Die and come back: everything in memory is lost, and restored from the journal."""
        self.host.restart(0)

    # Looking

    @overload
    def cell(self, reducer: StepOf[S], key: Any = None) -> Cell[S]: ...

    @overload
    def cell(self, reducer: str, key: Any = None) -> Cell[Any]: ...

    def cell(self, reducer: Reducer, key: Any = None) -> Cell[Any]:
        """The cell of a reducer that has this key; a reducer without keys has one cell."""
        return Cell(self.chronicle, self.built.base(reducer), self.built.key_bytes(reducer, key))

    @overload
    def cells(
        self, reducer: StepOf[S], *, prefix: str | bytes | None = None, start: Any = None, end: Any = None,
        after: Any = None, where: str | None = None, limit: int | None = None,
    ) -> list[Cell[S]]: ...  # fmt: skip

    @overload
    def cells(
        self, reducer: str, *, prefix: str | bytes | None = None, start: Any = None, end: Any = None,
        after: Any = None, where: str | None = None, limit: int | None = None,
    ) -> list[Cell[Any]]: ...  # fmt: skip

    def cells(
        self, reducer: Reducer, *, prefix: str | bytes | None = None, start: Any = None, end: Any = None,
        after: Any = None, where: str | None = None, limit: int | None = None,
    ) -> list[Cell[Any]]:  # fmt: skip
        """The cells of a reducer that have a state, in the order of their keys; by default all.

        `prefix` is of text or bytes, as the keys are; `start` is the first key, `end` the first beyond.
        `where` is CEL as in a node's `world.cells`; a cell it gives no answer for is logged and left out.
        """
        base = self.built.base(reducer)
        begin, until = KeyRange(prefix, start, end, after).of(AppCodecs(self.built), base)
        matches = None if where is None else self.chronicle.matching(base, where)
        return list(islice(self._existing(base, begin, until, matches), limit))

    @overload
    def state(self, reducer: StepOf[S], key: Any = None) -> S | None: ...

    @overload
    def state(self, reducer: str, key: Any = None) -> Any: ...

    def state(self, reducer: Reducer, key: Any = None) -> Any:
        """The state of a cell, or None."""
        return self.cell(reducer, key).state

    @property
    def emitted(self) -> Events:
        """Every event that steps have emitted; `world.emitted.of(Shipped)` are those of one class."""
        return self.chronicle.emitted()

    @property
    def failures(self) -> list[Failure]:
        """Every step that failed, oldest first."""
        return self.chronicle.failures()

    @property
    def refusals(self) -> list[Refused]:
        """Every event that a step refused, oldest first; also events, receipts and timers nobody sent."""
        return self.chronicle.refusals()

    def assert_replays(self) -> None:
        """Prove that the journal restores to identical bytes from everywhere, and that all code repeats.

        It does so once more in another process with another hash seed, unless the app runs live, or the world
        was made with `elsewhere=False`.
        """
        self.host.check_replays()
        if self._elsewhere and not any(built.live for built in self._builds):
            self.host.check_elsewhere(OTHER_PROCESS)

    def close(self) -> None:
        """End the thread that watches for steps over `limit_s`; worlds without a limit have none."""
        self._programs.close()

    # Items

    def item(
        self, event: object, *, key: Any = None, id: Any = None, expected_version: int | str | None = None,
        issued: datetime | None = None,
    ) -> EventItem:  # fmt: skip
        """An event as the kernel takes it; raises `Rejected` if it does not fit."""
        id = None if id is None else check_id(id)
        version, born = check_expected(expected_version)
        name, value = self.built.encode_event(event)
        given = None
        if key is not None:
            routes = self.built.manifest.routes.get(name, ())
            given = self.built.key_bytes(routes[0].base, key) if routes else None
        issued_ns, explicit = check_issued(issued, id), id is not None
        return EventItem(name, value, given, id, explicit, version, born, issued_ns)

    def _admit(self, items: list[EventItem]) -> list[Sent]:
        answers: list[Sent] = []
        while len(answers) < len(items):
            for outcome in self._beat(items[len(answers) :]):
                match outcome:
                    case Admitted(height=height):
                        answers.append(Sent(self.chronicle, height))
                    case Duplicate(height=height):
                        answers.append(Sent(self.chronicle, height, duplicate=True))
                    case RefusedItem(error=error):
                        raise error
                    case _:
                        break
        return answers

    def _control(
        self, verb: Verb, arguments: Mapping[str, Any], why: str = "asked by the test"
    ) -> tuple[int, Mapping[str, Any]]:
        """Do a verb; returns its height, and its arguments as they were journaled, with what it did."""
        (outcome,) = self._beat([ControlItem(verb, "test", why, arguments)])
        if isinstance(outcome, RefusedItem):
            raise outcome.error
        written = decode_frame(self.host.frames[-1]).expect(outcome.height, ControlRecord).arguments
        self.settle()
        return outcome.height, written

    def _control_all(self, verb: Verb, arguments: Mapping[str, Any]) -> None:
        """Do a verb, and again while there are more cells than its frame had room for, as a node does."""
        height, written = self._control(verb, arguments)
        while "key" not in arguments and (written.get("more") or "next" in written):
            rest = {"after": written["next"]} if "next" in written else {"until": height}
            _, written = self._control(verb, {**arguments, **rest})

    def _beat(self, items: Iterable[Item]) -> list[Any]:
        return list(self.host.beat(list(items)).outcomes)

    def _named(self, reducer: Reducer | None, key: Any) -> dict[str, Any]:
        if reducer is None:
            return {}
        found: dict[str, Any] = {"module": self.built.base(reducer)}
        if key is not None:
            found["key"] = self.built.key_bytes(reducer, key)
        return found

    def _existing(
        self, base: str, begin: bytes = b"", end: bytes | None = None,
        matches: Callable[[bytes, Entry], bool] | None = None,
    ) -> Iterator[Cell[Any]]:  # fmt: skip
        for key, entry in self.host.cells(base, begin, end):
            if entry.state is not None and (matches is None or matches(key, entry)):
                yield Cell(self.chronicle, base, key)
