"""A mailbox of one world for whoever is outside it: made, posted to, read, acknowledged.

A post is a signal to the mailbox; what became of it stands in the tree under a name that this call knows, two
beats later. The app of the world has to have said `app.mailboxes()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from uuid import uuid4

from cellule.errors import Rejected, TimedOut
from cellule.heartbeat.mailboxes import layout
from cellule.heartbeat.mailboxes.enzyme import NAME
from cellule.heartbeat.mailboxes.layout import Message
from cellule.heartbeat.mailboxes.listing import READ_MAX
from cellule.heartbeat.mailboxes.requests import ACK_SIGNAL, POST_SIGNAL
from cellule.host.ingress.checked_calls import checked_calls
from cellule.host.ingress.waits import within
from cellule.host.read.reader import Reader
from cellule.host.store_retry import reading

WAIT_S = 30.0  # how long a post waits to be handled, unless it says otherwise
OUTCOMES_PAGE = 100


class Tree(Protocol):
    """What a mailbox needs of its world's heartbeat."""

    async def read(self, path: str, default: Any = None) -> Any:
        """The value at a path."""

    async def exists(self, path: str) -> bool:
        """Tell whether there is a node."""

    async def list(self, path: str = "/", *, after: str | None = None, limit: int = 100) -> list[str]:
        """The names right below a path."""

    async def write(self, path: str, value: Any = None) -> object:
        """Give a node a value."""

    async def bind(self, path: str, name: str) -> object:
        """Bind a name to a node."""

    async def signal(
        self, signal: str | None = None, target: str | None = None, *, payload: Any = None,
        id: str | None = None,
    ) -> object:  # fmt: skip
        """Queue an impulse."""


@checked_calls()
class MailboxHandle:
    """One mailbox: `world.heartbeat.mailbox("/mail/news")`."""

    def __init__(self, heartbeat: Tree, reader: Reader, path: str) -> None:
        self._heartbeat = heartbeat
        self._reader = reader
        self.path: str = layout.check_path(path)

    async def create(
        self, kind: str = "board", *, owner: str | None = None, ttl: Mapping[str, Any] | None = None
    ) -> None:
        """Make it: a board for everybody, or the inbox of an owner; `ttl` holds for messages without one.

        Made again it has the new kind, owner and ttl, and keeps its messages.
        """
        await self._heartbeat.write(self.path, layout.mailbox_data(kind, owner, ttl))
        await self._heartbeat.bind(self.path, NAME)

    async def post(
        self, body: Any, *, id: str | None = None, sealed: bool = True, ttl: Mapping[str, Any] | None = None,
        sender: str | None = None, timeout: float | None = WAIT_S,
    ) -> str:  # fmt: skip
        """Post a message, and return its id once it is there.

        Its id is `id`, or a digest of a `sealed` message, or a number. `ttl` is {beats?, unix_ns?, forever?}.
        """
        await self._mailbox()
        given: dict[str, Any] = {"body": body, "sealed": sealed}
        if id is not None:
            given["id"] = layout.check_name(id, "id")
        if ttl is not None:
            layout.ttl_of(ttl)
            given["ttl"] = dict(ttl)
        if sender is not None:
            given["sender"] = layout.check_name(sender, "sender")
        return await self._asked(POST_SIGNAL, given, timeout)

    async def acknowledge(
        self, id: str, *, reader: str | None = None, timeout: float | None = WAIT_S
    ) -> None:
        """Be done with a message: that of an inbox goes, that of a board is not read again by this reader."""
        layout.check_reader(self.path, await self._mailbox(), reader)
        given: dict[str, Any] = {"id": layout.check_name(id, "id")}
        if reader is not None:
            given["reader"] = reader
        await self._asked(ACK_SIGNAL, given, timeout)

    async def read(
        self, *, reader: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[Message]:
        """Messages in the order of their ids, without those that the reader has acknowledged."""
        if type(limit) is not int or not 0 < limit <= READ_MAX:
            raise Rejected(
                "mailbox.argument", "{field} {value}: {rule}", field="limit", value=limit,
                rule=f"it is a number from 1 to {READ_MAX}",
            )  # fmt: skip
        mailbox = await self._mailbox()
        if reader is not None or mailbox.kind == "inbox":
            layout.check_reader(self.path, mailbox, reader)
        found: list[Message] = []
        while len(found) < limit:
            names = await self._heartbeat.list(layout.messages(self.path), after=after, limit=limit)
            for name in names:
                data = await self._heartbeat.read(layout.message(self.path, name))
                message = None if data is None else layout.message_of(name, data)
                if message is not None and not await self._is_acknowledged(name, reader):
                    found.append(message)
            if len(names) < limit:
                break
            after = names[-1]
        return found[:limit]

    async def _mailbox(self) -> layout.Mailbox:
        return layout.mailbox_of(self.path, await self._heartbeat.read(self.path))

    async def _is_acknowledged(self, name: str, reader: str | None) -> bool:
        if reader is None:
            return False
        return await self._heartbeat.exists(f"{layout.acknowledgements(self.path, name)}/{reader}")

    async def _asked(self, signal: str, given: dict[str, Any], timeout: float | None) -> str:
        """Send a request, and wait for what became of it; returns the id of the message."""
        request = uuid4().hex
        begun = (await self._reader.journal.head()).beat

        def timed_out() -> TimedOut:
            return TimedOut(
                "mailbox.wait_timeout", "{mailbox} did not answer within {seconds} s",
                mailbox=self.path, seconds=timeout,
                hint="The request is kept. Does the app have `app.mailboxes()`? See `cellule beat tail`.",
            )  # fmt: skip

        async with within(timeout, timed_out):
            await self._heartbeat.signal(signal, self.path, payload={**given, "request": request}, id=request)
            while True:
                head = await self._reader.journal.head()
                outcome = await self._outcome(request, begun)
                if outcome is not None:
                    break
                with reading():
                    await self._reader.next_head(head)
        if not outcome["ok"]:
            raise Rejected(outcome["code"], "{text}", text=outcome["text"])
        return str(outcome["id"])

    async def _outcome(self, request: str, begun: int) -> Mapping[str, Any] | None:
        above = layout.runtime(self.path, "outcomes")
        after: str | None = layout.entry_name(begun, "")
        while True:
            names = await self._heartbeat.list(above, after=after, limit=OUTCOMES_PAGE)
            for name in names:
                outcome = await self._heartbeat.read(f"{above}/{name}")
                if isinstance(outcome, Mapping) and outcome.get("request") == request:
                    found: Mapping[str, Any] = outcome
                    return found
            if len(names) < OUTCOMES_PAGE:
                return None
            after = names[-1]
