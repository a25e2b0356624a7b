"""What the parts of a snapshot may be: proven for its root when a world opens, for everything by `check`.

A part that hashes to its CID can still have been written wrongly, or by someone else. Opening a world reads
roots and lists, so those are proven then; cells are proven one by one as they are read (`cells.unpack`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cellule.errors import CelluleError
from cellule.values.envelope import open_envelope
from cellule.values.link import Link

KEY_BYTES = 16  # of timers, stopped cells and dead letters: two 64-bit numbers


_INDEXES = (
    "timers", "stopped", "dead_letters", "intents", "pending", "ready", "held", "schedules",
)  # fmt: skip


def wrong_part(saved: dict[str, Any]) -> str | None:
    """The name of the first part of a snapshot's root that is not what it should be, or None."""
    frame = saved["frame"]
    fits = {
        "height": is_count(saved["height"]),
        "beat": is_count(saved["beat"]),
        "now_ns": is_count(saved["now_ns"]),
        "paused": isinstance(saved["paused"], bool),
        "frame": frame is None or (isinstance(frame, bytes) and len(frame) == 32),
        "eras": bool(saved["eras"]) and _is_list(saved["eras"], _is_counted_link),
        "modules": isinstance(saved["modules"], dict)
        and all(map(_is_counted_link, saved["modules"].values())),
        **{name: _is_index(saved[name]) for name in _INDEXES},
        "moves": "moves" not in saved or (saved["moves"] is not None and _is_index(saved["moves"])),
        "dedupe": _is_dedupe(saved["dedupe"]),
        "idempotency": saved["idempotency"] is None or _is_idempotency(saved["idempotency"]),
        "budgets": _is_budgets(saved["budgets"]),
        "heartbeat": saved["heartbeat"] is None or _is_heartbeat(saved["heartbeat"]),
    }
    return next((part for part, fit in fits.items() if not fit), None)


def is_count(value: Any) -> bool:
    """Tell whether this is a whole number from 0."""
    return type(value) is int and value >= 0


def is_heights(value: Any) -> bool:
    """Tell whether this is a list of heights."""
    return isinstance(value, list) and all(map(is_count, value))


def is_cell(value: Any) -> bool:
    """Tell whether this is [module, key]."""
    return isinstance(value, list) and len(value) == 2 and type(value[0]) is str and type(value[1]) is bytes


def is_move(value: Any) -> bool:
    """Tell whether this is [control, last key]."""
    return isinstance(value, list) and len(value) == 2 and is_count(value[0]) and type(value[1]) is bytes


def is_message(value: Any) -> bool:
    """Tell whether this is [height, kind, schema, value, depth, expected]."""
    if not isinstance(value, list) or len(value) != 6:
        return False
    height, kind, schema, held, depth, expected = value
    return (
        is_count(height) and is_count(kind) and type(schema) is str and is_held(held) and is_count(depth)
        and (expected is None or is_count(expected) or _is_expected(expected) or _is_asker(expected)
             or is_call(expected))
    )  # fmt: skip


def is_call(value: Any) -> bool:
    """Tell whether this is [module, key, born, token, answer]."""
    return isinstance(value, list) and [*map(type, value)] == [str, bytes, int, str, str] and value[2] >= 0


def _is_asker(value: Any) -> bool:
    """Tell whether this is [born, entry]."""
    return isinstance(value, list) and len(value) == 2 and is_count(value[0]) and type(value[1]) is bytes


def _is_expected(value: Any) -> bool:
    """Tell whether this is [version, born, id]."""
    return (
        isinstance(value, list) and len(value) == 3 and is_count(value[0])
        and (value[1] is None or is_count(value[1]))
        and (value[2] is None or (type(value[2]) is bytes and len(value[2]) == KEY_BYTES))
    )  # fmt: skip


def is_held(value: Any) -> bool:
    """Tell whether this is a stored value: a link or an envelope."""
    if isinstance(value, Link) or (type(value) is list and len(value) == 1 and type(value[0]) is bytes):
        return True
    try:
        open_envelope(value)
    except CelluleError:
        return False
    return True


def is_bucket(value: Any) -> bool:
    """Tell whether this holds ids, heights and checks of the same number of ids."""
    if not isinstance(value, dict) or set(value) != {"checks", "heights", "ids"}:
        return False
    if not all(isinstance(part, bytes) for part in value.values()):
        return False
    count, rest = divmod(len(value["ids"]), 16)
    return not rest and len(value["heights"]) == 8 * count and len(value["checks"]) == 4 * count


TIMER_KINDS = ("ttl", "idle", "sweep", "answer", "intent", "approval", "outside", "schedule")


def is_timer(value: Any) -> bool:
    """Tell whether this is [what, module, key, number]; see `expiry.py` for what the parts are."""
    return (
        isinstance(value, list) and len(value) == 4 and value[0] in TIMER_KINDS and is_cell(value[1:3])
        and is_count(value[3])
    )  # fmt: skip


def is_stopped(value: Any) -> bool:
    """Tell whether this is [module, key, why]."""
    return isinstance(value, list) and len(value) == 3 and is_cell(value[:2]) and type(value[2]) is str


def is_dead_letter(value: Any) -> bool:
    """Tell whether this is [module, key, code, text, message], or with an intent instead of the message."""
    return (
        isinstance(value, list) and len(value) == 5 and is_cell(value[:2])
        and all(type(part) is str for part in value[2:4])
        and (is_message(value[4]) or is_failed_intent(value[4]))
    )  # fmt: skip


def is_failed_intent(value: Any) -> bool:
    """Tell whether this is {born, entry?, height, key?, kind, limits?, operation?, params, slot?}."""
    return (
        isinstance(value, dict) and {"born", "height", "kind", "params"} <= set(value)
        and set(value) <= {
            "born", "entry", "height", "key", "kind", "limits", "operation", "params", "slot",
        }
        and type(value.get("entry", b"")) is bytes and value.get("operation", True) is True
        and is_count(value["born"]) and are_limits(value.get("limits", {}))
        and is_count(value["height"]) and type(value["kind"]) is str and is_held(value["params"])
        and all(type(value.get(name, "")) is str for name in ("key", "slot"))
    )  # fmt: skip


def are_limits(value: Any) -> bool:
    """Tell whether this is a map of names to counts: a request's own limits of attempts."""
    return isinstance(value, dict) and all(type(name) is str and is_count(value[name]) for name in value)


_INTENT_FIELDS: dict[str, Callable[[Any], bool]] = {
    "params": is_held,
    "entry": lambda value: type(value) is bytes,
    "key": lambda value: type(value) is str,
    "limits": are_limits,
    "operation": lambda value: value is True,
    "slot": lambda value: type(value) is str,
    "grant": lambda value: type(value) is str,
    "rule": lambda value: type(value) is str,
    "due": lambda value: type(value) is bytes and len(value) == KEY_BYTES,
    "same": is_count,
    "since_ns": is_count,
    "text": lambda value: type(value) is str,
}


_INTENT_STATUSES = frozenset(("open", "parked", "waiting", "timer", "outside", "held", "denied"))


def is_intent(value: Any) -> bool:
    """Tell whether this is [id, module, key, born, kind, status, more]; asked whenever one is read."""
    if type(value) is not list or len(value) != 7:
        return False
    given, base, key, born, kind, status, more = value
    if (
        type(given) is not bytes or len(given) != 32 or type(base) is not str or type(key) is not bytes
        or type(born) is not int or born < 0 or type(kind) is not str or type(status) is not str
        or status not in _INTENT_STATUSES or type(more) is not dict
        or "params" not in more or "since_ns" not in more
    ):  # fmt: skip
        return False
    for name, field in more.items():
        fits = _INTENT_FIELDS.get(name)
        if fits is None or not fits(field):
            return False
    return True


def is_place(value: Any) -> bool:
    """Tell whether this is the hash of a kind and an idempotency key."""
    return type(value) is bytes and len(value) == KEY_BYTES


def is_remembered_key(value: Any) -> bool:
    """Tell whether this is [height, since_ns, receipt, waiters, params]."""
    if not isinstance(value, list) or len(value) != 5:
        return False
    height, since_ns, receipt, waiters, params = value
    return (
        is_count(height) and is_count(since_ns) and is_heights(waiters) and is_place(params)
        and (receipt is None or (
            isinstance(receipt, list) and len(receipt) == 3 and is_count(receipt[0])
            and type(receipt[1]) is str and is_held(receipt[2])
        ))
    )  # fmt: skip


def is_open(value: Any) -> bool:
    """Tell whether this is [open intents, whether the module is at its limit]."""
    return (
        isinstance(value, list) and len(value) == 2 and is_count(value[0]) and isinstance(value[1], bool)
        and any(value)
    )  # fmt: skip


def is_spent(value: Any) -> bool:
    """Tell whether this is [period, count]."""
    return _is_list(value, is_count) and len(value) == 2


def is_spent_by(value: Any) -> bool:
    """Tell whether this is [grant, spender, period, count]."""
    return (
        isinstance(value, list) and len(value) == 4 and type(value[0]) is str and is_place(value[1])
        and is_count(value[2]) and is_count(value[3])
    )  # fmt: skip


def is_schedule(value: Any) -> bool:
    """Tell whether this is [fingerprint, due_ns, paused, waiting_ns]."""
    return (
        isinstance(value, list) and len(value) == 4 and _is_bytes(value[0]) and is_count(value[1])
        and isinstance(value[2], bool) and is_count(value[3])
    )  # fmt: skip


def _is_budgets(value: Any) -> bool:
    return (
        isinstance(value, dict) and set(value) == {"open", "parked", "spent", "spent_by", "timers"}
        and is_count(value["parked"]) and is_count(value["timers"])
        and all(_is_index(value[name]) for name in ("open", "spent", "spent_by"))
    )  # fmt: skip


BESIDE = ("armed", "due", "told")
"""The indexes of operations and of the wall clock."""
HEARTBEAT_INDEXES = ("bindings", "by_head", "by_name", "counts", "impulses", "registry")


def _is_heartbeat(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"clock", "numbers", "paused", "queued", *HEARTBEAT_INDEXES, *BESIDE}
        and is_count(value["numbers"]) and is_count(value["queued"]) and isinstance(value["paused"], bool)
        and all(_is_index(value[name]) for name in (*HEARTBEAT_INDEXES, *BESIDE))
        and isinstance(value["clock"], dict)
    )  # fmt: skip


def _is_bytes(value: Any) -> bool:
    return type(value) is bytes


def _is_idempotency(value: Any) -> bool:
    return (
        isinstance(value, dict) and set(value) == {"ages", "keys"}
        and all(map(_is_index, value.values()))
    )  # fmt: skip


def _is_list(value: Any, fits: Any) -> bool:
    return isinstance(value, list) and all(map(fits, value))


def _is_index(value: Any) -> bool:
    return value is None or (_is_counted_link(value) and value[1] > 0)


def _is_counted_link(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], Link) and is_count(value[1])


def _is_dedupe(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"buckets", "conflicts", "floor_ns", "open"}:
        return False
    opened = value["open"]
    return (
        is_count(value["floor_ns"])
        and (value["conflicts"] is None or isinstance(value["conflicts"], Link))
        and _is_list(value["buckets"], _is_bucket_row)
        and (opened is None or (_has_fields(opened, "bucket", "since_ns", "until_ns")))
    )


def _is_bucket_row(value: Any) -> bool:
    return _has_fields(value, "bucket", "prints", "count", "since_ns", "until_ns")


def _has_fields(value: Any, *fields: str) -> bool:
    """Tell whether this map has exactly these fields: links, or numbers."""
    return (
        isinstance(value, dict)
        and set(value) == set(fields)
        and all(
            isinstance(part, Link) if field in ("bucket", "prints") else is_count(part)
            for field, part in value.items()
        )
    )
