"""Mailboxes over a tree: handed in at one beat, handled at the next, seen at the one after."""

from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.heartbeat.mailboxes import listing, turn
from cellule.heartbeat.mailboxes.requests import acknowledge, post
from tests.support.mail_tree import MailTree

BOARD, INBOX = "/mail/news", "/mail/ana"


@pytest.fixture
def tree():
    made = MailTree()
    made.write(BOARD, {"kind": "board"})
    made.write(INBOX, {"kind": "inbox", "owner": "ana"})
    made.step()
    return made


def ids(tree, mailbox=BOARD, **options):
    return [each.id for each in listing.read(tree, mailbox, **options)]


def runtime(tree, which, mailbox=BOARD):
    above = f"{mailbox}/meta/runtime/{which}"
    return [each[len(above) + 1 :] for each in tree.below(above)]


def test_a_post_is_seen_two_beats_later(tree):
    post(tree, BOARD, "hello", id="a")
    assert ids(tree) == []
    tree.step()
    assert ids(tree) == ["a"]
    assert runtime(tree, "intake") == []


def test_posts_of_one_beat_are_handled_in_their_order_by_one_turn(tree):
    for number in range(3):
        post(tree, BOARD, number, sealed=False)
    tree.step()
    assert [(each.id, each.body) for each in listing.read(tree, BOARD)] == [
        ("msg-1", 0),
        ("msg-2", 1),
        ("msg-3", 2),
    ]
    assert tree.turns == [(3, BOARD)]


def test_the_same_sealed_message_twice_is_one_message(tree):
    post(tree, BOARD, "hello", request="r1")
    post(tree, BOARD, "hello", request="r2")
    tree.step()
    [name] = ids(tree)
    assert name.startswith("msg-")
    told = [tree.nodes[each] for each in tree.below(f"{BOARD}/meta/runtime/outcomes")]
    assert [(each["request"], each["mode"], each["id"]) for each in told] == [
        ("r1", "digest", name), ("r2", "reused", name),
    ]  # fmt: skip


def test_an_id_that_another_message_has_is_refused_and_told(tree):
    post(tree, BOARD, 1, id="a")
    post(tree, BOARD, 2, id="a", request="r")
    tree.step()
    assert [each.body for each in listing.read(tree, BOARD)] == [1]
    [outcome] = [tree.nodes[each] for each in tree.below(f"{BOARD}/meta/runtime/outcomes")]
    assert (outcome["ok"], outcome["code"]) == (False, "mailbox.collision")


def test_a_message_ends_with_its_beats_and_leaves_nothing_behind(tree):
    post(tree, BOARD, "soon", id="a", ttl={"beats": 3})
    post(tree, BOARD, "later", id="b", ttl={"beats": 5})
    post(tree, BOARD, "never", id="c", ttl={"forever": True})
    tree.step()
    assert ids(tree) == ["a", "b", "c"]
    tree.step()
    assert ids(tree) == ["a", "b", "c"]
    tree.step()  # beat 5, the deadline of the first: its turn takes it away
    assert ids(tree) == ["b", "c"]
    tree.step(2)
    assert ids(tree) == ["c"]
    assert runtime(tree, "expiries") == []
    assert tree.queued == {}


def test_a_wall_deadline_far_away_is_looked_at_again_and_not_forgotten(tree):
    """Its beat is projected at most 32 beats ahead, so a beat of the bucket must not end it."""
    post(tree, BOARD, "long", id="a", ttl={"unix_ns": 100 * 100})
    tree.step(98)
    assert ids(tree) == ["a"]
    assert len(tree.turns) < 8
    tree.step(3)
    assert ids(tree) == []
    assert (runtime(tree, "expiries"), runtime(tree, "exp_wall")) == ([], [])
    assert tree.queued == {}


def test_the_policy_of_the_mailbox_and_the_default_of_the_world_hold_for_messages_without(tree):
    tree.write(BOARD, {"kind": "board", "ttl": {"beats": 2}})
    tree.write(turn.TOPOLOGY, {"ttl": {"beats": 9}})
    tree.step()
    post(tree, BOARD, 1, id="a")
    post(tree, INBOX, 1, id="b")
    tree.step(1)
    assert (ids(tree), ids(tree, INBOX, reader="ana")) == (["a"], ["b"])
    tree.step(1)
    assert (ids(tree), ids(tree, INBOX, reader="ana")) == ([], ["b"])
    tree.step(8)
    assert ids(tree, INBOX, reader="ana") == []


def test_a_reader_of_a_board_sees_no_more_what_he_acknowledged_and_others_do(tree):
    post(tree, BOARD, 1, id="a", ttl={"beats": 4})
    post(tree, BOARD, 2, id="b")
    tree.step()
    acknowledge(tree, BOARD, "a", reader="bob")
    tree.step()
    assert ids(tree, reader="bob") == ["b"]
    assert ids(tree, reader="eve") == ["a", "b"]
    tree.step(3)
    assert [each for each in tree.nodes if "bob" in each] == []


def test_an_inbox_is_its_owners_and_an_acknowledged_message_is_gone(tree):
    post(tree, INBOX, 1, id="a", ttl={"beats": 50, "unix_ns": 10**9})
    tree.step()
    with pytest.raises(Rejected) as refused:
        listing.read(tree, INBOX, reader="bob")
    assert refused.value.code == "mailbox.private"
    with pytest.raises(Rejected):
        listing.read(tree, INBOX)
    with pytest.raises(Rejected):
        acknowledge(tree, INBOX, "a", reader="bob")
    acknowledge(tree, INBOX, "a", reader="ana")
    tree.step()
    assert ids(tree, INBOX, reader="ana") == []
    assert [each for each in tree.nodes if each.endswith("/a")] == []


def test_acknowledging_what_is_not_there_is_told(tree):
    acknowledge(tree, BOARD, "none", reader="bob", request="r")
    tree.step()
    [outcome] = [tree.nodes[each] for each in tree.below(f"{BOARD}/meta/runtime/outcomes")]
    assert outcome["code"] == "mailbox.no_message"


def test_what_is_too_much_for_one_turn_waits_for_the_next(tree, monkeypatch):
    monkeypatch.setattr(turn, "TURN_REQUESTS_MAX", 2)
    monkeypatch.setattr(turn, "TURN_PURGES_MAX", 2)
    for number in range(5):
        post(tree, BOARD, number, id=f"m{number}", ttl={"beats": 6})
    tree.step()
    assert ids(tree) == ["m0", "m1"]
    tree.step(2)
    assert ids(tree) == ["m0", "m1", "m2", "m3", "m4"]
    tree.step(3)  # beat 8 is the deadline of all
    assert ids(tree) == ["m2", "m3", "m4"]
    tree.step(2)
    assert ids(tree) == []
    tree.step(2)
    assert (runtime(tree, "expiries"), tree.queued) == ([], {})


def test_a_message_that_is_over_when_its_turn_comes_goes_at_the_next(tree):
    post(tree, BOARD, 1, id="a", ttl={"beats": 1})
    tree.step(2)
    assert ids(tree) == []
    assert runtime(tree, "expiries") == []


def test_old_outcomes_are_forgotten(tree, monkeypatch):
    monkeypatch.setattr(turn, "OUTCOMES_KEPT", 2)
    for number in range(6):
        post(tree, BOARD, number, id=str(number), request=f"r{number}")
        tree.step()
    assert len(runtime(tree, "outcomes")) == 3


def test_reading_goes_on_behind_the_last_id(tree):
    for number in range(5):
        post(tree, BOARD, number, id=f"m{number}")
    tree.step()
    acknowledge(tree, BOARD, "m1", reader="bob")
    tree.step()
    assert ids(tree, limit=2) == ["m0", "m1"]
    assert ids(tree, after="m1", limit=2) == ["m2", "m3"]
    assert ids(tree, reader="bob", limit=2) == ["m0", "m2"]


@pytest.mark.parametrize("limit", [0, -1, 1_001])
def test_a_page_has_a_limit(tree, limit):
    with pytest.raises(Rejected) as refused:
        listing.read(tree, BOARD, limit=limit)
    assert refused.value.code == "mailbox.argument"


@pytest.mark.parametrize(
    "given",
    [
        {"id": ""}, {"id": "a/b"}, {"id": "x" * 201}, {"id": 5}, {"sender": "a/b"}, {"request": ""},
        {"ttl": {"hours": 1}}, {"ttl": 5}, {"ttl": {"beats": -1}}, {"ttl": {"beats": True}},
        {"ttl": {"unix_ns": 2**63}}, {"ttl": {"forever": 1}},
    ],
)  # fmt: skip
def test_a_wrong_post_is_refused_and_nothing_is_handed_in(tree, given):
    with pytest.raises(Rejected):
        post(tree, BOARD, 1, **given)
    tree.step()
    assert tree.turns == []


def test_a_node_that_is_no_mailbox_is_refused(tree):
    tree.write("/mail/odd", {"kind": "odd"})
    tree.step()
    for path in ("/mail/odd", "/mail", "/nowhere"):
        with pytest.raises(Rejected) as refused:
            post(tree, path, 1)
        assert refused.value.code == "mailbox.unknown"


def test_a_board_is_acknowledged_by_somebody_with_a_name(tree):
    with pytest.raises(Rejected) as refused:
        acknowledge(tree, BOARD, "a")
    assert refused.value.code == "mailbox.argument"


def test_a_message_that_comes_late_into_a_bucket_that_goes_is_not_forgotten(tree):
    post(tree, BOARD, 1, id="a", ttl={"beats": 3})
    tree.step(2)
    post(tree, BOARD, 2, id="b", ttl={"beats": 1})  # both end at beat 5, in whose turn this one comes in
    tree.step(3)
    assert ids(tree) == []
    assert (runtime(tree, "expiries"), tree.queued) == ([], {})


def test_a_limit_in_beats_that_a_message_switched_off_stays_off_when_it_is_looked_at_again(tree):
    tree.write(BOARD, {"kind": "board", "ttl": {"beats": 2}})
    tree.step()
    post(tree, BOARD, 1, id="a", ttl={"beats": 0, "unix_ns": 100 * 60})
    tree.step(50)
    assert ids(tree) == ["a"]
    tree.step(20)
    assert ids(tree) == []


def test_where_beats_follow_at_once_a_wall_deadline_does_not_make_a_turn_of_each():
    tree = MailTree(spacing_ns=0)
    tree.write(BOARD, {"kind": "board"})
    tree.step()
    post(tree, BOARD, 1, id="a", ttl={"unix_ns": 1_000})
    tree.step(200)
    assert len(tree.turns) < 10
    tree.spacing_ns = 100
    tree.step(60)
    assert ids(tree) == []
