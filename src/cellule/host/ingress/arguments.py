"""What callers give beside an event or a verb, checked by name before anything is durable or joins a beat.

Every public call that sends, controls or operates checks its arguments here, on the owner and elsewhere
alike. What passes is exactly of its type: a journal and an inbox hold no subclasses, no text that is no
UTF-8, and no number that was meant as true or false.

Rejected: leaving it to the kernel. An item that fails there has company: the others of its beat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from math import inf, isfinite
from types import NoneType
from typing import Any, Final, Literal, NamedTuple, NoReturn, get_args
from uuid import UUID

from cellule.errors import CelluleError, Rejected
from cellule.host.codecs import WorldCodecs
from cellule.host.limits import (
    CONTROL_BYTES_MAX,
    CORRELATION_CHARS_MAX,
    ID_BYTES_MAX,
    SHOWN_MAX,
    WHO_CHARS_MAX,
    WHY_CHARS_MAX,
)
from cellule.host.read.journal_reader import nanoseconds_of
from cellule.kernel.items import Verb
from cellule.values.cbor import decode_trusted, encode
from cellule.values.limits import INT_MAX
from cellule.values.words import type_name

VERBS: Final = frozenset(get_args(Verb))
ETAG: Final = re.compile(r"(0|[1-9][0-9]{0,18})@(0|[1-9][0-9]{0,18})")
ID_WANTED: Final = "a text, bytes or a UUID"
_SHOWN: Final = frozenset({str, bytes, int, float, bool, UUID, NoneType})


Id = str | bytes | UUID
"""What an event or a verb may be known by; a UUID and its text are one id."""


class Expected(NamedTuple):
    """The version that a cell must be at, and the height at which it must have been born, if that matters."""

    version: int | None = None
    born: int | None = None


NOTHING_EXPECTED: Final = Expected()


def check_id(event_id: Any) -> Id:
    """An id of an event or a verb."""
    if type(event_id) is UUID:
        return event_id
    if isinstance(event_id, UUID):
        return _plain_uuid(event_id)
    if not isinstance(event_id, str | bytes):
        refuse_argument("id", event_id, ID_WANTED)
    plain = _plain_text("id", event_id) if isinstance(event_id, str) else plain_bytes(event_id)
    if not plain:
        raise Rejected("host.empty_id", "an id cannot be empty", hint="Leave it out, or give one.")
    size = len(plain.encode() if isinstance(plain, str) else plain)
    if size > ID_BYTES_MAX:
        refuse_argument("id", plain, f"at most {ID_BYTES_MAX} bytes long", f"{size} bytes long")
    return plain


def _plain_uuid(given: UUID) -> UUID:
    """The UUID that one of a class of its own stands for, such as a database driver's."""
    try:
        return UUID(bytes=plain_bytes(given.bytes))
    except Exception:  # noqa: BLE001 - the class is somebody else's
        refuse_argument("id", given, ID_WANTED)


def check_expected(expected: Any) -> Expected:
    """What `expected_version` says: a version, or an etag, which names the incarnation too."""
    if expected is None:
        return NOTHING_EXPECTED
    if isinstance(expected, int) and not isinstance(expected, bool):
        expected = int.__index__(expected)
        if 0 <= expected <= INT_MAX:
            return Expected(expected)
    found = ETAG.fullmatch(str.__str__(expected)) if isinstance(expected, str) else None
    if found is None:
        refuse_argument(
            "expected_version", expected, "a whole number from 0, or an etag as `view.etag` gives it"
        )
    return Expected(int(found[1]), int(found[2]))


def check_correlation(correlation: Any) -> str | None:
    """The id of the story an event belongs to."""
    if correlation is None:
        return None
    return _check_text("correlation", correlation, CORRELATION_CHARS_MAX, is_needed=True)


def check_issued(issued: Any, event_id: Any) -> int | None:
    """When an event with this id was first sent, in nanoseconds; None: now."""
    if issued is None:
        return None
    wanted = "an aware datetime: the time of the first attempt"
    if not isinstance(issued, datetime):
        refuse_argument("issued", issued, wanted)
    try:
        issued_ns = nanoseconds_of(issued)
    except Rejected:
        refuse_argument("issued", issued, wanted)
    if event_id is None:
        raise Rejected(
            "host.issued_without_id", "`issued` says when an id was first sent, and there is no id",
            hint="Send every attempt with the same id.",
        )  # fmt: skip
    return max(0, issued_ns)


def check_who_and_why(who: Any, why: Any) -> tuple[str, str]:
    """Who does something, and why: both are journaled."""
    if who is None or (isinstance(who, str) and not str.__str__(who)):
        raise Rejected("host.no_who", "the journal needs to know who does this", hint="Pass who=...")
    who = _check_text("who", who, WHO_CHARS_MAX, is_needed=True)
    return who, _check_text("why", why, WHY_CHARS_MAX, is_needed=False)


def check_text(name: str, value: Any) -> str:
    """A short text that is journaled, such as the code of a receipt given by hand."""
    return _check_text(name, value, WHY_CHARS_MAX, is_needed=False)


def check_name(name: str, value: Any) -> str:
    """The name of something: a text that is not empty."""
    return _check_text(name, value, WHO_CHARS_MAX, is_needed=True)


def check_verb(verb: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """An operator's verb; returns its arguments as they can be journaled, whatever classes theirs are of."""
    if not isinstance(verb, str) or verb not in VERBS:
        raise Rejected(
            "host.verb", "there is no verb {verb}", verb=shown(verb),
            hint=f"There are: {', '.join(sorted(VERBS))}.",
        )  # fmt: skip
    found = {}
    for name, value in arguments.items():
        try:
            data = encode(value)
        except CelluleError as error:
            refuse_argument(name, value, "a value that can be journaled", f"refused: {error}")
        if len(data) > CONTROL_BYTES_MAX:
            refuse_argument(name, value, f"at most {CONTROL_BYTES_MAX} bytes long", f"{len(data)} bytes long")
        found[name] = decode_trusted(data)
    return found


def check_timeout(timeout: Any) -> float | None:
    """How many seconds a caller waits, None without a limit; none or less is over at once."""
    if timeout is None:
        return None
    seconds = inf
    if isinstance(timeout, float):
        seconds = float.__float__(timeout)
    elif isinstance(timeout, int) and not isinstance(timeout, bool):
        with suppress(OverflowError):
            seconds = float(int.__index__(timeout))
    if not isfinite(seconds):
        raise Rejected(
            "host.timeout", "timeout is a number of seconds, not {found}", found=shown(timeout),
            hint="Write timeout=2.5, or leave it out to wait without a limit.",
        )  # fmt: skip
    return seconds


def shown(value: object) -> str:
    """A value for a message: short, and printable whatever it is."""
    if isinstance(value, str):
        value = str.__str__(value)  # and nothing of a class of its own
    if type(value) in _SHOWN:
        text = ascii(value[:SHOWN_MAX] if isinstance(value, str | bytes) else value)
        return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
    return f"of type {type_name(value)}"


def _check_text(name: str, value: Any, limit: int, *, is_needed: bool) -> str:
    if not isinstance(value, str):
        refuse_argument(name, value, "a text")
    if is_needed and not value:
        refuse_argument(name, value, "a text that is not empty")
    plain = _plain_text(name, value)
    if len(plain) > limit:
        refuse_argument(name, plain, f"at most {limit} characters long", f"{len(plain)} characters long")
    return plain


def _plain_text(name: str, value: str) -> str:
    plain = str.__str__(value)
    try:
        plain.encode()
    except UnicodeEncodeError:
        refuse_argument(name, plain, "text in UTF-8; this has a lone surrogate")
    return plain


def refuse_argument(name: str, value: Any, wanted: str, found: str = "") -> NoReturn:
    """Refuse what a call was given under a name."""
    raise Rejected(
        "host.argument", "`{name}` is {found}; it must be {wanted}", name=name,
        found=found or shown(value), wanted=wanted, hint="Nothing was changed.",
    )  # fmt: skip


def plain_bytes(value: bytes) -> bytes:
    """Bytes as what they are, whatever their class makes of them."""
    return value if type(value) is bytes else b"".join((value,))


def check_list(name: str, given: Any, wanted: str) -> Iterator[Any]:
    """Begin to go through what a call was given; a text is no list, though it is one of its letters."""
    if isinstance(given, str | bytes | Mapping):
        refuse_argument(name, given, wanted)
    try:
        return iter(given)
    except Exception:  # noqa: BLE001 - it is no list, or one whose class raises
        refuse_argument(name, given, wanted)


def check_wait(wait: object) -> None:
    """Refuse to wait for what there is not."""
    if not isinstance(wait, str) or str.__str__(wait) not in ("durable", "applied", "reply"):
        raise Rejected("host.wait", "wait is {wait}; it is durable, applied or reply", wait=shown(wait))


def check_reply_class(reply: object) -> Literal["reply"]:
    """Refuse what cannot be the class of a reply, before the event is applied; then it is waited for."""
    if not isinstance(reply, type):
        refuse_argument("reply", reply, "the class of the reply")
    return "reply"


def event_key(types: WorldCodecs, schema: str, key: Any) -> bytes:
    """An explicit key as bytes: by the key of the first module that takes the event."""
    if isinstance(key, bytes):
        return plain_bytes(key)
    routes, modules = types.manifest.routes, types.manifest.modules
    keyed = [each.base for each in routes.get(schema, ()) if modules[each.base].cell_key is not None]
    if not keyed:
        raise Rejected("host.no_key", "no module takes {schema} by a key", schema=schema)
    return types.key(keyed[0], key)
