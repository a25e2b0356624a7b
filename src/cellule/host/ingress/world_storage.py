"""What one world keeps: its snapshots, where its old frames are, how much of its history stays.

All of it may be done from any process, beside the world's owner; only the owner may choose another baseline.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path

from cellule.errors import Conflict, Rejected, Unavailable
from cellule.host.archive.cell_exporter import CellExporter
from cellule.host.archive.cell_importer import CellImporter, ImportedCell
from cellule.host.archive.exporter import Exported
from cellule.host.archive.key_file import MovedKeys, export_keys, import_keys
from cellule.host.codecs import StoredCodecs
from cellule.host.ingress.arguments import check_who_and_why
from cellule.host.ingress.checked_calls import checked_calls
from cellule.host.ingress.handles import WorldHandle
from cellule.host.node import Node
from cellule.host.own.directory import WorldInfo, baseline_row, read_head
from cellule.host.read.reader import Reader
from cellule.host.storage.compaction import Compacted
from cellule.host.storage.history import Hold, hold_history, holds, release_history
from cellule.host.storage.policy import KeptHistory, Retention
from cellule.host.storage.snapshot_list import KeptSnapshot
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.values.link import Link


@checked_calls()
class WorldStorage:
    """The storage of one world; made by `node.storage(name)`."""

    def __init__(self, node: Node, info: WorldInfo) -> None:
        self._node = node
        self._info = info

    async def snapshots(self) -> list[KeptSnapshot]:
        """The snapshots that the world keeps, oldest first."""
        await self._check_there()
        return await self._node.storage.snapshots(self._info)

    async def promote(self, height: int, *, who: str = "cellule", why: str = "asked for") -> KeptSnapshot:
        """Make another kept snapshot the one that restore starts from; journaled with who and why.

        For when the newest cannot be read. The next snapshot is the baseline again.
        """
        who, why = check_who_and_why(who, why)
        node, info = self._node, self._info
        await node.hosted(info)
        chosen = next((each for each in await self.snapshots() if each.height == height), None)
        if chosen is None:
            raise Rejected(
                "host.no_such_snapshot", "world {world} keeps no snapshot of height {height}",
                world=info.name, height=height, hint=f"List them: cellule world snapshots {info.name}",
            )  # fmt: skip
        expected = [
            keys.world_epoch(info.universe, info.id), keys.snapshot(info.universe, info.id, height)
        ]  # fmt: skip
        expect = dict(zip(expected, await node.engine.read(expected), strict=True))
        row = {keys.world_baseline(info.universe, info.id): baseline_row(height, chosen.cid)}
        try:
            await node.engine.commit(Batch(expect=expect, set=row))
        except Conflict as error:
            raise Unavailable(
                "host.promotion_contended",
                "the snapshots of world {world} changed meanwhile",
                world=info.name,
            ) from error  # fmt: skip
        handle = WorldHandle(node, info, StoredCodecs(await Reader(node, info).manifest()))
        await handle.control("baseline", who=who, why=why, height=height, snapshot=Link(chosen.cid))
        return replace(chosen, is_baseline=True)

    async def compact(self, *, everything: bool = False) -> Compacted:
        """Move old frames out of the rows; with `everything` all that restore does not need.

        A node does it by itself after each snapshot. It may be interrupted at any point.
        """
        return await self._node.storage.compact(self._info, everything=everything)

    async def export_cell(
        self, module: str, key: bytes, path: str | PathLike[str], *, redact: Iterable[str] = ()
    ) -> Exported:
        """Write one cell with its whole history to a new CAR file; `redact` names fields that are null.

        `import_cell` makes a cell of it again, unless something is redacted.
        """
        reader = Reader(self._node, self._info)
        types = StoredCodecs(await reader.manifest())
        exporter = CellExporter(reader, types, self._info, self._node.clock)
        return await exporter.export(types.module(module), key, Path(path), redact)

    async def import_cell(
        self, path: str | PathLike[str], *, dry_run: bool = False, who: str = "cellule",
        why: str = "asked for",
    ) -> ImportedCell:  # fmt: skip
        """Make the cell of a file that `export_cell` wrote, with its state, as a step of the journal.

        Refused where the cell is there, or where it does not fit the code of the world. Its open effects,
        timers and waiting messages are not imported; its history before stays readable under the file's root.
        """
        who, why = check_who_and_why(who, why)
        node, info = self._node, self._info
        await node.storage.check_more_cells(info.universe)
        reader = Reader(node, info)
        types = StoredCodecs(await reader.manifest())
        put = partial(WorldHandle(node, info, types).control, "cell.import", who=who, why=why)
        importer = CellImporter(reader, types, info, node.storage.pins(info.universe))
        return await importer.import_file(Path(path), put, dry_run=dry_run)

    async def export_keys(self, path: str | PathLike[str]) -> MovedKeys:
        """Write the erasure keys of the world to a file, which an export of it does not hold."""
        await self._check_there()
        return await export_keys(self._node.engine, self._info, Path(path))

    async def import_keys(self, path: str | PathLike[str]) -> MovedKeys:
        """Take the keys of such a file after the world was imported, before it goes on."""
        await self._check_there()
        return await import_keys(self._node.engine, self._info, Path(path))

    async def retention(self) -> Retention:
        """What is kept of the world."""
        await self._check_there()
        return await self._node.storage.retention(self._info)

    async def retain(self, *, history: KeptHistory | None = None, snapshots: int | None = None) -> Retention:
        """Say what is kept: history for ever (`keep`) or as far as needed (`drop`), and how many snapshots.

        Nothing goes before the next compaction.
        """
        now = await self.retention()
        chosen = Retention(history or now.history, now.snapshots if snapshots is None else snapshots)
        await self._node.storage.retain(self._info, chosen)
        return chosen

    async def holds(self) -> list[Hold]:
        """Who needs the world's history, and from which height on."""
        await self._check_there()
        return await holds(self._node.engine, self._info)

    async def hold(self, name: str, height: int) -> None:
        """Keep the history from a height on, under a name; the same name again moves the hold."""
        await self._check_there()
        await hold_history(self._node.engine, self._info, name, height)

    async def release(self, name: str) -> None:
        """Remove a hold."""
        await self._check_there()
        await release_history(self._node.engine, self._info, name)

    async def _check_there(self) -> None:
        """A world that was deleted is `Gone`; it keeps nothing, and nothing is written for it."""
        await read_head(self._node.engine, self._info)
