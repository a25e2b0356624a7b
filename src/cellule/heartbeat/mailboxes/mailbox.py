"""`Mailbox`: a mailbox as an enzyme uses it.

    Mailbox(ctx, "/mail/news").post({"text": "we are open"}, ttl={"unix_ns": 86_400_000_000_000})

What is handed in at beat N is handled at N + 1 and seen at N + 2. The app that has mailboxes says so once:
`app.mailboxes()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from cellule.heartbeat.mailboxes import layout, listing, requests
from cellule.heartbeat.mailboxes.enzyme import NAME
from cellule.heartbeat.mailboxes.layout import Message
from cellule.heartbeat.mailboxes.tree import Tree


class Binds(Tree, Protocol):
    """An enzyme's context, as far as a new mailbox needs it."""

    def bind(self, path: str, name: str, *, propagate: bool = False) -> None:
        """Bind a name to a node."""


class Mailbox:
    """A public board or a private inbox at a path of the tree."""

    def __init__(self, ctx: Binds, path: str) -> None:
        self._ctx = ctx
        self.path = layout.check_path(path)

    def create(
        self, kind: str = "board", *, owner: str | None = None, ttl: Mapping[str, Any] | None = None
    ) -> None:
        """Make it: a board for everybody, or the inbox of an owner; `ttl` holds for messages without one."""
        self._ctx.write(self.path, layout.mailbox_data(kind, owner, ttl))
        self._ctx.bind(self.path, NAME)

    def post(
        self, body: Any, *, id: str | None = None, sealed: bool = True, ttl: Mapping[str, Any] | None = None,
        sender: str | None = None,
    ) -> None:  # fmt: skip
        """Hand in a message. Its id is `id`, or from its content; `ttl` is {beats?, unix_ns?, forever?}."""
        requests.post(self._ctx, self.path, body, id=id, sealed=sealed, ttl=ttl, sender=sender)

    def acknowledge(self, id: str, *, reader: str | None = None) -> None:
        """Be done with a message: that of an inbox goes, that of a board is not read again by this reader."""
        requests.acknowledge(self._ctx, self.path, id, reader=reader)

    def read(self, *, reader: str | None = None, after: str | None = None, limit: int = 100) -> list[Message]:
        """Messages in the order of their ids, without those that the reader has acknowledged."""
        return listing.read(self._ctx, self.path, reader=reader, after=after, limit=limit)
