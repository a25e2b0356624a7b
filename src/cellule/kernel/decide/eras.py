"""The era table at work: each era's manifest, router and loaded programs.

The table itself (`ledger.eras`) is state; what is compiled from it here is a cache that can be rebuilt at
any time from the CAS. Old eras are compiled only when a pinned cell still runs under one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

from cellule.errors import CelluleError, Corrupted, Rejected
from cellule.kernel.heartbeat.entries import parse_entry
from cellule.kernel.limits import GRANT_INLINE_MAX
from cellule.kernel.manifest import upcasts
from cellule.kernel.manifest.event_routes import Targets
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import Manifest, Module, Rule, Upcaster
from cellule.kernel.manifest.policies import compile_rule
from cellule.kernel.manifest.routes import Router
from cellule.kernel.need import Need, Nodes, fetch
from cellule.kernel.program import CODE_UNAVAILABLE, Program, Programs, StepFault, fault_of, forget_kept
from cellule.kernel.programs import check_code
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.whole_map import upcast_entries
from cellule.values.cbor import encode
from cellule.values.cid import CID_BYTES, Cid
from cellule.values.expressions import Expression
from cellule.values.schema.codec import WireCodec, wire_codec
from cellule.values.schema.types import Ref

T = TypeVar("T")


class CodeUnavailable(Exception):
    """Code that is in the manifest and not to be had here and now: nobody's step has failed."""


class Compiled:
    """One era, ready to run."""

    def __init__(self, number: int, manifest: Manifest) -> None:
        self.number = number
        self.manifest = manifest
        self.router = Router(manifest)
        self.programs: dict[str, Program] = {}
        self.upcasters: dict[tuple[str, str], Callable[[bytes], bytes]] = {}
        self.older = upcasts.older_events(manifest)
        self.is_prepared = not self.older
        self._codecs: dict[str, WireCodec] = {}
        self._policy: list[tuple[Rule, Expression]] | None = None
        self._grants: dict[str, tuple[Mapping[str, Any], int]] = {}

    def fits(self, schema: str) -> WireCodec:
        """What proves that bytes are a value of a schema."""
        codec = self._codecs.get(schema)
        if codec is None:
            codec = self._codecs[schema] = wire_codec(Ref(schema), self.manifest.schemas)
        return codec

    def targets_of_older(self, schema: str, value: bytes, key: bytes | None) -> Targets:
        """The cells that an event of an older version goes to: those that its newer version goes to.

        Raises `StepFault` where the upcasters cannot run; the value stays as it was sent.
        """
        chain = self.older[schema]
        for step in chain:
            function = self.upcasters.get((step.old, step.new))
            if function is None:
                text = f"the upcaster from {step.old} to {step.new} cannot be loaded"
                raise StepFault(CODE_UNAVAILABLE, text)
            try:
                value = function(value)
            except BaseException as error:
                raise fault_of(error) from error
        return self.router.targets(chain[-1].new, value, key)

    def grant(self, name: str) -> tuple[Mapping[str, Any] | None, int]:
        """What a grant says to adapters, and what that takes in a row; None where there is none."""
        known = self._grants.get(name)
        if known is None:
            grant = self.manifest.grants.get(name)
            if grant is None:
                return None, 0
            data = grant.as_data()
            size = len(encode(data))
            known = self._grants[name] = data, size if size <= GRANT_INLINE_MAX else CID_BYTES
        return known

    def policy(self) -> list[tuple[Rule, Expression]]:
        """The rules of the policy with their compiled conditions."""
        if self._policy is None:
            self._policy = [(rule, compile_rule(rule.when)) for rule in self.manifest.policy.rules]
        return self._policy


class Eras:
    """Compiles eras on demand; `current` is the one that routes."""

    def __init__(self, ledger: Ledger, nodes: Nodes, programs: Programs) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._programs = programs
        self._compiled: dict[int, Compiled] = {}
        self.current: Compiled
        self.is_aligned = False  # the schedules of the current manifest are armed

    def is_open(self) -> bool:
        """Tell whether an era has been compiled to route by."""
        return bool(self._compiled)

    def open(self) -> Generator[Need, None, None]:
        """Compile the newest era of the table."""
        self.current = yield from self.era(len(self._ledger.eras) - 1)

    def era(self, number: int) -> Generator[Need, None, Compiled]:
        """The era of that number."""
        compiled = self._compiled.get(number)
        if compiled is not None:
            return compiled
        if not 0 <= number < len(self._ledger.eras):
            raise Corrupted(
                "kernel.era_unknown", "era {era} is not in the world's table of {count}",
                era=number, count=len(self._ledger.eras),
            )  # fmt: skip
        manifest = yield from self.manifest(self._ledger.eras[number].manifest)
        compiled = self._compiled[number] = Compiled(number, manifest)
        return compiled

    def manifest(self, cid: Cid) -> Generator[Need, None, Manifest]:
        """Read and validate a manifest from the CAS."""
        found = yield from fetch(self._nodes, (cid,))
        return load_manifest(found[cid])

    def begin(self, manifest: Manifest, height: int) -> int:
        """Make `manifest` the current era, since the record at `height`; returns its number."""
        number = len(self._ledger.eras)
        self._ledger.begin_era(manifest.cid, height)
        self.is_aligned = False
        self.current = self._compiled[number] = Compiled(number, manifest)
        return number

    def check_code(self, manifest: Manifest) -> None:
        """Refuse a manifest with code that can never run here, or an enzyme that is none."""
        check_code(manifest, self._programs)
        for each in manifest.enzymes:
            parse_entry(0, each)

    def program(self, era: Compiled, module: Module) -> Generator[Need, None, Program]:
        """The program of a module in an era, loaded once; raises `CodeUnavailable`."""
        program = era.programs.get(module.base)
        if program is None:
            program = yield from _loaded(self._programs.program(era.manifest, module, self._nodes))
            era.programs[module.base] = program
        return program

    def prepare(self) -> Generator[Need, None, None]:
        """Load the upcasters of events that may still come in older versions."""
        era = self.current
        era.is_prepared = True
        for chain in era.older.values():
            for step in chain:
                try:
                    yield from self._upcaster(era, step)
                except CodeUnavailable:
                    continue  # whoever sends such an event is told

    def forget(self, world: bytes | None = None) -> None:
        """Let no program keep anything of its earlier steps; or of those of one world that leaves memory."""
        for era in self._compiled.values():
            for program in era.programs.values():
                forget_kept(program, world)

    def upcast(
        self, era: Compiled, chain: list[Upcaster], data: bytes, *, by_entry: bool = False
    ) -> Generator[Need, None, bytes]:
        """Run a value, or each value of a map, through a chain of upcasters; raises `CodeUnavailable`."""
        for step in chain:
            function = yield from self._upcaster(era, step)
            try:
                data = upcast_entries(data, function) if by_entry else function(data)
            except BaseException as error:
                raise fault_of(error) from error
        return data

    def _upcaster(self, era: Compiled, step: Upcaster) -> Generator[Need, None, Callable[[bytes], bytes]]:
        function = era.upcasters.get((step.old, step.new))
        if function is None:
            function = yield from _loaded(self._programs.upcaster(era.manifest, step, self._nodes))
            era.upcasters[step.old, step.new] = function
        return function


def _loaded(loading: Generator[Need, None, T]) -> Generator[Need, None, T]:
    try:
        return (yield from loading)
    except Rejected as error:
        raise CodeUnavailable(str(error)) from error
    except (CelluleError, GeneratorExit):  # the latter: the beat itself is given up
        raise
    except BaseException as error:
        raise CodeUnavailable(fault_of(error).text) from error
