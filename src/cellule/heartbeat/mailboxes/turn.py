"""One turn of a mailbox: what was handed in, what is due, and when the next turn is.

A mailbox has at most one turn in a beat: it is an impulse without payload, and the same impulse runs once. So
a turn may choose ids by what it reads. It sees the tree as it was when the beat began, and keeps what it
changes in `Changes` until its end. What is too much for one turn, in number or in bytes, waits for the next
beat. What somebody wrote there that is nothing of a mailbox is taken away: no node stops a mailbox for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cellule.errors import CelluleError, Rejected
from cellule.heartbeat.mailboxes import expiry, layout, message_ids, ttl
from cellule.heartbeat.mailboxes.changes import CHANGE_BYTES, Changes
from cellule.heartbeat.mailboxes.layout import (
    Mailbox,
    Message,
    bucket,
    mailbox_of,
    message_of,
    runtime,
)
from cellule.heartbeat.mailboxes.message_ids import Selected, Taken
from cellule.heartbeat.mailboxes.requests import TURN_SIGNAL, check_size
from cellule.heartbeat.mailboxes.tree import Tree
from cellule.heartbeat.mailboxes.ttl import Ttl, TtlContext, TtlSettings, TtlSpec
from cellule.values.cbor import encode
from cellule.values.cid import cid_of

TURN_REQUESTS_MAX: Final = 200
"""What was handed in and one turn handles; the rest waits for the next."""
TURN_PURGES_MAX: Final = 500
"""Messages that one turn takes away; the rest waits for the next."""
ACKS_TOGETHER_MAX: Final = 100
"""Acknowledgements that go with their message; more of them go first, as many as a turn takes."""
OUTCOMES_KEPT: Final = 1_000
"""Outcomes that a mailbox keeps for those who asked."""
TOPOLOGY: Final = "/env/mailboxes"
"""The node whose `ttl` holds for mailboxes that say nothing."""


class Turn:
    """One turn of one mailbox."""

    def __init__(self, tree: Tree, path: str) -> None:
        self._tree, self._path = tree, path
        self._changes = Changes(tree)
        self._mailbox: Mailbox = mailbox_of(path, tree.read(path))
        self._deadlines: set[int] = set()  # beats in which there is something to do

    def run(self) -> None:
        """Do all of it."""
        is_more = self._purge()  # first: what comes in may be put into a bucket that goes
        is_more |= self._take_in()
        self._changes.write()
        self._schedule(is_more=is_more)

    # What was handed in

    def _take_in(self) -> bool:
        intake = runtime(self._path, "intake")
        names = self._tree.list(intake, limit=TURN_REQUESTS_MAX + 1)
        taken = 0
        for name in names[:TURN_REQUESTS_MAX]:
            entry = self._tree.read(f"{intake}/{name}")
            if not self._changes.has_room_for(entry):
                break
            taken += 1
            self._changes.set(f"{intake}/{name}", None)
            try:
                outcome = self._handled(entry)
            except CelluleError as error:
                outcome = {"ok": False, "code": error.code, "text": str(error)}
            if isinstance(entry, Mapping) and "request" in entry:
                told = {"request": entry["request"], "beat": self._tree.beat, **outcome}
                self._changes.set(f"{runtime(self._path, 'outcomes')}/{name}", told)
        if names:
            self._forget_outcomes()
        return len(names) > taken

    def _handled(self, entry: Any) -> dict[str, Any]:
        try:
            check_size(entry)
            return self._post(entry) if entry["do"] == "post" else self._acknowledge(entry)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Rejected(
                "mailbox.argument", "{field} {value}: {rule}", field="what was handed in",
                value=repr(entry)[:200], rule="it is no message and no acknowledgement",
            ) from error  # fmt: skip

    def _post(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        sealed = entry["sealed"]
        message = Message(
            "", entry["body"], entry.get("sender"), sealed, entry["issued_beat"], entry["issued_ns"]
        )
        if message_of("", message.as_data()) is None:
            raise TypeError(entry)
        selected = self._select(entry.get("id"), _digest(message) if sealed else None)
        if selected.id is None:
            raise Rejected(
                "mailbox.collision", "{mailbox} has another message with the id {id}",
                mailbox=self._path, id=entry.get("id"), hint="Post it under another id, or without one.",
            )  # fmt: skip
        outcome = {"ok": True, "id": selected.id, "mode": selected.mode, "collision": selected.collision}
        if selected.mode != "reused":
            found = self._resolve(ttl_of_entry(entry), entry["issued_beat"], entry["issued_ns"])
            self._keep(message._replace(id=selected.id), found)
        return outcome

    def _select(self, explicit: str | None, digest: bytes | None) -> Selected:
        counter_path = runtime(self._path, "next_msg_id")
        counter = self._changes.read(counter_path)
        counter = counter if type(counter) is int and counter > 0 else 1
        selected = message_ids.select(explicit, digest, self._taken, counter)
        if selected.counter != counter:
            self._changes.set(counter_path, selected.counter)
        return selected

    def _taken(self, name: str) -> Taken | None:
        data = self._changes.read(layout.message(self._path, name))
        if data is None:
            return None
        message = message_of(name, data)
        return Taken(_digest(message) if message is not None and message.sealed else None)

    def _resolve(self, spec: TtlSpec | None, issued_beat: int, issued_ns: int) -> Ttl:
        tree, topology = self._tree, self._tree.read(TOPOLOGY)
        default = layout.ttl_of(topology.get("ttl")) if isinstance(topology, Mapping) else None
        context = TtlContext(issued_beat, issued_ns, tree.beat, tree.now_ns)
        settings = TtlSettings()
        intervals = list(tree.intervals(settings.samples))
        found = ttl.resolve((spec, self._mailbox.ttl, default), context, settings, _not_published, intervals)
        if found is None:
            raise Rejected(
                "mailbox.ttl", "the end of a message cannot be told: its limit in wall time has no origin",
                hint="Give a limit in beats, or post with a time.",
            )  # fmt: skip
        return found

    def _keep(self, message: Message, found: Ttl) -> None:
        """Write a message with its deadlines, and itself into their buckets."""
        if found.wall_deadline is not None and (found.beat_deadline is None or found.projected):
            # The next beat may come at once, so a look at it again and again would never see time pass.
            look = (
                self._tree.beat + ttl.LOOKAHEAD_DEFAULT
                if found.beat_deadline is None
                else found.beat_deadline
            )
            found = found._replace(beat_deadline=max(look, self._tree.beat + 2), projected=True)
        beats: dict[int, set[str]] = {}
        wallclock: dict[int, set[str]] = {}
        expiry.record(beats, wallclock, message.id, found)
        for deadline in beats:
            self._changes.set(self._in_bucket("expiries", deadline, message.id), 1)
            self._deadlines.add(deadline)
        for deadline in wallclock:
            self._changes.set(self._in_bucket("exp_wall", deadline, message.id), 1)
        message = message._replace(
            beat_deadline=found.beat_deadline, wall_deadline=found.wall_deadline, projected=found.projected
        )
        self._changes.set(layout.message(self._path, message.id), message.as_data())

    def _acknowledge(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        path = layout.message(self._path, entry["id"])
        data = self._changes.read(path)
        message = None if data is None else message_of(entry["id"], data)
        if message is None:
            raise Rejected(
                "mailbox.no_message", "{mailbox} has no message {id}", mailbox=self._path, id=entry["id"],
                hint="It may have ended, or been acknowledged before.",
            )  # fmt: skip
        if self._mailbox.kind == "inbox":
            self._remove(message)
        else:
            self._changes.set(f"{layout.acknowledgements(self._path, entry['id'])}/{entry['reader']}", 1)
        return {"ok": True, "id": entry["id"]}

    def _forget_outcomes(self) -> None:
        outcomes = runtime(self._path, "outcomes")
        names = self._tree.list(outcomes, limit=OUTCOMES_KEPT + TURN_REQUESTS_MAX)
        for name in names[: max(0, len(names) - OUTCOMES_KEPT)]:
            if self._changes.has_room:
                self._changes.set(f"{outcomes}/{name}", None)

    # What is due

    def _purge(self) -> bool:
        beats, more_beats = self._due("expiries", self._tree.beat)
        wallclock, more_wall = self._due("exp_wall", self._tree.now_ns)
        plan = expiry.plan(beats, wallclock, self._tree.beat, self._tree.now_ns)
        left_beats = self._end_all("expiries", plan.beats)
        left_wall = self._end_all("exp_wall", plan.wallclock)
        self._drop_buckets("expiries", beats, self._tree.beat, left_beats, is_last_whole=not more_beats)
        self._drop_buckets("exp_wall", wallclock, self._tree.now_ns, left_wall, is_last_whole=not more_wall)
        return more_beats or more_wall or bool(left_beats | left_wall)

    def _end_all(self, which: layout.Which, due: Sequence[tuple[str, int]]) -> set[int]:
        """End messages as long as there is room; the buckets in which some are left."""
        left: set[int] = set()
        for name, deadline in due:
            if self._changes.has_room and self._end(name, is_projected=which == "expiries"):
                self._changes.set(self._in_bucket(which, deadline, name), None)
            else:
                left.add(deadline)
        return left

    def _due(self, which: layout.Which, now: int) -> tuple[dict[int, set[str]], bool]:
        """The due buckets with their messages, and the first of the others; and whether more are due."""
        above, room = runtime(self._path, which), TURN_PURGES_MAX
        found: dict[int, set[str]] = {}
        for name in self._tree.list(above, limit=TURN_PURGES_MAX + 1):
            deadline = layout.number_of(name)
            if deadline is None:  # no bucket
                self._changes.set(f"{above}/{name}", None)
                continue
            if deadline > now:
                found[deadline] = set()
                if which == "expiries":
                    self._deadlines.add(deadline)
                break
            names = self._tree.list(f"{above}/{name}", limit=room + 1)
            found[deadline] = set(names[:room])
            if len(names) >= room:
                return found, True
            room -= len(names)
        return found, False

    def _drop_buckets(
        self, which: layout.Which, buckets: Mapping[int, set[str]], now: int, left: set[int],
        *, is_last_whole: bool,
    ) -> None:  # fmt: skip
        due = sorted(deadline for deadline in buckets if deadline <= now)
        for deadline in due if is_last_whole else due[:-1]:
            if deadline in left:
                continue
            self._changes.set(bucket(self._path, which, deadline), None)

    def _end(self, name: str, *, is_projected: bool) -> bool:
        """A deadline of a message has come: it goes, unless that was only the time to look at it again.

        False where that is too much for this turn, or its acknowledgements have to go first.
        """
        path = layout.message(self._path, name)
        data = self._changes.read(path)
        if data is None:
            return True
        message = message_of(name, data)
        if message is None:  # no message, whoever wrote it
            self._changes.set(path, None)
            return True
        if is_projected and message.projected and (message.wall_deadline or 0) > self._tree.now_ns:
            if not self._changes.has_room_for(data):
                return False
            spec = TtlSpec(0, (message.wall_deadline or 0) - message.issued_ns)  # no other says beats now
            self._keep(message, self._resolve(spec, message.issued_beat, message.issued_ns))
            return True
        return self._remove(message)

    def _remove(self, message: Message) -> bool:
        """Take a message away; False where so many have acknowledged it that they go first."""
        above = layout.acknowledgements(self._path, message.id)
        readers = self._tree.list(above, limit=ACKS_TOGETHER_MAX + 1)
        if len(readers) > ACKS_TOGETHER_MAX:
            for reader in readers:
                if self._changes.has_room:
                    self._changes.set(f"{above}/{reader}", None)
            return False
        self._changes.size += CHANGE_BYTES * len(readers)
        self._changes.set(layout.message(self._path, message.id), None)
        if message.beat_deadline is not None:
            self._changes.set(self._in_bucket("expiries", message.beat_deadline, message.id), None)
        if message.wall_deadline is not None:
            self._changes.set(self._in_bucket("exp_wall", message.wall_deadline, message.id), None)
        return True

    def _in_bucket(self, which: layout.Which, deadline: int, name: str) -> str:
        return f"{bucket(self._path, which, deadline)}/{name}"

    # The next turn

    def _schedule(self, *, is_more: bool) -> None:
        """Queue the next turn: at once while there is more to do, else for the next deadline in beats."""
        path, beat = runtime(self._path, "turn"), self._tree.beat
        if is_more:
            self._tree.signal(TURN_SIGNAL, self._path)
            return
        wanted = max(min(self._deadlines), beat + 1) if self._deadlines else None
        queued = self._tree.read(path)
        queued = queued if type(queued) is int else 0
        if wanted is not None and not beat < queued <= wanted:
            self._tree.write(path, wanted)
            self._tree.signal(TURN_SIGNAL, self._path, beat=wanted)


def _not_published(_: int) -> None:
    """Every message has the time of its post, so nobody asks for that of its beat."""


def ttl_of_entry(entry: Mapping[str, Any]) -> TtlSpec | None:
    """The spec that a message was posted with."""
    return layout.ttl_of(entry.get("ttl"))


def _digest(message: Message) -> bytes:
    return cid_of(encode(message.envelope())).digest
