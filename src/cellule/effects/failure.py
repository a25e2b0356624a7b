"""From whatever an adapter raised to the text that is kept of it, with the places in its author's files.

    ZeroDivisionError: division by zero (shop/bank.py:41 in fee, called at shop/bank.py:12 in charge)

An exception is an object of foreign code: its text, the name of its class, even its `__class__` may raise
anything. Nothing here raises, whatever it is handed. Secrets are taken out by whoever keeps the text.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Final

TEXT_CHARS_MAX: Final = 1_000_000
"""Of a foreign text, before secrets are looked for; what is kept of it is far shorter."""
TRACE_CHARS_MAX: Final = 20_000
"""Of a traceback in a log."""
_PLACES_MAX: Final = 4
_NESTED_MAX: Final = 16
_OURS: Final = str(Path(__file__).parents[1])


def safe_text(value: object) -> str:
    """What `str` makes of a foreign value; a plain text always."""
    try:
        text = value if type(value) is str else str(value)
        return str.__str__(text)[:TEXT_CHARS_MAX]
    except BaseException as error:  # noqa: BLE001 - foreign code may raise anything
        return f"<{_class_name(value)} without text: its __str__ raises {_class_name(error)}>"


def error_text(error: BaseException) -> str:
    """What an exception says: its class, its text, and where it was raised."""
    try:
        inner = _innermost(error)
        said = safe_text(error)
        text = f"{_class_name(error)}: {said}" if said else _class_name(error)
        if inner is not error:
            text += f": {_class_name(inner)}: {safe_text(inner)}"
        return text + (place_text(inner) or place_text(error))
    except BaseException as broken:  # noqa: BLE001 - foreign code may raise anything
        return f"{_class_name(error)}, which cannot be read ({_class_name(broken)})"


def place_text(error: BaseException) -> str:
    """Where an exception was raised, innermost first, in brackets; empty if nobody knows."""
    places = _places(_trace_of(error))
    if not places:
        return ""
    return f" ({', called at '.join(places)})"


def trace_text(error: BaseException) -> str:
    """The traceback, for a log: its end where it is long, and nothing that a file could not take."""
    try:
        text = "".join(traceback.format_exception(error)).rstrip()
    except BaseException:  # noqa: BLE001 - foreign code may raise anything
        text = error_text(error)
    return text[-TRACE_CHARS_MAX:].encode("utf-8", "backslashreplace").decode()


def sole_error(error: BaseException) -> BaseException:
    """The one exception inside a group that holds no other; anything else is itself.

    A task group wraps what a task of it raised: `Failed` and `Retry` mean the same from inside one.
    """
    for _ in range(_NESTED_MAX):
        if not isinstance(error, BaseExceptionGroup) or len(error.exceptions) != 1:
            break
        error = error.exceptions[0]
    return error


def _innermost(error: BaseException) -> BaseException:
    """The first exception of a group that is no group itself; a `StopIteration` that Python has renamed."""
    for _ in range(_NESTED_MAX):
        if not isinstance(error, BaseExceptionGroup):
            break
        error = error.exceptions[0]
    is_renamed = type(error) is RuntimeError and isinstance(error.__cause__, StopIteration)
    return error.__cause__ or error if is_renamed else error


def _places(trace: TracebackType | None) -> list[str]:
    """The innermost places, first those of other files than ours; ours only where there is no other."""
    theirs: list[str] = []
    ours: list[str] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        found = ours if code.co_filename.startswith(_OURS) else theirs
        found.append(f"{_file_name(code.co_filename)}:{trace.tb_lineno} in {code.co_qualname}")
        trace = trace.tb_next
    return (theirs or ours[-1:])[: -_PLACES_MAX - 1 : -1]


def _file_name(path: str) -> str:
    """A file relative to where modules are imported from: the same on every machine."""
    homes = [home for home in sys.path if home and path.startswith(home.rstrip("/") + "/")]
    return path[len(max(homes, key=len).rstrip("/")) + 1 :] if homes else path.rpartition("/")[2]


def _trace_of(error: BaseException) -> TracebackType | None:
    try:
        return error.__traceback__
    except BaseException:  # noqa: BLE001 - foreign code may raise anything
        return None


def _class_name(value: object) -> str:
    try:
        return str.__str__(type.__getattribute__(type(value), "__name__"))
    except BaseException:  # noqa: BLE001 - foreign code may raise anything
        return "an error without a name"
