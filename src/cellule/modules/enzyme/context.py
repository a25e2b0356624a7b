"""`EnzymeContext`: what an enzyme sees, and what it may do. Doing only notes it down: the kernel makes it so.

The tree is as it was when the beat began, for everybody in it: what a run writes or emits shows in the next
beat. Time, chance and ids derive from the journal, as in a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from random import Random
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from cellule.errors import Rejected
from cellule.kernel.heartbeat.paths import parse_path
from cellule.kernel.limits import RUN_ACTIONS_MAX
from cellule.kernel.program import EnzymeCall, StepFault, TreeView
from cellule.modules.enzyme.operations import EnzymeOperations
from cellule.modules.python.context import Moment
from cellule.values.cbor import decode_trusted
from cellule.values.requests import Request

RETRY: Final = -1
"""Return it to be run again in the next beat, with all that matches."""
FATAL: Final = -2
"""Return it to drop what this run did, and the rest of this impulse's enzymes."""
LIST_DEFAULT: Final = 1_000  # names in a page of a listing

Severity = Literal["debug", "info", "warn", "error", "fatal"]
_ABSENT: Final[Any] = object()


class _Origin(NamedTuple):
    """What time and chance derive from."""

    now_ns: int
    entropy: bytes
    key: bytes = b""


class EnzymeContext:
    """The first argument of an enzyme."""

    __slots__ = (
        "_actions", "_call", "_encode", "_moment", "_op", "_payload", "_places", "_request", "_tree",
    )  # fmt: skip

    def __init__(
        self, call: EnzymeCall, tree: TreeView, actions: list[dict[str, Any]],
        encode: Callable[[object, str], bytes], request: Callable[[Request], dict[str, Any]],
    ) -> None:  # fmt: skip
        self._call = call
        self._tree = tree
        self._actions = actions
        self._encode = encode
        self._request = request
        self._moment = Moment(_Origin(call.now_ns, call.entropy), bytes)
        self._payload: Any = _ABSENT
        self._op: EnzymeOperations | None = None
        self._places = 0

    # What it was called with

    @property
    def payload(self) -> Any:
        """What the signal carries, as plain values; None where it carries nothing."""
        if self._payload is _ABSENT:
            data = self._call.payload
            self._payload = None if data is None else decode_trusted(data)
        return self._payload

    @property
    def name(self) -> str:
        """The name under which this enzyme is registered."""
        return self._call.name

    @property
    def beat(self) -> int:
        """The number of this beat."""
        return self._call.beat

    @property
    def world(self) -> UUID:
        """The world this runs in; a fork has another one."""
        return UUID(bytes=self._call.world)

    @property
    def now(self) -> datetime:
        """The time of this beat, in UTC, to the microsecond."""
        return self._moment.now

    @property
    def now_ns(self) -> int:
        """The time of this beat in nanoseconds since 1970."""
        return self._moment.now_ns

    @property
    def random(self) -> Random:
        """A generator of this run's own, seeded from the journal."""
        return self._moment.random

    def uuid(self) -> UUID:
        """A new id (UUIDv7): the next of this run's sequence."""
        return self._moment.uuid()

    # The tree

    def read(self, path: str, default: Any = None) -> Any:
        """The value at a path, as plain values; `default` where there is no node, or one without a value."""
        state = self._tree.read(_place(path))
        held: Any = {} if state is None else decode_trusted(state)
        return held.get("value", default)

    def exists(self, path: str) -> bool:
        """Tell whether there is a node; the root is always there."""
        place = _place(path)
        return place == "/" or self._tree.read(place) is not None

    def list(self, path: str = "/", *, after: str | None = None, limit: int = LIST_DEFAULT) -> list[str]:
        """The names right below a path, in their order; `after` is the last name of the page before."""
        name = None if after is None else parse_path(after, "after")[1:]
        return self._tree.names(_place(path), name, limit)

    def write(self, path: str, value: object = None) -> None:
        """Give a node a value, and make those above it that are missing; without a value it is a folder."""
        held = {} if value is None else {"value": self._plain(value, "value")}
        self._do("write", path=parse_path(path), **held)

    def delete(self, path: str) -> None:
        """Delete a node, all below it, and what is bound to them; nothing happens where there is none."""
        self._do("delete", path=parse_path(path))

    # Signals

    def signal(
        self, signal: str | None = None, target: str | None = None, *, payload: object = None,
        beat: int | None = None,
    ) -> None:  # fmt: skip
        """Emit an impulse for the next beat, or a later one: a signal, a target, or both."""
        given = {
            "signal": None if signal is None else parse_path(signal, "signal"),
            "target": None if target is None else parse_path(target, "target"),
            "payload": None if payload is None else self._plain(payload, "payload"), "beat": beat,
        }  # fmt: skip
        self._do("signal", **{name: each for name, each in given.items() if each is not None})

    def report(self, severity: Severity, text: str) -> None:
        """Emit the diagnostic `sig_cei/<severity>`."""
        self._do("report", severity=severity, text=text)

    def effect(self, request: Request, *, then: str | None = None, target: str | None = None) -> None:
        """Ask for an effect; its receipt is the payload of the signal `then`.

        That signal has the target of this impulse, unless another one is given.
        """
        place = self._call.target if target is None else parse_path(target, "target")
        made = {**self._request(request), "then": None if then is None else parse_path(then, "then")}
        self._do("effect", **{name: each for name, each in made.items() if each is not None}, target=place)

    # Operations and mailboxes

    @property
    def op(self) -> EnzymeOperations:
        """Operations: `ctx.op.start(...)`, `state`, `await_`, `close`, `get`."""
        if self._op is None:
            self._op = EnzymeOperations(self._call, self._tree, self._do, self._encode)
        return self._op

    def next_place(self) -> str:
        """A new name for what this run hands in: no other of the beat has it, and they order in turn."""
        self._places += 1
        return f"{self._call.place:08d}-{self._places:06d}"

    def intervals(self, samples: int) -> Sequence[int]:
        """The newest intervals between beats in ns; of the 64 newest, all for 0."""
        return self._call.intervals[-samples:] if samples else self._call.intervals

    # Enzymes

    def bind(self, path: str, name: str, *, propagate: bool = False) -> None:
        """Bind a name to a node, and with `propagate` to all below it, from the next beat on."""
        self._do("bind", path=parse_path(path), name=name, propagate=propagate)

    def unbind(self, path: str, name: str) -> None:
        """End a binding at a node, also one that is passed on to it; from the next beat on."""
        self._do("unbind", path=parse_path(path), name=name)

    def register(
        self, name: str, query: str, *, module: str, match: Literal["exact", "prefix"] = "exact",
        before: Sequence[str] = (), after: Sequence[str] = (), access: Literal["ro", "rw"] = "rw",
        flags: Sequence[str] = (), **limits: int,
    ) -> None:  # fmt: skip
        """Register an enzyme, whose code is that of a module such as `shop/resize`; from the next beat on.

        `limits` are `retry_limit`, `backoff`, `depth` and `signals`, as in `@app.enzyme`.
        """
        entry = {"name": name, "query": query, "module": module, "match": match, "access": access, **limits}
        names = {"before": [*before], "after": [*after], "flags": [*flags]}
        self._do("register", entry={**entry, **names})

    def _do(self, what: str, **fields: Any) -> None:
        if len(self._actions) > RUN_ACTIONS_MAX:
            raise StepFault("heartbeat.actions", f"a run does at most {RUN_ACTIONS_MAX} things")
        self._actions.append({"do": what, **fields})

    def _plain(self, value: object, what: str) -> Any:
        """A copy as plain values: what its author does with it later changes nothing."""
        return decode_trusted(self._encode(value, what))


def _place(path: str) -> str:
    """A path that may be read."""
    place = parse_path(path)
    if place.startswith(("/rt/", "/cells/")) or place in ("/rt", "/cells"):
        raise Rejected(
            "heartbeat.unreadable", "{path} cannot be read by an enzyme: it is a view of what is recorded",
            path=path, hint="Read it from outside, or have it sent as the payload of a signal.",
        )  # fmt: skip
    return place
