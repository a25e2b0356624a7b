"""The id of a message: the one the sender gave, or a digest of its sealed envelope, or a counter.

    explicit   as given; taken by an identical sealed envelope it is `reused`, taken otherwise it fails
    digest     `msg-` and the first 12 bytes of the digest in hex; taken by another message it gets the suffix
               -1, -2, -3, and the counter decides when those are taken, too
    counter    `msg-<n>`, per mailbox from 1, one further at every attempt

`collision` tells that an id that was tried first belonged to another message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

DIGEST_BYTES: Final = 12
DIGEST_SUFFIXES: Final = 3
COUNTER_ATTEMPTS_MAX: Final = 10_000
"""Ids in a row that the counter may find taken; then the message is refused, and the next begins behind."""

Mode = Literal["explicit", "digest", "counter", "reused"]


class Taken(NamedTuple):
    """An id that a message has; `digest` is that of its envelope, if that is sealed."""

    digest: bytes | None


class Selected(NamedTuple):
    """The id of a message, and how it was found; None: it is refused. `counter` is what the mailbox keeps."""

    id: str | None
    mode: Mode
    collision: bool
    counter: int


def select(
    explicit: str | None, digest: bytes | None, find: Callable[[str], Taken | None], counter: int
) -> Selected:
    """Find a message's id. `digest` is that of its envelope if it is sealed, `counter` the next number."""
    if explicit is not None:
        found = find(explicit)
        if found is None:
            return Selected(explicit, "explicit", False, counter)
        if _is_same(found, digest):
            return Selected(explicit, "reused", False, counter)
        return Selected(None, "explicit", True, counter)
    if digest is not None:
        selected = _by_digest(digest, find, counter)
        if selected is not None:
            return selected
    return _by_counter(find, counter)


def _by_digest(digest: bytes, find: Callable[[str], Taken | None], counter: int) -> Selected | None:
    stem = f"msg-{digest[:DIGEST_BYTES].hex()}"
    for suffix in range(DIGEST_SUFFIXES + 1):
        candidate = f"{stem}-{suffix}" if suffix else stem
        found = find(candidate)
        if found is None:
            return Selected(candidate, "digest", bool(suffix), counter)
        if _is_same(found, digest):
            return Selected(candidate, "reused", bool(suffix), counter)
    return None


def _by_counter(find: Callable[[str], Taken | None], counter: int) -> Selected:
    for number in range(counter, counter + COUNTER_ATTEMPTS_MAX):
        if find(f"msg-{number}") is None:
            return Selected(f"msg-{number}", "counter", number != counter, number + 1)
    return Selected(None, "counter", True, counter + COUNTER_ATTEMPTS_MAX)


def _is_same(found: Taken, digest: bytes | None) -> bool:
    return digest is not None and found.digest == digest
