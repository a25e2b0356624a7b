"""Server-sent events: from chunks of bytes, cut anywhere, to the data of whole events.

Only what chat completions use: `data` lines; comments, names and ids are passed over. Lines end in LF or
CRLF.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from cellule.effects.outcomes import Failed

EVENT_BYTES_MAX = 1_000_000
STREAM_BYTES_MAX = 64_000_000


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the data of each event; `Failed` when one, or all together, are too long."""
    line, data, seen = b"", bytearray(), 0
    async for chunk in chunks:
        seen += len(chunk)
        *whole, line = (line + chunk).split(b"\n")
        for each in (ended.removesuffix(b"\r") for ended in whole):
            if not each and data:
                yield bytes(data)
                data.clear()
            elif each.startswith(b"data:"):
                data += (b"\n" if data else b"") + each[5:].removeprefix(b" ")
        if len(line) + len(data) > EVENT_BYTES_MAX or seen > STREAM_BYTES_MAX:
            raise Failed("effects.llm_too_long", "The server sent more than an answer can have.")
    if data:
        yield bytes(data)
