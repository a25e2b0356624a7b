"""Verbs and signals as anybody may write them into an inbox: each argument in turn is something else.

Whatever stands in a row, the world goes on, nothing needs to be set aside, and what was journaled replays to
the same bytes, passes `check`, and can be collected. Values that fit, but for one argument, are what gets
deepest; those that only the kernel's rules can refuse are the point.
"""

from __future__ import annotations

import asyncio
import sys
from enum import Enum
from pathlib import Path
from typing import get_args

import pytest

from cellule.errors import CelluleError, Rejected
from cellule.host.inbox.inbox import enqueue
from cellule.host.storage.collection_state import DONE
from cellule.kernel.items import Verb
from cellule.kernel.journal.records import RefusedRecord
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from cellule.values.envelope import seal
from cellule.values.link import Link
from tests.support.nodes import load_app

VERBS = load_app(Path(__file__).parents[2] / "node_apps" / "verbs.py")
CELL = "verbs/counter"
GONE = Link(cid_of(b"\x01"))
STATE = seal(encode({"count": 1}))
HOUR_NS = 3_600_000_000_000
GROUP = 40


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


HOSTILE = [
    None, True, -1, 0, 1, 1 << 63, -(1 << 64), 1.5, "", "x", "/", "//", "/rt/ops", "/cells/verbs/counter/a",
    "verbs/nothing", "sys/Tree", "a" * 70_000, "/" + "a/" * 3_000 + "a", "/**/*a*", "/a\0b", b"", b"a",
    b"x" * 600, b"x" * 60_000, GONE, [GONE], [], ["x"], {}, {"name": "x"}, {"/": GONE}, seal(b"\xff"),
    [b"\xa0", [GONE]], *map(nested, (118, 122, 123, 124)),
]  # fmt: skip
ENTRY = {
    "name": "n", "query": "/mark", "module": "verbs/mark", "match": "exact", "before": ["a"], "after": ["b"],
    "access": "ro", "retry_limit": 3, "backoff": 2, "depth": 4, "signals": 4,
}  # fmt: skip


def verbs(now_ns, operation):
    """A control of each verb that could be done, or nearly."""
    return {
        "cell.resume": {"module": CELL, "key": b"h", "until": 5},
        "cell.migrate": {"module": CELL, "key": b"h", "to": 0, "all": True, "after": b"x"},
        "cell.halt": {"module": CELL, "key": b"a"},
        "deploy": {"manifest": GONE}, "cell.spill": {"manifest": GONE},
        "snapshot": {"height": 1, "snapshot": GONE}, "baseline": {"height": 1, "snapshot": GONE},
        "effect.approve": {"intent": 5}, "effect.deny": {"intent": 5}, "effect.cancel": {"intent": 5},
        "effect.retry": {"letter": 5}, "letter.redrive": {"letter": 3}, "letter.dismiss": {"letter": 3},
        "schedule.pause": {"name": "hourly"}, "schedule.resume": {"name": "hourly"},
        "schedule.trigger": {"name": "hourly"},
        "schedule.backfill": {"name": "hourly", "from_ns": now_ns - 3 * HOUR_NS, "to_ns": now_ns - 1},
        "cell.drop": {"module": CELL, "key": b"h", "count": 1, "message": 3, "until": 4},
        "cell.delete": {"module": CELL, "key": b"b"},
        "cell.merge": {
            "module": CELL, "key": b"new", "version": 0, "born": 0, "state": STATE, "from": b"w",
            "archive": GONE,
        },
        "cell.import": {"module": CELL, "key": b"new", "version": 0, "born": 0, "state": STATE, "at": 5},
        "op.start": {"verb": "v", "target": "/t", "mode": "opm:states", "ttl": 3, "payload": encode(5)},
        "op.state": {"operation": operation, "state": "s", "code": 1, "note": "n"},
        "op.await": {
            "operation": operation, "want": "ist:run", "cont": "/mark", "ttl": 2, "payload": encode(4),
        },
        "op.close": {"operation": "9-9", "status": "sts:ok", "summary": "s"},
        "heartbeat.publish": {"beat": 3, "ns": 5}, "heartbeat.window": {"window": 4},
        "enzyme.register": {"entry": ENTRY}, "enzyme.unregister": {"number": 9},
        "enzyme.bind": {"path": "/a/b", "name": "mark", "propagate": True},
        "enzyme.unbind": {"path": "/a/b", "name": "mark"},
        "tree.write": {"path": "/a/b", "value": 5}, "tree.delete": {"path": "/a/b"},
    }  # fmt: skip


def rows(good):
    """Controls with one argument wrong, missing or too many; signals with one part wrong."""
    for verb in get_args(Verb):
        fields = good.get(verb, {})
        yield from ((verb, {**fields, "extra": each}) for each in (1, GONE, nested(124)))
        for field in fields:
            yield verb, {name: value for name, value in fields.items() if name != field}
            yield from ((verb, {**fields, field: each}) for each in HOSTILE)
    for field in ENTRY:
        yield from (("enzyme.register", {"entry": {**ENTRY, field: each}}) for each in HOSTILE)


def signals():
    for each in HOSTILE:
        yield {"signal": each}
        yield from ({"signal": "/mark", field: each} for field in ("target", "payload", "beat"))
    for levels in range(118, 129):
        deep = b"\x81" * levels + b"\x80"
        for target in ("/deep", "/cells/verbs/counter/a", "/cells/verbs/mark/a"):
            yield {"signal": "/mark", "target": target, "payload": seal(deep)}


def as_rows(good):
    controls = []
    for number, (verb, arguments) in enumerate(rows(good)):
        if arguments.get("key") == b"new":
            arguments = {**arguments, "key": b"new%d" % number}  # noqa: PLW2901 - a cell that is not there yet
        controls.append({"kind": "control", "verb": verb, "who": "me", "why": "", "arguments": arguments})
    return [*controls, *({"kind": "signal", **each} for each in signals())]


async def put_bytes(node, world, values, *, rings=True):
    """Rows of any bytes; nobody looks for them before the next bell if this one does not ring."""
    universe, prefix = world.info.universe, keys.inbox_prefix(world.info.universe, world.id)
    ready = {keys.ready(keys.shard_of(world.id), universe, world.id): b"odd"} if rings else {}
    await node.node.engine.commit(Batch(set=ready, ordered=[(prefix, each) for each in values]))


async def prepared(world):
    """A cell, one that is halted, a node of the tree and an operation."""
    await world.send(VERBS.Told("a"))
    with pytest.raises(CelluleError):
        await world.send(VERBS.Told("h", fail=True))
    await world.heartbeat.write("/a/b", 1, who="me", why="so")
    return await world.op.start("v", "/t", who="me", why="so")


def test_whatever_stands_in_a_verb_its_world_goes_on_and_replays(on_node):
    """A payload that was nowhere ended the world at every start; bytes that are no value, a link that leads
    nowhere or a value a little too deep were journaled, and `check`, collection or a restart failed then."""

    async def main(opened):
        async with opened(app=VERBS.app, snapshot_bytes=30_000) as node:
            world = await node.world("w")
            operation = await prepared(world)
            given = as_rows(verbs(1_700_000_000_000_000_000, operation))
            for at in range(0, len(given), GROUP):
                some = [{**row, "id": f"i{at + number}"} for number, row in enumerate(given[at : at + GROUP])]
                await enqueue(node.node.engine, world.info.universe, world.id, some, b"%016d" % at)
                await world.control("resume", who="me", why="go on")
                async with asyncio.timeout(60):
                    await world.send(VERBS.Told(f"n{at}"))
            await put_bytes(node, world, [b"", b"\xff", b"\x81" * 50_000 + b"\x80", b"\xd8\x2a" * 9])
            await world.send(VERBS.Told("raw"))
            refused = [record async for frame in world.frames() for _, record in frame.of(RefusedRecord)]
            assert len(refused) > len(given) / 2
            assert not [record for record in refused if record.code == "host.set_aside"]
            await put_bytes(node, world, [b"\xd8\x2a", encode({"kind": "event", "value": GONE})], rings=False)
            assert (await node.collect_garbage(grace_s=0)).phase == DONE
        async with opened(app=VERBS.app) as node:
            await (await node.world("w")).send(VERBS.Told("a"))

    on_node(main, steps_max=50_000_000)


@pytest.mark.parametrize("verb", ["op.start", "schedule.backfill"])
def test_a_verb_with_an_id_is_known_again_after_a_restart(on_node, verb):
    """What the kernel added to its arguments counted in replay: the same again was refused as another verb,
    and snapshots were not what the journal gives."""
    arguments = {**verbs(1_700_000_000_000_000_000, "")[verb]}
    if verb == "schedule.backfill":
        arguments = {**arguments, "from_ns": arguments["from_ns"] - 9 * HOUR_NS}

    async def main(opened):
        async with opened(app=VERBS.app) as node:
            world = await node.world("w")
            await world.send(VERBS.Told("a"))
            row = {
                "kind": "control",
                "verb": verb,
                "who": "me",
                "why": "",
                "arguments": arguments,
                "id": "once",
            }
            await enqueue(node.node.engine, world.info.universe, world.id, [row], b"0" * 16)
            await asyncio.sleep(3)
            before = (await world.head()).height
            assert before > 4
        async with opened(app=VERBS.app) as node:
            world = await node.world("w")
            await enqueue(node.node.engine, world.info.universe, world.id, [row], b"1" * 16)
            await asyncio.sleep(3)
            refused = [record async for frame in world.frames() for _, record in frame.of(RefusedRecord)]
            assert refused == []
            await world.snapshot(who="me", why="to compare")

    on_node(main)


def test_a_value_that_a_frame_cannot_hold_is_refused_and_the_world_opens_again(on_node):
    """It was a little too deep: the frame was written, and nobody could read it."""

    async def main(opened):
        async with opened(app=VERBS.app) as node:
            world = await node.world("w")
            for levels in range(118, 127):
                try:
                    await world.heartbeat.write("/deep", nested(levels), who="me", why="so")
                except Rejected as error:
                    assert error.code == "values.too_deep"  # noqa: PT017 - some do fit
        async with opened(app=VERBS.app) as node:
            world = await node.world("w")
            assert await world.heartbeat.read("/deep") == nested(123)
            await world.heartbeat.signal("/mark", "/cells/verbs/counter/a", payload=nested(127))
            await asyncio.sleep(3)
            assert (await world.send(VERBS.Told("a"))).steps

    on_node(main)


class Name(str, Enum):  # noqa: UP042 - formats as `Name.MARK`, which a StrEnum does not
    MARK = "mark"
    PLACE = "/place"


class Text(str):
    """A text that ends the process wherever somebody looks at it."""

    __slots__ = ()

    def _exit(self, *_):
        sys.exit("a text was asked")

    __contains__ = __format__ = encode = startswith = _exit


@pytest.mark.parametrize("make", [lambda: Name.MARK, lambda: Text("mark")], ids=["member", "text"])
def test_the_arguments_of_a_verb_arrive_as_what_they_are(on_node, make):
    """Members and texts of classes of their own went into the kernel, which asked them what they are."""

    async def main(opened):
        async with opened(app=VERBS.app) as node:
            world, name = await node.world("w"), make()
            await world.heartbeat.write(Name.PLACE, {"a": name}, who="me", why="so")
            await world.heartbeat.bind(Name.PLACE, name, who="me", why="so")
            await world.heartbeat.signal("/mark", Name.PLACE, payload=[name])
            await asyncio.sleep(3)
            assert await world.heartbeat.read("/marked") == ["mark"]
            await world.snapshot(who="me", why="to compare")

    on_node(main)


def test_a_question_that_fails_is_for_the_one_who_asked(on_node):
    """A number of operations that was no whole one stopped the world that was asked."""

    async def main(opened):
        async with opened(app=VERBS.app) as node:
            world = await node.world("w")
            await world.op.start("v", "/t")
            for limit in (1.5, True, "x", None):
                with pytest.raises(Rejected):
                    await world.op.list(limit=limit)
            hosted = await node.node.hosted(world.info)
            asked = [
                asyncio.ensure_future(hosted.ask(lambda: 1 // 0)),
                asyncio.ensure_future(world.op.list()),
            ]
            with pytest.raises(ZeroDivisionError):
                await asked[0]
            assert len((await asked[1]).operations) == 1
            assert (await world.send(VERBS.Told("a"))).steps

    on_node(main)
