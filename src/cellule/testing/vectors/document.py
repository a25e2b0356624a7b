"""A file of cases: its sections, checked and typed.

    {"meta": {}, "agenda": [], "ops": [], "wallclock": [], "ttl": [], "message_ids": [], "retention": []}

A section may be missing. Everything is checked before the first case runs: a damaged file runs none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from cellule.errors import Rejected
from cellule.testing.vectors.cases import Action, AgendaCase, Document

FORMAT: Final = 1
FILE_BYTES_MAX: Final = 256_000_000

DOING: Final = {
    "ops": {"start", "state", "await", "close", "snapshot", "step"},
    "wallclock": {"publish", "lookup", "set_window", "spacing"},
    "message_ids": {"select"},
}
ACTIONS: Final = {"enqueue", "register", "bind", "unbind"}


def read(path: Path) -> Document:
    """Read a file of cases."""
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
        document = msgspec.json.decode(data, type=Document)
        names = set(msgspec.json.decode(data, type=dict[str, msgspec.Raw]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(str(path), str(error)) from error
    found = document.meta.get("format", FORMAT)
    if found != FORMAT:
        raise _malformed(str(path), f"`meta.format` is {found!r}, and this reads {FORMAT}")
    for name in sorted(names - set(Document.__struct_fields__)):
        raise _malformed(str(path), f"there is no section {name!r}")
    for place, problem in _problems(document):
        raise _malformed(str(path), f"{problem} - at `{place}`")
    return document


def _malformed(path: str, reason: str) -> Rejected:
    return Rejected(
        "testing.vectors_malformed", "{path} is not a file of cases: {reason}", path=path, reason=reason,
        hint="The format stands at the end of the heartbeat's rules.",
    )  # fmt: skip


def _problems(document: Document) -> list[tuple[str, str]]:
    """What the types cannot say."""
    found = []
    for section, doing in DOING.items():
        for number, case in enumerate(getattr(document, section)):
            for line, action in enumerate(case.script):
                if action.do not in doing:
                    found.append(
                        (f"$.{section}[{number}].script[{line}].do", f"{action.do!r} is no action here")
                    )
    for number, agenda_case in enumerate(document.agenda):
        found += [(f"$.agenda[{number}]{place}", problem) for place, problem in _agenda_problems(agenda_case)]
    for number, ops_case in enumerate(document.ops):
        found += [
            (f"$.ops[{number}].script[{line}]", f"{action.do!r} needs `op`")
            for line, action in enumerate(ops_case.script)
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
