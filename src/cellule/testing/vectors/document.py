"""A file of cases: its sections, checked and typed.

    {"meta": {}, "agenda": [], "ops": [], "wallclock": [], "ttl": [], "message_ids": [], "retention": []}

A section may be missing, and what stands beside the sections and is no list is passed over. Each case is
checked by itself, before any runs: one that is none is told as failed, with the place of what is wrong in it,
and the others run. Null stands for what is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from cellule.errors import Rejected
from cellule.testing.vectors.cases import (
    Action,
    AgendaCase,
    Case,
    ClockCase,
    MessageCase,
    OpsCase,
    RetentionCase,
    TtlCase,
)

FORMAT: Final = 1
FILE_BYTES_MAX: Final = 256_000_000

SECTIONS: Final[dict[str, type[Case]]] = {
    "agenda": AgendaCase, "ops": OpsCase, "wallclock": ClockCase, "ttl": TtlCase,
    "message_ids": MessageCase, "retention": RetentionCase,
}  # fmt: skip
DOING: Final = {
    "ops": {"start", "state", "await", "close", "snapshot", "step"},
    "wallclock": {"publish", "lookup", "set_window", "spacing"},
    "message_ids": {"select"},
}
ACTIONS: Final = {"enqueue", "register", "bind", "unbind"}
_COMPARED: Final = {"expect", "buckets"}  # here null is a value


@dataclass(frozen=True, slots=True)
class Entry:
    """One case of a file; or why it is none."""

    section: str
    id: str
    case: Case | None
    problem: str = ""


def read(path: Path) -> list[Entry]:
    """Read a file of cases, in the order of the sections."""
    try:
        size = path.stat().st_size
        if size > FILE_BYTES_MAX:
            raise Rejected(
                "testing.vectors_file", "{path} has {size} bytes; a file of cases has at most {limit}",
                path=path, size=size, limit=FILE_BYTES_MAX,
            )  # fmt: skip
        data = path.read_bytes()
    except OSError as error:
        raise Rejected(
            "testing.vectors_file", "{path} cannot be read: {reason}", path=path, reason=error.strerror,
            hint="Name a file of cases in JSON.",
        ) from error  # fmt: skip
    try:
        document: dict[str, Any] = msgspec.json.decode(data, type=dict[str, Any])
        meta = msgspec.convert(document.pop("meta", {}), dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(str(path), str(error)) from error
    found = meta.get("format", FORMAT)
    if found != FORMAT:
        raise _malformed(str(path), f"`meta.format` is {found!r}, and this reads {FORMAT}")
    others = {name for name, given in document.items() if isinstance(given, list)}.difference(SECTIONS)
    order = [*SECTIONS, *sorted(others)]
    return [entry for name in order if name in document for entry in _section(name, document[name])]


def _section(name: str, given: object) -> Iterable[Entry]:
    if name not in SECTIONS:
        return [Entry(name, "*", None, "there is no such section")]
    if not isinstance(given, list):
        return [Entry(name, "*", None, "the section is no list")]
    return [_entry(name, number, each) for number, each in enumerate(given)]


def _entry(section: str, number: int, given: object) -> Entry:
    """A case as its type, or what is wrong with it; one without an id has its place for one."""
    id = given.get("id") if isinstance(given, dict) else None
    shown = id if isinstance(id, str) and id else f"{section}[{number}]"
    try:
        case = msgspec.convert(_without_nulls(given), SECTIONS[section])
    except (msgspec.ValidationError, RecursionError) as error:
        return Entry(section, shown, None, str(error))
    problem = next((f"{problem} - at `${place}`" for place, problem in _problems(section, case)), "")
    return Entry(section, shown, None if problem else case, problem)


def _without_nulls(given: Any) -> Any:
    if isinstance(given, list):
        return [_without_nulls(each) for each in given]
    if not isinstance(given, dict):
        return given
    return {
        name: value if name in _COMPARED else _without_nulls(value)
        for name, value in given.items()
        if value is not None or name in _COMPARED
    }


def _malformed(path: str, reason: str) -> Rejected:
    return Rejected(
        "testing.vectors_malformed", "{path} is not a file of cases: {reason}", path=path, reason=reason,
        hint="The format stands at the end of the heartbeat's rules.",
    )  # fmt: skip


def _problems(section: str, case: Any) -> list[tuple[str, str]]:
    """What the types cannot say."""
    if section == "agenda":
        return _agenda_problems(case)
    script = getattr(case, "script", ())
    found = [
        (f".script[{line}].do", f"{action.do!r} is no action here")
        for line, action in enumerate(script)
        if action.do not in DOING[section]
    ]
    if section == "ops":
        found += [
            (f".script[{line}]", f"{action.do!r} needs `op`")
            for line, action in enumerate(script)
            if action.do != "step" and action.op is None
        ]
    return found


def _agenda_problems(case: AgendaCase) -> list[tuple[str, str]]:
    known = {enzyme.id for enzyme in case.enzymes}
    found = []
    if len(known) != len(case.enzymes):
        found.append((".enzymes", "two enzymes have one id"))
    if len(case.expect) != len(case.beats):
        found.append((".expect", f"{len(case.expect)} expectations for {len(case.beats)} beats"))
    named = [(".register", case.register)]
    named += [(f".beats[{number}].register", beat.register) for number, beat in enumerate(case.beats)]
    found += [(place, f"there is no enzyme {id}") for place, ids in named for id in ids if id not in known]
    for number, enzyme in enumerate(case.enzymes):
        place = f".enzymes[{number}]"
        if enzyme.match not in ("exact", "prefix"):
            found.append((f"{place}.match", f"{enzyme.match!r} is neither exact nor prefix"))
        for line, action in enumerate(enzyme.actions):
            problem = _action_problem(action, known)
            if problem:
                found.append((f"{place}.actions[{line}]", problem))
    return found


def _action_problem(action: Action, known: set[int]) -> str | None:
    if action.do not in ACTIONS:
        return f"{action.do!r} is no action here"
    if action.do == "register" and action.enzyme not in known:
        return f"there is no enzyme {action.enzyme}"
    if action.do in ("bind", "unbind") and (action.path is None or action.name is None):
        return f"{action.do!r} needs `path` and `name`"
    return None
