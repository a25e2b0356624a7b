"""The inbox of a hosted world: what the store holds, and what this node's own pool brings."""

from __future__ import annotations

import asyncio

import pytest

from cellule.errors import Conflict, OutcomeUnknown
from cellule.host.inbox.inbox import Inbox, enqueue
from cellule.host.inbox.item_rows import event_row
from cellule.host.limits import LOOK_PASSES
from cellule.host.outbox.receipts import Receipt, inbox_item, sealed_receipt
from cellule.host.outbox.signatures import NodeKey
from cellule.host.own.ready_row import is_shared, unshared
from cellule.kernel.items import EventItem, ReceiptItem, RefusalItem
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Batch
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing.entropy import SeededEntropy
from cellule.values.cbor import encode
from tests.support.outbox import UNIVERSE, WORLD

KEY = NodeKey(bytes(range(32)))
READY = keys.ready(keys.shard_of(WORLD), UNIVERSE, WORLD)


class Post:
    """An inbox and those who write into it; `pages` holds back scans that have read their rows."""

    def __init__(self):
        self.engine = MemoryEngine(MemoryDisk())
        self.cas = Cas(self.engine, UNIVERSE, entropy=SeededEntropy(1, "inbox"))
        self.looks = 0
        self.pages = asyncio.Event()
        self.pages.set()
        self.looked = asyncio.Event()
        self.inbox = Inbox(self, self.cas, UNIVERSE, WORLD, KEY)
        self.written = 0

    async def read(self, wanted):
        return await self.engine.read(wanted)

    async def scan(self, *given, **more):
        page = await self.engine.scan(*given, **more)
        self.looks += 1
        self.looked.set()
        await self.pages.wait()
        return page

    async def receipts(self, count, key=KEY):
        """Write receipts as a pool does; returns what it then tells."""
        made = [Receipt(bytes((self.written + at,)) * 32, 5, "ok", b"\xa0") for at in range(count)]
        self.written += count
        ready = b"ready %d" % self.written
        ordered = [
            (keys.inbox_prefix(UNIVERSE, WORLD), sealed_receipt(key, UNIVERSE, WORLD, each)) for each in made
        ]
        stamps = await self.engine.commit(Batch(set={READY: ready}, ordered=ordered))
        places = [keys.inbox(UNIVERSE, WORLD, stamp) for stamp in stamps]
        return [(at, inbox_item(each, key.id, b"\xa0")) for at, each in zip(places, made, strict=True)], ready

    async def event(self, name):
        row = await event_row(EventItem("a/B@1", encode({}), id=name), self.cas)
        await self.engine.commit(Batch(set={keys.universe_world(UNIVERSE, WORLD): b"listed"}))
        await enqueue(self.engine, UNIVERSE, WORLD, [row], b"bell")

    async def clear(self, taken):
        """The commit of the beat that took these."""
        rows = [row.key for row in taken.rows]
        expect = {} if taken.ready is None else {READY: taken.ready}
        await self.engine.commit(Batch(expect=expect, clear=[*rows, *expect]))
        self.inbox.forget(rows)

    async def emptied(self):
        """The inbox after its first look, at nothing."""
        await self.clear(await self.inbox.take(10))
        assert not self.inbox.has_items
        self.looks = 0
        self.looked.clear()
        return self


def intents(taken):
    return [row.sent.item.intent[0] for row in taken.rows]


@pytest.fixture
async def post():
    return await Post().emptied()


async def test_brought_receipts_are_taken_without_a_look(post):
    post.inbox.bring(*await post.receipts(3))
    assert post.inbox.has_items
    taken = await post.inbox.take(2)
    assert (intents(taken), taken.ready) == ([0, 1], None)
    assert intents(await post.inbox.take(10)) == [2]
    assert post.looks == 0


async def test_a_brought_receipt_is_the_one_that_the_store_holds(post):
    rows, _ = await post.receipts(2)
    post.inbox.ring()
    taken = await post.inbox.take(10)
    assert [(row.key, row.sent.item) for row in taken.rows] == rows


async def test_ready_is_cleared_by_a_look_behind_the_commit_that_clears_brought_rows(post):
    rows, ready = await post.receipts(2)
    post.inbox.bring(rows, ready)
    taken = await post.inbox.take(10)
    assert not post.inbox.has_items
    assert post.inbox.waits
    await post.clear(taken)
    assert post.inbox.has_items
    last = await post.inbox.take(10)
    assert (last.rows, last.ready) == ([], ready)
    await post.clear(last)
    assert await post.engine.read([READY]) == [None]
    assert not post.inbox.has_items


async def test_a_look_beside_brought_rows_leaves_ready_alone(post):
    post.inbox.bring(*await post.receipts(2))
    first = await post.inbox.take(10)
    post.inbox.ring()
    beside = await post.inbox.take(10)
    assert (beside.rows, beside.ready) == ([], None)
    assert not post.inbox.has_items
    await post.clear(first)
    assert (await post.inbox.take(10)).ready is not None


async def test_the_echo_of_brought_rows_asks_for_no_look(post):
    rows, ready = await post.receipts(1)
    post.inbox.bring(rows, ready)
    taken = await post.inbox.take(10)
    post.inbox.ring(ready)
    assert not post.inbox.has_items
    post.inbox.ring(b"somebody else's")
    assert post.inbox.has_items
    await post.clear(taken)


async def test_what_others_put_is_found_although_receipts_keep_coming(post):
    """The pool's `ready` may have replaced theirs: nothing but a look can tell."""
    await post.event("other")
    seen = []
    for _ in range(LOOK_PASSES + 1):
        rows, ready = await post.receipts(2)
        post.inbox.bring(rows, ready)
        post.inbox.ring(ready)
        seen += [row.sent.item for row in (await post.inbox.take(1)).rows]
    assert [item.id for item in seen if isinstance(item, EventItem)] == ["other"]


async def test_rows_that_are_not_at_hand_are_looked_for(post):
    rows, ready = await post.receipts(3)
    post.inbox.bring([rows[0], (rows[1][0], None), rows[2]], ready)
    assert intents(await post.inbox.take(10)) == [0, 2]
    assert intents(await post.inbox.take(10)) == [1]
    assert post.looks == 1


async def test_receipts_under_another_key_are_not_believed(post):
    post.inbox.bring(*await post.receipts(1, NodeKey(bytes(32))))
    [row] = (await post.inbox.take(10)).rows
    assert isinstance(row.sent.item, RefusalItem)
    assert row.sent.item.code == "host.receipt_forged"


async def test_a_row_cleared_while_a_look_is_under_way_is_not_taken_again(post):
    """A look that had read its page before the commit took the rows twice: receipts were refused as late."""
    post.inbox.bring(*await post.receipts(2))
    first = await post.inbox.take(10)
    post.inbox.ring()
    look = await under_way(post)
    await post.clear(first)
    post.pages.set()
    assert (await look).rows == []
    assert all(isinstance(row.sent.item, ReceiptItem) for row in first.rows)


async def under_way(post):
    """A look that has read its page, and waits."""
    post.pages.clear()
    post.looked.clear()
    look = asyncio.create_task(post.inbox.take(10))
    await post.looked.wait()
    return look


async def test_what_is_put_while_a_look_is_under_way_is_looked_for(post):
    post.inbox.ring()
    look = await under_way(post)
    await post.event("late")
    post.inbox.ring()
    post.pages.set()
    assert (await look).rows == []
    assert [row.sent.item.id for row in (await post.inbox.take(10)).rows] == ["late"]


async def test_ready_is_cleared_behind_rows_that_were_brought_while_a_look_was_under_way(post):
    post.inbox.ring()
    look = await under_way(post)
    rows, ready = await post.receipts(1)
    post.inbox.bring(rows, ready)
    post.inbox.ring(ready)
    post.pages.set()
    assert await look == ([], None)
    taken = await post.inbox.take(10)
    assert intents(taken) == [0]
    await post.clear(taken)
    assert (await post.inbox.take(10)).ready == ready


async def test_a_look_that_fails_is_made_again(post):
    post.inbox.ring()
    post.pages.clear()
    look = await under_way(post)
    look.cancel()
    with pytest.raises(asyncio.CancelledError):
        await look
    assert post.inbox.has_items


async def test_a_receipt_that_a_look_took_before_it_was_brought_is_taken_once(post):
    """The pool hears of its commit when it is answered; a look may have seen the rows before that."""
    rows, ready = await post.receipts(3)
    post.inbox.ring()
    taken = await post.inbox.take(2)
    await post.clear(taken)
    post.inbox.bring(rows, ready)
    assert intents(await post.inbox.take(10)) == [2]


class LosesOneAnswer:
    """An engine whose first commit is applied and not answered; `meanwhile` happens before the next."""

    def __init__(self, engine, meanwhile):
        self.engine, self.meanwhile = engine, [meanwhile]

    async def read(self, wanted):
        return await self.engine.read(wanted)

    async def commit(self, batch):
        stamps = await self.engine.commit(batch)
        if not self.meanwhile:
            return stamps
        await self.meanwhile.pop()()
        raise OutcomeUnknown("store.commit_unknown", "the answer was lost")


@pytest.mark.parametrize("cleared", ["before the second", "after the second"])
async def test_an_item_put_again_after_an_unknown_outcome_is_not_left_behind(post, cleared):
    """A value of `ready` that comes back would be cleared by an owner that saw it the first time."""
    row = await event_row(EventItem("a/B@1", encode({}), id="twice"), post.cas)
    await post.engine.commit(Batch(set={keys.universe_world(UNIVERSE, WORLD): b"listed"}))
    found, looks = [], []

    async def look():
        post.inbox.ring()
        taken = await post.inbox.take(10)
        found.extend(taken.rows)
        if cleared == "before the second":
            await commit(post, taken)
            taken = await post.inbox.take(10)
        looks.append(taken)

    await enqueue(LosesOneAnswer(post.engine, look), UNIVERSE, WORLD, [row], b"bell")
    await commit(post, looks[0])
    while post.inbox.has_items or (await post.engine.read([READY]))[0] is not None:
        post.inbox.ring()
        taken = await post.inbox.take(10)
        found.extend(taken.rows)
        await commit(post, taken)
    assert [each.sent.item.id for each in found] == ["twice", "twice"]


async def commit(post, taken):
    """What the committer of a world does about these rows and `ready`."""
    rows = [row.key for row in taken.rows]
    expect = {} if taken.ready is None else {READY: taken.ready}
    kept = {key: unshared(value) for key, value in expect.items() if is_shared(value)}
    try:
        await post.engine.commit(
            Batch(expect=expect, set=kept, clear=[*rows, *(key for key in expect if key not in kept)])
        )
    except Conflict:
        await post.engine.commit(Batch(clear=rows))
    post.inbox.forget(rows)
