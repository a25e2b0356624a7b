"""What a person typed, as values: whole numbers and JSON.

Texts that Python's own readers take badly (digits of other scripts, thousands of digits or of brackets) are
no values here, and are told like every other mistake.
"""

from __future__ import annotations

import json
import re
from typing import Any

DIGITS_MAX = 18  # of a number in 64 bits, whatever they are
JSON_DEPTH_MAX = 200  # more than any value has, and far less than Python can read
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')  # texts whole, so that their brackets do not count


def number_of(text: str) -> int | None:
    """The whole number from 0 that a text is, if it is one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX else None


def json_of(text: str) -> Any:
    """The JSON data that a text is; ValueError tells why it is none."""
    if _depth(text) > JSON_DEPTH_MAX:  # known before it is read: to run out of stack leaves traces elsewhere
        raise ValueError(f"it nests more than {JSON_DEPTH_MAX} levels")
    return json.loads(text, parse_constant=_no_number)


def _depth(text: str) -> int:
    """How deep lists and maps are nested; brackets in texts are none."""
    depth = most = 0
    for token in _TOKENS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        most = max(most, depth)
    return most


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")
