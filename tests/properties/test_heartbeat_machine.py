"""Random worlds of the heartbeat beside the model: registries, bindings, impulses, operations, pauses.

Between two beats the world is restored from its journal; now and then a beat is lost with its process first.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from cellule.kernel.items import Admitted, Item, SignalItem
from cellule.kernel.journal.heartbeat_records import SignalRecord
from cellule.testing.vectors.agenda import CaseCode, note_entries, register_item, told
from cellule.testing.vectors.cases import Enzyme
from cellule.testing.vectors.worlds import CaseWorld, control
from cellule.values.cbor import encode
from tests.properties.test_heartbeat_worlds import actions, names, notes, queries, signals, states, wants
from tests.support.heartbeat_model import Entry, Impulse, Model
from tests.support.heartbeat_vectors import AgendaCalls

ENZYMES = 4
paths = st.sampled_from(["/c", "/c/d", "/c/d/e", "/f"])
policies = st.sampled_from(["exact", "prefix"])
codes = st.lists(st.sampled_from([0, 0, -1, -2, 7]), max_size=3)
operations = st.integers(0, 2)


enzymes = st.integers(0, ENZYMES - 1)
registrations = st.tuples(st.just("register"), enzymes)
kinds = st.sampled_from(["local", "propagate", "propagate", "tombstone"])
bindings = st.tuples(st.just("bind"), paths, names, kinds)
impulses = st.tuples(
    st.just("signal"), st.one_of(signals, signals, st.none()), st.one_of(st.none(), st.none(), paths),
    st.sampled_from([None, None, 1, 2]), st.sampled_from([None, None, None, 0, 1, 2, 3]),
)  # fmt: skip
op_verbs = st.one_of(
    st.tuples(st.just("start"), operations, st.sampled_from(["opm:direct", "opm:direct", "opm:odd"])),
    st.tuples(st.just("set"), operations, states, st.integers(-2, 2), notes),
    st.tuples(st.just("wait"), operations, wants, st.integers(0, 3), st.sampled_from(["/s", "/t/x/y", ""])),
    st.tuples(st.just("close"), operations, st.sampled_from(["sts:ok", "sts:fail", "sts:odd"]), notes),
)
doings = st.one_of(
    impulses, impulses, impulses, op_verbs, op_verbs, op_verbs, registrations, bindings,
    st.tuples(st.just("grow"), paths), st.tuples(st.just("pause"), st.sampled_from([False, False, True])),
)  # fmt: skip


class HeartbeatMachine(RuleBasedStateMachine):
    """Each rule is a beat: what is done before it goes into the model and into its items."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[Item] = []
        self.expected: list[bool] = []  # of each item, whether the model takes it
        self.entries: dict[int, int] = {}
        self.ops: dict[int, str] = {}  # the ids of operations by their numbers here
        self.starts = 0

    @initialize(data=st.data())
    def begin(self, data: Any) -> None:
        wanted = st.lists(names, max_size=1)
        described = [
            Enzyme(
                number, data.draw(names), data.draw(queries), data.draw(policies), data.draw(wanted),
                data.draw(wanted), [], data.draw(codes), data.draw(st.lists(actions(), max_size=2)),
            )
            for number in range(ENZYMES)
        ]  # fmt: skip
        self.code = CaseCode(described)
        self.world = CaseWorld(range(ENZYMES), self.code.run)
        self.calls = AgendaCalls(SimpleNamespace(enzymes=described))  # type: ignore[arg-type]
        self.model = Model(self.calls.call)
        self.first = self.world.next_beat
        for done in data.draw(st.lists(st.one_of(registrations, bindings), max_size=10)):
            self.do(*done)
        for path in ("/c/d/e", "/f"):
            self.do("grow", path)

    @rule(done=st.lists(doings, max_size=5), crash=st.sampled_from([False, False, False, True]))
    def beat(self, done: list[tuple[Any, ...]], crash: bool) -> None:
        for each in done:
            self.do(*each)
        if crash:
            self.world.lose(self.items)
        expected, beaten = self.model.step(), self.world.step(self.items)
        assert [isinstance(each, Admitted) for each in beaten.outcomes] == self.expected
        note_entries(beaten, self.entries)
        found = told(beaten, self.entries)
        assert found["agenda"] == expected.agenda
        assert found["impulse_log"] == expected.impulse_log
        assert found["promoted"] == expected.promoted
        fired = [
            (record.target, record.signal) for _, record in beaten.of(SignalRecord)
            if record.extras.get("kind") == "continuation"
        ]  # fmt: skip
        assert fired == [(f"/rt/ops/{each['op']}", path_of(each["signal"])) for each in expected.fired]
        self.items, self.expected, self.starts = [], [], 0

    def do(self, what: str, *arguments: Any) -> None:
        """One thing from outside, in the model and for the next beat."""
        getattr(self, f"_{what}", self._operate(what))(*arguments)

    def _take(self, item: Item, *, taken: bool = True) -> None:
        self.items.append(item)
        self.expected.append(taken)

    def _register(self, enzyme: int) -> None:
        self.model.register(self.calls.entry(enzyme))
        self._take(register_item(self.code.enzymes[enzyme]))

    def _bind(self, path: str, name: str, kind: str) -> None:
        self.model.bind(path, name, kind)
        if kind == "tombstone":
            self._take(control("enzyme.unbind", path=path, name=name))
        else:
            self._take(control("enzyme.bind", path=path, name=name, propagate=kind == "propagate"))

    def _grow(self, path: str) -> None:
        self.model.grow(path)
        self._take(control("tree.write", path=path, value=1))

    def _signal(self, signal: str | None, place: str | None, payload: int | None, later: int | None) -> None:
        beat = None if later is None else self.model.beat + later
        taken = self.model.enqueue(Impulse(signal, place, payload), beat)
        given = None if payload is None else encode(payload)
        real = None if beat is None else self.first + beat
        self._take(SignalItem(signal, place, given, real), taken=taken)

    def _pause(self, paused: bool) -> None:
        self.model.paused = paused
        self._take(control("heartbeat.pause" if paused else "heartbeat.resume"))

    def _start(self, op: int, mode: str) -> None:
        if op in self.ops:
            return
        id = f"{self.world.next_beat}-{self.starts + 1}"
        taken = self.model.operate(id, "start", "op/x", "/a", mode)
        if taken:
            self.starts += 1
            self.ops[op] = id
        self._take(control("op.start", verb="op/x", target="/a", mode=mode), taken=taken)

    def _operate(self, what: str) -> Any:
        fields = {
            "set": ("state", "code", "note"),
            "wait": ("want", "ttl", "cont"),
            "close": ("status", "summary"),
        }
        verbs: dict[str, Any] = {"set": "op.state", "wait": "op.await", "close": "op.close"}

        def perform(op: int, *arguments: Any) -> None:
            id = self.ops.get(op, "0-0")
            taken = self.model.operate(id, what, *arguments)
            given = dict(zip(fields[what], arguments, strict=True))
            self._take(control(verbs[what], operation=id, **given), taken=taken)

        return perform

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.beat([], False)
            self.beat([], False)
            self.world.check()


def path_of(signal: str) -> str:
    return signal if signal.startswith("/") else f"/{signal}"


TestHeartbeatMachine = HeartbeatMachine.TestCase
TestHeartbeatMachine.settings = settings(
    max_examples=40, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_an_entry_of_the_model_is_made_like_one_of_the_registry():
    """Both sides of the comparison read the same description."""
    enzyme = Enzyme(0, "a", "/s", "prefix", ["b"], ["c"])
    calls = AgendaCalls(SimpleNamespace(enzymes=[enzyme]))  # type: ignore[arg-type]
    assert calls.entry(0) == Entry(0, 0, "a", "/s", "prefix", ("b",), ("c",))
