"""Requests for effects and what comes back: typed params, receipts by type, clear faults."""

from __future__ import annotations

from textwrap import dedent

import msgspec
import pytest

from cellule.errors import Rejected
from cellule.kernel.manifest.load import load_manifest
from cellule.modules.python import TIMER, EffectForm, ModuleOptions, describe, manifest_document
from cellule.values import decode, encode

MODELS = """
    from __future__ import annotations

    import msgspec
    from cellule.modules.python import EffectForm

    class Placed(msgspec.Struct, frozen=True):
        order_id: str

    class Order(msgspec.Struct, frozen=True):
        note: str

    class Charge(msgspec.Struct, frozen=True):
        cents: int

    class Charged(msgspec.Struct, frozen=True):
        id: str

    class Mail(msgspec.Struct, frozen=True):
        to: str

    class Sent(msgspec.Struct, frozen=True):
        at: str

    CHARGE = EffectForm("payments.charge", Charge, Charged)
    REFUND = EffectForm("payments.refund", Charge, Charged)
    MAIL = EffectForm("mail.send", Mail, Sent)
"""
HEAD = """
    from __future__ import annotations

    from cellule.modules.python import Effect, Receipt, Step, TimerFired, TimerSet
    from cellule.modules.python.system import EffectReceiptRejected
    from shop.models import Charge, Charged, Mail, Order, Placed, Sent
"""


@pytest.fixture
def shop(import_app, load_program):
    """Load a reducer `order` with this annotation of its event and this body."""

    def load(events, body, *kinds):
        lines = "\n".join(f"    {line}" for line in dedent(body).strip().splitlines())
        source = f"{dedent(HEAD)}\ndef order(state: Order | None, event: {events}) -> Step[Order]:\n{lines}\n"
        files = {"shop/__init__.py": "", "shop/models.py": MODELS, "shop/orders.py": source}
        module = import_app(files, "shop.orders")
        models = __import__("shop.models").models
        forms = [getattr(models, kind) if kind != "TIMER" else TIMER for kind in kinds]
        return load_program(module.order, key={models.Placed: "order_id"}, effects=forms)

    return load


def receipt(kind, status="ok", **fields):
    return {"intent_id": "b123", "kind": kind, "status": status, **fields}


# Receipts


def test_a_receipt_reaches_the_reducer_with_its_typed_value(shop):
    loaded = shop(
        "Placed | Receipt[Charged]",
        """
        if isinstance(event, Receipt):
            assert event.ok and type(event.value) is Charged
            return Step(Order(f"{event.kind} {event.value.id} {event.key}"))
        return Step(Order("new"))
        """,
        "CHARGE",
    )
    assert set(loaded.module.events) == {"com.acme/Placed@1", "effect.payments/charge@1"}
    given = receipt("payments.charge", value={"id": "c1"}, key="o1")
    assert loaded.state("effect.payments/charge@1", **given) == {"note": "payments.charge c1 o1"}


def test_a_receipt_that_is_not_ok_has_a_reason_and_no_value(shop):
    loaded = shop(
        "Placed | Receipt[Charged]",
        "return Step(Order(f'{event.ok} {event.value} {event.status} {event.code} {event.text}'))",
        "CHARGE",
    )
    given = receipt("payments.charge", "denied", code="policy", text="too much")
    assert loaded.state("effect.payments/charge@1", **given) == {"note": "False None denied policy too much"}


def test_several_kinds_may_bring_the_same_class(shop):
    loaded = shop(
        "Placed | Receipt[Charged] | Receipt[Sent]",
        "return Step(Order(f'{event.kind} {event.value}'))",
        "CHARGE", "REFUND", "MAIL",
    )  # fmt: skip
    assert set(loaded.module.events) == {
        "com.acme/Placed@1", "effect.mail/send@1", "effect.payments/charge@1", "effect.payments/refund@1",
    }  # fmt: skip
    refund = receipt("payments.refund", value={"id": "r"})
    assert loaded.state("effect.payments/refund@1", **refund) == {"note": "payments.refund Charged(id='r')"}
    mail = receipt("mail.send", value={"at": "now"})
    assert loaded.state("effect.mail/send@1", **mail) == {"note": "mail.send Sent(at='now')"}


def test_receipts_are_delivered_without_a_subscription(shop):
    loaded = shop("Placed | Receipt[Charged] | TimerFired", "return Step(Order('x'))", "CHARGE", "TIMER")
    assert list(loaded.manifest.routes) == ["com.acme/Placed@1"]
    assert "sys/TimerFired@1" in loaded.module.events


def test_a_fired_timer_and_one_that_never_will_are_told_apart(shop):
    loaded = shop(
        "Placed | TimerFired | Receipt[TimerFired]",
        "return Step(Order(f'{type(event).__name__} {event.key}'))",
        "TIMER",
    )
    fired = {"intent_id": "b1", "due_ns": 5_000, "fired_ns": 6_000, "key": "late"}
    assert loaded.state("sys/TimerFired@1", **fired) == {"note": "TimerFired late"}
    cancelled = receipt("timer.set", "cancelled", key="k")
    assert loaded.state("effect.timer/set@1", **cancelled) == {"note": "Receipt k"}


def test_a_rejected_receipt_is_told_to_a_reducer_that_wants_to_know(shop):
    loaded = shop("Placed | EffectReceiptRejected", "return Step(Order(event.code))", "CHARGE")
    rejected = {"module": "m", "key": b"k", "intent_id": "b1", "kind": "a.b", "code": "c", "text": "t"}
    assert loaded.state("sys/EffectReceiptRejected@1", **rejected) == {"note": "c"}


def test_a_reducer_may_ask_without_taking_the_receipt(shop):
    loaded = shop(
        "Placed", "return Step(Order('x'), effects=[Effect('payments.charge', Charge(5))])", "CHARGE"
    )
    assert loaded.module.events == {"com.acme/Placed@1": None}
    assert loaded.module.effects_emitted == ("payments.charge",)


@pytest.mark.parametrize(
    ("events", "kinds", "code", "words"),
    [
        ("Placed | Receipt[Charged]", ["MAIL"], "receipt_unknown", "mail.send (Sent)"),
        ("Placed | Receipt[Charged]", [], "receipt_unknown", "no effect"),
        ("Placed | TimerFired", ["MAIL"], "receipt_unknown", "effects=[timer]"),
        ("Placed | Receipt", ["CHARGE"], "receipt_type", "Receipt[Charged]"),
        ("Placed | Receipt[int]", ["CHARGE"], "receipt_type", "Receipt[Charged]"),
        ("Receipt[Charged]", ["CHARGE"], "event_type", "never anything but a receipt"),
    ],
)
def test_a_receipt_that_could_never_come_is_refused_when_described(shop, events, kinds, code, words):
    with pytest.raises(Rejected) as caught:
        shop(events, "return Step(Order('x'))", *kinds)
    assert caught.value.code == f"modules.{code}"
    assert words in str(caught.value)


# Requests


def test_params_are_encoded_by_their_class_or_checked_as_plain_values(shop):
    loaded = shop(
        "Placed",
        """
        return Step(Order("x"), effects=[
            Effect("payments.charge", Charge(5), "slot", "key"),
            Effect("payments.charge", {"cents": 6}),
            Effect("timer.set", TimerSet(after_ns=7)),
        ])
        """,
        "CHARGE", "TIMER",
    )  # fmt: skip
    first, second, third = loaded.step("Placed", order_id="o").effects
    assert first[:4] == ("payments.charge", encode({"cents": 5}), "slot", "key")
    assert (decode(second.params), second.cap_slot, second.idempotency_key) == ({"cents": 6}, None, None)
    assert decode(third.params) == {"after_ns": 7}


@pytest.mark.parametrize(
    ("effect", "code", "words"),
    [
        ("Effect('payments.refund', Charge(5))", "effect_undeclared", "payments.charge"),
        ("Effect('payments.chrage', Charge(5))", "effect_undeclared", "Did you mean payments.charge?"),
        ("Effect(7, Charge(5))", "effect_undeclared", "asks for 7"),
        (
            "Effect('payments.charge', Mail('x'))",
            "params_type",
            "takes com.acme/Charge@1, not com.acme/Mail@1",
        ),
        ("Effect('payments.charge', Charge('x'))", "params_invalid", "cents"),
        ("Effect('payments.charge', {'cents': 'x'})", "params_invalid", "cents"),
        ("Effect('payments.charge', {'cent': 5})", "params_invalid", "cent"),
        ("Effect('payments.charge')", "params_invalid", "cents"),
        ("Effect('payments.charge', object())", "params_invalid", "params of payments.charge"),
        ("Effect('payments.charge', Charge(5), slot)", "effect_invalid", "cap_slot"),
        ("Effect('payments.charge', Charge(5), None, '')", "effect_invalid", "idempotency_key"),
        ("Charge(5)", "effect_invalid", "effects[0] is a Charge"),
        ("charge", "effect_invalid", "call it with its params"),
    ],
)
def test_a_wrong_request_fails_the_step_and_says_what_is_declared(shop, effect, code, words):
    from cellule.kernel.program import StepFault

    body = f"slot = 7\nfrom shop.models import CHARGE as charge\nreturn Step(Order('x'), effects=[{effect}])"
    loaded = shop("Placed", body, "CHARGE")
    with pytest.raises(StepFault) as caught:
        loaded.step("Placed", order_id="o")
    assert caught.value.code == f"modules.{code}"
    assert words in caught.value.text


def test_a_kind_that_is_only_listed_takes_anything():
    class Placed(msgspec.Struct, frozen=True):
        order_id: str

    Placed.__qualname__ = "Placed"

    def order(state, event): ...

    order.__annotations__ = {"state": Placed | None, "event": Placed, "return": Placed}
    description = describe(
        order, namespace="com.acme", live=True, options=ModuleOptions(effects_emitted=("a.b",))
    )
    manifest = load_manifest(manifest_document([description]))
    assert manifest.effects["a.b"].params == "sys/Value@1"


# Descriptions


def test_a_description_declares_its_effects_with_their_limits(shop):
    loaded = shop("Placed", "return Step(Order('x'))", "CHARGE", "MAIL")
    assert set(loaded.manifest.effects) == {"mail.send", "payments.charge", "timer.set"}
    charge = loaded.manifest.effects["payments.charge"]
    assert (charge.params, charge.receipt) == ("com.acme/Charge@1", "com.acme/Charged@1")
    assert (charge.timeout_ns, charge.attempts, charge.priority) == (0, 0, 5)


def test_slots_and_the_limit_of_open_intents_are_described(shop):
    loaded = shop("Placed", "return Step(Order('x'))", "CHARGE")
    options = ModuleOptions(cap_slots={"pay": "stripe"}, open_max=7)
    form = EffectForm(
        "payments.charge", *(getattr(__import__("shop.models").models, n) for n in ("Charge", "Charged"))
    )
    described = describe(loaded.description.function, namespace="com.acme", options=options, effects=[form])
    document = manifest_document([described])
    document["capabilities"] = {"stripe": {"effects": ["payments.charge"]}}
    module = load_manifest(document).modules["com.acme/order"]
    assert (module.cap_slots, module.open_max) == ({"pay": "stripe"}, 7)
