"""`in_virtual_time`: a coroutine that is a test, on the deterministic loop, with nodes over one store.

@in_virtual_time
async def test_a_world_adds(node, tally):
    await (await node.world("w")).send(tally.Add("a", 1))

`node` is a running node; `opened(**options)` opens one, for tests that need options or several. Everything
else is a fixture. The fixture `on_node` runs it, and proves the store when it ends.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

NODE, OPENED = "node", "opened"


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test as pytest calls it: with its fixtures, and `on_node` in place of `node` and `opened`."""
    names = list(inspect.signature(test).parameters)
    if not {NODE, OPENED} & set(names):
        raise TypeError(f"{test.__name__} takes neither `{NODE}` nor `{OPENED}`")
    fixtures = ["on_node", *(name for name in names if name not in (NODE, OPENED))]

    @functools.wraps(test)
    def played(**given: Any) -> None:
        on_node = given["on_node"]
        known = {name: given[name] for name in names if name not in (NODE, OPENED)}

        async def main(opened: Any) -> None:
            if OPENED in names:
                known[OPENED] = opened
            if NODE not in names:
                return await test(**known)
            async with opened() as node:
                return await test(**known, node=node)

        on_node(main)

    kind = inspect.Parameter.KEYWORD_ONLY
    played.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in fixtures])  # type: ignore[attr-defined]
    del played.__wrapped__
    return played
