"""Effects as JSON data, and as rows and facts for people."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from cellule.cli.lines import cell_text, moment_text, outcome_text
from cellule.cli.output import compact, facts
from cellule.host.read.effects.model import DecisionView, EffectDetail, EffectView, Letter, ReceiptView
from cellule.host.read.record_view import RecordRenderer
from cellule.kernel.state.intent_id import intent_token, parse_intent
from cellule.kernel.state.rows import OUTSIDE
from cellule.values.schema.text_forms import time_text

_STYLES = {
    "open": "bright_blue", "parked": "magenta", "timer": "yellow", "waiting": "yellow", "failed": "red",
    "timeout": "red", "denied": "red", "abandoned": "red",
}  # fmt: skip


async def effect_json(renderer: RecordRenderer, view: EffectView) -> dict[str, Any]:
    """One effect as JSON data; what it does not have is left out."""
    attempts = view.attempts
    data: dict[str, Any] = {
        "id": view.id, "height": view.height, "kind": view.kind, "module": view.module,
        "key": await renderer.key(view.module, view.key), "status": view.status,
        "since": time_text(view.since_ns), "reason": view.reason, "cause": view.cause, "born": view.born,
        "idempotency_key": view.idempotency_key, "slot": view.slot, "grant": view.grant, "rule": view.rule,
        "due": None if view.due_ns is None else time_text(view.due_ns),
    }  # fmt: skip
    if view.status == OUTSIDE:
        data["token"] = intent_token(renderer.world.bytes, view.height, parse_intent(view.id))
    if attempts is not None:
        data["attempts"] = {
            "state": attempts.state, "tried": attempts.tried, "most": attempts.most,
            "next": time_text(attempts.next_ns), "error": attempts.error or None,
            "progress": attempts.progress,
        }  # fmt: skip
    return {name: value for name, value in data.items() if value is not None}


async def detail_json(renderer: RecordRenderer, detail: EffectDetail) -> dict[str, Any]:
    """All that is known of one effect, as JSON data."""
    return {
        **await effect_json(renderer, detail.view), "params": detail.params,
        "decisions": [_decision_json(each) for each in detail.decisions],
        "receipt": None if detail.receipt is None else _receipt_json(detail.receipt),
    }  # fmt: skip


async def letter_json(renderer: RecordRenderer, letter: Letter) -> dict[str, Any]:
    """A dead letter as JSON data."""
    data: dict[str, Any] = {
        "height": letter.height, "module": letter.module,
        "key": await renderer.key(letter.module, letter.key), "code": letter.code, "text": letter.text,
        "event": letter.schema, "cause": letter.cause, "kind": letter.kind, "intent": letter.intent,
    }  # fmt: skip
    return {name: value for name, value in data.items() if value is not None}


def letter_line(letter: dict[str, Any]) -> Text:
    """One dead letter for people: what was given up, where, and why."""
    what = letter.get("event") or letter.get("kind")
    line = Text(f"{letter['height']:>8}  {what} of {cell_text(letter)}")
    return line.append(f"\n{'':>10}{letter['text']} [{letter['code']}]", style="red")


def effect_line(effect: dict[str, Any]) -> Text:
    """One effect for people: where it stands, its id on a line of its own to be copied, and why it waits."""
    line = Text(f"{effect['height']:>8}  ")
    line.append(f"{effect['status']:<9}", style=_STYLES.get(effect["status"], "green"))
    line.append(f"{effect['kind']} of {cell_text(effect)} since {effect['since'][:23]}")
    line.append(f"\n{'':>10}{effect['id']}", style="dim")
    return line.append(f"\n{'':>10}{effect['reason']}") if effect["reason"] else line


_LABELS = (
    ("idempotency_key", "key"), ("slot", "slot"), ("grant", "grant"), ("rule", "rule"), ("token", "token"),
)  # fmt: skip


def detail_facts(data: dict[str, Any]) -> list[Any]:
    """One effect for people."""
    pairs: dict[str, object] = {
        "effect": f"{data['kind']} of {cell_text(data)}", "id": data["id"],
        "status": data["status"] + (f": {data['reason']}" if data["reason"] else ""),
        "intent": f"height {data['height']}, {data['since']}, asked by the record at {data['cause']}",
    }  # fmt: skip
    for name, label in _LABELS:
        if name in data:
            pairs[label] = data[name]
    pairs["params"] = compact(data["params"])
    for decision in data["decisions"]:
        pairs[f"decision {decision['height']}"] = _decision_text(decision)
    if "attempts" in data:
        pairs["attempts"] = _attempts_text(data["attempts"])
        if data["attempts"]["progress"] is not None:
            pairs["progress"] = compact(data["attempts"]["progress"])
    if data["receipt"] is not None:
        pairs["receipt"] = _receipt_text(data["receipt"])
    return [facts(pairs)]


def _decision_json(decision: DecisionView) -> dict[str, Any]:
    data: dict[str, Any] = {
        "height": decision.height, "verdict": decision.verdict, "time": time_text(decision.now_ns),
        "rule": decision.rule, "grant": decision.grant, "code": decision.code or None,
        "text": decision.text or None, "same": decision.same, "control": decision.control,
        "due": None if decision.due_ns is None else time_text(decision.due_ns),
    }  # fmt: skip
    return {name: value for name, value in data.items() if value is not None}


def _receipt_json(receipt: ReceiptView) -> dict[str, Any]:
    data: dict[str, Any] = {
        "height": receipt.height, "status": receipt.status, "time": time_text(receipt.now_ns),
        "schema": receipt.schema, "value": receipt.value, "told": receipt.told, "code": receipt.code or None,
        "text": receipt.text or None, "by": receipt.by or None, "attempts": receipt.attempts,
        "exhausted": receipt.exhausted, "who": receipt.who, "why": receipt.why, "control": receipt.control,
    }  # fmt: skip
    return {name: value for name, value in data.items() if value is not None}


def _decision_text(decision: dict[str, Any]) -> str:
    parts = [decision["verdict"]]
    parts += [f"{name} {decision[name]}" for name in ("rule", "grant", "same", "control") if name in decision]
    parts += [decision["text"]] if "text" in decision else []
    return ", ".join(parts)


def _attempts_text(attempts: dict[str, Any]) -> str:
    most = f" of {attempts['most']}" if attempts["most"] else ""
    text = f"{attempts['tried']}{most} made, {attempts['state']}, next {attempts['next']}"
    return f"{text}; {attempts['error']}" if attempts.get("error") else text


def _receipt_text(receipt: dict[str, Any]) -> str:
    text = f"height {receipt['height']}, {receipt['time']}: {receipt['status']}"
    if receipt["attempts"]:
        text += f" at attempt {receipt['attempts']}" + (", given up" if receipt["exhausted"] else "")
    if "who" in receipt:
        text += f", by {receipt['who']}: {receipt.get('why', '')}"
    return f"{text}\n{outcome_text(receipt)}"


def schedule_text(data: dict[str, Any]) -> str:
    """When a schedule is due, for people."""
    later = "" if data["jitter"] is None else f", up to {data['jitter']} later"
    if data["cron"] is not None:
        return f"{data['cron']} ({data['zone']}){later}"
    return f"every {data['every']}{later}"


def next_text(next_ns: int | None, *, paused: bool) -> str:
    """When a schedule is next due, for people."""
    if paused:
        return "paused"
    return "never" if next_ns is None else moment_text(next_ns)
