"""The heartbeat of a `testing.World`: signals, beats on demand, the tree, and what the next agenda holds."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

from cellule.host.read import heartbeat as questions
from cellule.host.read.beat_view import BeatView, beat_view
from cellule.host.read.heartbeat import PAGE_MAX, Resolved
from cellule.kernel.items import Admitted, ControlItem, Duplicate, Item, RefusedItem, SignalItem, Verb
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.need import Need
from cellule.kernel.state.ledger import Ledger
from cellule.testing.memory_host import MemoryHost
from cellule.values.cbor import encode


class HasBeats(Protocol):
    """What the methods below need of a world."""

    host: MemoryHost

    def settle(self) -> None:
        """Beat until the world has nothing more to do."""


class Heartbeat:
    """`world.heartbeat`: the methods of one world for signals, enzymes and the tree."""

    def __init__(self, world: HasBeats) -> None:
        self._world = world

    def signal(
        self, signal: str | None = None, target: str | None = None, *, payload: object = None,
        beat: int | None = None, id: str | None = None,
    ) -> int:  # fmt: skip
        """Queue an impulse for the next beat, or a later one; returns the height of its record."""
        data = None if payload is None else encode(payload)  # type: ignore[arg-type]
        return self._do(SignalItem(signal, target, data, beat, id, explicit=id is not None))

    def beat(self) -> BeatView:
        """One beat, with the agenda that is due; `settle` beats on until nothing is left."""
        self._do(ControlItem("heartbeat.beat", "test", "a beat on demand"))
        return self.beats()[-1]

    def beats(self) -> list[BeatView]:
        """All beats so far, oldest first."""
        names = self._ask(questions.entry_names)
        return [beat_view(decode_frame(frame), names) for frame in self._world.host.frames]

    def agenda(self) -> list[Resolved]:
        """What the next beat runs, as things stand: resolved, and not run."""
        found: list[Resolved] = self._ask(questions.agenda)
        return found

    def control(self, verb: Verb, **arguments: Any) -> int:
        """Do a verb of the heartbeat, such as `enzyme.register` or `heartbeat.pause`."""
        return self._do(ControlItem(verb, "test", "asked by the test", arguments))

    def bind(self, path: str, name: str, *, propagate: bool = False) -> None:
        """Bind the enzymes of a name to a node of the tree, which is made where it is missing."""
        self.control("enzyme.bind", path=path, name=name, propagate=propagate)

    def unbind(self, path: str, name: str) -> None:
        """End a binding at a node, also one that is passed on to it."""
        self.control("enzyme.unbind", path=path, name=name)

    def write(self, path: str, value: object = None) -> None:
        """Give a node a value, and make those above it that are missing."""
        self.control("tree.write", path=path, **({} if value is None else {"value": value}))

    def delete(self, path: str) -> None:
        """Delete a node and all below it."""
        self.control("tree.delete", path=path)

    def read(self, path: str, default: Any = None) -> Any:
        """The value at a path, as plain values; `default` where there is none."""
        held = self._ask(lambda ledger: questions.value_at(ledger, path))
        return default if held is None else held.get("value", default)

    def exists(self, path: str) -> bool:
        """Tell whether there is a node."""
        return self._ask(lambda ledger: questions.value_at(ledger, path)) is not None

    def list(self, path: str = "/", *, after: str | None = None, limit: int = PAGE_MAX) -> list[str]:
        """The names right below a path."""
        found: list[str] = self._ask(lambda ledger: questions.names_below(ledger, path, after, limit))
        return found

    def _do(self, item: Item) -> int:
        (outcome,) = self._world.host.beat([item]).outcomes
        match outcome:
            case Admitted(height=height) | Duplicate(height=height):
                return height
            case RefusedItem(error=error):
                raise error
        raise AssertionError("a beat with one item has room for it")

    def _ask(self, walk: Callable[[Ledger], Generator[Need, None, Any]]) -> Any:
        return self._world.host.ask(walk)
