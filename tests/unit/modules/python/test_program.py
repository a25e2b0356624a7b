from __future__ import annotations

import sys

import msgspec
import pytest

from cellule.errors import Rejected
from cellule.kernel.limits import ERROR_TEXT_MAX
from cellule.kernel.program import Emit, Output, StepFault, StepRefusal
from cellule.modules.python import ModuleOptions
from cellule.values import decode, encode


class Number(msgspec.Struct):
    by: int


HEAD = """
from cellule.modules.python import Context, Effect, Keyed, Step, reducer
from shop.models import Order, Paid, Placed, Shipped
"""


def fault_of(loaded, event="Placed", **fields):
    with pytest.raises(StepFault) as caught:
        loaded.step(event, **(fields or {"order_id": "o1", "amount": 1}))
    return caught.value


def reducer_that(body):
    """A reducer `order` with this body."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"{HEAD}\ndef order(state: Order | None, event: Placed | Paid) -> Step[Order] | Order:\n{lines}\n"


def test_a_step_gives_state_reply_and_no_events(shop, load_program, context):
    loaded = load_program(shop.order, key="order_id")
    output = loaded.step("Placed", order_id="o1", amount=5, context=context)
    assert type(output) is Output
    assert decode(output.state) == {"order_id": "o1", "total": 5, "lines": ["+5"]}
    assert (output.events, output.effects, output.ann) == ((), (), None)
    assert decode(output.reply) == 5


def test_a_delete_gives_no_state_but_events_and_a_note(shop, load_program, context):
    loaded = load_program(shop.order, key="order_id")
    output = loaded.step("Paid", {"order_id": "o1", "total": 5, "lines": []}, order_id="o1", context=context)
    assert output.state is None
    assert output.events == [Emit("com.acme/Shipped@1", encode({"order_id": "o1"}), None)]
    assert decode(output.ann) == {"at": context.now_ns}


def test_a_bare_state_is_a_step(load_app):
    loaded = load_app(reducer_that("return Order(event.order_id, 7)"))
    assert loaded.state("Placed", order_id="o1", amount=1) == {"order_id": "o1", "total": 7, "lines": []}


def test_changing_the_given_state_stays_inside_the_step(load_app):
    loaded = load_app(reducer_that("state.lines.append('x')\nreturn Order('new')"))
    state = {"order_id": "o1", "total": 1, "lines": []}
    first = loaded.step("Placed", state, order_id="o1", amount=1)
    assert loaded.step("Placed", state, order_id="o1", amount=1) == first


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("pass", "returned_nothing", "Step.delete()"),
        ("return Step(None)", "returned_nothing", "Step.delete()"),
        ("return event", "state_invalid", "expected Order, got Placed"),
        ("return 7", "state_invalid", "expected Order, got the integer 7"),
        ("return Order(7)", "state_invalid", "order_id: expected text, got the integer 7"),
        ("return Order('o', 1, [1])", "state_invalid", "lines[0]: expected text"),
        ("return Order('o', 1 << 70)", "state_invalid", "total"),
        ("return Step(Order('o'), emit=Shipped('o'))", "emit_not_a_list", "a list of events, not a Shipped"),
        ("return Step(Order('o'), emit={Shipped('o')})", "emit_not_a_list", "not a set"),
        ("return Step(Order('o'), cancel='t')", "cancel_not_a_list", "a list of keys, not a str"),
        ("return Step(Order('o'), cancel={'t'})", "cancel_not_a_list", "not a set"),
        ("return Step(Order('o'), cancel=['t', 7])", "cancel_not_a_list", "cancel[1] is a int, not a key"),
        ("return Step(Order('o'), emit=[7])", "event_invalid", "emit[0] is a int"),
        (
            "return Step(Order('o'), emit=[Paid('a'), Paid(1)])",
            "event_invalid",
            "emit[1]: com.acme/Paid@1 $.order_id",
        ),
        ("return Step(Order('o'), emit=[Shipped('o')])", "emit_unknown", "com.acme/Shipped@1"),
        ("return Step(Order('o'), reply=object())", "value_invalid", "reply"),
        ("return Step(Order('o'), ann=float('nan'))", "value_invalid", "ann"),
        ("return Step(Order('o'), effects=Effect('timer.set'))", "effect_invalid", "a list of requests"),
        ("return Step(Order('o'), effects=['timer.set'])", "effect_invalid", "effects[0]"),
        ("return Step(Order('o'), effects=[Effect('timer.set')])", "effect_undeclared", "ask for nothing"),
        ("raise SystemExit(3)", "exception", "SystemExit: 3 (shop/orders.py"),
        ("raise GeneratorExit", "exception", "GeneratorExit (shop/orders.py"),
        ("return order(state, event)", "recursion", "maximum recursion depth exceeded (shop/orders.py"),
        ("raise KeyError('x')", "exception", "KeyError: 'x' (shop/orders.py:7 in order)"),
        ("return {}['x']", "exception", "KeyError: 'x' (shop/orders.py:7 in order)"),
    ],
)
def test_a_step_that_misbehaves_is_a_fault_naming_what_and_where(load_app, body, code, words):
    fault = fault_of(load_app(reducer_that(body)))
    assert fault.code == f"modules.{code}"
    assert words in fault.text
    assert not fault.timed_out


def test_a_fault_names_the_innermost_lines_of_the_author(load_app):
    loaded = load_app(
        HEAD
        + """
import json

class Ledger:
    def parse(self, text):
        return json.loads(text)

def order(state: Order | None, event: Placed) -> Order:
    return Ledger().parse("{")
"""
    )
    fault = fault_of(loaded)
    assert fault.text.startswith("JSONDecodeError: Expecting property name")
    assert fault.text.endswith("(shop/orders.py:10 in Ledger.parse, called at shop/orders.py:13 in order)")


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError('x' * 10_000_000)",
        "raise ValueError(f'{object()} and {order}')",
        "raise ValueError('\\udc80 alone')",
        "class Odd(Exception):\n    def __str__(self): raise RuntimeError\nraise Odd",
    ],
    ids=["huge", "addresses", "surrogate", "broken"],
)
def test_the_text_of_a_fault_is_short_and_the_same_each_time(load_app, body):
    loaded = load_app(reducer_that(body))
    fault = fault_of(loaded)
    assert fault.text == fault_of(loaded).text
    assert len(fault.text) < ERROR_TEXT_MAX
    assert encode(fault.text)
    assert "0x" not in fault.text
    assert "/tmp" not in fault.text
    assert "cellule_bundle" not in fault.text


def test_a_recursion_is_described_the_same_at_any_depth_of_the_caller(load_app):
    loaded = load_app(reducer_that("return order(state, event)"))

    def deeper(levels):
        return fault_of(loaded) if levels == 0 else deeper(levels - 1)

    assert deeper(0).text == deeper(100).text


def test_printing_is_allowed_and_changes_nothing(load_app, capsys):
    loaded = load_app(reducer_that("print('stepping')\nreturn Order('o')"))
    assert loaded.state("Placed", order_id="o1", amount=1)["order_id"] == "o"
    assert capsys.readouterr().out == "stepping\n"


def test_an_event_the_module_does_not_take_is_a_fault(shop, load_program):
    fault = fault_of(load_program(shop.order, key="order_id"), "com.acme/Shipped@1", order_id="o1")
    assert fault.code == "modules.event_not_taken"


def test_bytes_that_do_not_fit_the_schema_are_a_fault(shop, load_program):
    loaded = load_program(shop.order, key="order_id")
    assert fault_of(loaded, "Placed", order_id=7, amount=1).code == "modules.input_invalid"


def test_emitted_events_keep_their_order_and_explicit_keys(load_app):
    loaded = load_app(
        HEAD
        + """
from uuid import UUID

@reducer(emits=[Shipped])
def order(state: Order | None, event: Placed) -> Step[Order]:
    keys = ["text", b"bytes", 7, UUID(int=1)]
    keyed = [Keyed(Shipped(str(at)), key) for at, key in enumerate(keys)]
    return Step(Order("o"), emit=[Shipped("plain"), *keyed])
"""
    )
    events = loaded.step("Placed", order_id="o1", amount=1).events
    assert [decode(event.value)["order_id"] for event in events] == ["plain", "0", "1", "2", "3"]
    assert [event.key for event in events] == [None, b"text", b"bytes", encode(7), encode(bytes(15) + b"\1")]


def test_an_event_of_a_known_schema_needs_no_declaration(load_app):
    loaded = load_app(reducer_that("return Step(Order('o'), emit=(Paid('o') for _ in range(2)))"))
    events = loaded.step("Placed", order_id="o1", amount=1).events
    assert [event.schema for event in events] == ["com.acme/Paid@1"] * 2


def test_events_of_the_system_are_taken_but_not_emitted(load_app):
    source = """
from cellule.modules.python import Step, StepFailed, reducer
from shop.models import Order

def order(state: Order | None, event: StepFailed) -> Step[Order]:
    return Step(Order(event.code, event.height), emit=[event] if event.text == "emit" else [])
"""
    loaded = load_app(source)
    failed = {"module": "com.acme/x", "key": b"", "height": 3, "cause": 2, "code": "some.code", "text": ""}
    output = loaded.step("sys/StepFailed@1", **failed)
    assert decode(output.state) == {"order_id": "some.code", "total": 3, "lines": []}
    fault = fault_of(loaded, "sys/StepFailed@1", **{**failed, "text": "emit"})
    assert fault.code == "modules.emit_unknown"
    assert "own" in fault.text


def test_effects_carry_encoded_parameters(load_app):
    loaded = load_app(
        reducer_that(
            "return Step(Order('o'), effects=[Effect('timer.set', {'after_ns': 5}, idempotency_key='k')])"
        ),
        options=ModuleOptions(effects_emitted=("timer.set",)),
    )
    (effect,) = loaded.step("Placed", order_id="o1", amount=1).effects
    assert (effect.kind, decode(effect.params), effect.idempotency_key) == ("timer.set", {"after_ns": 5}, "k")


def test_an_undeclared_reply_may_be_a_record_or_plain_values(load_app):
    loaded = load_app(reducer_that("return Step(Order('o'), reply=event if event.amount else [1, 'two'])"))
    assert decode(loaded.step("Placed", order_id="o1", amount=1).reply) == {"order_id": "o1", "amount": 1}
    assert decode(loaded.step("Placed", order_id="o1", amount=0).reply) == [1, "two"]


def test_a_declared_reply_is_checked(load_app):
    source = f"{HEAD}\n@reducer(reply=int)\ndef order(state: Order | None, event: Placed) -> Step[Order]:\n"
    loaded = load_app(source + "    return Step(Order('o'), reply='seven')")
    fault = fault_of(loaded)
    assert fault.code == "modules.value_invalid"
    assert "reply" in fault.text


@pytest.mark.parametrize(
    ("annotation", "value", "wire"),
    [
        ("int", "7", 7),
        ("list[int]", "[*(state or []), 1]", [1]),
        ("Order | Placed", "Placed('o', 1)", {"$tag": "Placed", "$value": {"order_id": "o", "amount": 1}}),
        ("dict[str, int]", "{'a': 1}", {"a": 1}),
    ],
)
def test_a_state_need_not_be_a_record(load_app, annotation, value, wire):
    source = (
        f"{HEAD}\ndef order(state: {annotation} | None, event: Placed) -> {annotation}:\n    return {value}"
    )
    loaded = load_app(source)
    assert loaded.module.state == "com.acme/orderState@1"
    assert loaded.state("Placed", order_id="o1", amount=1) == wire


def test_a_variant_that_wraps_events_is_unwrapped_before_the_call(shop, load_program, context):
    from cellule.kernel.manifest.load import load_manifest
    from cellule.kernel.need import Nodes, drive
    from cellule.modules.python import PythonPrograms, describe, manifest_document

    description = describe(shop.order, namespace="com.acme")
    document = manifest_document([description])
    document["schemas"]["com.acme/AnyOrder@1"] = {
        "variant": {"Placed": {"ref": "com.acme/Placed@1"}, "Paid": {"ref": "com.acme/Paid@1"}}
    }
    document["modules"]["com.acme/order@1"]["event"] = "com.acme/AnyOrder@1"
    manifest = load_manifest(document)
    programs = PythonPrograms(limit_s=None)
    nodes = Nodes(0)
    walk = programs.program(manifest, manifest.modules["com.acme/order"], nodes)
    program = drive(walk, nodes, lambda cids: {cid: description.blocks[cid] for cid in cids})
    wrapped = encode({"$tag": "Placed", "$value": {"order_id": "o1", "amount": 4}})
    output = program.step(None, "com.acme/AnyOrder@1", wrapped, b"", context)
    assert decode(output.state)["total"] == 4


def test_a_live_function_runs_without_a_bundle_and_names_its_file(load_program):
    def order(state: int | None, event: Number) -> int:
        return 10 // event.by + (state or 0)

    loaded = load_program(order, live=True)
    assert decode(loaded.step("Number", by=5).state) == 2
    with pytest.raises(StepFault) as caught:
        loaded.step("Number", by=0)
    assert "test_program.py:" in caught.value.text
    assert sys.prefix not in caught.value.text
    assert loaded.description.blocks == {}


def test_live_code_is_unknown_to_other_programs(load_program):
    from cellule.kernel.need import Nodes, drive
    from cellule.modules.python import PythonPrograms

    def order(state: int | None, event: Number) -> int:
        return 1

    loaded = load_program(order, live=True)
    nodes = Nodes(0)
    with pytest.raises(Rejected) as caught:
        drive(PythonPrograms().program(loaded.manifest, loaded.module, nodes), nodes, lambda _: {})
    assert caught.value.code == "modules.not_live"


REFUSES = "from cellule import Refuse, Refused"


@pytest.mark.parametrize(
    ("body", "reason", "code"),
    [
        ("return Refuse('sold out')", "sold out", "refused"),
        ("return Refuse('sold out', code='shop.none')", "sold out", "shop.none"),
        ("raise Refused('sold out')", "sold out", "refused"),
        ("raise Refused('sold out', code='shop.none')", "sold out", "shop.none"),
        ("class Out(Refused):\n    pass\nraise Out('sold {out} 0x12')", "sold {out} 0x12", "refused"),
        ("return Step(Order('x'), emit=(1 / 0 for _ in [refuse()]))", "late", "refused"),
    ],
)
def test_a_refusal_is_told_apart_from_a_failure(load_app, body, reason, code):
    late = "def refuse():\n    raise Refused('late')\n"
    found = fault_of(load_app(reducer_that(f"{REFUSES}\n{late}{body}")))
    assert isinstance(found, StepRefusal)
    assert (found.text, found.code) == (reason, code)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("return Refuse(5)", "kernel.refusal_invalid"),
        ("raise Refused(None)", "kernel.refusal_invalid"),
        ("return Refuse", "modules.state_invalid"),
        ("return Step(Refuse('inside'))", "modules.state_invalid"),
        ("return None", "modules.returned_nothing"),
        ("from cellule import Rejected\nraise Rejected('a.b', 'of another kind')", "modules.exception"),
    ],
)
def test_what_only_looks_like_a_refusal_is_a_failure(load_app, body, code):
    found = fault_of(load_app(reducer_that(f"{REFUSES}\n{body}")))
    assert not isinstance(found, StepRefusal)
    assert found.code == code
