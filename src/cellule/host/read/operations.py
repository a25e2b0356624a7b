"""Operations as people see them: a line for each, and the whole dossier of one."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cellule.errors import Rejected
from cellule.host.read.heartbeat import value_at
from cellule.host.read.reader import Reader
from cellule.kernel.heartbeat import operations as rules
from cellule.kernel.heartbeat.operations import HistoryEntry, Operation, Watcher
from cellule.kernel.heartbeat.paths import parse_path
from cellule.kernel.heartbeat.shown_operations import PLACE
from cellule.kernel.need import Need
from cellule.kernel.state.cell_pages import page_of_cells
from cellule.kernel.state.operations import MODULE
from cellule.kernel.state.writes import entry_at, state_of
from cellule.kernel.world import World

OPS_PATH: Final = "/rt/ops"
OPERATIONS_MAX: Final = 1_000  # operations that one page holds


@dataclass(frozen=True, slots=True)
class OperationView:
    """One operation: what was asked for, how far it is, who waits for it, and how it ended."""

    id: str
    verb: str
    target: str
    mode: str
    ttl: int
    issued_beat: int
    state: str
    code: int
    note: str | None
    status: str | None
    summary: str | None
    closed_beat: int | None
    history: tuple[HistoryEntry, ...]
    watchers: tuple[Watcher, ...]

    @property
    def path(self) -> str:
        """Where it stands in the tree: the target of its signals."""
        return f"{OPS_PATH}/{self.id}"

    @property
    def is_closed(self) -> bool:
        """Tell whether it has ended."""
        return self.status is not None


class OperationPage(NamedTuple):
    """Some operations in the order of creation, and the id to go on behind; None at the end."""

    operations: list[OperationView]
    next: str | None


def key_of(id: object) -> bytes:
    """The key of an operation, by its id or its path; refused where the text is neither."""
    text = id.removeprefix(f"{OPS_PATH}/") if isinstance(id, str) else ""
    key = rules.key_of(text)
    if key is None:
        raise Rejected(
            "operation.unknown", "there is no operation {id}", id=repr(id)[:200],
            hint="An id is `<beat>-<number>`, as `op start` and `op list` tell it.",
        )  # fmt: skip
    return key


async def get_operation(reader: Reader, id: str) -> OperationView:
    """The operation of an id, or the newest of what is done at a path, as of what is durable."""
    known = await find_operation(reader, id)
    if known is None:
        raise Rejected(
            "operation.unknown", "there is no operation {id}", id=repr(id)[:200],
            hint="`cellule op list` names those there are.",
        )  # fmt: skip
    return known


async def find_operation(reader: Reader, id: str) -> OperationView | None:
    """The same; None where there is none. A text that can be neither id nor path is refused."""
    found: object = id
    if is_place(id):
        place = PLACE + parse_path(id)
        found = ((await reader.ask(lambda world: value_at(world.ledger, place))) or {}).get("value")
        if found is None:
            return None
    key = key_of(found)
    operation = await reader.ask(lambda world: _find(world, key))
    return None if operation is None else view_of(key, operation)


def is_place(id: object) -> bool:
    """Tell whether this is the path of what is done, and no operation itself."""
    return isinstance(id, str) and id.startswith("/") and not id.startswith(f"{OPS_PATH}/")


async def list_operations(reader: Reader, after: str | None, limit: int, state: str | None) -> OperationPage:
    """A page of operations, those in a state or all."""
    if type(limit) is not int or not 0 < limit <= OPERATIONS_MAX:
        raise Rejected(
            "operation.argument", "{do}: {field} is {value}: {why}", do="list", field="limit", value=limit,
            why=f"it is a number from 1 to {OPERATIONS_MAX}",
        )  # fmt: skip
    begin = b"" if after is None else key_of(after) + b"\0"
    page = await reader.ask(lambda world: page_of_cells(world.ledger, MODULE, begin, None, limit))
    views = [
        view_of(key, rules.decode(entry.state))
        for key, entry in page.entries
        if isinstance(entry.state, bytes)
    ]
    following = None if page.next is None or not views else views[-1].id
    return OperationPage([each for each in views if state in (None, each.state)], following)


def _find(world: World, key: bytes) -> Generator[Need, None, Operation | None]:
    entry = yield from entry_at(world.ledger, MODULE, key)
    return None if entry is None else rules.decode((yield from state_of(world.ledger, entry)))


def view_of(key: bytes, operation: Operation) -> OperationView:
    """An operation as people see it."""
    envelope, closed = operation.envelope, operation.close
    return OperationView(
        rules.id_of(key), envelope.verb, envelope.target, envelope.mode, envelope.ttl, envelope.issued_beat,
        operation.state, operation.code, operation.note, None if closed is None else closed.status,
        None if closed is None else closed.summary, None if closed is None else closed.closed_beat,
        operation.history, operation.watchers,
    )  # fmt: skip


def as_json(view: OperationView) -> dict[str, Any]:
    """The dossier as JSON."""
    fields = {name: getattr(view, name) for name in view.__slots__}
    watchers = [
        {"want": each.want, "cont": each.cont, "armed": each.armed, "deadline": each.deadline}
        for each in view.watchers
    ]
    history = [each._asdict() for each in view.history]
    return {**fields, "path": view.path, "history": history, "watchers": watchers}
