"""A filter that keeps secrets out of logs: put it on every handler.

Rejected: a filter on loggers. Records of loggers below would pass it by.
"""

from __future__ import annotations

import logging

from cellule.effects.secrets.redactor import Redactor

_FORMAT = logging.Formatter()


class RedactingFilter(logging.Filter):
    """Scrubs message and traceback of every record, and drops none."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self.redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Write the record's texts anew, without secrets."""
        record.msg, record.args = self.redactor.scrub_text(record.getMessage()), None
        if record.exc_info:
            record.exc_text = self.redactor.scrub_text(_FORMAT.formatException(record.exc_info))
            record.exc_info = None
        if record.stack_info:
            record.stack_info = self.redactor.scrub_text(record.stack_info)
        return True
