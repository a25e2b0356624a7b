"""A kernel world with enzymes that are plain functions, and its agenda as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cellule.kernel.items import Beat, ControlItem, SignalItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.heartbeat_records import (
    AgendaRecord,
    SignalRecord,
    StageRecord,
)
from cellule.values.cbor import encode
from tests.support.kernel_world import FunctionPrograms, KernelWorld

MODULE = {"state": "sys/Value@1", "style": "enzyme", "code": {}}
Enzyme = Callable[[Any, Any], Any]


class EnzymeWorld(KernelWorld):
    """Each enzyme is a module `t/<name>`; `register` and the rest go into the next `tick`."""

    def __init__(
        self, enzymes: Mapping[str, Enzyme], *, document: Mapping[str, Any] | None = None,
        steps: Mapping[str, Any] | None = None, entries: Any = (), modules: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        own = {f"t/{name}@1": {**MODULE, **(modules or {}).get(name, {})} for name in enzymes}
        base = dict(document or {})
        whole = {**base, "modules": {**base.get("modules", {}), **own}}
        if entries:
            whole["enzymes"] = list(entries)
        functions = {**(steps or {}), **{f"t/{name}": function for name, function in enzymes.items()}}
        super().__init__(whole, FunctionPrograms(functions), **options)
        self.items: list[Any] = []

    def register(self, name: str, query: str = "/s", module: str | None = None, **entry: Any) -> None:
        full = {"name": name, "query": query, "module": f"t/{module or name}", **entry}
        self.do("enzyme.register", entry=full)

    def do(self, verb: Any, **arguments: Any) -> None:
        self.items.append(ControlItem(verb, "ada", "because", arguments))

    def bind(self, path: str, name: str, *, propagate: bool = False) -> None:
        self.do("enzyme.bind", path=path, name=name, propagate=propagate)

    def write(self, path: str, value: Any = None) -> None:
        self.do("tree.write", path=path, **({} if value is None else {"value": value}))

    def signal(
        self, signal: str | None, target: str | None = None, payload: Any = None, beat: int | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        data = None if payload is None else encode(payload)
        self.items.append(SignalItem(signal, target, data, beat, **options))

    def tick(self, *, forced: bool = True) -> Beat:
        """One beat with what was collected."""
        items, self.items = self.items, []
        if forced:
            items.append(ControlItem("heartbeat.beat", "ada", "because"))
        return self.beat(items)

    def agenda(self) -> list[tuple[Any, ...]]:
        """The newest frame's agenda: (number, code, ran, signal, target), or ("none", signal, target)."""
        lines: list[tuple[Any, ...]] = []
        for record in self.records(AgendaRecord):
            if not record.lines and not record.extras.get("kind"):
                lines.append(("none", record.signal, record.target))
            lines += [(*line, record.signal, record.target) for line in record.lines]
        return lines

    def records(self, kind: Any) -> list[Any]:
        """The newest frame's records of a kind."""
        return [record for _, record in decode_frame(self.frames[-1]).of(kind)]

    def promoted(self) -> int:
        """The newest frame's stage note."""
        return sum(record.promoted for record in self.records(StageRecord))

    def queued(self) -> list[tuple[Any, ...]]:
        """What the newest frame queued: (signal, target, beat, kind)."""
        return [
            (each.signal, each.target, each.beat, each.extras.get("kind", ""))
            for each in self.records(SignalRecord)
        ]
