"""The kinds of effects that come with Cellule: where their classes and adapters live, and their limits.

Declarations for authors (`app/standard_effects.py`) and adapters of nodes (`registry.py`) are made from
this one table. Nothing is imported here: an app that uses none of them loads none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from cellule.effects.adapter import AdapterLimits


class StandardKind(NamedTuple):
    """One kind: the module and names of its classes, the module and name of its adapter."""

    kind: str
    types: str
    params: str
    receipt: str
    module: str
    adapter: str
    limits: AdapterLimits


def _kind(
    kind: str, package: str, types: str, params: str, receipt: str, adapter: str, limits: AdapterLimits
) -> StandardKind:
    base = f"cellule.effects.{package}"
    return StandardKind(kind, f"{base}.{types}", params, receipt, f"{base}.adapter", adapter, limits)


STANDARD: Final = {
    "http": _kind(
        "http.request", "http", "params", "HttpRequest", "HttpResponse", "HttpAdapter",
        AdapterLimits(needs_grant=True),
    ),
    "blob_put": _kind(
        "blob.put", "blob", "types", "BlobPut", "BlobStored", "BlobPutAdapter", AdapterLimits()
    ),
    "blob_get": _kind(
        "blob.get", "blob", "types", "BlobGet", "BlobContent", "BlobGetAdapter", AdapterLimits()
    ),
    "llm": _kind(
        "llm.generate", "llm", "types", "LlmGenerate", "LlmGenerated", "LlmAdapter",
        AdapterLimits(timeout_s=600, needs_grant=True),
    ),
    "process": _kind(
        "process.run", "process", "types", "ProcessRun", "ProcessEnded", "ProcessAdapter",
        AdapterLimits(timeout_s=4_000, attempts=3, concurrency=4, needs_grant=True),
    ),
    "publish": _kind(
        "event.publish", "publish", "types", "EventPublish", "EventPublished", "NatsAdapter",
        AdapterLimits(timeout_s=30, concurrency=64, needs_grant=True),
    ),
}  # fmt: skip
"""By the name authors use for the declaration."""


def limits_of(name: str, given: AdapterLimits | None) -> AdapterLimits:
    """The limits of a kind as a node says; whether it needs a grant is not for the node to say."""
    standard = STANDARD[name].limits
    return standard if given is None else replace(given, needs_grant=standard.needs_grant)
