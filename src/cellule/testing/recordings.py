"""Recorded receipts: what the outside answered once, to be answered again without it.

    recording = Recording.of(world)          a testing world, or the frames of any journal
    recording.save("charges.cellule")
    World(app).replay(Recording.load("charges.cellule"))

A receipt is found by the cell, the kind and the params of its intent; the n-th equal request gets the n-th
receipt. The file is one canonical value: {format, receipts: [[module, key, kind, params, status, value,
code, text]]}.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cellule.errors import CelluleError, Rejected
from cellule.testing.journal_view import JournalView, Target
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid

if TYPE_CHECKING:
    from cellule.testing.world import World
import asyncio

from cellule.app import App
from cellule.assembly import Options, open
from cellule.host.read.shadow import ShadowReport

FORMAT = 1


class Recorded(NamedTuple):
    """One intent and how it ended."""

    cell: Target
    kind: str
    params: bytes
    status: str
    value: bytes | None
    code: str
    text: str


class Recording:
    """Receipts in the order they were recorded."""

    def __init__(self, receipts: Sequence[Recorded]) -> None:
        self.receipts = tuple(receipts)
        self._left: dict[tuple[Target, str, bytes], deque[Recorded]] = defaultdict(deque)
        for each in self.receipts:
            self._left[each.cell, each.kind, each.params].append(each)

    def __len__(self) -> int:
        return len(self.receipts)

    def __repr__(self) -> str:
        return f"<recording of {len(self)} receipts>"

    @classmethod
    def of(cls, world: World) -> Recording:
        """What a testing world has received from outside."""
        return cls(list(_received(world.chronicle.journal)))

    @classmethod
    def of_frames(
        cls, frames: Iterable[bytes], fetch: Callable[[tuple[Cid, ...]], dict[Cid, bytes]]
    ) -> Recording:
        """What any world has received, by the bytes of its frames; `fetch` brings blocks they link."""
        return cls(list(_received(JournalView(list(frames), fetch))))

    def rewound(self) -> Recording:
        """The same receipts, none of them used."""
        return Recording(self.receipts)

    def take(self, cell: Target, kind: str, params: bytes) -> Recorded | None:
        """The next receipt for such a request, or None."""
        left = self._left.get((cell, kind, params))
        return left.popleft() if left else None

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file."""
        rows: list[Any] = [[*each.cell, *each[1:]] for each in self.receipts]
        Path(path).write_bytes(encode({"format": FORMAT, "receipts": rows}))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Recording:
        """Read a file; `Rejected` where it is none."""
        try:
            held: Any = decode(Path(path).read_bytes())
            if held["format"] != FORMAT:
                raise ValueError(f"it has format {held['format']}")
            rows = [Recorded((row[0], row[1]), *row[2:]) for row in held["receipts"]]
        except (OSError, CelluleError, LookupError, TypeError, ValueError) as error:
            raise Rejected(
                "testing.recording", "{path} is no recording: {why}.", path=path, why=error,
                hint="Make one with Recording.of(world).save(path).",
            ) from error  # fmt: skip
        return cls(rows)


def _received(journal: JournalView) -> Iterable[Recorded]:
    for row in journal.intents():
        receipt = journal.receipt(row.height)
        if receipt is not None and receipt.by:
            yield Recorded(
                row.cell, row.kind, row.params, receipt.status, receipt.value, receipt.code, receipt.text
            )


def replay_export(path: str | PathLike[str], app: App, *, recent: int | None = None) -> ShadowReport:
    """Run what `cellule world export` wrote again under an app, in memory, and compare.

    Recorded receipts answer the effects. `recent` is how many of the newest records are run; by default all.
    `report.same` tells whether every cell got the same states and made the same events and effects.
    """

    async def replay() -> ShadowReport:
        options = Options(perform=False, tune_process=False)
        async with open("memory:", app, deploy="never", options=options) as node:
            info = await node.import_world(path)
            return await node.shadow_world(info.name, recent=recent)

    return asyncio.run(replay())
