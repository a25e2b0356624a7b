"""What a contract may say, and what is refused: with file, line, field, reason and hint."""

from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.modules.fsm import limits
from cellule.modules.fsm.graph import overlaps
from cellule.modules.fsm.read import read_contract

SEED = """# contract.yaml (FSM subcontract reference)
state_transitions:
  state_machine_name: "workflow_fsm"
  states:
    - state_name: "PENDING"
      description: "Workflow initialized, awaiting processing"
    - state_name: "PROCESSING"
      description: "Workflow actively being processed"
    - state_name: "COMPLETED"
      description: "Workflow completed successfully"
    - state_name: "FAILED"
      description: "Workflow failed"

  transitions:
    - from_state: "PENDING"
      to_state: "PROCESSING"
      trigger: "start_processing"
    - from_state: "PROCESSING"
      to_state: "COMPLETED"
      trigger: "processing_complete"
    - from_state: "PROCESSING"
      to_state: "FAILED"
      trigger: "processing_failed"
    - from_state: "PENDING"
      to_state: "FAILED"
      trigger: "initialization_failed"

  terminal_states:
    - "COMPLETED"
    - "FAILED"
"""
SMALL = """states: [A, B]
transitions:
  - {from: A, to: B, trigger: go}
terminal_states: [B]
"""


def problems(text: str) -> list[tuple[int, str, str]]:
    """Line, code and field of each problem."""
    with pytest.raises(Rejected) as caught:
        read_contract(text.encode(), "x.fsm.yaml")
    assert "x.fsm.yaml, line " in str(caught.value)
    return [(line, code, field) for line, code, field, _reason, _hint in caught.value.fields["problems"]]


def test_the_yaml_of_the_pure_reducer_document_loads_unchanged():
    contract = read_contract(SEED.encode(), "contract.yaml")
    assert contract.title == "workflow_fsm"
    assert list(contract.states) == ["PENDING", "PROCESSING", "COMPLETED", "FAILED"]
    assert contract.initial == "PENDING"
    assert contract.terminal == {"COMPLETED", "FAILED"}
    assert contract.allowed("PENDING") == ["start_processing", "initialization_failed"]
    assert contract.states["FAILED"].description == "Workflow failed"


def test_names_of_states_and_triggers_are_compared_without_case_and_keep_their_spelling():
    text = "initial_state: b\nstates: [A, B, C]\ntransitions:\n"
    text += "  - {from_state: b, to_state: a, trigger: Go}\n  - {from: A, to: c, trigger: gO}\n"
    contract = read_contract((text + "terminal_states: [c]").encode(), "x")
    assert contract.initial == "B"
    assert [(each.source, each.target, each.trigger) for each in contract.transitions] == [
        ("B", "A", "Go"), ("A", "C", "Go"),
    ]  # fmt: skip
    assert list(contract.triggers) == ["Go"]


def test_a_star_is_every_state_that_is_not_terminal_and_a_list_names_several():
    text = "states: [A, B, C]\ntransitions:\n  - {from: A, to: B, trigger: go}\n"
    text += "  - {from: '*', to: C, trigger: stop}\n  - {from: [A, B], to: C, trigger: end}\n"
    contract = read_contract((text + "terminal_states: [C]").encode(), "x")
    assert [each.source for each in contract.transitions] == ["A", "A", "B", "A", "B"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (SMALL.replace("to: B", "to: X"), (3, "fsm.state_unknown", "transitions[0].to")),
        (SMALL.replace("[B]", "[X]"), (4, "fsm.state_unknown", "terminal_states[0]")),
        ("initial_state: X\n" + SMALL, (1, "fsm.state_unknown", "initial_state")),
        (SMALL.replace("[A, B]", "[A, B, C]"), (1, "fsm.state_unreachable", "states.C")),
        (SMALL.replace("terminal_states: [B]", ""), (1, "fsm.dead_end", "states.B")),
        (SMALL.replace("[B]", "[A, B]"), (3, "fsm.dead_end", "transitions[0]")),
        (SMALL.replace("trigger: go", "triger: go"), (3, "fsm.field", "transitions[0].triger")),
        (SMALL + "colour: red\n", (5, "fsm.field", "colour")),
        (SMALL.replace("[A, B]", "[A, B, a]"), (1, "fsm.field", "states[2]")),
        (SMALL.replace("[A, B]", "[A, 'B C']"), (1, "fsm.field", "states[1]")),
        ("states: [A\n", (2, "fsm.syntax", "file")),
        ("", (1, "fsm.syntax", "file")),
        ("- A\n", (1, "fsm.field", "")),
        (SMALL + "data: {n: number}\n", (5, "fsm.field", "data.n")),
        (SMALL + "data: {state: int}\n", (5, "fsm.field", "data.state")),
        (SMALL + "data:\n  n: {type: int, default: x}\n", (6, "fsm.field", "data.n.default")),
        (SMALL.replace("go}", "go, set: {n: 1}}"), (3, "fsm.field", "transitions[0].set.n")),
        (SMALL.replace("go}", "go, effects: [Charge]}"), (3, "fsm.field", "transitions[0].effects[0]")),
        (SMALL + "triggers: {gone: {}}\n", (5, "fsm.trigger_unknown", "triggers.gone")),
        (
            SMALL.replace("[A, B]", "[{name: A, timeout: {after: 5m, trigger: late}}, B]"),
            (1, "fsm.trigger_unknown", "states[0].timeout"),
        ),
        (
            SMALL.replace("[A, B]", "[{name: A, timeout: {after: soon, trigger: go}}, B]"),
            (1, "fsm.field", "states[0].timeout.after"),
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_its_line_and_field(text, wanted):
    assert wanted in problems(text)


def guarded(*guards: str) -> str:
    """Transitions from A on the same trigger, with these guards."""
    lines = [f"  - {{from: A, to: B, trigger: go{each}}}" for each in guards]
    return "\n".join(["states: [A, B]", "transitions:", *lines, "terminal_states: [B]"])


@pytest.mark.parametrize(
    "guards",
    [("", ""), ("", ", guard: 'event.n > 1'"), (", guard: 'event.n > 1'", ", guard: 'event.n  >  1'")],
)
def test_a_transition_that_an_earlier_one_always_precedes_is_refused(guards):
    assert problems(guarded(*guards)) == [(4, "fsm.guards_overlap", "transitions[1]")]


def by(guard: str) -> str:
    return f', guard: "{guard}"'


@pytest.mark.parametrize(("first", "second"), [
    ("event.n > 1", "event.n > 5"), ("event.n >= 1", "event.n == 1"), ("event.n < 2.5", "event.n <= 2"),
    ("event.n > 1", "event.n > 1 && event.m > 0"), ("event.k == 'a'", "event.k == 'a' && event.m"),
    ("event.n <= 3 && event.k == 'a'", "event.k == 'a' && event.n == 3"),
])  # fmt: skip
def test_a_guard_that_an_earlier_one_covers_is_refused(first, second):
    assert problems(guarded(by(first), by(second))) == [(4, "fsm.guards_overlap", "transitions[1]")]


@pytest.mark.parametrize(("first", "second", "is_overlap"), [
    ("event.n > 5", "event.n > 1", True), ("event.n < 2", "event.n > 1", True),
    ("event.n > 1", "event.m > 1", True), ("event.n > 1 || event.m > 1", "event.n > 2", True),
    ("event.n < 2", "event.n >= 2", False), ("event.n <= 2", "event.n >= 2", True),
    ("event.n == 1", "event.n == 2", False), ("event.k == 'a'", "event.k == 'b'", False),
    ("event.k == 'a' && event.n > 1", "event.n <= 1", False), ("event.k < 'a'", "event.k == 'b'", True),
    ("event.n > 1", "event.k == 'q && event.n > 5 && z'", True),
    ("event.n > 1", "!(event.n > 2 && event.m)", True),
    ("size(event.l) > 1", "size(event.l) > 2", True), ("event.n > 1 && event.n < 9", "event.n == 5", True),
])  # fmt: skip
def test_guards_that_may_both_hold_are_told_apart_from_those_that_cannot(first, second, is_overlap):
    contract = read_contract(guarded(by(first), by(second)).encode(), "x")
    assert [(one.line, two.line) for one, two in overlaps(contract)] == ([(3, 4)] if is_overlap else [])


def test_a_transition_without_guard_may_stand_last_as_the_rest():
    contract = read_contract(guarded(", guard: 'event.n > 1'", ", guard: 'event.n < 0'", "").encode(), "x")
    assert len(contract.transitions) == 3


def test_all_mistakes_of_a_file_are_told_at_once_up_to_a_limit():
    many = "".join(f"  - {{from: A, to: X{at}, trigger: go}}\n" for at in range(limits.PROBLEMS_MAX + 5))
    found = problems(SMALL.replace("transitions:\n", "transitions:\n" + many))
    assert len(found) == limits.PROBLEMS_MAX
    assert [line for line, _, _ in found[:3]] == [3, 4, 5]


def test_too_many_states_transitions_and_bytes_are_refused():
    states = ", ".join(f"S{at}" for at in range(limits.STATES_MAX + 1))
    assert (1, "fsm.field", "states") in problems(SMALL.replace("[A, B]", f"[{states}]"))
    assert problems("#" * (limits.CONTRACT_BYTES_MAX + 1)) == [(1, "fsm.syntax", "file")]
    many = "".join(f"  - {{from: '*', to: B, trigger: t{at}}}\n" for at in range(limits.TRANSITIONS_MAX // 9))
    names = ", ".join(f"S{at}" for at in range(10))
    wide = f"states: [{names}, B]\ntransitions:\n{many}terminal_states: [B]\n"
    assert (3, "fsm.field", "transitions") in problems(wide)


@pytest.mark.parametrize(
    "text", ["&a [*a]", "{data: &a {b: *a}, states: [A]}", "!!python/object:os.system {}"]
)
def test_hostile_yaml_is_refused_and_runs_nothing(text):
    assert problems(text)
