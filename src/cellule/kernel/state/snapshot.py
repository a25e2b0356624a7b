"""Snapshots: a world's whole state as one CAS root, taken at a beat boundary.

A `SnapshotJob` fixes the state in a moment; `run` then writes the frozen layers into nodes in slices, while
beats go on in new layers. Nothing in a snapshot names the world: parent and child of a fork share it.

    {beat, budgets, dead_letters, dedupe, eras, format, frame, heartbeat, height, held, idempotency, intents,
     modules, now_ns, paused, pending, ready, schedules, stopped, timers}, in forks also: fork, while whole
    maps become cells: moves, and where a manifest of the world had modules that ask for erasure: erasable

`eras` = [[manifest, height]]; `modules` = {name: [index root, count]}; every list is an index, [root, count]
or null. `idempotency` = {ages, keys} and `budgets` = {open, parked, spent, spent_by, timers} hold some each.
`heartbeat` is null until the world uses it. `frame` is the digest of the frame at `height`. What the rows are
stands in `lists.py`, `intent_book.py`, `heartbeat.py` and `branch.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NoReturn, TypeVar

from cellule.errors import CelluleError, Corrupted, ensure
from cellule.kernel.index import LISTS, OrderedIndex, Spill, update
from cellule.kernel.journal.frame import check_not_newer
from cellule.kernel.key_ring import KeyRing
from cellule.kernel.limits import FORMAT_VERSION
from cellule.kernel.need import Need, Nodes, Pause, fetch
from cellule.kernel.state import heartbeat_part, lists
from cellule.kernel.state.branch import is_branch, load_branch, unpack_answer
from cellule.kernel.state.cells import pack_message
from cellule.kernel.state.dedupe import Dedupe
from cellule.kernel.state.heartbeat_part import open_index
from cellule.kernel.state.ledger import Era, Ledger
from cellule.kernel.state.module_cells import Budget, Cells
from cellule.kernel.state.rows import (
    DeadLetter,
    unpack_intent,
    unpack_key,
    unpack_letter,
    unpack_place,
    unpack_stopped,
    unpack_timer,
)
from cellule.kernel.state.snapshot_schema import wrong_part
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Link

Row = TypeVar("Row")
SLICE_NODES = 256  # index nodes written between two beats
_KEYS = {
    "beat", "budgets", "dead_letters", "dedupe", "eras", "format", "frame", "heartbeat", "height", "held",
    "idempotency", "intents", "modules", "now_ns", "paused", "pending", "ready", "schedules", "stopped",
    "timers",
}  # fmt: skip


class SnapshotJob:
    """A snapshot under way: run it in slices until it returns the root."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        ensure(not ledger.active, "kernel.snapshot_order", "a snapshot begins in the middle of a beat")
        self.height = ledger.height
        self.blocks: dict[Cid, bytes] = {}
        self._branch: dict[str, Any] | None = None
        self._is_erasable = ledger.keys.in_use
        self._sealed, ledger.sealed = ledger.sealed, []
        for job in ledger.unsaved:  # this one may link blocks that were made for it
            self.blocks.update(job.blocks)
            self._sealed += job.sealed
        ledger.unsaved.append(self)
        self._fixed = self._freeze()

    @property
    def sealed(self) -> list[Cid]:
        """Chunks of logs that stay in reach until it is saved."""
        return self._sealed

    def _freeze(self) -> dict[str, Any]:
        """Fix everything small now, and freeze the layers that are written in slices."""
        ledger = self._ledger
        for cells in ledger.modules.values():
            cells.rest()
            cells.live.freeze()
        book = ledger.book
        for index in (ledger.timers, ledger.stopped, ledger.dead_letters, book.open, book.keys, book.ages):
            index.freeze()
        if ledger.heartbeat is not None:
            heartbeat_part.freeze(ledger.heartbeat)
        if ledger.branch is not None:
            ledger.branch.answers.freeze()
            self._branch = ledger.branch.save()
        self._rows = lists.save(ledger)
        return {
            "format": FORMAT_VERSION, "height": ledger.height, "beat": ledger.beat, "now_ns": ledger.now_ns,
            "frame": ledger.frame, "paused": ledger.paused,
            "eras": [[Link(era.manifest), era.height] for era in ledger.eras],
            "dedupe": ledger.dedupe.save(self.blocks),
            "budgets": {"parked": book.parked, "timers": book.timers},
            "heartbeat": None if ledger.heartbeat is None else heartbeat_part.fixed(ledger.heartbeat),
        }  # fmt: skip

    def run(self) -> Generator[Need | Pause, None, Cid]:
        """Write the frozen layers; yields `Pause` after each slice, and returns the snapshot's CID."""
        ledger = self._ledger
        modules: dict[str, Any] = {}
        for base in sorted(ledger.modules):
            cells = ledger.modules[base]
            root = yield from self._module(cells)
            if root is not None:
                modules[base] = [Link(root), cells.live.root_count]
        whole = {**self._fixed, "modules": modules}
        for name in ("pending", "ready", "held", "schedules"):
            whole[name] = yield from self._list(name)
        if self._rows["moves"]:
            whole["moves"] = yield from self._list("moves")
        for name in ("open", "spent", "spent_by"):
            whole["budgets"][name] = yield from self._list(name)
        for name in ("timers", "stopped"):
            whole[name] = yield from self._ordered(getattr(ledger, name))
        whole["dead_letters"] = yield from self._ordered(ledger.dead_letters, self._dead_letter)
        book = ledger.book
        whole["intents"] = yield from self._ordered(book.open)
        ages = yield from self._ordered(book.ages)
        keys = yield from self._ordered(book.keys)
        whole["idempotency"] = None if ages is None and keys is None else {"ages": ages, "keys": keys}
        if whole["heartbeat"] is not None:
            assert ledger.heartbeat is not None
            for name, index, pack in heartbeat_part.indexes(ledger.heartbeat):
                whole["heartbeat"][name] = yield from self._ordered(index, pack)
        if self._branch is not None:
            assert ledger.branch is not None
            answers = yield from self._ordered(ledger.branch.answers)
            whole["fork"] = {**self._branch, "answers": answers}
        if self._is_erasable:
            whole["erasable"] = True
        data = encode(whole)
        cid = cid_of(data)
        self.blocks[cid] = data
        return cid

    def saved(self) -> None:
        """The blocks, and the frames below, are durable: what was kept in memory for them may go."""
        ledger = self._ledger
        ledger.nodes.unpin(self.blocks)
        ledger.nodes.unpin(self._sealed)
        ledger.dedupe.forget_saved(self.blocks)
        if self in ledger.unsaved:  # and those before it, whose blocks it has
            del ledger.unsaved[: ledger.unsaved.index(self) + 1]

    def _module(self, cells: Cells) -> Generator[Need | Pause, None, Cid | None]:
        root, blocks = yield from cells.live.materialise(SLICE_NODES)
        self.blocks.update(blocks)
        self.blocks.update(cells.blocks)
        self._ledger.nodes.pin(cells.blocks)
        cells.blocks.clear()
        return root

    def _ordered(
        self, index: OrderedIndex[Any], pack: Callable[[Any], Any] | None = None
    ) -> Generator[Need | Pause, None, list[Any] | None]:
        root, blocks = yield from index.materialise(SLICE_NODES, pack)
        self.blocks.update(blocks)
        return None if root is None else [Link(root), index.root_count]

    def _list(self, name: str) -> Generator[Need | Pause, None, list[Any] | None]:
        """Write a list that is kept in memory; its rows are made here, not when they were fixed."""
        rows = {key: lists.packed(name, row, self.blocks) for key, row in self._rows.pop(name).items()}
        made = yield from update(None, rows, self._ledger.nodes, LISTS, slice_nodes=SLICE_NODES)
        self.blocks.update(made.blocks)
        return None if made.root is None else [Link(made.root), len(rows)]

    def _dead_letter(self, row: DeadLetter) -> DeadLetter:
        return row if row.is_effect else row._replace(letter=pack_message(row.letter, self.blocks))


def load_snapshot(
    cid: Cid, nodes: Nodes, budget: Budget, spill: Spill | None, keys: KeyRing | None = None
) -> Generator[Need, None, Ledger]:
    """The ledger a snapshot describes; reads roots and lists, not cells."""
    found = yield from fetch(nodes, (cid,))
    saved = _checked(cid, found[cid])
    ledger = Ledger(nodes, budget, spill, keys=keys or KeyRing())
    ledger.height, ledger.beat, ledger.now_ns = saved["height"], saved["beat"], saved["now_ns"]
    ledger.frame, ledger.paused = saved["frame"], saved["paused"]
    ledger.eras = [Era(link.cid, height) for link, height in saved["eras"]]
    for base, (link, count) in saved["modules"].items():
        ledger.add_module(base, link.cid, count)
    ledger.timers = open_index(saved["timers"], nodes, unpack_timer)
    ledger.stopped = open_index(saved["stopped"], nodes, unpack_stopped)
    ledger.dead_letters = open_index(saved["dead_letters"], nodes, unpack_letter)
    ledger.dedupe = yield from Dedupe.load(saved["dedupe"], nodes)
    book = ledger.book
    book.open = open_index(saved["intents"], nodes, unpack_intent)
    idempotency = saved["idempotency"] or {"ages": None, "keys": None}
    book.ages = open_index(idempotency["ages"], nodes, unpack_place)
    book.keys = open_index(idempotency["keys"], nodes, unpack_key)
    if saved["heartbeat"] is not None:
        heartbeat_part.load(ledger.open_heartbeat(), saved["heartbeat"], nodes)
    ledger.keys.allow(erasable=saved.get("erasable", False))
    fork = saved.get("fork")
    ledger.branch = load_branch(fork, open_index(fork and fork["answers"], nodes, unpack_answer))
    budgets = saved["budgets"]
    book.parked, book.timers = budgets["parked"], budgets["timers"]
    for name, part in lists.parts_of(saved):
        rows = yield from lists.read(name, part, nodes)
        lists.load(name, rows, ledger)
    return ledger


def _checked(cid: Cid, data: bytes) -> dict[str, Any]:
    try:
        saved: Any = decode(data)
    except CelluleError as error:
        raise Corrupted(
            "kernel.snapshot_damaged", "snapshot {cid}: {what}", cid=str(cid), what=str(error)
        ) from error
    if not isinstance(saved, dict) or "format" not in saved:
        raise Corrupted("kernel.snapshot_damaged", "{cid} is not a snapshot", cid=str(cid))
    check_not_newer("snapshot", cid, saved["format"], FORMAT_VERSION)
    if saved["format"] != FORMAT_VERSION:
        raise Corrupted(
            "kernel.snapshot_format", "snapshot {cid} has format {found}; this version reads format {known}",
            cid=str(cid), found=saved["format"], known=FORMAT_VERSION,
            hint="Open the world with the version of Cellule that wrote it, or a newer one.",
        )  # fmt: skip
    odd = sorted((set(saved) ^ _KEYS) - {"erasable", "fork", "moves"})
    if odd:
        raise Corrupted(
            "kernel.snapshot_damaged", "snapshot {cid} has missing or unknown fields: {what}",
            cid=str(cid), what=", ".join(odd),
        )  # fmt: skip
    wrong = wrong_part(saved) or (None if is_branch(saved.get("fork")) else "fork")
    wrong = wrong or (None if saved.get("erasable", True) is True else "erasable")
    if wrong is not None:
        _damaged(cid, f"{wrong} is not what it should be")
    return saved


def _damaged(cid: Cid, what: str) -> NoReturn:
    raise Corrupted("kernel.snapshot_damaged", "snapshot {cid}: {what}", cid=str(cid), what=what)
