"""The state of an aggregate cell: the open windows of one namespace, and how far its time has come.

    windows     sorted by start; each has its id, items, results for readers, and partials to go on with
    ended       how many aggregations of this namespace are over
    latest_ns   the latest event time seen            closed_ns   windows that end here or before are over

The bytes are a `sys/Aggregate@1`. A measure whose result is its partial stands in `results` only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from typing import Any

from cellule.modules.aggregate.measures import Measure, distinct_values
from cellule.modules.aggregate.spec import Spec
from cellule.values.cbor import decode_trusted, encode
from cellule.values.schema.scalars import decimal_text


@dataclass(slots=True)
class Window:
    """One aggregation under way; `start_ns` and `end_ns` are None where there is only one."""

    aggregation_id: bytes
    start_ns: int | None
    end_ns: int | None
    opened_ns: int
    items: int = 0
    batches: int = 0
    batched: int = 0
    failed: str | None = None
    partials: dict[str, Any] = field(default_factory=dict)

    def results(self, spec: Spec) -> dict[str, Any]:
        """The results on the wire; a measure without a value is left out."""
        found = {each.name: _wire(each.result(self.partials.get(each.name))) for each in spec.measures}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(slots=True)
class Namespace:
    """The whole state of one cell."""

    windows: list[Window] = field(default_factory=list)
    ended: int = 0
    latest_ns: int | None = None
    closed_ns: int | None = None


def read_namespace(data: bytes | None, spec: Spec) -> Namespace:
    """The state behind the bytes; a measure that was not there when they were written begins now."""
    if data is None:
        return Namespace()
    held: Any = decode_trusted(data)
    windows = [_window(each, spec) for each in held["windows"]]
    return Namespace(windows, held["ended"], held.get("latest_ns"), held.get("closed_ns"))


def write_namespace(state: Namespace, spec: Spec) -> bytes:
    """The bytes of a state."""
    whole = {
        "windows": [_window_value(each, spec) for each in state.windows], "ended": state.ended,
        "latest_ns": state.latest_ns, "closed_ns": state.closed_ns,
    }  # fmt: skip
    return encode(_present(whole))


def aggregation_id(world: bytes, module: str, key: bytes, start_ns: int | None, ended: int) -> bytes:
    """The id of an aggregation: a UUID (version 8) made of its world, module, namespace and window."""
    which = ended if start_ns is None else start_ns
    found = bytearray(sha256(encode([world, module, key, start_ns is None, which])).digest()[:16])
    found[6] = (found[6] & 0x0F) | 0x80
    found[8] = (found[8] & 0x3F) | 0x80
    return bytes(found)


def span(window: Window) -> dict[str, Any]:
    """What every record of an aggregation names it by."""
    return _present({
        "aggregation_id": window.aggregation_id, "start_ns": window.start_ns, "end_ns": window.end_ns,
    })  # fmt: skip


def _window_value(window: Window, spec: Spec) -> dict[str, Any]:
    partials = {
        each.name: _partial_value(each, window.partials[each.name])
        for each in spec.measures
        if each.operation in ("avg", "distinct") and each.name in window.partials
    }
    more = {
        "opened_ns": window.opened_ns, "items": window.items, "batches": window.batches,
        "batched": window.batched, "failed": window.failed, "results": window.results(spec),
        "partials": partials,
    }  # fmt: skip
    return {**span(window), **_present(more)}


def _window(stored: Mapping[str, Any], spec: Spec) -> Window:
    results, partials = stored["results"], stored["partials"]
    found: dict[str, Any] = {}
    for measure in spec.measures:
        name, is_decimal = measure.name, measure.name in spec.decimals
        match measure.operation:
            case "avg" if name in partials:
                found[name] = (partials[name]["count"], _number(partials[name]["sum"], is_decimal))
            case "distinct" if name in partials:
                found[name] = frozenset(map(encode, partials[name]))
            case "count" | "sum" | "min" | "max" if results.get(name) is not None:
                found[name] = _number(results[name], is_decimal and measure.operation != "count")
    return Window(
        stored["aggregation_id"], stored.get("start_ns"), stored.get("end_ns"), stored["opened_ns"],
        stored["items"], stored["batches"], stored["batched"], stored.get("failed"), found,
    )  # fmt: skip


def _partial_value(measure: Measure, partial: Any) -> Any:
    if measure.operation == "avg":
        return {"count": partial[0], "sum": _wire(partial[1])}
    return distinct_values(partial)


def _number(value: Any, is_decimal: bool) -> Any:
    return Decimal(value) if is_decimal else value


def _wire(value: Any) -> Any:
    return decimal_text(value) if isinstance(value, Decimal) else value


def _present(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in parts.items() if part is not None}
