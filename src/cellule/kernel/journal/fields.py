"""The fields of records: what each may be, and how it stands in a frame.

A `Form` belongs to a type: it proves a stored field (for `check` and on import, where bytes come from
elsewhere), and it puts module and schema names back where a frame holds positions in its table of names. The
types at the end are what `records.py` is written with; the table of kinds finds their forms there.

Restore proves nothing here: its frames were chained by the world's own writer, and what does not fit
contradicts the journal there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, Final, NamedTuple

from cellule.errors import CelluleError
from cellule.kernel.journal.codes import Delivery, Settled, Status, VerdictCode
from cellule.values.cbor import decode
from cellule.values.envelope import check_envelope, open_envelope
from cellule.values.link import Link

Names = Sequence[str]
NameOf = Callable[[str], int]
"""Gives the position of a name in the table of the frame under way."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a field may be; `read` and `write` only where it differs between a record and a frame."""

    title: str
    fits: Callable[[Any, int], bool]  # a stored field, and how many names the frame has
    read: Callable[[Any, Names], Any] | None = None
    write: Callable[[Any, NameOf], Any] | None = None


WRITTEN_ARGUMENTS: Final = ("cells", "erasable", "more", "next", "queue", "sent", "stays", "under")
"""What the kernel adds to the arguments of a control: which cells and modules it concerned, that a manifest
has modules that ask for erasure, that there are more cells than the frame had room for, the cell at which a
control on all cells goes on, where the messages of cells went that became others, how many events a schedule
sent, and the cells that could not be moved, with the reasons; `op.start` says its `operation`, too."""


def given_arguments(verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a control as they were given: an id is remembered with these."""
    return {name: each for name, each in arguments.items() if not is_written(verb, name)}


def is_written(verb: str, name: str) -> bool:
    """Tell whether an argument of a control is one that only the kernel adds."""
    return name in WRITTEN_ARGUMENTS or (verb == "op.start" and name == "operation")


class RetentionTimer(NamedTuple):
    """What a timer is for: `rule` ("ttl" or "idle") may remove the cell born at `born`.

    The rule "sweep" is for all cells of the module from `key` on that were born up to `born`. The rule
    "answer" is for the intents that wait for the idempotency key at the place `key`; `born` is their depth.
    """

    rule: str
    module: str
    key: bytes
    born: int


class ScheduleTimer(NamedTuple):
    """What a timer is for: a schedule; an empty fingerprint means that it is gone.

    `made_up` tells that a backfill goes on in the next beat, and how many of its events are sent.
    `waiting_ns` is the due time of a run that waits until its cells are idle.
    """

    name: str
    fingerprint: bytes
    paused: bool
    made_up: int = 0
    waiting_ns: int = 0


# What fits


def is_count(value: Any, _: int = 0) -> bool:
    """Tell whether this is a whole number from 0."""
    return type(value) is int and value >= 0


def _is_text(value: Any, _: int) -> bool:
    return isinstance(value, str)


def _are_calls(value: Any, _: int) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, list) and len(each) == 3 and is_count(each[0], 0)
        and type(each[1]) is str and type(each[2]) is str
        for each in value
    )  # fmt: skip


def _are_texts(value: Any, _: int) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def _is_bytes(value: Any, _: int) -> bool:
    return isinstance(value, bytes)


def _is_link(value: Any, _: int) -> bool:
    return isinstance(value, Link)


def _is_true(value: Any, _: int) -> bool:
    return value is True


def _is_name(value: Any, names: int) -> bool:
    return type(value) is int and 0 <= value < names


def _is_id(value: Any, _: int) -> bool:
    return value is None or isinstance(value, str | bytes)


def _is_value(value: Any, _: int) -> bool:
    if isinstance(value, Link):
        return True
    try:
        envelope = open_envelope(value)
        check_envelope(envelope)
        decode(envelope.data)
    except CelluleError:
        return False
    return True


def _is_state(value: Any, names: int) -> bool:
    return value is None or _is_value(value, names)


def _is_target(value: Any, names: int) -> bool:
    return (
        isinstance(value, list) and len(value) == 2 and _is_name(value[0], names)
        and isinstance(value[1], bytes)
    )  # fmt: skip


def _are_targets(value: Any, names: int) -> bool:
    return isinstance(value, list) and all(_is_target(target, names) for target in value)


def _is_timer_key(value: Any, _: int) -> bool:
    return isinstance(value, bytes) and len(value) == 16


def _is_fired(value: Any, names: int) -> bool:
    return value is None or _is_timer_key(value, names)


def _is_timer(value: Any, names: int) -> bool:
    if value is None:
        return True
    if not isinstance(value, list) or not 4 <= len(value) <= 5:
        return False
    what, name, key, number = value[:4]
    if len(value) == 5 and (what != "schedule" or not is_count(value[4]) or not value[4]):
        return False
    if (
        what not in ("ttl", "idle", "sweep", "answer", "schedule")
        or not _is_name(name, names)
        or not isinstance(key, bytes)
    ):
        return False
    return is_count(number)


def _are_limits(value: Any, names: int) -> bool:
    return (
        isinstance(value, dict) and bool(value)
        and all(type(name) is str and is_count(each, names) for name, each in value.items())
    )  # fmt: skip


def _are_arguments(value: Any, _: int) -> bool:
    if not isinstance(value, dict):
        return False
    cells, under = value.get("cells", []), value.get("under", [])
    if not isinstance(under, list) or not all(isinstance(base, str) for base in under):
        return False
    moved = value.get("queue", [])
    if not isinstance(moved, list) or not all(map(_is_moved, moved)):
        return False
    following = [value["next"]] if "next" in value else []
    return isinstance(cells, list) and all(
        isinstance(cell, list) and len(cell) == 2 and isinstance(cell[0], str) and isinstance(cell[1], bytes)
        for cell in [*cells, *following]
    )


def _is_moved(value: Any) -> bool:
    """Tell whether this is [module, height, key]."""
    return (
        isinstance(value, list) and len(value) == 3 and isinstance(value[0], str) and is_count(value[1])
        and isinstance(value[2], bytes)
    )  # fmt: skip


def code_form(codes: type[IntEnum]) -> Form:
    """The form of a number that stands for one of a set."""
    return Form("int", lambda value, _: type(value) is int and 0 <= value < len(codes))


def extras_form(known: Mapping[str, Form]) -> Form:
    """The form of a record's last field: null, or a map of some of these fields."""

    def fits(value: Any, names: int) -> bool:
        return value is None or (
            isinstance(value, dict)
            and bool(value)
            and all(field in known and known[field].fits(each, names) for field, each in value.items())
        )

    return Form("extras", fits, lambda value, _: value or {}, lambda value, _: value or None)


# What differs between a record and a frame


def _read_name(position: Any, names: Names) -> str:
    if type(position) is not int or position < 0:  # a list would take -1 for its last
        raise ValueError(f"{position!r} is no position in a table of names")
    return names[position]


def _write_name(name: str, name_of: NameOf) -> int:
    return name_of(name)


def _read_targets(targets: Any, names: Names) -> list[Target]:
    return [(_read_name(position, names), key) for position, key in targets]


def _write_targets(targets: Sequence[Target], name_of: NameOf) -> list[list[Any]]:
    return [[name_of(base), key] for base, key in targets]


def _read_timer(value: Any, names: Names) -> RetentionTimer | ScheduleTimer | None:
    if value is None:
        return None
    what, position, key, number, *waiting = value
    name = _read_name(position, names)
    if what == "schedule":  # 0 armed, 1 paused, n + 1: n of a backfill are sent
        return ScheduleTimer(name, key, number == 1, max(0, number - 1), *waiting)
    return RetentionTimer(what, name, key, number)


def _write_timer(timer: RetentionTimer | ScheduleTimer | None, name_of: NameOf) -> list[Any] | None:
    match timer:
        case RetentionTimer(rule, module, key, born):
            return [rule, name_of(module), key, born]
        case ScheduleTimer(name, fingerprint, paused, made_up, waiting_ns):
            number = 1 if paused else made_up + bool(made_up)
            return ["schedule", name_of(name), fingerprint, number, *([waiting_ns] if waiting_ns else ())]
    return None


# The types that records are written with

_VALUE: Final = Form("value", _is_value)

Target = tuple[str, bytes]
"""A cell: its module and its key."""

Count = Annotated[int, Form("int", is_count)]
Text = Annotated[str, Form("text", _is_text)]
Texts = Annotated[list[str], Form("texts", _are_texts)]
Calls = Annotated[list[list[Any]], Form("calls", _are_calls)]
Bytes = Annotated[bytes, Form("bytes", _is_bytes)]
BlockLink = Annotated[Link, Form("link", _is_link)]
Flag = Annotated[bool, Form("true", _is_true)]
Name = Annotated[str, Form("name", _is_name, _read_name, _write_name)]
EventId = Annotated[str | bytes | None, Form("text, bytes or null", _is_id)]
Stored = Annotated[list[Any] | Link, _VALUE]
"""A value as a record holds it: an envelope, or a link where the bytes are a block of their own."""
StoredState = Annotated[list[Any] | Link | None, Form("value or null", _is_state)]
Targets = Annotated[Sequence[Target], Form("targets", _are_targets, _read_targets, _write_targets)]
TimerKey = Annotated[bytes, Form("timer key", _is_timer_key)]
Fired = Annotated[bytes | None, Form("timer key or null", _is_fired)]
TimerTarget = Annotated[
    RetentionTimer | ScheduleTimer | None, Form("timer or null", _is_timer, _read_timer, _write_timer)
]
Limits = Annotated[Mapping[str, int], Form("map of int", _are_limits)]
Arguments = Annotated[Mapping[str, Any], Form("map", _are_arguments)]
StepStatus = Annotated[int, code_form(Status)]
Verdict = Annotated[int, code_form(VerdictCode)]
IntentEnd = Annotated[int, code_form(Settled)]
ReceiptDelivery = Annotated[int, code_form(Delivery)]
