"""`Redactor`: knows every value that was resolved, and takes it out of texts, bytes and plain data.

A value is found in all its `spellings`; what is found becomes `<secret name>`. The values stay known until
the process ends: a text about an old one may still come. Their number is what operators keep, not what cells
ask for, so it has no other bound. `RedactingFilter` belongs on every handler of logs.

Rejected: a filter on loggers. Records of loggers below would pass it by.

Log records are scrubbed where they are made, so that no handler ever gets a secret. Records of the loggers
`cellule` and below are written anew by the factory that makes them, whatever handlers there are and come
later; records of all others pass `RedactingFilter` on the handlers that exist when a node begins to perform
effects, of whatever logger, and the one that writes to stderr where nobody set one up.

Rejected: rewriting the records of every logger of the process. They are not ours to change.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from cellule.effects.failure import safe_text
from cellule.effects.secrets.spellings import Spelling, spellings_of
from cellule.values.link import Link

_FORMAT = logging.Formatter()
_STANDARD = frozenset((*logging.makeLogRecord({}).__dict__, "asctime", "message"))


class RedactingFilter(logging.Filter):
    """Scrubs message and traceback of every record, and drops none."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self.redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Write the record's texts anew, without secrets."""
        record.msg, record.args = self.redactor.scrub_text(_message_of(record)), None
        if record.exc_info:
            record.exc_text = self.redactor.scrub_text(_FORMAT.formatException(record.exc_info))
            record.exc_info = None
        if record.stack_info:
            record.stack_info = self.redactor.scrub_text(record.stack_info)
        for name, value in record.__dict__.items():  # what was given as `extra`
            if name not in _STANDARD and self.redactor.holds(value):
                record.__dict__[name] = self._scrubbed(value)
        return True

    def _scrubbed(self, value: Any) -> Any:
        try:
            return self.redactor.scrub(value)
        except BaseException as error:  # noqa: BLE001 - the code of whoever logs
            return f"<not shown: {safe_text(type(error).__name__)}>"


def _message_of(record: logging.LogRecord) -> str:
    """What a record says; where its arguments do not fit its text, both: whoever logs never hears of that."""
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - the code of whoever logs
        return f"{safe_text(record.msg)} {safe_text(record.args)} (not formatted: {safe_text(error)})"


_DEPTH_MAX = 128
HELD_BYTES_MAX = 1_000_000
"""Of a stream, before values that overlap without end are cut apart."""


class Redactor:
    """Scrubs what it has learned; one a node. What it learns it also teaches `above`, if there is one."""

    def __init__(self, above: Redactor | None = None) -> None:
        self._above = above
        self._known: dict[str, tuple[str, list[Spelling]]] = {}
        self._longest = 0

    def learn(self, name: str, value: str) -> None:
        """Scrub `value` from now on, and call it `name`."""
        if self._above is not None:
            self._above.learn(name, value)
        if value in self._known or not value:
            return
        spellings = spellings_of(value)
        self._longest = max(self._longest, *(each.longest for each in spellings))
        self._known = {**self._known, value: (name, spellings)}  # other threads may be reading

    def scrub_text(self, text: str) -> str:
        """Return `text` without any known value."""
        data = text.encode("utf-8", "surrogatepass")
        scrubbed = self.scrub_bytes(data)
        return text if scrubbed is data else scrubbed.decode("utf-8", "surrogatepass")

    def scrub_bytes(self, data: bytes) -> bytes:
        """Return `data` without any known value."""
        spans = self._spans(data)
        if not spans:
            return data
        pieces, at = [], 0
        for start, end, name in spans:
            pieces += [data[at:start], b"<secret %s>" % name.encode()]
            at = end
        return b"".join([*pieces, data[at:]])

    def scrub_error(self, error: BaseException) -> str:
        """Return what an error says without any known value, its class in front."""
        said = self.scrub_text(str(error))
        return f"{type(error).__name__}: {said}" if said else type(error).__name__

    def scrub(self, value: Any) -> Any:
        """Return plain data without any known value; records become plain data too."""
        return self._scrub(value, 0)

    def holds(self, value: Any) -> bool:
        """Tell whether a value, as `scrub` reads it, holds a known one; what cannot be read may hold it."""
        if not self._known:
            return False
        try:
            return [self.scrub(value)] != [Redactor().scrub(value)]
        except BaseException:  # noqa: BLE001 - foreign code
            return True

    async def scrub_stream(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Pass chunks on without any known value, also where one lies across two chunks."""
        held = b""
        async for chunk in chunks:
            ready, held = self._split(held + chunk)
            if ready:
                yield self.scrub_bytes(ready)
        if held:
            yield self.scrub_bytes(held)

    def split_text(self, text: str) -> tuple[str, str]:
        """Cut a text that goes on: what can be scrubbed now, and what has to wait for the rest."""
        data = text.encode("utf-8", "surrogatepass")
        cut = len(self._split(data)[0])
        while 0 < cut < len(data) and data[cut] & 0xC0 == 0x80:  # not inside a character
            cut -= 1
        return data[:cut].decode("utf-8", "surrogatepass"), data[cut:].decode("utf-8", "surrogatepass")

    def _spans(self, data: bytes) -> list[tuple[int, int, str]]:
        """Where known values stand; those that overlap are one, named after the first."""
        if not self._known:
            return []
        found = sorted(
            (start, -end, name)
            for name, spellings in self._known.values()
            for spelling in spellings
            for start, end in spelling.spans(data)
        )
        merged: list[tuple[int, int, str]] = []
        for start, negative_end, name in found:
            if merged and start < merged[-1][1]:
                first, end, before = merged[-1]
                merged[-1] = first, max(end, -negative_end), before
            else:
                merged.append((start, -negative_end, name))
        return merged

    def _split(self, data: bytes) -> tuple[bytes, bytes]:
        """Cut where no known value can begin before and end after."""
        cut = max(0, len(data) - max(0, self._longest - 1))
        for start, end, _ in self._spans(data):
            if start < cut < end:
                # Another value may begin inside this one, and end in what is still to come.
                cut = start if len(data) <= HELD_BYTES_MAX else end
        return data[:cut], data[cut:]

    def _scrub(self, value: Any, depth: int) -> Any:
        if depth > _DEPTH_MAX:
            return "..."
        match value:
            case None | bool() | int() | float() | Link():
                return value
            case str():
                return self.scrub_text(value)
            case bytes() | bytearray() | memoryview():
                scrubbed = self.scrub_bytes(bytes(value))
                return value if scrubbed == value else scrubbed
            case Mapping():
                pairs = value.items()
                return {self._scrub(key, depth + 1): self._scrub(item, depth + 1) for key, item in pairs}
            case list() | tuple() | set() | frozenset():
                return [self._scrub(item, depth + 1) for item in value]
            case msgspec.Struct():
                return self._scrub(msgspec.structs.asdict(value), depth + 1)
            case _:
                return self.scrub_text(str(value))

    def __repr__(self) -> str:
        return f"<redactor of {len(self._known)} values>"


OURS = "cellule"
_filters: list[RedactingFilter] = []  # one for each node of this process that performs effects


class _Factory:
    """Makes records as the factory before did, and scrubs ours."""

    def __init__(self, before: Any) -> None:
        self.before = before

    def __call__(self, *args: Any, **more: Any) -> logging.LogRecord:
        record: logging.LogRecord = self.before(*args, **more)
        name: object = record.name  # None from `logging.makeLogRecord`
        if isinstance(name, str) and (name == OURS or name.startswith(OURS + ".")):
            for each in _filters:
                each.filter(record)
        return record


def _handlers() -> list[logging.Handler]:
    """All handlers there are."""
    loggers = [logging.getLogger(), *logging.getLogger().manager.loggerDict.values()]
    found = [handler for each in loggers if isinstance(each, logging.Logger) for handler in each.handlers]
    if logging.lastResort is not None:
        found.append(logging.lastResort)
    return list(dict.fromkeys(found))


@contextmanager
def redacted_logs(redactor: Redactor) -> Iterator[None]:
    """Keep what this redactor knows out of what the process logs."""
    redacting = RedactingFilter(redactor)
    handlers = _handlers()
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
