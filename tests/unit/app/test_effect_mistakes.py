"""Every common mistake with effects, grants, policies and schedules is refused with a way out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from cellule import App, Attempt, Receipt, Rejected, Step, TimerFired, http, rule, timer
from cellule.effects.adapter import AdapterLimits
from cellule.effects.http.adapter import HttpAdapter, HttpOptions


class Placed(msgspec.Struct, frozen=True):
    order_id: str
    cents: int = 0


class Swept(msgspec.Struct, frozen=True):
    full: bool = False


class Unregistered(msgspec.Struct, frozen=True):
    order_id: str


class Order(msgspec.Struct, frozen=True):
    note: str = ""


class Charge(msgspec.Struct, frozen=True):
    order_id: str


class Charged(msgspec.Struct, frozen=True):
    id: str


class Sent(msgspec.Struct, frozen=True):
    at: str


def new_app():
    app = App("shop")
    app.event(key="order_id")(Placed)
    app.event(Swept)
    app.effect("payments.charge", params=Charge, receipt=Charged)
    app.grant("stripe", effects=["payments.charge"])
    return app


def build(app, **options):
    @app.reducer(**options)
    def order(state: Order | None, event: Placed) -> Order:
        return Order()

    return app.build(live=True)


def taking(app, event, **options):
    """Build a reducer whose event has this annotation."""

    def order(state, event): ...

    order.__annotations__ = {"state": Order | None, "event": event, "return": Step[Order]}
    app.reducer(**options)(order)
    return app.build(live=True)


def perform(app, params, receipt, kind="payments.charge"):
    """Declare an adapter with these types."""

    async def pay(params, attempt): ...

    pay.__annotations__ = {"params": params, "attempt": Attempt, "return": receipt}
    return app.adapter(kind)(pay)


def scheduled(app, **options):
    app.schedule("nightly", **{"event": Placed("o1"), "cron": "0 3 * * *", **options})
    return build(app)


HOUR = timedelta(hours=1)
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - the mistake

MISTAKES = {
    # what is done, the code, words of the message
    "a kind of one part": (
        lambda app: app.effect("charge", params=Charge, receipt=Charged), "effects.kind", "payments.charge"),
    "an adapter without its kind": (
        lambda app: app.adapter(perform), "effects.kind", "payments.charge"),
    "a kind that is no text": (
        lambda app: app.adapter(5), "effects.kind", "5 is no kind"),
    "params that are no record": (
        lambda app: app.effect("a.b", params=int, receipt=Charged), "app.class", "the params of a.b"),
    "a receipt that is no record": (
        lambda app: app.effect("a.b", params=Charge, receipt=str), "app.class", "the receipt of a.b"),
    "no attempt": (
        lambda app: app.effect("a.b", params=Charge, receipt=Charged, attempts=0),
        "effects.limit", "attempts"),
    "a timer of one's own": (
        lambda app: app.effect("timer.set", params=Charge, receipt=Charged),
        "app.effect_reserved", "import timer"),
    "an adapter for timers": (
        lambda app: perform(app, Charge, Charged, "timer.set"), "app.effect_reserved", "import timer"),
    "one kind declared twice": (
        lambda app: app.effect("payments.charge", params=Charge, receipt=Sent), "app.name_taken", "Charged"),
    "two adapters of one kind": (
        lambda app: (perform(app, Charge, Charged), perform(app, Charge, Charged)),
        "app.name_taken", "adapter"),
    "an adapter of other classes": (
        lambda app: perform(app, Charge, Sent), "app.adapter_types", "same classes"),
    "one kind listed with two meanings": (
        lambda app: build(
            app, effects=[App("other").effect("payments.charge", params=Charge, receipt=Sent)]),
        "app.name_taken", "payments.charge"),
    "an unknown kind": (
        lambda app: build(app, effects=["payments.chrage"]), "app.effect_unknown", "payments.charge?"),
    "a kind like no other": (
        lambda app: build(app, effects=["mail.send"]), "app.effect_unknown", 'app.effect("mail.send"'),
    "effects that are no list": (
        lambda app: build(app, effects=timer), "app.option", "effects=[charge, timer]"),
    "effects that are a text": (lambda app: build(app, effects="timer.set"), "app.option", "effects=["),
    "a class listed as effect": (lambda app: build(app, effects=[Charge]), "app.option", "app.effect"),
    "a request listed as effect": (
        lambda app: build(app, effects=[timer(after=HOUR)]), "app.option", "app.effect"),
    "an effect called with other params": (
        lambda app: App("x").effect("a.b", params=Charge, receipt=Charged)(Charged("x")),
        "app.effect_params", "takes Charge"),
    "an effect called with plain values": (
        lambda app: App("x").effect("a.b", params=Charge, receipt=Charged)({"order_id": "x"}),
        "app.effect_params", "Charge(...)"),
    "a timer without a time": (lambda app: timer(), "app.timer_time", "neither is"),
    "a timer with two times": (
        lambda app: timer(after=HOUR, at=datetime.now(UTC)), "app.timer_time", "both are"),
    "a timer in seconds": (lambda app: timer(after=5), "app.option", "timedelta"),
    "a timer in the past": (lambda app: timer(after=-HOUR), "app.option", "not negative"),
    "a timer at a time without its zone": (lambda app: timer(at=NAIVE), "app.option", "tzinfo=UTC"),
    "a timer at a text": (lambda app: timer(at="tomorrow"), "app.option", "a datetime"),
    "a receipt of an effect that is not listed": (
        lambda app: taking(app, Placed | Receipt[Charged]), "modules.receipt_unknown", "effects=["),
    "a timer that is not listed": (
        lambda app: taking(app, Placed | TimerFired), "modules.receipt_unknown", "effects=[timer]"),
    "a receipt of nothing": (
        lambda app: taking(app, Placed | Receipt, effects=["payments.charge"]),
        "modules.receipt_type", "Receipt[Charged]"),
    "nothing but receipts": (
        lambda app: taking(app, Receipt[Charged], effects=["payments.charge"]),
        "modules.event_type", "first place"),
    "a negative number of open intents": (lambda app: build(app, open_max=-1), "app.option", "open_max"),
    "an unknown grant": (lambda app: build(app, grants=["strip"]), "app.grant_unknown", "stripe?"),
    "a grant like no other": (lambda app: build(app, grants=["web"]), "app.grant_unknown", 'app.grant("web"'),
    "grants that are a text": (lambda app: build(app, grants="stripe"), "app.option", 'grants=["stripe"]'),
    "grants that are a number": (lambda app: build(app, grants=3), "app.option", 'grants=["stripe"]'),
    "a grant without a name": (lambda app: build(app, grants=[None]), "app.option", "names"),
    "an effect that needs a grant": (
        lambda app: build(app, effects=[http]), "app.grant_missing", 'effects=["http.request"]'),
    "an adapter of other limits that needs a grant": (
        lambda app: build(app, effects=[HttpAdapter(HttpOptions(limits=AdapterLimits(concurrency=2)))]),
        "app.grant_missing", 'effects=["http.request"]'),
    "a grant for another effect": (
        lambda app: build(app, effects=[http], grants=["stripe"]), "app.grant_missing", "http.request"),
    "a grant of nothing": (lambda app: app.grant("a", effects=[]), "app.option", "at least one"),
    "a grant that has no name": (lambda app: app.grant("", effects=[timer]), "app.option", "a name"),
    "a grant declared twice": (
        lambda app: app.grant("stripe", effects=[timer]), "app.name_taken", "the grant 'stripe'"),
    "a grant of an unknown effect": (
        lambda app: (app.grant("a", effects=["pay.card"]), build(app)),
        "app.effect_unknown", "the grant 'a'"),
    "a budget without a time": (
        lambda app: app.grant("a", effects=[timer], budget=100), "app.option", "(100, timedelta(hours=1))"),
    "a budget of seconds": (
        lambda app: app.grant("a", effects=[timer], budget=(100, 60)), "app.option", "timedelta"),
    "a grant that ends without a zone": (
        lambda app: app.grant("a", effects=[timer], expires=NAIVE), "app.option", "time zone"),
    "a host with a scheme": (
        lambda app: (app.grant("a", effects=[timer], hosts=["https://a.org"]), build(app)),
        "manifest.grant_entry", "example.org"),
    "hosts that are a text": (
        lambda app: (app.grant("a", effects=[timer], hosts="a.org"), build(app)), "manifest.type", "a list"),
    "a pattern for what the params do not have": (
        lambda app: (app.grant("a", effects=["payments.charge"], allow={"url": ["*"]}), build(app)),
        "manifest.grant_path", "leads to no text"),
    "a rule that decides nothing": (lambda app: rule(when="true", then="maybe"), "app.option", "'deny'"),
    "a rule without a condition": (lambda app: rule(when="", then="deny"), "app.option", "CEL"),
    "a condition in Python": (lambda app: rule(when=lambda: True, then="deny"), "app.option", "CEL"),
    "a denial that expires": (
        lambda app: rule(when="true", then="deny", expires=HOUR), "app.option", "require_approval"),
    "a malformed condition": (
        lambda app: (app.policy(rule(when="effect.kind ==", then="deny")), build(app)),
        "manifest.policy_rule", "column"),
    "a condition on a field that does not exist": (
        lambda app: (app.policy(rule(when="effect.kid == 'x'", then="deny")), build(app)),
        "manifest.policy_rule", "kind"),
    "a policy that does not exist": (
        lambda app: (app.policy("reducers-mikro-only"), build(app)),
        "manifest.policy_unknown", "reducers-micro-only?"),
    "a policy that is a dict": (
        lambda app: app.policy({"when": "true", "then": "deny"}), "app.option", "rule(...)"),
    "a default that asks": (lambda app: app.policy(default="require_approval"), "app.option", "'allow'"),
    "two defaults": (
        lambda app: (app.policy(default="deny"), app.policy(default="allow")), "app.option", "one default"),
    "a schedule without a time": (lambda app: scheduled(app, cron=None), "app.schedule_time", "neither is"),
    "a schedule with two times": (lambda app: scheduled(app, every=HOUR), "app.schedule_time", "both are"),
    "a malformed cron": (lambda app: scheduled(app, cron="0 3 * *"), "manifest.schedule_cron", "field"),
    "an unknown zone": (lambda app: scheduled(app, zone="Berlin"), "manifest.schedule_cron", "Europe/Berlin"),
    "a schedule every zero": (
        lambda app: scheduled(app, cron=None, every=timedelta(0)), "app.option", "a longer one"),
    "a schedule in seconds": (lambda app: scheduled(app, cron=None, every=60), "app.option", "timedelta"),
    "a schedule that starts without a zone": (
        lambda app: scheduled(app, cron=None, every=HOUR, start=NAIVE), "app.option", "time zone"),
    "a schedule of a class": (lambda app: scheduled(app, event=Placed), "app.event_unknown", "Placed(...)"),
    "a schedule of what is no event": (
        lambda app: scheduled(app, event=Unregistered("x")), "app.event_unknown", "@app.event"),
    "a schedule that nobody takes": (
        lambda app: scheduled(app, event=Swept()), "manifest.schedule_route", "shop/Swept@1"),
    "a schedule of an unfit event": (
        lambda app: scheduled(app, event=Placed(7)), "schema.mismatch", "order_id"),
    "a catch-up that does not exist": (
        lambda app: scheduled(app, catch_up="all"), "app.option", "'backfill'"),
    "an overlap that does not exist": (lambda app: scheduled(app, overlap="wait"), "app.option", "'skip'"),
    "a limit without backfill": (lambda app: scheduled(app, limit=5), "manifest.unknown_field", "backfill"),
    "a schedule without a name": (
        lambda app: app.schedule("", event=Placed("o"), every=HOUR), "app.option", "a name"),
    "two schedules of one name": (
        lambda app: (scheduled(app), app.schedule("nightly", event=Placed("o"), every=HOUR)),
        "app.name_taken", "the schedule 'nightly'"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_a_code_and_a_way_out(mistake):
    act, code, words = MISTAKES[mistake]
    with pytest.raises(Rejected) as caught:
        act(new_app())
    assert (caught.value.code, words in str(caught.value)) == (code, True), str(caught.value)


def test_nothing_is_kept_of_a_refused_declaration():
    app = new_app()
    before = build(app).manifest.cid
    at_once = ("app.option", "app.class", "app.effect_reserved", "app.schedule_time", "app.adapter_types")
    for mistake, (act, code, _) in MISTAKES.items():
        if code in at_once and mistake != "two defaults":
            with pytest.raises(Rejected):
                act(app)
    assert app.build(live=True).manifest.cid == before
