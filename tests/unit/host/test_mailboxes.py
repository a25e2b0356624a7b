"""Mailboxes through a node: made, posted to, read, acknowledged, ended, and the same after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cellule import Rejected, TimedOut
from cellule.testing import VirtualClock
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

MAIL = load_app(Path(__file__).parents[2] / "node_apps" / "mail.py")
BOARD, INBOX = "/mail/news", "/mail/ana"


def mail(opened):
    return opened(app=MAIL.app, clock=VirtualClock())


@in_virtual_time
async def test_a_board_is_read_by_everybody_and_acknowledged_by_each(opened):
    async with mail(opened) as node:
        board = (await node.world("w")).heartbeat.mailbox(BOARD)
        await board.create()
        first = await board.post({"text": "hello"}, sender="bob")
        assert await board.post({"text": "hello"}, sender="bob") == first
        assert await board.post({"text": "numbered"}, sealed=False) == "msg-1"
        assert await board.post({"text": "named"}, id="named") == "named"
        assert sorted(each.id for each in await board.read()) == sorted([first, "msg-1", "named"])
        await board.acknowledge(first, reader="eve")
        assert [each.id for each in await board.read(reader="eve")] == ["msg-1", "named"]
        assert len(await board.read(reader="bob")) == 3
    async with mail(opened) as node:
        board = (await node.world("w")).heartbeat.mailbox(BOARD)
        assert [each.body["text"] for each in await board.read(reader="eve")] == ["numbered", "named"]


@in_virtual_time
async def test_an_inbox_is_its_owners(opened):
    async with mail(opened) as node:
        inbox = (await node.world("w")).heartbeat.mailbox(INBOX)
        await inbox.create("inbox", owner="ana")
        id = await inbox.post("hi", sender="bob")
        for call in (inbox.read(), inbox.read(reader="bob"), inbox.acknowledge(id, reader="bob")):
            with pytest.raises(Rejected) as refused:
                await call
            assert refused.value.code == "mailbox.private"
        assert [each.body for each in await inbox.read(reader="ana")] == ["hi"]
        await inbox.acknowledge(id, reader="ana")
        assert await inbox.read(reader="ana") == []


@in_virtual_time
async def test_messages_end_in_beats_and_in_wall_time_while_nobody_does_anything(opened):
    async with mail(opened) as node:
        world = await node.world("w")
        board = world.heartbeat.mailbox(BOARD)
        await board.create(ttl={"beats": 5})
        await board.post(1, id="beats")
        await board.post(2, id="wall", ttl={"beats": 0, "unix_ns": 90 * 10**9})
        await board.post(3, id="ever", ttl={"forever": True})
        await asyncio.sleep(20)
        assert [each.id for each in await board.read()] == ["ever", "wall"]
        await asyncio.sleep(100)
        assert [each.id for each in await board.read()] == ["ever"]
        await asyncio.sleep(60)
        beat = (await world.head()).beat
        await asyncio.sleep(3_600)
        assert (await world.head()).beat == beat


@in_virtual_time
async def test_what_is_wrong_is_refused_and_says_what_to_do(opened):
    async with mail(opened) as node:
        heartbeat = (await node.world("w")).heartbeat
        board = heartbeat.mailbox(BOARD)
        with pytest.raises(Rejected) as refused:
            await board.post(1)
        assert (refused.value.code, bool(refused.value.hint)) == ("mailbox.unknown", True)
        await board.create()
        await board.post(1, id="a")
        wrong = [
            (board.post(2, id="a"), "mailbox.collision"),
            (board.post(2, id="a/b"), "mailbox.argument"),
            (board.post(2, ttl={"hours": 1}), "mailbox.argument"),
            (board.acknowledge("none", reader="eve"), "mailbox.no_message"),
            (board.acknowledge("a"), "mailbox.argument"),
            (board.read(limit=0), "mailbox.argument"),
            (board.create("odd"), "mailbox.argument"),
        ]
        for call, code in wrong:
            with pytest.raises(Rejected) as refused:
                await call
            assert refused.value.code == code
        for path in ("/", "/rt/ops", "/a//b"):
            with pytest.raises(Rejected):
                heartbeat.mailbox(path)


@in_virtual_time
async def test_a_mailbox_that_nobody_runs_is_told_after_the_timeout(opened):
    async with opened(clock=VirtualClock()) as node:
        board = (await node.world("w")).heartbeat.mailbox(BOARD)
        await board.create()
        with pytest.raises(TimedOut) as late:
            await board.post(1, timeout=5)
        assert late.value.code == "mailbox.wait_timeout"
