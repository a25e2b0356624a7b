"""What a person typed, as values: whole numbers and JSON.

Texts that Python's own readers take badly (digits of other scripts, thousands of digits or of brackets) are
no values here, and are told like every other mistake.
"""

from __future__ import annotations

import json
from typing import Any

DIGITS_MAX = 18  # of a number in 64 bits, whatever they are


def number_of(text: str) -> int | None:
    """The whole number from 0 that a text is, if it is one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX else None


def json_of(text: str) -> Any:
    """The JSON data that a text is; ValueError tells why it is none."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")
