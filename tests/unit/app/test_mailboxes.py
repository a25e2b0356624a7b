"""Mailboxes in an app: made, posted to, read and acknowledged by enzymes and from outside."""

from __future__ import annotations

import pytest

from cellule import App, EnzymeContext, Mailbox
from cellule.testing import World

BOARD, INBOX = "/mail/news", "/mail/ana"
app = App("mail")
app.mailboxes()


@app.enzyme("/open")
def make(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    Mailbox(ctx, BOARD).create()
    Mailbox(ctx, INBOX).create("inbox", owner="ana", ttl={"beats": 6})


@app.enzyme("/say")
def say(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    for text in ctx.payload["texts"]:
        Mailbox(ctx, BOARD).post({"text": text}, sealed=ctx.payload.get("sealed", False))
    Mailbox(ctx, INBOX).post("ping", id=f"ping-{ctx.beat}", sender="bob")


@app.enzyme("/look")
def look(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    inbox, board = Mailbox(ctx, INBOX), Mailbox(ctx, BOARD)
    found = inbox.read(reader="ana")
    ctx.write("/seen", [[each.id, each.body, each.sender] for each in found])
    ctx.write("/news", [each.body["text"] for each in board.read(reader="ana")])
    for each in board.read(reader="ana"):
        board.acknowledge(each.id, reader="ana")
    for each in found:
        inbox.acknowledge(each.id, reader="ana")


@pytest.fixture(params=[False, True], ids=["kept", "evicted"])
def world(request):
    made = World(app, evict=request.param)
    made.signal("/open")
    made.settle()
    yield made
    made.assert_replays()


def say_all(world, *texts, **more):
    world.signal("/say", payload={"texts": list(texts), **more})
    world.settle()


def test_enzymes_post_read_and_acknowledge(world):
    say_all(world, "one", "two")
    world.signal("/look")
    world.settle()
    assert world.heartbeat.read("/news") == ["one", "two"]
    [[id, body, sender]] = world.heartbeat.read("/seen")
    assert (id.partition("-")[0], body, sender) == ("ping", "ping", "bob")
    world.signal("/look", payload="again")
    world.settle()
    assert (world.heartbeat.read("/news"), world.heartbeat.read("/seen")) == ([], [])
    assert world.heartbeat.list(f"{BOARD}/msgs") == ["msg-1", "msg-2"]


def test_enzymes_of_one_beat_post_without_losing_anything(world):
    """Each sees the tree as the beat found it, so they would choose the same id."""
    world.signal("/say", payload={"texts": ["a"]})
    world.signal("/say", payload={"texts": ["b"]})
    world.settle()
    bodies = [world.heartbeat.read(f"{BOARD}/msgs/{name}")["body"] for name in ("msg-1", "msg-2")]
    assert bodies == [{"text": "a"}, {"text": "b"}]


def test_a_message_ends_by_itself_and_then_the_world_rests(world):
    say_all(world, "one")
    assert len(world.heartbeat.list(f"{INBOX}/msgs")) == 1
    world.advance(seconds=60)
    assert world.heartbeat.list(f"{INBOX}/msgs") == []
    assert world.heartbeat.list(f"{INBOX}/meta/runtime/expiries") == []
    beat = world.heartbeat.beats()[-1].beat
    world.advance(hours=1)
    assert world.heartbeat.beats()[-1].beat == beat


def test_a_post_from_outside_is_a_signal_to_the_mailbox(world):
    given = {"body": 1, "id": "a", "ttl": {"forever": True}, "request": "r"}
    world.signal("/mailbox/post", BOARD, payload=given)
    world.signal("/mailbox/post", BOARD, payload={"id": "b"})
    world.settle()
    assert world.heartbeat.list(f"{BOARD}/msgs") == ["a"]
    [name] = world.heartbeat.list(f"{BOARD}/meta/runtime/outcomes")
    assert world.heartbeat.read(f"{BOARD}/meta/runtime/outcomes/{name}")["mode"] == "explicit"
    failed = [line.text for beat in world.heartbeat.beats() for line in beat.agenda if line.code == -2]
    assert "mailbox.argument" in failed[0] or "the payload" in failed[0]


def test_a_path_that_is_no_mailbox_fails_the_run(world):
    world.signal("/mailbox/post", "/mail", payload={"body": 1})
    world.settle()
    assert not world.heartbeat.exists("/mail/msgs")
