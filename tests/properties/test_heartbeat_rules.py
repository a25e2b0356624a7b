"""The pure rules of the heartbeat give what the model gives, for whatever they are asked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from cellule.heartbeat.mailboxes import message_ids, ttl
from cellule.heartbeat.mailboxes.message_ids import Taken
from cellule.kernel.heartbeat import operations as ops
from cellule.kernel.heartbeat.query import Query, parse_query
from cellule.kernel.heartbeat.resolve import best_of, in_order
from cellule.kernel.heartbeat.spacing import Spacing, may_publish
from tests.support import heartbeat_model as model
from tests.support.heartbeat_model_mail import Clock, Mailbox, resolve_ttl

LETTERS = "ab*"
segments = st.text(LETTERS, min_size=1, max_size=3)
queries = st.lists(st.one_of(segments, st.just("**"), st.just("*")), max_size=4).map(
    lambda s: "/" + "/".join(s)
)
signals = st.lists(st.text("ab\n", min_size=1, max_size=3), max_size=4).map(lambda s: "/" + "/".join(s))
names = st.sampled_from(["a", "b", "ab", "é"])
policies = st.sampled_from(["exact", "prefix"])


@dataclass(frozen=True)
class Registered:
    """An entry as the real rules want it."""

    number: int
    name: str
    query: Query
    before: tuple[str, ...]
    after: tuple[str, ...]


@given(queries, policies, signals)
def test_a_query_matches_what_the_model_says(query, match, signal):
    real = parse_query(query, match)
    entry = model.Entry(0, 0, "a", query, match)
    assert real.matches(tuple(model.parts(signal))) == entry.matches(signal)
    assert real.specificity == model.specificity(query)
    assert real.is_literal_headed == entry.has_literal_head


@st.composite
def registries(draw):
    entries = []
    for number in range(draw(st.integers(0, 6))):
        wanted = st.lists(names, max_size=2).map(tuple)
        entries.append(
            model.Entry(number, number, draw(names), draw(queries), "prefix", draw(wanted), draw(wanted))
        )
    return entries


@given(registries())
def test_candidates_run_in_the_order_of_the_model(entries):
    real = [
        Registered(each.number, each.name, parse_query(each.query, each.match), each.before, each.after)
        for each in entries
    ]
    expected = model.Model._ordered(entries)
    for candidates in (real, real[::-1]):
        found = in_order(candidates)
        assert (None if found is None else [each.number for each in found]) == (
            None if expected is None else [each.number for each in expected]
        )
    best = best_of(real)
    ranked = sorted(entries, key=lambda each: (-model.specificity(each.query), each.number))
    assert (best and best.number) == (ranked[0].number if ranked else None)


states = st.sampled_from(["ist:run", "ist:ok", "ist:fail", "ist:cnl", "ist:x", "sts:ok", ""])
wants = st.one_of(states, st.sampled_from(["sts:ok", "sts:fail", "sts:cnl", "sts:odd"]))
notes = st.sampled_from([None, "", "note"])
op_lines = st.one_of(
    st.tuples(st.just("set"), states, st.integers(-2, 2), notes),
    st.tuples(st.just("wait"), wants, st.integers(0, 2), st.sampled_from(["/c", "/d", ""])),
    st.tuples(st.just("close"), st.sampled_from(["sts:ok", "sts:fail", "sts:cnl", "sts:odd"]), notes),
    st.tuples(st.just("step")),
)


@given(st.lists(op_lines, max_size=25))
def test_an_operation_lives_as_in_the_model(lines):
    beat = 0
    real = ops.start(ops.Envelope("op/vl", "/a", "opm:direct", 0, 0))
    assert real is not None
    known = model.Operation(0)
    for verb, *arguments in lines:
        if verb == "step":
            real, fired = ops.due(real, beat)
            expected = [
                (late, ops.TIMEOUT_SIGNAL if late else each["cont"]) for late, each in known.take_due(beat)
            ]
            assert [(each.late, each.signal) for each in fired] == expected
            beat += 1
            continue
        changed = _act(real, verb, arguments, beat)
        assert (changed is not None) == getattr(known, verb)(beat, *arguments)
        real = changed or real
        assert _dossier(real) == known.dossier()
        assert ops.decode(ops.encode(real)) == real


def _act(operation, verb, arguments, beat):
    match verb:
        case "set":
            return ops.state_set(operation, *arguments, beat)
        case "wait":
            want, ttl_beats, cont = arguments
            return ops.wait(operation, want, ttl_beats, cont, None, beat)
        case _:
            return ops.close(operation, *arguments, beat)


def _dossier(operation):
    return {
        "state": operation.state, "code": operation.code, "note": operation.note,
        "issued_beat": operation.envelope.issued_beat,
        "history": [
            {name: value for name, value in each._asdict().items() if name != "unix_ns"}
            for each in operation.history
        ],
        "watchers": [each._asdict() for each in operation.watchers],
        "close": None if operation.close is None else operation.close._asdict(),
    }  # fmt: skip


clock_lines = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 6), st.integers(0, 30)),
        st.tuples(st.just("window"), st.integers(0, 3)),
    ),
    max_size=30,
)


@given(clock_lines)
def test_the_wall_clock_is_that_of_the_model(lines):
    spacing, told, clock = Spacing(), {}, Clock()
    for verb, *arguments in lines:
        if verb == "window":
            assert spacing.set_window(*arguments) == clock.set_window(*arguments)
        else:
            beat, ns = arguments
            assert may_publish(told.get(beat), ns) == clock.publish(beat, ns)
            if beat not in told:
                told[beat] = ns
                spacing.add(beat, ns)
        assert spacing.intervals == sorted(clock.spacing.items())
        assert spacing.window == clock.window


small = st.one_of(st.none(), st.integers(0, 40))
specs = st.one_of(st.none(), st.builds(ttl.TtlSpec, small, small, st.sampled_from([False] * 5 + [True])))
contexts = st.builds(ttl.TtlContext, small, small, small, small)
settings = st.builds(ttl.TtlSettings, st.booleans(), st.integers(0, 5), st.integers(0, 4))
published = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 60)), max_size=6, unique_by=lambda each: each[0]
)


@given(st.tuples(specs, specs, specs), contexts, settings, published)
def test_a_ttl_is_that_of_the_model(given_specs, context, chosen, times):
    clock, spacing = Clock(), Spacing()
    for beat, ns in times:
        clock.publish(beat, ns)
        spacing.add(beat, ns)
    found = ttl.resolve(
        given_specs, context, chosen, clock.told.get, [interval for _, interval in spacing.intervals]
    )  # fmt: skip
    expected = resolve_ttl(
        [None if each is None else each._asdict() for each in given_specs], context._asdict(), clock,
        {
            "wallclock_disabled": chosen.wallclock_disabled, "beat_lookahead": chosen.lookahead,
            "spacing_samples": chosen.samples,
        },
    )  # fmt: skip
    assert expected == ({"ok": False} if found is None else {"ok": True, **found._asdict()})


DIGESTS = {label: bytes([number]) * 32 for number, label in enumerate("xyz", 1)}
taken_names = [f"digest(x){suffix}" for suffix in ("", "-1", "-2", "-3")] + ["msg-1", "msg-2", "a"]
selections = st.tuples(
    st.one_of(st.none(), st.sampled_from(taken_names)), st.sampled_from([None, *"xyz"]), st.booleans()
)


@given(st.lists(selections, max_size=15))
def test_a_message_gets_the_id_of_the_model(lines):
    mailbox, taken, counter = Mailbox(), {}, 1
    stems = {f"digest({label})": f"msg-{digest[:12].hex()}" for label, digest in DIGESTS.items()}

    def real_name(name):
        for label, stem in stems.items():
            name = name.replace(label, stem)
        return name

    for explicit, sealed, store in lines:
        expected = mailbox.select(explicit, sealed)
        found = message_ids.select(
            None if explicit is None else real_name(explicit), DIGESTS.get(sealed or ""), taken.get, counter
        )  # fmt: skip
        counter = found.counter
        assert counter == mailbox.counter
        assert found.collision == expected["collision"]
        assert (found.id is not None) == expected["ok"]
        if found.id is None:
            continue
        assert (found.id, found.mode) == (real_name(expected["id"]), expected["mode"])
        if store and found.mode != "reused":
            taken[found.id] = Taken(DIGESTS.get(sealed or ""))
            mailbox.messages[expected["id"]] = sealed


def test_the_model_would_notice_an_edge_that_goes_the_wrong_way():
    """What the comparison is for: before and after changed about give another order."""
    first = model.Entry(0, 0, "a", "/s", "exact", before=("b",))
    second = model.Entry(1, 1, "b", "/s/s", "exact")
    assert [each.number for each in model.Model._ordered([first, second]) or []] == [0, 1]
    turned = replace(first, before=(), after=("b",))
    assert [each.number for each in model.Model._ordered([turned, second]) or []] == [1, 0]
