"""`ctx.op`: what enzymes do to operations, by the same rules as everybody."""

from __future__ import annotations

import pytest

from cellule import App, EnzymeContext
from cellule.errors import Rejected
from cellule.kernel.heartbeat import operations as rules
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.heartbeat_records import AgendaRecord, SignalRecord
from cellule.testing import World


def world_of(*enzymes, **options):
    app = App("ops")
    for function, query, given in enzymes:
        app.enzyme(query, **given)(function)
    return World(app, **options)


def signals(world):
    frames = [decode_frame(frame) for frame in world.host.frames]
    return [record.signal for frame in frames for _, record in frame.of(SignalRecord)]


def told(world, path):
    return world.heartbeat.read(path)


@pytest.mark.parametrize("evict", [False, True])
def test_an_enzyme_starts_an_operation_and_another_ends_it(evict):
    def begin(ctx: EnzymeContext, signal, target):
        first = ctx.op.start("op/import", "/env/a", payload={"rows": 2})
        second = ctx.op.start("op/import", "/env/b", mode="opm:direct")
        assert ctx.op.await_(first, "sts:ok", "op/done", payload="first")
        assert ctx.op.state(first, "ist:copy", code=1, note="half")
        assert ctx.op.get(first)["state"] == "ist:copy"
        ctx.write("/ops", [first, second])

    def end(ctx: EnzymeContext, signal, target):
        first, second = ctx.read("/ops")
        assert ctx.op.get(first)["note"] == "half"
        assert ctx.op.close(f"/rt/ops/{first}", summary="all")
        assert not ctx.op.state(first, "ist:x")
        assert ctx.op.close(first)
        assert not ctx.op.close(first, "sts:fail")
        assert ctx.op.close(second, "sts:cnl")

    def done(ctx: EnzymeContext, signal, target):
        ctx.write("/done", [signal, target, ctx.payload])

    world = world_of((begin, "/begin", {}), (end, "/end", {}), (done, "/op/done", {}), evict=evict)
    world.signal("/begin")
    world.settle()
    first, second = told(world, "/ops")
    assert rules.key_of(first) < rules.key_of(second)
    world.signal("/end")
    world.settle()
    assert told(world, "/done") == ["/op/done", f"/rt/ops/{first}", "first"]
    world.assert_replays()


def test_two_enzymes_of_one_beat_start_operations_with_ids_of_their_own():
    def one(ctx: EnzymeContext, signal, target):
        ctx.write("/one", ctx.op.start("op/x", "/a"))

    def two(ctx: EnzymeContext, signal, target):
        ctx.write("/two", ctx.op.start("op/x", "/a"))

    world = world_of((one, "/go", {}), (two, "/go", {}))
    world.signal("/go")
    world.settle()
    beat = told(world, "/one").partition("-")[0]
    assert (told(world, "/one"), told(world, "/two")) == (f"{beat}-1", f"{beat}-2")
    world.assert_replays()


def test_a_fatal_run_starts_nothing_and_its_number_is_given_again():
    def one(ctx: EnzymeContext, signal, target):
        ctx.op.start("op/x", "/a")
        return -2

    def two(ctx: EnzymeContext, signal, target):
        ctx.write("/two", ctx.op.start("op/x", "/a"))

    world = world_of((one, "/go", {}), (two, "/other", {}))
    world.signal("/go")
    world.signal("/other")
    world.settle()
    assert told(world, "/two").endswith("-1")
    world.assert_replays()


def test_what_the_rules_refuse_is_false_and_an_invalid_start_fails_the_run():
    def ask(ctx: EnzymeContext, signal, target):
        op = ctx.op.start("op/x", "/a")
        ctx.write("/false", [
            ctx.op.state("9-9", "ist:x"), ctx.op.state("odd", "ist:x"), ctx.op.state(op, ""),
            ctx.op.await_(op, "", "/c"), ctx.op.await_(op, "ist:x", ""), ctx.op.await_("9-9", "ist:x", "/c"),
            ctx.op.close(op, "sts:odd"), ctx.op.close("9-9"), ctx.op.get("9-9") is not None,
        ])  # fmt: skip

    def fail(ctx: EnzymeContext, signal, target):
        ctx.write("/wrong", 1)
        ctx.op.start("op/x", "/a", mode="opm:odd")

    world = world_of((ask, "/ask", {}), (fail, "/fail", {}))
    world.signal("/ask")
    world.signal("/fail")
    world.settle()
    assert told(world, "/false") == [False] * 9
    assert not world.heartbeat.exists("/wrong")
    assert "/sig_cei/error" in signals(world)
    world.assert_replays()


def test_an_enzyme_that_may_only_read_changes_no_operation():
    def ask(ctx: EnzymeContext, signal, target):
        ctx.op.start("op/x", "/a")

    world = world_of((ask, "/ask", {"access": "ro"}))
    world.signal("/ask")
    world.settle()
    frames = [decode_frame(frame) for frame in world.host.frames]
    [agenda] = [record for frame in frames for _, record in frame.of(AgendaRecord) if record.signal == "/ask"]
    assert "heartbeat.access" in str(agenda.extras["failed"])
    world.assert_replays()


def test_what_somebody_else_ended_in_the_same_beat_is_told_by_a_warning():
    def begin(ctx: EnzymeContext, signal, target):
        ctx.write("/op", ctx.op.start("op/x", "/a"))

    def first(ctx: EnzymeContext, signal, target):
        assert ctx.op.close(ctx.read("/op"))

    def second(ctx: EnzymeContext, signal, target):
        assert ctx.op.state(ctx.read("/op"), "ist:late")

    world = world_of((begin, "/begin", {}), (first, "/go", {}), (second, "/go", {"after": ["first"]}))
    world.signal("/begin")
    world.settle()
    world.signal("/go")
    world.settle()
    assert "/sig_cei/warn" in signals(world)
    world.assert_replays()


def test_a_handler_may_be_bound_to_the_operation_by_the_enzyme_that_starts_it():
    def begin(ctx: EnzymeContext, signal, target):
        op = ctx.op.start("op/x", "/a")
        ctx.op.await_(op, "ist:run", "/go")
        ctx.bind(f"/rt/ops/{op}", "own")

    def own(ctx: EnzymeContext, signal, target):
        ctx.write("/own", target)

    def wide(ctx: EnzymeContext, signal, target):
        ctx.write("/wide", target)

    world = world_of((begin, "/begin", {}), (own, "/go", {"name": "own"}), (wide, "/go", {}))
    world.signal("/begin")
    world.settle()
    assert told(world, "/own").startswith("/rt/ops/")
    assert not world.heartbeat.exists("/wide")
    world.assert_replays()


def test_a_wrong_verb_is_an_error_of_the_author():
    def ask(ctx: EnzymeContext, signal, target):
        try:
            ctx.op.start("", "/a")
        except Rejected as error:
            ctx.write("/code", error.code)

    world = world_of((ask, "/ask", {}))
    world.signal("/ask")
    world.settle()
    assert told(world, "/code") == "operation.argument"
    world.assert_replays()
