"""The entries of a workflow's log: what came to a run, in order, and what the run asked for in answer.

    ["start", run, now_ns, height, entropy, schema, value, [argument, ...]]   a run begins; the log's first
    ["event", now_ns, schema, value]                an event for the run, awaited or kept until it is
    ["receipt", now_ns, schema, value]              what came of an effect
    ["timer", now_ns, value]                        a timer fired
    ["call", now_ns, value]                         a call gets no answer, and why
    ["cancel", now_ns, why]                         somebody outside cancels the run
    ["ask", what, digest, place]                    a command: `what` in words, 8 bytes of SHA-256 of its
                                                    parameters, and the line of code it came from
    ["publish", value]                              what the run shows of itself from now on
    ["waits", [[what, since_ns, due_ns, place], ...]]    what it waits for, where that has changed; of a call
                                                    also its token
    ["end", now_ns, status, value | [code, text] | why]   completed, failed or cancelled; the log's last

The asks behind an input are those that it led to. A run that goes on anew (`ctx.again`) cuts the log, and so
does one that ends: then only `start`, `publish` and `end` are left, and the journal has the rest.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final, NamedTuple

from cellule.values.cbor import encode
from cellule.values.writer import LIST, head

START: Final = "start"
EVENT: Final = "event"
RECEIPT: Final = "receipt"
TIMER: Final = "timer"
CALL: Final = "call"
CANCEL: Final = "cancel"
ASK: Final = "ask"
PUBLISH: Final = "publish"
WAITS: Final = "waits"
END: Final = "end"

INPUTS: Final = frozenset((START, EVENT, RECEIPT, TIMER, CALL, CANCEL))

COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

_DIGEST_BYTES: Final = 8


class Ask(NamedTuple):
    """A command of a run."""

    what: str
    digest: bytes
    place: str

    @classmethod
    def of(cls, what: str, parameters: bytes, place: str) -> Ask:
        """A command by its parameters."""
        return cls(what, sha256(parameters).digest()[:_DIGEST_BYTES], place)

    def __str__(self) -> str:
        return f"{self.what} ({self.place})" if self.place else self.what

    def is_like(self, other: Ask) -> bool:
        """Whether both ask for the same thing, wherever in the code they stand."""
        return (self.what, self.digest) == (other.what, other.digest)


def entry(*parts: Any) -> bytes:
    """The bytes of one entry."""
    return encode(list(parts))


def entry_with(value: bytes, *parts: Any) -> bytes:
    """The bytes of an entry whose last part is canonical bytes already."""
    return head(LIST, len(parts) + 1) + b"".join(map(encode, parts)) + value


def joined(entries: list[bytes]) -> bytes:
    """Entries as the list that a step appends."""
    return head(LIST, len(entries)) + b"".join(entries)
