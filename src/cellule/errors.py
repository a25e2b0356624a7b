"""The whole error tree, ordered by who has to act.

Every error has a stable dotted code (`store.value_too_large`), typed fields and a message built from
them when it is read; `docs/errors/` has one section per code. HTTP status and exit codes live at the
edge only. Effect failures are data (a receipt), never an exception.

Rejected: one class per code. There are hundreds of codes and six ways to react; classes are for reacting.
Rejected: formatting the message when raised. Conflicts are raised in hot loops and often only counted.
"""

from __future__ import annotations

from typing import Final, NoReturn

REFUSED_CODE: Final = "refused"
"""The code of a refusal whose author gave none."""


class CelluleError(Exception):
    """Base of all errors: `code` is stable, `fields` are data, `str()` is for people."""

    def __init__(self, code: str, message: str, /, *, hint: str = "", **fields: object) -> None:
        super().__init__(code, message)
        self.code = code
        self.template = message
        self.hint = hint
        self.fields = fields

    def __str__(self) -> str:
        shown = {name: _shown(value) for name, value in self.fields.items()}
        key = self.fields.get("key")
        if "module" in shown and isinstance(key, bytes):
            shown["key"] = readable(key)
        text = self.template.format_map(shown)
        if not self.hint:
            return text
        return f"{text} {self.hint}" if text.endswith((".", "!", "?", ":")) else f"{text}. {self.hint}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code!r}, {str(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.code, self.template, self.hint, self.fields)


class Rejected(CelluleError):
    """The request is wrong: fix it, never retry it as it is. Nothing was changed."""


class VersionConflict(Rejected):
    """The cell is at another version than the caller expected."""


class Refused(Rejected):
    """A step refused the event: `reason` and `code` are what its author wrote, `cell` is which one.

    Raise it inside a step to refuse, or return `Refuse`; whoever sent the event gets it. Nothing was changed,
    and the same id gets the same answer again.
    """

    def __init__(
        self, reason: str, *, code: str = REFUSED_CODE, cell: str = "", height: int = 0
    ) -> None:  # fmt: skip
        where = "{cell} refused the event: {reason}" if cell else "{reason}"
        super().__init__(code, where, reason=reason, cell=cell, height=height)
        self.reason = reason
        self.cell = cell
        self.height = height

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_refused, (type(self), self.reason, self.code, self.cell, self.height)


class TooOld(Rejected):
    """The item was issued before the oldest id the world still remembers."""


class Gone(Rejected):
    """What was asked for existed and is no longer kept; the fields name the oldest that is."""


class HistoryChanged(Rejected):
    """A follower's position is not in the history it now follows."""


class Unavailable(CelluleError):
    """The surroundings failed and nothing was applied: retry with backoff."""


class TimedOut(Unavailable):
    """What somebody waited for did not come in time; the wait changed nothing, and may be begun again."""


class OutcomeUnknown(Unavailable):
    """It may or may not have been applied: send again with the same id."""


class Fenced(CelluleError):
    """Ownership is gone: stop at once and drop all work."""


class Corrupted(CelluleError):
    """Durable bytes contradict themselves: poison the world and call a person."""


class StepFailed(CelluleError):
    """User logic misbehaved: it is recorded, and the world goes on."""


class Parked(StepFailed):
    """The event is kept and waits for a named reason: do not send it again."""


class InvariantBroken(CelluleError):
    """We misbehaved: stop this world and keep the evidence."""


class Conflict(CelluleError):
    """An expected key held another value, and nothing was applied. Never leaves the host."""


def ensure(condition: object, code: str, message: str, /, **fields: object) -> None:
    """Raise `InvariantBroken` unless `condition` holds; always on, in production too."""
    if not condition:
        broken(code, message, **fields)


def broken(code: str, message: str, /, **fields: object) -> NoReturn:
    """Raise `InvariantBroken`."""
    raise InvariantBroken(code, message, hint="", **fields)


def readable(key: bytes) -> str:
    """The key of a cell as people write it: text where it is text, else hex."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
    return text if text.isprintable() else f"0x{key.hex()}"


def _shown(value: object) -> object:
    """Byte strings as short hex, text so that it can be printed; everything else as it is."""
    if isinstance(value, str) and not str.isascii(value):
        return str.encode(value, "utf-8", "backslashreplace").decode()
    if isinstance(value, bytes | bytearray | memoryview):
        text = bytes(value[:40]).hex()
        return f"0x{text}..." if len(value) > 40 else f"0x{text}"
    return value


def _rebuild(
    kind: type[CelluleError], code: str, template: str, hint: str, fields: dict[str, object]
) -> CelluleError:
    return kind(code, template, hint=hint, **fields)


def _rebuild_refused(kind: type[Refused], reason: str, code: str, cell: str, height: int) -> Refused:
    return kind(reason, code=code, cell=cell, height=height)
