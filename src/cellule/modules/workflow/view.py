"""`WorkflowRun`: what readers see of a workflow's cell, made from its history alone; no code runs for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import msgspec

from cellule.kernel.manifest.model import Module
from cellule.modules.python.context import EPOCH
from cellule.modules.workflow import history
from cellule.values.json_view import to_json

TEXT_CHARS_MAX: Final = 100  # of a value in a line
_PLAIN: Final = ("status", "number", "event", "published", "result", "code", "text", "commands")
Status = Literal["running", "completed", "failed", "cancelled"]


class Wait(msgspec.Struct, frozen=True):
    """One thing that a run waits for, since when, until when at most, and the line of code that asked.

    `call` is the run's word for the call that it waits to be answered, where it is one.
    """

    what: str
    since: datetime
    until: datetime | None = None
    place: str = ""
    call: str = ""


class WorkflowRun(msgspec.Struct, frozen=True):
    """A run: how it stands, what it waits for, what it published, and what it gave or why it gave nothing.

    `number` counts the runs of its cell: `ctx.again` and a restart begin the next one. `commands` are those
    of this run so far; the history of one that has ended is in the journal only.
    """

    status: Status
    number: int
    started: datetime
    event: str
    waits: tuple[Wait, ...] = ()
    published: Any = None
    result: Any = None
    code: str = ""
    text: str = ""
    ended: datetime | None = None
    commands: int = 0


def run_of(entries: list[Any], read_result: Callable[[Any], Any] | None = None) -> WorkflowRun:
    """What a history says of its run; `read_result` makes an object of what it gave."""
    tag, number, now_ns, _, _, schema, *_ = entries[0]
    assert tag == history.START
    waits: list[Any] = []
    published, commands = None, 0
    for entry in entries:
        match entry:
            case [history.ASK, *_]:
                commands += 1
            case [history.PUBLISH, value]:
                published = value
            case [history.WAITS, found]:
                waits = found
    run = WorkflowRun(
        "running", number, _time(now_ns), schema, tuple(map(_wait, waits)), published, commands=commands
    )
    last = entries[-1]
    return run if last[0] != history.END else _ended(run, last, read_result)


def is_workflow(module: Module) -> bool:
    """Whether a module's states are histories of runs."""
    return module.log and module.style == "workflow"


def run_json(entries: list[Any]) -> Any:
    """What a history says of its run, as JSON data; what is not said is left out."""
    found = run_of(entries)
    shown = msgspec.structs.replace(found, result=to_json(found.result), published=to_json(found.published))
    return {name: part for name, part in msgspec.to_builtins(shown).items() if part not in (None, "", [], ())}


class Timeline(list[str]):
    """What a part of a history says, for people: a line each, what it waits for aside."""


def timeline(entries: list[Any]) -> Timeline:
    """What a part of a history says, for people; what a run that ended keeps was told before."""
    if entries and entries[-1][0] == history.END:
        entries = entries[-1:]
    return Timeline(line for entry in entries if (line := _line(entry)))


def run_value(entries: list[Any]) -> dict[str, Any]:
    """What a history says of its run, for expressions: times in nanoseconds, null for what is not said."""
    found = run_of(entries)
    value: dict[str, Any] = {name: getattr(found, name) for name in _PLAIN}
    value["waits"] = [
        {"what": each.what, "place": each.place, "since": _ns(each.since)} for each in found.waits
    ]
    return {
        **value,
        "started": _ns(found.started),
        "ended": None if found.ended is None else _ns(found.ended),
    }


def _line(entry: list[Any]) -> str:
    match entry:
        case [history.START, number, _, _, _, schema, value, arguments]:
            more = "".join(f", {_short(each)}" for each in arguments)
            return f"run {number} begins with {schema} {_short(value)}{more}"
        case [history.EVENT, _, schema, value]:
            return f"event {schema} {_short(value)}"
        case [history.RECEIPT, _, _, {"kind": kind, "status": status, **receipt}]:
            return f"{kind} {status} {_short(receipt.get('value', receipt.get('text', '')))}".rstrip()
        case [history.TIMER, *_]:
            return "timer fired"
        case [history.CALL, _, {"module": module, "status": status, "text": text}]:
            return f"call of {module} {status}: {text}"
        case [history.CANCEL, _, why]:
            return f"cancelled from outside: {why}"
        case [history.ASK, what, _, place]:
            return f"-> {what} ({place})" if place else f"-> {what}"
        case [history.PUBLISH, value]:
            return f"published {_short(value)}"
        case [history.END, _, history.FAILED, [code, text]]:
            return f"failed: {text} [{code}]"
        case [history.END, _, status, detail]:
            return status if detail in (None, "") else f"{status}: {_short(detail)}"
    return ""


def _short(value: Any) -> str:
    text = json.dumps(to_json(value), ensure_ascii=False, separators=(", ", ": "))
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[: TEXT_CHARS_MAX - 3]}..."


def _ended(run: WorkflowRun, last: list[Any], read_result: Callable[[Any], Any] | None) -> WorkflowRun:
    _, now_ns, status, detail = last
    ended = _time(now_ns)
    if status == history.COMPLETED:
        result = detail if read_result is None else read_result(detail)
        return msgspec.structs.replace(run, status=status, ended=ended, result=result)
    code, text = ("", detail) if status == history.CANCELLED else detail
    return msgspec.structs.replace(run, status=status, ended=ended, code=code, text=text)


def _wait(found: list[Any]) -> Wait:
    what, since_ns, due_ns, place, *call = found
    return Wait(what, _time(since_ns), None if due_ns is None else _time(due_ns), place, *call)


def _ns(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1) * 1_000


def _time(ns: int) -> datetime:
    return EPOCH + timedelta(microseconds=ns // 1_000)
