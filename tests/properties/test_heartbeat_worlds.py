"""A real world of the heartbeat records what the model records, and is restored between all beats."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellule.testing.vectors.agenda import agenda
from cellule.testing.vectors.cases import (
    Action,
    AgendaCase,
    Bound,
    Enzyme,
    Impulse,
    Input,
    OpsAction,
    OpsCase,
)
from cellule.testing.vectors.ops import ops
from cellule.testing.vectors.report import is_as_expected
from tests.support import heartbeat_vectors as model

names = st.sampled_from(["a", "b", "ab"])
signals = st.sampled_from(["/s", "/s/x", "/t", "/t/x/y"])
queries = st.sampled_from(["/s", "/s/x", "/t", "/", "/*", "/**/x", "/s*", "/t/**", "/*/x"])
cells = ["/c", "/c/d", "/c/d/e", "/f"]
targets = st.sampled_from([*cells, "/c/none"])
wanted = st.lists(names, max_size=1)
ENZYMES = 4


@st.composite
def impulses(draw):
    signal, target = draw(st.one_of(st.none(), signals)), draw(st.one_of(st.none(), targets))
    return Impulse(signal or (None if target else "/s"), target)


@st.composite
def actions(draw):
    do, call = (
        draw(st.sampled_from(["enqueue", "enqueue", "register", "bind", "unbind"])),
        draw(st.integers(0, 2)),
    )
    match do:
        case "enqueue":
            impulse = draw(impulses())
            return Action(do, max(call, 1), impulse.signal, impulse.target)
        case "register":
            return Action(do, max(call, 1), enzyme=draw(st.integers(0, ENZYMES - 1)))
        case _:
            path = draw(
                st.sampled_from(cells)
            )  # a binding elsewhere makes the node, which the model cannot say
            return Action(do, call, path=path, name=draw(names), propagate=draw(st.booleans()))


@st.composite
def agenda_cases(draw):
    enzymes = [
        Enzyme(
            number, draw(names), draw(queries), draw(st.sampled_from(["exact", "prefix"])), draw(wanted),
            draw(wanted), [], draw(st.lists(st.sampled_from([0, 0, -1, -2, 7]), max_size=3)),
            draw(st.lists(actions(), max_size=2)),
        )
        for number in range(ENZYMES)
    ]  # fmt: skip
    bindings = []
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["local", "propagate", "propagate", "tombstone"]))
        bindings.append(
            Bound(draw(st.sampled_from(cells)), draw(names), kind == "propagate", kind == "tombstone")
        )
    enzyme = st.integers(0, ENZYMES - 1)
    beats = [
        Input(draw(st.lists(impulses(), max_size=3)), draw(st.lists(enzyme, max_size=1)))
        for _ in range(draw(st.integers(1, 5)))
    ]
    beats.append(Input())
    register = draw(st.lists(enzyme, max_size=5))
    return AgendaCase(
        id="drawn", enzymes=enzymes, register=register, cells=cells, bindings=bindings, beats=beats,
        expect=[{}] * len(beats),
    )  # fmt: skip


SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(agenda_cases())
def test_an_agenda_is_that_of_the_model(case):
    expected, actual = model.agenda(case), agenda(case)
    for before, after in zip(expected, actual, strict=True):
        shown = {name: before[name] for name in ("beat", "ok", "agenda", "impulse_log", "promoted")}
        assert is_as_expected(shown, after), (shown, after)


states = st.sampled_from(["ist:run", "ist:ok", "ist:fail", "ist:x", "sts:ok", ""])
wants = st.sampled_from(["ist:run", "ist:ok", "ist:x", "sts:ok", "sts:fail", "sts:odd", ""])
notes = st.sampled_from([None, "", "note"])


@st.composite
def op_lines(draw):
    do, op = (
        draw(st.sampled_from(["start", "state", "state", "await", "await", "close", "step", "step"])),
        draw(st.integers(0, 2)),
    )
    match do:
        case "start":
            return OpsAction(do, op, verb="op/x", mode=draw(st.sampled_from(["opm:direct", "opm:odd"])))
        case "state":
            return OpsAction(do, op, state=draw(states), code=draw(st.integers(-2, 2)), note=draw(notes))
        case "await":
            cont = draw(st.sampled_from(["op/cont", "/go", ""]))
            return OpsAction(do, op, want=draw(wants), ttl=draw(st.integers(0, 2)), cont=cont)
        case "close":
            status = draw(st.sampled_from(["sts:ok", "sts:fail", "sts:odd"]))
            return OpsAction(do, op, status=status, summary=draw(notes))
        case _:
            return OpsAction(do)


@st.composite
def op_cases(draw):
    """Scripts in which each operation is started once, and looked at behind every line."""
    script, started = [], set()
    for line in draw(st.lists(op_lines(), max_size=20)):
        if line.do == "start" and line.op in started:
            continue
        if line.do == "start" and line.mode == "opm:direct":
            started.add(line.op)
        script.append(line)
        script += [OpsAction("snapshot", op) for op in sorted(started)]
    return OpsCase(id="drawn", script=[*script, OpsAction("step")])


@SLOW
@given(op_cases())
def test_operations_are_those_of_the_model(case):
    expected, actual = model.ops(case), ops(case)
    for line, before, after in zip(case.script, expected, actual, strict=True):
        if isinstance(before, dict) and "watchers" in before:
            for each in before["watchers"]:
                each.pop("payload", None)
        assert is_as_expected(before, after), (line, before, after)
