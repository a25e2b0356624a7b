"""The heartbeat of one world for whoever is outside it: signals, enzymes, the tree, and its beats.

What changes something is journaled, by the owner or through its inbox, and durable when the call returns; an
impulse runs in the beat after that. What was refused changed nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from cellule.host.inbox.sends import Sent
from cellule.host.ingress.arguments import Id, check_id, check_who_and_why
from cellule.host.ingress.checked_calls import checked_calls
from cellule.host.ingress.mailbox import MailboxHandle
from cellule.host.ingress.outcomes import Applied
from cellule.host.ingress.remote import Remote
from cellule.host.ingress.world_effects import Control
from cellule.host.node import Node
from cellule.host.own.directory import WorldInfo
from cellule.host.read import heartbeat as questions
from cellule.host.read.beat_view import BeatView, beat_view, entries_in
from cellule.host.read.heartbeat import EnzymeView, Resolved, check_page
from cellule.host.read.reader import Reader
from cellule.host.read.runtime_tree import RuntimeTree, is_runtime
from cellule.host.read.tree_changes import TreeChange, changes_in
from cellule.kernel.heartbeat.paths import parse_path
from cellule.kernel.items import SignalItem, Verb
from cellule.kernel.journal.frame import Frame
from cellule.values.cbor import encode


@checked_calls()
class Heartbeat:
    """The heartbeat of one world: `world.heartbeat`."""

    def __init__(
        self, node: Node, info: WorldInfo, remote: Remote, control: Control, reader: Reader,
        tail: Callable[[int | None], AsyncIterator[Frame]],
    ) -> None:  # fmt: skip
        self._node = node
        self._info = info
        self._remote = remote
        self._control = control
        self._reader = reader
        self._tail = tail

    # Signals and beats

    async def signal(
        self, signal: str | None = None, target: str | None = None, *, payload: Any = None,
        beat: int | None = None, id: Id | None = None,
    ) -> Applied[Any]:  # fmt: skip
        """Queue an impulse for the next beat, or a later one; durable when this returns.

        `signal` and `target` are paths, and one of them may be left out. With an `id` it may be asked for
        again: it is queued once.
        """
        given = None if id is None else check_id(id)
        data = None if payload is None else encode(payload)
        item = SignalItem(signal, target, data, beat, given, explicit=given is not None)
        if not self._node.is_owner:
            height, duplicate = await self._remote.signal(item)
            return Applied(height, given, duplicate, (), None)
        self._node.storage.check_events(self._info.universe, 1)
        sent = Sent(item)
        (await self._node.hosted(self._info)).submit(sent)
        await sent.wait("durable")
        return Applied(sent.height, given, sent.duplicate, (), None)

    async def agenda(self) -> list[Resolved]:
        """What the next beat runs, as things stand: resolved, and not run."""
        return await self._reader.ask(lambda world: questions.agenda(world.ledger))

    async def beat_view(self, beat: int) -> BeatView | None:
        """One beat: what it handled, which enzymes ran and how; None for one that has not been."""
        frame = await self._reader.journal.frame_of_beat(beat)
        return None if frame is None else await self._viewed(frame)

    async def beats(self, *, after: int | None = None, limit: int = 100) -> list[BeatView]:
        """Beats behind the beat `after`, oldest first; without it the newest ones."""
        limit = check_page(limit)
        head = await self._reader.journal.head()
        first = max(0, head.beat - limit) if after is None else after
        frame = await self._reader.journal.frame_of_beat(first + 1)
        found: list[BeatView] = []
        if frame is None:
            return found
        async for each in self._reader.journal.frames(frame.header.first, head.height):
            found.append(await self._viewed(each))
            if len(found) == limit:
                break
        return found

    async def beat(self, *, who: str = "client", why: str = "asked for") -> BeatView:
        """Have a beat now, with the agenda that is due."""
        done = await self._do("heartbeat.beat", who, why)
        return await self._viewed(await self._reader.frame(done.height))

    async def pause(self, *, who: str = "client", why: str = "asked for") -> Applied[Any]:
        """Keep impulses, in their order, until `resume`; events, receipts and timers go on."""
        return await self._do("heartbeat.pause", who, why)

    async def resume(self, *, who: str = "client", why: str = "asked for") -> Applied[Any]:
        """Run what was kept, in the next beat."""
        return await self._do("heartbeat.resume", who, why)

    async def publish(
        self, beat: int, unix_ns: int, *, who: str = "client", why: str = "asked for"
    ) -> Applied[Any]:
        """Say when a beat was, by the wall clock; the same again is fine, another time is refused."""
        return await self._do("heartbeat.publish", who, why, beat=beat, ns=unix_ns)

    async def set_window(self, window: int, *, who: str = "client", why: str = "asked for") -> Applied[Any]:
        """Keep so many intervals between beats."""
        return await self._do("heartbeat.window", who, why, window=window)

    # Enzymes

    async def enzymes(self, *, after: int | None = None, limit: int = 100) -> list[EnzymeView]:
        """Entries of the registry in the order of registration; `after` is a number."""
        limit = check_page(limit)
        return await self._reader.ask(lambda world: questions.enzymes(world.ledger, after, limit))

    async def register(
        self, query: str, name: str, module: str, *, who: str = "client", why: str = "asked for",
        **options: Any,
    ) -> Applied[Any]:  # fmt: skip
        """Register an enzyme for signals; its code is a module of the app (`@app.enzyme`).

        `options` are `match`, `before`, `after`, `access`, `retry_limit`, `backoff`, `depth`, `signals` and
        `flags`, which are kept and mean nothing.
        """
        entry = {"query": query, "name": name, "module": module, **options}
        return await self._do("enzyme.register", who, why, entry=entry)

    async def unregister(self, number: int, *, who: str = "client", why: str = "asked for") -> Applied[Any]:
        """Take an entry out of the registry."""
        return await self._do("enzyme.unregister", who, why, number=number)

    async def bindings(self, path: str) -> Mapping[str, str]:
        """The newest binding of each name at one node: `local`, `propagating`, or `ended` there."""
        return await self._reader.ask(lambda world: questions.bindings(world.ledger, path))

    async def bind(
        self, path: str, name: str, *, propagate: bool = False, who: str = "client", why: str = "asked for"
    ) -> Applied[Any]:
        """Bind the enzymes of a name to a node of the tree, which is made where it is missing."""
        return await self._do("enzyme.bind", who, why, path=path, name=name, propagate=propagate)

    async def unbind(
        self, path: str, name: str, *, who: str = "client", why: str = "asked for"
    ) -> Applied[Any]:
        """End a binding at a node, also one that is passed on to it."""
        return await self._do("enzyme.unbind", who, why, path=path, name=name)

    # The tree

    async def read(self, path: str, default: Any = None) -> Any:
        """The value at a path, as of what is durable; `/rt` shows what is recorded of beats."""
        if is_runtime(path):
            found = await RuntimeTree(self._reader).node(path)
            return default if found is None or found.value is None else found.value
        held = await self._reader.ask(lambda world: questions.value_at(world.ledger, path))
        return default if held is None else held.get("value", default)

    async def exists(self, path: str) -> bool:
        """Tell whether there is a node."""
        if is_runtime(path):
            return await RuntimeTree(self._reader).node(path) is not None
        return await self._reader.ask(lambda world: questions.value_at(world.ledger, path)) is not None

    async def list(self, path: str = "/", *, after: str | None = None, limit: int = 100) -> list[str]:
        """The names right below a path, in byte order; go on with `after`, the last of a page."""
        limit = check_page(limit)
        if is_runtime(path):
            return await RuntimeTree(self._reader).names(path, after, limit)
        return await self._reader.ask(lambda world: questions.names_below(world.ledger, path, after, limit))

    async def watch(self, path: str = "/", *, after: int | None = None) -> AsyncIterator[TreeChange]:
        """Changes at a path and below it, from behind height `after` (default: from now on); never ends."""
        place = parse_path(path)
        async for frame in self._tail(after):
            for change in await changes_in(self._reader, frame, place):
                yield change

    async def write(
        self, path: str, value: Any = None, *, who: str = "client", why: str = "asked for"
    ) -> Applied[Any]:
        """Give a node a value, and make those above it that are missing."""
        return await self._do(
            "tree.write", who, why, path=path, **({} if value is None else {"value": value})
        )

    async def delete(self, path: str, *, who: str = "client", why: str = "asked for") -> Applied[Any]:
        """Delete a node and all below it."""
        return await self._do("tree.delete", who, why, path=path)

    def mailbox(self, path: str) -> MailboxHandle:
        """The handle of a mailbox, whether it is there or not; the app says `app.mailboxes()`."""
        return MailboxHandle(self, self._reader, path)

    async def _viewed(self, frame: Frame) -> BeatView:
        numbers = entries_in(frame)
        names = await self._reader.ask(lambda world: questions.names_of(world.ledger, numbers))
        return beat_view(frame, names)

    async def _do(self, verb: Verb, who: str, why: str, **arguments: Any) -> Applied[Any]:
        who, why = check_who_and_why(who, why)
        return await self._control(verb, who=who, why=why, **arguments)
