"""Where things stand in the tree below a mailbox, and what a message is there.

    M                                        {kind, owner?, ttl?}: what makes a node a mailbox
    M/msgs/<id>                              a message
    M/msgs/<id>/acks/<reader>                who has acknowledged it, on a board
    M/meta/runtime/next_msg_id               the counter of ids
    M/meta/runtime/intake/<beat>-<place>     what was posted or acknowledged and is not handled yet
    M/meta/runtime/outcomes/<beat>-<place>   what became of it, for those who asked
    M/meta/runtime/expiries/<beat>/<id>      the buckets of deadlines in beats
    M/meta/runtime/exp_wall/<ns>/<id>        the buckets of deadlines in wall time
    M/meta/runtime/turn                      the beat for which the next turn is queued

Numbers have 20 digits in names, so that they list in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from cellule.errors import Rejected
from cellule.heartbeat.mailboxes.ttl import TtlSpec
from cellule.kernel.heartbeat.paths import ROOT, child_of, parse_path

Kind = Literal["board", "inbox"]
Which = Literal["expiries", "exp_wall"]
KINDS: Final[tuple[Kind, ...]] = ("board", "inbox")
NUMBER_DIGITS: Final = 20
NUMBER_MAX: Final = 2**63 - 1
NAME_BYTES_MAX: Final = 200
"""Bytes of an id of a message, and of the name of a reader."""
TTL_MAX: Final = 2**62


class Mailbox(NamedTuple):
    """A node that is a mailbox: a public board, or the private inbox of its owner."""

    kind: Kind
    owner: str | None = None
    ttl: TtlSpec | None = None


class Message(NamedTuple):
    """A message as it stands in the tree; it is in the buckets of its two deadlines.

    `projected`: the deadline in beats only says when to look at the one in wall time again.
    """

    id: str
    body: Any
    sender: str | None
    sealed: bool
    issued_beat: int
    issued_ns: int
    beat_deadline: int | None = None
    wall_deadline: int | None = None
    projected: bool = False

    def as_data(self) -> dict[str, Any]:
        """What the node of the message holds; its name is the id."""
        return {name: value for name, value in self._asdict().items() if name != "id"}

    def envelope(self) -> dict[str, Any]:
        """What two sealed messages have in common that are the same message."""
        return {"body": self.body, "sender": self.sender}


def message_of(name: str, data: Any) -> Message | None:
    """The message of a node; None where somebody wrote what is none."""
    if not isinstance(data, Mapping) or not set(data) <= _FIELDS.keys() or "body" not in data:
        return None
    if not all(_FIELDS[field](value) for field, value in data.items()):
        return None
    missing = {"sender": None, "sealed": False, "issued_beat": 0, "issued_ns": 0}
    return Message(name, **{**missing, **data})


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_deadline(value: object) -> bool:
    return value is None or (type(value) is int and 0 <= value <= NUMBER_MAX)


_FIELDS: Final[dict[str, Callable[[Any], bool]]] = {
    "body": lambda _: True, "sender": lambda value: isinstance(value, str | None),
    "sealed": lambda value: isinstance(value, bool), "issued_beat": _is_number, "issued_ns": _is_number,
    "beat_deadline": _is_deadline, "wall_deadline": _is_deadline,
    "projected": lambda value: isinstance(value, bool),
}  # fmt: skip


def mailbox_of(path: str, data: Any) -> Mailbox:
    """The mailbox at a path; refused where the node is none."""
    if not isinstance(data, Mapping) or data.get("kind") not in KINDS:
        raise Rejected(
            "mailbox.unknown", "{path} is not a mailbox", path=path,
            hint="Make one with `mailbox create`, or write the path of one.",
        )  # fmt: skip
    return Mailbox(data["kind"], data.get("owner"), ttl_of(data.get("ttl")))


def mailbox_data(kind: object, owner: object, ttl: object) -> dict[str, Any]:
    """What the node of a new mailbox holds."""
    data: dict[str, Any] = {"kind": check_kind(kind)}
    if owner is not None:
        data["owner"] = check_name(owner, "owner")
    if ttl is not None:
        ttl_of(ttl)
        data["ttl"] = ttl
    return data


def check_path(path: object) -> str:
    """The path of a mailbox."""
    checked = parse_path(path, "mailbox")
    if checked == ROOT or checked.startswith(("/rt/", "/cells/")):
        raise _wrong("mailbox", path, "it is a path below the root, and not of what is recorded")
    return checked


def ttl_of(data: Any, field: str = "ttl") -> TtlSpec | None:
    """A spec as it was written: {beats?, unix_ns?, forever?}."""
    if data is None:
        return None
    known = {"beats", "unix_ns", "forever"}
    if not isinstance(data, Mapping) or not set(data) <= known:
        raise _wrong(field, data, "it is {beats?, unix_ns?, forever?}")
    for name in ("beats", "unix_ns"):
        value = data.get(name)
        if value is not None and (type(value) is not int or not 0 <= value <= TTL_MAX):
            raise _wrong(f"{field}.{name}", value, f"it is a number from 0 to {TTL_MAX}")
    if not isinstance(data.get("forever", False), bool):
        raise _wrong(f"{field}.forever", data["forever"], "it is true or false")
    return TtlSpec(data.get("beats"), data.get("unix_ns"), data.get("forever", False))


def check_name(value: object, field: str) -> str:
    """An id or the name of a reader: one segment of a path."""
    if not isinstance(value, str) or not value or "/" in value:
        raise _wrong(field, value, "it is a text without `/`, and not empty")
    parse_path(f"/{value}", field)
    if len(value.encode()) > NAME_BYTES_MAX:
        raise _wrong(field, value, f"it has at most {NAME_BYTES_MAX} bytes")
    return value


def check_kind(kind: object) -> Kind:
    """A kind of mailbox."""
    for known in KINDS:
        if kind == known:
            return known
    raise _wrong("kind", kind, f"it is one of: {', '.join(KINDS)}")


def _wrong(field: str, value: object, rule: str) -> Rejected:
    shown = repr(value)[:200]
    return Rejected("mailbox.argument", "{field} {value}: {rule}", field=field, value=shown, rule=rule)


def messages(mailbox: str) -> str:
    """The node above all messages."""
    return child_of(mailbox, "msgs")


def message(mailbox: str, name: str) -> str:
    """The node of a message."""
    return child_of(messages(mailbox), name)


def acknowledgements(mailbox: str, name: str) -> str:
    """The node above the readers that have acknowledged a message."""
    return child_of(message(mailbox, name), "acks")


def runtime(mailbox: str, name: str) -> str:
    """A node of what the mailbox keeps for itself."""
    return f"{mailbox}/meta/runtime/{name}"


def number_name(number: int) -> str:
    """A number as it stands in names."""
    return f"{number:0{NUMBER_DIGITS}d}"


def number_of(name: str) -> int | None:
    """The number that a name tells; None where it tells none."""
    is_number = len(name) == NUMBER_DIGITS and name.isascii() and name.isdigit()
    return int(name) if is_number and int(name) <= NUMBER_MAX else None


def bucket(mailbox: str, which: Which, deadline: int) -> str:
    """The node of a bucket."""
    return child_of(runtime(mailbox, which), number_name(deadline))


def entry_name(beat: int, place: str) -> str:
    """The name of what was handed in: it orders by beat, then by place."""
    return f"{number_name(beat)}-{place}"


def check_reader(path: str, mailbox: Mailbox, reader: str | None) -> None:
    """Who reads or acknowledges: on a board anybody with a name, in an inbox its owner alone."""
    if mailbox.kind == "board":
        check_name(reader, "reader")
    elif mailbox.owner is not None and reader != mailbox.owner:
        raise Rejected(
            "mailbox.private", "{path} is the inbox of {owner}, and {reader} asks",
            path=path, owner=mailbox.owner, reader=repr(reader), hint="Ask as its owner.",
        )  # fmt: skip
