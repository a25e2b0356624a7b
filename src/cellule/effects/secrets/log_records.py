"""Secrets are taken out of log records where they are made, so that no handler ever gets one.

Records of the loggers `cellule` and below are written anew by the factory that makes them, whatever handlers
there are and come later; records of all others pass `RedactingFilter` on the handlers that exist when a node
begins to perform effects.

Rejected: rewriting the records of every logger of the process. They are not ours to change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cellule.effects.secrets.redactor import RedactingFilter, Redactor

OURS = "cellule"
_filters: list[RedactingFilter] = []  # one for each node of this process that performs effects


class _Factory:
    """Makes records as the factory before did, and scrubs ours."""

    def __init__(self, before: Any) -> None:
        self.before = before

    def __call__(self, *args: Any, **more: Any) -> logging.LogRecord:
        record: logging.LogRecord = self.before(*args, **more)
        if record.name == OURS or record.name.startswith(OURS + "."):
            for each in _filters:
                each.filter(record)
        return record


@contextmanager
def redacted_logs(redactor: Redactor) -> Iterator[None]:
    """Keep what this redactor knows out of what the process logs."""
    redacting = RedactingFilter(redactor)
    handlers = [*logging.getLogger().handlers, *logging.getLogger(OURS).handlers]
    for handler in handlers:
        handler.addFilter(redacting)
    factory = _Factory(logging.getLogRecordFactory())
    if not _filters:
        logging.setLogRecordFactory(factory)
    _filters.append(redacting)
    try:
        yield
    finally:
        _filters.remove(redacting)
        if not _filters and isinstance(current := logging.getLogRecordFactory(), _Factory):
            logging.setLogRecordFactory(current.before)
        for handler in handlers:
            handler.removeFilter(redacting)
