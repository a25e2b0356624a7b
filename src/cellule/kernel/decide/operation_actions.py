"""What is asked of operations, as plain maps: read here, and refused where no operation could do it.

start {verb, target, mode, ttl?, payload?}    state {operation, state, code?, note?}
await {operation, want, cont, ttl?, payload?}    close {operation, status, summary?}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.heartbeat import operations as rules
from cellule.kernel.heartbeat.operations import Envelope, Held
from cellule.kernel.heartbeat.paths import ROOT, parse_path
from cellule.kernel.limits import OPERATION_TEXT_MAX, OPERATION_TTL_MAX
from cellule.values.link import Link

_FIELDS: Final = {
    "start": {"verb", "target", "mode", "ttl", "payload"},
    "state": {"operation", "state", "code", "note"},
    "await": {"operation", "want", "ttl", "cont", "payload"},
    "close": {"operation", "status", "summary"},
}


def check(action: Mapping[str, Any]) -> None:
    """Refuse an action that could not be done to any operation."""
    do = action.get("do")
    if do not in _FIELDS:
        raise wrong("an operation", "do", do, f"it is one of: {', '.join(_FIELDS)}")
    for field in action:
        if field != "do" and field not in _FIELDS[do]:
            raise wrong(do, field, action[field], "there is no such field")
    payload = action.get("payload")
    if payload is not None and not isinstance(payload, bytes | Link):
        raise wrong(do, "payload", payload, "it is a value in canonical bytes, or a link")
    match do:
        case "start":
            envelope_of(action, 0, None)
        case "state":
            state_of(action)
        case "await":
            await_of(action)
        case _:
            close_of(action)


def is_start(action: Mapping[str, Any]) -> bool:
    """Tell whether an action of a run starts an operation."""
    return bool(action["do"] == "op" and action["op"]["do"] == "start")


def envelope_of(action: Mapping[str, Any], beat: int, payload: Held) -> Envelope:
    """The envelope of a start."""
    mode = _text("start", action, "mode")
    if mode not in rules.MODES:
        raise wrong("start", "mode", mode, f"it is one of: {', '.join(rules.MODES)}")
    verb, target = _text("start", action, "verb"), parse_path(action.get("target"), "target")
    return Envelope(verb, target, mode, _ttl("start", action), beat, payload)


def state_of(action: Mapping[str, Any]) -> tuple[str, int, str | None]:
    """State, code and note."""
    code = action.get("code", 0)
    if type(code) is not int or not -(2**63) <= code < 2**63:
        raise wrong("state", "code", code, "it is a whole number of 64 bits")
    return _text("state", action, "state"), code, _optional("state", action, "note")


def await_of(action: Mapping[str, Any]) -> tuple[str, int, str]:
    """What is wanted, the ttl, and the signal to send."""
    return _text("await", action, "want"), _ttl("await", action), _path("await", action, "cont")


def close_of(action: Mapping[str, Any]) -> tuple[str, str | None]:
    """Status and summary."""
    status = _text("close", action, "status")
    if status not in rules.FINAL:
        raise wrong("close", "status", status, f"it is one of: {', '.join(rules.FINAL)}")
    return status, _optional("close", action, "summary")


def _text(do: str, action: Mapping[str, Any], field: str) -> str:
    value = action.get(field)
    if not isinstance(value, str) or not value:
        raise wrong(do, field, value, "it is a text, and not empty")
    return _short(do, field, value)


def _optional(do: str, action: Mapping[str, Any], field: str) -> str | None:
    value = action.get(field)
    if value is None:
        return None
    if not isinstance(value, str):
        raise wrong(do, field, value, "it is a text")
    return _short(do, field, value)


def _short(do: str, field: str, value: str) -> str:
    if len(value) > OPERATION_TEXT_MAX:
        raise wrong(do, field, value, f"it has at most {OPERATION_TEXT_MAX} characters")
    return value


def _path(do: str, action: Mapping[str, Any], field: str) -> str:
    path = parse_path(_text(do, action, field), field)
    if path == ROOT:
        raise wrong(do, field, path, "it is a signal, and not empty")
    return path


def _ttl(do: str, action: Mapping[str, Any]) -> int:
    value = action.get("ttl", 0)
    if type(value) is not int or not 0 <= value <= OPERATION_TTL_MAX:
        raise wrong(do, "ttl", value, f"it is a number of beats from 0 to {OPERATION_TTL_MAX}")
    return value


def wrong(do: str, field: str, value: object, why: str) -> Rejected:
    """The refusal of a field."""
    return Rejected(
        "operation.argument", "{do}: {field} is {value}: {why}",
        do=do, field=field, value=shown(value), why=why,
    )  # fmt: skip


def shown(value: object) -> str:
    """A value as a message shows it."""
    return repr(value)[:200]
