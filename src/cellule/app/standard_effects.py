"""The effects that come with Cellule, as declarations: `timer`, `http`, `blob_put`, `blob_get`, `llm`, ...

They are made when first asked for, from the classes of their params and receipts alone: an app that uses none
imports none, and no driver is ever imported here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from cellule.app.effects import DeclaredEffect, EffectLike, timer
from cellule.effects.kinds import STANDARD

if TYPE_CHECKING:
    from cellule.effects.blob.types import BlobContent, BlobGet, BlobPut, BlobStored
    from cellule.effects.http.params import HttpRequest, HttpResponse
    from cellule.effects.llm.types import LlmGenerate, LlmGenerated
    from cellule.effects.process.types import ProcessEnded, ProcessRun
    from cellule.effects.publish.types import EventPublish, EventPublished

    http: DeclaredEffect[HttpRequest, HttpResponse]
    blob_put: DeclaredEffect[BlobPut, BlobStored]
    blob_get: DeclaredEffect[BlobGet, BlobContent]
    llm: DeclaredEffect[LlmGenerate, LlmGenerated]
    process: DeclaredEffect[ProcessRun, ProcessEnded]
    publish: DeclaredEffect[EventPublish, EventPublished]


_BY_KIND: Final = {home.kind: name for name, home in STANDARD.items()}
_made: Final[dict[str, EffectLike]] = {"timer": timer}

NAMES: Final = ("timer", *STANDARD)
KINDS: Final = (timer.kind, *_BY_KIND)


def of_kind(kind: str) -> EffectLike | None:
    """The declaration of a kind that comes with Cellule; None for any other."""
    if kind == timer.kind:
        return timer
    name = _BY_KIND.get(kind)
    return None if name is None else _declaration(name)


def _declaration(name: str) -> EffectLike:
    found = _made.get(name)
    if found is None:
        home = STANDARD[name]
        types = import_module(home.types)
        params, receipt = getattr(types, home.params), getattr(types, home.receipt)
        found = _made[name] = DeclaredEffect(home.kind, params, receipt, home.limits)
    return found


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module 'cellule.app.standard_effects' has no attribute {name!r}")
    return _declaration(name)
