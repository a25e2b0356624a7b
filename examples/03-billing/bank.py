"""What stands for a payment service, in this process: it books once for each idempotency key.

Cards that begin with `bad` are declined, those that begin with `slow` are told to come back later, once.
"""

from __future__ import annotations

from hashlib import sha256

BOOKED: dict[str, str] = {}  # charge ids by idempotency key
GIVEN_BACK: dict[str, int] = {}  # cents by charge and idempotency key
_KNOWN: set[str] = set()


class Declined(Exception):
    """The card was refused."""


class Busy(Exception):
    """Come back later."""


async def charge(key: str, card: str, cents: int) -> str:
    """Charge a card; the same key is booked once."""
    if card.startswith("bad"):
        raise Declined(f"card {card} was declined for {cents} cents")
    if card.startswith("slow") and key not in _KNOWN:
        _KNOWN.add(key)
        raise Busy("come back later")
    return BOOKED.setdefault(key, f"ch-{sha256(key.encode()).hexdigest()[:8]}")


async def refund(key: str, charge_id: str, cents: int) -> None:
    """Give money back; the same key is booked once."""
    GIVEN_BACK.setdefault(f"{charge_id} {key}", cents)
