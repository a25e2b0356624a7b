"""Repair, listing and receipts by hand: what operators do to an outbox."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from cellule.effects.adapter import Retry
from cellule.errors import Rejected
from cellule.host.ingress.inject import inject
from cellule.host.outbox.listing import find_row
from cellule.host.outbox.receipts import Receipt
from cellule.host.outbox.repair import Wanted, repair
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.store.sound_scan import sound_read
from cellule.store.tuples import pack
from cellule.testing import Fate, Fault, FaultPlan, FaultyEngine
from cellule.values.cbor import encode
from cellule.values.link import Link
from tests.support.outbox import UNIVERSE, WORLD, OutboxWorld, check_left_nothing, opening
from tests.support.virtual_tests import in_virtual_time


async def repaired(bench, *openings, engine=None, dry_run=False, withheld=None):
    async def wanted():
        return Wanted(openings, withheld or {})

    cas = bench.cas(UNIVERSE)
    return await repair(engine or bench.engine, cas, WORLD, wanted, bench.clock.now_ns(), dry_run=dry_run)


@in_virtual_time
async def test_rows_that_agree_are_left_alone(bench):
    await bench.world.open([opening(1), opening(2)], bench.clock.now_ns())
    before = bench.disk.dump()
    report = await repaired(bench, opening(1), opening(2))
    assert report.is_clean
    assert report.open == 2
    assert bench.disk.dump() == before


@in_virtual_time
async def test_an_open_intent_without_row_gets_one_and_is_performed(bench):
    [report] = [await repaired(bench, opening(1))]
    assert report.missing == [opening(1).intent]
    async with bench.pool(bench.worker()) as pool:
        await bench.attempts(1)
        await pool.wait_idle()
    await check_left_nothing(bench.world, [opening(1).intent])
    assert (await repaired(bench, opening(1))).is_clean  # its receipt waits in the inbox


@in_virtual_time
async def test_long_params_are_put_again(bench):
    long = opening(1)._replace(params=encode({"number": 1, "text": "x" * 50_000}))
    await repaired(bench, long)
    row = (await find_row(bench.engine, bench.clock, long.intent)).row
    assert isinstance(row.params, Link)
    assert await bench.cas(UNIVERSE).get(row.params.cid) == long.params


@in_virtual_time
async def test_what_is_not_open_is_removed_and_other_worlds_are_left_alone(bench):
    other = OutboxWorld(bench.engine, bench.key, UNIVERSE, same_shard(WORLD))
    await other.open([opening(50)], bench.clock.now_ns())
    await other.close([opening(51).intent])
    before = bench.disk.dump()
    await bench.world.open([opening(1), opening(2), opening(3)], bench.clock.now_ns())
    await bench.world.close([opening(1).intent, opening(4).intent])
    lost = opening(5).intent
    place = keys.effect_at(lost)
    await bench.engine.commit(Batch(set={place: keys.effect(keys.shard_of(WORLD), 5, 1, lost)}))
    dry = await repaired(bench, dry_run=True)
    assert dry.orphans == [opening(n).intent for n in sorted_intents(1, 2, 3)]
    assert set(dry.markers) == {opening(1).intent, opening(4).intent}
    assert dry.places == [lost]
    done = await repaired(bench)
    assert (done.orphans, set(done.markers), done.places) == (dry.orphans, set(dry.markers), dry.places)
    assert bench.disk.dump() == before


def same_shard(world):
    return next(UUID(int=n) for n in range(3, 10_000) if keys.shard_of(UUID(int=n)) == keys.shard_of(world))


def sorted_intents(*numbers):
    return sorted(numbers, key=lambda number: opening(number).intent)


@in_virtual_time
async def test_unreadable_second_and_misplaced_rows_are_set_right(bench):
    opened = await bench.world.open([opening(1), opening(2), opening(3)], bench.clock.now_ns())
    first, second, third = opened.stored
    copy = keys.effect(keys.shard_of(WORLD), 0, 77, first.row.intent)
    rows = {copy: first.value, second.place: copy, third.at: b"\xa0"}
    await bench.engine.commit(Batch(set=rows))
    report = await repaired(bench, opening(1), opening(2), opening(3))
    assert report.orphans == [first.row.intent]
    assert set(report.places) == {second.row.intent, third.row.intent}
    assert report.unreadable == [third.at]
    assert report.missing == [third.row.intent]
    assert (await repaired(bench, opening(1), opening(2), opening(3))).is_clean
    async with bench.pool(bench.worker()) as pool:
        await bench.attempts(3)
        await pool.wait_idle()
    await check_left_nothing(bench.world, [each.row.intent for each in opened.stored])


@in_virtual_time
async def test_a_repair_that_loses_a_race_changes_nothing_and_says_so(bench):
    opened = await bench.world.open([opening(1)], bench.clock.now_ns())
    rival = Batch(set={opened.stored[0].at: b"changed"})
    engine = FaultyEngine(bench.engine, FaultPlan(commit={1: Fault(rival=rival)}))
    report = await repaired(bench, engine=engine)
    assert (report.orphans, report.skipped) == ([opening(1).intent], 1)
    assert bench.disk.value(opened.stored[0].at) == b"changed"


@pytest.mark.parametrize("fate", [Fate.UNKNOWN_APPLIED, Fate.UNKNOWN_LOST])
@in_virtual_time
async def test_a_repair_of_unknown_outcome_is_repeated(bench, fate):
    await bench.world.open([opening(1)], bench.clock.now_ns())
    plan = FaultPlan(commit={1: Fault(fate), 3: Fault(fate)})
    report = await repaired(bench, opening(2), engine=FaultyEngine(bench.engine, plan))
    assert report.skipped == 0
    assert (await repaired(bench, opening(2))).is_clean


@in_virtual_time
async def test_a_look_at_a_row_tells_what_is_done_about_it(bench, work_types):
    async def mixed(params, attempt):
        if params.number == 1:
            raise Retry("the bank is closed", after_s=60)
        await asyncio.sleep(50)
        return work_types[1](params.number)

    async def told(number, pool):
        found = await find_row(bench.engine, bench.clock, opening(number).intent, pool)
        return None if found is None else (found.state, found.reason)

    async with bench.pool(bench.worker(mixed, concurrency=1)) as pool:
        rows = [opening(1, priority=0), opening(2, priority=1), opening(3), opening(4, "other.kind")]
        await bench.opened(pool, *rows)
        await asyncio.sleep(5)
        assert [await told(number, pool) for number in range(1, 6)] == [
            ("retrying", "the bank is closed"),
            ("running", "attempt 1 of 5"),
            ("waiting", "for a free place of its adapter"),
            ("no adapter", "no adapter for other.kind on this node"),
            None,
        ]
        assert {(await told(number, None))[0] for number in range(1, 5)} == {"waiting", "retrying"}
        found = await find_row(bench.engine, bench.clock, opening(2).intent, pool)
        assert found.intent == opening(2).key
    await bench.world.open([opening(6)], bench.clock.now_ns() + 10**9)
    assert await told(6, None) == ("waiting", "for its time")


# Rows that fail their checksums


@pytest.mark.parametrize("key", ["row", "place"])
@in_virtual_time
async def test_a_damaged_row_is_told_by_name_and_set_right(bench, key, caplog):
    """Repair and listing read the store as if nothing could be damaged: both failed for the whole shard."""
    opened = await bench.world.open([opening(n) for n in range(4)], bench.clock.now_ns())
    stored = opened.stored[1]
    bench.disk.damage(stored.at if key == "row" else stored.place)
    found = await find_row(bench.engine, bench.clock, stored.row.intent)
    assert (found.state, found.intent) == ("unreadable", "")
    assert "fails its checksum" in found.reason
    assert (await find_row(bench.engine, bench.clock, opening(2).intent)).state == "waiting"
    async with bench.pool(bench.worker()) as pool:
        await bench.attempts(3 if key == "row" else 4)
        await pool.wait_idle()
        if key == "row":
            assert f"of {stored.row.key} cannot be read: `cellule effect repair`" in caplog.text
            report = await repaired(bench, opening(1))
            assert (report.unreadable, report.missing) == ([stored.at], [stored.row.intent])
            pool.search()
            await bench.attempts(4)
            await pool.wait_idle()
    await check_left_nothing(bench.world, [each.row.intent for each in opened.stored])


@pytest.mark.parametrize("outcome", ["receipt", "retry"])
def test_a_row_that_is_damaged_while_its_attempt_runs_keeps_its_outcome(play, work_types, outcome):
    """The batch expected its bytes, the pool took that for the end of the store, and ended the node."""

    async def main(bench):
        async def work(params, attempt):
            if params.number == 1 and attempt.number == 1:
                bench.disk.damage(opened.stored[1].at)
                if outcome == "retry":
                    raise Retry("once more")
            return work_types[1](params.number)

        opened = await bench.world.open([opening(n) for n in range(4)], bench.clock.now_ns())
        plan = FaultPlan(commit={1: Fault(Fate.UNKNOWN_APPLIED), 2: Fault(Fate.UNKNOWN_LOST)})
        async with bench.pool(bench.worker(work), engine=FaultyEngine(bench.engine, plan)) as pool:
            pool.offer(opened.stored)
            await pool.wait_idle()
        found = await check_left_nothing(bench.world, [each.row.intent for each in opened.stored])
        assert {each.status for each in found.values()} == {"ok"}
        assert found[opening(1).intent].attempts == (2 if outcome == "retry" else 1)

    for seed in range(5):
        play(main, seed)


@in_virtual_time
async def test_a_damaged_marker_is_a_marker_and_goes_with_its_row(bench):
    opened = await bench.world.open([opening(n) for n in range(3)], bench.clock.now_ns())
    await bench.world.close([opening(1).intent, opening(7).intent])
    for number in (1, 7):
        bench.disk.damage(keys.effect_cancel(opening(number).intent))
    async with bench.pool(bench.worker()) as pool:
        await bench.attempts(2)
        await pool.wait_idle()
    assert {number for number, _ in bench.performed} == {0, 2}
    await check_left_nothing(bench.world, [opened.stored[0].row.intent, opened.stored[2].row.intent])


@in_virtual_time
async def test_what_is_damaged_is_set_right_by_the_world_it_belongs_to_and_by_no_other(bench):
    """A row of another world would be gone, and its effect never performed."""
    other = OutboxWorld(bench.engine, bench.key, UNIVERSE, same_shard(WORLD))
    [foreign] = (await other.open([opening(50)], bench.clock.now_ns())).stored
    await other.close([opening(51).intent])
    [ours] = (await bench.world.open([opening(1)], bench.clock.now_ns())).stored
    await bench.world.close([opening(1).intent])
    nobodys = pack("effects", keys.shard_of(WORLD), 5, 1, "no intent")
    await bench.engine.commit(Batch(set={nobodys: b"?"}))
    marks = [keys.effect_cancel(opening(number).intent) for number in (1, 51)]
    for key in (foreign.at, ours.at, *marks):
        bench.disk.damage(key)
    report = await repaired(bench, opening(1))
    assert sorted(report.unreadable) == sorted([ours.at, nobodys])
    assert (report.markers, report.missing) == ([opening(1).intent], [opening(1).intent])
    assert (await repaired(bench, opening(1))).is_clean
    _, damaged = await sound_read(bench.engine, [foreign.at, ours.at, *marks])
    assert set(damaged) == {foreign.at, marks[1]}


@in_virtual_time
async def test_a_receipt_given_by_hand_is_signed_and_says_who_and_why(bench):
    cas = bench.cas(UNIVERSE)
    given = Receipt(opening(1).intent, 2, "ok", encode({"number": 1}), who="ada", why="the bank called")
    await bench.engine.commit(Batch(set={keys.universe_world(UNIVERSE, WORLD): b"listed"}))
    row = await inject(bench.engine, bench.key, cas, WORLD, given, bench.entropy)
    assert await bench.world.receipts() == [given._replace(by=bench.key.id)]
    assert bench.disk.value(row) is not None
    long = given._replace(value=encode("x" * 40_000))
    await inject(bench.engine, bench.key, cas, WORLD, long, bench.entropy)
    kept = (await bench.world.receipts())[1].value
    assert await cas.get(kept.cid) == long.value


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"status": "done"}, "effects.inject_status"),
        ({"who": ""}, "effects.inject_unsigned"),
        ({"why": None}, "effects.inject_unsigned"),
        ({"value": None}, "effects.inject_value"),
        ({"status": "failed"}, "effects.inject_value"),
        ({"value": b"x" * 1_000_001}, "effects.inject_size"),
    ],
)
@in_virtual_time
async def test_a_receipt_by_hand_that_makes_no_sense_is_refused(bench, change, code):
    given = Receipt(opening(1).intent, 2, "ok", b"\xa0", who="ada", why="because")._replace(**change)
    with pytest.raises(Rejected) as caught:
        await inject(bench.engine, bench.key, bench.cas(UNIVERSE), WORLD, given, bench.entropy)
    assert caught.value.code == code
    assert bench.disk.dump() == {}


@in_virtual_time
async def test_an_intent_that_is_not_granted_any_more_gets_no_row(bench):
    """Once it got a row without grant, and might have reached any host."""
    report = await repaired(bench, opening(1), opening(2), withheld={opening(1).intent: "the grant is gone"})
    assert report.withheld == {opening(1).intent: "the grant is gone"}
    assert report.missing == [opening(2).intent]
    assert not report.is_clean
    [at] = await bench.engine.read([keys.effect_at(opening(1).intent)])
    assert at is None
    again = await repaired(bench, opening(1), opening(2), withheld={opening(1).intent: "gone"})
    assert (again.missing, again.orphans) == ([], [])


@in_virtual_time
async def test_a_row_that_is_there_keeps_the_grant_it_was_written_with(bench):
    granted = opening(1)._replace(grant={"name": "api", "hosts": ["api.example"]})
    await bench.world.open([granted], bench.clock.now_ns())
    report = await repaired(bench, opening(1), withheld={opening(1).intent: "the grant is gone"})
    assert report.is_clean
    row = await find_row(bench.engine, bench.clock, opening(1).intent)
    assert row.row.grant == {"name": "api", "hosts": ["api.example"]}
