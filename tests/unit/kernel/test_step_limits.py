"""What a step may answer at the very most, and that a failure is told once: with and without short ways."""

from __future__ import annotations

import pytest

from cellule.kernel.decide import requests, steps
from cellule.kernel.fast import ring_step
from cellule.kernel.journal.codes import HALTED, OK, SKIPPED
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import EmittedRecord
from cellule.kernel.manifest.system import STEP_FAILED
from cellule.kernel.program import StepFault
from cellule.values.cbor import encode
from tests.support import kernel_bank as banks
from tests.support.kernel_bank import CHARGE, Bank
from tests.support.kernel_world import Did, FunctionPrograms


@pytest.fixture(params=[True, False], ids=["fast", "general"])
def fast(request):
    return request.param


def emitted(world, schema):
    records = [record for frame in world.frames for record in decode_frame(frame).records]
    return [record for record in records if isinstance(record, EmittedRecord) and record.schema == schema]


def test_a_failure_while_a_failure_is_handled_is_told_to_nobody(make_world, shop, fast):
    """It would be told to the very cell that failed, which fails again, until the cascade is too deep."""

    def stats(state, schema, event, ctx):
        raise StepFault("shop.cannot_count", "it always fails")

    programs = FunctionPrograms({"shop/Stats": stats})
    world = make_world(shop(Stats={"failure": "skip"}), programs, fast=fast)
    world.send("shop/Failed@1", {"order": "o1", "why": "no"})
    told = [step for beat in world.settle() for step in beat.steps]
    assert [(step.module, step.status, step.code) for step in told] == [
        ("shop/Stats", SKIPPED, "shop.cannot_count")
    ]
    assert len(emitted(world, STEP_FAILED)) == 1


@pytest.mark.parametrize(("count", "status"), [(3, OK), (4, HALTED)])
def test_a_step_emits_as_many_events_as_the_limit_says_and_no_more(
    make_world, monkeypatch, fast, count, status
):
    monkeypatch.setattr(steps, "STEP_EVENTS_MAX", 3)

    def pinger(state, schema, event, ctx):
        return Did(
            {"count": 1}, emit=[("shop/Placed@1", {"order": f"o{n}", "total": n}) for n in range(count)]
        )

    world = make_world(programs=FunctionPrograms({"shop/Pinger": pinger}), fast=fast)
    [step] = world.send("shop/Ping@1", {"to": "a", "left": 0}).steps
    assert step.status == status
    assert len(emitted(world, "shop/Placed@1")) == (count if status == OK else 0)
    assert step.code == ("" if status == OK else "kernel.events_count")


@pytest.mark.parametrize(("count", "status"), [(3, OK), (4, HALTED)])
def test_a_step_asks_for_as_many_effects_as_the_limit_says_and_no_more(
    make_world, monkeypatch, fast, count, status
):
    monkeypatch.setattr(requests, "STEP_EFFECTS_MAX", 3)
    bank = Bank(make_world(banks.document(), banks.PROGRAMS, fast=fast))
    beat = bank.ask(*[(CHARGE, {"amount": 1})] * count)
    assert [step.status for step in beat.steps] == [status]
    assert len(beat.opened) == (count if status == OK else 0)


@pytest.mark.parametrize("room", [0, -1])
def test_the_params_of_requests_count_as_output(make_world, monkeypatch, fast, room):
    """Each is short enough, and so is the state: it is the sum that the limit is for."""
    params = {"amount": 1, "pad": "x" * 100}
    state = {"heard": [["bank/Ask@1", 0], ["bank/Ask@1", 2]]}
    most = len(encode(state)) + 2 * len(encode(params)) + room
    monkeypatch.setattr(steps, "OUTPUT_BYTES_MAX", most)
    monkeypatch.setattr(ring_step, "OUTPUT_BYTES_MAX", most)
    bank = Bank(make_world(banks.document(), banks.PROGRAMS, fast=fast))
    bank.ask()  # its program is known from now on
    beat = bank.ask((CHARGE, params), (CHARGE, params))
    [step] = beat.steps
    if room < 0:
        assert (step.status, step.code) == (HALTED, "kernel.output_size")
        assert beat.opened == []
    else:
        assert step.status == OK
        assert len(beat.opened) == 2
        assert bank.world.state("bank/Order", b"o1") == state
