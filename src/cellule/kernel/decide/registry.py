"""Entries come into the registry: from the manifest, from a person, from an enzyme.

The entries of a manifest are registered when the world is made or deployed to: those that it has no more are
removed, those that are new come behind all others, and what is the same keeps its number.
"""

from __future__ import annotations

from collections.abc import Generator

from cellule.errors import Rejected
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.heartbeat.entries import FROM_MANIFEST, Entry, check_size, parse_entry
from cellule.kernel.journal.heartbeat_records import (
    EnzymeRecord,
)
from cellule.kernel.limits import REGISTRY_MAX
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.need import Need

_PAGE = 1_000


def manifest_entries(manifest: Manifest) -> list[Entry]:
    """The entries of a manifest; refused where one describes none."""
    return [parse_entry(0, {**each, "from": FROM_MANIFEST}) for each in manifest.enzymes]


def check_entries(manifest: Manifest) -> None:
    """Refuse a manifest that is new and has an entry too long to stand among others."""
    for entry in manifest_entries(manifest):
        check_size(entry)


def add_entry(context: BeatContext, cause: int, entry: Entry) -> Generator[Need, None, int]:
    """Register an entry; returns its number."""
    yield from ()
    heartbeat = context.ledger.open_heartbeat()
    check_room(context)
    number = heartbeat.numbers
    data = entry.as_data()
    context.writer.add(EnzymeRecord(cause, number, data))
    heartbeat.register(number, entry._replace(number=number))
    return number


def check_room(context: BeatContext) -> None:
    """Refuse an entry of a world that has given all its numbers."""
    heartbeat = context.ledger.heartbeat
    if heartbeat is not None and heartbeat.numbers >= REGISTRY_MAX:
        raise Rejected(
            "heartbeat.registry_full", "{most} enzymes were registered in this world", most=REGISTRY_MAX
        )


def remove_entry(context: BeatContext, cause: int, entry: Entry) -> None:
    """Remove an entry."""
    context.writer.add(EnzymeRecord(cause, entry.number, None))
    context.ledger.open_heartbeat().unregister(entry.number, entry)


def align(context: BeatContext, cause: int) -> Generator[Need, None, None]:
    """Have the registry say what the manifest does."""
    wanted = manifest_entries(context.eras.current.manifest)
    heartbeat = context.ledger.heartbeat
    begin = 0
    while heartbeat is not None:
        page = yield from heartbeat.entries(begin, _PAGE)
        for entry in page:
            begin = entry.number + 1
            if entry.origin != FROM_MANIFEST:
                continue
            same = entry._replace(number=0)
            if same in wanted:
                wanted.remove(same)
            else:
                remove_entry(context, cause, entry)
        if len(page) < _PAGE:
            break
    for entry in wanted:
        yield from add_entry(context, cause, entry)
