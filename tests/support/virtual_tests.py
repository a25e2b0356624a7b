"""`in_virtual_time`: a coroutine that is a test, on the deterministic loop, with nodes over one store.

@in_virtual_time
async def test_a_world_adds(node, tally):
    await (await node.world("w")).send(tally.Add("a", 1))

`node` is a running node; `opened(**options)` opens one, for tests that need options or several. The fixture
`on_node` runs these, and proves the store when they end. `bench` is what a test of the pool needs, and `play`
runs it. Everything else is a fixture.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

NODE, OPENED = "node", "opened"
RUNNERS = {NODE: "on_node", OPENED: "on_node", "bench": "play"}


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test as pytest calls it: with its fixtures, and what runs it in place of what it is given."""
    names = list(inspect.signature(test).parameters)
    given = [name for name in names if name in RUNNERS]
    if not given:
        raise TypeError(f"{test.__name__} takes none of {', '.join(RUNNERS)}")
    runner = RUNNERS[given[0]]
    others = [name for name in names if name not in given]

    @functools.wraps(test)
    def played(**fixtures: Any) -> None:
        known = {name: fixtures[name] for name in others}

        async def main(made: Any) -> None:
            if NODE not in given:
                return await test(**known, **{given[0]: made})
            if OPENED in given:
                known[OPENED] = made
            async with made() as node:
                return await test(**known, node=node)

        fixtures[runner](main)

    kind = inspect.Parameter.KEYWORD_ONLY
    played.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in (runner, *others)])  # type: ignore[attr-defined]
    del played.__wrapped__
    return played
