"""Effects of a fork that are settled by its answers, recorded or scripted, and reach no adapter.

An answer is proven like a receipt of an adapter: one that does not fit settles its intent as failed.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.intents import settle as settling
from cellule.kernel.items import ReceiptItem
from cellule.kernel.journal.codes import Settled
from cellule.kernel.need import Need
from cellule.kernel.state.branch import Answer
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.intent_id import params_digest
from cellule.kernel.state.rows import OpenIntent

Found = tuple[bytes, Answer]
"""An answer, and its key."""


def find(
    context: BeatContext, base: str, key: bytes, kind: str, params: Any
) -> Generator[Need, None, Found | None]:
    """The fork's answer to a request, `params` as its record stores them; None where there is none."""
    branch = context.ledger.branch
    assert branch is not None
    return (yield from branch.find(base, key, kind, params_digest(params)))


def give(
    context: BeatContext, slot: Slot, height: int, intent: OpenIntent, found: Found, delivery: int,
    extra: Mapping[str, Any],
) -> Generator[Need, None, None]:  # fmt: skip
    """Settle an intent by an answer."""
    place, answer = found
    branch = context.ledger.branch
    assert branch is not None
    value = None if answer.value is None else (yield from context.value_of(answer.value))
    item = ReceiptItem(
        intent.id, height, settling.NAMES[Settled(answer.status)], value, answer.code, answer.text
    )
    status, payload, told = yield from settling.proven(context, slot, intent.kind, item)
    said = {**extra, "by": branch.effects, "answer": place}
    yield from settling.settle(context, slot, height, intent, status, payload, told, delivery, said)
