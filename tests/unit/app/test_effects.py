"""Apps and the outside: effects, adapters, timers, grants, policies and schedules as authors declare them."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest

import cellule
from cellule import App, Attempt, Effect, Receipt, Rejected, Secret, Step, TimerFired, rule, secret, timer
from cellule.app import standard_effects
from cellule.effects.adapter import adapter
from cellule.effects.http import HttpRequest, HttpResponse
from cellule.kernel.manifest.model import Grant, Rule, Schedule
from cellule.kernel.need import Nodes, drive
from cellule.modules.python import PythonPrograms, live_program
from cellule.values import decode, encode

DAY_NS = 86_400 * 10**9


class Placed(msgspec.Struct, frozen=True):
    order_id: str
    cents: int = 0


class Swept(msgspec.Struct, frozen=True):
    full: bool = False


class Order(msgspec.Struct, frozen=True):
    note: str = ""


class Charge(msgspec.Struct, frozen=True):
    order_id: str
    cents: int
    token: Secret | None = None


class Charged(msgspec.Struct, frozen=True):
    id: str


class Sent(msgspec.Struct, frozen=True):
    at: str


def new_app():
    app = App("shop")
    app.event(key="order_id")(Placed)
    app.event(Swept)
    return app


@pytest.fixture
def app():
    return new_app()


def first_step(app, event, reducer="order"):
    """What a live reducer of the app answers to its first event."""
    built = app.build(live=True)
    description = next(each for each in built.modules if each.name.startswith(f"shop/{reducer}@"))
    program = live_program(description, built.manifest, built.module(reducer))
    return program.step(None, *built.encode_event(event), b"", None)


# Effects


def test_a_declared_effect_is_called_to_make_a_request(app):
    charge = app.effect("payments.charge", params=Charge, receipt=Charged)
    asked = charge(Charge("o1", 5), key="o1", slot="stripe")
    assert asked == Effect("payments.charge", Charge("o1", 5), "stripe", "o1")
    assert repr(charge) == "<effect payments.charge>"


def test_a_reducer_asks_and_takes_the_receipt(app):
    charge = app.effect(
        "payments.charge", params=Charge, receipt=Charged, timeout_s=1.5, attempts=2, priority=1
    )

    @app.reducer(effects=[charge])
    def order(state: Order | None, event: Placed | Receipt[Charged]) -> Step[Order]:
        if isinstance(event, Placed):
            return Step(Order("asked"), effects=[charge(Charge(event.order_id, event.cents), key="k")])
        return Step(Order(event.status))

    manifest = app.build(live=True).manifest
    declared = manifest.effects["payments.charge"]
    assert (declared.params, declared.receipt) == ("shop/Charge@1", "shop/Charged@1")
    assert (declared.timeout_ns, declared.attempts, declared.priority) == (1_500_000_000, 2, 1)
    module = manifest.modules["shop/order"]
    assert module.effects_emitted == ("payments.charge",)
    assert set(module.events) == {"shop/Placed@1", "effect.payments/charge@1"}
    assert list(manifest.routes) == ["shop/Placed@1"]
    (effect,) = first_step(app, Placed("o1", 5)).effects
    assert (effect.kind, decode(effect.params)) == ("payments.charge", {"order_id": "o1", "cents": 5})


def test_an_adapter_declares_its_effect_and_is_given_to_the_host(app):
    @app.adapter("payments.charge", timeout_s=3, concurrency=2, needs_grant=False)
    async def charge(params: Charge, attempt: Attempt) -> Charged:
        return Charged(attempt.key)

    @app.reducer(effects=[charge])
    def order(state: Order | None, event: Placed | Receipt[Charged]) -> Step[Order]:
        return Step(Order(), effects=[charge(Charge("o1", 5), key="k")])

    built = app.build(live=True)
    assert dict(built.adapters) == {"payments.charge": charge}
    assert built.manifest.effects["payments.charge"].timeout_ns == 3 * 10**9
    assert first_step(app, Placed("o1")).effects[0].idempotency_key == "k"


def test_a_declared_effect_may_get_its_adapter_elsewhere(app):
    charge = app.effect("payments.charge", params=Charge, receipt=Charged, timeout_s=9)

    @app.adapter(charge, timeout_s=3)
    async def perform(params: Charge) -> Charged:
        return Charged("c")

    @app.reducer(effects=["payments.charge"])
    def order(state: Order | None, event: Placed | Receipt[Charged]) -> Step[Order]:
        return Step(Order())

    built = app.build(live=True)
    assert built.adapters["payments.charge"] is perform
    assert built.manifest.effects["payments.charge"].timeout_ns == 9 * 10**9


def test_an_adapter_that_is_only_listed_belongs_to_the_app_too(app):
    @adapter("mail.send")
    async def send(params: Charge) -> Sent:
        return Sent("now")

    @app.reducer(effects=[send])
    def order(state: Order | None, event: Placed) -> Step[Order]:
        return Step(Order(), effects=[send(Charge("o", 1))])

    assert dict(app.build(live=True).adapters) == {"mail.send": send}


def test_an_effect_that_no_reducer_lists_is_declared_all_the_same(app):
    app.effect("payments.charge", params=Charge, receipt=Charged)

    @app.reducer
    def order(state: Order | None, event: Placed) -> Order:
        return Order()

    manifest = app.build(live=True).manifest
    assert "payments.charge" in manifest.effects
    assert manifest.modules["shop/order"].effects_emitted == ()


def test_built_reads_and_writes_params_and_receipts(app):
    charge = app.effect("payments.charge", params=Charge, receipt=Charged)

    @app.reducer(effects=[charge, timer])
    def order(state: Order | None, event: Placed | Receipt[Charged] | TimerFired) -> Order:
        return Order()

    built = app.build(live=True)
    params = encode({"order_id": "o1", "cents": 5, "token": {"secret": "stripe"}})
    assert built.decode_params("payments.charge", params) == Charge("o1", 5, secret("stripe"))
    data = built.encode_receipt("payments.charge", Charged("c1"))
    assert built.decode_receipt("payments.charge", data) == Charged("c1")
    with pytest.raises(Rejected, match="id"):
        built.encode_receipt("payments.charge", Charged(7))
    with pytest.raises(Rejected, match=r"payments\.charge"):
        built.encode_receipt("payments.chrage", Charged("c1"))
    whole = {"intent_id": "b1", "kind": "payments.charge", "status": "ok", "value": {"id": "c1"}}
    read = Receipt("b1", "payments.charge", "ok", Charged("c1"))
    assert built.decode_event("effect.payments/charge@1", encode(whole)) == read
    assert built.event_from_json("effect.payments/charge@1", whole) == read
    assert built.event_to_json("effect.payments/charge@1", encode(whole)) == whole
    assert built.event_class("effect.payments/charge@1") is Receipt
    fired = encode({"intent_id": "b1", "due_ns": 1_000, "fired_ns": 2_000})
    assert built.decode_event("sys/TimerFired@1", fired).due == datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)


# Timers and built-in effects


def test_a_timer_is_set_after_a_time_or_at_one():
    assert timer(after=timedelta(days=3), key="x").params.after_ns == 3 * DAY_NS
    moment = datetime(1970, 1, 2, tzinfo=UTC)
    request = timer(at=moment)
    assert (request.kind, request.params.at_ns, request.params.after_ns) == ("timer.set", DAY_NS, None)
    assert timer(after=timedelta(0)).params.after_ns == 0


def test_a_reducer_with_a_timer_takes_it_when_it_fired(app):
    @app.reducer(effects=[timer])
    def order(state: Order | None, event: Placed | TimerFired) -> Step[Order]:
        return Step(Order(), effects=[timer(after=timedelta(hours=1), key="late")])

    manifest = app.build(live=True).manifest
    assert manifest.modules["shop/order"].effects_emitted == ("timer.set",)
    assert list(manifest.effects) == ["timer.set"]
    (effect,) = first_step(app, Placed("o1")).effects
    assert decode(effect.params) == {"after_ns": DAY_NS // 24, "key": "late"}


def adapters():
    """The adapters that come with Cellule."""
    from cellule.effects.blob.adapter import BlobGetAdapter, BlobPutAdapter
    from cellule.effects.http.adapter import HttpAdapter
    from cellule.effects.llm.adapter import LlmAdapter
    from cellule.effects.process.adapter import ProcessAdapter
    from cellule.effects.publish.adapter import NatsAdapter
    from cellule.effects.publish.options import NatsOptions

    nats = NatsAdapter(NatsOptions(("nats://127.0.0.1:4222",)))
    return [HttpAdapter(), LlmAdapter(), ProcessAdapter(), BlobPutAdapter, BlobGetAdapter, nats]


def test_every_built_in_effect_says_the_same_as_its_adapter():
    found = {each.kind: each for each in adapters()}
    declared = {effect.kind: effect for effect in (getattr(cellule, name) for name in standard_effects.NAMES)}
    assert set(declared) == {*found, "timer.set"} == set(standard_effects.KINDS)
    for kind, each in found.items():
        assert (each.params, each.receipt) == (declared[kind].params, declared[kind].receipt)
        for limit in ("timeout_s", "attempts", "priority", "needs_grant"):
            assert getattr(declared[kind].limits, limit) == getattr(each.limits, limit), (kind, limit)


def test_classes_of_built_in_effects_have_the_same_name_in_every_app(app):
    app.grant("web", effects=[cellule.http])

    @app.reducer(effects=[cellule.http], grants=["web"])
    def order(state: Order | None, event: Placed | Receipt[HttpResponse]) -> Step[Order]:
        return Step(Order(), effects=[cellule.http(HttpRequest(url="https://example.org"), slot="web")])

    manifest = app.build(live=True).manifest
    declared = manifest.effects["http.request"]
    assert (declared.params, declared.receipt) == (
        "cellule.http/HttpRequest@1",
        "cellule.http/HttpResponse@1",
    )
    assert declared.needs_grant
    assert decode(first_step(app, Placed("o1")).effects[0].params)["url"] == "https://example.org"


def test_importing_cellule_and_its_declarations_imports_no_driver():
    code = (
        "import sys, cellule\n"
        "for name in cellule.__all__:\n"
        "    if name not in ('open', 'open_sync', 'Options'): getattr(cellule, name)\n"
        "app = cellule.App('shop')\n"
        "drivers = {'httpx', 'nats', 'cryptography', 'asyncpg', 'obstore'}\n"
        "print(sorted(drivers & {name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Grants, policies, schedules


def test_a_grant_says_what_a_slot_may_do(app):
    charge = app.effect("payments.charge", params=Charge, receipt=Charged, needs_grant=True)
    stripe = app.grant(
        "stripe", effects=[charge], hosts=["api.stripe.com"], methods=["POST"], allow={"order_id": ["o*"]},
        bytes_max=500, budget=(100, timedelta(hours=1)), expires=datetime(1970, 1, 2, tzinfo=UTC),
        private=True,
    )  # fmt: skip

    @app.reducer(effects=[charge], grants={"pay": stripe, "same": "stripe"}, open_max=50)
    def order(state: Order | None, event: Placed) -> Step[Order]:
        return Step(Order(), effects=[charge(Charge("o1", 5), slot="pay")])

    manifest = app.build(live=True).manifest
    assert manifest.grants["stripe"] == Grant(
        "stripe", ("payments.charge",), ("api.stripe.com",), ("POST",), {"order_id": ("o*",)}, 500,
        (100, DAY_NS // 24, None), DAY_NS, True,
    )  # fmt: skip
    module = manifest.modules["shop/order"]
    assert (module.cap_slots, module.open_max) == ({"pay": "stripe", "same": "stripe"}, 50)
    assert first_step(app, Placed("o1")).effects[0].cap_slot == "pay"


def test_a_list_of_grants_names_the_slots_after_them(app):
    app.grant("a", effects=[timer])
    b = app.grant("b", effects=["timer.set"])

    @app.reducer(effects=[timer], grants=["a", b])
    def order(state: Order | None, event: Placed) -> Order:
        return Order()

    assert app.build(live=True).manifest.modules["shop/order"].cap_slots == {"a": "a", "b": "b"}


def test_a_policy_is_rules_in_their_order(app):
    app.policy(
        rule(
            when="effect.params.cents > 100",
            then="require_approval",
            reason="much",
            expires=timedelta(days=2),
        ),
        rule(when="module.name == 'x'", then="deny", name="no x"),
    )
    app.policy("reducers-micro-only", default="deny")

    @app.reducer
    def order(state: Order | None, event: Placed) -> Order:
        return Order()

    policy = app.build(live=True).manifest.policy
    assert policy.rules[:2] == (
        Rule("rule 1", "effect.params.cents > 100", "require_approval", "much", 2 * DAY_NS),
        Rule("no x", "module.name == 'x'", "deny"),
    )
    assert [each.name for each in policy.rules[2:]] == ["micro-effects of reducers", "reducers-micro-only"]
    assert policy.default == "deny"


def test_schedules_send_events_by_the_calendar_or_at_intervals(app):
    app.schedule("nightly", cron="0 3 * * *", zone="Europe/Berlin", event=Swept(full=True), catch_up="skip")
    start = datetime(1970, 1, 2, tzinfo=UTC)
    app.schedule(
        "often", every=timedelta(hours=1), start=start, event=Placed("o1"), catch_up="backfill", limit=3,
        overlap="skip", key="o1",
    )  # fmt: skip

    @app.reducer
    def order(state: Order | None, event: Placed) -> Order:
        return Order()

    @app.reducer(keyed=False)
    def sweep(state: Order | None, event: Swept) -> Order:
        return Order()

    assert app.build(live=True).manifest.schedules == {
        "nightly": Schedule(
            "nightly", "0 3 * * *", "Europe/Berlin", None, None, "shop/Swept@1", encode({"full": True}), None,
            "skip", 0, "allow",
        ),
        "often": Schedule(
            "often", None, "UTC", DAY_NS // 24, DAY_NS, "shop/Placed@1",
            encode({"order_id": "o1", "cents": 0}), b"o1", "backfill", 3, "skip",
        ),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("key", "data"),
    [("k", b"k"), (b"k", b"k"), (7, encode(7)), (UUID(int=7), encode(UUID(int=7).bytes))],
)
def test_the_key_of_a_schedule_is_written_as_an_author_has_it(app, key, data):
    ping = msgspec.defstruct("Ping", [("at", type(key))], frozen=True)
    app.event(key="at")(ping)
    app.schedule("ping", every=timedelta(hours=1), event=ping(key), key=key)

    def pings(state, event): ...

    pings.__annotations__ = {"state": Order | None, "event": ping, "return": Order}
    app.reducer(pings)
    assert app.build(live=True).manifest.schedules["ping"].key == data


def test_a_declaration_after_a_build_is_seen_by_the_next(app):
    @app.reducer
    def order(state: Order | None, event: Placed) -> Order:
        return Order()

    before = app.build(live=True)
    app.effect("payments.charge", params=Charge, receipt=Charged)
    app.grant("stripe", effects=["payments.charge"])
    app.policy("reducers-micro-only")
    app.schedule("often", every=timedelta(hours=1), event=Placed("o1"))
    after = app.build(live=True)
    assert after.manifest.cid != before.manifest.cid
    assert "payments.charge" in after.manifest.effects


# Files


ADAPTERS = """
    import os
    import random
    import time

    import httpx
    import msgspec
    from cellule import Attempt
    from shop.base import app

    class Charge(msgspec.Struct, frozen=True):
        order_id: str

    class Charged(msgspec.Struct, frozen=True):
        id: str

    @app.adapter("payments.charge")
    async def charge(params: Charge, attempt: Attempt) -> Charged:
        print(time.time(), os.environ, random.random())
        async with httpx.AsyncClient() as client:
            await client.post("https://example.org")
        return Charged(params.order_id)
"""
ORDERS = """
    from datetime import timedelta

    import msgspec
    from cellule import Receipt, Step, TimerFired, timer
    from shop.adapters import Charge, Charged, charge
    from shop.base import app

    @app.event(key="order_id")
    class Placed(msgspec.Struct, frozen=True):
        order_id: str

    class Order(msgspec.Struct, frozen=True):
        note: str

    @app.reducer(effects=[charge, timer])
    def order(state: Order | None, event: Placed | Receipt[Charged] | TimerFired) -> Step[Order]:
        match event:
            case Placed(order_id=order_id):
                late = timer(after=timedelta(days=3), key="late")
                return Step(Order("asked"), effects=[charge(Charge(order_id), key=order_id), late])
            case Receipt(ok=True, value=Charged(id=id)):
                return Step(Order(f"paid {id}"))
            case Receipt(status=status):
                return Step(Order(status))
            case TimerFired(key=key):
                return Step(Order(key or ""))
"""
PACKAGE = {
    "shop/__init__.py": "from shop.base import app\nfrom shop import orders\n",
    "shop/base.py": "from cellule import App\napp = App('shop')\n",
    "shop/adapters.py": ADAPTERS,
    "shop/orders.py": ORDERS,
}


@pytest.fixture
def bundled():
    """The program of a built app's reducer, loaded from its blocks."""
    opened = []

    def load(built, base):
        programs = PythonPrograms()
        opened.append(programs)
        nodes = Nodes(0)
        loading = programs.program(built.manifest, built.manifest.modules[base], nodes)
        return drive(loading, nodes, lambda cids: {cid: built.blocks[cid] for cid in cids})

    yield load
    for programs in opened:
        programs.close()


def test_adapters_beside_reducers_may_use_anything_and_reducers_run_from_the_bundle(project, bundled):
    shop = project(PACKAGE, "shop")
    built = shop.app.build()
    assert not built.live
    program = bundled(built, "shop/order")
    asked = program.step(None, *built.encode_event(shop.orders.Placed("o1")), b"o1", None)
    assert [each.kind for each in asked.effects] == ["payments.charge", "timer.set"]
    data = built.encode_receipt("payments.charge", shop.adapters.Charged("c1"))
    receipt = {"intent_id": "b1", "kind": "payments.charge", "status": "ok", "value": decode(data)}
    paid = program.step(asked.state, "effect.payments/charge@1", encode(receipt), b"o1", None)
    assert decode(paid.state) == {"note": "paid c1"}
    assert list(built.adapters) == ["payments.charge"]


def test_what_a_reducer_itself_uses_is_still_looked_at(project):
    files = {**PACKAGE, "shop/orders.py": ORDERS.replace('Order("asked")', "Order(str(time.time()))")}
    files["shop/orders.py"] = files["shop/orders.py"].replace(
        "import msgspec", "import time\n    import msgspec", 1
    )
    with pytest.raises(Rejected) as caught:
        project(files, "shop").app.build()
    assert caught.value.code == "modules.nondeterministic"
    assert "orders.py" in str(caught.value)
    assert "adapters.py" not in str(caught.value)


def test_an_async_function_that_is_no_adapter_is_looked_at(project):
    helper = ADAPTERS.replace('    @app.adapter("payments.charge")\n', "")
    orders = """
        import msgspec
        from shop.adapters import charge
        from shop.base import app

        @app.event(key="order_id")
        class Placed(msgspec.Struct, frozen=True):
            order_id: str

        class Order(msgspec.Struct, frozen=True):
            note: str

        @app.reducer
        def order(state: Order | None, event: Placed) -> Order:
            charge(event).close()
            return Order("x")
    """
    with pytest.raises(Rejected) as caught:
        project({**PACKAGE, "shop/adapters.py": helper, "shop/orders.py": orders}, "shop").app.build()
    assert caught.value.code == "modules.nondeterministic"
