"""The lists of a world that are kept in memory as a whole, as the rows of their indexes in a snapshot.

    pending     (n, 0) -> message, (n, 1) ... -> [module, key]: what the last frame emitted, and to whom
    ready       (n, 0) -> [module, key]: the ring, first to run first
    held        (n, 0) -> [module, key]: by module, first to run first
    open        module -> [open intents, whether it is at its limit]
    spent       grant -> [period, count]
    spent_by    hash of grant and spender -> [grant, spender, period, count]
    schedules   name -> [fingerprint, due_ns, paused]
    moves       module -> [control, last key]: the whole maps that are becoming cells, if there are any

They are fixed when a snapshot begins, and made into chunks in slices; opening a world reads them whole. What
is larger than memory (cells, timers, intents) has a live view of its index instead.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

from cellule.errors import Corrupted
from cellule.kernel.index import pair_key, pair_of, scan_all
from cellule.kernel.need import Need, Nodes
from cellule.kernel.state.cells import Message, message_of, message_value, pack_message
from cellule.kernel.state.intent_id import spender_hash
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.rows import MapMove, ScheduleRow
from cellule.kernel.state.snapshot_schema import (
    KEY_BYTES,
    is_cell,
    is_message,
    is_move,
    is_open,
    is_schedule,
    is_spent,
    is_spent_by,
)
from cellule.values.cid import Cid

Rows = dict[bytes, Any]

_FITS: Final[dict[str, Callable[[Any], bool]]] = {
    "pending": lambda row: is_message(row) or is_cell(row),
    "ready": is_cell,
    "held": is_cell,
    "open": is_open,
    "spent": is_spent,
    "spent_by": is_spent_by,
    "schedules": is_schedule,
    "moves": is_move,
}
_BY_NAME: Final = frozenset(("open", "spent", "schedules", "moves"))


def parts_of(saved: dict[str, Any]) -> list[tuple[str, Any]]:
    """These lists in the root of a snapshot: of each its name, and its [link, count] or None."""
    return [(name, part) for name, part in (*saved.items(), *saved["budgets"].items()) if name in _FITS]


def save(ledger: Ledger) -> dict[str, Rows]:
    """The rows of all lists as they are now; messages stay as they are until `packed`."""
    book = ledger.book
    held = ((base, key) for base in sorted(ledger.held) for key in ledger.held[base])
    return {
        "pending": {
            pair_key(number, place): part
            for number, (message, targets) in enumerate(ledger.pending)
            for place, part in enumerate((message, *map(list, targets)))
        },
        "ready": _numbered((slot.cells.base, slot.key) for slot in ledger.ring),
        "held": _numbered(held),
        "open": {
            name.encode(): [book.counts.get(name, 0), name in book.over]
            for name in book.counts.keys() | book.over
        },
        "spent": {name.encode(): list(spent) for name, spent in book.spent.items()},
        "spent_by": {
            spender_hash([grant, spender]): [grant, spender, period, count]
            for grant, (period, counts) in book.spent_by.items()
            for spender, count in counts.items()
        },
        "schedules": {name.encode(): row for name, row in book.schedules.items()},
        "moves": {name.encode(): [move.control, move.last] for name, move in ledger.moves.items()},
    }


def packed(name: str, row: Any, blocks: dict[Cid, bytes]) -> Any:
    """A row as the index stores it; long values are added to `blocks`."""
    if name == "pending" and isinstance(row, Message):
        return pack_message(message_value(row), blocks)
    return row


def read(name: str, saved: list[Any] | None, nodes: Nodes) -> Generator[Need, None, Rows]:
    """The rows of a list in a snapshot, each proven."""
    if saved is None:
        return {}
    link, count = saved
    rows = yield from scan_all(link.cid, nodes)
    fits, is_key = _FITS[name], _is_name if name in _BY_NAME else _is_pair
    if len(rows) != count or not all(is_key(key) and fits(row) for key, row in rows):
        raise Corrupted(
            "kernel.list_damaged", "{name} is not a list of {count} rows as they should be: {cid}",
            name=name, count=count, cid=str(link.cid),
        )  # fmt: skip
    return dict(rows)


def load(name: str, rows: Rows, ledger: Ledger) -> None:
    """Take over the rows of a list."""
    book = ledger.book
    match name:
        case "pending":
            ledger.pending = _pending(rows)
        case "ready":
            for base, key in rows.values():
                ledger.restore_ready(base, key)
        case "held":
            held: dict[str, list[bytes]] = {}
            for base, key in rows.values():
                held.setdefault(base, []).append(key)
            for base, keys in held.items():
                ledger.restore_held(base, keys)
        case "open":
            book.counts = {key.decode(): count for key, (count, _) in rows.items() if count}
            book.over = {key.decode() for key, (_, is_over) in rows.items() if is_over}
        case "spent":
            book.spent = {key.decode(): (period, count) for key, (period, count) in rows.items()}
        case "spent_by":
            for grant, spender, period, count in rows.values():
                book.spent_by.setdefault(grant, (period, {}))[1][spender] = count
        case "moves":
            ledger.moves = {key.decode(): MapMove(*row) for key, row in rows.items()}
        case _:
            _load_schedules(rows, ledger)


def _load_schedules(rows: Rows, ledger: Ledger) -> None:
    for key, row in rows.items():
        ledger.book.put_schedule(key.decode(), ScheduleRow(*row))


def _is_pair(key: bytes) -> bool:
    return len(key) == KEY_BYTES


def _is_name(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _numbered(cells: Iterable[tuple[str, bytes]]) -> Rows:
    return {pair_key(number, 0): [base, key] for number, (base, key) in enumerate(cells)}


def _pending(rows: Rows) -> list[tuple[Message, list[tuple[str, bytes]]]]:
    pending: list[tuple[Message, list[tuple[str, bytes]]]] = []
    for key, row in rows.items():
        number, place = pair_of(key)
        if place == 0 and number == len(pending) and is_message(row):
            pending.append((message_of(row), []))
        elif place and number == len(pending) - 1 and place == len(pending[-1][1]) + 1 and is_cell(row):
            pending[-1][1].append((row[0], row[1]))
        else:
            raise Corrupted(
                "kernel.list_damaged", "pending has a row that does not fit at ({number}, {place})",
                number=number, place=place,
            )  # fmt: skip
    return pending
