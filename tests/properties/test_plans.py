"""Laws of plans, over random plans and random lives of their runs.

A cold restart between any two beats changes no byte of the journal, and neither does the general way in place
of the short ones; whatever comes in whatever order, a run hears only what has its correlation.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from cellule.kernel.programs import ProgramKinds
from cellule.modules.plan import PlanPrograms
from cellule.values import decode, encode
from tests.support.kernel_world import KernelWorld
from tests.support.lives import Deed, Dies, Life, Receipt, check_lives

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "25"))
TEXT, INT = {"text": {}}, {"int": {}}
KEYS = ("x", "y", "z")
OPS = ("assign", "emit_effect", "await_receipt", "raise_event", "await_event", "end")
ID, NUMBER = {"ref": "@plan.correlation"}, {"ref": "@plan.input.n"}
SUM = {"op": "add", "args": [{"op": "if", "args": [{"op": "eq", "args": [{"ref": "@local.sum"}, None]}, 0,
                                                   {"ref": "@local.sum"}]}, NUMBER]}  # fmt: skip


def step(at: int, op: str, emitted: list[str]) -> dict[str, Any]:
    """A step of an operation; one that waits for a receipt takes an effect that comes before it."""
    named = {"id": f"s{at}", "op": op}
    match op:
        case "assign":
            return {**named, "bind": "sum", "expr": SUM}
        case "emit_effect":
            return {**named, "kind": "pay.charge", "params": {"record": {"id": ID, "n": NUMBER}}}
        case "await_receipt" if emitted:
            return {**named, "for": emitted[at % len(emitted)]}
        case "raise_event":
            record = {"$schema": "a/Told@1", "id": ID, "n": {"ref": "@local.sum"}}
            return {**named, "module": "a/other@1", "key": ID, "event": {"record": record}}
        case "await_event":
            return {**named, "event": "a/Word@1"}
    return {"id": f"s{at}", "op": "end", "result": {"ref": "@local.sum"}}


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Steps in a row, with edges that pass over some of them, and perhaps one back to a step that waits."""
    steps: list[dict[str, Any]] = [{"id": "s0", "op": "assign", "bind": "sum", "expr": SUM}]
    emitted: list[str] = []
    for at, op in enumerate(draw(st.lists(st.sampled_from(OPS), min_size=2, max_size=9)), start=1):
        made = step(at, op, emitted)
        emitted += [made["id"]] if made["op"] == "emit_effect" else []
        steps.append(made)
        if made["op"] == "end":
            break
    ids = [each["id"] for each in steps]
    edges: list[dict[str, Any]] = []
    for at, name in enumerate(ids[:-1]):
        further = draw(st.integers(at + 1, len(ids) - 1))
        odd = {"op": "gt", "args": [{"ref": "@plan.input.n"}, draw(st.integers(0, 9))]}
        edges += [{"from": name, "to": ids[further], "when": odd}] if further > at + 1 else []
        edges.append({"from": name, "to": ids[at + 1]})
    waits = [each["id"] for each in steps if each["op"] == "await_event"]
    if waits and steps[-1]["op"] != "end":
        edges.append({"from": ids[-1], "to": waits[0]})
    return {"steps": steps, "edges": edges}


def document(plan: dict[str, Any]) -> dict[str, Any]:
    told = {"record": {"id": TEXT, "n": INT}}
    other = {"steps": [{"id": "told", "op": "await_event", "event": "a/Told@1", "bind": "told"},
                       {"id": "end", "op": "end", "result": {"ref": "@local.told.n"}}]}  # fmt: skip
    return {
        "schemas": dict.fromkeys(("a/Start@1", "a/Word@1", "a/Told@1", "a/Charge@1"), told),
        "effects": {"pay.charge": {"params": "a/Charge@1", "receipt": "a/Told@1"}},
        "plans": {"a/flow@1": plan, "a/other@1": other},
        "triggers": [{"event": "a/Start@1", "plan": name, "correlate_by": "id"}
                     for name in ("a/flow@1", "a/other@1")],
    }  # fmt: skip


events = st.tuples(st.sampled_from(["a/Start@1", "a/Word@1"]), st.sampled_from(KEYS), st.integers(0, 9))
receipts = st.tuples(st.just("receipt"), st.integers(0, 9), st.sampled_from(["ok", "failed"]))
lives = st.lists(st.lists(events, max_size=4) | receipts, min_size=1, max_size=12)


def deeds_of(drawn: list[Any]) -> list[Deed]:
    """What was drawn, as a life does it."""
    return [
        [(schema, {"id": key, "n": n}) for schema, key, n in each]
        if isinstance(each, list)
        else Receipt(each[1], each[2], {"id": "r", "n": each[1]})
        for each in drawn
    ]


def life(plan: dict[str, Any], dies: Dies = "never", fast: bool = True) -> Life:
    world = KernelWorld(document(plan), ProgramKinds(PlanPrograms()), fast=fast)
    return Life(world, lambda: ProgramKinds(PlanPrograms()), dies=dies)


def runs_of(lived: Life) -> dict[str, Any]:
    return {key: lived.world.state("a/flow", key.encode()) for key in KEYS}


SMALL = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@SMALL
@given(plans(), lives)
def test_cold_restarts_between_beats_and_the_general_way_change_no_byte(plan, deeds):
    whole = check_lives(lambda dies, fast: life(plan, dies, fast), deeds_of(deeds))
    for run in runs_of(whole).values():
        event("no run" if run is None else run["status"])


@SMALL
@given(plans(), lives)
def test_a_run_is_the_same_whatever_happens_to_others(plan, deeds):
    """Only the events of one correlation are sent again: its run comes to the same place and values."""
    deeds = [deed for deed in deeds if isinstance(deed, list)]
    whole = runs_of(life(plan).live(deeds_of(deeds)))
    for key in KEYS:
        own = [[each for each in deed if each[1] == key] for deed in deeds]
        alone = runs_of(life(plan).live(deeds_of([deed for deed in own if deed])))
        assert essence(alone[key]) == essence(whole[key])
        assert {name for name, run in alone.items() if run} <= {key}


def essence(run: Any) -> Any:
    """A run without the height at which it began."""
    return None if run is None else {**run, "started": 0}


def test_an_encoded_state_is_what_the_world_shows():
    """The two laws above compare what is there: a run, with its locals."""
    plan = {"steps": [step(0, "assign", []), step(1, "await_event", [])]}
    run = runs_of(life(plan).live([[("a/Start@1", {"id": "x", "n": 3})]]))["x"]
    assert (run["at"], run["local"]) == ("s1", {"sum": 3})
    assert decode(encode(run)) == run
