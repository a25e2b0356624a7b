"""What is wrong with a new edition is refused with its place and a way out; the world is untouched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    Cellule = Any

APP = """
from __future__ import annotations
import msgspec
from cellule import App, Step

app = App("shop")


@app.event(key="id")
class Placed(msgspec.Struct, frozen=True):
    id: str
    cents: int


class Charge(msgspec.Struct, frozen=True):
    id: str
    cents: int


class Charged(msgspec.Struct, frozen=True):
    reference: str


class Order(msgspec.Struct, frozen=True):
    cents: int = 0


app.effect("pay.charge", params=Charge, receipt=Charged)


@app.reducer
def order(state: Order | None, event: Placed) -> Step[Order]:
    return Step(Order((state or Order()).cents + event.cents))


parcel = app.fsm("parcel.fsm.yaml")
flow = app.plan("flow", "flow.yaml", triggers={Placed: "id"})
counter = app.wasm("counter", "counter.wat", Placed, state=Order)
"""
CONTRACT = """\
key: id
data: {cents: int}
start: {trigger: placed, set: {cents: event.cents}}
states: [waiting, gone]
transitions:
  - {from: waiting, to: gone, trigger: left}
terminal_states: [gone]
"""
PLAN = """\
steps:
  - id: charge
    op: emit_effect
    kind: pay.charge
    params: {record: {id: {ref: "@plan.input.id"}, cents: {ref: "@plan.input.cents"}}}
  - {id: paid, op: await_receipt, for: charge}
  - {id: done, op: end, result: {ref: "@step.paid.status"}}
edges:
  - {from: charge, to: paid}
  - {from: paid, to: done}
"""
MODULE = r"""
(module
  (memory (export "memory") 1)
  (data (i32.const 1024) "\a1\65state\49\a1\65cents\18\1e")
  (func (export "alloc") (param i32) (result i32) (i32.const 4096))
  (func (export "step") (param i32 i32) (result i64)
    (i64.or (i64.shl (i64.const 1024) (i64.const 32)) (i64.const 17))))
"""
SECOND = """
class OrderV1(msgspec.Struct, frozen=True):
    cents: int = 0


app.state(name="Order", version=1)(OrderV1)


@app.state(version=2)
class Order(msgspec.Struct, frozen=True):
    euros: int = 0
"""
STATE = "class Order(msgspec.Struct, frozen=True):\n    cents: int = 0\n"
FILES = {"shop.py": APP, "parcel.fsm.yaml": CONTRACT, "flow.yaml": PLAN, "counter.wat": MODULE}

CLOCK = "    import time\n    time.time()\n"
SAME = "@app.upcaster\ndef up(old: Order) -> Order:\n    return old\n\n\n"
BAD: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "a contract with an unknown state": (
        "parcel.fsm.yaml", "to: gone, trigger", "to: gnoe, trigger",
        ("parcel.fsm.yaml", "6", "gnoe", "gone")),
    "a contract with a guard that is no expression": (
        "parcel.fsm.yaml", "trigger: left}", "trigger: left, guard: data.cents >}", ("parcel.fsm.yaml", "6")),
    "a contract that is no YAML": ("parcel.fsm.yaml", "states: [", "states: [[", ("parcel.fsm.yaml",)),
    "a plan with an unknown step": (
        "flow.yaml", "for: charge", "for: chrage", ("flow.yaml", "6", "chrage")),
    "a plan with an unknown effect": (
        "flow.yaml", "pay.charge", "pay.crage", ("flow.yaml", "4", "pay.crage")),
    "a module that exports no step": (
        "counter.wat", '(export "step")', '(export "stop")', ("counter", "step")),
    "a module that is none": ("counter.wat", "(module", "(modul", ("counter",)),
    "a reducer that reads the clock": (
        "shop.py", "    return Step(Order((state", CLOCK + "    return Step(Order((state",
        ("shop.py", "time.time")),
    "an event without its key": (
        "shop.py", '@app.event(key="id")', '@app.event(key="di")', ("order", "'di'")),
    "a state without a way": (
        "shop.py", STATE, SECOND.lstrip(), ("shop/Order@1", "shop/Order@2", "upcaster")),
    "an upcaster of nothing": ("shop.py", "parcel = app.fsm", SAME + "parcel = app.fsm", ("up", "two names")),
    "a state that lost a field": (
        "shop.py", STATE, STATE.replace("cents: int = 0", "euros: int = 0"), ("shop/Order@1", "cents")),
}  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """An edition of the app in a folder of its own; its file for `--app`."""

    def make(name: str, file: str = "", old: str = "", new: str = "") -> str:
        folder = tmp_path / name
        folder.mkdir()
        for each, text in FILES.items():
            changed = text
            if each == file:
                assert old in text
                changed = text.replace(old, new)
                if "euros" in new:
                    changed = changed.replace("Order((state or Order()).cents + event.cents)", "Order(1)")
            (folder / each).write_text(changed)
        return f"{folder / 'shop.py'}:app"

    return make


@pytest.mark.parametrize("case", BAD)
def test_a_bad_edition_is_refused_with_its_place_and_the_world_goes_on(
    empty: Cellule, write: Any, case: str
) -> None:
    good = write("good")
    empty("world", "create", "main", "--app", good)
    empty("event", "send", "Placed", '{"id": "o1", "cents": 5}')
    before = empty("world", "show", "--json").json
    file, old, new, told = BAD[case]
    bad = write("bad", file, old, new)
    for line in (("deploy",), ("deploy", "--dry-run"), ("deploy", "--shadow", "--all-history")):
        answer = empty(*line, "--app", bad, "--json", code=None)
        if line == ("deploy", "--dry-run") and answer.code == 0:
            assert not answer.json["compatible"]
            continue
        if "--shadow" in line and answer.code == 0:
            continue
        error = answer.error
        text = f"{error['message']} {error.get('hint', '')}"
        assert all(part in text for part in told), text
        assert answer.code == 1
        if line == ("deploy",):
            assert error.get("hint") or "add one" in text or ":" in text
    assert empty("world", "show", "--json").json == before
    empty("event", "send", "Placed", '{"id": "o2", "cents": 7}')
    listed = empty("cell", "list", "order", "--states", "--json").json["cells"]
    assert {each["key"]: each["state"]["cents"] for each in listed} == {"o1": 5, "o2": 7}


MANIFEST = """\
schemas:
  shop/Placed@1: {record: {id: {text: {}}}}
  shop/Order@1: {record: {n: {int: {}}}}
modules:
  shop/Order@1:
    state: shop/Order@1
    key: {text: {}}
    upgrade: pin
routing:
  subscriptions:
    - {event: shop/Placed@1, module: shop/Order@1, key_field: id}
"""
LINES = {
    "state: shop/Order@1": ("state: shop/Ordr@1", 6, "Did you mean shop/Order@1?"),
    "upgrade: pin": ("upgrade: sometimes", 8, "none of pin, follow"),
    "key_field: id": ("key_field: di", 11, "there are: id"),
    "shop/Order@1:\n": ("shop/Order:\n", 5, "no version"),
    "record: {n:": ("recrod: {n:", 3, "recrod"),
}


@pytest.mark.parametrize("old", LINES)
@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_bad_manifest_is_refused_with_its_line(empty: Cellule, tmp_path: Path, old: str, form: str) -> None:
    new, line, told = LINES[old]
    good, bad = tmp_path / "good.yaml", tmp_path / f"bad.{form}"
    good.write_text(MANIFEST)
    assert old in MANIFEST
    text = MANIFEST.replace(old, new)
    if form == "json":
        text = json.dumps(yaml.safe_load(text), indent=1)
    bad.write_text(text)
    empty("world", "create", "main", "--manifest", str(good))
    before = empty("world", "show", "--json").json
    error = empty("deploy", "--manifest", str(bad), "--json", code=1).error
    assert (error["fields"]["file"], error["fields"]["line"] > 1) == (str(bad), True)
    if form == "yaml":
        assert f"line {line}, $." in error["message"]
    assert told in error["message"]
    assert empty("world", "show", "--json").json == before
