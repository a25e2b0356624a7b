"""No node and no load stops a mailbox for good: what is nothing of it goes, too much waits its turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellule.testing import World
from tests.support.nodes import load_app

MAIL = load_app(Path(__file__).parents[2] / "node_apps" / "mail.py")
BOX = "/mail/bob"
RUNTIME = f"{BOX}/meta/runtime"
MESSAGE = {"do": "post", "body": 1, "sealed": True, "issued_beat": 1, "issued_ns": 5}
ODD_ENTRIES = (
    None, 5, "x", {}, [], {"do": "post"}, {"do": "ack"}, {"do": "ack", "id": 7, "reader": "x/y"},
    {**MESSAGE, "issued_beat": "x"}, {**MESSAGE, "ttl": {"beats": -4}}, {**MESSAGE, "id": 5},
    {**MESSAGE, "sender": 7, "request": [1]}, {**MESSAGE, "issued_beat": 1 << 62, "issued_ns": 1 << 62},
)  # fmt: skip
ODD_MESSAGES = (5, {}, {"body": 1, "x": 1}, {"body": 1, "beat_deadline": "x"}, {"body": 1, "sealed": 5})
ODD_NAMES = ("abc", "-1", "9" * 20, "9" * 23, "１" * 20)  # noqa: RUF001 - digits of another script
FIRST = "0" * 19 + "1"
WRITTEN = {
    **{f"an entry {each}": {f"{RUNTIME}/intake/{FIRST}-1": each} for each in ODD_ENTRIES},
    "an entry below another": {f"{RUNTIME}/intake/abc/def": 5},
    **{f"a bucket {each}": {f"{RUNTIME}/expiries/{each}/m": 1} for each in ODD_NAMES},
    **{f"a bucket of time {each}": {f"{RUNTIME}/exp_wall/{each}": None} for each in ODD_NAMES},
    **{f"a next id {each}": {f"{RUNTIME}/next_msg_id": each} for each in ("x", -1, True, [])},
    **{f"a turn {each}": {f"{RUNTIME}/turn": each} for each in ("x", -1, 1 << 62, [])},
    **{
        f"a due message {each}": {f"{BOX}/msgs/m1": each, f"{RUNTIME}/expiries/{FIRST}/m1": 1}
        for each in ODD_MESSAGES
    },
}  # fmt: skip


def mailbox(kind="inbox"):
    world = World(MAIL.app)
    world.heartbeat.write(BOX, {"kind": kind})
    world.heartbeat.bind(BOX, "mailbox")
    return world


def post(world, body, **more):
    world.heartbeat.signal("/mailbox/post", BOX, payload={"body": body, **more})
    world.settle()


def names(world, place="msgs"):
    return world.heartbeat.list(f"{BOX}/{place}")


def bodies(world):
    found = [world.heartbeat.read(f"{BOX}/msgs/{name}") for name in names(world)]
    return {each.get("body") for each in found if isinstance(each, dict)}


def failed(world):
    return [line.text for beat in world.heartbeat.beats() for line in beat.agenda if line.code == -2]


def beat_until(world, last):
    while world.heartbeat.beat().beat < last:
        pass
    world.settle()


@pytest.mark.parametrize("case", WRITTEN)
def test_what_is_nothing_of_a_mailbox_does_not_stop_it(case):
    """One node that somebody wrote there failed every later turn."""
    world = mailbox()
    post(world, "first", ttl={"beats": 60})
    for path, value in WRITTEN[case].items():
        world.heartbeat.write(path, value)
    post(world, "second", ttl={"beats": 60})
    world.advance(seconds=3)
    post(world, "third", ttl={"beats": 60})
    assert {"first", "second", "third"} <= bodies(world)
    world.advance(seconds=100)
    assert failed(world) == []
    assert names(world, "meta/runtime/intake") == []
    assert bodies(world) <= {1}
    world.assert_replays()


def test_more_than_a_turn_may_write_waits_for_the_next_turns():
    """150 messages of 9 kB, posted in one beat, were too much for one turn, and were tried for ever."""
    world = mailbox()
    at = world.heartbeat.beat().beat + 160
    for number in range(150):
        payload = {"body": [number, "x" * 9_000], "ttl": {"beats": 400}}
        world.heartbeat.signal("/mailbox/post", BOX, payload=payload, beat=at + number % 2)
    beat_until(world, at + 20)
    assert failed(world) == []
    assert len(names(world)) == 150
    beat_until(world, at + 450)
    assert (names(world), failed(world)) == ([], [])


def test_a_message_that_many_have_acknowledged_goes_in_parts():
    """All acknowledgements went with their message, and more than a run may delete were tried for ever."""
    world = mailbox("board")
    post(world, "read by all", id="m", ttl={"beats": 300})
    for number in range(250):
        world.heartbeat.write(f"{BOX}/msgs/m/acks/r{number:03}", 1)
    beat_until(world, world.heartbeat.beat().beat + 60)
    assert (names(world), names(world, "msgs/m/acks"), failed(world)) == ([], [], [])
    parts = [len(beat.agenda) for beat in world.heartbeat.beats() if beat.agenda]
    assert len(parts) > 3


@pytest.mark.parametrize("size", [399_000, 500_000, 998_500])
def test_a_message_that_no_turn_could_take_is_refused_and_stops_nobody(size):
    """A turn writes more than was handed in: 999,000 bytes failed it, and every later one."""
    world = mailbox()
    world.heartbeat.write(f"{RUNTIME}/intake/{FIRST}-1", {**MESSAGE, "body": "x" * size, "request": "r1"})
    post(world, "short")
    assert "short" in bodies(world)
    assert names(world, "meta/runtime/intake") == []
    outcome = world.heartbeat.read(f"{RUNTIME}/outcomes/{FIRST}-1")
    assert outcome["ok"] is (size < 400_000)
    assert outcome.get("code", "mailbox.size") == "mailbox.size"
    assert failed(world) == []


def test_whoever_posts_too_much_is_told_at_once():
    world = mailbox()
    post(world, "x" * 500_000)
    [text] = failed(world)
    assert "400000" in text
    assert names(world, "meta/runtime/intake") == []


def test_long_messages_and_many_that_are_due_share_their_turns():
    """Neither waits for ever for the other."""
    world = mailbox()
    for number in range(300):
        world.heartbeat.signal("/mailbox/post", BOX, payload={"body": number, "ttl": {"beats": 12}})
    world.settle()
    last = world.heartbeat.beats()[-1].beat + 14
    for letter in "abc":
        post(world, letter * 390_000, ttl={"unix_ns": 1 << 50})
    beat_until(world, last)
    post(world, "short")
    world.settle()
    assert {str(each)[:5] for each in bodies(world)} == {"aaaaa", "bbbbb", "ccccc", "short"}
    assert failed(world) == []
