"""What is handed in at a mailbox: a message, or an acknowledgement. The mailbox's next turn handles it.

An enzyme sees only the tree as it was when the beat began, so two posts of one beat would choose the same id.
They are written down instead, each under a name of its own, and one turn for each mailbox and beat takes them
in order: handed in at beat N, visible at the beginning of N + 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cellule.errors import Rejected
from cellule.heartbeat.mailboxes import layout
from cellule.heartbeat.mailboxes.layout import check_name, entry_name, mailbox_of, runtime, ttl_of
from cellule.heartbeat.mailboxes.tree import Tree
from cellule.values.cbor import encode

MESSAGE_BYTES_MAX: Final = 400_000
"""Bytes of a message, as it is handed in."""
TURN_SIGNAL: Final = "/mailbox/turn"
POST_SIGNAL: Final = "/mailbox/post"
ACK_SIGNAL: Final = "/mailbox/ack"


def post(
    tree: Tree, mailbox: str, body: Any, *, id: str | None = None, sealed: bool = True,
    ttl: Mapping[str, Any] | None = None, sender: str | None = None, request: str | None = None,
) -> None:  # fmt: skip
    """Hand in a message. A sealed one has its id from its content; `ttl` is {beats?, unix_ns?, forever?}."""
    mailbox_of(mailbox, tree.read(mailbox))
    entry: dict[str, Any] = {
        "do": "post", "body": body, "sealed": bool(sealed),
        "issued_beat": tree.beat, "issued_ns": tree.now_ns,
    }  # fmt: skip
    if id is not None:
        entry["id"] = check_name(id, "id")
    if ttl is not None:
        ttl_of(ttl)
        entry["ttl"] = dict(ttl)
    if sender is not None:
        entry["sender"] = check_name(sender, "sender")
    check_size(entry)
    _hand_in(tree, mailbox, entry, request)


def check_size(entry: Mapping[str, Any]) -> None:
    """Refuse a message that no turn could take in: it would stop its mailbox for good."""
    size = len(encode(dict(entry)))
    if size > MESSAGE_BYTES_MAX:
        raise Rejected(
            "mailbox.size", "the message has {size} bytes; at most {most}", size=size, most=MESSAGE_BYTES_MAX,
            hint="Put what is long into a node of the tree or a blob, and post where it is.",
        )  # fmt: skip


def acknowledge(
    tree: Tree, mailbox: str, id: str, *, reader: str | None = None, request: str | None = None
) -> None:
    """Hand in that a reader is done with a message; the message of an inbox goes, that of a board stays."""
    kind = mailbox_of(mailbox, tree.read(mailbox))
    layout.check_reader(mailbox, kind, reader)
    entry = {"do": "ack", "id": check_name(id, "id"), "reader": reader}
    _hand_in(tree, mailbox, entry, request)


def _hand_in(tree: Tree, mailbox: str, entry: dict[str, Any], request: str | None) -> None:
    if request is not None:
        entry["request"] = check_name(request, "request")
    name = entry_name(tree.beat, tree.next_place())
    tree.write(f"{runtime(mailbox, 'intake')}/{name}", entry)
    tree.signal(TURN_SIGNAL, mailbox)
