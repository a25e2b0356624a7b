"""Random banks: whatever steps ask and people, adapters, time and deploys do, every intent ends once.

After each beat the journal is read by an independent audit (`tests.support.kernel_audit`), which is then
held against the ledger: open intents, counts, modules at their limit, the cells that wait. At the end
everything that can still end is let end, and the world must be empty of intents; the journal restores to
identical bytes from every snapshot, and verifies. `CELLULE_EXAMPLES` sets the number of histories.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cellule.kernel.decide import beat_context as desk
from cellule.kernel.decide.intents import gate
from cellule.kernel.decide.intents import open as opening
from cellule.kernel.decide.intents import settle as settling
from cellule.kernel.fast import intents as fast_intents
from cellule.kernel.index.keys import pair_of
from cellule.kernel.items import Admitted, ControlItem, EventItem, Pace, ReceiptItem
from cellule.kernel.journal.codes import Settled
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Nodes, drive
from cellule.kernel.prove.check import check_snapshot
from cellule.kernel.state import cells, ledger, snapshot
from cellule.kernel.state import intent_book as book
from cellule.kernel.state.cells import EVENT_MESSAGE
from cellule.values.cbor import decode, encode
from cellule.values.link import Link
from tests.support.kernel_audit import IntentAudit
from tests.support.kernel_bank import CHARGE, HOUR, MINUTE, PROGRAMS, SECOND, TIMER, Edition
from tests.support.kernel_world import KernelWorld
from tests.support.stuck import find_stuck, find_waiting

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "60"))
STEPS = 40
WINDOW = 2 * HOUR
BASES = ["bank/Order", "bank/Clerk"]
ORDERS = ["a", "b", "c", "s"]

EDITIONS = st.builds(
    Edition,
    open_max=st.sampled_from([1, 2, 3, 10_000]),
    policy=st.sampled_from(["none", "none", "ask", "ask at once", "deny", "micro"]),
    schedule=st.sampled_from(["none", "allow", "skip", "buffer", "backfill", "slow"]),
    budget=st.sampled_from([None, 3, 3]),
    upgrade=st.sampled_from(["pin", "follow"]),
    charges=st.sampled_from([True, True, True, False]),
)
KEYS = st.sampled_from([None, None, "k1", "k2"])
SLOTS = st.sampled_from([None, None, "pay"])
PADS = st.sampled_from([0, 0, 30, 60, 200])
SPANS = st.sampled_from([0, SECOND, MINUTE, 10 * MINUTE])


@st.composite
def asks(draw):
    """One request, mostly a good one."""
    kind = draw(st.sampled_from([CHARGE, CHARGE, CHARGE, TIMER, TIMER, "odd"]))
    if kind == TIMER:
        named = draw(st.sampled_from([{}, {"key": "t"}, {"key": "u"}]))
        return [TIMER, {"after_ns": draw(SPANS), **named}, draw(SLOTS), draw(KEYS)]
    if kind == "odd":
        odd = [["bank.refund", {}], [CHARGE, {"amount": -1}], [TIMER, {}], [CHARGE, {"amount": 1}, "till"]]
        ask = draw(st.sampled_from(odd))
        return [*ask, *([None] * (4 - len(ask)))]
    params = {"amount": draw(st.sampled_from([1, 1, 1, 50]))}
    pad = draw(PADS)
    if pad:
        params["pad"] = "x" * pad
    return [CHARGE, params, draw(SLOTS), draw(KEYS)]


@st.composite
def events(draw):
    """An event that makes a cell ask, keep still, ask again and again, or go."""
    schema = draw(st.sampled_from(["bank/Ask@1", "bank/Ask@1", "bank/Tell@1", "bank/Tick@1"]))
    value = {"order": draw(st.sampled_from(ORDERS))}
    if schema != "bank/Tick@1":
        value["asks"] = draw(st.lists(asks(), max_size=3))
        if draw(st.integers(0, 5)) == 0:
            value["delete"] = True
        if draw(st.integers(0, 5)) == 0:
            value["again"] = draw(st.integers(1, 6))
        if draw(st.integers(0, 3)) == 0:
            value["cancel"] = draw(st.lists(st.sampled_from(["t", "u", "k1", "k2"]), min_size=1, max_size=3))
    return EventItem(schema, encode(value), durable=True)


EVENTS = st.lists(events(), min_size=1, max_size=5)
STATUSES = st.sampled_from(
    ["ok", "ok", "ok", "unfit", "garbage", "nothing", "failed", "timeout", "exhausted", "outside", "outside"]
)


class IntentMachine(RuleBasedStateMachine):
    """`kernel` is the bank's world and its host, `audit` what the journal says, `out` what left, ever."""

    def __init__(self):
        super().__init__()
        self.kernel = None

    @initialize(edition=EDITIONS, quota=st.sampled_from([1, 3, 1_000]), burst=st.sampled_from([1, 2, 64]))
    def start(self, edition, quota, burst):
        self.kernel = KernelWorld(edition.document(), PROGRAMS, pace=Pace(quota, burst))
        self.edition, self.out, self.lowered = edition, [], set()
        self.audit = IntentAudit(WINDOW, {"till": 3})
        self.do([])

    # Work

    def do(self, items):
        beat = self.kernel.beat(items)
        note(f"beat {self.kernel.world.ledger.beat}: {beat.outcomes} {beat.steps}")
        self.audit.beat(beat)
        self.out += beat.opened
        self.lowered -= {each.module for each in beat.opened}
        self.compare()
        return beat

    @rule(items=EVENTS)
    def ask(self, items):
        self.do(items)

    @rule(count=st.integers(3, 8), kind=st.sampled_from(["bank/Ask@1", "bank/Tell@1"]))
    def flood(self, count, kind):
        one = [CHARGE, {"amount": 1}, None, None]
        self.do([EventItem(kind, encode({"order": f"f{at}", "asks": [one]})) for at in range(count)])

    @rule(order=st.sampled_from(ORDERS), names=st.permutations(["t", "u", "k1", "k2"]), rest=EVENTS)
    def a_cell_takes_back_what_it_has_just_asked_for(self, order, names, rest):
        timer, call = [TIMER, {"after_ns": HOUR, "key": "t"}, None, None], [CHARGE, {"amount": 1}, None, "k1"]
        ask = {"order": order, "asks": [timer, call]}
        back = {"order": order, "asks": [], "cancel": names[:2]}
        self.do([EventItem("bank/Ask@1", encode(value), durable=True) for value in (ask, back)])
        self.do(rest)

    @rule()
    def beat(self):
        self.do([])

    @rule()
    def settle(self):
        for _ in range(60):
            if not self.do([]).more:
                return

    # Receipts

    def receipt(self, opening, status):
        good = encode({"id": "r"})
        given = {
            "ok": ("ok", good), "unfit": ("ok", encode({"id": 7})), "garbage": ("ok", b"\xff\x00"),
            "nothing": ("ok", None), "failed": ("failed", None), "timeout": ("timeout", good),
            "exhausted": ("failed", None), "outside": ("outside", encode(10 * MINUTE)),
        }[status]  # fmt: skip
        return ReceiptItem(
            opening.intent, opening.height, *given, by="k1", attempts=2, exhausted=status == "exhausted"
        )

    def hand_in(self, items):
        """Receipts in one beat; each must be admitted exactly if its intent is open then."""
        open_now = {height: each.status for height, each in self.audit.open.items()}
        ids = {opening.height: opening.intent for opening in self.out}
        expected = []
        for item in items:
            good = item.height in open_now and ids.get(item.height) == item.intent
            expected.append(good)
            if item.status == "outside":
                expected[-1] = good and open_now[item.height] == "open"
                if expected[-1]:
                    open_now[item.height] = "outside"
            elif good:
                del open_now[item.height]
        outcomes = self.do(items).outcomes
        for item, good, outcome in zip(items, expected, outcomes, strict=True):
            # a receipt may settle others that wait for the same, so an open one may be late by then
            if item.status == "outside":
                assert good or not isinstance(outcome, Admitted)
            elif not good or self.audit.settled.get(item.height) is None:
                assert not isinstance(outcome, Admitted)
                assert outcome.height > 0

    @precondition(lambda self: self.out)
    @rule(which=st.lists(st.tuples(st.integers(0, 30), STATUSES), min_size=1, max_size=4))
    def receive(self, which):
        self.hand_in([self.receipt(self.out[-1 - at % len(self.out)], status) for at, status in which])

    @precondition(lambda self: self.audit.counts())
    @rule(status=STATUSES)
    def receive_all(self, status):
        open_now = [opening for opening in self.out if opening.height in self.audit.open]
        self.hand_in([self.receipt(opening, status) for opening in open_now])

    @precondition(lambda self: self.out)
    @rule(
        at=st.integers(0, 30),
        odd=st.sampled_from(["foreign", "height", "huge", "negative", "status", "short"]),
    )
    def receive_odd(self, at, odd):
        opening = self.out[at % len(self.out)]
        item = self.receipt(opening, "ok")
        item.intent = {"foreign": bytes(32), "short": b"x"}.get(odd, item.intent)
        item.height = {"height": item.height + 1, "huge": 1 << 70, "negative": -3}.get(odd, item.height)
        item.status = "great" if odd == "status" else item.status
        outcome = self.do([item]).outcomes[0]
        assert not isinstance(outcome, Admitted)
        assert outcome.height > 0

    @precondition(lambda self: self.audit.open)
    @rule(at=st.integers(0, 30), status=st.sampled_from(["ok", "failed"]))
    def a_person_settles_any(self, at, status):
        """Also one that waits for an approval, a time, or another."""
        heights = sorted(self.audit.open)
        height = heights[at % len(heights)]
        entry = drive(self.book.find(height), self.nodes, self.kernel.fetch)
        value = encode({"id": "p"}) if entry.kind == CHARGE else encode(
            {"intent_id": "x", "due_ns": 1, "fired_ns": 1}
        )  # fmt: skip
        item = ReceiptItem(entry.id, height, status, value, by="k1", who="ada", why="the bank called")
        self.do([item])
        assert height in self.audit.settled  # by this, or because its time came in this very beat

    # People

    @precondition(lambda self: self.audit.open)
    @rule(verb=st.sampled_from(["approve", "approve", "deny", "cancel"]), at=st.integers(0, 30))
    def operate(self, verb, at):
        heights = sorted(self.audit.open)
        height = heights[at % len(heights)]
        status, kind = self.audit.open[height].status, self.audit.open[height].kind
        outcome = self.do([ControlItem(f"effect.{verb}", "ada", "why not", {"intent": height})]).outcomes[0]
        if not isinstance(outcome, Admitted):
            code = outcome.error.code
            if code == "kernel.intent_not_open":  # its time came in this very beat
                assert height in self.audit.settled
            elif status == "parked":
                assert verb == "approve"
                assert code in ("kernel.grant_gone", "kernel.effect_unknown")
            else:
                assert code == "kernel.intent_not_parked"
        elif verb != "approve":
            assert self.audit.settled[height] == {"cancel": Settled.CANCELLED, "deny": Settled.DENIED}[verb]
        elif height in self.audit.open:
            assert self.audit.open[height].status == ("timer" if kind == TIMER else "open")

    @rule(verb=st.sampled_from(["approve", "deny", "cancel"]), height=st.sampled_from([0, 1, 5, 1 << 64]))
    def operate_nothing(self, verb, height):
        if height not in self.audit.open:
            outcome = self.do([ControlItem(f"effect.{verb}", "ada", "", {"intent": height})]).outcomes[0]
            assert outcome.error.code.startswith("kernel.")

    @precondition(lambda self: self.audit.letters)
    @rule(at=st.integers(0, 9))
    def retry(self, at):
        letters = sorted(self.audit.letters)
        letter = letters[at % len(letters)]
        outcome = self.do([ControlItem("effect.retry", "ada", "", {"letter": letter})]).outcomes[0]
        assert isinstance(outcome, Admitted) == (letter not in self.audit.letters)

    @rule(verb=st.sampled_from(["pause", "resume", "resume", "cell.resume", "cell.migrate"]))
    def control(self, verb):
        self.do([ControlItem(verb, "ada", "as planned", {})])

    @rule(verb=st.sampled_from(["schedule.pause", "schedule.resume", "schedule.trigger"]))
    def schedule(self, verb):
        self.do([ControlItem(verb, "ada", "", {"name": "tick"})])

    # Time and editions

    @rule(ns=st.sampled_from([SECOND, MINUTE, 7 * MINUTE, HOUR, WINDOW]))
    def wait(self, ns):
        self.kernel.now_ns += ns
        self.do([])

    @rule(edition=EDITIONS, around=EVENTS, first=st.booleans())
    def deploy(self, edition, around, first):
        manifest = load_manifest(edition.document())
        self.kernel.cas[manifest.cid] = manifest.data
        item = ControlItem("deploy", "ada", "a new edition", {"manifest": Link(manifest.cid)})
        if edition.open_max < self.edition.open_max:
            self.lowered |= set(BASES)
        self.edition = edition
        self.do([*around, item] if first else [item, *around])

    # Memory

    @rule()
    def snapshot(self):
        root = self.kernel.snapshot()
        nodes = Nodes(10_000_000)
        drive(check_snapshot(root, nodes), nodes, self.kernel.fetch)
        saved = decode(self.kernel.cas[root])
        assert drive(find_stuck(saved, nodes), nodes, self.kernel.fetch) == []

    @rule(at=st.integers(0, 5))
    def restore(self, at):
        kernel = self.kernel
        kernel.world = kernel.restored(at % len(kernel.snapshots))
        self.compare()

    @rule(items=EVENTS)
    def lose_a_beat(self, items):
        kernel = self.kernel
        kernel.world.beat(items, kernel.now_ns, bytes(16))
        kernel.world = kernel.restored(len(kernel.snapshots) - 1)
        self.compare()

    @rule()
    def evict(self):
        self.kernel.world.ledger.nodes.evict()

    # The end

    def teardown(self):
        if self.kernel is None:
            return
        self.kernel.now_ns += WINDOW
        for _ in range(40):
            self.end_all()
            if not self.audit.open and not self.kernel.world.ledger.ring:
                break
        assert self.audit.statuses() == {}
        assert (self.book.over, self.kernel.world.ledger.held) == (set(), {})
        self.snapshot()
        saved = decode(self.kernel.cas[self.kernel.snapshots[-1][1]])
        nodes = Nodes(10_000_000)
        waiting = drive(find_waiting(saved, nodes), nodes, self.kernel.fetch)
        assert {cell.reason.what for cell in waiting} <= {"halted", "needs migration"}
        self.check_receipts(waiting)
        self.kernel.assert_replays()

    def end_all(self):
        """Everything that waits gets what it waits for."""
        quiet = load_manifest(Edition().document())
        self.kernel.cas[quiet.cid] = quiet.data
        self.lowered |= set(BASES)
        self.edition = Edition()
        self.do(
            [
                ControlItem("resume", "ada", ""),
                ControlItem("deploy", "ada", "", {"manifest": Link(quiet.cid)}),
            ]
        )
        self.kernel.now_ns += 11 * MINUTE
        self.settle()
        parked = [height for height, status in self.audit.statuses().items() if status == "parked"]
        self.do([ControlItem("effect.deny", "ada", "", {"intent": height}) for height in parked])
        left = [opening for opening in self.out if opening.height in self.audit.open]
        self.do([self.receipt(opening, "failed") for opening in left])
        self.settle()

    def check_receipts(self, waiting):
        """Every receipt that a cell was to hear was stepped, or waits in the queue of a stopped cell."""
        unheard = {at: told for at, told in self.audit.receipts.items() if told.delivery and not told.steps}
        stopped = {(cell.module, cell.key) for cell in waiting}
        assert {told.cell for told in unheard.values()} <= stopped

    # Comparing

    @property
    def book(self):
        return self.kernel.world.ledger.book

    @property
    def nodes(self):
        return self.kernel.world.ledger.nodes

    def rows(self, index):
        return drive(index.scan(b"", None, 10_000), self.nodes, self.kernel.fetch)

    def compare(self):
        kept, audit, world = self.book, self.audit, self.kernel.world.ledger
        intents = {pair_of(key)[0]: row for key, row in self.rows(kept.open)}
        assert {height: row.status for height, row in intents.items()} == audit.statuses()
        assert kept.counts == audit.counts()
        numbers = list(audit.statuses().values())
        timers = numbers.count("timer") + numbers.count("outside")
        assert (kept.parked, kept.timers) == (numbers.count("parked"), timers)
        letters = {pair_of(key)[0] for key, _ in self.rows(world.dead_letters) if pair_of(key)[1] == 1}
        assert letters == audit.letters
        self.compare_limits()
        for base in BASES:
            for order in ORDERS:
                entry = self.kernel.entry(base, order.encode())
                if entry is not None and entry.state is not None:
                    waits = entry.get("intents", [])
                    assert waits == audit.of_cell((base, order.encode()), entry.born)

    def compare_limits(self):
        kept, world = self.book, self.kernel.world.ledger
        for base in BASES:
            count = kept.counts.get(base, 0)
            assert base not in kept.over or count >= self.edition.open_max
            assert base in kept.over or count < self.edition.open_max or base in self.lowered
        for base, keys in world.held.items():
            assert keys
            for slot in (world.cells(base).slots.get(key) for key in keys):
                assert slot is None or not slot.loaded or slot.queue[0].kind == EVENT_MESSAGE
        assert world.paused or world.ring or all(base in kept.over for base in world.held)


@pytest.fixture
def small_limits(monkeypatch):
    """Everything that has a limit reaches it, and every block is a node of its own."""
    monkeypatch.setattr(book, "DEDUPE_WINDOW_NS", WINDOW)
    monkeypatch.setattr(desk, "PARAMS_INLINE_MAX", 60)
    monkeypatch.setattr(fast_intents, "PARAMS_INLINE_MAX", 60)
    monkeypatch.setattr(gate, "CELL_INTENTS_MAX", 6)
    monkeypatch.setattr(opening, "CELL_INTENTS_MAX", 6)
    monkeypatch.setattr(gate, "APPROVALS_OPEN_MAX", 4)
    monkeypatch.setattr(opening, "WAITERS_MAX", 2)
    monkeypatch.setattr(settling, "DEPTH_MAX", 4)
    monkeypatch.setattr(ledger, "HELD_RELEASE_MAX", 2)
    monkeypatch.setattr(cells, "QUEUE_INLINE_MAX", 2)
    monkeypatch.setattr(snapshot, "SLICE_NODES", 1)


def test_random_banks_settle_every_intent_once(small_limits):
    options = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    run_state_machine_as_test(IntentMachine, settings=options)
