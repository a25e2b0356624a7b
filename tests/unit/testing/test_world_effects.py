"""`testing.World`: effects are held until the test answers them."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from cellule import App, Receipt, Step, TimerFired
from cellule.app.effects import timer
from cellule.app.rules import rule
from cellule.effects.outcomes import Failed, Later, Retry
from cellule.errors import InvariantBroken, Rejected, TimedOut
from cellule.testing import Recording, simulate_app


class Charge(msgspec.Struct, frozen=True):
    order: str
    cents: int


class Charged(msgspec.Struct, frozen=True):
    id: str


class Order(msgspec.Struct, frozen=True):
    status: str
    charge: str = ""
    reminders: int = 0


class Placed(msgspec.Struct, frozen=True):
    order: str
    cents: int


def make_shop(*, approve_over: int | None = None) -> App:
    app = App("shop")
    app.event(key="order")(Placed)
    charge = app.effect("shop.charge", params=Charge, receipt=Charged, attempts=3)
    if approve_over is not None:
        app.policy(rule(when=f"effect.params.cents > {approve_over}", then="require_approval", reason="much"))

    def order(state: Order | None, event: Placed | Receipt[Charged] | TimerFired) -> Step[Order]:
        match event:
            case Placed(order=name, cents=cents):
                ask = [charge(Charge(name, cents)), timer(after=timedelta(days=3), key="remind")]
                return Step(Order("placed"), effects=ask)
            case Receipt(status="ok", value=Charged(id=found)):
                return Step(Order("paid", found, state.reminders))
            case Receipt():
                return Step(Order(event.status, event.code or "", state.reminders))
            case TimerFired():
                return Step(Order(state.status, state.charge, state.reminders + 1))

    app.reducer(effects=[charge, timer])(order)
    return app


@pytest.fixture
def world(make_world):
    return make_world(make_shop(), live=True)


def placed(world, name="o1", cents=30):
    sent = world.send(Placed(name, cents))
    assert sent.applied
    [intent] = [each for each in world.intents.of("shop.charge") if each.params.order == name]
    return intent


def test_requests_are_held_with_typed_params(world):
    intent = placed(world)
    assert (intent.kind, intent.params, intent.status) == ("shop.charge", Charge("o1", 30), "open")
    assert intent.cell == ("shop/order", "o1")
    assert [each.kind for each in world.intents] == ["shop.charge", "timer.set"]
    assert world.intents.of("timer.set")[0].due == world.now + timedelta(days=3)
    assert world.state("order", "o1") == Order("placed")


def test_a_sent_event_tells_what_its_steps_asked_for(world):
    sent = world.send(Placed("o1", 30))
    assert [kind for kind, _ in sent.effects] == ["shop.charge", "timer.set"]
    assert sent.effects[0][1] == Charge("o1", 30)


def test_a_completed_request_reaches_its_cell(world):
    world.complete(placed(world), Charged("c-1"))
    assert world.state("order", "o1") == Order("paid", "c-1")
    assert world.effects[0].status == "ok"


def test_a_failed_and_a_late_request_reach_their_cells(world):
    first, second = placed(world, "o1"), placed(world, "o2")
    world.time_out(second)
    world.fail(first, "bank.closed", "closed")
    assert world.state("order", "o1") == Order("failed", "bank.closed")
    assert world.state("order", "o2") == Order("timeout", "effects.timeout")


def test_a_receipt_may_take_its_time(world):
    intent = placed(world)
    world.complete(intent, Charged("c-1"), after=timedelta(hours=5))
    world.advance(hours=4)
    assert world.state("order", "o1").status == "placed"
    world.advance(hours=2)
    assert world.state("order", "o1").status == "paid"


def test_time_fires_timers_and_delayed_receipts_in_their_order(world):
    world.complete(placed(world), Charged("c-1"), after=timedelta(days=4))
    world.advance(days=365)
    history = [step.event for step in world.cell("order", "o1").history()]
    assert [type(each).__name__ for each in history] == ["Placed", "TimerFired", "Receipt"]


def test_a_repeated_receipt_is_refused_and_changes_nothing(world):
    intent = placed(world)
    world.complete(intent, Charged("c-1"))
    assert world.repeat(intent).code == "kernel.receipt_late"
    assert world.state("order", "o1") == Order("paid", "c-1")
    assert world.cell("order", "o1").version == 2


def test_a_value_of_the_wrong_class_is_refused_before_it_is_sent(world):
    intent = placed(world)
    with pytest.raises(Rejected):
        world.complete(intent, {"id": 7})
    assert world.intents.of("shop.charge") == [intent]


def test_nothing_can_be_repeated_that_was_never_answered(world):
    with pytest.raises(Rejected, match="has had no receipt"):
        world.repeat(placed(world))


def test_a_cancelled_request_tells_its_cell(world):
    world.cancel(placed(world), why="never mind")
    assert world.state("order", "o1").status == "cancelled"


def test_a_kind_can_answer_itself(world):
    placed(world, "o0")
    world.on("shop.charge", lambda params: Charged(f"auto-{params.order}"))
    assert world.state("order", "o0").charge == "auto-o0"
    world.send(Placed("o1", 5))
    assert world.state("order", "o1").charge == "auto-o1"


@pytest.mark.parametrize("error", [Failed("bank.no", "no"), Retry("busy")])
def test_an_answer_may_fail(world, error):
    def answer(_):
        raise error

    world.on("shop.charge", answer)
    world.send(Placed("o1", 5))
    assert world.state("order", "o1").status == "failed"


class Look(msgspec.Struct, frozen=True):
    name: str


class Looked(msgspec.Struct, frozen=True):
    day: int


class Days(msgspec.Struct, frozen=True):
    seen: tuple[int, ...] = ()


def make_daily() -> App:
    """An app that asks, and asks again a day after each answer."""
    app = App("daily")
    app.event(key="name")(Look)
    ask = app.effect("daily.look", params=Look, receipt=Looked)

    def daily(state: Days | None, event: Look | Receipt[Looked] | TimerFired) -> Step[Days]:
        match event:
            case Receipt(value=Looked(day=day)):
                return Step(Days((*state.seen, day)), effects=[timer(after=timedelta(days=1))])
            case _:
                return Step(state or Days(), effects=[ask(Look("a"))])

    app.reducer(effects=[ask, timer])(daily)
    return app


@pytest.mark.parametrize("spans", [{"days": 10}, {"days": 9, "hours": 24}, {"seconds": 10 * 86_400}])
def test_answers_come_at_their_time_while_time_passes(make_world, spans):
    """They came when all the time had passed: two answers instead of eleven."""
    app = make_daily()
    world = make_world(app, live=True)
    begun = world.now
    world.on("daily.look", lambda _: Looked((world.now - begun).days))
    world.send(Look("a"))
    for name, count in spans.items():
        world.advance(**{name: count})
    assert world.state("daily", "a").seen == tuple(range(11))
    assert world.now - begun == timedelta(days=10)


def test_approvals_are_listed_approved_and_denied(make_world):
    world = make_world(make_shop(approve_over=100), live=True)
    first, second = placed(world, "o1", 500), placed(world, "o2", 700)
    assert [each.status for each in world.approvals] == ["parked", "parked"]
    world.approve(first)
    world.deny(second, why="too much")
    assert world.state("order", "o2") == Order("denied", "kernel.approval_denied")
    [left] = world.intents.of("shop.charge")
    world.complete(left, Charged("c-1"))
    assert world.state("order", "o1").status == "paid"


def test_requests_survive_a_restart(world):
    intent = placed(world)
    world.restart()
    world.complete(intent, Charged("c-1"))
    assert world.state("order", "o1").status == "paid"


def test_recorded_receipts_answer_another_world(make_world, tmp_path):
    first = make_world(make_shop(), live=True)
    for name, found in (("o1", "c-1"), ("o2", "c-2")):
        first.complete(placed(first, name), Charged(found))
    Recording.of(first).save(tmp_path / "charges")
    second = make_world(make_shop(), live=True)
    second.replay(Recording.load(tmp_path / "charges"))
    second.send(Placed("o2", 30))
    second.send(Placed("o1", 30))
    assert [second.state("order", name).charge for name in ("o1", "o2")] == ["c-1", "c-2"]
    third = make_world(make_shop(), live=True)
    third.replay(Recording.load(tmp_path / "charges"))
    third.send(Placed("o1", 31))
    assert third.state("order", "o1").status == "placed"


def test_a_file_that_is_no_recording_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"\x00")
    with pytest.raises(Rejected, match="no recording"):
        Recording.load(tmp_path / "x")


# Simulation


def only_known_states(world):
    for cell in world.cells("order"):
        assert cell.state.status in ("placed", "paid", "failed", "timeout", "denied")


def test_simulation_answers_loses_and_repeats_receipts():
    runs = simulate_app(
        make_shop(approve_over=50),
        [[Placed("o1", 10), Placed("o2", 90)], [Placed("o3", 60), Placed("o4", 5)]],
        answers={"shop.charge": lambda params, chance: Charged(f"c-{params.order}-{chance.below(10)}")},
        check=only_known_states,
        seeds=range(15),
        live=True,
    )
    assert len({run.digest for run in runs}) == 15


def test_simulation_finds_a_check_that_effects_break():
    def never_paid(world):
        assert all(cell.state.status != "paid" for cell in world.cells("order"))

    with pytest.raises(InvariantBroken, match="it fails identically"):
        simulate_app(
            make_shop(),
            [Placed("o1", 10)],
            answers={"shop.charge": lambda params, chance: Charged("c")},
            check=never_paid,
            seeds=range(20),
            live=True,
        )


# Idempotency keys


class Paid(msgspec.Struct, frozen=True):
    order: str
    cents: int


class Watched(msgspec.Struct, frozen=True):
    order: str
    cents: int


class Heard(msgspec.Struct, frozen=True):
    status: str
    code: str = ""
    id: str = ""


def make_payments() -> App:
    """Two reducers that charge under one key; the policy lets only the cashier do so."""
    app = App("pay")
    app.event(key="order")(Paid)
    app.event(key="order")(Watched)
    charge = app.effect("pay.charge", params=Charge, receipt=Charged)
    app.policy(rule(when="module.name != 'pay/cashier@1'", then="deny", reason="cashiers only"))

    def cashier(_state: Heard | None, event: Paid | Receipt[Charged]) -> Step[Heard]:
        if isinstance(event, Paid):
            return Step(Heard("asked"), effects=[charge(Charge("", event.cents), key="k")])
        return Step(Heard(event.status, event.code or "", event.value.id if event.value else ""))

    def watcher(_state: Heard | None, event: Watched | Receipt[Charged]) -> Step[Heard]:
        if isinstance(event, Watched):
            return Step(Heard("asked"), effects=[charge(Charge("", event.cents), key="k")])
        return Step(Heard(event.status, event.code or "", event.value.id if event.value else ""))

    app.reducer(effects=[charge])(cashier)
    app.reducer(effects=[charge])(watcher)
    return app


def test_a_key_leads_no_denied_module_to_the_receipt_of_another(make_world):
    """Once a module that the policy denies got the other's receipt, with its value, by its key."""
    world = make_world(make_payments(), live=True)
    world.send(Paid("o1", 30))
    world.complete(world.intents.of("pay.charge")[0], Charged("secret"))
    world.send(Watched("o1", 30))
    assert world.state("cashier", "o1") == Heard("ok", id="secret")
    assert world.state("watcher", "o1") == Heard("denied", "kernel.policy_denied")


def test_a_key_that_is_used_for_another_request_is_denied(make_world):
    """Once 99,999 were reported as charged because 30 were."""
    world = make_world(make_payments(), live=True)
    world.send(Paid("o1", 30))
    world.complete(world.intents.of("pay.charge")[0], Charged("c-1"))
    world.send(Paid("o2", 99_999))
    world.send(Paid("o3", 30))
    assert world.state("cashier", "o2") == Heard("denied", "kernel.key_reused")
    assert world.state("cashier", "o3") == Heard("ok", id="c-1")


# Timers and effects that a cell takes back


class Reading(msgspec.Struct, frozen=True):
    device: str


class Switched(msgspec.Struct, frozen=True):
    device: str


class Device(msgspec.Struct, frozen=True):
    status: str
    readings: int = 0


def make_devices() -> App:
    app = App("iot")
    app.event(key="device")(Reading)
    app.event(key="device")(Switched)
    charge = app.effect("iot.charge", params=Charge, receipt=Charged)

    def device(
        state: Device | None, event: Reading | Switched | TimerFired | Receipt[Charged]
    ) -> Step[Device]:
        match event:
            case Reading(device=name):
                seen = state.readings if state else 0
                effects = [timer(after=timedelta(minutes=5), key="silence")]
                if not seen:
                    effects.append(charge(Charge(name, 1), key=name))
                return Step(Device("online", seen + 1), effects=effects)
            case Switched(device=name):
                return Step(Device("off", state.readings), cancel=["silence", name])
            case TimerFired():
                return Step(Device("silent", state.readings))
            case Receipt(status=status):
                return Step(Device(f"{state.status}, charge {status}", state.readings))

    app.reducer(effects=[charge, timer])(device)
    return app


def test_each_reading_replaces_the_timer_of_silence(make_world):
    world = make_world(make_devices(), live=True)
    for _ in range(10):
        world.send(Reading("d1"))
        world.advance(minutes=4)
    assert world.state("device", "d1") == Device("online", 10)
    assert len(world.intents.of("timer.set")) == 1
    world.advance(minutes=2)
    assert world.state("device", "d1") == Device("silent", 10)


def test_a_cell_cancels_its_timer_and_its_effect(make_world):
    world = make_world(make_devices(), live=True)
    world.send(Reading("d1"))
    [asked] = world.intents.of("iot.charge")
    world.send(Switched("d1"))
    assert list(world.intents) == []
    assert world.state("device", "d1") == Device("off, charge cancelled", 1)
    with pytest.raises(Rejected, match="not open"):
        world.complete(asked, Charged("late"))
    world.advance(days=1)
    assert world.state("device", "d1").status == "off, charge cancelled"


# Waiting


def test_a_wait_lets_time_pass_to_what_is_due(world):
    began = world.now
    placed(world)
    assert world.cell("order", "o1").wait_until("state.reminders == 1").reminders == 1
    assert world.now - began < timedelta(days=3, seconds=1)


def test_a_wait_lets_delayed_answers_come(world):
    world.complete(placed(world), Charged("c-1"), after=timedelta(hours=2))
    began = world.now
    found = world.cell("order", "o1").wait_until(lambda state: state is not None and state.charge == "c-1")
    assert found == Order("paid", "c-1")
    assert timedelta(hours=2) <= world.now - began < timedelta(hours=2, seconds=1)


def test_a_wait_for_what_never_comes_ends_and_names_the_cell(world):
    placed(world)
    began = world.now
    with pytest.raises(TimedOut) as error:
        world.cell("order", "o1").wait_until("state.status == 'paid'", timeout=3_600)
    assert error.value.code == "testing.wait_timeout"
    assert "shop/order 'o1'" in str(error.value)
    assert world.now == began, "nothing was due within the hour"
    with pytest.raises(TimedOut):
        world.cell("order", "o1").wait_until("state.status == 'paid'")
    assert world.state("order", "o1").reminders == 1


def test_a_world_with_an_effect_that_nobody_answers_is_not_idle(world):
    intent = placed(world)
    with pytest.raises(TimedOut) as error:
        world.wait_idle()
    assert error.value.code == "testing.idle_timeout"
    world.complete(intent, Charged("c-1"))
    world.wait_idle()


def test_cells_are_chosen_by_an_expression(world, caplog):
    for number in range(5):
        world.complete(placed(world, f"o{number}"), Charged(f"c-{number}"))
    placed(world, "p1")
    assert [cell.key for cell in world.cells("order", where="state.status == 'placed'")] == ["p1"]
    assert [cell.key for cell in world.cells("order", where="state.charge > 'c-2'", limit=1)] == ["o3"]
    assert [cell.key for cell in world.cells("order", where="version == 2", after="o3")] == ["o4"]
    with pytest.raises(Rejected, match="column 1"):
        world.cells("order", where="state.stats == 'placed'")
    assert [cell.key for cell in world.cells("order", where="1 / (version - 1) == 1", prefix="o0")] == ["o0"]
    assert caplog.records == []
    assert world.cells("order", where="1 / (version - 1) == 1", prefix="p") == []
    assert "shop/order 'p1'" in caplog.records[0].getMessage()


# Completion from outside


def test_a_request_waits_for_somebody_outside(world):
    intent = placed(world)
    token = world.hold(intent, timedelta(hours=2))
    [waiting] = world.intents.of("shop.charge")
    assert (waiting.status, waiting.due) == ("outside", world.now + timedelta(hours=2))
    world.complete(token, Charged("c-9"))
    assert world.state("order", "o1") == Order("paid", "c-9")
    with pytest.raises(Rejected, match="not open"):
        world.complete(token, Charged("c-10"))


def test_nobody_outside_completes_a_request_in_time(world):
    world.hold(placed(world), timedelta(hours=2))
    world.advance(hours=3)
    assert world.state("order", "o1") == Order("timeout", "effects.not_completed")


def test_an_answer_may_leave_a_request_to_others(world):
    def later(_params):
        raise Later(timeout_s=60)

    world.on("shop.charge", later)
    world.send(Placed("o1", 30))
    [waiting] = world.intents.of("shop.charge")
    assert waiting.status == "outside"
    world.fail(waiting.token, "bank.closed", "closed")
    assert world.state("order", "o1") == Order("failed", "bank.closed")


def test_a_token_of_another_world_names_nothing_here(world, make_world):
    other = make_world(make_shop(), live=True, seed=5)
    token = placed(other).token
    with pytest.raises(Rejected, match="not of an intent of this world"):
        world.complete(token, Charged("c"))


class Swept(msgspec.Struct, frozen=True):
    full: bool = False


class Sweeps(msgspec.Struct, frozen=True):
    count: int = 0


def test_a_schedule_is_triggered_and_made_up_for(make_world):
    app = App("sweep")
    app.event(Swept)
    app.schedule("nightly", cron="0 3 * * *", event=Swept(full=True), jitter=timedelta(minutes=5))

    def sweeps(state: Sweeps | None, _event: Swept) -> Sweeps:
        return Sweeps((state or Sweeps()).count + 1)

    app.reducer(keyed=False)(sweeps)
    world = make_world(app, live=True)
    world.trigger_schedule("nightly")
    assert world.state("sweeps") == Sweeps(1)
    world.backfill_schedule("nightly", world.now - timedelta(days=3), world.now)
    assert world.state("sweeps") == Sweeps(4)
    world.advance(days=2)
    assert world.state("sweeps").count in (5, 6)


def sweeping(**options):
    app = App("sweep")
    app.event(Swept)
    app.schedule("often", event=Swept(), **options)
    note = app.effect("sweep.note", params=Sweeps, receipt=Sweeps)

    def sweeps(state: Sweeps | None, event: Swept | Receipt[Sweeps]) -> Step[Sweeps]:
        if isinstance(event, Receipt):
            return Step(state or Sweeps())
        count = (state or Sweeps()).count + 1
        return Step(Sweeps(count), effects=[note(Sweeps(count))])

    app.reducer(keyed=False, effects=[note])(sweeps)
    return app


def test_a_backfill_goes_on_until_all_times_are_sent(make_world):
    """It stopped after the first 1,000 without a word; a node goes on."""
    app = App("sweep")
    app.event(Swept)
    app.schedule("often", every=timedelta(hours=1), event=Swept())

    def sweeps(state: Sweeps | None, _event: Swept) -> Sweeps:
        return Sweeps((state or Sweeps()).count + 1)

    app.reducer(keyed=False)(sweeps)
    world = make_world(app, live=True)
    world.backfill_schedule("often", world.now - timedelta(hours=1_500, minutes=-1), world.now)
    assert world.state("sweeps") == Sweeps(1_500)


def test_a_run_of_a_schedule_waits_until_its_cell_is_idle(make_world):
    world = make_world(sweeping(every=timedelta(hours=1), overlap="buffer"), live=True)
    world.advance(hours=4)
    assert world.state("sweeps") == Sweeps(1)
    [intent] = world.intents
    world.restart()
    world.complete(intent, Sweeps(1))
    assert world.state("sweeps") == Sweeps(2)
    [intent] = world.intents
    world.complete(intent, Sweeps(2))
    assert world.state("sweeps") == Sweeps(2)
    world.assert_replays()
