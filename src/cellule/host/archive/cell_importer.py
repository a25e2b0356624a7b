"""A cell out of a file: it gets the state that the file has, as a step of the world's journal.

Everything is proven before anything is written: the file, its steps, and that the cell's state fits the
module as the world runs it. The cell must not be there. The file's blocks are stored with it, under the root
that they have in the file, and the journal links that root: the history before the import stays, and goes
along when the cell is exported again. Open effects, timers and waiting messages are not in the file.

Rejected: its old steps as records of the journal. Heights, causes and times are those of another world, and
nothing could replay them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cellule.errors import CelluleError, Rejected, readable
from cellule.host.archive.car import CarFile
from cellule.host.archive.cell_document import CellDocument
from cellule.host.archive.cell_exporter import check_not_erasable
from cellule.host.archive.fields import count_of, redacted_file, wrong
from cellule.host.archive.importer import put_all
from cellule.host.codecs import WorldCodecs
from cellule.host.limits import EXPORT_CELL_PAGE, EXPORT_PIN_S, EXPORT_VERSIONS_MAX
from cellule.host.own.directory import WorldInfo
from cellule.host.read.reader import Reader
from cellule.host.storage.pins import Pins
from cellule.kernel.journal.links import links_of_block
from cellule.kernel.limits import PARAMS_INLINE_MAX
from cellule.kernel.manifest.load import load_manifest
from cellule.values.cbor import decode
from cellule.values.cid import Cid
from cellule.values.envelope import seal
from cellule.values.link import Link
from cellule.values.schema import wire_codec
from cellule.values.schema.types import Ref

Put = Callable[..., Awaitable[Any]]
"""Does the control `cell.import` with these arguments."""


@dataclass(frozen=True, slots=True)
class ImportedCell:
    """A cell that was imported, or would be; `height` is that of its step, 0 for a preview."""

    module: str
    key: bytes
    from_world: str
    from_height: int
    steps: int  # of its history, which the file holds
    root: Cid  # of the file, and of the history that the world keeps
    state: Cid
    effects: int  # that were open when it was exported, and are not imported
    messages: int  # that waited then, and are not imported
    height: int = 0


@dataclass(frozen=True, slots=True)
class _Proven:
    document: CellDocument
    key: bytes
    state: bytes
    blocks: list[Cid]


class CellImporter:
    """Imports cells into one world."""

    def __init__(self, reader: Reader, types: WorldCodecs, info: WorldInfo, pins: Pins) -> None:
        self._reader = reader
        self._types = types
        self._info = info
        self._pins = pins

    async def import_file(self, path: Path, put: Put, *, dry_run: bool = False) -> ImportedCell:
        """Make the cell of a file; `Rejected` where it is damaged, redacted, or where the cell lives."""
        with CarFile(path) as car:
            proven = _prove(car)
            document = proven.document
            await self._check_fits(car, proven)
            assert document.state is not None
            found = ImportedCell(
                document.module, proven.key, document.name, document.height, document.steps, car.root,
                document.state, document.effects, document.messages,
            )  # fmt: skip
            if dry_run:
                return found
            cas = self._reader.cas
            since = await cas.generation()
            await put_all(cas, car, proven.blocks)
        why = f"import of {document.module} from {path.name}"
        async with self._pins.held([found.root], EXPORT_PIN_S, why, since):
            is_short = len(proven.state) <= PARAMS_INLINE_MAX
            state = seal(proven.state) if is_short else Link(document.state)
            arguments: dict[str, Any] = {
                "module": document.module, "key": proven.key, "version": 0, "born": 0, "state": state,
                "from": document.world.bytes, "at": document.height, "archive": Link(found.root),
            }  # fmt: skip
            applied = await put(**arguments)
        return replace(found, height=applied.height + 1)

    async def _check_fits(self, car: CarFile, proven: _Proven) -> None:
        """Refuse a cell that the world has, or that does not fit the code that it runs."""
        document, manifest = proven.document, await self._reader.manifest()
        base, key = document.module, proven.key
        module = manifest.modules.get(base)
        if module is None:
            raise self._unfit(base, "the world has no such module")
        check_not_erasable(manifest, base)
        if module.log:
            raise self._unfit(base, "it is a log, whose effects and timers the file does not hold")
        assert document.era is not None
        written = load_manifest(car.read(document.eras[document.era])).modules.get(base)
        if written is None or written.state != module.state:
            theirs = "unknown" if written is None else written.state
            raise self._unfit(base, f"its state is {theirs}, and here it is {module.state}")
        try:
            self._types.typed_key(base).value(key)
            wire_codec(Ref(module.state), manifest.schemas).decode(proven.state)
        except (CelluleError, UnicodeDecodeError) as error:
            raise self._unfit(base, f"it does not read: {error}") from error
        if await self._reader.entry(base, key) is not None:
            raise Rejected(
                "archive.cell_lives", "cell {module} {key} is in world {world} already", module=base,
                key=readable(key), world=self._info.name,
                hint="Import it into another world, or delete the cell first: cellule cell delete",
            )  # fmt: skip

    def _unfit(self, base: str, why: str) -> Rejected:
        return Rejected(
            "archive.cell_unfit", "a cell of {module} cannot be imported into world {world}: {why}",
            module=base, world=self._info.name, why=why,
            hint="Nothing was changed. Import it into a world of the code it was exported with.",
        )  # fmt: skip


def _prove(car: CarFile) -> _Proven:
    """Prove the whole file, and find all its blocks."""
    document = CellDocument.of_block(car.read(car.root))
    if document.redacted:
        raise redacted_file(document.redacted, f"the blocks of its {document.steps} steps are whole")
    if document.key is None or document.era not in document.eras or document.state is None:
        raise Rejected(
            "archive.cell_gone", "the cell was gone when it was exported, so there is nothing to import",
            hint="The file holds its history, for people and IPLD tools.",
        )  # fmt: skip
    _check_steps(car, document)
    return _Proven(document, document.key, car.read(document.state), _reached(car))


def _check_steps(car: CarFile, document: CellDocument) -> None:
    """Prove that the pages hold the steps that the file speaks of, in their order."""
    count, last = 0, 0
    if len(document.pages) > EXPORT_VERSIONS_MAX // EXPORT_CELL_PAGE + 1:
        raise wrong("pages", "they are too many")
    for cid in document.pages:
        rows: Any = decode(car.read(cid))
        for row in rows if isinstance(rows, list) else [None]:
            if not isinstance(row, dict) or not {"height", "status", "version"} <= set(row):
                raise wrong("pages", "they hold what is no step")
            if count_of(row, "height") <= last:
                raise wrong("pages", "their heights do not ascend")
            last, count = row["height"], count + 1
    if count != document.steps or last > document.height:
        raise wrong("steps", "they are not those of the pages")


def _reached(car: CarFile) -> list[Cid]:
    """Every block from the root on; what is linked must be in the file."""
    found = [car.root]
    seen = {car.root}
    for cid in found:
        if cid.codec == "dag-cbor":
            links = links_of_block(car.read(cid))
            fresh = [each for each in sorted(links.ours | links.users) if each not in seen]
            seen.update(fresh)
            found += fresh
        elif cid not in car.places:
            car.read(cid)
    return found
