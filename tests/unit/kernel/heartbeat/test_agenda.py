"""The agenda: what runs in which beat, and what comes of it. Every world here replays and verifies."""

from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.kernel.items import Duplicate, RefusedItem
from cellule.kernel.journal.heartbeat_records import (
    AgendaRecord,
    EnzymeRecord,
    SignalRecord,
    WriteRecord,
)
from cellule.kernel.journal.records import (
    RefusedRecord,
)
from cellule.kernel.limits import DEPTH_MAX, IMPULSES_PER_BEAT_MAX
from cellule.kernel.program import StepFault
from cellule.values.cbor import decode
from tests.support.enzyme_world import EnzymeWorld

OK = 0
ENTRY = {"name": "x", "query": "/", "module": "t/x"}
START = {"do": "start", "verb": "v", "target": "/a", "mode": "opm:direct"}


@pytest.fixture
def made():
    """Worlds whose journals must replay, check and verify when the test is over."""
    worlds: list[EnzymeWorld] = []

    def make(enzymes, **options):
        world = EnzymeWorld(enzymes, **options)
        worlds.append(world)
        return world

    yield make
    for world in worlds:
        world.assert_replays()


def write(path, value):
    return {"do": "write", "path": path, "value": value}


def signal(path=None, target=None, **more):
    return {"do": "signal", "signal": path, "target": target, **more}


def op(**action):
    return {"do": "op", "op": action}


def nothing(call, tree):
    return OK


def test_an_impulse_runs_in_the_next_beat_and_what_it_writes_shows_in_the_one_after(made):
    seen = []

    def grow(call, tree):
        held = tree.read("/count")
        count = 0 if held is None else decode(held)["value"]
        seen.append((call.beat, count))
        return OK, [write("/count", count + 1)]

    world = made({"grow": grow})
    world.register("grow")
    world.signal("/s")
    world.tick()
    assert (world.agenda(), world.promoted()) == ([], 1)
    world.signal("/s")
    world.tick()
    assert (world.agenda(), world.promoted()) == ([(0, 0, True, "/s", None)], 1)
    world.tick()
    assert [count for _, count in seen] == [0, 1]
    assert world.promoted() == 0


def test_impulses_run_in_the_order_they_were_queued_and_see_the_tree_as_the_beat_began(made):
    seen = []

    def look(call, tree):
        seen.append((call.signal, tree.read("/x")))
        return OK, [write("/x", call.signal)]

    world = made({"look": look})
    world.register("look", "/**")
    for name in ("/c", "/a", "/b"):
        world.signal(name)
    world.tick()
    world.tick()
    assert seen[:3] == [("/c", None), ("/a", None), ("/b", None)]
    assert world.state("sys/Tree", b"x\0") == {"value": "/b"}


def test_each_entry_runs_once_for_an_identity_and_a_repeat_has_its_code(made):
    calls = []

    def once(call, tree):
        calls.append(call.payload)
        return 7

    world = made({"once": once})
    world.register("once")
    for payload in (None, 1, None, 1, 2):
        world.signal("/s", payload=payload)
    world.tick()
    world.tick()
    assert [line[1:3] for line in world.agenda()] == [(7, True), (7, True), (7, False), (7, False), (7, True)]
    assert len(calls) == 3


def test_a_fatal_entry_drops_the_rest_and_everything_it_did_itself(made):
    def first(call, tree):
        return OK, [write("/first", 1)]

    def fatal(call, tree):
        return -2, [write("/fatal", 1), signal("/later")]

    world = made({"first": first, "fatal": fatal, "last": nothing})
    for name in ("first", "fatal", "last"):
        world.register(
            name, before=["last"] if name == "fatal" else [], after=[] if name == "first" else ["first"]
        )
    world.signal("/s")
    world.tick()
    world.tick()
    assert [line[:3] for line in world.agenda()] == [(0, 0, True), (1, -2, True)]
    assert world.records(AgendaRecord)[0].extras["dropped"] == [2]
    assert [record.key for record in world.records(WriteRecord)] == [b"first\0"]
    assert world.queued() == []


def test_an_exception_is_fatal_with_its_text_and_told_by_a_signal(made):
    def broken(call, tree):
        raise StepFault("t.broken", "no luck")

    world = made({"broken": broken})
    world.register("broken")
    world.signal("/s")
    world.tick()
    world.tick()
    assert world.records(AgendaRecord)[0].extras["failed"] == [[0, "t.broken", "no luck"]]
    assert world.queued() == [("/sig_cei/error", None, 4, "warning")]
    assert world.promoted() == 0


def test_a_failing_handler_of_diagnostics_is_told_to_nobody(made):
    def broken(call, tree):
        raise StepFault("t.broken", "no luck")

    world = made({"broken": broken})
    world.register("broken", "/**")
    world.signal("/s")
    for _ in range(4):
        world.tick()
    assert world.queued() == []
    assert world.agenda() == []


def test_a_retry_is_queued_behind_what_its_own_run_emitted_and_ahead_of_later_entries(made):
    def again(call, tree):
        return -1, [signal("/mine")]

    def later(call, tree):
        return OK, [signal("/theirs")]

    world = made({"again": again, "later": later})
    world.register("again", before=["later"])
    world.register("later")
    world.signal("/s")
    world.tick()
    world.tick()
    assert world.queued() == [("/mine", None, 4, ""), ("/s", None, 4, "retry"), ("/theirs", None, 4, "")]
    assert world.promoted() == 3
    world.tick()
    assert ("none", "/mine", None) in world.agenda()
    assert [line[0] for line in world.agenda() if line[3:] == ("/s", None)] == [0, 1]


def test_retries_end_at_the_limit_with_a_warning(made):
    world = made({"again": lambda call, tree: -1})
    world.register("again", retry_limit=2)
    world.signal("/s")
    for _ in range(4):
        world.tick()
    assert world.records(AgendaRecord)[0].extras["exhausted"] == [0]
    assert world.queued() == [("/sig_cei/warn", None, 6, "warning")]
    world.tick()
    world.tick()
    assert world.agenda() == []


def test_two_entries_that_retry_are_counted_apart(made):
    world = made({"a": lambda call, tree: -1, "b": lambda call, tree: -1})
    world.register("a", retry_limit=1)
    world.register("b", retry_limit=3)
    world.signal("/s")
    for _ in range(8):
        world.tick()
    assert world.world.ledger.heartbeat.queued == 0


def test_a_retry_waits_for_its_backoff(made):
    world = made({"again": lambda call, tree: -1 if call.beat < 4 else 0})
    world.register("again", backoff=2)
    world.signal("/s")
    world.tick()
    world.tick()
    assert world.queued() == [("/s", None, 6, "retry")]
    assert world.promoted() == 0


def test_a_cycle_drops_the_impulse_alone_and_warns(made):
    world = made({"a": nothing, "b": nothing, "free": nothing})
    world.register("a", after=["b"])
    world.register("b", after=["a"])
    world.register("free", "/other")
    world.signal("/s")
    world.signal("/other")
    world.tick()
    world.tick()
    assert world.agenda() == [("none", "/s", None), (2, 0, True, "/other", None)]
    assert world.records(AgendaRecord)[0].extras["cycle"] is True
    assert world.queued() == [("/sig_cei/warn", None, 4, "warning")]


def test_a_target_takes_what_is_bound_to_it_or_passed_on_and_nothing_else(made):
    world = made({"a": nothing, "b": nothing, "c": nothing})
    for name in ("a", "b", "c"):
        world.register(name)
    world.write("/x/y")
    world.write("/x/z")
    world.bind("/x", "a", propagate=True)
    world.bind("/x", "b")
    world.bind("/x/y", "c")
    world.do("enzyme.unbind", path="/x/z", name="a")
    for target in ("/x", "/x/y", "/x/z", "/x/nope"):
        world.signal("/s", target)
    world.tick()
    world.tick()
    assert [(line[0], line[-1]) for line in world.agenda()] == [
        (0, "/x"), (1, "/x"), (0, "/x/y"), (2, "/x/y"), ("none", "/x/z"), ("none", "/x/nope"),
    ]  # fmt: skip


def test_what_an_enzyme_binds_and_registers_counts_in_the_next_beat(made):
    def grow(call, tree):
        entry = {"name": "late", "query": "/s", "module": "t/late"}
        return OK, [
            {"do": "register", "entry": entry}, {"do": "bind", "path": "/x/y", "name": "late"},
            signal("/s", "/x/y"), signal("/s"),
        ]  # fmt: skip

    world = made({"grow": grow, "late": nothing})
    world.register("grow", "/go")
    world.signal("/go")
    world.signal("/s")
    world.tick()
    world.tick()
    assert world.agenda()[-1] == ("none", "/s", None)
    world.tick()
    assert world.agenda() == [(1, 0, True, "/s", "/x/y"), (1, 0, True, "/s", None)]


def test_a_signal_for_a_later_beat_waits_and_a_past_one_is_refused(made):
    world = made({"a": nothing})
    world.register("a")
    world.signal("/s", beat=5)
    outcome = world.tick().outcomes[1]
    assert outcome.height
    world.signal("/s", beat=3)
    refused = world.tick().outcomes[0]
    assert isinstance(refused, RefusedItem)
    assert refused.error.code == "heartbeat.beat_past"
    world.tick()
    assert world.agenda() == []
    world.tick()
    assert world.agenda() == [(0, 0, True, "/s", None)]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ((None, None), "heartbeat.impulse_empty"), (("/a//b", None), "heartbeat.path"),
        ((None, "/a/"), "heartbeat.path"), (("/s", "/cells/x"), "heartbeat.cell_path"),
    ],
)  # fmt: skip
def test_an_impulse_that_is_none_is_refused_and_changes_nothing(made, given, code):
    world = made({})
    world.signal(*given)
    beat = world.tick(forced=False)
    assert beat.outcomes[0].error.code == code
    assert beat.frame is None
    assert world.world.ledger.heartbeat is None


def test_an_id_is_admitted_once(made):
    world = made({"a": nothing})
    world.register("a")
    for payload in (1, 1, 2):
        world.signal("/s", payload=payload, id="once", explicit=True)
    _, first, again, other, _ = world.tick().outcomes
    assert again == Duplicate(first.height)
    assert other.error.code == "kernel.id_reused"


def test_a_cascade_ends_with_a_record_and_a_warning(made):
    def loop(call, tree):
        return OK, [signal("/s")]

    world = made({"loop": loop})
    world.register("loop", depth=3)
    world.signal("/s")
    for _ in range(5):
        world.tick()
    (refused,) = world.records(RefusedRecord)
    assert refused.code == "heartbeat.cascade_stopped"
    assert world.queued() == [("/sig_cei/warn", None, 7, "warning")]
    world.tick()
    assert world.agenda() == []
    assert DEPTH_MAX == 1_000


def test_a_beat_takes_so_many_impulses_and_refuses_the_next_one_with_a_record(made, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.impulses.IMPULSES_PER_BEAT_MAX", 2)
    assert IMPULSES_PER_BEAT_MAX == 10_000

    def many(call, tree):
        return OK, [signal(f"/t/{number}") for number in range(3)]

    world = made({"many": many})
    world.register("many")
    world.signal("/s")
    world.signal("/s")
    world.signal("/s")
    outcomes = world.tick().outcomes
    assert outcomes[3].error.code == "heartbeat.impulses_full"
    world.tick()
    assert [record.code for record in world.records(RefusedRecord)] == ["heartbeat.impulses_full"]


@pytest.mark.parametrize(
    ("action", "code"),
    [
        ({"do": "write", "path": "/rt/beat"}, "heartbeat.read_only"),
        ({"do": "delete", "path": "/cells"}, "heartbeat.read_only"),
        ({"do": "write", "path": "a//b"}, "heartbeat.path"),
        ({"do": "signal"}, "heartbeat.impulse_empty"),
        ({"do": "signal", "signal": "/s", "beat": 1}, "heartbeat.beat_past"),
        ({"do": "bind", "path": "/x", "name": ""}, "heartbeat.enzyme"),
        ({"do": "report", "severity": "loud", "text": "x"}, "heartbeat.severity"),
        ({"do": "register", "entry": {}}, "heartbeat.enzyme"),
        ({"do": "register", "entry": {**ENTRY, "module": "t/none"}}, "heartbeat.enzyme_module"),
        ({"do": "fly"}, "heartbeat.action"), ({"do": "write"}, "heartbeat.action"),
        (7, "heartbeat.action"), ({"do": "write", "path": "/x", "value": object()}, "values.type_unknown"),
        ({"do": "bind", "path": "/x", "name": "y", "propagate": 1}, "heartbeat.action"),
        ({"do": "effect", "kind": "k", "params": b"", "then": "a//b"}, "heartbeat.path"),
        (op(do="fly"), "operation.argument"), (op(**START, odd=1), "operation.argument"),
        (op(**{**START, "mode": "opm:odd"}), "operation.argument"),
        (op(**START, payload="text"), "operation.argument"),
        (op(do="state", operation="1-1", state=""), "operation.argument"),
        (op(do="await", operation="1-1", want="ist:x", cont="/"), "operation.argument"),
        (op(do="close", operation="1-1", status="sts:odd"), "operation.argument"),
    ],
)  # fmt: skip
def test_an_action_that_breaks_a_rule_makes_the_run_fatal_with_nothing_staged(made, action, code):
    world = made({"bad": lambda call, tree: (OK, [write("/first", 1), action])})
    world.register("bad")
    world.signal("/s")
    world.tick()
    world.tick()
    ((_, found, _),) = world.records(AgendaRecord)[0].extras["failed"]
    assert (found, world.agenda()[0][1]) == (code, -2)
    assert world.records(WriteRecord) == []


def test_an_enzyme_writes_where_it_may(made):
    def scribble(call, tree):
        return OK, [write(call.target, 1)]

    world = made(
        {"free": scribble, "bound": scribble, "reader": scribble},
        modules={"bound": {"writes": ["/data"]}},
    )
    world.register("free", "/free")
    world.register("bound", "/bound")
    world.register("reader", "/reader", access="ro")
    for path, name in (("/data/x", "bound"), ("/database", "bound"), ("/data/x", "reader"), ("/y", "free")):
        world.bind(path, name)
    for who, path in (("bound", "/data/x"), ("bound", "/database"), ("reader", "/data/x"), ("free", "/y")):
        world.signal(f"/{who}", path)
    world.tick()
    world.tick()
    assert [line[1] for line in world.agenda()] == [0, -2, -2, 0]


def test_writing_a_leaf_makes_what_is_above_it_and_deleting_takes_what_is_below(made):
    world = made({"x": nothing})
    world.register("x")
    world.write("/a/b/c", 1)
    world.write("/a/d", 2)
    world.bind("/a/b/c", "x")
    world.tick()
    assert world.state("sys/Tree", b"a\0b\0") == {}
    world.signal(None, "/a/b/c")
    world.tick()
    assert world.agenda() == []
    world.tick()
    assert [line[0] for line in world.agenda()] == [0]
    world.do("tree.delete", path="/a/b")
    world.tick()
    assert world.entry("sys/Tree", b"a\0b\0c\0") is None
    assert world.state("sys/Tree", b"a\0d\0") == {"value": 2}
    world.write("/a/b/c", 3)
    world.signal(None, "/a/b/c")
    world.tick()
    world.tick()
    assert world.agenda() == [("none", None, "/a/b/c")]


def test_names_below_a_path_come_in_order_and_page_by_page(made):
    pages = []

    def look(call, tree):
        pages.append(tree.names("/x", None, 2))
        pages.append(tree.names("/x", "b", 10))
        pages.append(tree.names("/", None, 10))
        return OK

    world = made({"look": look})
    world.register("look")
    for path in ("/x/c", "/x/a/deep/er", "/x/b", "/x/a-b", "/xy", "/x/d/" + "e" * 600, "/x/d/" + "f" * 600):
        world.write(path, 1)
    world.signal("/s")
    world.tick()
    world.tick()
    assert pages[:3] == [["a", "a-b"], ["c", "d"], ["x", "xy"]]


def test_paths_longer_than_a_key_are_told_apart_and_listed(made):
    long = ["/x/" + letter * 700 for letter in "ab"]
    seen = []

    def look(call, tree):
        seen.append([decode(tree.read(path))["value"] for path in long])
        seen.append(sorted(tree.names("/x", None, 10)))
        return OK

    world = made({"look": look})
    world.register("look")
    for number, path in enumerate(long):
        world.write(path, number)
    world.signal("/s")
    world.tick()
    world.tick()
    assert seen[:2] == [[0, 1], ["a" * 700, "b" * 700]]


def test_a_pause_parks_impulses_and_resume_delivers_them_in_order(made):
    world = made({"a": nothing})
    world.register("a", "/**")
    world.do("heartbeat.pause")
    world.signal("/one")
    world.tick()
    world.signal("/two")
    world.signal("/sig_cei/info")
    world.tick()
    assert world.agenda() == []
    world.tick()
    assert [line[3] for line in world.agenda()] == ["/sig_cei/info"]
    world.do("heartbeat.resume")
    world.signal("/three")
    world.tick()
    assert [line[3] for line in world.agenda()] == ["/one", "/two"]
    world.tick()
    assert [line[3] for line in world.agenda()] == ["/three"]


def test_impulses_that_a_pause_holds_back_ask_for_no_beat(made):
    """A paused world did beats without frames, one after another, until its beats counted by the clock."""
    world = made({"a": nothing})
    world.register("a", "/**")
    world.do("heartbeat.pause")
    world.signal("/one")
    assert not world.tick().more
    world.signal("/sig_ctl/stop")
    assert world.tick(forced=False).more
    world.tick(forced=False)
    assert [line[3] for line in world.agenda()] == ["/sig_ctl/stop"]
    assert not world.tick(forced=False).more


def test_beats_count_at_an_interval_only_while_an_impulse_waits_for_a_later_one(made):
    world = made({"a": nothing})
    world.register("a")
    beat = world.tick()
    assert (beat.wake, beat.more) == (None, False)
    world.signal("/s", beat=6)
    beat = world.tick()
    assert beat.wake == world.now_ns + 1_000_000_000
    assert world.tick(forced=False).frame is None
    world.advance(10_000_000_000)
    assert world.world.ledger.beat == 6
    assert world.agenda() == [(0, 0, True, "/s", None)]
    assert world.tick(forced=False).frame is None


def test_an_agenda_that_would_fill_the_frame_goes_on_in_the_next_beat(made, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.agenda.AGENDA_BYTES_MAX", 300)
    world = made({"a": nothing})
    world.register("a", "/**")
    for number in range(7):
        world.signal(f"/s/{number}")
    world.tick()
    found = []
    while beat := world.tick(forced=False):
        found += [line[3] for line in world.agenda()]
        if not beat.more:
            break
    assert found == [f"/s/{number}" for number in range(7)]


def test_as_many_impulses_as_a_beat_takes_run_in_one_beat_and_each_may_emit_another():
    world = EnzymeWorld({"a": lambda call, tree: (OK, [signal("/answers/here")])})
    world.register("a", "/questions", match="prefix")
    for number in range(IMPULSES_PER_BEAT_MAX):
        world.signal(f"/questions/of/{number:05}")
    world.tick()
    assert world.promoted() == IMPULSES_PER_BEAT_MAX
    world.tick()
    assert len(world.agenda()) == IMPULSES_PER_BEAT_MAX
    assert world.promoted() == IMPULSES_PER_BEAT_MAX


def test_flags_of_an_entry_are_kept_and_mean_nothing(made):
    world = made({"a": nothing, "b": nothing})
    world.register("a", flags=["stateful", "odd"])
    world.register("b", flags=["idempotent"])
    for _ in range(2):
        world.signal("/s")
    world.tick()
    assert [each.entry.get("flags") for each in world.records(EnzymeRecord)] == [
        ["stateful", "odd"], ["idempotent"],
    ]  # fmt: skip
    world.tick()
    assert [line[:3] for line in world.agenda()] == [(0, 0, True), (1, 0, True), (0, 0, False), (1, 0, False)]
    world.register("c", flags="odd")
    [outcome, _] = world.tick().outcomes
    assert "flags of an enzyme" in str(outcome.error)


def test_entries_of_the_manifest_are_registered_when_the_world_is_made_and_follow_a_deploy(made):
    first = [{"name": "a", "query": "/s", "module": "t/a"}, {"name": "b", "query": "/s", "module": "t/b"}]
    world = made({"a": nothing, "b": nothing}, entries=first)
    world.register("a")
    world.signal("/s")
    world.tick()
    world.tick()
    assert [line[0] for line in world.agenda()] == [0, 2, 1]
    document = {
        "modules": {f"t/{name}@1": {"state": "sys/Value@1", "style": "enzyme", "code": {}} for name in "ab"},
        "enzymes": [first[1], {"name": "c", "query": "/s", "module": "t/b"}],
    }
    world.deploy(document)
    world.signal("/s")
    world.tick()
    world.tick()
    assert [line[0] for line in world.agenda()] == [2, 1, 3]


def test_an_entry_of_a_manifest_that_is_none_is_refused_when_the_world_is_made():
    entry = {"name": "a", "query": "/s//t", "module": "t/a"}
    with pytest.raises(Rejected, match="a segment is empty"):
        EnzymeWorld({"a": nothing}, entries=[entry])


def test_a_code_that_changed_is_found_by_verify():
    codes = iter([0, 5])
    world = EnzymeWorld({"a": lambda call, tree: next(codes)})
    world.register("a")
    world.signal("/s")
    world.snapshots.append((0, world.snapshot(world.restored()), 0))
    world.tick()
    world.tick()
    found = world.verify()
    assert found is not None
    assert (found.field, found.cell, found.code) == ("lines", ("t/a", b"a"), "t/a")


def test_an_action_that_changed_is_found_by_verify():
    values = iter([1, 2])
    world = EnzymeWorld({"a": lambda call, tree: (OK, [write("/x", next(values))])})
    world.register("a")
    world.signal("/s")
    world.tick()
    world.tick()
    found = world.verify()
    assert found is not None
    assert (found.field, found.computed) == ("actions", [write("/x", 2)])


def test_deep_paths_cannot_fill_the_frame_by_the_nodes_above_them(made):
    """Each leaf makes up to 127 nodes: their records count as what the run did."""

    def deep(call, tree):
        return OK, [write(f"/{number}" + "/x" * 120, 1) for number in range(500)]

    world = made({"deep": deep})
    world.register("deep")
    world.signal("/s")
    world.tick()
    world.tick()
    ((_, found, _),) = world.records(AgendaRecord)[0].extras["failed"]
    assert found == "kernel.output_size"


def test_a_registry_without_room_refuses_and_warns(made, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.registry.REGISTRY_MAX", 1)
    entry = {"name": "more", "query": "/s", "module": "t/more"}
    world = made({"more": lambda call, tree: (OK, [{"do": "register", "entry": entry}])})
    world.register("more")
    world.register("more")
    outcomes = world.tick().outcomes
    assert outcomes[1].error.code == "heartbeat.registry_full"
    world.signal("/s")
    world.tick()
    world.tick()
    [warning] = world.records(SignalRecord)
    assert (warning.signal, warning.depth) == ("/sig_cei/warn", 1)


def test_a_payload_that_is_too_long_is_refused(made):
    world = made({})
    world.signal("/s", payload="x" * 1_000_001)
    assert world.tick().outcomes[0].error.code == "kernel.event_size"


def test_a_long_payload_for_a_cell_is_a_block(made):
    listener = {"kind": "pure", "state": "sys/Value@1", "event": ["sys/Signal@1"]}
    seen = []

    def hear(state, schema, event, ctx):
        seen.append(len(event["payload"]))
        return len(event["payload"])

    world = made({}, document={"modules": {"t/Ear@1": listener}}, steps={"t/Ear": hear})
    world.signal(None, "/cells/t/Ear", payload="y" * 100_000)
    world.tick()
    world.tick()
    assert seen[:1] == [100_000]
    assert len(world.frames[-1]) < 10_000
