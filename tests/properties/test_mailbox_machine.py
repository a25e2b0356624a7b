"""Random mailboxes in a real world beside the model: ids, collisions, deadlines in beats, acknowledgements.

The world forgets all memory after every beat and is restored; its journal is proven at the end.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from cellule import App
from cellule.kernel.items import ControlItem, Item, SignalItem
from cellule.testing import World
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from tests.support.heartbeat_model_mail import Mailbox

BOARD = "/mail/news"
app = App("mail")
app.mailboxes()

posts = st.tuples(
    st.just("post"), st.sampled_from([None, None, "a", "b", "msg-1"]), st.sampled_from("xyz"), st.booleans(),
    st.one_of(st.none(), st.integers(1, 4)),
)  # fmt: skip
acks = st.tuples(st.just("ack"), st.sampled_from(["a", "b", "msg-1", "msg-2"]))


def digest_id(label: str) -> str:
    return f"msg-{cid_of(encode({'body': label, 'sender': None})).digest[:12].hex()}"


def digest_name(name: str) -> str:
    """The real id of one that the model writes `digest(label)`."""
    return digest_id(name[7]) + name[9:] if name.startswith("digest(") else name


class MailboxMachine(RuleBasedStateMachine):
    """A rule is a beat; what it sends is handed in at the next, and handled at the one after."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(app, evict=True)
        self.world.heartbeat.write(BOARD, {"kind": "inbox"})
        self.world.heartbeat.bind(BOARD, "mailbox")
        self.mailbox = Mailbox()
        self.deadlines: dict[str, int | None] = {}
        self.handed_in: list[tuple[str, tuple[Any, ...]]] = []
        self.sent: list[tuple[str, tuple[Any, ...]]] = []
        self.expected: dict[str, dict[str, Any]] = {}
        self.items: list[Item] = []
        self.count = 0

    @rule(done=st.lists(st.one_of(posts, posts, acks), max_size=4))
    def beat(self, done: list[tuple[Any, ...]]) -> None:
        handled, self.handed_in, self.sent = self.handed_in, self.sent, []
        for each in done:
            self.count += 1
            request = f"r{self.count}"
            self._send(request, each)
            self.sent.append((request, each))
        items, self.items = self.items, []
        self.world.host.beat([*items, ControlItem("heartbeat.beat", "test", "a beat")])
        beat = self.world.heartbeat.beats()[-1].beat
        self._turn(beat, handled)
        names = {digest_name(each) for each in self.mailbox.messages}
        assert self.world.heartbeat.list(f"{BOARD}/msgs") == sorted(names)
        self._check_outcomes()

    def _send(self, request: str, each: tuple[Any, ...]) -> None:
        match each:
            case ("post", id, body, sealed, beats):
                given = {"body": body, "id": id, "sealed": sealed, "request": request}
                given["ttl"] = None if beats is None else {"beats": beats}
                payload = {name: value for name, value in given.items() if value is not None}
                self.items.append(SignalItem("/mailbox/post", BOARD, encode(payload)))
            case _:
                payload = {"id": each[1], "request": request}
                self.items.append(SignalItem("/mailbox/ack", BOARD, encode(payload)))

    def _turn(self, beat: int, handled: list[tuple[str, tuple[Any, ...]]]) -> None:
        for name, deadline in list(self.deadlines.items()):
            if deadline is not None and deadline <= beat:
                self._remove(name)
        for request, each in handled:
            if each[0] == "ack":
                ok = each[1] in self.mailbox.messages
                self.expected[request] = {"ok": ok}
                if ok:
                    self._remove(each[1])
                continue
            _, id, body, sealed, beats = each
            told = self.mailbox.select(id, body if sealed else None)
            self.expected[request] = {"ok": told["ok"]}
            if told["ok"]:
                name = digest_name(told["id"])
                self.expected[request] = {"ok": True, "id": name, "mode": told["mode"]}
                if told["mode"] != "reused":
                    self.mailbox.messages[told["id"]] = body if sealed else None
                    self.deadlines[told["id"]] = None if beats is None else beat - 1 + beats

    def _remove(self, name: str) -> None:
        del self.mailbox.messages[name]
        del self.deadlines[name]

    def _check_outcomes(self) -> None:
        above = f"{BOARD}/meta/runtime/outcomes"
        told = [self.world.heartbeat.read(f"{above}/{name}") for name in self.world.heartbeat.list(above)]
        found = {each["request"]: each for each in told}
        assert set(found) == set(self.expected)
        for request, expected in self.expected.items():
            assert {name: found[request][name] for name in expected} == expected

    def teardown(self) -> None:
        self.beat([])
        self.beat([])
        self.world.assert_replays()


TestMailboxMachine = MailboxMachine.TestCase
TestMailboxMachine.settings = settings(
    max_examples=15, stateful_step_count=10, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
