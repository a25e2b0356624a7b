"""From an exception inside a step to the text that is recorded for it.

    OutOfStock: only 3 left (shop/stock.py:12 in take, called at shop/orders.py:41 in order)

The text is part of the journal (`sys/StepFailed@1` carries it), so running the step again must give the
same one on any machine: files are named relative to the bundle, addresses of objects are left out, and a
runaway recursion, which ends at a depth that depends on the caller, is described without where it ended.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final

MESSAGE_CHARS_MAX: Final = 1_000
_PLACES_MAX: Final = 4
_INSTALLED: Final = ("/site-packages/", "/dist-packages/")
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")

# A class may put anything in place of an attribute, but not in place of these.
_QUALNAME: Final[Callable[[type], str]] = type.__dict__["__qualname__"].__get__
_TRACEBACK: Final[Callable[[BaseException], TracebackType | None]] = BaseException.__dict__[
    "__traceback__"
].__get__


@dataclass(frozen=True, slots=True)
class Places:
    """Which files are the author's: all whose name begins with `prefix`; `package` is hidden in messages."""

    prefix: str
    package: str = ""

    def name(self, filename: str) -> str | None:
        """The file's name for people, or None where it is not the author's."""
        if not filename.startswith(self.prefix) or is_installed(filename):
            return None
        return filename.removeprefix(self.prefix) or "<input>"

    def cleaned(self, text: str) -> str:
        """`text` without what differs between machines and runs, and not too long."""
        text = _ADDRESS.sub("", str.__str__(text)[: 4 * MESSAGE_CHARS_MAX])  # a subclass could do anything
        if self.package:
            text = text.replace(self.package + ".", "")
        text = text.replace(self.prefix, "")
        if len(text) > MESSAGE_CHARS_MAX:
            text = text[: MESSAGE_CHARS_MAX - 3] + "..."
        return text.encode("utf-8", "backslashreplace").decode()


def exception_text(error: BaseException, places: Places) -> str:
    """Describe an exception that user code raised."""
    if issubclass(type(error), RecursionError):
        return "RecursionError: maximum recursion depth exceeded" + place_text(error, places, outermost=True)
    try:
        message = places.cleaned(str(error))
    except (Exception, SystemExit) as broken:  # noqa: BLE001 - an exception's own text is user code
        message = f"its text cannot be read ({places.cleaned(type_name(broken))})"
    kind = places.cleaned(type_name(error))
    return (f"{kind}: {message}" if message else kind) + place_text(error, places)


def is_installed(filename: str) -> bool:
    """Whether a file is of an installed package."""
    return any(part in filename for part in _INSTALLED)


def type_name(error: BaseException) -> str:
    """The name of an exception's class, whatever its metaclass says."""
    name: str = _QUALNAME(type(error))
    return name


def innermost(error: BaseException) -> TracebackType | None:
    """The last entry of an exception's traceback: where it was raised."""
    trace = _TRACEBACK(error)
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def place_text(error: BaseException, places: Places, *, outermost: bool = False) -> str:
    """The places in the author's files that the exception passed, innermost first; empty if none."""
    found: deque[str] = deque(maxlen=_PLACES_MAX)
    for name, line, function in _frames(_TRACEBACK(error), places):
        found.appendleft(f"{name}:{line} in {function}")
        if outermost:
            break
    return f" ({', called at '.join(found)})" if found else ""


def _frames(trace: TracebackType | None, places: Places) -> Iterator[tuple[str, int, str]]:
    while trace is not None:
        code = trace.tb_frame.f_code
        name = places.name(code.co_filename)
        if name is not None:
            yield name, trace.tb_lineno, code.co_qualname
        trace = trace.tb_next
