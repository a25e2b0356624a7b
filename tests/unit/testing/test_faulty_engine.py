from __future__ import annotations

import asyncio

import pytest

from cellule.errors import Conflict, OutcomeUnknown, Rejected, Unavailable
from cellule.store.engine import Batch, Engine
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing import (
    CALM,
    ROUGH,
    Fate,
    Fault,
    FaultPlan,
    Faults,
    FaultyEngine,
    SeededEntropy,
    VirtualClock,
    Wire,
    run,
)

SECOND = 1_000_000_000
SET = Batch(set={b"k": b"1"})
FIRST = Batch(expect={b"k": None}, set={b"k": b"1"})


def faulty(faults=CALM, disk=None, **options):
    return FaultyEngine(MemoryEngine(disk), faults, **options)


def stored(engine):
    return engine.engine.disk.dump()


def played(main, seed=0):
    """Run `main` under the deterministic loop and return its result."""
    return run(main, seed=seed).result


def test_a_calm_engine_answers_as_the_wrapped_one():
    async def main():
        async with faulty() as engine:
            checked: Engine = engine
            stamps = await checked.commit(Batch(set={b"a": b"1", b"b": b"2"}, ordered=[(b"q", b"x")]))
            page = await checked.scan(b"a", b"z", limit=10, reverse=True)
            values = await checked.read([b"b", b"none"])
            await checked.watch(b"a", b"other")
            return stamps, page.items, values, engine.count("commit")

    stamps, items, values, commits = played(main)
    assert items == [(b"q" + stamps[0], b"x"), (b"b", b"2"), (b"a", b"1")]
    assert values == [b"2", None]
    assert commits == 1


@pytest.mark.parametrize(
    ("fate", "error", "kept"),
    [
        (Fate.UNAVAILABLE, Unavailable, {}),
        (Fate.UNKNOWN_LOST, OutcomeUnknown, {}),
        (Fate.UNKNOWN_APPLIED, OutcomeUnknown, {b"k": b"1"}),
    ],
)
def test_a_planned_commit_meets_its_fate_and_the_next_one_is_fine(fate, error, kept):
    async def main():
        engine = faulty(FaultPlan(commit={1: Fault(fate)}))
        with pytest.raises(error) as caught:
            await engine.commit(SET)
        after_fault = stored(engine)
        await engine.commit(Batch(set={b"second": b"2"}))
        return type(caught.value), after_fault, stored(engine)

    kind, after_fault, at_end = played(main)
    assert kind is error
    assert after_fault == kept
    assert at_end == {**kept, b"second": b"2"}


def test_a_lost_answer_hides_a_conflict():
    async def main():
        engine = faulty(FaultPlan(commit={2: Fault(Fate.UNKNOWN_APPLIED)}))
        await engine.commit(SET)
        with pytest.raises(OutcomeUnknown):
            await engine.commit(FIRST)
        return stored(engine)

    assert played(main) == {b"k": b"1"}


def test_a_late_commit_is_applied_after_its_caller_was_told():
    async def main():
        engine = faulty(FaultPlan(commit={1: Fault(Fate.UNKNOWN_LATE, late_ns=SECOND)}))
        with pytest.raises(OutcomeUnknown):
            await engine.commit(FIRST)
        before = stored(engine)
        await engine.wire.settle()
        return before, stored(engine), VirtualClock().monotonic_ns()

    assert played(main) == ({}, {b"k": b"1"}, SECOND)


def late_after(*batches):
    """Whether a late commit that expects k=0 arrives although another handle commits `batches`."""

    async def main():
        disk, wire = MemoryDisk(), Wire()
        slow = faulty(FaultPlan(commit={1: Fault(Fate.UNKNOWN_LATE, late_ns=SECOND)}), disk, wire=wire)
        other = faulty(CALM, disk, wire=wire)
        await other.commit(Batch(set={b"k": b"0"}))
        with pytest.raises(OutcomeUnknown):
            await slow.commit(Batch(expect={b"k": b"0"}, set={b"late": b"here"}))
        for batch in batches:
            await other.commit(batch)
        await wire.settle()
        return b"late" in disk.dump()

    return main


@pytest.mark.parametrize("seed", range(10))
def test_a_late_commit_is_never_applied_once_an_expected_key_was_changed_even_if_it_changed_back(seed):
    changed = Batch(expect={b"k": b"0"}, set={b"k": b"1"})
    back = Batch(expect={b"k": b"1"}, set={b"k": b"0"})
    assert not played(late_after(changed), seed)
    assert not played(late_after(changed, back), seed)
    assert not played(late_after(Batch(clear=[b"k"]), Batch(set={b"k": b"0"})), seed)
    assert not played(late_after(Batch(clear_range=[(b"j", b"l")]), Batch(set={b"k": b"0"})), seed)


def test_a_commit_from_another_value_overtakes_even_if_the_first_change_was_not_seen():
    async def main():
        disk, wire = MemoryDisk({}), Wire()
        slow = faulty(FaultPlan(commit={1: Fault(Fate.UNKNOWN_LATE, late_ns=SECOND)}), disk, wire=wire)
        await MemoryEngine(disk).commit(Batch(set={b"k": b"0"}))
        with pytest.raises(OutcomeUnknown):
            await slow.commit(Batch(expect={b"k": b"0"}, set={b"late": b"here"}))
        await MemoryEngine(disk).commit(Batch(set={b"k": b"1"}))
        await slow.commit(Batch(expect={b"k": b"1"}, set={b"k": b"0"}))
        await wire.settle()
        return b"late" in disk.dump()

    assert not played(main)


def test_a_late_commit_survives_commits_that_change_none_of_its_expected_keys():
    assert played(late_after())
    assert played(late_after(Batch(set={b"else": b"1"}), Batch(clear=[b"else"])))
    assert played(late_after(Batch(expect={b"k": b"0"}, set={b"k": b"0"})))


def test_a_rival_makes_a_genuine_conflict():
    async def main():
        engine = faulty(FaultPlan(commit={1: Fault(rival=Batch(set={b"k": b"rival"}))}))
        with pytest.raises(Conflict):
            await engine.commit(FIRST)
        return stored(engine)

    assert played(main) == {b"k": b"rival"}


@pytest.mark.parametrize("seed", range(30))
def test_conflicts_are_always_genuine(seed):
    async def main():
        engine = faulty(ROUGH, entropy=SeededEntropy(seed))
        for number in range(30):
            key = b"key %d" % number
            try:
                await engine.commit(Batch(expect={key: None}, set={key: b"1"}))
            except Unavailable:
                await engine.wire.settle()
        return len(stored(engine))

    assert played(main, seed) > 15


def test_an_early_stamp_becomes_visible_after_a_larger_one():
    async def main():
        disk, wire = MemoryDisk(), Wire()
        early = FaultPlan(commit={1: Fault(stamped_early=True, before_ns=SECOND)})
        slow, quick = faulty(early, disk, wire=wire), faulty(CALM, disk, wire=wire)
        leaving = asyncio.create_task(slow.commit(Batch(ordered=[(b"q", b"a"), (b"q", b"b")])))
        await asyncio.sleep(0.5)
        (larger,) = await quick.commit(Batch(ordered=[(b"q", b"c")]))
        visible = [value for _, value in (await quick.scan(b"q", b"r", limit=9)).items]
        smaller = await leaving
        ordered = [value for _, value in (await quick.scan(b"q", b"r", limit=9)).items]
        (after,) = await quick.commit(Batch(ordered=[(b"q", b"d")]))
        return smaller, larger, after, visible, ordered, len(disk.dump())

    smaller, larger, after, visible, ordered, rows = played(main)
    assert smaller[0] < smaller[1] < larger < after
    assert visible == [b"c"]
    assert ordered == [b"a", b"b", b"c"]
    assert rows == 4


def test_a_watch_may_return_for_nothing_or_fail_but_a_change_always_ends_it():
    async def main():
        plan = FaultPlan(
            watch={
                1: Fault(Fate.FOR_NOTHING, late_ns=2 * SECOND),
                2: Fault(Fate.UNAVAILABLE, late_ns=3 * SECOND),
                3: Fault(Fate.FOR_NOTHING, late_ns=100 * SECOND),
            }
        )
        engine, clock, seen = faulty(plan), VirtualClock(), []
        await engine.watch(b"k", None)
        seen.append(clock.monotonic_ns() // SECOND)
        with pytest.raises(Unavailable):
            await engine.watch(b"k", None)
        seen.append(clock.monotonic_ns() // SECOND)
        for _ in range(2):
            watching = asyncio.create_task(engine.watch(b"k", None))
            await asyncio.sleep(1)
            await engine.commit(SET)
            await watching
            seen.append(clock.monotonic_ns() // SECOND)
            await engine.commit(Batch(clear=[b"k"]))
        return seen

    assert played(main) == [2, 5, 6, 7]


def test_reads_and_scans_may_be_slow_or_fail():
    async def main():
        plan = FaultPlan(
            read={1: Fault(Fate.UNAVAILABLE), 2: Fault(before_ns=SECOND, after_ns=2 * SECOND)},
            scan={1: Fault(Fate.UNAVAILABLE), 2: Fault(before_ns=4 * SECOND)},
        )
        engine = faulty(plan)
        await engine.commit(SET)
        with pytest.raises(Unavailable):
            await engine.read([b"k"])
        with pytest.raises(Unavailable):
            await engine.scan(b"a", b"z", limit=1)
        values = await engine.read([b"k"])
        page = await engine.scan(b"a", b"z", limit=1)
        return values, page.items, VirtualClock().monotonic_ns()

    assert played(main) == ([b"1"], [(b"k", b"1")], 7 * SECOND)


def test_a_frozen_handle_holds_calls_and_answers_until_it_is_healed():
    async def main():
        engine = faulty(FaultPlan(commit={1: Fault(after_ns=SECOND)}))
        answered = asyncio.create_task(engine.commit(SET))
        await asyncio.sleep(0.5)
        engine.freeze()
        asked = asyncio.create_task(engine.commit(Batch(set={b"second": b"2"})))
        await asyncio.sleep(100)
        frozen = answered.done(), asked.done(), stored(engine)
        engine.heal()
        await asyncio.gather(answered, asked)
        return frozen, stored(engine)

    frozen, healed = played(main)
    assert frozen == (False, False, {b"k": b"1"})
    assert healed == {b"k": b"1", b"second": b"2"}


@pytest.mark.parametrize(("fate", "kept"), [(Fate.CRASH_APPLIED, {b"k": b"1"}), (Fate.CRASH_LOST, {})])
def test_a_planned_crash_leaves_the_commit_durable_or_lost_and_tells_nobody(fate, kept):
    async def main():
        engine = faulty(FaultPlan(commit={1: Fault(fate)}))
        caller = asyncio.create_task(engine.commit(SET))
        await engine.wait_crashed()
        await asyncio.sleep(1_000)
        told = caller.done()
        caller.cancel()
        for call in (engine.read([b"k"]), engine.commit(SET), engine.watch(b"k", None)):
            with pytest.raises(Unavailable) as caught:
                await call
            assert caught.value.code == "testing.crashed"
        return told, engine.has_crashed(), stored(engine)

    assert played(main) == (False, True, kept)


def cut_off(seed, cut):
    async def main():
        engine = faulty(Faults(delay=1, delay_ns_max=SECOND, late_ns_max=SECOND), entropy=SeededEntropy(seed))
        callers = [
            asyncio.create_task(engine.commit(Batch(set={b"%d" % number: b"1"}))) for number in range(8)
        ]
        await asyncio.sleep(1e-9)  # all have left, none has arrived
        cut(engine, callers)
        await asyncio.sleep(0)
        at_once = len(stored(engine))
        await engine.wire.settle()
        told = [caller for caller in callers if caller.done() and not caller.cancelled()]
        for caller in callers:
            caller.cancel()
        return at_once, len(stored(engine)), len(told)

    return played(main, seed)


def test_commits_cut_off_by_a_crash_are_applied_or_lost_by_the_seed_and_nobody_is_told():
    outcomes = [cut_off(seed, lambda engine, _: engine.crash()) for seed in range(20)]
    assert outcomes == [cut_off(seed, lambda engine, _: engine.crash()) for seed in range(20)]
    assert all(told == 0 for _, _, told in outcomes)
    assert {at_once for at_once, _, _ in outcomes} == {0}
    assert len({applied for _, applied, _ in outcomes}) > 3


def test_commits_whose_callers_are_cancelled_are_applied_or_lost_by_the_seed():
    def cancel(_engine, callers):
        for caller in callers:
            caller.cancel()

    outcomes = [cut_off(seed, cancel) for seed in range(20)]
    assert all(told == 0 for _, _, told in outcomes)
    assert len({applied for _, applied, _ in outcomes}) > 3


def test_an_invalid_batch_is_rejected_before_any_fault():
    async def main():
        engine = faulty(FaultPlan(commit={1: Fault(Fate.UNKNOWN_LATE)}))
        with pytest.raises(Rejected):
            await engine.commit(Batch(expect={b"k": None}))
        return engine.count("commit")

    assert played(main) == 0


def test_closing_waits_for_late_commits_and_closes_the_wrapped_engine():
    async def main():
        engine = faulty(FaultPlan(commit={1: Fault(Fate.UNKNOWN_LATE, late_ns=SECOND)}))
        with pytest.raises(OutcomeUnknown):
            await engine.commit(SET)
        await engine.close()
        with pytest.raises(Unavailable):
            await engine.read([b"k"])
        return stored(engine)

    assert played(main) == {b"k": b"1"}


def test_a_closed_wire_drops_what_is_still_under_way():
    async def main():
        engine = faulty(FaultPlan(commit={1: Fault(Fate.UNKNOWN_LATE, late_ns=SECOND)}))
        with pytest.raises(OutcomeUnknown):
            await engine.commit(SET)
        await engine.wire.close()
        await asyncio.sleep(10)
        return stored(engine)

    assert played(main) == {}


def test_rates_draw_every_fate_about_as_often_as_they_say():
    entropy, faults = SeededEntropy(1), Faults(unavailable=0.2, unknown_late=0.3, for_nothing=0.5, delay=0.5)
    commits = [faults.fault("commit", number, entropy) for number in range(2_000)]
    watches = [faults.fault("watch", number, entropy).fate for number in range(2_000)]
    fates = [fault.fate for fault in commits]
    assert 300 < fates.count(Fate.UNAVAILABLE) < 500
    assert 500 < fates.count(Fate.UNKNOWN_LATE) < 700
    assert 900 < watches.count(Fate.FOR_NOTHING) < 1_100
    assert {*fates, *watches} == {Fate.ANSWERED, Fate.UNAVAILABLE, Fate.UNKNOWN_LATE, Fate.FOR_NOTHING}
    assert 800 < sum(fault.before_ns > 0 for fault in commits) < 1_200
    assert max(fault.before_ns for fault in commits) <= faults.delay_ns_max
    calm = [CALM.fault("commit", number, entropy) for number in range(100)]
    assert {(fault.fate, fault.before_ns, fault.after_ns, fault.stamped_early) for fault in calm} == {
        (Fate.ANSWERED, 0, 0, False)
    }


def test_changing_one_rate_leaves_the_other_draws_alone():
    calm = Faults(delay=0.5)
    rough = Faults(delay=0.5, unavailable=0.3)
    one, two = SeededEntropy(4), SeededEntropy(4)
    for number in range(100):
        left, right = calm.fault("commit", number, one), rough.fault("commit", number, two)
        assert (left.before_ns, left.after_ns, left.late_ns) == (
            right.before_ns,
            right.after_ns,
            right.late_ns,
        )


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: Faults(unavailable=1.5), "testing.fault_rate"),
        (lambda: Faults(delay=-0.1), "testing.fault_rate"),
        (lambda: Faults(delay_ns_max=-1), "testing.fault_rate"),
        (lambda: FaultPlan(commit={0: Fault()}), "testing.fault_plan"),
        (lambda: FaultPlan(read={1: Fault(Fate.UNKNOWN_LOST)}), "testing.fault_plan"),
        (lambda: FaultPlan(commit={1: Fault(Fate.FOR_NOTHING)}), "testing.fault_plan"),
    ],
)
def test_impossible_faults_are_refused(make, code):
    with pytest.raises(Rejected) as caught:
        make()
    assert caught.value.code == code


def test_closing_lets_commits_under_way_finish_and_refuses_later_ones():
    async def main():
        engine = faulty(FaultPlan(commit={1: Fault(before_ns=SECOND, after_ns=SECOND)}))
        leaving = asyncio.create_task(engine.commit(SET))
        await asyncio.sleep(0.5)
        closing = asyncio.create_task(engine.close())
        await asyncio.sleep(0.1)
        with pytest.raises(Unavailable) as caught:
            await engine.commit(SET)
        await closing
        return caught.value.code, await leaving, stored(engine)

    assert played(main) == ("store.closed", [], {b"k": b"1"})


def test_a_crashed_handle_with_callers_that_hear_nothing_can_be_closed():
    async def main():
        engine = faulty(FaultPlan(commit={1: Fault(Fate.CRASH_APPLIED)}))
        caller = asyncio.create_task(engine.commit(SET))
        await engine.wait_crashed()
        await engine.close()
        return caller.cancel()

    assert played(main)


async def test_a_faulty_engine_works_on_an_ordinary_event_loop_too():
    faults = Faults(unknown_late=0.5, early_stamp=0.5, delay=1, delay_ns_max=10_000, late_ns_max=10_000)
    async with faulty(faults, entropy=SeededEntropy(6)) as engine:
        for number in range(20):
            try:
                await engine.commit(Batch(set={b"%d" % number: b"1"}))
            except OutcomeUnknown:
                await engine.wire.settle()
        assert len(stored(engine)) == 20
