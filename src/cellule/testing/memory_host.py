"""The host behind `testing.World`: one kernel world with its journal and CAS in memory, in one thread.

It brings nodes, keeps frames, takes snapshots and restores; it can forget all memory after each beat, and can
die with or without losing the beat under way. `check_replays` is the master test: the journal restores to
identical bytes from everywhere, and running the code again says the same. What records mean to an author is
not known here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar
from uuid import UUID

from cellule.errors import Gone, InvariantBroken, StepFailed
from cellule.kernel.index.keys import pair_of
from cellule.kernel.items import Beat, ForkItem, Item
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.key_ring import KeyRing, KeyRow
from cellule.kernel.lineage import Lineage
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.need import Need, Nodes, Pause, drive
from cellule.kernel.program import Programs
from cellule.kernel.prove.check import Position, check_frames, check_snapshot, reachable
from cellule.kernel.prove.verify import Verifier
from cellule.kernel.state.cell_pages import page_of_cells
from cellule.kernel.state.cells import Entry
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.log_state import opened as opened_log
from cellule.kernel.state.rows import DeadLetter, OpenIntent
from cellule.kernel.state.wait_reasons import Reason, reasons_in
from cellule.kernel.world import World as Kernel
from cellule.testing.entropy import SeededEntropy
from cellule.testing.other_process import OtherProcess
from cellule.values.cid import Cid
from cellule.values.sealed_value import HEAD, is_sealed
from cellule.values.writer import LIST

T = TypeVar("T")
SNAPSHOTS_KEPT_MAX = 8
BEATS_MAX = 100_000
INTENTS_PAGE = 1_000
CELLS_PAGE = 1_000
LETTERS_MAX = 10_000  # dead letters that a test sees


class MemoryHost:
    """One world: `frames` is its journal, `cas` its nodes, `now_ns` its clock."""

    def __init__(
        self, manifest: Manifest, programs: Programs, blocks: Mapping[Cid, bytes], *, seed: int, now_ns: int,
        evict: bool = False,
    ) -> None:  # fmt: skip
        self.now_ns = now_ns
        self.frames: list[bytes] = []
        self.cas: dict[Cid, bytes] = dict(blocks)
        self.world_id = UUID(int=seed + 1)
        self.lineage = Lineage(self.world_id)
        self.programs = programs
        self._evicts = evict
        self._entropy = SeededEntropy(seed, "world")
        self._snapshots: list[tuple[Cid, int]] = []  # root, and how many frames were before it
        self.keys: dict[bytes, KeyRow] = {}  # of all worlds that come of this one
        self._drawn = SeededEntropy(seed, "keys")
        self._kernel = Kernel.create(manifest, self.world_id, now_ns, programs, keys=self._ring())
        self.snapshot()

    def start(self) -> None:
        """The first beat of a new world."""
        self.beat([Kernel.started()])
        self.settle()

    def place_at(self, at: int | None) -> tuple[int, int]:
        """The last whole beat at or below a height, or the newest: its height, and how many frames to it."""
        if at is None:
            return self._kernel.ledger.height, len(self.frames)
        lasts = [decode_frame(frame, lazy=True).header.last for frame in self.frames]
        before = bisect_right(lasts, at)
        return lasts[before - 1] if before else 0, before

    def fork(self, seed: int, height: int, before: int, item: ForkItem) -> MemoryHost:
        """A world that begins as this one was after so many frames; `item` is its first."""
        child = copy(self)
        child.become_fork(seed, height, before)
        child.beat([item], quiet=True)
        return child

    def become_fork(self, seed: int, height: int, before: int) -> None:
        """Go on as a world of its own, after so many frames of the one it is a copy of."""
        self.world_id, self._entropy = UUID(int=seed), SeededEntropy(seed, "fork")
        self.lineage = self.lineage.child(self.world_id, height)
        is_past = before < len(self.frames)
        self.frames, self.cas = self.frames[:before], dict(self.cas)
        self._snapshots = [each for each in self._snapshots if each[1] <= before]
        self._kernel = self._restored(-1)
        if is_past:
            self.now_ns = self._kernel.ledger.now_ns

    # Work

    def beat(self, items: Sequence[Item] = (), *, quiet: bool = False) -> Beat:
        """One beat, kept if it wrote a frame."""
        done = self._beat(items, quiet=quiet)
        self.cas.update(done.blocks)
        if done.frame is not None:
            self.frames.append(done.frame)
            if done.keys is not None:
                self.keys.update(done.keys.rows)
                done.keys.saved()
        if self._evicts and done.frame is not None:
            self.snapshot()
            self.restart()
        return done

    def beat_lost(self, items: Sequence[Item] = ()) -> None:
        """A beat whose frame never became durable: the process dies, and nothing of it is left."""
        self._beat(items)
        self.restart()

    def settle(self, *, beats_max: int | None = None) -> None:
        """Beat until the world has nothing more to do."""
        beats_max = BEATS_MAX if beats_max is None else beats_max
        for _ in range(beats_max):
            if not self.beat().more:
                return
        raise _never_rests(beats_max)

    def open_intents(self) -> list[tuple[bytes, OpenIntent]]:
        """The rows of all open intents, oldest first."""
        ledger = self._kernel.ledger
        rows: list[tuple[bytes, OpenIntent]] = []
        begin = b""
        while True:
            page = drive(ledger.book.open.scan(begin, None, INTENTS_PAGE), ledger.nodes, self.fetch)
            rows += page
            if len(page) < INTENTS_PAGE:
                return rows
            begin = page[-1][0] + b"\0"

    def advance(self, ns: int) -> None:
        """Let time pass, waking the world for every timer on the way."""
        until = self.now_ns + ns
        for _ in range(BEATS_MAX):
            done = self.beat()
            if done.more:
                continue
            if done.wake is None or done.wake > until:
                break
            self.now_ns = max(self.now_ns, done.wake)
        else:
            raise _never_rests(BEATS_MAX)
        self.now_ns = until
        self.settle()

    def look(self, base: str, key: bytes) -> Entry | None:
        """A cell's entry as of the newest beat."""
        answer: Any = self._kernel.look(base, key)
        while isinstance(answer, Need):
            answer = self._kernel.resume(self.fetch(answer.cids))
        entry: Entry | None = answer
        return entry

    def cells(self, base: str, begin: bytes = b"", end: bytes | None = None) -> list[tuple[bytes, Entry]]:
        """A module's cells with keys of `[begin, end)`, as of the newest beat, in the order of their keys."""
        ledger = self._kernel.ledger
        found: list[tuple[bytes, Entry]] = []
        following: bytes | None = begin
        while following is not None:
            walk = page_of_cells(ledger, base, following, end, CELLS_PAGE, with_states=False)
            entries, following = drive(walk, ledger.nodes, self.fetch)
            found += entries
        return found

    def ask(self, walk: Callable[[Ledger], Generator[Need, None, T]]) -> T:
        """What a walk over the world's state finds, as of the newest beat."""
        ledger = self._kernel.ledger
        return drive(walk(ledger), ledger.nodes, self.fetch)

    def reasons(self, base: str, key: bytes) -> tuple[Reason, ...]:
        """What a cell waits for; nothing where there is none."""
        ledger = self._kernel.ledger
        return drive(reasons_in(ledger, base, key), ledger.nodes, self.fetch) or ()

    def letters(self) -> list[tuple[int, DeadLetter]]:
        """The dead letters, oldest first, with their heights."""
        ledger = self._kernel.ledger
        rows = drive(ledger.dead_letters.scan(b"", None, LETTERS_MAX), ledger.nodes, self.fetch)
        return [(pair_of(key)[0], letter) for key, letter in rows]

    def _beat(self, items: Sequence[Item], *, quiet: bool = False) -> Beat:
        answer = self._kernel.beat(items, self.now_ns, self._entropy.bytes(16), quiet=quiet)
        while isinstance(answer, Need):
            answer = self._kernel.resume(self.fetch(answer.cids))
        return answer

    # Snapshots and restore

    def snapshot(self) -> Cid:
        """Take a snapshot; the oldest and the newest few are kept."""
        root = self._snapshot_of(self._kernel)
        self._snapshots.append((root, len(self.frames)))
        del self._snapshots[1 : 1 - SNAPSHOTS_KEPT_MAX]
        return root

    def restart(self, at: int = -1) -> None:
        """Drop the world in memory and restore it, from the snapshot at that position and later frames."""
        self._kernel.eras.forget()
        self._kernel = self._restored(at)

    @property
    def snapshots_kept(self) -> int:
        """How many snapshots there are to restart from."""
        return len(self._snapshots)

    def check_replays(self) -> None:
        """Raise unless every snapshot leads to the same bytes, and every step to the same result."""
        for _ in check_frames(self.frames, Position(0, None)):
            pass
        root = self.snapshot()
        for at in range(len(self._snapshots)):
            again = self._snapshot_of(self._restored(at))
            if again != root:
                raise InvariantBroken(
                    "testing.replay_differs", "restored from snapshot {at} the world is {again}, not {root}",
                    at=at, again=str(again), root=str(root),
                )  # fmt: skip
        nodes = Nodes(0)
        drive(reachable([root], nodes, set()), nodes, self.fetch)
        drive(check_snapshot(root, nodes), nodes, self.fetch)
        self._check_steps()

    def check_elsewhere(self, process: OtherProcess) -> None:
        """Raise unless every step has the same result in another process, too."""
        process.verify(self.lineage, self._snapshots[0][0], self.frames, self.fetch)

    def _check_steps(self) -> None:
        verifier = Verifier()
        self._restored(0, verifier)
        if verifier.difference is not None:
            raise StepFailed(
                "testing.not_repeatable", "a step did something else when it ran again: {difference}.",
                difference=verifier.difference,
                hint="All that a step uses must come from its state, its event and ctx: look for globals, "
                "caches, and objects that steps share.",
            )  # fmt: skip

    def _ring(self) -> KeyRing:
        return KeyRing(lambda: self._drawn.bytes(32), lambda each: self.keys.get(each, KeyRow()))

    def _restored(self, at: int, verifier: Verifier | None = None) -> Kernel:
        root, before = self._snapshots[at]
        restoring = Kernel.restore(
            root, self.world_id, self.programs, lineage=self.lineage, keys=self._ring()
        )
        opening = restoring.open(None if verifier is None else verifier.witness)
        opened = drive(opening, restoring.nodes, self.fetch)
        for frame in self.frames[before:]:
            drive(opened.apply(frame), restoring.nodes, self.fetch)
        return drive(opened.world(), restoring.nodes, self.fetch)

    def _snapshot_of(self, kernel: Kernel) -> Cid:
        job = kernel.snapshot()
        while True:
            answer = kernel.snapshot_slice()
            if isinstance(answer, Need):
                kernel.ledger.nodes.add(self.fetch(answer.cids))
            elif not isinstance(answer, Pause):
                break
        self.cas.update(job.blocks)
        job.saved()
        return answer

    def opened(self, data: bytes) -> bytes:
        """What a sealed value hides, also in a log; it stays sealed where nobody can read it."""
        try:
            if is_sealed(data) or HEAD not in data or data[0] & 0xE0 != LIST:
                return drive(self._ring().opened(data), Nodes(0), self.fetch)
            return drive(opened_log(data, self._ring()), Nodes(0), self.fetch)
        except Gone:
            return data if is_sealed(data) else data[data.index(HEAD) :]

    def fetch(self, cids: Iterable[Cid]) -> dict[Cid, bytes]:
        """The nodes of the CAS; one that is missing is left out."""
        return {cid: self.cas[cid] for cid in cids if cid in self.cas}


def _never_rests(beats: int) -> StepFailed:
    return StepFailed(
        "testing.never_rests", "the world was still busy after {beats} beats.", beats=beats,
        hint="Two reducers probably answer each other's events for ever: look at world.emitted.",
    )  # fmt: skip
