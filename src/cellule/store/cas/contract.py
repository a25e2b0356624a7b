"""What the CAS promises, its limits, its results and its errors.

Bytes in, CID out, and the same bytes back or an error: `put` recomputes the CID and `get` verifies it,
whatever lies between. An object of one universe is not found from another; no error tells the difference
between that and an unknown CID. `docs/formats/cas.md` has the stored bytes and the collection protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cellule.errors import Corrupted, Rejected, Unavailable
from cellule.store.engine import Batch
from cellule.values.cid import Cid

CHUNK_BYTES = 65_536
INLINE_BYTES_ENGINE = 65_536
INLINE_BYTES_OBJECTS = 16_384
WHOLE_BYTES_MAX = 64_000_000
GROUP_BYTES_MAX = 3_500_000
"""Of objects in one batch; a renewal carries each row twice, as expected and as set."""
PARTS_BYTES_MAX = 2_000_000
"""Of blocks in the batch of another layer, which needs room for its own rows."""
GROUP_KEYS_MAX = 500
RENEWED_TOGETHER_MAX = 20
"""Objects whose rows are renewed in one batch; each carries its row twice, as expected and as set."""
CHUNKS_AT_ONCE = 16
TRANSFERS_MAX = 8
ATTEMPTS_MAX = 16
PAGE_LIMIT_MAX = 500
MISSED_PAUSES_S = (0.05, 0.2, 0.8)
"""Not every server shows at once a body it acknowledged; over a network it is looked for four times."""
OVERTAKEN_ROOT = "cas.overtaken_root"
GENERATION_MAX = (1 << 32) - 1
GENERATIONS_KEPT = 2
"""A sweep at generation G removes rows and bodies of G - 2 and before, never younger ones."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What stores blocks when it is added to another batch; on `Conflict` ask for new parts."""

    expect: Mapping[bytes, bytes | None]
    set: Mapping[bytes, bytes]

    def into(self, batch: Batch) -> Batch:
        """Return the batch with these parts."""
        return replace(batch, expect={**batch.expect, **self.expect}, set={**batch.set, **self.set})


NOTHING = Parts({}, {})


@dataclass(frozen=True, slots=True)
class Entry:
    """One object as a sweep sees it."""

    cid: Cid
    generation: int
    size: int = field(default=0, compare=False)  # of the object itself


@dataclass(frozen=True, slots=True)
class Orphan:
    """A body no row names, and none ever will; `object` is its name, or empty for chunks in the engine."""

    body: bytes
    object: str = ""


@dataclass(frozen=True, slots=True)
class OrphanPage:
    """Some orphans; `after` continues the listing, empty at its end. A page may be empty and not the last."""

    items: list[Orphan]
    after: str


def not_found(cid: bytes) -> Rejected:
    """Return the error of a CID that this universe does not hold."""
    return Rejected("cas.not_found", "there is no object {cid} in this universe", cid=str(cid))


def damaged(cid: bytes, reason: str) -> Corrupted:
    """Return the error of stored bytes that are not what their CID names."""
    return Corrupted(
        "cas.damaged", "the stored bytes of {cid} are not what was put: {reason}",
        cid=str(cid), reason=reason,
        hint="Restore the object store or database from a backup, or put the same bytes again elsewhere.",
    )  # fmt: skip


def contended(what: object) -> Unavailable:
    """Return the error of a call that lost too many races."""
    return Unavailable(
        "cas.contended",
        "the row of {what} changed {count} times underway",
        what=str(what),
        count=ATTEMPTS_MAX,
    )


def changed(cid: bytes) -> Unavailable:
    """Return the error of a stream whose object was removed and put again before its end."""
    return Unavailable(
        "cas.changed", "the object {cid} was removed and put again while it was read",
        cid=str(cid), hint="Read it again.",
    )  # fmt: skip


def overtaken(size: int) -> Unavailable:
    """Return the error of a stream that took longer than two collection generations."""
    return Unavailable(
        "cas.overtaken", "a stream of {size} bytes took longer than two collection generations",
        size=size, hint="Send it again, or collect less often.",
    )  # fmt: skip


def late_root(since: int, now: int) -> Unavailable:
    """Return the error of a writer whose objects may be collected before it roots them."""
    return Unavailable(
        "cas.overtaken_root",
        "objects put since generation {since} are not rooted in generation {now}, two collections later",
        since=since, now=now, hint="Do it again.",
    )  # fmt: skip


def too_large(size: int) -> Rejected:
    """Return the error of a body that is not handled as a whole."""
    return Rejected(
        "cas.too_large", "{size} bytes or more are too many for one call; at most {most}",
        size=size, most=WHOLE_BYTES_MAX, hint="Use put_stream, and stream or open_verified.",
    )  # fmt: skip
