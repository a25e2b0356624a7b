"""The smaller parts of a contract: names, times, types, data fields, triggers and requests for effects.

Each function reads one part of the YAML and notes what is wrong with it; what it answers then only has to be
good enough to go on and find the next problem.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from cellule.errors import CelluleError, Rejected
from cellule.kernel.manifest.model import TIMER_SET
from cellule.modules.fsm.contract import DataField, EffectTemplate, Placed, Trigger
from cellule.modules.fsm.document import Part
from cellule.modules.fsm.limits import AFTER_NS_MAX, FIELDS_MAX, REQUESTS_MAX
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.codec import wire_codec
from cellule.values.schema.document import load

RESERVED: Final = ("state", "visit")
"""Fields of every state; data may not be called so."""

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
"""A name of a state or a trigger."""

_NS: Final = {
    "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9,
}  # fmt: skip
_DURATION: Final = re.compile(r"(?:\d{1,18}(?:ns|us|ms|s|m|h|d))+")
_DURATION_PART: Final = re.compile(r"(\d+)(ns|us|ms|s|m|h|d)")
_KIND: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")


def names(*plain: str, **aliases: str) -> dict[str, str]:
    """The names that a map may have, each with the one it stands for."""
    return {**{name: name for name in plain}, **aliases}


_TRIGGER: Final = names("event", "receipt", "fields", "key", "description", schema="event")
_REQUEST: Final = names("effect", "params", "key", "slot", kind="effect")


def placed(part: Part) -> Placed:
    """A value with its place."""
    return Placed(part.plain(), part.line, part.field)


def duration(part: Part) -> int:
    """Nanoseconds of a text like 1h30m."""
    text = part.text()
    if _DURATION.fullmatch(text):
        found = sum(int(count) * _NS[unit] for count, unit in _DURATION_PART.findall(text))
        if 0 < found <= AFTER_NS_MAX:
            return found
    part.problems.add("field", part, f"{text!r} is no time", "Write 30s, 10m, 24h, 7d or 1h30m.")
    return 1


def data_fields(part: Part | None) -> dict[str, DataField]:
    """The section `data`: types, and perhaps defaults, by name."""
    found: dict[str, DataField] = {}
    for name, each in _limited(part).items():
        if name in RESERVED:
            each.problems.add("field", each, f"a data field cannot be called {name}", "Every state has one.")
            continue
        body = each.map() if each.is_map else {}
        schema = type_of(body.get("type", each))
        default = body["default"].plain() if "type" in body and "default" in body else None
        if default is not None:
            default = _fitting(body["default"], schema, default)
        found[name] = DataField(name, schema, default, each.line)
    return found


def type_of(part: Part) -> t.Schema:
    """A schema as documents write it; a word alone means that type: `int` is `{int: {}}`."""
    try:
        return load(part.plain() if part.is_map else {part.text(): {}})
    except Rejected as error:
        hint = "Write a type: text, int, bool, {list: {text: {}}}, {ref: shop/Line@1}."
        part.problems.add("field", part, str(error), hint)
        return t.Any()


def declared_trigger(name: str, part: Part) -> Trigger:
    """One entry of the section `triggers`."""
    body = part.map(_TRIGGER) if part.is_map else {"event": part}
    chosen = [each for each in ("event", "receipt", "fields") if each in body]
    if len(chosen) > 1:
        part.problems.add("field", part, f"it has {' and '.join(chosen)}; one of them is enough")
    schema = body["event"].text() if "event" in body else None
    if schema is not None and "/" in schema:
        try:
            Name.parse(schema)
        except CelluleError as error:
            part.problems.add("field", body["event"], str(error))
    receipt = body["receipt"].text() if "receipt" in body else None
    if receipt == TIMER_SET:
        hint = "Use `timeout` at a state."
        part.problems.add("field", body["receipt"], "timers of a machine are timeouts", hint)
    fields = body.get("fields")
    forms = None if fields is None else {each: type_of(form) for each, form in _limited(fields).items()}
    key = body["key"].text() if "key" in body else None
    return Trigger(name, part.line, schema, receipt, forms, key)


def requests(part: Part | None) -> tuple[EffectTemplate, ...]:
    """A list of requests for effects."""
    if part is None:
        return ()
    found = []
    for each in part.items(REQUESTS_MAX, "effects"):
        body = each.map(_REQUEST) if each.is_map else {"effect": each}
        if "effect" not in body:
            each.problems.add("field", each, "`effect` is missing")
            continue
        kind = body["effect"].text()
        if not _KIND.fullmatch(kind):
            hint = "A kind is dotted lower-case text: payments.charge."
            each.problems.add("field", body["effect"], f"{kind!r} is no kind of effect", hint)
        params, key = (placed(body[name]) if name in body else None for name in ("params", "key"))
        slot = body["slot"].text() if "slot" in body else None
        found.append(EffectTemplate(kind, each.line, each.field, params, key, slot))
    return tuple(found)


def _limited(part: Part | None) -> Mapping[str, Part]:
    fields = {} if part is None else part.map()
    if part is not None and len(fields) > FIELDS_MAX:
        part.problems.add("field", part, f"it has {len(fields)} fields; at most {FIELDS_MAX}")
    return fields


def _fitting(part: Part, schema: t.Schema, value: Any) -> Any:
    try:
        return wire_codec(schema).check(value)
    except CelluleError as error:
        part.problems.add("field", part, f"it does not fit its type: {error}")
        return None
