"""The real world that cases run in: a kernel with its journal in memory, restored from it after every beat.

One step of a case is one beat: what happens before the step are its items, and what came of it is read from
the records of its frame. The code of the enzymes is the case's: each is a module of its own, so a record of
the registry tells which enzyme of the case an entry is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cellule.kernel.items import Admitted, ControlItem, Item, Outcome, Verb
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import Record
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import Manifest, Module, Upcaster
from cellule.kernel.need import Need, Nodes
from cellule.kernel.program import EnzymeCall, EnzymeOutput, TreeView
from cellule.kernel.state.ledger import Ledger
from cellule.testing.memory_host import MemoryHost
from cellule.values.cid import Cid
from cellule.values.envelope import value_of

START_NS: Final = 1_700_000_000_000_000_000
BEAT_NS: Final = 1_000_000
WHO: Final = "vectors"

Run = Callable[[int, EnzymeCall], EnzymeOutput]
"""The code of all enzymes: the id of the one that is called, and the call."""


def module_of(enzyme: int) -> str:
    """The module of an enzyme of the case."""
    return f"vectors/Enzyme{enzyme}"


def enzyme_of(base: str) -> int:
    """The enzyme of a module."""
    return int(base.removeprefix("vectors/Enzyme"))


class Beaten(NamedTuple):
    """A beat that is over: what became of its items, and the records of its frame with their heights."""

    outcomes: Sequence[Outcome]
    records: Sequence[tuple[int, Record]]

    def of(self, kind: type[Any]) -> Iterable[tuple[int, Any]]:
        """The records of a kind."""
        return ((height, record) for height, record in self.records if isinstance(record, kind))


class CaseWorld:
    """One world for one case."""

    def __init__(self, enzymes: Iterable[int], run: Run) -> None:
        modules = {
            f"{module_of(each)}@1": {"style": "enzyme", "state": "sys/Value@1", "code": {"kind": "case"}}
            for each in enzymes
        }
        manifest = load_manifest({"modules": modules})
        blocks = {manifest.cid: manifest.data}
        self._host = MemoryHost(manifest, _Programs(run), blocks, seed=0, now_ns=START_NS, evict=True)
        self._host.start()
        self.next_beat = decode_frame(self._host.frames[-1]).header.beat + 1

    def step(self, items: Sequence[Item]) -> Beaten:
        """One beat, which counts whatever happens in it."""
        self._host.now_ns += BEAT_NS
        done = self._host.beat([*items, control("heartbeat.beat")])
        assert done.frame is not None
        self.next_beat += 1
        return Beaten(done.outcomes[: len(items)], list(decode_frame(done.frame).numbered()))

    def lose(self, items: Sequence[Item]) -> None:
        """The same beat, and the process dies before it is durable."""
        self._host.now_ns += BEAT_NS
        self._host.beat_lost([*items, control("heartbeat.beat")])
        self._host.now_ns -= BEAT_NS

    def ask(self, walk: Callable[[Ledger], Generator[Need, None, Any]]) -> Any:
        """Read what the world holds."""
        return self._host.ask(walk)

    def check(self) -> None:
        """Raise unless the journal restores to the same bytes, and the code gives the same again."""
        self._host.check_replays()

    def bytes_of(self, stored: Any) -> bytes:
        """The bytes of a value that a record holds or links."""
        value = value_of(stored)
        return value if isinstance(value, bytes) else self._host.cas[value.cid]


def control(verb: Verb, /, **arguments: Any) -> ControlItem:
    """A verb from outside."""
    return ControlItem(verb, WHO, "a case", arguments)


def is_done(outcome: Outcome) -> bool:
    """Tell whether an item was admitted."""
    return isinstance(outcome, Admitted)


def no_code(*_: Any) -> Any:
    """The code of a world without enzymes."""
    raise AssertionError("a case without enzymes runs none")


class _Programs:
    """The code of a case: every module runs it."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def check(self, code: Mapping[str, Any], what: str) -> None:
        """See `Programs.check`."""

    def pack(
        self, code: Mapping[str, Any], folder: str | None, what: str
    ) -> tuple[Mapping[str, Any], Mapping[Cid, bytes]]:
        """See `Programs.pack`."""
        return code, {}

    def program(self, manifest: Manifest, module: Module, nodes: Nodes) -> Generator[Need, None, Any]:
        """See `Programs.program`."""
        yield from ()
        return _Program(self._run, enzyme_of(module.base))

    def upcaster(
        self, manifest: Manifest, upcaster: Upcaster, nodes: Nodes
    ) -> Generator[Need, None, Callable[[bytes], bytes]]:
        """See `Programs.upcaster`; a case has none."""
        yield from ()
        raise AssertionError("a case has no upcasters")


class _Program:
    """The code of one enzyme."""

    def __init__(self, run: Run, enzyme: int) -> None:
        self._run, self._enzyme = run, enzyme

    def run(self, call: EnzymeCall, tree: TreeView) -> EnzymeOutput:
        """See `EnzymeProgram.run`."""
        return self._run(self._enzyme, call)
