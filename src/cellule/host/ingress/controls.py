"""Operator verbs of one world: on the owner they join the next beat, elsewhere they go through the inbox.

A verb on many cells goes on in the next beat with what a frame has no room for, until all are done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from cellule.host.inbox.sends import Sent
from cellule.host.ingress.arguments import Id, check_id, check_verb, check_who_and_why
from cellule.host.ingress.outcomes import Applied
from cellule.host.ingress.remote import Remote
from cellule.host.node import Node
from cellule.host.own.directory import WorldInfo
from cellule.host.read.reader import Reader
from cellule.kernel.items import ControlItem, Verb
from cellule.kernel.journal.records import ControlRecord


class Controls:
    """Does verbs; called, it tells where one is journaled, and whether it was done before with this id."""

    def __init__(self, node: Node, info: WorldInfo, remote: Remote) -> None:
        self._node = node
        self._info = info
        self._remote = remote

    async def __call__(
        self, verb: Verb, /, *, who: str, why: str, id: Id | None = None, **arguments: Any
    ) -> Applied[Any]:
        """Do one verb; raises what the world refuses."""
        who, why = check_who_and_why(who, why)
        given = None if id is None else check_id(id)
        item = ControlItem(verb, who, why, check_verb(verb, arguments), id=given)
        if not self._node.is_owner:
            height, duplicate = await self._remote.control(item)
            return Applied(height, given, duplicate, (), None)
        sent = Sent(item)
        (await self._node.hosted(self._info)).submit(sent)
        await sent.wait("durable")
        return Applied(sent.height, given, sent.duplicate, (), None)


BULK: Final = ("cell.resume", "cell.migrate")


async def control_all(
    reader: Reader, act: Callable[..., Awaitable[Applied[Any]]], verb: Verb, who: str, why: str, id: Any,
    arguments: Mapping[str, Any],
) -> Applied[Any]:  # fmt: skip
    """Do a verb, and again while its record says that there are more cells that stopped before it."""
    done = await act(verb, who=who, why=why, id=id, **arguments)
    height = done.height
    while verb in BULK and "key" not in arguments:
        frame = await reader.frame(height)
        written = frame.expect(height, ControlRecord).arguments
        if "next" in written:
            rest = {**arguments, "after": written["next"]}
        elif written.get("more"):
            rest = {**arguments, "until": done.height}
        else:
            break
        height = (await act(verb, who=who, why=why, **rest)).height
    return done
