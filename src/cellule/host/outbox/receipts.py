"""A receipt on its way: the inbox item that settles an intent.

    {kind: "receipt", intent, height, status, value?, code?, text?, attempts, exhausted, by, mac, who?, why?}

It is made by the pool in the batch that clears the intent's row, or by a person (`inject.py`), then with who
and why. `by` and `mac` are the node's (`signing.py`); an item whose mac is wrong is refused by whoever reads
the inbox. Whether the intent is open and the value fits is decided in the beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from cellule.errors import Rejected
from cellule.host.outbox.signatures import NodeKey
from cellule.kernel.items import ReceiptItem
from cellule.kernel.state.intent_id import ID_BYTES
from cellule.values.envelope import check_envelope, open_envelope, seal
from cellule.values.link import Link

Rows = Sequence[tuple[bytes, ReceiptItem | None]]
"""Keys of inbox rows, each with its receipt if that takes no look elsewhere."""

KIND = "receipt"
STATUSES = frozenset(("ok", "failed", "timeout", "cancelled", "denied", "abandoned"))
_ON_THE_WAY = STATUSES | {"outside"}  # what an adapter may say
_REQUIRED = frozenset(("kind", "intent", "height", "status", "attempts", "exhausted", "by", "mac"))
_OPTIONAL = frozenset(("value", "code", "text", "who", "why"))


class Receipt(NamedTuple):
    """How an effect ended. A long value is a link; `exhausted` tells that all attempts were used up."""

    intent: bytes
    height: int
    status: str
    value: bytes | Link | None = None
    code: str = ""
    text: str = ""
    attempts: int = 0
    exhausted: bool = False
    who: str | None = None
    why: str | None = None
    by: str = ""


def receipt_item(key: NodeKey, universe: UUID, world: UUID, receipt: Receipt) -> dict[str, Any]:
    """A receipt as an inbox stores it, signed for this world."""
    return key.sign(universe, world, _fields(receipt))


def sealed_receipt(key: NodeKey, universe: UUID, world: UUID, receipt: Receipt) -> bytes:
    """The bytes of `receipt_item`."""
    return key.sealed(universe, world, _fields(receipt))


def _fields(receipt: Receipt) -> dict[str, Any]:
    intent, height, status, value, code, text, attempts, exhausted, who, why, _ = receipt
    item: dict[str, Any] = {
        "kind": KIND, "intent": intent, "height": height, "status": status, "attempts": attempts,
        "exhausted": exhausted,
    }  # fmt: skip
    if value is not None:
        item["value"] = value if isinstance(value, Link) else seal(value)
    if code:
        item["code"] = code
    if text:
        item["text"] = text
    if who is not None:
        item["who"] = who
    if why is not None:
        item["why"] = why
    return item


def read_receipt(item: Any) -> Receipt:
    """The receipt of a decoded inbox item; `Rejected` where it is none. The mac is not looked at here."""
    try:
        return _receipt(item)
    except (LookupError, TypeError, ValueError) as error:
        raise Rejected(
            "effects.receipt_item", "an inbox item is no receipt: {why}", why=error,
            hint="Receipts are made by a node or by `cellule receipt inject`.",
        ) from error  # fmt: skip


def trusted_receipt(item: dict[str, Any]) -> Receipt:
    """The receipt of an item whose mac is this node's: it was well formed when it was signed."""
    value = item.get("value")
    return Receipt(
        item["intent"], item["height"], item["status"], value[0] if type(value) is list else value,
        item.get("code", ""), item.get("text", ""), item["attempts"], item["exhausted"], item.get("who"),
        item.get("why"), item["by"],
    )  # fmt: skip


def inbox_item(receipt: Receipt, by: str, value: bytes | None) -> ReceiptItem:
    """A receipt as the kernel takes it: signed by the key of this id, its value at hand."""
    intent, height, status, _, code, text, attempts, exhausted, who, why, _ = receipt
    return ReceiptItem(intent, height, status, value, code, text, by, attempts, exhausted, who, why)


def _receipt(item: Any) -> Receipt:
    if not isinstance(item, dict) or not _REQUIRED <= set(item) <= _REQUIRED | _OPTIONAL:
        raise ValueError("its fields are not those of a receipt")
    receipt = Receipt(
        item["intent"], item["height"], item["status"], _value(item.get("value")), item.get("code", ""),
        item.get("text", ""), item["attempts"], item["exhausted"], item.get("who"), item.get("why"),
        item["by"],
    )  # fmt: skip
    if item["kind"] != KIND or receipt.status not in _ON_THE_WAY:
        raise ValueError(f"its status is {receipt.status!r}")
    intent: object = receipt.intent
    if not isinstance(intent, bytes) or len(intent) != ID_BYTES:
        raise ValueError("its intent is no id")
    for number in (receipt.height, receipt.attempts):
        if type(number) is not int or number < 0:
            raise TypeError(f"{number!r} is no count")
    for text in (receipt.code, receipt.text, receipt.by, receipt.who or "", receipt.why or ""):
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is no text")
    if type(receipt.exhausted) is not bool:
        raise TypeError("`exhausted` is neither true nor false")
    return receipt


def _value(value: Any) -> bytes | Link | None:
    if value is None or isinstance(value, Link):
        return value
    envelope = open_envelope(value)
    check_envelope(envelope)
    return envelope.data
