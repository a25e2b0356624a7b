"""Where in a value something is, for messages: `$.items[3].price`, `$["two words"]`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

_STEPS_SHOWN: Final = 16
_KEY_CHARS_SHOWN: Final = 40


def path_text(steps: Iterable[str | int]) -> str:
    """Write the keys and indices from the root; a long path keeps its two ends.

    >>> path_text(["items", 3, "two words"])
    '$.items[3]["two words"]'
    """
    shown = [_step_text(step) for step in steps]
    if len(shown) > _STEPS_SHOWN:
        half = _STEPS_SHOWN // 2
        shown[half:-half] = ["..."]
    return "$" + "".join(shown)


def _step_text(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    key = step if len(step) <= _KEY_CHARS_SHOWN else step[:_KEY_CHARS_SHOWN] + "..."
    return f".{key}" if key.replace("$", "_").isidentifier() else f"[{json.dumps(key)}]"
