"""One cell with its whole history as a CAR file: what came, what it became, the code that did it.

Steps stand oldest first, through all lives of the cell, as far as the journal is kept. Fields that are to be
redacted are null wherever a record or map has one of that name, at any depth; then texts of failures and the
bytes of the state are left out too, as they may say the same. `cell_document.py` has the form, and
`cell_importer.py` makes a cell of it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cellule.errors import Rejected
from cellule.host.archive.car_writer import CarWriter, write_linked
from cellule.host.archive.cell_document import CellDocument
from cellule.host.archive.exporter import Exported
from cellule.host.codecs import WorldCodecs
from cellule.host.limits import EXPORT_CELL_PAGE, EXPORT_VERSIONS_MAX
from cellule.host.own.directory import WorldInfo
from cellule.host.read.history import HistoryReader, Version
from cellule.host.read.reader import Reader
from cellule.kernel.journal.links import Links, links_of_block
from cellule.kernel.journal.records import ControlRecord, MessageRecord, StepRecord
from cellule.kernel.manifest.model import Manifest
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
        self._archives: list[Cid] = []  # that the steps told so far say it was imported from
        self._eras: set[int] = set()  # that they ran under

    async def export(self, base: str, key: bytes, path: Path, redact: Iterable[str] = ()) -> Exported:
        """Write the history of a cell to a new file."""
        hidden = frozenset(redact)
        check_not_erasable(await self._reader.manifest(), base)
        check_keys_hidden(await self._reader.manifest(), hidden, base)
        head = await self._reader.journal.head()
        versions = await self._versions(base, key)
        pages: dict[Cid, bytes] = {}
        for start in range(0, len(versions), EXPORT_CELL_PAGE):
            steps = [await self._told(each, hidden) for each in versions[start : start + EXPORT_CELL_PAGE]]
            page = encode(steps)
            pages[cid_of(page)] = page
        entry = await self._reader.entry(base, key)
        state = None if entry is None or hidden else await self._reader.state_bytes(entry)
        eras = self._eras | (set() if entry is None else {entry.era})
        document = CellDocument(
            self._info.id, self._info.name, base, None if "key" in hidden else key, head.height,
            self._clock.now_ns(), tuple(sorted(hidden)), len(versions), tuple(pages),
            None if state is None else cid_of(state), None if entry is None else entry.era,
            {era: (await self._reader.manifest(era)).cid for era in sorted(eras)},
            0 if entry is None else len(entry.get("intents", ())),
            0 if entry is None else len(entry.get("queue", ())), tuple(dict.fromkeys(self._archives)),
        )  # fmt: skip
        blocks = pages if state is None else {**pages, cid_of(state): state}
        root = document.encode()
        writer = CarWriter(path)
        try:
            await self._write(writer, document, {cid_of(root): root, **blocks})
        finally:
            writer.drop()
        first = versions[0].height if versions else 0
        return Exported(path, cid_of(root), head.height, first, len(versions), len(writer.seen), writer.size)

    async def _write(self, writer: CarWriter, document: CellDocument, blocks: dict[Cid, bytes]) -> None:
        """Write the file: what is ours must be stored, and what users' values link is written if it is."""
        await writer.begin(next(iter(blocks)))
        ours = {*document.eras.values(), *document.archives}
        users: set[Cid] = set()
        for cid, data in blocks.items():
            await writer.add(cid, data)
            users |= links_of_block(data).ours
        await write_linked(writer, self._reader.cas, Links(ours, users - ours - writer.seen))
        writer.finish()

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
        self._eras.add(step.era)
        told: dict[str, Value] = {
            "height": version.height, "version": version.version, "born": step.born, "era": step.era,
            "status": version.status, "now_ns": version.now_ns, "cause": step.cause,
        }  # fmt: skip
        if isinstance(message, MessageRecord):
            told["schema"] = version.schema
            told["event"] = await self._value(getattr(message, "value", None), hidden)
        if isinstance(message, ControlRecord) and isinstance(message.arguments.get("archive"), Link):
            self._archives += [] if hidden else [message.arguments["archive"].cid]
        if step.state is not None:
            told["state"] = await self._value(step.state, hidden)
        error = None if hidden else version.error
        return told | {name: text for name, text in (("error", error), ("code", version.code)) if text}

    async def _value(self, stored: Any, hidden: frozenset[str]) -> Value:
        if stored is None:
            return None
        return redacted(decode_trusted(await self._reader.bytes_of(stored)), hidden)


def check_not_erasable(manifest: Manifest, base: str) -> None:
    """Refuse to write in clear what has to become unreadable wherever it is."""
    module = manifest.modules.get(base)
    if module is not None and module.erasable:
        raise Rejected(
            "archive.erasable", "cells of {module} can be erased, and the file of one says all in clear",
            module=base, hint="Export the world, whose file has it sealed, or read it: `cellule cell show`.",
        )  # fmt: skip


def check_keys_hidden(manifest: Manifest, hidden: frozenset[str], base: str | None = None) -> None:
    """Refuse to hide a field that cells are named by, unless their names are hidden too."""
    if "key" in hidden:
        return
    for routes in manifest.routes.values():
        for route in routes:
            if route.key_path and route.key_path[-1] in hidden and base in (None, route.base):
                raise Rejected(
                    "archive.redact_key", "cells of {module} are named by {field}: their keys would tell it",
                    module=route.base, field=route.key_path[-1], hint="Hide the keys as well: --redact key",
                )  # fmt: skip


def redacted(value: Value, hidden: frozenset[str]) -> Value:
    """A value in which fields of these names are null, at any depth.

    >>> redacted({"name": "ann", "cards": [{"number": "4111"}]}, frozenset({"number"}))
    {'name': 'ann', 'cards': [{'number': None}]}
    """
    if isinstance(value, dict):
        return {name: None if name in hidden else redacted(each, hidden) for name, each in value.items()}
    return [redacted(each, hidden) for each in value] if isinstance(value, list) else value
