"""A bare kernel world in memory: for tests of the kernel and of ways to write cells.

It plays the host: keeps frames and nodes in dicts, feeds the clock and entropy, brings the nodes the kernel
asks for. `assert_replays` is the master test: whatever was done, the journal restores to identical bytes,
from the baseline and from every snapshot taken, and verifies by running the steps again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cellule.kernel.index.chunk import LISTS
from cellule.kernel.index.live import Spill
from cellule.kernel.index.write import build
from cellule.kernel.items import Beat, ControlItem, EventItem, ForkItem, Item, Pace
from cellule.kernel.lineage import Lineage
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import Manifest, Module, Upcaster
from cellule.kernel.need import Need, Nodes, Pause, drive
from cellule.kernel.program import (
    Context,
    Emit,
    EnzymeCall,
    EnzymeOutput,
    Output,
    Program,
    Programs,
    StepFault,
    TreeView,
)
from cellule.kernel.prove.check import Position, check_frames, check_snapshot, reachable
from cellule.kernel.prove.verify import Difference, Verifier
from cellule.kernel.state.cells import Entry
from cellule.kernel.state.module_cells import Budget
from cellule.kernel.world import Opened, World
from cellule.testing.entropy import SeededEntropy
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid
from cellule.values.link import Link

START_NS = 1_700_000_000_000_000_000
BEATS_MAX = 100_000
FRAME_HEAD = 300  # bytes of a frame that are no record's

Step = Callable[[Any, str, Any, Context | None], Any]


@dataclass(frozen=True, slots=True)
class Did:
    """What a test's step answers: plain values, encoded by `FunctionPrograms`."""

    state: Any = None
    emit: Sequence[tuple[Any, ...]] = ()
    reply: Any = None
    ann: Any = None
    effects: Sequence[Any] = ()
    cancel: Sequence[str] = ()
    cut: bool = False


class FunctionPrograms:
    """Programs made of plain functions over decoded values, by the module's name or base."""

    def __init__(
        self, steps: Mapping[str, Step], upcasters: Mapping[tuple[str, str], Any] | None = None
    ) -> None:
        self.steps = dict(steps)
        self.upcasters = dict(upcasters or {})

    def check(self, code: Mapping[str, Any], what: str) -> None:
        """See `Programs.check`: plain functions need no code in the manifest."""

    def pack(
        self, code: Mapping[str, Any], folder: str | None, what: str
    ) -> tuple[Mapping[str, Any], Mapping[Cid, bytes]]:
        """See `Programs.pack`: there is nothing to pack."""
        return code, {}

    def program(self, manifest: Manifest, module: Module, nodes: Nodes) -> Generator[Need, None, Program]:
        """See `Programs.program`; needs no nodes."""
        yield from ()
        found = self.steps.get(module.name) or self.steps[module.base]
        return EnzymeFunction(found) if module.style == "enzyme" else FunctionProgram(found)

    def upcaster(
        self, manifest: Manifest, upcaster: Upcaster, nodes: Nodes
    ) -> Generator[Need, None, Callable[[bytes], bytes]]:
        """See `Programs.upcaster`; needs no nodes."""
        yield from ()
        function = self.upcasters[upcaster.old, upcaster.new]

        def upcast(data: bytes) -> bytes:
            try:
                return encode(function(decode(data)))
            except Exception as error:
                raise StepFault("testing.step_raised", f"{type(error).__name__}: {error}") from error

        return upcast


class FunctionProgram:
    """One plain function as a program."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def step(
        self, state: bytes | None, schema: str, value: bytes, key: bytes, context: Context | None
    ) -> Output:
        """See `Program.step`."""
        held = None if state is None else decode(state)
        try:
            did = self._step(held, schema, decode(value), context)
        except StepFault:
            raise
        except Exception as error:
            raise StepFault("testing.step_raised", f"{type(error).__name__}: {error}") from error
        if not isinstance(did, Did):
            did = Did(did)
        return Output(
            None if did.state is None else encode(did.state),
            [Emit(emit[0], encode(emit[1]), *emit[2:]) for emit in did.emit],
            did.effects,
            None if did.reply is None else encode(did.reply),
            None if did.ann is None else encode(did.ann),
            did.cancel,
            did.cut,
        )


class EnzymeFunction:
    """One plain function of a call and the tree as the program of an enzyme; it answers code and actions."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def run(self, call: EnzymeCall, tree: TreeView) -> EnzymeOutput:
        """See `EnzymeProgram.run`."""
        did = self._function(call, tree)
        if did is None:
            did = 0
        return EnzymeOutput(did, ()) if isinstance(did, int) else EnzymeOutput(*did)


class KernelWorld:
    """One kernel world and its host, in memory and in one thread."""

    def __init__(
        self, manifest: Mapping[str, Any] | bytes, programs: Programs, *, seed: int = 0,
        pace: Pace | None = None, budget: Budget | None = None, spill: Spill | None = None,
        world_id: UUID | None = None, fast: bool = True,
    ) -> None:  # fmt: skip
        self.programs = programs
        self.pace = pace
        self.budget = budget
        self.spill = spill
        self.fast = fast
        self.world_id = world_id or UUID(int=seed + 1)
        self.entropy = SeededEntropy(seed, "kernel world")
        self.now_ns = START_NS
        self.cas: dict[Cid, bytes] = {}
        self.frames: list[bytes] = []
        self.same_code = True  # set to False by a test that changes its steps on purpose
        self.snapshots: list[tuple[int, Cid, int]] = []  # height, root, frames before it
        loaded = load_manifest(manifest)
        self.cas[loaded.cid] = loaded.data
        self.world = World.create(
            loaded, self.world_id, self.now_ns, programs, pace=pace, budget=budget, spill=spill, fast=fast
        )
        self.lineage = Lineage(self.world_id)
        self.start = Position(0, None)
        self.baseline = self.snapshot()
        self.beat([World.started()])

    def fork(
        self, seed: int, effects: str = "drop", *, live: bool = False, answers: Mapping[bytes, Any] = {},
    ) -> KernelWorld:  # fmt: skip
        """A fork of the world as it is, with time and chance of its own, after its first beat."""
        child = copy(self)
        child.world_id, child.entropy = UUID(int=seed + 1), SeededEntropy(seed, "fork")
        child.lineage = self.lineage.child(child.world_id, self.world.ledger.height)
        child.cas, child.frames = dict(self.cas), []
        root, height = self.snapshot(), self.world.ledger.height
        child.cas.update(self.cas)
        child.start = Position(height, self.world.ledger.frame)
        child.snapshots = [(height, root, 0)]
        child.world = child.restored()
        made = build({key: list(answer) for key, answer in answers.items()}, LISTS) if answers else None
        given = None
        if made is not None and made.root is not None:
            child.cas.update(made.blocks)
            given = (made.root, len(answers))
        item = ForkItem(self.world_id.bytes, height, effects, live, "test", "because", given)
        child.first = child.beat([item], quiet=True)
        return child

    # Work

    def beat(self, items: Sequence[Item] = (), *, quiet: bool = False) -> Beat:
        """One beat, with the nodes it needs, kept if it wrote a frame."""
        answer = self.world.beat(items, self.now_ns, self.entropy.bytes(16), quiet=quiet)
        while isinstance(answer, Need):
            answer = self.world.resume(self.fetch(answer.cids))
        self.cas.update(answer.blocks)
        if answer.frame is not None:
            self.frames.append(answer.frame)
            counted = self.world.frame_size
            assert len(answer.frame) <= counted + FRAME_HEAD, f"{len(answer.frame)} bytes, {counted} counted"
        return answer

    def send(self, schema: str, value: Any, **options: Any) -> Beat:
        """Send one event in a beat of its own."""
        return self.beat([EventItem(schema, encode(value), **options)])

    def control(self, verb: Any, **arguments: Any) -> Beat:
        """One operator's verb in a beat of its own."""
        return self.beat([ControlItem(verb, "test", "because", arguments)])

    def deploy(self, manifest: Mapping[str, Any]) -> Beat:
        """Make another manifest the current era."""
        loaded = load_manifest(manifest)
        self.cas[loaded.cid] = loaded.data
        return self.control("deploy", manifest=Link(loaded.cid))

    def settle(self) -> list[Beat]:
        """Beat until the world has nothing more to do."""
        beats = [self.beat()]
        while beats[-1].more:
            beats.append(self.beat())
            if len(beats) > BEATS_MAX:
                raise AssertionError("the world does not come to rest")
        return beats

    def advance(self, ns: int) -> list[Beat]:
        """Let time pass, waking the world for every timer on the way."""
        until = self.now_ns + ns
        beats = self.settle()
        while beats[-1].wake is not None and beats[-1].wake <= until:
            self.now_ns = max(self.now_ns, beats[-1].wake)
            beats += self.settle()
        self.now_ns = until
        return beats

    def entry(self, base: str, key: bytes = b"") -> Entry | None:
        """A cell's entry as of the newest beat."""
        answer: Any = self.world.look(base, key)
        while isinstance(answer, Need):
            answer = self.world.resume(self.fetch(answer.cids))
        entry: Entry | None = answer
        return entry

    def state(self, base: str, key: bytes = b"") -> Any:
        """A cell's decoded state, or None."""
        entry = self.entry(base, key)
        return None if entry is None or not isinstance(entry.state, bytes) else decode(entry.state)

    # Snapshots and restore

    def snapshot(self, world: World | None = None) -> Cid:
        """Take a snapshot of this (or another) world, all slices at once."""
        live = world is None
        world = world or self.world
        job = world.snapshot()
        while True:
            answer = world.snapshot_slice()
            if isinstance(answer, Need):
                world.ledger.nodes.add(self.fetch(answer.cids))
            elif not isinstance(answer, Pause):
                break
        self.cas.update(job.blocks)
        job.saved()
        if live:
            self.snapshots.append((job.height, answer, len(self.frames)))
        return answer

    def restored(self, start: int = 0, frames: Iterable[bytes] | None = None, **options: Any) -> World:
        """A second world, restored from the snapshot of that position and the frames above it."""
        world, _ = self._restore(start, frames, None, **options)
        return world

    def _restore(
        self, start: int, frames: Iterable[bytes] | None, witness: Any, **options: Any
    ) -> tuple[World, Opened]:
        _, root, before = self.snapshots[start]
        options = {
            "pace": self.pace, "budget": self.budget, "spill": self.spill, "fast": self.fast,
            "lineage": self.lineage, **options,
        }  # fmt: skip
        restoring = World.restore(root, self.world_id, self.programs, **options)
        opened = drive(restoring.open(witness), restoring.nodes, self.fetch)
        for frame in self.frames[before:] if frames is None else frames:
            drive(opened.apply(frame), restoring.nodes, self.fetch)
        return drive(opened.world(), restoring.nodes, self.fetch), opened

    def verify(self, start: int = 0) -> Difference | None:
        """Run all recorded steps again; the first difference, or None."""
        verifier = Verifier()
        self._restore(start, None, verifier.witness)
        return verifier.difference

    def assert_replays(self) -> None:
        """The journal restores to identical bytes from everywhere, and verifies if the code is the same."""
        for _ in check_frames(self.frames, self.start):
            pass
        root = self.snapshot()
        for position in range(len(self.snapshots)):
            again = self.snapshot(self.restored(position))
            assert again == root, f"restored from snapshot {position}: {again} is not {root}"
        nodes = Nodes(0)
        drive(reachable([root], nodes), nodes, self.fetch)
        drive(check_snapshot(root, nodes), nodes, self.fetch)
        difference = self.verify() if self.same_code else None
        assert difference is None, str(difference)

    def fetch(self, cids: Iterable[Cid]) -> dict[Cid, bytes]:
        """The nodes of the CAS; one that is missing is left out."""
        return {cid: self.cas[cid] for cid in cids if cid in self.cas}
