"""Stored states as callers get them: read by the schema they were written in, then upcast to the newest.

Everything that hands a state out comes through here: handles, lists, histories, the command line and
`testing.World`. A cell is upcast in the journal by its next step only, so a state may be several versions
old; whoever reads it must not see that. A state that no chain of upcasters leads to the newest schema (of a
pinned module, say) comes as plain values, as it was written.

Rejected: decoding with the newest class as it is. Bytes of another schema give wrong values, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial

from cellule.errors import Rejected, StepFailed
from cellule.host.codecs import WorldCodecs
from cellule.kernel.manifest import upcasts
from cellule.kernel.manifest.model import Manifest, Upcaster
from cellule.kernel.need import Need, Nodes
from cellule.kernel.program import Programs, StepFault
from cellule.kernel.whole_map import upcast_entries
from cellule.values.cid import Cid

Upcast = Callable[[bytes], bytes]
NODES_BYTES_MAX = 1_000_000  # of code that is kept while upcasters are loaded


class StateReader:
    """Reads states of one world; it remembers the upcasters it has loaded."""

    def __init__(self, programs: Programs) -> None:
        self.nodes = Nodes(NODES_BYTES_MAX)
        self._programs = programs
        self._ways: dict[tuple[Cid, Cid, str], list[Upcast] | None] = {}

    def read(
        self, types: WorldCodecs, base: str, written: Manifest, newest: Manifest, data: bytes
    ) -> Generator[Need, None, tuple[Manifest, bytes]]:
        """The newest manifest that a state can be read by, and its bytes in that manifest's schema.

        `written` is the manifest of the state's era. Raises `StepFailed` where an upcaster fails, and
        `Rejected` where it cannot be loaded.
        """
        for target in types.state_targets(newest):
            way = yield from self._way(types, base, written, target)
            if way is not None:
                return target, _along(way, base, written, target, data)
        return written, data

    def _way(
        self, types: WorldCodecs, base: str, written: Manifest, target: Manifest
    ) -> Generator[Need, None, list[Upcast] | None]:
        """The upcasters from one manifest's state to another's; None where no chain leads there."""
        key = (written.cid, target.cid, base)
        if key not in self._ways:
            chain, by_entry = _chain(base, written, target)
            self.nodes.pin(types.blocks if chain else {})
            way: list[Upcast] | None = None if chain is None else []
            for step in chain or ():
                function = yield from self._programs.upcaster(target, step, self.nodes)
                way.append(partial(upcast_entries, function=function) if by_entry else function)  # type: ignore[union-attr]
            self._ways[key] = way
        return self._ways[key]


def _chain(base: str, written: Manifest, target: Manifest) -> tuple[list[Upcaster] | None, bool]:
    """The upcasters between the states of two manifests, and whether they are for the values of a map."""
    old, new = written.modules.get(base), target.modules.get(base)
    if old is None or new is None:
        return None, False
    if old.state == new.state or written.cid == target.cid:
        return [], False
    ends = upcasts.state_ends(written, target, base)
    try:
        found = upcasts.path(target, ends.old, ends.new)
    except Rejected:  # two chains, of which a pinned module needs none
        return None, False
    return (None if found and new.log else found), ends.by_entry


def _along(way: list[Upcast], base: str, written: Manifest, target: Manifest, data: bytes) -> bytes:
    try:
        for function in way:
            data = function(data)
    except StepFault as fault:
        raise StepFailed(
            "host.state_upcast", "a state of {module} written as {old} cannot be read as {new}: {why}.",
            module=base, old=written.modules[base].state, new=target.modules[base].state, why=fault.text,
            hint="Correct the upcaster and deploy it. `cellule journal show` has the state as written.",
        ) from fault  # fmt: skip
    return data
