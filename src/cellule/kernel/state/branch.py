"""What a forked world remembers of its fork: how it deals with the outside, and answers it was given.

    {height, effects, live, next, record, answers: [index root, count] or null}

`height` is where it was forked, `record` where its Fork record stands. Intents that were open there are dealt
with in order; `next` is the height of the first that is left, 0 once there is none. While it is not `live`,
external effects are held: listed, and not dispatched. `answers` (recorded or scripted) settle effects in
place of adapters, each once unless it says `always`:

    digest of (module, key, kind, params), 16 bytes | n, 8 bytes -> [status, value, code, text, always]

where null stands for any module and key, or any params. Of several that fit, the one that says most counts.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple

from cellule.errors import Corrupted, ensure
from cellule.kernel.index.ordered import OrderedIndex
from cellule.kernel.journal.codes import Settled
from cellule.kernel.need import Need, Nodes
from cellule.kernel.state.snapshot_schema import is_count, is_held
from cellule.values.cbor import encode
from cellule.values.cid import Cid

DROP: Final = "drop"
KEEP: Final = "keep"
RECORDED: Final = "recorded"
SCRIPTED: Final = "scripted"
EFFECTS: Final = (DROP, KEEP, RECORDED, SCRIPTED)
"""What may become of intents that are open at a fork."""

_PLACE_BYTES: Final = 16
ANSWER_KEY_BYTES: Final = _PLACE_BYTES + 8


class Answer(NamedTuple):
    """What settles an effect in place of its adapter; `value` as records hold it, or None."""

    status: int
    value: Any
    code: str
    text: str
    always: bool


class Branch:
    """The state of a fork."""

    __slots__ = ("answers", "effects", "height", "live", "next", "record")

    def __init__(
        self, height: int, effects: str, record: int, following: int, answers: OrderedIndex[Answer], *,
        live: bool,
    ) -> None:  # fmt: skip
        self.height = height
        self.effects = effects
        self.record = record
        self.next = following
        self.answers = answers
        self.live = live

    @property
    def passes(self) -> bool:
        """Tell whether all effects go out, as in a world that is no fork."""
        return self.live and self.answers.is_empty

    def go_live(self) -> None:
        """External effects are dispatched from now on; those that are held wait for their approval."""
        self.live = True

    def go_on(self, following: int) -> None:
        """What was open at the fork is dealt with up to a height, or all of it (0)."""
        is_onward = not following or 0 < self.next <= following
        ensure(is_onward, "kernel.fork_order", "a fork goes back to {height}", height=following)
        self.next = following

    def save(self) -> dict[str, Any]:
        """What a snapshot keeps, without the answers, which are an index of their own."""
        return {
            "height": self.height, "effects": self.effects, "live": self.live, "next": self.next,
            "record": self.record,
        }  # fmt: skip

    def find(
        self, base: str, key: bytes, kind: str, params: bytes
    ) -> Generator[Need, None, tuple[bytes, Answer] | None]:
        """The answer to a request, and its key; `params` is the digest of what it asks."""
        if self.answers.is_empty:
            return None
        for place in _places(base, key, kind, params):
            page = yield from self.answers.scan(place, place + b"\xff" * 9, 1)
            if page:
                return page[0]
        return None

    def take(self, key: bytes) -> Generator[Need, None, None]:
        """An answer was given."""
        answer = yield from self.answers.get(key)
        if answer is None:
            raise Corrupted("kernel.answer_missing", "the fork has no answer {key}", key=key.hex())
        if not answer.always:
            self.answers.remove(key)


def load_branch(saved: dict[str, Any] | None, answers: OrderedIndex[Answer]) -> Branch | None:
    """The state of a fork as a snapshot keeps it."""
    if saved is None:
        return None
    return Branch(
        saved["height"], saved["effects"], saved["record"], saved["next"], answers, live=saved["live"]
    )


def open_answers(given: tuple[Cid, int] | None, nodes: Nodes) -> OrderedIndex[Answer]:
    """The answers a fork was given, by the root and the count of their index."""
    if given is None:
        return OrderedIndex(None, nodes, unpack=unpack_answer)
    root, count = given
    return OrderedIndex(root, nodes, count=count, unpack=unpack_answer)


def answer_key(cell: tuple[str, bytes] | None, kind: str, params: bytes | None, number: int) -> bytes:
    """The key of the `number`-th answer for a cell (or any), a kind and the digest of params (or any)."""
    return _place(cell, kind, params) + number.to_bytes(8, "big")


def unpack_answer(value: Any) -> Answer:
    """The answer of a stored row; `Corrupted` where it is none."""
    if not is_answer(value):
        raise Corrupted(
            "kernel.answer_damaged", "an answer is not what it should be: {found}", found=repr(value)[:200]
        )
    return Answer(*value)


def is_answer(value: Any) -> bool:
    """Tell whether this is [status, value, code, text, always]."""
    return (
        isinstance(value, list) and len(value) == 5 and value[0] in _STATUSES
        and (value[1] is None or is_held(value[1])) and isinstance(value[2], str)
        and isinstance(value[3], str) and isinstance(value[4], bool)
    )  # fmt: skip


def is_branch(value: Any) -> bool:
    """Tell whether this is what a snapshot keeps of a fork, or null."""
    if value is None:
        return True
    return (
        isinstance(value, dict)
        and set(value) == {"answers", "effects", "height", "live", "next", "record"}
        and value["effects"] in EFFECTS
        and isinstance(value["live"], bool)
        and all(is_count(value[name]) for name in ("height", "next", "record"))
    )


_STATUSES: Final = frozenset(
    int(status) for status in (Settled.OK, Settled.FAILED, Settled.TIMEOUT, Settled.CANCELLED, Settled.DENIED)
)


def _places(base: str, key: bytes, kind: str, params: bytes) -> Iterator[bytes]:
    yield _place((base, key), kind, params)
    yield _place((base, key), kind, None)
    yield _place(None, kind, params)
    yield _place(None, kind, None)


def _place(cell: tuple[str, bytes] | None, kind: str, params: bytes | None) -> bytes:
    module, key = (None, None) if cell is None else cell
    return sha256(encode([module, key, kind, params])).digest()[:_PLACE_BYTES]
