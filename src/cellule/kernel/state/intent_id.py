"""What an intent is called: a hash of where it came from and what it asks.

The id is the digest of `{born, cell, effect, height, params, position, world}`; its text is the CID of
those bytes. Inside the kernel an open intent goes by the height of its Intent record, which is shorter and
in order.

Rejected: the CID as a link in records and receipts. Nothing is stored under it, and whatever walks links
would look for it.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from cellule.errors import Rejected
from cellule.values.cbor import encode, encode_flat
from cellule.values.cid import Cid, cid_of
from cellule.values.envelope import value_of
from cellule.values.link import Link

ID_BYTES = 32
KEY_BYTES = 16
_CID_HEAD = cid_of(b"")[:-ID_BYTES]


def intent_digest(
    world: bytes, base: str, key: bytes, born: int, height: int, position: int, kind: str, params: bytes
) -> bytes:
    """The id of the intent that the step at `height` asks for at `position`."""
    origin: dict[str, Any] = {
        "born": born, "cell": [base, key], "effect": kind, "height": height, "params": params,
        "position": position, "world": world,
    }  # fmt: skip
    return sha256(encode_flat(origin)).digest()


def dispatch_id(world: bytes, digest: bytes) -> bytes:
    """The id under which a fork dispatches an intent that another world made, which may dispatch it, too.

    The outside sees the intent's own id, as the idempotency key.
    """
    return sha256(b"fork" + world + digest).digest()


@lru_cache(maxsize=4_096)
def intent_text(digest: bytes) -> str:
    """The id of an intent as people and adapters see it; asked several times while one is under way."""
    return str(Cid(_CID_HEAD + digest))


def parse_intent(text: str) -> bytes:
    """The id that `intent_text` gave; `Rejected` where it is none."""
    return Cid.parse(text).digest


def intent_shown(intent: bytes) -> str:
    """The same for what is given as an id and may be anything."""
    return intent_text(intent) if len(intent) == ID_BYTES else repr(intent)[:80]


class Token(NamedTuple):
    """What a completion token says: the world, the height of the Intent record, and the intent's id."""

    world: bytes
    height: int
    intent: bytes


def intent_token(world: bytes, height: int, digest: bytes) -> str:
    """The text by which an intent is completed from outside: it holds for this intent of this world only."""
    return urlsafe_b64encode(world + height.to_bytes(8, "big") + digest).decode().rstrip("=")


def parse_token(text: object) -> Token:
    """What `intent_token` made a text of; `Rejected` where it is none."""
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4)) if isinstance(text, str) else b""
    except ValueError:
        data = b""
    if len(data) != 24 + ID_BYTES:
        raise Rejected(
            "effects.token", "{given} is no token of an effect", given=repr(text)[:100],
            hint="Give `attempt.token` as the adapter got it.",
        )  # fmt: skip
    return Token(data[:16], int.from_bytes(data[16:24], "big"), data[24:])


def idempotency_hash(base: str, kind: str, key: str) -> bytes:
    """How the world remembers an idempotency key that a module gave for one kind."""
    return sha256(encode([base, kind, key])).digest()[:KEY_BYTES]


def spender_hash(spender: Any) -> bytes:
    """How the world remembers for what a grant's budget counts: a cell, or a value of the params."""
    return sha256(encode(spender)).digest()[:KEY_BYTES]


def params_digest(stored: Any) -> bytes:
    """What tells the params of two requests with one idempotency key apart, from how a record stores them."""
    params = value_of(stored)
    digest = params.cid.digest if isinstance(params, Link) else sha256(params).digest()
    return digest[:KEY_BYTES]
