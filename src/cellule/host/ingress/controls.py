"""Operator verbs of one world: on the owner they join the next beat, elsewhere they go through the inbox."""

from __future__ import annotations

from typing import Any

from cellule.host.inbox.sends import Sent
from cellule.host.ingress.arguments import Id, check_id, check_verb, check_who_and_why
from cellule.host.ingress.outcomes import Applied
from cellule.host.ingress.remote import Remote
from cellule.host.node import Node
from cellule.host.own.directory import WorldInfo
from cellule.kernel.items import ControlItem, Verb


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
        check_verb(verb, arguments)
        item = ControlItem(verb, who, why, arguments, id=given)
        if not self._node.is_owner:
            height, duplicate = await self._remote.control(item)
            return Applied(height, given, duplicate, (), None)
        sent = Sent(item)
        (await self._node.hosted(self._info)).submit(sent)
        await sent.wait("durable")
        return Applied(sent.height, given, sent.duplicate, (), None)
