"""From an exception inside a step to the text that is recorded for it.

    OutOfStock: only 3 left (shop/orders.py:41 in order)

The text is part of the journal (`sys/StepFailed@1` carries it), so running the step again must give the
same one on any machine: files are named relative to the bundle, addresses of objects are left out, and a
runaway recursion, which ends at a depth that depends on the caller, is described without where it ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final

MESSAGE_CHARS_MAX: Final = 1_000
_INSTALLED: Final = "/site-packages/"
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True)
class Places:
    """Which files are the author's: all whose name begins with `prefix`; `package` is hidden in messages."""

    prefix: str
    package: str = ""

    def name(self, filename: str) -> str | None:
        """The file's name for people, or None where it is not the author's."""
        if not filename.startswith(self.prefix) or _INSTALLED in filename:
            return None
        return filename.removeprefix(self.prefix) or "<input>"

    def cleaned(self, text: str) -> str:
        """`text` without what differs between machines and runs, and not too long."""
        text = _ADDRESS.sub("", text[: 4 * MESSAGE_CHARS_MAX])
        if self.package:
            text = text.replace(self.package + ".", "")
        text = text.replace(self.prefix, "")
        if len(text) > MESSAGE_CHARS_MAX:
            text = text[: MESSAGE_CHARS_MAX - 3] + "..."
        return text.encode("utf-8", "backslashreplace").decode()


def exception_text(error: BaseException, places: Places) -> str:
    """Describe an exception that user code raised."""
    if isinstance(error, RecursionError):
        return "RecursionError: maximum recursion depth exceeded" + place_text(error, places, outermost=True)
    try:
        message = str(error)
    except Exception as broken:  # noqa: BLE001 - an exception's own text is user code and may raise anything
        message = f"its text cannot be read ({type(broken).__qualname__})"
    kind = places.cleaned(type(error).__qualname__)
    message = places.cleaned(message)
    return (f"{kind}: {message}" if message else kind) + place_text(error, places)


def place_text(error: BaseException, places: Places, *, outermost: bool = False) -> str:
    """The innermost place in the author's files that the exception passed, in brackets; empty if none."""
    found = ""
    for name, line, function in _frames(error.__traceback__, places):
        found = f" ({name}:{line} in {function})"
        if outermost:
            break
    return found


def _frames(trace: TracebackType | None, places: Places) -> Iterator[tuple[str, int, str]]:
    while trace is not None:
        code = trace.tb_frame.f_code
        name = places.name(code.co_filename)
        if name is not None:
            yield name, trace.tb_lineno, code.co_qualname
        trace = trace.tb_next
