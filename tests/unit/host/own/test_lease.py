"""Sessions in virtual time: who owns a shared store, who takes over when, what a node that lost it says."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from cellule.errors import Fenced, OutcomeUnknown, Rejected, Unavailable
from cellule.host.limits import SESSION_MARGIN, SESSION_TTL_S_MAX
from cellule.host.node import Node
from cellule.host.own.lease import Lease
from cellule.host.own.session import Sessions
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.store.engines.memory import MemoryEngine
from cellule.testing import FaultyEngine, VirtualClock
from cellule.testing.entropy import SeededEntropy
from cellule.testing.faults import CALM
from cellule.values.cbor import encode
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

TALLY = load_app(Path(__file__).parents[3] / "node_apps" / "tally.py")
TTL_S = 9.0


@asynccontextmanager
async def nodes(opened, *names, ttl_s=TTL_S, **options):
    """Running nodes over one store, each behind a handle that can be cut: `(handle, node)` by name."""
    async with AsyncExitStack() as stack:
        found = []
        for name in names:
            engine = FaultyEngine(MemoryEngine(opened.disk), CALM)
            stack.push_async_callback(engine.close)
            entropy = SeededEntropy(0, name)
            opening = opened(engine, entropy=entropy, ttl_s=ttl_s, clock=VirtualClock(), **options)
            found.append((engine, await stack.enter_async_context(opening)))
        yield found


def now_s():
    return asyncio.get_running_loop().time()


@in_virtual_time
async def test_the_first_node_owns_and_the_second_is_told_who(opened):
    async with nodes(opened, "one", "two") as [(_, one), (_, two)]:
        assert (one.is_owner, two.is_owner) == (True, False)
        world = await one.world("w")
        await world.send(TALLY.Add("a", 1))
        far = await two.world("w")
        assert (await far.send(TALLY.Add("a", 1))).height > 0
        assert (await far.cell(TALLY.account, "a").state()).count == 2
        with pytest.raises(Unavailable) as caught:
            await two.create_world("v")
        assert caught.value.code == "host.not_owner"
        owner, guest = sorted(await two.sessions(), key=lambda each: not each.owns)
        assert (owner.owns, guest.owns) == (True, False)
        assert str(owner) in str(caught.value)
        assert f"process {owner.pid} on {owner.host} since 2023-11-14" in str(owner)
        assert 0 < owner.expires_ms <= TTL_S * 1_000


@in_virtual_time
async def test_a_clean_close_lets_the_next_node_own_at_once(opened):
    async with AsyncExitStack() as first:
        [(_, one)] = await first.enter_async_context(nodes(opened, "one"))
        await one.world("w")
        async with nodes(opened, "two") as [(_, two)]:
            assert not two.is_owner
            closed_s = now_s()
            await first.aclose()
            await two.wait_owner()
            assert now_s() - closed_s < 0.1
            await (await two.world("w")).send(TALLY.Add("a", 1))
    begin, end = keys.session_range()
    assert [key for key in opened.disk.dump() if begin <= key < end] == []


@pytest.mark.parametrize("ttl_s", [1.0, 9.0, 60.0])
@in_virtual_time
async def test_a_guest_takes_over_within_twice_the_session_time_and_its_handles_go_on(opened, ttl_s):
    async with nodes(opened, "one", "two", ttl_s=ttl_s) as [(cut, one), (_, two)]:
        await (await one.world("w")).send(TALLY.Add("a", 1))
        world = await two.world("w")
        for _ in range(5):
            await asyncio.sleep(ttl_s)
            assert (one.is_owner, two.is_owner) == (True, False)  # a node that renews is not displaced
        gone_s = now_s()
        cut.freeze()
        await world.send(TALLY.Add("a", 1), id="waits for the new owner")
        assert two.is_owner
        assert now_s() - gone_s < 2 * ttl_s
        await (await world.send_nowait(TALLY.Add("a", 1))).wait()
        assert (await world.cell(TALLY.account, "a").state()).count == 3
        cut.heal()
        await one.wait_guest()


@in_virtual_time
async def test_an_owner_that_is_cut_off_answers_nothing_once_its_session_may_be_over(opened):
    async with nodes(opened, "one", "two") as [(cut, one), (_, two)]:
        world = await one.world("w")
        await world.send(TALLY.Add("a", 1))
        hosted, cell = await one.node.hosted(world.info), world.cell(TALLY.account, "a")
        assert await hosted.look(cell.module, cell.key) is not None
        cut_s = now_s()
        cut.freeze()
        submitted = await world.send_nowait(TALLY.Add("a", 1), id="submitted")
        await asyncio.sleep(0.01)
        later = await world.send_nowait(TALLY.Add("a", 1), id="later")
        await asyncio.sleep(0.01)
        waits = await world.send_nowait(TALLY.Add("a", 1), id="waits")
        await one.wait_guest()
        assert now_s() - cut_s <= TTL_S * (1 - SESSION_MARGIN) + 0.001
        with pytest.raises(OutcomeUnknown):
            await submitted.wait()
        for sent in (later, waits):
            with pytest.raises(Unavailable) as caught:
                await sent.wait()
            assert caught.value.code == "host.not_accepted"
        assert not two.is_owner  # it waits for the whole time, the owner did not
        reading = asyncio.create_task(cell.state())
        await two.wait_owner()
        near = await two.world("w")
        await near.send(TALLY.Add("a", 1))
        assert not reading.done()
        cut.heal()
        assert await reading == await near.cell(TALLY.account, "a").state()


class Unheard(Lease):
    """The lease of a node that is never told what changed: it is stopped, or busy for good."""

    def contending(self, changed):
        del changed
        return super().contending(lambda: None)


@in_virtual_time
async def test_an_owner_that_has_not_heard_yet_serves_nothing_old_and_acknowledges_nothing(opened):
    async with (
        nodes(opened, "one", lease=Unheard) as [(cut, one)],
        nodes(opened, "two") as [(_, two)],
    ):
        world = await one.world("w")
        await world.send(TALLY.Add("a", 1))
        hosted, cell = await one.node.hosted(world.info), world.cell(TALLY.account, "a")
        cut.freeze()
        await two.wait_owner()
        assert one.is_owner  # it believes
        assert not one.node.may_act()
        with pytest.raises(Fenced):
            await hosted.look(cell.module, cell.key)
        cut.heal()
        with pytest.raises(OutcomeUnknown):  # nobody has taken the world yet, so it is kept all the same
            await world.send(TALLY.Add("a", 1), id="late")
        near = await two.world("w")
        assert (await near.send(TALLY.Add("a", 1), id="late")).duplicate
        await near.send(TALLY.Add("a", 1))
        assert (await cell.state()).count == 3


@in_virtual_time
async def test_an_owner_that_nobody_displaced_goes_on_when_the_store_is_back(opened):
    async with nodes(opened, "one") as [(cut, one)]:
        world = await one.world("w")
        [before] = await one.sessions()
        cut.freeze()
        await one.wait_guest()
        await asyncio.sleep(10 * TTL_S)
        cut.heal()
        with pytest.raises(Unavailable) as caught:
            await one.node.check_owner()
        assert caught.value.code == "host.session_lapsed"
        await one.wait_owner()
        await world.send(TALLY.Add("a", 1))
        assert [each.node for each in await one.sessions()] == [before.node]


@pytest.fixture
def cut_off_at_work(monkeypatch):
    """`cut_off_at_work(node, cut)`: the node is cut off once, as soon as it has a world at work."""

    def begin(node, cut):
        hosted, cuts = Node.hosted, [cut]

        async def hosted_then_cut(self, *given):
            found = await hosted(self, *given)
            if cuts and self is node.node:
                cuts.pop().freeze()
            return found

        monkeypatch.setattr(Node, "hosted", hosted_then_cut)

    return begin


@in_virtual_time
async def test_who_makes_a_world_is_told_when_the_node_loses_it_before_its_first_beat(
    opened, cut_off_at_work
):
    """They got `Fenced`, which is for the node: nothing that a caller can act on."""
    async with nodes(opened, "one", "two") as [(cut, one), (_, two)]:
        cut_off_at_work(one, cut)
        with pytest.raises(Unavailable) as caught:
            await one.world("w")
        assert caught.value.code == "host.world_lost"
        assert "made all the same" in str(caught.value)
        await two.wait_owner()
        cut.heal()
        await (await one.world("w")).send(TALLY.Add("a", 1))


@pytest.mark.parametrize("wait", ["snapshot", "inhabited"])
@in_virtual_time
async def test_who_waits_for_a_world_at_work_is_told_when_the_node_loses_it(opened, cut_off_at_work, wait):
    async with nodes(opened, "one", "two") as [(cut, one), (_, two)]:
        world = await one.world("w")
        await world.send(TALLY.Add("a", 1))
        cut_off_at_work(one, cut)
        slow = {"snapshot": world.snapshot, "inhabited": lambda: inhabited(one, world)}[wait]
        with pytest.raises(Unavailable) as caught:
            await slow()
        assert caught.value.code == "host.world_lost"
        await two.wait_owner()
        cut.heal()
        await world.send(TALLY.Add("a", 1))


async def inhabited(node, world):
    """What a deployment asks, of a world whose last beat is not durable yet."""
    hosted = await node.node.hosted(world.info)  # cut off from here on
    sending = asyncio.ensure_future(world.send(TALLY.Add("a", 1)))
    await asyncio.sleep(0.01)
    try:
        return await node._inhabited(world.info, [world.cell(TALLY.account, "a").module])
    finally:
        assert hosted.ended is not None
        with pytest.raises(Unavailable):
            await sending


def test_two_nodes_that_start_at_once_have_one_owner(on_node):
    async def main(opened):
        async with AsyncExitStack() as stack:
            both = await asyncio.gather(
                *(stack.enter_async_context(nodes(opened, name)) for name in ("one", "two", "three"))
            )
            assert sum(node.is_owner for [(_, node)] in both) == 1

    for seed in range(20):
        on_node(main, seed=seed)


@in_virtual_time
async def test_the_session_of_a_dead_guest_is_cleared(opened):
    async with nodes(opened, "one") as [(_, one)]:
        engine = MemoryEngine(opened.disk)
        sessions = Sessions(engine, VirtualClock(), SeededEntropy(0, "dead"), int(TTL_S * 1_000))
        await sessions.acquire()
        assert len(await one.sessions()) == 2
        await asyncio.sleep(2 * TTL_S)
        assert [each.owns for each in await one.sessions()] == [True]


ODD_SESSIONS = {
    "no value": b"\xff", "a list": encode([]), "of another version": encode({"count": 5, "until": 9}),
    "an endless one": encode(
        {"address": "a", "count": 0, "pid": 1, "roles": [], "since_ns": 0, "ttl_ms": 1 << 62}
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD_SESSIONS)
@in_virtual_time
async def test_a_session_that_cannot_be_read_keeps_nobody_from_working(opened, kind):
    """Every node ended its own session for good when it saw one, and none could own the store."""
    odd = keys.session(UUID(int=7))
    await MemoryEngine(opened.disk).commit(Batch(set={odd: ODD_SESSIONS[kind]}))
    async with nodes(opened, "one", "two") as [(engine, one), (_, two)]:
        assert (one.is_owner, two.is_owner) == (True, False)
        await (await one.world("w")).send(TALLY.Add("a", 1))
        assert len(await two.sessions()) == 3
        engine.freeze()
        await two.wait_owner()
        engine.heal()
        await (await two.world("w")).send(TALLY.Add("a", 1))
        assert [each for each in await two.sessions() if each.node == UUID(int=7)]
        await asyncio.sleep(SESSION_TTL_S_MAX)
        assert not [each for each in await two.sessions() if each.node == UUID(int=7)]


@in_virtual_time
async def test_a_guest_that_never_owns_is_told_when_nobody_works_on_what_it_sent(opened):
    """It waited for ever."""
    async with nodes(opened, "one") as [(cut, one)]:
        await one.world("w")
        async with nodes(opened, "two", owner=False) as [(_, two)]:
            world = await two.world("w")
            await world.send(TALLY.Add("a", 1))
            cut.freeze()
            with pytest.raises(OutcomeUnknown) as caught:
                await world.send(TALLY.Add("a", 1), id="kept")
            assert caught.value.code == "host.no_owner"
            cut.heal()
            await world.send(TALLY.Add("a", 1), id="kept")
            assert (await world.cell(TALLY.account, "a").state()).count == 2


@in_virtual_time
async def test_a_world_that_left_in_peace_keeps_its_epoch_and_one_that_was_cut_off_does_not(opened):
    async with nodes(opened, "one") as [(cut, one)]:
        world = await one.world("w")
        epoch = keys.world_epoch(world.info.universe, world.id)
        before = opened.disk.value(epoch)
        await one.node.release(world.info)
        await world.send(TALLY.Add("a", 1))
        assert opened.disk.value(epoch) == before
        cut.freeze()
        await world.send_nowait(TALLY.Add("a", 1))
        await one.wait_guest()
        cut.heal()
        await one.wait_owner()
        await world.send(TALLY.Add("a", 1))
        assert opened.disk.value(epoch) != before


@in_virtual_time
async def test_a_session_time_that_cannot_be_kept_is_refused(opened):
    for ttl_s in (0.1, 100_000.0):
        with pytest.raises(Rejected) as caught:
            async with opened(ttl_s=ttl_s):
                pass
        assert caught.value.code == "host.session_ttl"
