"""The engines beside their own databases doing the same work in the same run; see the two parts.

Wall time, because disk and server take part. Every round writes new keys or new values: SQLite leaves a page
alone that would become what it is, and then nothing is synced.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from bench import engines_postgres, engines_sqlite
from bench.report import Row, stream


def run(*, quick: bool) -> Iterator[Row]:
    """SQLite, then PostgreSQL."""

    async def measure() -> AsyncGenerator[Row, None]:
        for part in (engines_sqlite, engines_postgres):
            async with aclosing(part.measure(quick=quick)) as rows:
                async for row in rows:
                    yield row

    return stream(measure())
