"""The dispatched intents of a world as its frames handed them out: what a repair compares with rows."""

from __future__ import annotations

from typing import Final, NamedTuple

from cellule.errors import Rejected
from cellule.host.read.effects.opened import IntentAt, OpenIntents
from cellule.host.read.reader import Reader
from cellule.kernel.decide.intents.gate import check_again
from cellule.kernel.decide.requests import EffectRequest
from cellule.kernel.items import Opening
from cellule.kernel.manifest.effects import limited
from cellule.kernel.manifest.model import EffectKind, Manifest
from cellule.kernel.state.intent_id import intent_text
from cellule.kernel.state.rows import OPEN, OpenIntent

_UNDECLARED: Final = EffectKind("", "", "", "", 60_000_000_000, 1, 5)
"""How a kind is performed that no manifest of the world declares any more."""


class Openings(NamedTuple):
    """Every intent that an adapter has to perform, as its row says it.

    `withheld` are those whose grant does not give them any more, each with the reason: a row without the
    limits that the intent was allowed under would let it reach anything.
    """

    openings: list[Opening]
    withheld: dict[bytes, str]


async def openings_of(opened: OpenIntents, reader: Reader, now_ns: int) -> Openings:
    """The dispatched intents of a world."""
    manifest = await reader.manifest()
    found = Openings([], {})
    async for each in opened.walk():
        if each.intent.status != OPEN:
            continue
        opening = await _opening(each, manifest, reader, opened.sent_as(each))
        found.openings.append(opening)
        params = await reader.keys.opened(opening.params)
        reason = await _withheld(each.intent, params, manifest, reader, now_ns)
        if reason:
            found.withheld[opening.intent] = reason
    return found


async def _withheld(
    intent: OpenIntent, params: bytes, manifest: Manifest, reader: Reader, now_ns: int
) -> str:
    """Why an intent that a grant allowed is not allowed by it now; empty where it is."""
    effect = await _effect(intent, manifest, reader)
    name = intent.extras.get("grant")
    if effect is None:
        return "" if name is None else f"no manifest of the world declares {intent.kind} any more"
    asked = EffectRequest(effect, params, intent.extras.get("slot"), intent.extras.get("key"))
    try:
        check_again(manifest.grants, name, asked, now_ns)
    except Rejected as error:
        return str(error)
    return ""


async def _opening(opened: IntentAt, manifest: Manifest, reader: Reader, sent_as: bytes) -> Opening:
    digest, base, key, born, kind, _, kept = opened.intent
    effect = await _effect(opened.intent, manifest, reader)
    effect = limited(_UNDECLARED if effect is None else effect, kept.get("limits"))
    grant = manifest.grants.get(kept.get("grant", ""))
    return Opening(
        sent_as, opened.height, kind, await reader.stored_bytes(kept["params"]),
        kept.get("key") or intent_text(digest), effect.priority, effect.timeout_ns, effect.attempts,
        None if grant is None else grant.as_data(), base, key, born, effect.deadline_ns, effect.backoff_ns,
        effect.backoff_max_ns,
    )  # fmt: skip


async def _effect(intent: OpenIntent, manifest: Manifest, reader: Reader) -> EffectKind | None:
    """What the current manifest knows of the kind, else what the era of the cell does."""
    kind = intent.kind
    if kind in manifest.effects:
        return manifest.effects[kind]
    entry = await reader.entry(intent.module, intent.key)
    return None if entry is None else (await reader.manifest(entry.era)).effects.get(kind)
