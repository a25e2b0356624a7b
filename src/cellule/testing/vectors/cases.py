"""The cases of a file: one type for each section. What a case expects is plain JSON: it is only compared."""

from __future__ import annotations

from typing import Any

import msgspec


class Part(msgspec.Struct):
    """An object of the format; fields that are not of the format are passed over."""


class Impulse(Part):
    """A signal, a target, or both; `beat` is a later one than the next."""

    signal: str | None = None
    target: str | None = None
    payload: Any = None
    beat: int | None = None


class Action(Part):
    """What an enzyme does in its call number `call`, or in every call for 0."""

    do: str
    call: int = 0
    signal: str | None = None
    target: str | None = None
    enzyme: int | None = None
    path: str | None = None
    name: str | None = None
    propagate: bool = False
    payload: Any = None
    beat: int | None = None


class Enzyme(Part):
    """A descriptor, and what a call of it returns and does."""

    id: int
    name: str
    query: str
    match: str = "exact"
    before: list[str] = []
    after: list[str] = []
    flags: Any = None
    rc: list[int] = []
    actions: list[Action] = []
    retry_limit: int | None = None
    backoff: int = 0


class Bound(Part):
    """A binding or a tombstone on a node."""

    path: str
    name: str
    propagate: bool = False
    tombstone: bool = False


class Input(Part):
    """What happens before a step: registrations, then impulses."""

    enqueue: list[Impulse] = []
    register: list[int] = []


class Case(Part, kw_only=True):
    """What all cases have."""

    id: str
    group: str = ""
    title: str = ""


class AgendaCase(Case, kw_only=True):
    """Enzymes, bindings and impulses of some beats; an expectation for each step."""

    enzymes: list[Enzyme] = []
    register: list[int] = []
    cells: list[str] = []
    bindings: list[Bound] = []
    beats: list[Input]
    expect: list[dict[str, Any]]


class OpsAction(Part):
    """One line of a script of operations; `op` is the file's own number of an operation."""

    do: str
    op: int | None = None
    verb: str = ""
    mode: str = ""
    target: str = "/env/op"
    ttl: int = 0
    state: str = ""
    code: int = 0
    note: str | None = None
    want: str = ""
    cont: str = ""
    status: str = ""
    summary: str | None = None
    payload: Any = None
    expect: Any = msgspec.UNSET


class OpsCase(Case, kw_only=True):
    """A script of operations and steps."""

    script: list[OpsAction]


class ClockAction(Part):
    """One line of a script of the wall clock."""

    do: str
    beat: int = 0
    ns: int = 0
    window: int = 0
    expect: Any = msgspec.UNSET


class ClockCase(Case, kw_only=True):
    """A script of the wall clock."""

    script: list[ClockAction]


class Spec(Part):
    """One of the three specs of a TTL."""

    beats: int | None = None
    unix_ns: int | None = None
    forever: bool = False
    mode: str = ""
    ttl_mode: str = ""

    @property
    def is_forever(self) -> bool:
        """Tell whether it says for ever, in one of the forms there are."""
        return self.forever or "forever" in (self.mode, self.ttl_mode)


class Context(Part):
    """What is known of the moment."""

    issued_beat: int | None = None
    issued_unix_ns: int | None = None
    current_beat: int | None = None
    current_unix_ns: int | None = None


class Settings(Part):
    """How a beat is projected."""

    wallclock_disabled: bool = False
    beat_lookahead: int = 32
    spacing_samples: int = 8


class TtlCase(Case, kw_only=True):
    """One resolution of a TTL."""

    message: Spec | None = None
    mailbox: Spec | None = None
    topology: Spec | None = None
    context: Context = msgspec.field(default_factory=Context)
    published: list[tuple[int, int]] = []
    settings: Settings = msgspec.field(default_factory=Settings)
    expect: dict[str, Any]


class MessageAction(Part):
    """One selection of an id; `store`: the message is kept under it."""

    do: str
    explicit: str | None = None
    envelope: str | None = None
    sealed: bool = False
    store: bool = False
    expect: Any = msgspec.UNSET


class MessageCase(Case, kw_only=True):
    """A script of selections in one mailbox."""

    script: list[MessageAction]


class Recorded(Spec):
    """A message is recorded with this TTL."""

    issued_beat: int | None = None
    issued_unix_ns: int | None = None


class PlanQuestion(Part):
    """What is due at a beat and a time."""

    current_beat: int | None = None
    current_unix_ns: int | None = None
    expect: Any = msgspec.UNSET


class RetentionCase(Case, kw_only=True):
    """Records of one message, and what is due at some moments; `buckets` is what there is at the end."""

    message: str
    records: list[Recorded] = []
    plans: list[PlanQuestion] = []
    buckets: dict[str, Any] = {}
