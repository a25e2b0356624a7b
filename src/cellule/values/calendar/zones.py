"""Time zones by name, always from the package `tzdata`.

Rejected: the operating system's zones, which `zoneinfo` prefers. Two machines of one world would disagree
about the next clock change as soon as one of them is updated.
"""

from __future__ import annotations

from datetime import UTC, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from typing import Final
from zoneinfo import ZoneInfo

from cellule.errors import Rejected

_NAME_CHARS_MAX: Final = 64
_SUGGESTIONS_MAX: Final = 3


@lru_cache(maxsize=64)
def zone_named(name: str) -> tzinfo:
    """Return the zone `name`, such as `Europe/Berlin`; raises `values.zone_unknown` with names like it."""
    if name == "UTC":
        return UTC
    if name not in _names():
        raise _unknown(name)
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(files("tzdata").joinpath("zones").read_text("utf-8").split())


def _unknown(name: str) -> Rejected:
    shown = name[:_NAME_CHARS_MAX]
    by_lower = {known.lower(): known for known in sorted(_names())}
    by_city = {known.rsplit("/", 1)[-1].lower(): known for known in sorted(_names())}
    wanted = shown.lower().replace(" ", "_")
    alike = [by_lower[match] for match in get_close_matches(wanted, by_lower, _SUGGESTIONS_MAX, 0.7)]
    alike += [by_city[match] for match in get_close_matches(wanted, by_city, _SUGGESTIONS_MAX, 0.8)]
    suggestions = " or ".join(dict.fromkeys(alike[:_SUGGESTIONS_MAX]))
    return Rejected(
        "values.zone_unknown", "There is no time zone {zone!r}.", zone=shown,
        hint=f"Did you mean {suggestions}?" if suggestions else "Zones are named like Europe/Berlin, or UTC.",
    )  # fmt: skip
