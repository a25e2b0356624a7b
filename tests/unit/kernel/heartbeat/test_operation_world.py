"""Operations in a world: journaled, fired once at the commit, and the same after every restart."""

from __future__ import annotations

from typing import Any

import pytest

from cellule.kernel.decide import operations as deciding
from cellule.kernel.heartbeat import operations as rules
from cellule.kernel.heartbeat.paths import tree_key
from cellule.kernel.index.keys import pair_key
from cellule.kernel.items import Admitted, ControlItem, RefusedItem, SignalItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.heartbeat_records import AgendaRecord, SignalRecord, WriteRecord
from cellule.kernel.journal.records import ControlRecord
from cellule.kernel.limits import BEAT_INTERVAL_NS_DEFAULT, EVENT_BYTES_MAX
from cellule.kernel.need import drive
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.envelope import open_envelope
from cellule.values.link import Link
from tests.support.kernel_world import FunctionPrograms, KernelWorld

MANIFEST = {"modules": {"test/Enzyme@1": {"style": "enzyme", "state": "sys/Value@1", "code": {}}}}
OPS = "sys/Operation"


def verb(name: str, /, **arguments: Any) -> ControlItem:
    return ControlItem(name, "test", "because", arguments)  # type: ignore[arg-type]


class OpWorld(KernelWorld):
    """A world whose enzymes note what they are called with."""

    def __init__(self, **options: Any) -> None:
        self.calls: list[tuple[str, str | None, str | None, Any]] = []
        super().__init__(MANIFEST, FunctionPrograms({"test/Enzyme@1": self._note}), **options)

    def _note(self, call: Any, tree: Any) -> int:
        payload = None if call.payload is None else decode(call.payload)
        called = (call.name, call.signal, call.target, payload)
        if not self.calls or self.calls[-1] != called:  # verify runs it again
            self.calls.append(called)
        return 0

    def do(self, *items: Any) -> list[Any]:
        """Some items in one beat; what became of them."""
        return self.beat(items).outcomes

    def begin(self, **options: Any) -> str:
        arguments = {"verb": "op/import", "target": "/env/a", "mode": "opm:states", **options}
        [done] = self.do(verb("op.start", **arguments))
        assert isinstance(done, Admitted), done
        return str(self.newest(ControlRecord)[-1].arguments["operation"])

    def op(self, id: str) -> rules.Operation:
        return rules.decode(encode(self.state(OPS, rules.key_of(id) or b"")))

    def newest(self, kind: type[Any]) -> list[Any]:
        return [record for _, record in decode_frame(self.frames[-1]).of(kind)]

    def signals(self) -> list[tuple[str | None, str | None, str]]:
        return [(each.signal, each.target, each.extras.get("kind", "")) for each in self.newest(SignalRecord)]

    def handler(self, name: str, query: str) -> None:
        entry = {"name": name, "module": "test/Enzyme", "query": query}
        assert isinstance(self.do(verb("enzyme.register", entry=entry))[0], Admitted)

    def restart(self) -> None:
        """The process dies; what is in the journal is all there is."""
        self.snapshot()
        self.world = self.restored(len(self.snapshots) - 1)

    def beats(self, count: int) -> None:
        for _ in range(count):
            self.now_ns += BEAT_INTERVAL_NS_DEFAULT
            self.beat()


@pytest.fixture(params=[True, False], ids=["fast", "general"])
def world(request):
    made = OpWorld(fast=request.param)
    yield made
    made.assert_replays()


def test_ids_are_the_beat_and_the_number_in_it(world):
    start = verb("op.start", verb="op/x", target="/a", mode="opm:direct")
    world.do(start, start)
    assert [each.arguments["operation"] for each in world.newest(ControlRecord)] == ["2-1", "2-2"]
    assert world.begin() == "3-1"


def test_an_operation_is_a_cell_that_its_writes_tell_of(world):
    id = world.begin(ttl=3, payload=encode({"rows": 5}))
    world.do(verb("op.state", operation=id, state="ist:copy", code=7, note="half"))
    [write] = world.newest(WriteRecord)
    assert (write.module, write.key, write.version) == (OPS, pair_key(2, 1), 2)
    operation = world.op(id)
    assert operation.envelope[:5] == ("op/import", "/env/a", "opm:states", 3, 2)
    assert decode(open_envelope(operation.envelope.payload).data) == {"rows": 5}
    assert (operation.state, operation.code, operation.note) == ("ist:copy", 7, "half")
    assert [each.unix_ns for each in operation.history] == [world.now_ns] * 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"do": "start", "verb": ""}, "operation.argument"),
        ({"do": "start", "verb": 5}, "operation.argument"),
        ({"do": "start", "mode": "opm:odd"}, "operation.argument"),
        ({"do": "start", "target": None}, "heartbeat.path"),
        ({"do": "start", "target": ""}, "heartbeat.path"),
        ({"do": "start", "target": "/a//b"}, "heartbeat.path"),
        ({"do": "start", "ttl": -1}, "operation.argument"),
        ({"do": "start", "ttl": True}, "operation.argument"),
        ({"do": "start", "payload": "text"}, "operation.argument"),
        ({"do": "start", "odd": 1}, "operation.argument"),
        ({"do": "state", "state": ""}, "operation.argument"),
        ({"do": "state", "state": "ist:x", "code": "1"}, "operation.argument"),
        ({"do": "state", "state": "ist:x", "code": 2**63}, "operation.argument"),
        ({"do": "state", "state": "ist:x", "note": 5}, "operation.argument"),
        ({"do": "state", "state": "x" * 1_001}, "operation.argument"),
        ({"do": "state", "state": "ist:x", "operation": "2-9"}, "operation.unknown"),
        ({"do": "state", "state": "ist:x", "operation": "odd"}, "operation.unknown"),
        ({"do": "state", "state": "ist:x", "operation": None}, "operation.unknown"),
        ({"do": "await", "want": "", "cont": "/c"}, "operation.argument"),
        ({"do": "await", "want": "ist:x", "cont": ""}, "operation.argument"),
        ({"do": "await", "want": "ist:x", "cont": "/"}, "operation.argument"),
        ({"do": "await", "want": "ist:x", "cont": "/a//b"}, "heartbeat.path"),
        ({"do": "await", "want": "ist:x", "cont": "/c", "ttl": -1}, "operation.argument"),
        ({"do": "await", "want": "ist:x", "cont": "/c", "operation": "9-9"}, "operation.unknown"),
        ({"do": "close", "status": "sts:odd"}, "operation.argument"),
        ({"do": "close", "status": "ist:ok"}, "operation.argument"),
        ({"do": "close", "status": "sts:ok", "summary": 5}, "operation.argument"),
        ({"do": "close", "status": "sts:ok", "operation": "9-9"}, "operation.unknown"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_and_nothing_changes(arguments, code):
    world = OpWorld()
    id = world.begin()
    before, frames = world.op(id), len(world.frames)
    do = arguments.pop("do")
    known = {"start": {"verb": "v", "target": "/a", "mode": "opm:direct"}}.get(do, {"operation": id})
    [refused] = world.do(verb(f"op.{do}", **{**known, **arguments}))
    assert isinstance(refused, RefusedItem)
    assert refused.error.code == code
    assert str(refused.error)
    assert (world.op(id), len(world.frames)) == (before, frames)
    world.assert_replays()


def test_a_refused_start_in_a_world_without_operations_leaves_it_without_a_heartbeat():
    world = OpWorld()
    world.do(verb("op.start", verb="", target="/a", mode="opm:direct"))
    assert world.world.ledger.heartbeat is None
    world.assert_replays()


def test_a_closed_operation_takes_nothing_but_its_own_close_and_watchers(world):
    id = world.begin()
    world.do(verb("op.close", operation=id, status="sts:fail", summary="sum"))
    closed = world.op(id)
    state, other = world.do(
        verb("op.state", operation=id, state="ist:x"), verb("op.close", operation=id, status="sts:ok")
    )  # fmt: skip
    assert (state.error.code, other.error.code) == ("operation.closed", "operation.closed")
    [same] = world.do(verb("op.close", operation=f"/rt/ops/{id}", status="sts:fail"))
    assert isinstance(same, Admitted)
    assert world.newest(WriteRecord) == []
    assert world.op(id) == closed


def test_a_continuation_is_queued_at_the_commit_and_runs_in_the_next_beat(world):
    world.handler("after", "/op/cont")
    id = world.begin()
    world.do(verb("op.await", operation=id, want="ist:ok", cont="op/cont", payload=encode({"n": 1})))
    assert world.signals() == []
    world.do(verb("op.state", operation=id, state="ist:ok"))
    assert world.signals() == [("/op/cont", f"/rt/ops/{id}", "continuation")]
    assert world.calls == []
    assert world.op(id).watchers == ()
    world.settle()
    assert world.calls == [("after", "/op/cont", f"/rt/ops/{id}", {"n": 1})]


def test_a_timeout_comes_behind_its_warning_in_the_beat_of_the_deadline(world):
    id = world.begin()
    world.do(verb("op.await", operation=id, want="sts:ok", cont="/go", ttl=2))
    deadline = world.world.ledger.beat + 2
    world.beats(1)
    assert world.op(id).watchers[0].deadline == deadline
    world.beats(1)
    assert world.world.ledger.beat == deadline
    assert world.signals() == [
        ("/sig_cei/warn", None, "warning"),
        ("/op/tmo", f"/rt/ops/{id}", "continuation"),
    ]
    world.settle()
    assert world.op(id).watchers == ()


def test_beats_count_only_while_deadlines_wait(world):
    id = world.begin()
    assert world.beat().wake is None
    world.do(verb("op.await", operation=id, want="ist:ok", cont="/go", ttl=5))
    done = world.beat()
    assert (done.frame, done.more, done.wake) == (None, False, world.now_ns + BEAT_INTERVAL_NS_DEFAULT)
    before = world.world.ledger.beat
    world.advance(60 * BEAT_INTERVAL_NS_DEFAULT)
    assert world.world.ledger.beat <= before + 7
    assert world.op(id).watchers == ()


def test_a_deadline_that_is_not_waited_for_any_more_lets_the_world_rest(world):
    id = world.begin()
    world.do(verb("op.await", operation=id, want="ist:ok", cont="/go", ttl=1_000))
    world.do(verb("op.close", operation=id, status="sts:ok"))
    world.settle()
    assert world.beat().wake is None


@pytest.mark.parametrize("deploys", [False, True], ids=["restart", "deploy"])
@pytest.mark.parametrize("crash", range(6))
def test_each_watcher_fires_once_across_a_restart_or_a_deploy_at_any_beat(crash, deploys):
    world = OpWorld()
    id = world.begin()
    steps = [
        [verb("op.await", operation=id, want="ist:ok", cont="/go")],
        [verb("op.await", operation=id, want="ist:x", cont="/never", ttl=2)],
        [verb("op.state", operation=id, state="ist:ok")],
        [], [], [],
    ]  # fmt: skip
    other = {
        **MANIFEST,
        "modules": {**MANIFEST["modules"], "test/Other@1": MANIFEST["modules"]["test/Enzyme@1"]},
    }
    told = []
    for number, items in enumerate(steps):
        frames = len(world.frames)
        if number == crash and deploys:
            world.deploy(other)
        elif number == crash:
            world.restart()
        world.now_ns += BEAT_INTERVAL_NS_DEFAULT
        world.beat(items)
        for frame in world.frames[frames:]:
            told += [each.signal for _, each in decode_frame(frame).of(SignalRecord)]
    assert told == ["/go", "/sig_cei/warn", "/op/tmo"]
    world.assert_replays()


def test_without_a_binding_a_continuation_reaches_whoever_is_registered_on_the_signal(world):
    world.handler("wide", "/go")
    id = world.begin()
    world.do(verb("op.await", operation=id, want="ist:run", cont="/go"), SignalItem("/go", f"/rt/ops/{id}"))
    world.settle()
    assert world.calls == [("wide", "/go", f"/rt/ops/{id}", None)]
    assert [each.lines for each in world.newest(AgendaRecord)] != []


def test_only_continuations_fall_back_to_broadcast(world):
    world.handler("wide", "/go")
    id = world.begin()
    world.do(SignalItem("/go", f"/rt/ops/{id}"))
    world.settle()
    assert world.calls == []


def test_a_binding_at_the_operation_decides_who_hears_of_it(world):
    world.handler("wide", "/go")
    world.handler("own", "/go")
    id = world.begin()
    world.do(verb("enzyme.bind", path=f"/rt/ops/{id}", name="own"))
    world.do(verb("op.await", operation=id, want="ist:run", cont="/go"))
    world.settle()
    assert [each[0] for each in world.calls] == ["own"]
    assert world.entry("sys/Tree", tree_key("/rt")) is None


def test_a_binding_at_an_operation_that_is_not_there_is_refused(world):
    [unknown, reserved] = world.do(
        verb("enzyme.bind", path="/rt/ops/9-9", name="own"), verb("enzyme.bind", path="/rt/beat", name="own")
    )
    assert (unknown.error.code, reserved.error.code) == ("operation.unknown", "heartbeat.read_only")


def test_a_binding_that_passes_on_reaches_all_operations(world):
    world.handler("own", "/go")
    world.handler("other", "/go")
    id = world.begin()
    world.do(verb("enzyme.bind", path="/rt/ops", name="own", propagate=True))
    world.do(SignalItem("/go", f"/rt/ops/{id}"))
    world.settle()
    assert [each[0] for each in world.calls] == ["own"]


def test_operations_fire_in_the_order_of_their_creation(world):
    first, second = world.begin(), world.begin()
    world.do(verb("op.await", operation=second, want="ist:run", cont="/b"))
    world.do(
        verb("op.await", operation=second, want="ist:ok", cont="/b"),
        verb("op.await", operation=first, want="ist:x", cont="/late", ttl=1),
        verb("op.await", operation=first, want="ist:ok", cont="/a"),
    )  # fmt: skip
    world.now_ns += BEAT_INTERVAL_NS_DEFAULT
    world.do(
        verb("op.state", operation=second, state="ist:ok"), verb("op.state", operation=first, state="ist:ok")
    )  # fmt: skip
    assert [each[:2] for each in world.signals()] == [
        ("/a", f"/rt/ops/{first}"), ("/sig_cei/warn", None), ("/op/tmo", f"/rt/ops/{first}"),
        ("/b", f"/rt/ops/{second}"),
    ]  # fmt: skip


def test_a_paused_world_fires_nothing_and_a_resumed_one_fires_all(world):
    id = world.begin()
    world.do(verb("op.await", operation=id, want="ist:run", cont="/go"), verb("pause"))
    assert world.signals() == []
    world.beats(3)
    world.do(verb("resume"))
    assert [each[0] for each in world.signals()] == ["/go"]


def test_a_paused_heartbeat_lets_continuations_pass(world):
    world.handler("after", "/go")
    id = world.begin()
    world.do(verb("heartbeat.pause"))
    world.do(verb("op.await", operation=id, want="ist:run", cont="/go"))
    world.settle()
    assert [each[0] for each in world.calls] == ["after"]


def test_history_and_watchers_have_a_limit_that_still_lets_it_close(world, monkeypatch):
    monkeypatch.setattr(deciding, "OPERATION_HISTORY_MAX", 2)
    monkeypatch.setattr(deciding, "OPERATION_WATCHERS_MAX", 1)
    id = world.begin()
    state = [verb("op.state", operation=id, state=f"ist:{number}") for number in range(2)]
    wait = verb("op.await", operation=id, want="ist:z", cont="/c")
    outcomes = world.do(*state, wait, wait, verb("op.close", operation=id, status="sts:ok"))
    codes = [each.error.code if isinstance(each, RefusedItem) else None for each in outcomes]
    assert codes == [None, "operation.history_full", None, "operation.watchers_full", None]
    assert len(world.op(id).history) == 3


def test_an_operation_that_is_too_long_takes_only_its_close(world, monkeypatch):
    """1,000 states and watchers of 4 kB each were a block that no commit takes."""
    monkeypatch.setattr(deciding, "OPERATION_BYTES_MAX", 5_000)
    id = world.begin()
    long = [verb("op.state", operation=id, state=f"{number}" + "s" * 990) for number in range(6)]
    wait = verb("op.await", operation=id, want="w" * 1_000, cont="/" + "c" * 900)
    outcomes = world.do(*long, wait, verb("op.close", operation=id, status="sts:ok", summary="x" * 1_000))
    codes = [each.error.code if isinstance(each, RefusedItem) else None for each in outcomes]
    assert codes == [None] * 3 + ["operation.size"] * 4 + [None]
    assert world.op(id).close is not None


def test_what_is_too_much_for_one_commit_fires_at_the_next(world, monkeypatch):
    from cellule.kernel.state import operations as book

    monkeypatch.setattr(book, "OPERATIONS_FIRED_MAX", 2)
    ids = [world.begin() for _ in range(5)]
    world.do(*[verb("op.await", operation=id, want="ist:run", cont="/go") for id in ids])
    fired = [each[1] for each in world.signals()]
    for done in world.settle():
        if done.frame is not None:
            fired += [each[1] for each in world.signals()]
            break
    frames = [decode_frame(frame) for frame in world.frames]
    told = [each.target for frame in frames for _, each in frame.of(SignalRecord)]
    assert told == [f"/rt/ops/{id}" for id in ids]


def test_a_long_operation_is_a_block_and_still_fires(world):
    id = world.begin()
    for number in range(12):
        world.do(verb("op.state", operation=id, state=f"ist:{number}", note="x" * 1_000))
    world.do(verb("op.await", operation=id, want="ist:z", cont="/go", ttl=1))
    world.restart()
    world.beats(1)
    assert world.newest(WriteRecord)[0].extras["size"] > 4_096


def test_the_wall_clock_of_a_beat_is_told_once(world):
    def publish(beat, ns):
        [done] = world.do(verb("heartbeat.publish", beat=beat, ns=ns))
        return done.error.code if isinstance(done, RefusedItem) else True

    assert publish(5, 100) is True
    assert publish(5, 100) is True
    assert publish(5, 101) == "heartbeat.wall_clock"
    assert publish(3, 50) is True
    assert publish(9, 90) is True
    assert publish(12, 95) is True
    assert publish(True, 95) == "kernel.argument"
    assert publish(13, -1) == "kernel.argument"
    clock = world.world.ledger.heartbeat.wall_clock
    assert clock.intervals == [(9, 0), (12, 5)]
    assert drive(clock.find(3), world.world.ledger.nodes, world.fetch) == 50
    world.restart()
    assert world.world.ledger.heartbeat.wall_clock.intervals == [(9, 0), (12, 5)]


def test_a_beat_and_its_time_are_numbers_from_0_below_2_to_the_63(world):
    told = [(0, 0), (5, 0), (2**63 - 1, 2**63 - 1)]
    wrong = [(2**63, 1), (1, 2**63), (-1, 1), (1, -1), (None, 1), (1, "1")]
    outcomes = world.do(*[verb("heartbeat.publish", beat=beat, ns=ns) for beat, ns in [*told, *wrong]])
    assert all(isinstance(done, Admitted) for done in outcomes[:3])
    assert [done.error.code for done in outcomes[3:]] == ["kernel.argument"] * len(wrong)
    world.restart()
    clock, nodes = world.world.ledger.heartbeat.wall_clock, world.world.ledger.nodes
    assert [drive(clock.find(beat), nodes, world.fetch) for beat, _ in told] == [ns for _, ns in told]


@pytest.mark.parametrize("window", [0, -1, True, "5", None, 2**53 + 1])
def test_a_window_that_cannot_be_is_refused(window):
    world = OpWorld()
    [refused] = world.do(verb("heartbeat.window", window=window))
    assert refused.error.code == "heartbeat.window"
    assert world.world.ledger.heartbeat is None


def test_a_window_trims_at_once(world):
    for beat, ns in ((1, 0), (2, 5), (3, 9)):
        world.do(verb("heartbeat.publish", beat=beat, ns=ns))
    world.do(verb("heartbeat.window", window=1))
    assert world.world.ledger.heartbeat.wall_clock.intervals == [(3, 4)]


def test_without_published_times_the_intervals_are_those_of_frames(world):
    world.begin()
    world.now_ns += 70
    world.begin()
    assert world.world.ledger.heartbeat.wall_clock.intervals == [(3, 70)]


def test_a_payload_is_a_value_of_at_most_as_many_bytes_as_that_of_an_event(world):
    most = encode("x" * (EVENT_BYTES_MAX - 5))
    assert len(most) == EVENT_BYTES_MAX
    for data, code in (
        (most, None), (encode("x" * (EVENT_BYTES_MAX - 4)), "kernel.argument"), (b"\xff", "kernel.argument"),
    ):  # fmt: skip
        link = Link(cid_of(data, "raw"))
        world.cas[link.cid] = data
        [done] = world.do(verb("op.start", verb="op/x", target="/a", mode="opm:direct", payload=link))
        assert (done.error.code if isinstance(done, RefusedItem) else None) == code
