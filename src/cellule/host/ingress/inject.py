"""A receipt given by a person: signed by the node, marked with who and why, put into the world's inbox.

The kernel settles the intent by it, like by any other, and the row goes by the marker which that frame sets.
"""

from __future__ import annotations

from uuid import UUID

from cellule.errors import Rejected
from cellule.host.inbox.inbox import enqueue
from cellule.host.outbox.limits import RECEIPT_INLINE_MAX
from cellule.host.outbox.receipts import STATUSES, Receipt, receipt_item
from cellule.host.outbox.signatures import NodeKey
from cellule.kernel.limits import RECEIPT_BYTES_MAX
from cellule.sources import Entropy
from cellule.store.cas import Cas
from cellule.store.engine import Engine
from cellule.values.link import Link


async def inject(
    engine: Engine, key: NodeKey, cas: Cas, world: UUID, receipt: Receipt, entropy: Entropy
) -> bytes:
    """Settle an intent by hand; durable when this returns. Returns the key of the inbox row.

    `receipt` needs who and why, and a value exactly if its status is ok.
    """
    _check(receipt)
    value = receipt.value
    if isinstance(value, bytes) and len(value) > RECEIPT_INLINE_MAX:
        receipt = receipt._replace(value=Link(await cas.put(value)))
    item = receipt_item(key, cas.universe, world, receipt)
    [row] = await enqueue(engine, cas.universe, world, [item], entropy.bytes(16), cas=cas)
    return row


def _check(receipt: Receipt) -> None:
    if receipt.status not in STATUSES:
        raise Rejected(
            "effects.inject_status", "{status} is no status of a receipt", status=receipt.status,
            hint=f"Use one of {', '.join(sorted(STATUSES))}.",
        )  # fmt: skip
    if not (receipt.who and receipt.why):
        raise Rejected(
            "effects.inject_unsigned", "a receipt given by hand says who gives it, and why",
            hint="Pass both: they are journaled.",
        )  # fmt: skip
    if (receipt.status == "ok") != (receipt.value is not None):
        raise Rejected(
            "effects.inject_value", "a receipt has a value exactly if its status is ok; this one is {status}",
            status=receipt.status,
        )  # fmt: skip
    if isinstance(receipt.value, bytes) and len(receipt.value) > RECEIPT_BYTES_MAX:
        raise Rejected(
            "effects.inject_size", "the value has {size} bytes; at most {most}",
            size=len(receipt.value), most=RECEIPT_BYTES_MAX, hint="Put large data into a blob.",
        )  # fmt: skip
