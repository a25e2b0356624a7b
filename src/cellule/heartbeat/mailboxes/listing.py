"""Reading a mailbox: messages in the order of their ids, without those that the reader has acknowledged."""

from __future__ import annotations

from cellule.errors import Rejected
from cellule.heartbeat.mailboxes import layout
from cellule.heartbeat.mailboxes.layout import Message, mailbox_of, message_of
from cellule.heartbeat.mailboxes.tree import Tree

READ_MAX = 1_000  # messages that one page of a mailbox holds


def read(
    tree: Tree, mailbox: str, *, reader: str | None = None, after: str | None = None, limit: int = 100
) -> list[Message]:
    """A page of messages behind the id `after`; without a reader, all of a board."""
    if type(limit) is not int or not 0 < limit <= READ_MAX:
        raise Rejected(
            "mailbox.argument", "{field} {value}: {rule}", field="limit", value=limit,
            rule=f"it is a number from 1 to {READ_MAX}",
        )  # fmt: skip
    kind = mailbox_of(mailbox, tree.read(mailbox))
    if reader is not None or kind.kind == "inbox":
        layout.check_reader(mailbox, kind, reader)
    found: list[Message] = []
    while len(found) < limit:
        names = tree.list(layout.messages(mailbox), after=after, limit=limit)
        for name in names:
            data = tree.read(layout.message(mailbox, name))
            if data is None or (reader is not None and _is_acknowledged(tree, mailbox, name, reader)):
                continue
            message = message_of(name, data)
            found += [] if message is None else [message]
        if len(names) < limit:
            break
        after = names[-1]
    return found[:limit]


def _is_acknowledged(tree: Tree, mailbox: str, name: str, reader: str) -> bool:
    return tree.read(f"{layout.acknowledgements(mailbox, name)}/{reader}") is not None
