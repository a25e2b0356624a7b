"""Plans at work: runs, waiting, correlation, receipts, restarts between beats, and what a build refuses."""

from __future__ import annotations

from typing import Any

import pytest

from cellule.errors import Rejected
from cellule.kernel.items import EventItem, ReceiptItem
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Nodes, drive
from cellule.kernel.programs import ProgramKinds, load_all
from cellule.modules.plan import PlanPrograms
from cellule.testing.memory_host import MemoryHost
from cellule.values import decode, encode

TEXT, INT = {"text": {}}, {"int": {}}
CHARGE = {"ref": "@plan.input.id"}


def document(**changes: Any) -> dict[str, Any]:
    """A plan that charges, waits for its receipt and for a word of the customer, and counts."""
    steps = [
        {"id": "charge", "op": "emit_effect", "kind": "pay.charge",
         "params": {"record": {"id": CHARGE, "cents": {"ref": "@plan.input.cents"}}}},
        {"id": "paid", "op": "await_receipt", "for": "charge", "bind": "receipt"},
        {"id": "asked", "op": "await_event", "event": "a/Word@1", "bind": "word"},
        {"id": "sum", "op": "assign", "bind": "sum",
         "expr": {"op": "add", "args": [{"ref": "@plan.input.cents"}, {"ref": "@local.word.more"}]}},
        {"id": "end", "op": "end", "result": {"record": {"sum": {"ref": "@local.sum"}}}},
        {"id": "bad", "op": "end", "result": "not paid"},
    ]  # fmt: skip
    ok = {"op": "eq", "args": [{"ref": "@step.paid.status"}, "ok"]}
    edges = [
        {"from": "charge", "to": "paid"}, {"from": "paid", "to": "asked", "when": ok},
        {"from": "paid", "to": "bad"}, {"from": "asked", "to": "sum"}, {"from": "sum", "to": "end"},
    ]  # fmt: skip
    return {
        "schemas": {
            "a/Start@1": {"record": {"id": TEXT, "cents": INT}},
            "a/Word@1": {"record": {"id": TEXT, "more": INT}},
            "a/Charge@1": {"record": {"id": TEXT, "cents": INT}},
            "a/Charged@1": {"record": {"ref": TEXT}},
        },
        "effects": {"pay.charge": {"params": "a/Charge@1", "receipt": "a/Charged@1"}},
        "plans": {"a/flow@1": {"steps": steps, "edges": edges}},
        "triggers": [{"event": "a/Start@1", "plan": "a/flow@1", "correlate_by": "id"}],
        **changes,
    }  # fmt: skip


def host_of(written: dict[str, Any], **options: Any) -> MemoryHost:
    manifest = load_manifest(written)
    blocks = {manifest.cid: manifest.data}
    host = MemoryHost(manifest, ProgramKinds(PlanPrograms()), blocks, seed=1, now_ns=1, **options)
    host.start()
    return host


def send(host: MemoryHost, schema: str, **value: Any) -> None:
    host.beat([EventItem(schema, encode(value))])
    host.settle()


def run_of(host: MemoryHost, key: str) -> Any:
    entry = host.look("a/flow", key.encode())
    return None if entry is None or entry.state is None else decode(bytes(host_state(host, entry)))


def host_state(host: MemoryHost, entry: Any) -> bytes:
    state = entry.state
    return state if isinstance(state, bytes) else host.cas[state.cid]


def pay(host: MemoryHost, status: str = "ok") -> None:
    intents = host.open_intents()
    value = encode({"ref": "r"}) if status == "ok" else None
    for _, intent in intents[:1]:
        host.beat([ReceiptItem(intent.id, height_of(host, intent), status, value)])
    host.settle()


def height_of(host: MemoryHost, wanted: Any) -> int:
    return next(
        int.from_bytes(place[:8], "big") for place, each in host.open_intents() if each.id == wanted.id
    )


@pytest.mark.parametrize("evict", [False, True])
def test_a_run_waits_for_its_receipt_and_its_event_and_ends_with_a_result(evict):
    host = host_of(document(), evict=evict)
    send(host, "a/Start@1", id="x", cents=5)
    assert run_of(host, "x")["at"] == "paid"
    pay(host)
    assert run_of(host, "x")["at"] == "asked"
    send(host, "a/Word@1", id="other", more=1)
    assert run_of(host, "x")["at"] == "asked"
    assert run_of(host, "other") is None
    send(host, "a/Word@1", id="x", more=2)
    assert (run_of(host, "x")["status"], run_of(host, "x")["result"]) == ("ended", {"sum": 7})
    send(host, "a/Start@1", id="x", cents=9)
    assert run_of(host, "x")["result"] == {"sum": 7}
    host.check_replays()


def test_an_event_that_comes_early_is_kept_until_its_step():
    host = host_of(document())
    send(host, "a/Start@1", id="x", cents=5)
    send(host, "a/Word@1", id="x", more=2)
    assert run_of(host, "x")["at"] == "paid"
    pay(host)
    assert run_of(host, "x")["result"] == {"sum": 7}
    host.check_replays()


def test_a_guard_chooses_the_edge_by_the_receipts_status():
    host = host_of(document())
    send(host, "a/Start@1", id="x", cents=5)
    pay(host, "failed")
    assert run_of(host, "x")["result"] == "not paid"
    host.check_replays()


def refused(steps: list[dict[str, Any]], **plan: Any) -> str:
    written = document(plans={"a/flow@1": {"steps": steps, **plan}})
    programs = ProgramKinds(PlanPrograms())
    manifest = load_manifest(written)
    nodes = Nodes(0)
    with pytest.raises(Rejected) as caught:
        drive(load_all(manifest, programs, nodes), nodes, lambda _: {})
    assert caught.value.code == "plan.invalid"
    return str(caught.value)


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "unknown ref": (
        [{"id": "e", "op": "end", "result": {"ref": "@plan.input.nope"}}], {},
        "at steps[0].result.ref: @plan.input.nope: there is no field 'nope'"),
    "unknown local": (
        [{"id": "e", "op": "end", "result": {"ref": "@local.nope"}}], {}, "there is no local 'nope'"),
    "type error": (
        [{"id": "c", "op": "emit_effect", "kind": "pay.charge",
          "params": {"record": {"id": CHARGE, "cents": "five"}}}], {},
        "at steps[0].params.record.cents: a text stands where an int is needed"),
    "missing field": (
        [{"id": "c", "op": "emit_effect", "kind": "pay.charge", "params": {"record": {"id": CHARGE}}}], {},
        "the field 'cents' is missing"),
    "circle": (
        [{"id": "one", "op": "assign", "bind": "n", "expr": 1},
         {"id": "two", "op": "assign", "bind": "n", "expr": 2}],
        {"edges": [{"from": "one", "to": "two"}, {"from": "two", "to": "one"}]},
        "one -> two -> one goes round without waiting"),
    "unknown step of an edge": (
        [{"id": "e", "op": "end"}], {"edges": [{"from": "e", "to": "f"}]}, "there is no step 'f'"),
    "unknown operation": ([{"id": "e", "op": "stop"}], {}, "at steps[0].op: 'stop' is none of"),
    "guard that is no bool": (
        [{"id": "a", "op": "assign", "bind": "n", "expr": 1}, {"id": "e", "op": "end"}],
        {"edges": [{"from": "a", "to": "e", "when": 3}]}, "an int stands where a bool is needed"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_plan_is_refused_with_the_place_of_the_problem(case):
    steps, plan, text = CASES[case]
    assert text in refused(steps, **plan)
