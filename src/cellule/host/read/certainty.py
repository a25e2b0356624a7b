"""A read has no unknown outcome: it changed nothing, whatever kept it from its answer.

A store that cannot tell whether it committed fails those who sent with `OutcomeUnknown`. Whoever only reads
waits for the same commit, and hears `Unavailable` with the same words instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cellule.errors import OutcomeUnknown, Unavailable


@contextmanager
def reading() -> Iterator[None]:
    """Around a read: an unknown outcome, which is somebody else's, is `Unavailable` here."""
    try:
        yield
    except OutcomeUnknown as error:
        raise Unavailable(error.code, error.template, hint=error.hint, **error.fields) from error
