"""Enzymes of an app: declared, run by signals, against the tree; each world here replays, also elsewhere."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import msgspec
import pytest

from cellule import FATAL, RETRY, App, EnzymeContext, Rejected, timer
from cellule.modules.python.watchdog import StepTimeout
from cellule.testing import World

app = App("lab")


class Photo(msgspec.Struct, frozen=True):
    width: int
    at: timedelta


@app.enzyme("/signals/image", match="prefix", after=["describe"], writes=["/photos"])
def shrink(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    assert target is not None
    size = ctx.read(target)["width"] // 2
    ctx.write(f"{target}/small", Photo(size, timedelta(seconds=1)))
    ctx.signal("/signals/done", target=f"{target}/small", payload=[size])


@app.enzyme("/signals/image/*")
def describe(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    ctx.write(f"{target}/names", ctx.list("/photos", limit=10))


@app.enzyme("/signals/twice")
@app.enzyme("/signals/done", name="note", access="rw")
def note(ctx: EnzymeContext, signal: str | None, target: str | None) -> int | None:
    ctx.write("/log/" + ctx.name, [signal, target, ctx.payload, ctx.beat, ctx.now_ns])
    return None


@app.enzyme("/odd")
def odd(ctx: EnzymeContext, signal: str | None, target: str | None) -> int | None:
    match ctx.payload:
        case "raise":
            raise ValueError("no luck")
        case "retry":
            return RETRY
        case "fatal":
            ctx.write("/odd/fatal", 1)
            return FATAL
        case "text":
            return "text"  # type: ignore[return-value]
        case "elsewhere":
            ctx.write("/rt/beat", 1)
        case "look":
            ctx.read("/rt/beat")
        case "report":
            ctx.report("info", "all is well")
        case "chance":
            ctx.write("/odd/chance", [str(ctx.uuid()), ctx.random.random(), str(ctx.world)])
    return 5


@app.enzyme("/swallow")
def swallow(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    found = []
    for name in ("a", "b", "c"):
        try:
            found.append(ctx.read(f"/photos/{name}"))
        except BaseException as error:  # noqa: BLE001 - what authors should not do
            found.append(type(error).__name__)
    ctx.write("/swallowed", found)


@app.enzyme("/sleep", effects=[timer])
def sleep(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    ctx.effect(timer(after=timedelta(hours=1)), then="/woken")


@app.enzyme("/woken")
def woken(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    ctx.write("/woken", [target, sorted(ctx.payload)])


@app.enzyme("/grow")
def grow(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    ctx.register("later", "/later", module="lab/note", before=["note"], retry_limit=3)
    ctx.bind("/photos", "later", propagate=True)
    ctx.unbind("/photos/b", "later")
    ctx.delete("/photos/a")


@pytest.fixture
def world():
    made = World(app, evict=True)
    for name in ("a", "b"):
        made.heartbeat.write(f"/photos/{name}", {"width": 8})
    made.heartbeat.bind("/photos", "shrink", propagate=True)
    made.heartbeat.bind("/photos", "describe", propagate=True)
    yield made
    made.assert_replays()
    made.close()


def run(world, signal, target=None, payload=None):
    world.signal(signal, target, payload=payload)
    return world.beat()


def test_enzymes_run_in_the_declared_order_and_their_work_shows_in_the_next_beat(world):
    world.signal("/signals/image/new", "/photos/a")
    (resolved,) = world.agenda()
    assert resolved.enzymes == ["describe", "shrink"]
    assert not world.heartbeat.exists("/photos/a/small")
    beat = world.beat()
    assert [(line.enzyme, line.code) for line in beat.agenda] == [("describe", 0), ("shrink", 0)]
    assert (beat.promoted, beat.impulses[0].signal) == (1, "/signals/image/new")
    assert world.heartbeat.read("/photos/a/small") == {"width": 4, "at": 1_000_000_000}
    assert world.heartbeat.read("/photos/a/names") == ["a", "b"]
    assert world.agenda()[0].enzymes == []


def test_one_function_under_two_decorators_is_two_entries(world):
    for signal in ("/signals/twice", "/signals/done"):
        assert [line.enzyme for line in run(world, signal, payload=1).agenda] == ["note"]
    assert world.heartbeat.read("/log/note")[:3] == ["/signals/done", None, 1]


def test_entries_keep_the_order_of_the_decorators():
    names = [(each["name"], each["query"]) for each in app.build().manifest.enzymes]
    assert names[:4] == [
        ("shrink", "/signals/image"), ("describe", "/signals/image/*"), ("note", "/signals/twice"),
        ("note", "/signals/done"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("payload", "code", "text"),
    [
        (None, 5, ""), ("retry", -1, ""), ("fatal", -2, ""), ("raise", -2, "no luck"),
        ("text", -2, "returns None"),
        ("elsewhere", -2, "cannot be written"), ("look", -2, "cannot be read"), ("report", 5, ""),
        ("chance", 5, ""),
    ],
)  # fmt: skip
def test_what_an_enzyme_returns_or_raises_is_recorded(world, payload, code, text):
    (line,) = run(world, "/odd", payload=payload).agenda
    assert line.code == code
    assert text in line.text
    assert not world.heartbeat.exists("/odd/fatal")


def test_a_report_is_a_signal(world):
    beat = run(world, "/odd", payload="report")
    (queued,) = beat.queued
    assert (queued.signal, queued.payload["text"]) == ("/sig_cei/info", "all is well")


def test_time_chance_and_ids_come_from_the_journal(world):
    run(world, "/odd", payload="chance")
    found, chance, where = world.heartbeat.read("/odd/chance")
    assert UUID(found).version == 7
    assert 0 <= chance < 1
    assert UUID(where).int


def test_code_that_swallows_everything_still_sees_the_whole_tree(world):
    """A read of what is not in memory unwinds the run; catching that must not change what it reads."""
    run(world, "/swallow")
    assert world.heartbeat.read("/swallowed") == [{"width": 8}, {"width": 8}, None]


def test_the_receipt_of_an_effect_comes_back_as_an_impulse(world):
    run(world, "/sleep", "/photos/a")
    assert world.agenda() == []
    world.heartbeat.bind("/photos/a", "sleep")
    world.heartbeat.bind("/photos/a", "woken")
    run(world, "/sleep", "/photos/a")
    world.advance(hours=2)
    target, fields = world.heartbeat.read("/woken")
    assert (target, fields) == ("/photos/a", ["due_ns", "fired_ns", "intent_id"])


def test_an_enzyme_registers_binds_and_deletes_from_the_next_beat_on(world):
    run(world, "/grow")
    assert not world.heartbeat.exists("/photos/a")
    assert [line.enzyme for line in run(world, "/later", "/photos").agenda] == ["later"]
    assert run(world, "/later", "/photos/b").agenda[0].no_match


def test_a_pause_keeps_signals_until_the_resume(world):
    world.heartbeat.control("heartbeat.pause")
    assert run(world, "/odd").agenda == []
    world.restart()
    world.heartbeat.control("heartbeat.resume")
    assert [line.code for beat in world.heartbeat.beats() for line in beat.agenda] == [5]
    assert world.agenda() == []


def test_a_deploy_takes_entries_away_and_adds_others(world):
    other = App("lab")
    other.enzyme("/odd")(note)
    world.deploy(other)
    assert [line.enzyme for line in run(world, "/odd").agenda] == ["note"]
    assert run(world, "/grow").agenda[0].no_match


@pytest.mark.parametrize(
    ("query", "options", "code"),
    [
        ("/a//b", {}, "heartbeat.path"), ("/a", {"match": "glob"}, "heartbeat.match"),
        ("/a", {"access": "x"}, "heartbeat.enzyme"), ("/a", {"before": [7]}, "heartbeat.enzyme"),
        ("/a", {"retry_limit": -1}, "heartbeat.enzyme"), ("/a", {"writes": ["//"]}, "heartbeat.path"),
        ("/a", {"effects": [3]}, "app.effect_listed"),
    ],
)  # fmt: skip
def test_a_declaration_that_cannot_be_is_refused_at_once(query, options, code):
    fresh = App("fresh")
    with pytest.raises(Rejected) as caught:
        fresh.enzyme(query, **options)(note)
    assert caught.value.code == code or caught.value.code.startswith("app.")


def test_a_function_of_another_form_is_refused():
    fresh = App("fresh")
    with pytest.raises(Rejected) as caught:
        fresh.enzyme("/a")(lambda ctx: None)
    assert caught.value.code == "modules.enzyme_signature"

    async def later(ctx, signal, target):
        return None

    with pytest.raises(Rejected, match="asynchronous"):
        fresh.enzyme("/a")(later)


def test_a_run_that_takes_too_long_is_ended_and_passed_by_verify():
    slow = App("slow")

    @slow.enzyme("/s")
    def spin(ctx, signal, target):
        while True:
            pass

    world = World(slow, live=True, guard=False, limit_s=0.05)
    (line,) = run(world, "/s").agenda
    assert line.code == FATAL
    assert "modules.timed_out" in line.text
    world.assert_replays()
    world.close()
    assert issubclass(StepTimeout, BaseException)
