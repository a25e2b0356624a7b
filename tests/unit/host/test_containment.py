"""What the kernel cannot take is set aside alone: the world goes on, others are served, senders are told."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from cellule.errors import InvariantBroken, Parked, Rejected
from cellule.host.inbox.inbox import enqueue
from cellule.host.inbox.sends import Sent
from cellule.kernel.decide import controls
from cellule.kernel.decide.admission import Admission
from cellule.kernel.decide.steps import Stepper
from cellule.kernel.items import EventItem
from cellule.kernel.journal.records import RefusedRecord
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.envelope import seal
from cellule.values.link import Link
from tests.support.virtual_tests import in_virtual_time

POISON = b"poison"


@pytest.fixture
def told():
    """The defects that were told to the loop's handler."""
    found = []

    def tell(_loop, context):
        found.append(context["exception"])

    def listen():
        asyncio.get_running_loop().set_exception_handler(tell)
        return found

    return listen


@pytest.fixture
def defect(monkeypatch):
    """A defect of admission: it falls over events that hold a certain text."""
    sound = Admission._targets

    def fall(self, item):
        if POISON in item.value:
            raise ZeroDivisionError("a defect of admission")
        return sound(self, item)

    monkeypatch.setattr(Admission, "_targets", fall)


@pytest.fixture
def cursed(monkeypatch):
    """A defect that one cell's steps meet."""
    sound = Stepper.compute

    def fall(self, slot, height, entropy):
        if slot.key == b"cursed":
            raise ZeroDivisionError("a defect of steps")
        return (yield from sound(self, slot, height, entropy))

    monkeypatch.setattr(Stepper, "compute", fall)


async def rows_of(node, world, rows):
    """Put raw rows into a world's inbox, as any program may."""
    info, shard = world.info, keys.shard_of(world.id)
    prefix = keys.inbox_prefix(info.universe, info.id)
    stamps = await node.node.engine.commit(
        Batch(
            set={keys.ready(shard, info.universe, info.id): b"odd"},
            add={keys.bell(shard): 1},
            ordered=[(prefix, encode(row)) for row in rows],
        )
    )
    return [keys.inbox(info.universe, info.id, stamp) for stamp in stamps]


async def refusals(world):
    return [record async for frame in world.frames() for _, record in frame.of(RefusedRecord)]


async def inbox_of(node, world):
    page = await node.node.engine.scan(*keys.inbox_range(world.info.universe, world.id), limit=100)
    return page.items


def event(**fields):
    add = {
        "kind": "event",
        "schema": "tally/Add@1",
        "value": seal(encode({"account": "a", "amount": 1})),
        "id": "i",
    }
    return {**add, **fields}


ROWS = {
    "a version that is text": (event(expected="3"), "tally/Add@1", "expected"),
    "a version that is true": (event(expected=True), "tally/Add@1", "expected"),
    "a version below 0": (event(expected=-1), "tally/Add@1", "expected"),
    "a time that is text": (event(issued_ns="now"), "tally/Add@1", "issued_ns"),
    "a correlation that is a number": (event(correlation=5), "tally/Add@1", "correlation"),
    "an id that is a number": (event(id=5), "tally/Add@1", "id"),
    "a key that is text": (event(key="a"), "tally/Add@1", "key"),
    "no value": (event(value=None), "tally/Add@1", "value"),
    "a value that is nowhere": (event(value=Link(cid_of(b"\x01"))), "tally/Add@1", "bafy"),
    "a schema that is a list": (event(schema=[]), "inbox:unreadable", "schema"),
    "a control by nobody": (
        {"kind": "control", "verb": "pause", "who": 5, "why": "", "arguments": {}, "id": b"i"},
        "control:pause", "who",
    ),
    "a control without arguments": (
        {"kind": "control", "verb": "pause", "who": "me", "why": "", "arguments": 5, "id": b"i"},
        "control:pause", "arguments",
    ),
    "a verb that is a number": (
        {"kind": "control", "verb": 5, "who": "me", "why": "", "arguments": {}, "id": b"i"},
        "inbox:unreadable", "verb",
    ),
    "a manifest that is nowhere": (
        {
            "kind": "control", "verb": "deploy", "who": "me", "why": "", "id": b"i",
            "arguments": {"manifest": Link(cid_of(b"\x01"))},
        },
        "control:deploy", "cannot be read",
    ),
    "a request for nothing": ({"kind": "request", "what": "tea", "who": "me", "why": "", "id": b"i"},
        "inbox:unreadable", "tea"),
    "a receipt for nothing": ({"kind": "receipt", "intent": 5}, "receipt", "receipt"),
    "a list": ([1, 2], "inbox:unreadable", "a map"),
    "no kind": ({}, "inbox:unreadable", "kind"),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
@in_virtual_time
async def test_a_row_that_is_no_item_is_refused_recorded_and_removed_alone(node, tally, case):
    """A text for a version was durable before it was checked, and ended its world at every start."""
    row, name, text = ROWS[case]
    world = await node.world("w")
    await rows_of(node, world, [event(id="before"), row, event(id="after")])
    await world.send(tally.Add("b", 1))
    await asyncio.sleep(5)
    assert await inbox_of(node, world) == []
    assert [(record.schema, text in record.text) for record in await refusals(world)] == [(name, True)]
    assert (await world.cell(tally.account, "a").state()).total == 2


@in_virtual_time
async def test_the_sender_of_a_refused_row_is_told(opened, tally):
    """The sender hung, because no record had its id."""
    async with opened() as node, opened(owner=False) as other:
        world, far = await node.world("w"), await other.world("w")
        [row] = await rows_of(node, world, [event(id="mine", expected="3")])
        height, _ = await far.reader.await_event("mine", 0, row)
        with pytest.raises(Rejected, match=r"expected must be a whole number from 0, not '3'"):
            await far.reader.steps_of(height)


@in_virtual_time
async def test_an_item_that_the_kernel_falls_over_is_set_aside_among_all_others(node, tally, defect, told):
    """A defect met by one event failed everybody's sends, and a row met it again at every start."""
    defects, world = told(), await node.world("w")
    sents = [
        await world.send_nowait(
            tally.Add(f"k{number % 7}", 1, "poison" if number in (3, 60) else ""), id=f"i{number}"
        )
        for number in range(100)
    ]
    told_by = await asyncio.gather(*(sent.wait() for sent in sents), return_exceptions=True)
    failed = [number for number, outcome in enumerate(told_by) if isinstance(outcome, Exception)]
    assert failed == [3, 60]
    assert all(isinstance(told_by[number], InvariantBroken) for number in failed)
    assert "a defect of admission" in str(told_by[3])
    assert "goes on without it" in str(told_by[3])
    totals = [(await world.cell(tally.account, f"k{number}").state()).total for number in range(7)]
    assert sum(totals) == 98
    assert len(defects) == 2


@pytest.mark.parametrize("turns", range(8))
@in_virtual_time
async def test_an_inbox_that_a_failed_beat_found_empty_is_looked_at_again(node, tally, defect, told, turns):
    """Its `ready` row stayed shared: items were put behind it, and nothing woke the owner for them."""
    told()
    world = await node.world("w")
    for number in range(4):
        row = event(id=f"i{number}")
        await enqueue(node.node.engine, world.info.universe, world.id, [row], bytes(15) + bytes((number,)))
        for _ in range(turns):
            await asyncio.sleep(0)
        with pytest.raises(InvariantBroken):
            await world.send(tally.Add("b", 1, "poison"), id="poison")
    await asyncio.sleep(5)
    assert await inbox_of(node, world) == []


@in_virtual_time
async def test_order_is_kept_while_items_are_taken_apart(node, tally, defect, told):
    told()
    world = await node.world("w")
    sents = [
        await world.send_nowait(tally.Add("a", number, "poison" if number == 11 else ""), id=f"i{number}")
        for number in range(40)
    ]
    await asyncio.gather(*(sent.wait() for sent in sents), return_exceptions=True)
    heights = [sent.height for sent in sents if sent.error is None]
    assert heights == sorted(heights)
    assert len(heights) == 39


@in_virtual_time
async def test_a_row_that_the_kernel_falls_over_is_kept_for_a_person(node, tally, defect, told):
    told()
    world = await node.world("w")
    poison = event(id="bad", value=seal(encode({"account": "a", "amount": 1, "note": "poison"})))
    await rows_of(node, world, [event(id="one"), poison, event(id="two")])
    await world.send(tally.Add("b", 1))
    await asyncio.sleep(5)
    assert await inbox_of(node, world) == []
    [refused] = await refusals(world)
    assert (refused.schema, refused.id, refused.code) == ("tally/Add@1", "bad", "host.set_aside")
    assert (await world.cell(tally.account, "a").state()).total == 2
    page = await node.node.engine.scan(*keys.aside_range(world.info.universe, world.id), limit=10)
    [(_, kept)] = page.items
    assert decode(decode(kept)["item"][0])["id"] == "bad"
    assert "a defect of admission" in decode(kept)["why"]


@in_virtual_time
async def test_a_cell_whose_steps_the_kernel_falls_over_is_halted_alone(node, tally, cursed, told):
    defects, world = told(), await node.world("w")
    hosted = await node.node.hosted(world.info)
    await world.control("pause", who="me", why="so that it is admitted first")
    with pytest.raises(Parked):
        await world.send(tally.Add("cursed", 1))
    await world.control("resume", who="me", why="")
    assert (await world.send(tally.Add("a", 1))).steps
    with pytest.raises(Parked, match="a defect of steps"):
        await world.send(tally.Add("cursed", 1))
    assert [slot.queue for slot in hosted.world.ledger.ring] == []
    assert len(defects) == 1
    await node.node.release(world.info)
    assert (await world.send(tally.Add("a", 1))).steps


@in_virtual_time
async def test_a_halted_cell_goes_on_when_it_is_resumed(node, tally, cursed, told, monkeypatch):
    told()
    world = await node.world("w")
    await world.control("pause", who="me", why="so that it is admitted first")
    with pytest.raises(Parked):
        await world.send(tally.Add("cursed", 1))
    await world.control("resume", who="me", why="")
    await world.send(tally.Add("a", 1))
    monkeypatch.undo()
    await world.control("cell.resume", who="me", why="a new release", module="tally/account", key=b"cursed")
    await world.send(tally.Add("cursed", 2))
    assert (await world.cell(tally.account, "cursed").state()).total == 3


@in_virtual_time
async def test_a_world_whose_own_work_fails_is_paused_with_the_reason(node, tally, told, monkeypatch):
    """Timers that fall over have no cell to halt: the world is paused, and still takes events and verbs."""
    told()
    world = await node.world("w")
    await world.send(tally.Add("a", 1))

    def fall(_ledger):
        raise ZeroDivisionError("a defect of timers")
        yield

    monkeypatch.setattr("cellule.kernel.decide.timers.next_due", fall)
    with pytest.raises(Parked, match="paused"):
        await world.send(tally.Add("a", 1))
    monkeypatch.undo()
    await world.control("resume", who="me", why="a new release")
    await world.send(tally.Add("a", 1))
    assert (await world.cell(tally.account, "a").state()).total == 3


@in_virtual_time
async def test_a_snapshot_under_way_is_begun_again_with_the_restored_world(node, tally, defect, told):
    told()
    world = await node.world("w")
    await world.send_many([tally.Keep(f"k{number}", "x" * 200) for number in range(500)])
    hosted = await node.node.hosted(world.info)
    taken = asyncio.ensure_future(hosted.snapshot_now())
    bad = await world.send_nowait(tally.Add("a", 1, "poison"), id="bad")
    with pytest.raises(InvariantBroken):
        await bad.wait()
    height, _ = await taken
    assert height > 0


@in_virtual_time
async def test_items_that_are_no_items_end_nobody(node, tally, told):
    """What a caller of the runner hands in may be anything; the edge is not the only guard."""
    told()
    world = await node.world("w")
    hosted = await node.node.hosted(world.info)
    value = encode({"account": "a", "amount": 1})
    odd = [
        Sent(EventItem("tally/Add@1", value, expected_version="3")),
        Sent(EventItem("tally/Add@1", value, id=5, explicit=True)),
        Sent(EventItem("tally/Add@1", value, id="\ud800", explicit=True)),
        Sent(EventItem("tally/Add@1", None)),
        Sent(EventItem(None, value)),
        Sent(5),
        Sent(None),
    ]
    good = [Sent(EventItem("tally/Add@1", value)) for _ in odd]
    hosted.submit(*(sent for pair in zip(odd, good, strict=True) for sent in pair))
    told_by = await asyncio.gather(*(sent.wait() for sent in odd), return_exceptions=True)
    assert all(isinstance(outcome, InvariantBroken | Rejected) for outcome in told_by)
    await asyncio.gather(*(sent.wait() for sent in good))
    assert (await world.cell(tally.account, "a").state()).total == len(good)


@in_virtual_time
async def test_an_item_whose_frame_no_commit_takes_is_set_aside_alone(node, tally, told, monkeypatch):
    """A frame that is too long never reaches the store, where it would be tried for ever."""
    defects, world = told(), await node.world("w")
    monkeypatch.setattr("cellule.kernel.decide.beat.FRAME_BYTES_MAX", 5_000)
    sents = [
        await world.send_nowait(tally.Add(f"k{number}", 1, "x" * 6_000 if number == 3 else ""))
        for number in range(8)
    ]
    told_by = await asyncio.gather(*(sent.wait() for sent in sents), return_exceptions=True)
    assert [number for number, outcome in enumerate(told_by) if isinstance(outcome, Exception)] == [3]
    assert isinstance(told_by[3], InvariantBroken)
    assert "a commit takes 5000" in str(told_by[3])
    assert len(defects) == 1
    assert (await world.send(tally.Add("k3", 1))).steps


@pytest.fixture
def cursed_verbs(monkeypatch):
    """A defect that two verbs meet."""
    sound = controls.perform

    def fall(context, item):
        if item.verb in ("pause", "snapshot"):
            raise ZeroDivisionError("a defect of controls")
        return (yield from sound(context, item))

    monkeypatch.setattr(controls, "perform", fall)


@pytest.mark.parametrize("given", [None, "mine", UUID(int=7)])
@in_virtual_time
async def test_the_sender_of_a_control_that_is_set_aside_is_told(opened, tally, cursed_verbs, told, given):
    told()
    async with opened() as node, opened(owner=False) as other:
        world, far = await node.world("w"), await other.world("w")
        with pytest.raises(Rejected, match=r"could not take control:pause.*a defect of controls") as refused:
            await asyncio.wait_for(far.control("pause", who="me", why="", id=given), 60)
        assert refused.value.code == "host.set_aside"
        assert await inbox_of(node, world) == []
        assert (await far.send(tally.Add("a", 1))).steps


@in_virtual_time
async def test_who_asked_for_a_snapshot_whose_note_is_set_aside_is_told(opened, tally, cursed_verbs, told):
    told()
    async with opened() as node, opened(owner=False) as other:
        world, far = await node.world("w"), await other.world("w")
        await world.send(tally.Add("a", 1))
        with pytest.raises(Rejected, match="could not take control:snapshot") as refused:
            await asyncio.wait_for(far.snapshot(who="me", why=""), 60)
        assert refused.value.code == "host.set_aside"
        assert (await far.send(tally.Add("a", 1))).steps
