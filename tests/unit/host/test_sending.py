"""Sending to a world that is hosted here: wait modes, duplicates, failures, versions, replies."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from cellule.errors import Parked, Rejected, StepFailed, VersionConflict
from cellule.kernel.journal.codes import OK
from tests.support.virtual_tests import in_virtual_time


@in_virtual_time
async def test_an_applied_event_has_a_committed_step_of_every_cell(node, tally):
    world = await node.world("w")
    applied = await world.send(tally.Both("a"))
    assert [(step.module, step.status) for step in applied.steps] == [
        ("tally/account", OK),
        ("tally/audit", OK),
    ]
    assert (await world.head()).height >= max(step.height for step in applied.steps)
    assert await world.cell(tally.account, "a").state() == tally.Account(0, 1)


@in_virtual_time
async def test_the_same_id_is_applied_once_and_gets_the_first_outcome_again(node, tally):
    world = await node.world("w")
    first = await world.send(tally.Add("a", 5), id="one", wait="reply")
    again = await world.send(tally.Add("a", 5), id="one", wait="reply")
    assert (first.reply, again.reply) == (5, 5)
    assert (first.duplicate, again.duplicate) == (False, True)
    assert (again.height, again.steps) == (first.height, first.steps)
    assert await world.cell(tally.account, "a").state() == tally.Account(5, 1)


@in_virtual_time
async def test_the_same_id_sent_many_times_at_once_is_applied_once(node, tally):
    world = await node.world("w")
    sends = [world.send(tally.Add("a", 1), id=UUID(int=7), wait="reply") for _ in range(50)]
    outcomes = await asyncio.gather(*sends)
    assert {outcome.height for outcome in outcomes} == {outcomes[0].height}
    assert {outcome.reply for outcome in outcomes} == {1}
    assert sum(not outcome.duplicate for outcome in outcomes) == 1
    assert await world.cell(tally.account, "a").state() == tally.Account(1, 1)


@in_virtual_time
async def test_an_id_used_for_another_event_is_refused_and_changes_nothing(node, tally):
    world = await node.world("w")
    await world.send(tally.Add("a", 5), id="one")
    before = await world.head()
    with pytest.raises(Rejected) as caught:
        await world.send(tally.Add("a", 6), id="one")
    assert caught.value.code == "kernel.id_reused"
    assert await world.head() == before


def test_a_failed_step_raises_and_what_comes_after_is_kept_not_lost(on_node, tally):
    async def main(opened):
        async with opened() as node:
            world = await node.world("w")
            await world.send(tally.Add("a", 5))
            with pytest.raises(StepFailed) as failed:
                await world.send(tally.Fail("a"), id="bad")
            assert not isinstance(failed.value, Parked)
            assert "told to fail" in str(failed.value)
            with pytest.raises(Parked) as kept:
                await world.send(tally.Add("a", 1), id="later")
            assert "halted: ValueError: told to fail" in str(kept.value)
            with pytest.raises(Parked):
                await world.send(tally.Add("a", 1), id="later")
            with pytest.raises(Parked):
                await world.wait_applied("later")
            with pytest.raises(StepFailed, match="told to fail"):
                await world.wait_applied("bad")
            waiting = asyncio.create_task(_applied_later(world, "later"))
            await world.control("cell.resume", who="me", why="skip it")
            with pytest.raises(Parked):  # its first message is the one that fails
                await world.send(tally.Add("a", 1), id="later too")
            assert await waiting is None
            assert await world.cell(tally.account, "b").state() is None
            await world.send(tally.Add("b", 1))

    async def _applied_later(world, given):
        try:
            await world.wait_applied(given)
        except Parked:
            return

    on_node(main)


@in_virtual_time
async def test_a_durable_send_to_a_stopped_cell_is_acknowledged(node, tally):
    world = await node.world("w")
    with pytest.raises(StepFailed):
        await world.send(tally.Fail("a"))
    applied = await world.send(tally.Add("a", 1), wait="durable")
    assert applied.height == (await world.head()).height
    view = await world.cell(tally.account, "a").view()
    assert (view.status, view.queue) == ("halted", 2)


@in_virtual_time
async def test_expected_version_is_compared_when_the_step_runs(node, tally):
    world = await node.world("w")
    await world.send(tally.Add("a", 1), expected_version=0)
    with pytest.raises(VersionConflict):
        await world.send(tally.Add("a", 1), expected_version=0, id="v")
    with pytest.raises(VersionConflict):
        await world.send(tally.Add("a", 1), expected_version=0, id="v")
    await world.send(tally.Add("a", 1), expected_version=1)
    assert (await world.cell(tally.account, "a").view()).version == 2
    with pytest.raises(Rejected) as caught:
        await world.send(tally.Both("a"), expected_version=2)
    assert caught.value.code == "kernel.expected_version_targets"


@in_virtual_time
async def test_a_reply_needs_exactly_one_target(node, tally):
    world = await node.world("w")
    before = await world.head()
    with pytest.raises(Rejected) as caught:
        await world.send(tally.Both("a"), wait="reply")
    assert caught.value.code == "host.reply_targets"
    assert await world.head() == before
    await world.send(tally.Add("a", 41))
    assert (await world.send(tally.Ask("a"), wait="reply")).reply == 41


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (lambda tally: tally.Unheard("x"), "routing.no_subscriber"),
        (lambda tally: object(), "app.event_expected"),
        (lambda tally: tally.Add("a", "five"), "schema.type"),
        (lambda tally: tally.Add("a", 1, "x" * 1_000_001), "host.event_size"),
        (lambda tally: ("Add", {"account": "a"}), "schema.missing"),
        (lambda tally: ("Ad", {}), "app.name_unknown"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_changed(on_node, tally, event, code):
    async def main(opened):
        async with opened() as node:
            world = await node.world("w")
            before = opened.disk.dump()
            with pytest.raises(Rejected) as caught:
                await world.send(event(tally))
            assert opened.disk.dump() == before
            return caught.value.code

    assert on_node(main).partition(".")[0] == code.partition(".")[0]


@in_virtual_time
async def test_an_unknown_wait_mode_and_an_empty_id_are_refused(node, tally):
    world = await node.world("w")
    for options, code in (({"wait": "sometime"}, "host.wait"), ({"id": ""}, "host.empty_id")):
        with pytest.raises(Rejected) as caught:
            await world.send(tally.Add("a", 1), **options)
        assert caught.value.code == code


@in_virtual_time
async def test_send_many_keeps_the_outcome_of_each_event(node, tally):
    world = await node.world("w")
    events = [tally.Add(f"k{n % 7}", 1) for n in range(3_000)]
    events[1_500] = tally.Fail("broken")
    sents = await world.send_many(events)
    assert sum(sent.finished for sent in sents) == 3_000
    assert [sent.height for sent in sents] == sorted({sent.height for sent in sents})
    with pytest.raises(StepFailed):
        await sents[1_500].wait()
    await sents[0].wait()
    counts = [(await world.cell(tally.account, f"k{n}").state()).count for n in range(7)]
    assert sum(counts) == 2_999


@in_virtual_time
async def test_send_nowait_hands_over_and_its_handle_waits(node, tally):
    world = await node.world("w")
    sents = [await world.send_nowait(tally.Add("a", 1), id=f"n{n}") for n in range(100)]
    assert not any(sent.finished for sent in sents)
    for sent in sents:
        await sent.wait()
    again = await world.send_nowait(tally.Add("a", 1), id="n3")
    await again.wait()
    assert (again.duplicate, again.height) == (True, sents[3].height)


@in_virtual_time
async def test_a_cancelled_sender_disturbs_nobody_and_its_event_is_applied(node, tally):
    world = await node.world("w")
    sent = await world.send_nowait(tally.Add("a", 1), id="one")
    first, second = (asyncio.create_task(sent.wait()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second is sent
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await world.wait_applied("one")).steps == sent.steps


@in_virtual_time
async def test_a_cascade_is_applied_beat_by_beat_and_order_holds_per_sender(node, tally):
    world = await node.world("w")
    await world.send(tally.Pass("a", "b", 200))
    await world.send(tally.Ask("a"))
    last = await world.head()
    total = 0
    while total < 201:
        counts = [await world.cell(tally.account, key).state() for key in "ab"]
        total = sum(state.count for state in counts if state)
    assert (await world.head()).beat >= 200
    assert last.height > 0


@in_virtual_time
async def test_a_reply_is_of_the_class_that_the_sender_asks_for(node, tally):
    world = await node.world("w")
    applied = await world.send(tally.Add("a", 3), reply=int)
    assert applied.reply == 3
    with pytest.raises(Rejected, match=r"int, not str\. The event was applied") as caught:
        await world.send(tally.Add("a", 4), reply=str)
    assert caught.value.code == "host.reply_type"
    assert (await world.send(tally.Add("a", 5), reply=int)).reply == 12
