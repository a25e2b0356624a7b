"""The records of the heartbeat: impulses, agendas, notes, the registry, bindings, and cells that are written.

As with those of `records.py`, whose table lists them.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from cellule.kernel.journal.fields import Bytes, Count, EventId, Flag, Name, Stored, StoredState, Text
from cellule.kernel.journal.heartbeat_fields import (
    AgendaLines,
    BoundHow,
    EntryMap,
    Failures,
    ImpulseKind,
    Numbers,
    PathOrNull,
    Tries,
)


class WriteExtras(TypedDict, total=False):
    """`size`: that of a state that is a link, so that a restore need not read it."""

    size: Count


class WriteRecord(NamedTuple):
    """A cell of the kernel's own, such as a node of the tree, has another state, or none.

    `prev` is the height of its Write before.
    """

    cause: int
    module: Name
    key: Bytes
    born: Count
    version: Count
    prev: Count
    state: StoredState
    extras: WriteExtras


class SignalExtras(TypedDict, total=False):
    """`kind`: what it is, unless somebody emitted it; `retries`: of each entry that had it, how often.

    `dedupe`: the id is remembered.
    """

    payload: Stored
    kind: ImpulseKind
    retries: Tries
    id: EventId
    dedupe: Flag


class SignalRecord(NamedTuple):
    """An impulse was queued for a beat, `depth` emits away from the outside."""

    cause: int
    signal: PathOrNull
    target: PathOrNull
    beat: Count
    depth: Count
    extras: SignalExtras


class AgendaExtras(TypedDict, total=False):
    """What else came of an impulse.

    `cycle`: its candidates run ahead of each other; `over`: how many there are, where they are too many;
    `dropped`: entries that a fatal one kept from running; `failed`: entries with the code and text of their
    failure; `exhausted`: entries that retried too often; `cell`: it went to a cell, by the record behind;
    `digest`: of all that the enzymes did.
    """

    payload: Stored
    kind: ImpulseKind
    cycle: Flag
    over: Count
    dropped: Numbers
    failed: Failures
    exhausted: Numbers
    cell: Flag
    digest: Bytes


class AgendaRecord(NamedTuple):
    """The impulse at `cause` was resolved, and these entries ran, in this order."""

    cause: int
    signal: PathOrNull
    target: PathOrNull
    lines: AgendaLines
    extras: AgendaExtras


class StageRecord(NamedTuple):
    """The note at the end of a beat: `promoted` impulses are queued for the next one."""

    cause: int
    promoted: Count


class EnzymeRecord(NamedTuple):
    """An entry of the registry: `entry` was registered under this number, or (null) removed."""

    cause: int
    number: Count
    entry: EntryMap


class BindingRecord(NamedTuple):
    """An enzyme's name was bound to a node of the tree, or a tombstone set."""

    cause: int
    path: Text
    name: Text
    how: BoundHow
