"""Differences of worlds, and what would happen if: in memory, proportional to what differs."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from cellule.errors import Rejected
from cellule.store import keys
from tests.support.virtual_tests import in_virtual_time


def told(found):
    return {(each.module, each.key.decode()): (each.change, {f.path: (f.left, f.right) for f in each.fields})
            for each in found.cells}  # fmt: skip


@in_virtual_time
async def test_a_difference_names_cells_fields_and_effects_of_one_side(opened, pay):
    async with opened() as node:
        world = await node.world("w")
        for order in ("same", "changes"):
            await world.send(pay.Placed(order, 1, "timer"))
        child = await world.fork("try")
        shared = child.info.origin.height
        assert (await node.diff_worlds("w", "w", right_at=shared)).same
        await world.send(pay.Mailed("gone"))
        await child.send(pay.Placed("new", 1))
        await child.send(pay.Placed("changes", 2))
        found = await node.diff_worlds("w", "try")
        assert found.common == shared
        assert told(found) == {
            ("pay/mailing", "gone"): ("removed", {"state": ({"charge": "", "status": "mailing"}, None)}),
            ("pay/order", "changes"): (
                "changed", {"open effects": (1, 2), "state.status": ("resting", "placed")},
            ),
            ("pay/order", "new"): (
                "added", {"open effects": (None, 1), "state": (None, {"charge": "", "status": "placed"})},
            ),
        }  # fmt: skip
        effects = {(each.side, each.kind, each.key.decode()) for each in found.effects}
        assert effects == {
            ("left", "pay.mail", "gone"), ("right", "pay.charge", "new"), ("right", "pay.charge", "changes"),
        }  # fmt: skip
        back = await node.diff_worlds("try", "w")
        assert {each.change for each in back.cells} == {"added", "removed", "changed"}


@in_virtual_time
async def test_two_heights_of_a_world_are_compared(opened, pay):
    async with opened() as node:
        world = await node.world("w")
        await world.send(pay.Placed("a", 1, "timer"))
        before = (await world.head()).height
        await world.send(pay.Placed("b", 1, "timer"))
        found = await node.diff_worlds("w", "w", left_at=before)
        assert {key for _, key in told(found)} == {"b"}
        assert found.common == before


@in_virtual_time
async def test_a_difference_reads_as_much_as_differs(opened, pay):
    """Few chunks of a large world are read to find one cell."""
    async with opened() as node:
        world = await node.world("w")
        await world.send_many([pay.Placed(f"c{number}", 1, "timer") for number in range(3_000)])
        await world.snapshot()
        child = await world.fork("try")
        await child.send(pay.Mailed("one"))
        await world.snapshot()
        await child.snapshot()
        engine, read = node.node.engine, []
        real = engine.read

        async def counted(wanted):
            read.extend(key for key in wanted if keys.cas_of(key) is not None)
            return await real(wanted)

        engine.read = counted
        found = await node.diff_worlds("w", "try")
        assert [each.key for each in found.cells] == [b"one"]
        assert len(read) < 60


@in_virtual_time
async def test_what_would_happen_is_told_and_nothing_is_written(opened, pay):
    async with opened() as node:
        world = await node.world("w")
        await world.send(pay.Placed("a", 1))
        await world.wait_idle()
        await asyncio.sleep(2)
        rows = dict(opened.disk.dump())
        asked = list(node.bank.asked)
        found = await node.what_if("w", [pay.Placed("b", 1), pay.Placed("big", 5_000)])
        assert {key: change for (_, key), (change, _) in told(found.difference).items()} == {
            "b": "added", "big": "added",
        }  # fmt: skip
        assert {each.key for each in found.difference.effects} == {b"b", b"big"}
        assert found.steps == 2
        script = [{"kind": "pay.charge", "value": {"id": "told"}, "always": True}]
        found = await node.what_if("w", [pay.Placed("b", 1)], effects="scripted", script=script)
        fields = told(found.difference)["pay/order", "b"][1]
        assert fields["state"][1] == {"status": "pay.charge ok", "charge": "told"}
        assert node.bank.asked == asked
        assert dict(opened.disk.dump()) == rows


@in_virtual_time
async def test_history_is_replayed_with_other_answers_and_compared_with_what_became_of_it(opened, pay):
    async with opened() as node:
        world = await node.world("w")
        start = (await world.head()).height
        for order in ("a", "broke"):
            await world.send(pay.Placed(order, 1))
            await world.wait_idle()
        same = await node.what_if("w", at=start, replay=True, effects="recorded")
        assert same.difference.same, same
        script = [{"kind": "pay.charge", "status": "failed", "code": "no", "always": True}]
        other = await node.what_if("w", at=start, replay=True, effects="scripted", script=script)
        [cell] = other.difference.cells
        assert cell.key == b"a"
        assert ("state.status", "pay.charge ok", "pay.charge failed") in [
            (each.path, each.left, each.right) for each in cell.fields
        ]


@in_virtual_time
async def test_time_may_pass_in_what_would_happen(opened, pay):
    async with opened() as node:
        world = await node.world("w")
        await world.send(pay.Placed("nap", 1, "timer"))
        found = await node.what_if("w", advance=timedelta(days=3, hours=1))
        assert told(found.difference)["pay/order", "nap"][1]["state.status"] == ("resting", "rested")
        assert (await world.cell(pay.order, "nap").state()).status == "resting"


@in_virtual_time
async def test_everybody_has_a_turn_between_the_beats_of_what_would_happen(opened, pay):
    """A year of a schedule held up every world of the process until it was over."""
    async with opened() as node:
        await (await node.world("w")).send(pay.Placed("nap", 1, "timer"))
        events = [pay.Placed(f"nap{number}", 1, "timer") for number in range(200)]
        trying = asyncio.ensure_future(node.what_if("w", events))
        turns = 0
        while not trying.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > (await trying).beats > 200


@in_virtual_time
async def test_what_goes_wrong_in_what_would_happen_is_told(opened, pay):
    async with opened() as node:
        await node.world("w")
        with pytest.raises(Rejected, match="there is no world"):
            await node.what_if("nowhere")
        with pytest.raises(Rejected, match="is not in the journal"):
            await node.what_if("w", at=10_000)
