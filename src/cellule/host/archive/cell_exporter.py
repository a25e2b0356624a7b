"""One cell with its whole history as a CAR file that any IPLD tool reads: what came, and what it became.

    root = {kind: "cellule/cell", format: 0, world, name, module, key, height, made_ns, redacted: [text],
            pages: [link]}
    page = [{height, version, born, era, status, now_ns, cause, schema?, event?, state?, error?, code?}]

Steps stand oldest first, through all lives of the cell; `event` and `state` are the values themselves. Fields
that are to be redacted are null wherever a record or map has one of that name, at any depth. Such a file is a
document, for people and other tools: no world can be made of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cellule.errors import Rejected
from cellule.host.archive.exporter import CarWriter, Exported
from cellule.host.codecs import WorldCodecs
from cellule.host.limits import EXPORT_CELL_PAGE, EXPORT_VERSIONS_MAX
from cellule.host.own.directory import WorldInfo
from cellule.host.read.history import HistoryReader, Version
from cellule.host.read.reader import Reader
from cellule.kernel.journal.records import MessageRecord, StepRecord
from cellule.sources import Clock
from cellule.values.cbor import decode_trusted, encode
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Link, Value


class CellExporter:
    """Exports cells of one world."""

    def __init__(self, reader: Reader, types: WorldCodecs, info: WorldInfo, clock: Clock) -> None:
        self._reader = reader
        self._types = types
        self._info = info
        self._clock = clock

    async def export(self, base: str, key: bytes, path: Path, redact: Iterable[str] = ()) -> Exported:
        """Write the history of a cell to a new file."""
        hidden = frozenset(redact)
        head = await self._reader.journal.head()
        versions = await self._versions(base, key)
        pages: dict[Cid, bytes] = {}
        for start in range(0, len(versions), EXPORT_CELL_PAGE):
            steps = [await self._told(each, hidden) for each in versions[start : start + EXPORT_CELL_PAGE]]
            page = encode(steps)
            pages[cid_of(page)] = page
        names: list[Value] = [*sorted(hidden)]
        links: list[Value] = [Link(cid) for cid in pages]
        root = encode({
            "kind": "cellule/cell", "format": 0, "world": self._info.id.bytes, "name": self._info.name,
            "module": base, "key": key, "height": head.height, "made_ns": self._clock.now_ns(),
            "redacted": names, "pages": links,
        })  # fmt: skip
        writer = CarWriter(path)
        try:
            await writer.begin(cid_of(root))
            await writer.add(cid_of(root), root)
            for cid, page in pages.items():
                await writer.add(cid, page)
            writer.finish()
        finally:
            writer.drop()
        first = versions[0].height if versions else 0
        return Exported(path, cid_of(root), head.height, first, len(versions), len(writer.seen), writer.size)

    async def _versions(self, base: str, key: bytes) -> list[Version[Any]]:
        """All steps of the cell, oldest first."""
        history = HistoryReader(self._reader, self._types, base, key)
        found: list[Version[Any]] = []
        before: int | None = None
        while True:
            page = await history.page(EXPORT_CELL_PAGE, before)
            found += page
            if len(found) > EXPORT_VERSIONS_MAX:
                raise Rejected(
                    "archive.versions_max", "the cell has more than {most} steps", most=EXPORT_VERSIONS_MAX,
                    hint="Export the world.",
                )  # fmt: skip
            before = page.next
            if before is None:
                break
        if not found:
            raise Rejected(
                "archive.no_cell", "cell {module} {key!r} has no history in world {world}", module=base,
                key=key, world=self._info.name, hint="List cells: cellule cell list",
            )  # fmt: skip
        return found[::-1]

    async def _told(self, version: Version[Any], hidden: frozenset[str]) -> Value:
        step = (await self._reader.journal.frame(version.height)).expect(version.height, StepRecord)
        message = (await self._reader.journal.frame(step.cause)).at(step.cause)
        told: dict[str, Value] = {
            "height": version.height, "version": version.version, "born": step.born, "era": step.era,
            "status": version.status, "now_ns": version.now_ns, "cause": step.cause,
        }  # fmt: skip
        if isinstance(message, MessageRecord):
            told["schema"] = version.schema
            told["event"] = await self._value(getattr(message, "value", None), hidden)
        if step.state is not None:
            told["state"] = await self._value(step.state, hidden)
        told |= {name: text for name, text in (("error", version.error), ("code", version.code)) if text}
        return told

    async def _value(self, stored: Any, hidden: frozenset[str]) -> Value:
        if stored is None:
            return None
        return redacted(decode_trusted(await self._reader.bytes_of(stored)), hidden)


def redacted(value: Value, hidden: frozenset[str]) -> Value:
    """A value in which fields of these names are null, at any depth.

    >>> redacted({"name": "ann", "cards": [{"number": "4111"}]}, frozenset({"number"}))
    {'name': 'ann', 'cards': [{'number': None}]}
    """
    if isinstance(value, dict):
        return {name: None if name in hidden else redacted(each, hidden) for name, each in value.items()}
    return [redacted(each, hidden) for each in value] if isinstance(value, list) else value
