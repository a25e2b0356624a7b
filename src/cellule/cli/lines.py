"""Records as one line each: when, what, where, and the values on one line of JSON."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from cellule.cli.output import compact, counted
from cellule.host.read.record_view import RecordView
from cellule.kernel.manifest.system import EFFECTS
from cellule.values.schema.text_forms import time_text

_STYLES = {
    "event": "cyan", "emitted": "blue", "step": "green", "refused": "red", "control": "magenta",
    "expired": "yellow", "timer": "yellow", "manifest": "magenta", "migrated": "magenta",
    "signal": "cyan", "agenda": "green", "write": "blue", "binding": "magenta", "enzyme": "magenta",
    "intent": "bright_blue", "decision": "bright_blue", "receipt": "bright_cyan",
}  # fmt: skip
_BAD = ("halted", "skipped", "conflict", "parked", "refused", "failed", "timeout", "denied", "abandoned")


def record_line(view: RecordView, *, width: int = 8) -> Text:
    """One record on one line; `width` is that of its height, for lines below each other."""
    style = "red" if view.fields.get("status") in _BAD else _STYLES.get(view.kind, "")
    line = Text(f"{view.height:>{width}}  {clock_text(view.now_ns)}  ")
    line.append(f"{view.kind:<9}", style=style)
    line.append(_words(view.kind, view.fields))
    return line


def cell_text(cell: dict[str, Any]) -> str:
    """A cell as `why` takes it: module and key."""
    return f"{cell['module']}/{cell['key']}" if cell["key"] else str(cell["module"])


def clock_text(now_ns: int) -> str:
    """The time of day, in UTC, to the millisecond."""
    return time_text(now_ns // 1_000_000 * 1_000_000)[11:].removesuffix("Z").ljust(12, " ")


def moment_text(now_ns: int) -> str:
    """A time for people: to the millisecond, in UTC."""
    return time_text(now_ns // 1_000_000 * 1_000_000)


def _words(kind: str, fields: dict[str, Any]) -> str:
    match kind:
        case "event" | "emitted":
            targets = ", ".join(cell_text(each) for each in fields["targets"]) or "nobody"
            return f"{fields['schema']} {compact(fields['value'])} -> {targets}"
        case "step":
            return _step(fields)
        case "refused":
            return f"{fields['schema']}: {fields['error']['text']} [{fields['error']['code']}]"
        case "control":
            cells = f" ({counted(len(fields['cells']), 'cell')})" if "cells" in fields else ""
            return f"{fields['verb']} by {fields['who']}: {fields['why']}{cells}"
        case "intent":
            return f"{fields['effect']} {compact(fields['params'])} by {cell_text(fields)} {fields['intent']}"
        case "decision":
            return _decision(fields)
        case "receipt":
            return _receipt(fields)
        case "timer" if "schedule" in fields:
            due = f" next {fields['due']}" if fields["due"] else ""
            waiting = f", the run of {fields['waiting']} waits" if "waiting" in fields else ""
            return f"schedule {fields['schedule']} {fields['state']}{due}{waiting}"
        case "timer" | "expired":
            due = f"{fields['what']} due {fields['due']} " if "due" in fields else ""
            return f"{due}{cell_text(fields)}"
        case "migrated":
            return (
                f"{cell_text(fields)} from era {fields['from']} to {fields['to']} {compact(fields['state'])}"
            )
        case "signal" | "agenda" | "write" | "stage" | "enzyme" | "binding":
            return _heartbeat(kind, fields)
        case _:
            return compact(fields)


def _heartbeat(kind: str, fields: dict[str, Any]) -> str:
    match kind:
        case "stage":
            return f"{counted(fields['promoted'], 'impulse')} for the next beat"
        case "enzyme":
            entry = fields["entry"]
            return f"{fields['enzyme']} " + (
                "removed" if entry is None else f"{entry['name']} for {entry['query']}"
            )
        case "binding":
            return f"{fields['name']} at {fields['path']}, {fields['how']}"
        case "write":
            place = fields.get("path") or f"{fields['module']}/{fields.get('operation', fields.get('key'))}"
            return f"{place} {compact(fields['state'])}"
        case "signal":
            what = f" ({fields['impulse_kind']})" if "impulse_kind" in fields else ""
            payload = f" {compact(fields['payload'])}" if "payload" in fields else ""
            return f"{_impulse(fields)}{payload} for beat {fields['for_beat']}{what}"
        case _:
            ran = [
                f"{each['enzyme']}: {each['code']}" + ("" if each["ran"] else " again")
                for each in fields["lines"]
            ]
            return f"{_impulse(fields)} " + (", ".join(ran) or "no match")


def _impulse(fields: dict[str, Any]) -> str:
    at = "" if fields["target"] is None else f" at {fields['target']}"
    return f"{fields['signal'] or 'an impulse'}{at}"


def _step(fields: dict[str, Any]) -> str:
    text = f"{cell_text(fields)} {fields['status']} v{fields['version']}"
    if "error" in fields:
        return f"{text}: {fields['error']['text']} [{fields['error']['code']}]"
    text += f" {compact(fields['state'])}" if fields["state"] is not None else ""
    return f"{text} reply {compact(fields['reply'])}" if "reply" in fields else text


def _decision(fields: dict[str, Any]) -> str:
    parts = [fields["verdict"]]
    parts += [f"{name} {fields[name]}" for name in ("rule", "grant", "same", "control") if name in fields]
    parts += [f"until {fields['due']}"] if "due" in fields and fields["verdict"] == "park" else []
    text = ", ".join(parts)
    return f"{text}: {fields['text']}" if fields.get("text") else text


def _receipt(fields: dict[str, Any]) -> str:
    text = f"{fields['schema']} {fields['status']}"
    if fields.get("attempts", 0) > 1:
        text += f" after {fields['attempts']} attempts"
    if "who" in fields:
        text += f" by {fields['who']}: {fields.get('why', '')}"
    text += f" {outcome_text(fields)} -> {cell_text(fields)}"
    return text if fields["told"] != "nobody" else f"{text} (not told)"


def outcome_text(receipt: dict[str, Any]) -> str:
    """What an effect gave, or why it did not; what stands around that in its event is left out."""
    value = receipt["value"]
    if not receipt["schema"].startswith(EFFECTS):
        return compact(value)
    if "code" in receipt:
        return f"{receipt.get('text', '')} [{receipt['code']}]"
    return compact(value.get("value"))
