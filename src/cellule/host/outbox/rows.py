"""The rows of the outbox: one for every dispatched intent, written by the frame that holds it.

    effects/<shard>/<priority>/<ready_ns>/<intent>   {universe, world, intent: {height, kind, params, ...}}
    effects/at/<intent>                              the key of that row
    effects/cancel/<intent>                          <universe, world>: settled elsewhere, not to be performed

Row and `at` change in the same batches. Every change of a row moves it to a later `ready_ns` (it counts an
attempt, or keeps the progress of one that runs), or makes one that is not due yet due now (a person did
that), so a row's bytes never come back and whoever expects them cannot be mistaken.
`docs/formats/outbox.md` draws the values.
When rows are performed belongs to the pool; what a receipt looks like to `receipts.py`.

Rejected: the intent's id in the value too. A row is always found by its key, and both share one checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from cellule.errors import Corrupted, Rejected
from cellule.host.outbox.limits import PARAMS_INLINE_MAX
from cellule.kernel.items import Opening
from cellule.kernel.limits import GRANT_INLINE_MAX
from cellule.store import keys
from cellule.store.keys import SHARDS, Range
from cellule.store.tuples import unpack
from cellule.values.cbor import decode, encode, encode_flat
from cellule.values.cid import Cid, cid_of
from cellule.values.envelope import check_envelope, open_envelope, seal
from cellule.values.link import Link

_new = tuple.__new__  # a NamedTuple without its Python-level constructor
PRIORITY_MAX = 9
_REQUIRED = frozenset((
    "height", "kind", "params", "key", "timeout_ns", "attempts", "module", "cell", "born", "tried",
    "delay_ns",
))  # fmt: skip
_LATER = ("until_ns", "backoff_ns", "backoff_max_ns", "progress")  # left out where nothing is said
_OPTIONAL = frozenset(("grant", "error", *_LATER))


class Row(NamedTuple):
    """An intent in the outbox. `tried` counts finished attempts, `delay_ns` is the last pause drawn.

    Timeout and attempts are 0 where neither declaration nor request says them: then they are the adapter's.
    An attempt that fails after `until_ns` is the last. `progress` is the last that was reported.
    """

    universe: UUID
    world: UUID
    intent: bytes
    priority: int
    ready_ns: int
    height: int
    kind: str
    params: bytes | Link
    key: str
    timeout_ns: int
    attempts: int
    grant: Mapping[str, Any] | Link | None
    module: str
    cell: bytes
    born: int
    tried: int = 0
    delay_ns: int = 0
    error: str | None = None
    until_ns: int | None = None
    backoff_ns: int | None = None
    backoff_max_ns: int | None = None
    progress: bytes | None = None


class Stored(NamedTuple):
    """A row as the store holds it: its key and bytes, which a change of it expects, and its `at` key."""

    at: bytes
    value: bytes
    place: bytes
    row: Row


class Opened(NamedTuple):
    """What a frame's batch carries for its openings, and what the pool is handed when that is durable.

    `blocks` are long params, to be put like the blocks of the frame.
    """

    stored: Sequence[Stored]
    set: Mapping[bytes, bytes]
    blocks: Mapping[Cid, bytes]


def opening_rows(universe: UUID, world: UUID, openings: Iterable[Opening], now_ns: int) -> Opened:
    """The rows of intents that a frame of this time opens."""
    stored: list[Stored] = []
    rows: dict[bytes, bytes] = {}
    blocks: dict[Cid, bytes] = {}
    shard, owner = keys.shard_of(world), {"universe": universe.bytes, "world": world.bytes}
    keys_of: dict[int, Callable[[bytes], tuple[bytes, bytes]]] = {}  # by priority
    grants: dict[str, Mapping[str, Any] | Link] = {}  # as rows hold them, by name
    for opening in openings:
        (
            intent, height, kind, data, key, priority, timeout_ns, attempts, grant, module, cell, born,
            deadline_ns, backoff_ns, backoff_max_ns,
        ) = opening  # fmt: skip
        params: bytes | Link = data
        if len(data) > PARAMS_INLINE_MAX:
            cid = cid_of(data)
            blocks[cid] = data
            params = Link(cid)
        told: Mapping[str, Any] | Link | None = grant
        if grant is not None:
            if grant["name"] not in grants:
                grants[grant["name"]] = _held_grant(grant, blocks)
            told = grants[grant["name"]]
        row = _new(Row, (
            universe, world, intent, priority, now_ns, height, kind, params, key, timeout_ns, attempts, told,
            module, cell, born, 0, 0, None, now_ns + deadline_ns if deadline_ns else None, backoff_ns,
            backoff_max_ns, None,
        ))  # fmt: skip
        if priority not in keys_of:
            keys_of[priority] = keys.effect_keys(shard, priority, now_ns)
        at, place = keys_of[priority](intent)
        value = encode_flat({**owner, "intent": _fields(row)})
        stored.append(_new(Stored, (at, value, place, row)))
        rows[at] = value
        rows[place] = at
    return Opened(stored, rows, blocks)


def _held_grant(grant: Mapping[str, Any], blocks: dict[Cid, bytes]) -> Mapping[str, Any] | Link:
    """A grant as rows hold it; a long one is a block, which all of them share."""
    data = encode(dict(grant))
    if len(data) <= GRANT_INLINE_MAX:
        return grant
    cid = cid_of(data)
    blocks[cid] = data
    return Link(cid)


def closing_rows(universe: UUID, world: UUID, closed: Iterable[bytes]) -> dict[bytes, bytes]:
    """The markers of intents that a frame settles without their adapters."""
    marker = universe.bytes + world.bytes
    return {keys.effect_cancel(intent): marker for intent in closed}


def store_row(row: Row) -> Stored:
    """A row with its keys and value."""
    value = encode_flat({"universe": row.universe.bytes, "world": row.world.bytes, "intent": _fields(row)})
    at, place = keys.effect_keys(keys.shard_of(row.world), row.priority, row.ready_ns)(row.intent)
    return Stored(at, value, place, row)


def _fields(row: Row) -> dict[str, Any]:
    """What a row's value says of its intent: shallow, and without floats."""
    (
        _, _, _, _, _, height, kind, params, key, timeout_ns, attempts, grant, module, cell, born, tried,
        delay_ns, error, until_ns, backoff_ns, backoff_max_ns, progress,
    ) = row  # fmt: skip
    fields: dict[str, Any] = {
        "height": height, "kind": kind, "key": key, "timeout_ns": timeout_ns,
        "params": params if isinstance(params, Link) else seal(params), "attempts": attempts,
        "module": module, "cell": cell, "born": born, "tried": tried, "delay_ns": delay_ns,
    }  # fmt: skip
    if grant is not None:
        fields["grant"] = grant if isinstance(grant, Link) else dict(grant)
    if error is not None:
        fields["error"] = error
    if until_ns is not None:
        fields["until_ns"] = until_ns
    if backoff_ns is not None:
        fields["backoff_ns"] = backoff_ns
    if backoff_max_ns is not None:
        fields["backoff_max_ns"] = backoff_max_ns
    if progress is not None:
        fields["progress"] = progress
    return fields


def read_row(at: bytes, value: bytes) -> Stored:
    """The row of a key and its value; `Corrupted` where they are none."""
    try:
        row = _row(at, decode(value))
        return Stored(at, value, keys.effect_at(row.intent), row)
    except (Rejected, LookupError, TypeError, ValueError) as error:
        raise Corrupted(
            "effects.pool_row", "the outbox row {key} cannot be read: {why}", key=at, why=error,
            hint="Run `cellule effect repair`: it removes the row and writes it again from the world.",
        ) from error  # fmt: skip


def marker_ids(value: bytes) -> tuple[UUID, UUID] | None:
    """The universe and world of a marker, None where it is no marker of ours."""
    if len(value) != 32:
        return None
    return UUID(bytes=value[:16]), UUID(bytes=value[16:])


def rows_range() -> Range:
    """All rows of the outbox: by shard, then priority, then time."""
    return keys.effect_range(0, 0)[0], keys.effect_range(SHARDS - 1, PRIORITY_MAX)[1]


def shard_range(shard: int) -> Range:
    """All rows of one shard."""
    return keys.effect_range(shard, 0)[0], keys.effect_range(shard, PRIORITY_MAX)[1]


def place_range() -> Range:
    """All `at` rows."""
    return keys.effect_at(b"\0"), keys.effect_at(b"\xff" * keys.CID_BYTES_MAX)


def marker_range() -> Range:
    """All markers."""
    return keys.effect_cancel(b"\0"), keys.effect_cancel(b"\xff" * keys.CID_BYTES_MAX)


def place_of(at: bytes) -> tuple[int, int, int, bytes]:
    """Shard, priority, time and intent of a row's key; `Rejected` or `ValueError` where it is none."""
    match unpack(at):
        case ("effects", int(shard), int(priority), int(ready_ns), bytes(intent)):
            return shard, priority, ready_ns, intent
    raise ValueError(at.hex())


def intent_of(key: bytes) -> bytes:
    """The intent that an `at` key or a marker's key names."""
    intent = unpack(key)[-1]
    if not isinstance(intent, bytes):
        raise TypeError(intent)
    return intent


def _row(at: bytes, value: Any) -> Row:
    shard, priority, ready_ns, intent = place_of(at)
    if set(value) != {"universe", "world", "intent"}:
        raise ValueError(f"it has the fields {sorted(value)}")
    fields: Any = value["intent"]
    if not _REQUIRED <= set(fields) <= _REQUIRED | _OPTIONAL:
        raise ValueError(f"its intent has the fields {sorted(fields)}")
    row = Row(
        UUID(bytes=value["universe"]), UUID(bytes=value["world"]), intent, priority, ready_ns,
        fields["height"], fields["kind"], _params(fields["params"]), fields["key"], fields["timeout_ns"],
        fields["attempts"], fields.get("grant"), fields["module"], fields["cell"], fields["born"],
        fields["tried"], fields["delay_ns"], fields.get("error"), *(fields.get(name) for name in _LATER),
    )  # fmt: skip
    if keys.shard_of(row.world) != shard:
        raise ValueError(f"it stands in shard {shard}, not in that of its world")
    _check_types(row)
    return row


def _params(value: Any) -> bytes | Link:
    if isinstance(value, Link):
        return value
    envelope = open_envelope(value)
    check_envelope(envelope)
    return envelope.data


def _check_types(row: Row) -> None:
    for number in (row.height, row.timeout_ns, row.attempts, row.born, row.tried, row.delay_ns):
        if type(number) is not int or number < 0:
            raise TypeError(number)
    for span in (row.until_ns, row.backoff_ns, row.backoff_max_ns):
        if span is not None and (type(span) is not int or span < 0):
            raise TypeError(span)
    if not isinstance(row.progress, bytes | None):
        raise TypeError(row.progress)
    for text in (row.kind, row.key, row.module, row.error or ""):
        if not isinstance(text, str):
            raise TypeError(text)
    cell: object = row.cell
    if not isinstance(cell, bytes) or not isinstance(row.grant, dict | Link | None):
        raise TypeError(cell)
