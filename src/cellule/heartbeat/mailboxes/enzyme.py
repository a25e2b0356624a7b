"""The enzyme that runs mailboxes: bound at each of them, by `world.mailbox.create` or `create`.

/mailbox/post   {body, id?, sealed?, ttl?, sender?, request?}    hands in a message
/mailbox/ack    {id, reader?, request?}                          hands in an acknowledgement
/mailbox/turn   without payload                                  handles what was handed in, and what is due
"""

from __future__ import annotations

from typing import Any

from cellule.errors import Rejected
from cellule.heartbeat.mailboxes.requests import ACK_SIGNAL, POST_SIGNAL, TURN_SIGNAL, acknowledge, post
from cellule.heartbeat.mailboxes.tree import Tree
from cellule.heartbeat.mailboxes.turn import Turn

NAME = "mailbox"
QUERY = "/mailbox"


def mailbox(ctx: Any, signal: str | None, target: str | None) -> None:
    """Run a mailbox: `target` is its path."""
    tree: Tree = ctx
    given = ctx.payload
    if target is None:
        return
    match signal:
        case "/mailbox/turn":
            Turn(tree, target).run()
        case "/mailbox/post":
            post(tree, target, **_options(given, "body", "id", "sealed", "ttl", "sender", "request"))
        case "/mailbox/ack":
            acknowledge(tree, target, **_options(given, "id", "reader", "request"))


def _options(given: Any, *known: str) -> dict[str, Any]:
    if not isinstance(given, dict) or not set(given) <= set(known) or known[0] not in given:
        raise Rejected(
            "mailbox.argument", "{field} {value}: {rule}", field="the payload", value=repr(given)[:200],
            rule=f"it is a map of {', '.join(known)}",
        )  # fmt: skip
    return given


assert (TURN_SIGNAL, POST_SIGNAL, ACK_SIGNAL) == ("/mailbox/turn", "/mailbox/post", "/mailbox/ack")
