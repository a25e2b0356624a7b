"""Runs of plans on the command line: they are cells, found by their correlation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cellule = Any

FLOW = """
schemas:
  shop/Asked@1: {record: {id: {text: {}}, cents: {int: {}}}}
  shop/Sent@1: {record: {id: {text: {}}}}
  shop/Charge@1: {record: {id: {text: {}}, cents: {int: {}}}}
  shop/Charged@1: {record: {reference: {text: {}}}}
effects:
  pay.charge: {params: shop/Charge@1, receipt: shop/Charged@1}
plans:
  shop/charge@1:
    steps:
      - id: charge
        op: emit_effect
        kind: pay.charge
        params: {record: {id: {ref: "@plan.input.id"}, cents: {ref: "@plan.input.cents"}}}
      - {id: paid, op: await_receipt, for: charge}
      - id: tell
        op: raise_event
        event: {record: {$schema: shop/Sent@1, id: {ref: "@plan.correlation"}}}
      - {id: rate, op: assign, bind: rate, expr: {op: sub, args: [{ref: "@plan.input.cents"}, LESS]}}
      - {id: end, op: end, result: {ref: "@local.rate"}}
  shop/ship@1:
    steps:
      - {id: sent, op: await_event, event: shop/Sent@1}
triggers:
  - {event: shop/Asked@1, plan: shop/charge@1, correlate_by: id}
  - {event: shop/Asked@1, plan: shop/ship@1, correlate_by: id}
"""


@pytest.fixture
def flow(empty: Cellule, tmp_path: Path) -> Cellule:
    """A world in which two orders are charged."""
    return made(empty, tmp_path, "1")


def made(empty: Cellule, folder: Path, less: str) -> Cellule:
    file = folder / "flow.yaml"
    file.write_text(FLOW.replace("LESS", less))
    empty("world", "create", "w", "--manifest", str(file))
    for key in ("o1", "o2"):
        empty("event", "send", "Asked", f'{{"id": "{key}", "cents": 5}}', "--id", key)
    return empty


def charged(flow: Cellule, key: str) -> None:
    (effect,) = [each for each in flow("effect", "list", "--json").json["effects"] if each["key"] == key]
    flow("receipt", "inject", effect["id"], "--why", "test", "--value", '{"reference": "r"}')


def cells(flow: Cellule, *options: str) -> list[tuple[str, str]]:
    return [(each["module"], each["key"]) for each in flow("cell", "list", *options, "--json").json["cells"]]


def test_runs_are_listed_by_their_correlation(flow: Cellule) -> None:
    assert cells(flow, "--correlation", "o1") == [("shop/charge", "o1"), ("shop/ship", "o1")]
    assert cells(flow, "charge", "--correlation", "o2") == [("shop/charge", "o2")]
    assert cells(flow, "--correlation", "o") == []
    waiting = ("--where", "state.at == 'paid'")
    assert cells(flow, "--correlation", "o1", *waiting) == [("shop/charge", "o1")]
    error = flow("cell", "list", "charge", "--correlation", "o1", "--prefix", "o", "--json", code=2).error
    assert "--correlation names one run of each plan" in error["message"]


def test_a_timeline_holds_what_one_run_got_and_did(flow: Cellule) -> None:
    charged(flow, "o1")
    told = flow("journal", "tail", "--no-follow", "-n", "1000", "--correlation", "o1", "--json").lines
    kinds = [each["kind"] for each in told]
    assert {"event", "step", "intent", "receipt", "emitted"} <= set(kinds)
    named = {each["key"] for each in told if "key" in each and each["kind"] == "step"}
    assert named == {"o1"}
    assert len(told) < len(flow("journal", "tail", "--no-follow", "-n", "1000", "--json").lines)
    versions = flow("cell", "history", "charge", "o1", "--correlation", "o1", "--json").json["versions"]
    assert [each["version"] for each in versions] == [2, 1]
    assert flow("cell", "history", "charge", "o1", "--correlation", "o2", "--json").json["versions"] == []


def test_a_run_is_inspected_cancelled_and_begun_anew(flow: Cellule) -> None:
    state = flow("cell", "show", "charge", "o1", "--json").json["state"]
    assert (state["at"], state["correlation"], state["status"]) == ("paid", "o1", "open")
    flow("cell", "delete", "charge", "o1", "--why", "the customer left")
    assert cells(flow, "--correlation", "o1") == [("shop/ship", "o1")]
    left = [each["key"] for each in flow("effect", "list", "--json").json["effects"]]
    assert left == ["o2"]
    assert flow("cell", "history", "charge", "o1", "--json").json["versions"]
    flow("event", "send", "Asked", '{"id": "o1", "cents": 7}')
    assert flow("cell", "show", "charge", "o1", "--json").json["state"]["input"]["cents"] == 7
    assert flow("verify", "--json").code == 0


def test_a_run_that_was_halted_goes_on_when_it_is_resumed(flow: Cellule) -> None:
    flow("cell", "halt", "charge", "o1", "--why", "wait")
    charged(flow, "o1")
    charged(flow, "o2")
    assert flow("cell", "show", "charge", "o1", "--json").json["state"]["at"] == "paid"
    assert flow("cell", "show", "charge", "o2", "--json").json["state"]["result"] == 4
    flow("cell", "resume", "charge", "o1")
    assert flow("cell", "show", "charge", "o1", "--json").json["state"]["result"] == 4
    assert flow("verify", "--json").code == 0


def test_a_run_that_failed_goes_on_after_its_plan_was_corrected(empty: Cellule, tmp_path: Path) -> None:
    flow = made(empty, tmp_path, '{ref: "@plan.input"}')
    charged(flow, "o1")
    assert "steps[3].expr.op: sub: numbers are needed" in flow("stuck", "--json").out
    file = tmp_path / "flow.yaml"
    file.write_text(FLOW.replace("LESS", "2"))
    flow("world", "deploy", "w", "--manifest", str(file))
    flow("cell", "migrate", "charge", "o1")
    assert flow("cell", "show", "charge", "o1", "--json").json["state"]["result"] == 3
    assert flow("cell", "show", "ship", "o1", "--json").json["state"]["status"] == "ended"
    assert flow("verify", "--json").code == 0
