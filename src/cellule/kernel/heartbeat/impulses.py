"""What an impulse may be: a signal, a target or both, as paths, for a beat that has not begun."""

from __future__ import annotations

from typing import Final

from cellule.errors import Rejected
from cellule.kernel.heartbeat.cell_paths import cell_of, is_cell_path
from cellule.kernel.heartbeat.paths import is_below, parse_path

BEAT_MAX: Final = (1 << 63) - 1
DIAGNOSTICS: Final = "/sig_cei"
CONTROLS: Final = "/sig_ctl"


def check_impulse(
    signal: object, target: object, beat: object, now: int
) -> tuple[str | None, str | None, int | None]:
    """The paths and the beat of an impulse as somebody gave them; refused where they do not fit."""
    if signal is None and target is None:
        raise Rejected("heartbeat.impulse_empty", "an impulse needs a signal or a target, and has neither")
    checked = None if signal is None else parse_path(signal, "signal")
    place = None if target is None else parse_path(target, "target")
    if place is not None and is_cell_path(place):
        cell_of(place)
    if beat is not None and (type(beat) is not int or not now < beat <= BEAT_MAX):
        raise Rejected(
            "heartbeat.beat_past", "an impulse for beat {beat} comes too late: beat {now} has begun",
            beat=beat, now=now, hint="Name a later beat, or none for the next one.",
        )  # fmt: skip
    return checked, place, beat


def place_text(signal: str | None, target: str | None) -> str:
    """An impulse as messages name it.

    >>> place_text("/s", "/a"), place_text("/s", None), place_text(None, "/a")
    ('/s at /a', '/s', 'an impulse at /a')
    """
    return f"{signal or 'an impulse'}{f' at {target}' if target else ''}"


def is_notice(signal: str | None) -> bool:
    """Tell whether a signal tells of trouble or steers the heartbeat: those pass a pause."""
    return signal is not None and (is_below(signal, DIAGNOSTICS) or is_below(signal, CONTROLS))
