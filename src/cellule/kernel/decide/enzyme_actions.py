"""What a run of an enzyme did, checked: whatever breaks a rule makes the run fatal, with nothing staged.

    write {path, value}    delete {path}    bind {path, name, propagate}    unbind {path, name}
    signal {signal, target, payload?, beat?}    report {severity, text}    register {entry}
    effect {kind, params, then?, target?, slot?, key?, limits?}    op {op: an action of `operations.py`}

The program checks nothing for the kernel: actions are plain maps, and are read here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cellule.errors import CelluleError, Rejected
from cellule.kernel.decide import operation_actions, operations
from cellule.kernel.decide.eras import Compiled
from cellule.kernel.decide.requests import EffectRequest, check
from cellule.kernel.heartbeat.entries import Entry, check_size, name_of, parse_entry
from cellule.kernel.heartbeat.impulses import check_impulse
from cellule.kernel.heartbeat.paths import ancestors_of, is_below, parse_path
from cellule.kernel.journal.writer import RECORD_BYTES
from cellule.kernel.limits import ERROR_TEXT_MAX, OUTPUT_BYTES_MAX, RUN_ACTIONS_MAX
from cellule.kernel.manifest.limits import KEY_BYTES_MAX
from cellule.kernel.manifest.model import Module
from cellule.kernel.need import Need
from cellule.kernel.program import Request, StepFault
from cellule.kernel.state import tree
from cellule.kernel.state.ledger import Ledger
from cellule.values.cbor import encode

RESERVED: Final = ("/rt", "/cells")
"""Subtrees of what is kept elsewhere; nobody writes there."""
SEVERITIES: Final = ("debug", "info", "warn", "error", "fatal")
EFFECT_BYTES: Final = 1_000  # of the records of a request that is denied, about


class Staged(NamedTuple):
    """The actions of a run as they were given, and checked; the effects it asks for, in their order."""

    actions: Sequence[Mapping[str, Any]]
    asked: Sequence[EffectRequest]
    data: bytes  # the actions encoded
    size: int


class Author(NamedTuple):
    """Whose actions they are."""

    entry: Entry
    era: Compiled
    module: Module


def check_actions(ledger: Ledger, who: Author, actions: object) -> Generator[Need, None, Staged]:
    """Check all that a run did; `StepFault` where it breaks a rule."""
    if not isinstance(actions, list | tuple) or len(actions) > RUN_ACTIONS_MAX:
        count = len(actions) if isinstance(actions, list | tuple) else repr(type(actions))
        raise StepFault("heartbeat.actions", f"a run does at most {RUN_ACTIONS_MAX} things, not {count}")
    try:
        data = encode([dict(each) for each in actions])
        asked, size, places, costs = [], len(data), set[str](), operations.Costs(ledger)
        for action in actions:
            check_one = _CHECKS.get(action.get("do"))
            if check_one is None:
                raise Rejected("heartbeat.action", "nothing is known of {what}", what=repr(action)[:200])
            check_one(who, action, ledger.beat)
            size += _record_bytes(action, places)
            if action["do"] == "delete":
                size += yield from tree.check_delete(ledger, parse_path(action["path"]))
            if action["do"] == "op" and size <= OUTPUT_BYTES_MAX:
                size += yield from costs.of(action["op"])
            if action["do"] == "effect":
                asked.append(_request(action))
    except CelluleError as error:
        raise StepFault(error.code, str(error)) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StepFault("heartbeat.action", f"an action is not what it should be: {error!r}") from error
    signals = sum(action["do"] == "signal" for action in actions)
    if signals > who.entry.signals:
        most = who.entry.signals
        raise StepFault("heartbeat.signals_count", f"the run emits {signals} signals; at most {most}")
    if size > OUTPUT_BYTES_MAX:
        raise StepFault(
            "kernel.output_size", f"what the run did has {size} bytes; at most {OUTPUT_BYTES_MAX}"
        )
    return Staged(actions, check(who.era, who.module, asked) if asked else (), data, size)


def _record_bytes(action: Mapping[str, Any], places: set[str]) -> int:
    """What the records of an action take beside its own bytes; `places` are nodes that it may make."""
    size = RECORD_BYTES
    if action["do"] == "effect":
        return EFFECT_BYTES
    if action["do"] in ("write", "bind", "unbind"):
        made = [each for each in ancestors_of(parse_path(action["path"])) if each not in places]
        places.update(made)
        size += sum(RECORD_BYTES + min(len(each), KEY_BYTES_MAX) for each in made)
    return size


def check_writable(path: str) -> str:
    """A path of the tree that may be written at all."""
    for place in RESERVED:
        if is_below(path, place):
            raise Rejected(
                "heartbeat.read_only", "{path} cannot be written: what is at {place} is kept elsewhere",
                path=path, place=place,
            )  # fmt: skip
    return path


def _check_place(who: Author, action: Mapping[str, Any], _: int) -> None:
    path = check_writable(parse_path(action["path"]))
    if who.entry.access != "rw":
        raise Rejected(
            "heartbeat.access", "enzyme {name} has access ro and may not change {path}",
            name=who.entry.name, path=path, hint='Register it with access="rw".',
        )  # fmt: skip
    allowed = who.module.writes
    if allowed is not None and not any(is_below(path, place) for place in allowed):
        raise Rejected(
            "heartbeat.access", "module {module} may not write at {path}; it may at {allowed}",
            module=who.module.name, path=path, allowed=", ".join(allowed) or "no place",
            hint="List the subtree in `writes`.",
        )  # fmt: skip


def _check_bound(who: Author, action: Mapping[str, Any], now: int) -> None:
    if not is_below(parse_path(action["path"]), operations.OPS_PATH) or who.entry.access != "rw":
        _check_place(who, action, now)
    name_of(action["name"])
    if not isinstance(action.get("propagate", False), bool):
        raise Rejected("heartbeat.action", "propagate is true or false, not {given!r}", given=action)


def _check_signal(_: Author, action: Mapping[str, Any], now: int) -> None:
    check_impulse(action.get("signal"), action.get("target"), action.get("beat"), now)


def _check_report(_who: Author, action: Mapping[str, Any], _: int) -> None:
    severity, text = action["severity"], action["text"]
    if severity not in SEVERITIES or not isinstance(text, str):
        raise Rejected(
            "heartbeat.severity", "a report has a severity ({known}) and a text, not {severity!r}",
            known=", ".join(SEVERITIES), severity=severity,
        )  # fmt: skip


def _check_register(who: Author, action: Mapping[str, Any], _: int) -> None:
    entry = parse_entry(0, action["entry"])
    check_entry(who.era, entry)


def check_entry(era: Compiled, entry: Entry) -> None:
    """Refuse an entry whose module the manifest does not have, or that is no enzyme."""
    check_size(entry)
    module = era.manifest.modules.get(entry.module)
    if module is None or module.style != "enzyme" or entry.origin:
        known = [base for base, each in era.manifest.modules.items() if each.style == "enzyme"]
        raise Rejected(
            "heartbeat.enzyme_module", "{module} is no module of an enzyme; those are: {known}",
            module=entry.module, known=", ".join(sorted(known)) or "none",
        )  # fmt: skip


def _check_effect(_: Author, action: Mapping[str, Any], now: int) -> None:
    then, target = action.get("then"), action.get("target")
    if then is not None:
        check_impulse(then, target, None, now)


def _check_op(who: Author, action: Mapping[str, Any], _: int) -> None:
    if who.entry.access != "rw":
        raise Rejected(
            "heartbeat.access", "enzyme {name} has access ro and may not change {path}",
            name=who.entry.name, path=operations.OPS_PATH, hint='Register it with access="rw".',
        )  # fmt: skip
    operation_actions.check(action["op"])


def _request(action: Mapping[str, Any]) -> Request:
    return Request(
        action["kind"], action["params"], action.get("slot"), action.get("key"), action.get("limits")
    )


def text_of(action: Mapping[str, Any]) -> str:
    """The text of a report, as long as one may be."""
    return str(action["text"])[:ERROR_TEXT_MAX]


_CHECKS: Final[dict[Any, Callable[[Author, Mapping[str, Any], int], None]]] = {
    "write": _check_place, "delete": _check_place, "bind": _check_bound, "unbind": _check_bound,
    "signal": _check_signal, "report": _check_report, "register": _check_register, "effect": _check_effect,
    "op": _check_op,
}  # fmt: skip
