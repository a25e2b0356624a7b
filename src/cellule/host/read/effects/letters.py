"""Dead letters: messages whose steps failed, and effects that their adapters gave up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from typing import Any, Final

from cellule.host.erasure_keys import ERASED_TEXT
from cellule.host.read.effects.model import Letter
from cellule.host.read.reader import Reader
from cellule.kernel.index.keys import pair_key, pair_of
from cellule.kernel.journal.records import ReceiptRecord
from cellule.kernel.need import Need
from cellule.kernel.state.rows import DeadLetter
from cellule.kernel.world import World
from cellule.values.cbor import decode_trusted

PAGE: Final = 1_000


async def list_letters(reader: Reader, limit: int, after: int) -> list[Letter]:
    """Up to `limit` dead letters above a height, oldest first."""
    found: list[Letter] = []
    async for letter in walk_letters(reader, after):
        found.append(letter)
        if len(found) == limit:
            break
    return found


async def walk_letters(reader: Reader, after: int = 0) -> AsyncIterator[Letter]:
    """All dead letters above a height."""
    begin = pair_key(after + 1, 0)
    while True:
        page = await reader.ask(_page(begin))
        for key, row in page:
            yield await _letter(reader, pair_of(key)[0], row)
        if len(page) < PAGE:
            return
        begin = page[-1][0] + b"\0"


async def _letter(reader: Reader, height: int, row: DeadLetter) -> Letter:
    base, key, code, text, asked = row
    text = await reader.keys.opened_text(text)
    if not row.is_effect:
        return Letter(height, base, key, code, text, schema=row.message.schema, cause=row.message.height)
    frame = await reader.frame(height)
    receipt = frame.expect(height, ReceiptRecord)
    told: Any = decode_trusted(await reader.bytes_of(receipt.value))
    return Letter(
        height, base, key, code, text, cause=receipt.cause, kind=asked["kind"],
        intent=told.get("intent_id", ERASED_TEXT),
        intent_height=asked["height"],
    )  # fmt: skip


def _page(begin: bytes) -> Any:
    def ask(world: World) -> Generator[Need, None, list[tuple[bytes, DeadLetter]]]:
        return (yield from world.ledger.dead_letters.scan(begin, None, PAGE))

    return ask
