"""How long another side asks to be left alone: `Retry-After`, for every adapter that speaks HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from cellule.effects.limits import HTTP_RETRY_AFTER_S_MAX

_NS = 1_000_000_000


def retry_after_s(headers: Mapping[str, str], now_ns: int) -> float | None:
    """The seconds asked for, in numbers or as a date, within our bounds; None where nothing is said.

    `headers` has its names in lower case, or does not care; `retry-after-ms` is what model servers send.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if text.isascii() and text.replace(".", "", 1).isdigit():
            return min(float(text) * unit, HTTP_RETRY_AFTER_S_MAX)
    try:
        due_s = parsedate_to_datetime(headers.get("retry-after", "").strip()).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(0.0, due_s - now_ns / _NS), HTTP_RETRY_AFTER_S_MAX)
