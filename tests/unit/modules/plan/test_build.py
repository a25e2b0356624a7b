"""What the build of a plan refuses, each with its place, and what a run refuses or fails by."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from cellule.errors import Rejected
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import StepRecord
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Nodes, drive
from cellule.kernel.programs import ProgramKinds, load_all
from cellule.modules.plan import PlanPrograms
from cellule.modules.plan import limits as most
from cellule.testing.memory_host import MemoryHost
from cellule.values import decode
from tests.unit.modules.plan.test_runs import CHARGE, INT, TEXT, document, host_of, pay, run_of, send

END = {"id": "end", "op": "end"}
NEST: Any = {"op": "not", "args": [True]}
for _ in range(most.EXPR_DEPTH_MAX):
    NEST = {"op": "not", "args": [NEST]}


def cell_document(steps: list[Any], route: dict[str, Any] | None = None, **plan: Any) -> dict[str, Any]:
    """The document of a plan that tells a keyed module `a/cell@1`, which itself is another plan."""
    base = document(plans={
        "a/flow@1": {"steps": steps, **plan},
        "a/cell@1": {"steps": [{"id": "told", "op": "await_event", "event": "a/Word@1", "by": "id"}]},
    })  # fmt: skip
    base["triggers"].append({"event": "a/Charge@1", "plan": "a/cell@1", "correlate_by": "id"})
    return base | (route or {})


def refused(written: dict[str, Any]) -> Rejected:
    nodes = Nodes(0)
    with pytest.raises(Rejected) as caught:
        drive(load_all(load_manifest(written), ProgramKinds(PlanPrograms()), nodes), nodes, lambda _: {})
    return caught.value


def word(**more: Any) -> dict[str, Any]:
    event = {"record": {"$schema": "a/Word@1", "id": CHARGE, "more": 1}}
    return {"id": "tell", "op": "raise_event", "event": event, **more}


CASES: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "missing key": (
        [word(reducer="a/cell@1")], {}, "at steps[0]: a/cell@1 is keyed, so the step needs `key`"),
    "key of another type": (
        [word(reducer="a/cell@1", key=5)], {}, "steps[0].key: an int stands where a text is needed"),
    "unknown module": (
        [word(reducer="a/sell@1", key=CHARGE)], {}, "steps[0].reducer: there is no module a/sell@1"),
    "module of another version": (
        [word(reducer="a/cell@2", key=CHARGE)], {}, "there is no module a/cell@2"),
    "event that is not routed there": (
        [{**word(reducer="a/cell@1", key=CHARGE),
          "event": {"record": {"$schema": "a/Start@1", "id": CHARGE, "cents": 1}}}], {},
        "steps[0].event: a/Start@1 is not routed to a/cell@1"),
    "event without schema": (
        [{"id": "t", "op": "raise_event", "event": {"record": {"id": CHARGE}}}], {},
        "steps[0].event: the record of an event names its schema as `$schema`"),
    "event of Cellule's own": (
        [{"id": "t", "op": "raise_event", "event": {"record": {"$schema": "sys/TimerFired@1"}}}], {},
        "sys/TimerFired@1 is an event of Cellule's own"),
    "field that the event does not have": (
        [{**word(), "event": {"record": {"$schema": "a/Word@1", "id": CHARGE, "more": 1, "less": 2}}}], {},
        "steps[0].event.record.less: there is no field 'less' in this record"),
    "unknown effect": (
        [{"id": "e", "op": "emit_effect", "kind": "pay.charge", "params": 5}], {}, "steps[0].params"),
    "receipt of no effect": (
        [{"id": "r", "op": "await_receipt", "for": "r"}], {},
        "steps[0].for: there is no emit_effect step 'r'"),
    "missing field of a step": ([{"id": "a", "op": "assign", "expr": 1}], {}, "assign needs `bind`"),
    "unknown field of a step": ([{**END, "reslt": 1}], {}, "end has no field 'reslt'"),
    "two steps of one name": ([END, END], {}, "steps[1].id: there are two steps 'end'"),
    "name with a dot": ([{"id": "a.b", "op": "end"}], {}, "an id is a text without dots"),
    "step that is no map": (["end"], {}, "steps[0]: a step is a map with `id` and `op`"),
    "no steps": ([], {}, f"a list of 1 to {most.STEPS_MAX} steps is needed"),
    "too many steps": (
        [{"id": f"s{n}", "op": "end"} for n in range(most.STEPS_MAX + 1)], {}, "a list of 1 to"),
    "too many edges": (
        [END], {"edges": [{"from": "end", "to": "end"}] * (most.EDGES_MAX + 1)}, "a list of at most"),
    "step that nothing leads to": (
        [{"id": "a", "op": "assign", "bind": "n", "expr": 1}, END, {"id": "lost", "op": "end"}],
        {"edges": [{"from": "a", "to": "end"}]}, "at steps.lost: no edge leads to this step"),
    "edge behind an end": (
        [{"id": "a", "op": "assign", "bind": "n", "expr": 1}, END],
        {"edges": [{"from": "a", "to": "end"}, {"from": "end", "to": "a"}]},
        "edges[1]: end ends the run; nothing follows it"),
    "edge of another form": ([END], {"edges": [{"from": "end"}, 5]}, "edges[1]: an edge is {from, to"),
    "circle behind a guard": (
        [{"id": "a", "op": "assign", "bind": "n", "expr": 1}],
        {"edges": [{"from": "a", "to": "a", "when": True}]}, "a -> a goes round without waiting"),
    "event looked at where there is none": (
        [{**END, "result": {"ref": "@event.id"}}], {}, "'@event.id' names nothing that is here"),
    "filter by a field that is not there": (
        [{"id": "w", "op": "await_event", "event": "a/Word@1", "where": {"op": "eq",
          "args": [{"ref": "@event.word"}, 1]}}], {}, "steps[0].where.args[0].ref: @event.word: there is no"),
    "ref of a step without a result": (
        [{"id": "a", "op": "assign", "bind": "n", "expr": 1}, {**END, "result": {"ref": "@step.a"}}], {},
        "there is no step with a result 'a'"),
    "unknown operator": (
        [{**END, "result": {"op": "power", "args": [1]}}], {}, "steps[0].result.op: 'power' with `args`"),
    "arguments that are too few": (
        [{**END, "result": {"op": "eq", "args": [1]}}], {}, "eq takes 2 arguments"),
    "expression of two forms": (
        [{**END, "result": {"ref": "@local.n", "list": []}}], {}, "steps[0].result"),
    "expression that is too deep": ([{**END, "result": NEST}], {}, "steps[0].result"),
    "expressions that are too many": (
        [{**END, "result": {"list": [1] * (most.EXPR_NODES_MAX + 1)}}], {}, "steps[0].result"),
    "local of an unknown schema": ([END], {"locals": {"n": "a/Nothing@1"}}, "at locals.n"),
    "value that its local cannot hold": (
        [{"id": "a", "op": "assign", "bind": "n", "expr": "x"}], {"locals": {"n": INT}},
        "steps[0].expr: a text stands where an int is needed"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_plan_that_cannot_run_is_refused_with_the_place_of_the_problem(case):
    steps, plan, text = CASES[case]
    error = refused(cell_document(steps, **plan))
    assert error.code == "plan.invalid"
    assert text in str(error)


def test_all_problems_are_told_at_once_up_to_a_limit():
    steps = [{**END, "id": f"e{n}", "result": {"ref": "@local.no"}} for n in range(2 * most.PROBLEMS_MAX)]
    problems: Any = refused(cell_document(steps)).fields["problems"]
    assert len(problems) == most.PROBLEMS_MAX


@pytest.mark.parametrize(("triggers", "text"), [
    ([{"event": "a/Start@1", "plan": "a/flo@1", "correlate_by": "id"}], "there is no plan a/flo@1"),
    ([{"event": "a/Start@1", "plan": "a/flow@1"}], "a trigger needs `correlate_by`"),
    ([{"event": "a/Start@1", "plan": "a/flow@1", "correlate_by": "no"}], "no"),
    ([{"event": "a/No@1", "plan": "a/flow@1", "correlate_by": "id"}], "a/No@1"),
    ([{"plan": "a/flow@1", "correlate_by": "id"}], "a trigger needs `event` and `plan`"),
    ([{"event": "a/Start@1", "plan": "a/flow@1", "correlate_by": "id"}] * 2, "starts a/flow@1 already"),
    ([], "nothing starts a/flow@1"),
])  # fmt: skip
def test_a_trigger_that_cannot_fire_is_refused(triggers, text):
    with pytest.raises(Rejected, match=text) as caught:
        load_manifest(document(triggers=triggers))
    assert caught.value.code.startswith("manifest.")


def test_an_awaited_event_that_nobody_declares_is_refused():
    plans = {"a/flow@1": {"steps": [{"id": "w", "op": "await_event", "event": "a/No@1"}]}}
    with pytest.raises(Rejected, match="a/No@1"):
        load_manifest(document(plans=plans))


def test_an_awaited_event_has_one_field_that_names_its_run():
    steps = [{"id": name, "op": "await_event", "event": "a/Two@1", "by": name} for name in ("one", "two")]
    written = document(plans={"a/flow@1": {"steps": steps}})
    written["schemas"]["a/Two@1"] = {"record": {"one": TEXT, "two": TEXT}}
    with pytest.raises(Rejected, match=r"a/Two@1 finds its run by 'one' already, not by 'two'"):
        load_manifest(written)


def test_expressions_are_compiled_once_for_a_manifest():
    manifest = load_manifest(document())
    programs, nodes = PlanPrograms(), Nodes(0)
    one, two = (
        drive(programs.program(manifest, manifest.modules["a/flow"], nodes), nodes, lambda _: {})
        for _ in range(2)
    )
    assert one is two


def test_a_plan_without_a_plan_in_its_code_is_refused():
    with pytest.raises(Rejected) as caught:
        PlanPrograms().check({"kind": "plan"}, "a/flow@1")
    assert caught.value.code == "plan.code"


# What runs refuse, or fail by


def steps_of(host: MemoryHost) -> list[StepRecord]:
    frames = [decode_frame(data) for data in host.frames]
    return [record for frame in frames for record in frame.records if isinstance(record, StepRecord)]


def failed(host: MemoryHost) -> list[str]:
    return [each.extras["code"] for each in steps_of(host) if "code" in each.extras]


def test_a_key_that_is_not_the_events_own_fails_the_step():
    other = {"op": "concat", "args": [CHARGE, "!"]}
    host = host_of(cell_document([word(reducer="a/cell@1", key=other)]))
    send(host, "a/Start@1", id="x", cents=5)
    assert failed(host) == ["plan.key_differs"]
    host.check_replays()


def test_a_step_none_of_whose_edges_holds_fails():
    steps = [{"id": "a", "op": "assign", "bind": "n", "expr": 1}, END]
    never = {"op": "eq", "args": [{"ref": "@local.n"}, 2]}
    host = host_of(document(plans={"a/flow@1": {
        "steps": steps, "edges": [{"from": "a", "to": "end", "when": never}]}}))  # fmt: skip
    send(host, "a/Start@1", id="x", cents=5)
    assert (failed(host), run_of(host, "x")) == (["plan.no_edge"], None)
    host.check_replays()


def test_an_expression_that_cannot_be_computed_fails_its_step_with_its_place():
    steps = [{**END, "result": {"op": "add", "args": [CHARGE, 1]}}]
    host = host_of(document(plans={"a/flow@1": {"steps": steps}}))
    send(host, "a/Start@1", id="x", cents=5)
    (text,) = [each.extras["text"] for each in steps_of(host) if "code" in each.extras]
    assert text.startswith("steps[0].result.op: add: ")
    host.check_replays()


def test_a_local_that_is_too_long_fails_its_step():
    twice = {"op": "concat", "args": [{"ref": "@local.t"}, {"ref": "@local.t"}]}
    steps = [{"id": "a", "op": "assign", "bind": "t", "expr": "x" * 60_000}]
    steps += [{"id": "b", "op": "assign", "bind": "t", "expr": twice}]
    host = host_of(document(plans={"a/flow@1": {"steps": steps}}))
    send(host, "a/Start@1", id="x", cents=5)
    assert failed(host) == ["plan.value"]
    host.check_replays()


def test_events_that_a_run_has_not_come_to_are_kept_up_to_a_limit():
    host = host_of(document())
    send(host, "a/Start@1", id="x", cents=5)
    for n in range(most.EARLY_MAX + 1):
        send(host, "a/Word@1", id="x", more=n)
    assert failed(host) == ["plan.early_full"]
    assert len(run_of(host, "x")["early"]) == most.EARLY_MAX
    host.check_replays()


def test_a_run_does_not_take_more_steps_for_one_event_than_the_limit():
    """A circle that waits may go round for every event that came early."""
    names = [f"a{n}" for n in range(most.ADVANCE_MAX // most.EARLY_MAX + 1)]
    steps = document()["plans"]["a/flow@1"]["steps"][:2]
    steps += [{"id": "word", "op": "await_event", "event": "a/Word@1"}]
    steps += [{"id": name, "op": "assign", "bind": "n", "expr": 1} for name in names]
    ids = ["charge", "paid", "word", *names, "word"]
    edges = [{"from": one, "to": two} for one, two in pairwise(ids)]
    host = host_of(document(plans={"a/flow@1": {"steps": steps, "edges": edges}}))
    send(host, "a/Start@1", id="x", cents=5)
    for n in range(most.EARLY_MAX):
        send(host, "a/Word@1", id="x", more=n)
    pay(host)
    assert failed(host) == ["plan.endless"]
    host.check_replays()


def test_another_trigger_for_an_open_run_changes_nothing_and_says_so():
    host = host_of(document())
    send(host, "a/Start@1", id="x", cents=5)
    before = run_of(host, "x")
    send(host, "a/Start@1", id="x", cents=6)
    assert run_of(host, "x") == before
    last = steps_of(host)[-1]
    assert decode(bytes(last.extras["ann"][0])) == {"ignored": "a run with this correlation is open already"}
    host.check_replays()


def test_a_filter_passes_over_other_events():
    steps = [
        {"id": "w", "op": "await_event", "event": "a/Word@1", "bind": "word",
         "where": {"op": "gt", "args": [{"ref": "@event.more"}, {"ref": "@plan.input.cents"}]}},
        {**END, "result": {"ref": "@local.word.more"}},
    ]  # fmt: skip
    host = host_of(document(plans={"a/flow@1": {"steps": steps}}))
    send(host, "a/Start@1", id="x", cents=5)
    for more in (4, 5, 6, 7):
        send(host, "a/Word@1", id="x", more=more)
    assert run_of(host, "x")["result"] == 6
    host.check_replays()
