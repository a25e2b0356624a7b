"""Whether this thread is running an app's top-level code from a bundle.

Whoever starts something for good (a node, a server) calls `check_not_loading`: a script without
`if __name__ == "__main__"` would otherwise start it once more each time its code is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from cellule.errors import Rejected

_LOADING: Final[ContextVar[str]] = ContextVar("cellule_loading", default="")


def is_loading() -> bool:
    """Tell whether a bundle's top-level code is running here and now."""
    return bool(_LOADING.get())


def check_not_loading(what: str) -> None:
    """Refuse `what` (such as "open a node") while top-level code of a bundle is running."""
    file = _LOADING.get()
    if file:
        raise Rejected(
            "modules.started_while_loading",
            "{file} tries to {what} at its top level, while its code is being loaded.",
            file=file, what=what,
            hint='Put what starts the program under `if __name__ == "__main__":`.',
        )  # fmt: skip


@contextmanager
def loading(file: str) -> Iterator[None]:
    """Mark the code that runs inside as the top level of `file`."""
    token = _LOADING.set(file)
    try:
        yield
    finally:
        _LOADING.reset(token)
