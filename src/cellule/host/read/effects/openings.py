"""The dispatched intents of a world as its frames handed them out: what a repair compares with rows."""

from __future__ import annotations

from typing import Final

from cellule.host.read.effects.opened import IntentAt, OpenIntents
from cellule.host.read.reader import Reader
from cellule.kernel.items import Opening
from cellule.kernel.manifest.model import EffectKind, Manifest
from cellule.kernel.state.intent_id import intent_text
from cellule.kernel.state.rows import OPEN, OpenIntent

_UNDECLARED: Final = (5, 60_000_000_000, 1)
"""Priority, timeout and attempts of a kind that no manifest of the world declares any more."""


async def openings_of(opened: OpenIntents, reader: Reader) -> list[Opening]:
    """Every intent that an adapter has to perform, as its row says it."""
    manifest = await reader.manifest()
    return [
        await _opening(each, manifest, reader) async for each in opened.walk() if each.intent.status == OPEN
    ]


async def _opening(opened: IntentAt, manifest: Manifest, reader: Reader) -> Opening:
    digest, base, key, born, kind, _, kept = opened.intent
    effect = await _effect(opened.intent, manifest, reader)
    priority, timeout_ns, attempts = (
        _UNDECLARED if effect is None else (effect.priority, effect.timeout_ns, effect.attempts)
    )
    grant = manifest.grants.get(kept.get("grant", ""))
    return Opening(
        digest, opened.height, kind, await reader.bytes_of(kept["params"]),
        kept.get("key") or intent_text(digest), priority, timeout_ns, attempts,
        None if grant is None else grant.as_data(), base, key, born,
    )  # fmt: skip


async def _effect(intent: OpenIntent, manifest: Manifest, reader: Reader) -> EffectKind | None:
    """What the current manifest knows of the kind, else what the era of the cell does."""
    kind = intent.kind
    if kind in manifest.effects:
        return manifest.effects[kind]
    entry = await reader.entry(intent.module, intent.key)
    return None if entry is None else (await reader.manifest(entry.era)).effects.get(kind)
