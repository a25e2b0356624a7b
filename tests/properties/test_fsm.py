"""Laws of machines, over random contracts and random lives of their cells.

A cold restart between any two beats changes no byte of the journal, and neither does the general way in place
of the short ones. A machine is where a plain reading of its contract says. Whatever a contract is, its
pictures show all of it, and every walk that `fsm paths` would write leads where it says.
"""

from __future__ import annotations

import json
import os
from itertools import pairwise, product
from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from cellule.errors import Rejected
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Nodes, drive
from cellule.kernel.programs import ProgramKinds
from cellule.modules.fsm import FsmPrograms
from cellule.modules.fsm.contract import Contract
from cellule.modules.fsm.overlap import covers, may_both_hold
from cellule.modules.fsm.picture import mermaid, picture_of
from cellule.modules.fsm.program import FsmProgram
from cellule.modules.fsm.read import read_contract
from cellule.modules.fsm.svg import draw
from cellule.modules.fsm.trails import Explorer
from cellule.modules.fsm.trial import Trial
from cellule.values import decode
from cellule.values.expressions import compile_expression
from tests.support.fsm_world import machine_world
from tests.support.kernel_world import START_NS
from tests.support.lives import Dies, Life, Passed, Receipt, check_lives

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "25"))
SMALL = settings(
    max_examples=EXAMPLES, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)  # fmt: skip
MINUTE = 60 * 10**9
STATES = ("a", "b", "c", "d", "e")
TRIGGERS = ("go", "stop", "turn")
KEYS = ("x", "y")
TEXT, INT = {"text": {}}, {"int": {}}
EFFECTS = {
    "schemas": {"shop/Ask@1": {"record": {"id": TEXT, "n": INT}}, "shop/Told@1": {"record": {"n": INT}}},
    "effects": {"shop.ask": {"params": "shop/Ask@1", "receipt": "shop/Told@1"}},
}
ASK = {"effect": "shop.ask", "params": {"id": "key", "n": "data.n"}}


@st.composite
def contracts(draw: st.DrawFn, *, effects: bool = True) -> dict[str, Any]:
    """A machine in which every state is reached: a way through all of them, and transitions beside it."""
    names = STATES[: draw(st.integers(2, len(STATES)))]
    ways: dict[tuple[str, str], str] = {}
    for source, target in pairwise(names):
        ways[source, draw(st.sampled_from(TRIGGERS))] = target
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.sampled_from(names[:-1])), draw(st.sampled_from(TRIGGERS))
        ways.setdefault(place, draw(st.sampled_from(names)))
    found: list[dict[str, Any]] = []
    for (source, trigger), target in ways.items():
        both = {"from": source, "trigger": trigger}
        if draw(st.booleans()):
            left = draw(st.sampled_from(("event.n", "data.n")))
            guard = f"{left} {draw(st.sampled_from(('<', '>=')))} {draw(st.integers(0, 9))}"
            found.append({**both, "to": draw(st.sampled_from(names)), "guard": guard})
        found.append({**both, "to": target})
    for each in found:
        if draw(st.booleans()):
            each["set"] = {"n": draw(st.sampled_from(("data.n + event.n", "event.n", "0")))}
    states: list[dict[str, Any]] = [{"name": name} for name in names]
    triggers: dict[str, Any] = {
        name: {"fields": {"n": "int"}} for name in {each["trigger"] for each in found}
    }
    if effects:
        _decorate(draw, states, found, triggers)
    return {
        "data": {"n": {"type": "int", "default": 0}}, "triggers": triggers, "states": states,
        "transitions": found, "terminal_states": [names[-1]],
    }  # fmt: skip


def _decorate(draw: st.DrawFn, states: list[Any], found: list[Any], triggers: dict[str, Any]) -> None:
    """Entry and exit effects, their receipts, and timeouts."""
    for state in states:
        if draw(st.booleans()):
            state[draw(st.sampled_from(("entry", "exit")))] = [ASK]
        if state is not states[-1] and draw(st.booleans()):
            state["timeout"] = {"after": f"{draw(st.integers(1, 3))}m", "trigger": "late"}
            found.append(
                {"from": state["name"], "to": draw(st.sampled_from(states))["name"], "trigger": "late"}
            )
        if state is not states[-1] and draw(st.integers(0, 3)) == 0:
            triggers["told"] = {"receipt": "shop.ask"}
            guard = draw(st.sampled_from(("event.status == 'ok'", "event.status == 'failed'")))
            target = draw(st.sampled_from(states))["name"]
            found.append({"from": state["name"], "to": target, "trigger": "told", "guard": guard})


def read(document: dict[str, Any]) -> Contract:
    """The contract; one whose guards overlap by chance is none."""
    try:
        return read_contract(json.dumps(document).encode(), "order.fsm.yaml")
    except Rejected:
        assume(False)
        raise


@st.composite
def moved(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Events of one beat, by their triggers."""
    drawn = draw(
        st.lists(st.tuples(st.sampled_from(TRIGGERS), st.sampled_from(KEYS), st.integers(0, 9)), max_size=4)
    )
    return [(f"shop/{trigger}@1", {"id": key, "n": n}) for trigger, key, n in drawn]


receipts = st.builds(Receipt, st.integers(0, 9), st.sampled_from(["ok", "failed"]), st.just({"n": 1}))
lives = st.lists(moved() | receipts | st.builds(Passed, st.integers(0, 4 * MINUTE)), min_size=1, max_size=12)


def known_only(deeds: list[Any], document: dict[str, Any]) -> list[Any]:
    """The deeds without events that the contract has no trigger for: those never get into a world."""
    known = {f"shop/{name}@1" for name in document["triggers"]}
    return [[each for each in deed if each[0] in known] if isinstance(deed, list) else deed for deed in deeds]


@SMALL
@given(contracts(), lives)
def test_cold_restarts_between_beats_and_the_general_way_change_no_byte(document, deeds):
    read(document)
    text = json.dumps(document)

    def make(dies: Dies, fast: bool) -> Life:
        world = machine_world(text, EFFECTS, fast=fast)
        return Life(world, lambda: ProgramKinds(FsmPrograms()), dies=dies)

    whole = check_lives(make, known_only(deeds, document))
    for key in KEYS:
        state = whole.world.state("shop/order", key.encode())
        event("no machine" if state is None else f"in {state['state']}")


@SMALL
@given(contracts(effects=False), st.lists(moved(), max_size=12))
def test_a_machine_is_where_a_plain_reading_of_its_contract_says(document, deeds):
    read(document)
    deeds = known_only(deeds, document)
    world = machine_world(json.dumps(document))
    Life(world, lambda: ProgramKinds(FsmPrograms())).live(deeds)
    for key in KEYS:
        found = world.state("shop/order", key.encode())
        wanted = plainly(document, [each for deed in deeds for each in deed if each[1]["id"] == key])
        assert (None if found is None else (found["state"], found["n"])) == wanted


def plainly(document: dict[str, Any], events: list[tuple[str, Any]]) -> tuple[str, int] | None:
    """State and number after some events, by the contract as one reads it."""
    state, n, there = document["states"][0]["name"], 0, False
    for schema, value in events:
        for each in document["transitions"]:
            names = {"event.n": value["n"], "data.n": n, "data.n + event.n": n + value["n"], "0": 0}
            if each["from"] != state or f"shop/{each['trigger']}@1" != schema:
                continue
            if "guard" in each:
                left, sign, right = each["guard"].split()
                if not (names[left] < int(right) if sign == "<" else names[left] >= int(right)):
                    continue
            state, there = each["to"], True
            n = names[each["set"]["n"]] if "set" in each else n
            break
    return (state, n) if there else None


@SMALL
@given(contracts())
def test_pictures_show_every_state_and_transition_and_boxes_do_not_overlap(document):
    contract = read(document)
    picture = picture_of(contract, "a")
    lines = mermaid(contract, "a").splitlines()
    assert sum(" --> " in line and "[*]" not in line for line in lines) == sum(
        len(arrow.lines) for arrow in picture.arrows
    )
    root = ET.fromstring(draw(contract, "a"))
    texts = {(each.text or "").strip() for each in root.iter() if each.tag.endswith("}text")}
    assert set(contract.states) <= texts
    assert {each.trigger for each in contract.transitions} <= {text.split(" ")[0] for text in texts}
    boxes = [corners(each) for each in root.iter() if each.get("class", "").startswith("box")]
    assert len(boxes) == len(contract.states)
    for at, (left, top, right, bottom) in enumerate(boxes):
        for x1, y1, x2, y2 in boxes[at + 1 :]:
            assert right <= x1 or x2 <= left or bottom <= y1 or y2 <= top


def corners(box: ET.Element) -> tuple[float, float, float, float]:
    """Left, top, right and bottom."""
    x, y, width, height = (float(box.get(name, "")) for name in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


@SMALL
@given(contracts())
def test_every_transition_is_walked_and_each_walk_leads_where_it_says(document):
    contract = read(document)
    world, nodes = machine_world(json.dumps(document), EFFECTS), Nodes(0)
    manifest = load_manifest(decode(next(iter(world.cas.values()))))
    module = manifest.modules["shop/order"]
    program = drive(FsmPrograms().program(manifest, module, nodes), nodes, world.fetch)
    assert isinstance(program, FsmProgram)
    trial = Trial(contract, program, manifest, module, b"x", START_NS)
    found = Explorer(trial).walks()
    assert [each for each, _ in found.transitions] + found.missed == list(
        contract.transitions
    ) or found.missed
    for transition, walk in found.transitions:
        spot = trial.origin()
        for deed, state in zip(walk.deeds, walk.states, strict=True):
            after = trial.after(spot, deed)
            assert after is not None
            spot = after
            assert trial.state_of(spot) == state
        assert walk.states[-1] == transition.target
        assert ([contract.initial, *walk.states])[-2] == transition.source
    event(f"{len(found.missed)} missed")


compared = st.builds(
    "{} {} {}".format, st.sampled_from(("e.n", "e.m")), st.sampled_from(("<", "<=", "==", ">=", ">")),
    st.integers(-2, 2),
)  # fmt: skip
guards = st.lists(compared | st.sampled_from(("e.k == 'a'", "e.k == 'b'", "!e.b")), min_size=1, max_size=3)


@given(guards.map(" && ".join), guards.map(" && ".join))
def test_what_is_said_of_two_guards_is_true_of_every_event(first, second):
    one, two = (compile_expression(each, {"e": None}, gives_bool=True) for each in (first, second))
    said = covers(first, second), may_both_hold(first, second)
    event(f"covers, may both hold: {said}")
    for n, m, k, b in product(range(-3, 4), range(-3, 4), "ab", (True, False)):
        arguments = {"e": {"n": n, "m": m, "k": k, "b": b}}
        held = one.evaluate(arguments), two.evaluate(arguments)
        assert not (said[0] and held == (False, True))
        assert said[1] or held != (True, True)
