"""The answers of a fork: what adapters said in the parent, or what somebody wrote for it.

They become an index in the CAS, which the fork's first record links. Recorded ones are matched by cell, kind
and params, and by their order: the n-th request like that gets what the n-th got. What the kernel decided by
itself, and what a cell took back, is no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cellule.errors import Rejected
from cellule.host.cas_fetch import put_blocks
from cellule.host.codecs import WorldCodecs
from cellule.host.read.effects.references import receipt_bytes
from cellule.host.read.reader import Reader
from cellule.host.read.record_view import key_of_text
from cellule.kernel.index.chunk import LISTS
from cellule.kernel.index.write import build
from cellule.kernel.journal.codes import Settled
from cellule.kernel.journal.records import IntentRecord, ReceiptRecord
from cellule.kernel.limits import PARAMS_INLINE_MAX
from cellule.kernel.manifest.model import TIMER_SET, Manifest
from cellule.kernel.state.branch import Answer, answer_key
from cellule.kernel.state.intent_id import params_digest
from cellule.store.cas import Cas
from cellule.values.cbor import decode_trusted, encode
from cellule.values.cid import Cid, cid_of
from cellule.values.envelope import seal
from cellule.values.json_view import from_json
from cellule.values.link import Link
from cellule.values.schema import types as t
from cellule.values.schema import wire_codec
from cellule.values.sealed_value import is_sealed

ANSWERS_MAX: Final = 100_000  # answers of one fork
_FIELDS: Final = frozenset(("kind", "module", "key", "params", "status", "value", "code", "text", "always"))
_GIVEN: Final = {status.name.lower(): status for status in Settled if status != Settled.ABANDONED}
_BY_ITSELF: Final = frozenset(("fired", "step", "control", "fork", "answer"))

Script = Sequence[Mapping[str, Any]]
"""Answers as people write them: kind, status and value or code and text; and which requests they are for."""


@dataclass(slots=True)
class AnswerRows:
    """Answers on their way into an index."""

    rows: dict[bytes, Any]
    blocks: dict[Cid, bytes]

    def add(self, key: bytes, answer: Answer) -> None:
        """One more; `Rejected` beyond the limit."""
        if len(self.rows) >= ANSWERS_MAX:
            raise Rejected(
                "host.answers_max", "a fork takes at most {most} answers", most=ANSWERS_MAX,
                hint="Fork at a later height, or write a script with `always`.",
            )  # fmt: skip
        self.rows[key] = list(answer)

    def stored(self, value: bytes) -> Any:
        """A value as the index holds it."""
        if len(value) <= PARAMS_INLINE_MAX:
            return seal(value)
        cid = cid_of(value)
        self.blocks[cid] = value
        return Link(cid)

    async def put(self, cas: Cas) -> tuple[Cid, int] | None:
        """Put the index into the CAS; its root, and how many answers it has."""
        if not self.rows:
            return None
        made = build(self.rows, LISTS)
        assert made.root is not None
        await put_blocks(cas, {**self.blocks, **made.blocks})
        return made.root, len(self.rows)


async def recorded_answers(reader: Reader, height: int) -> AnswerRows:
    """What adapters, and people in their place, said above a height of the reader's world."""
    found = AnswerRows({}, {})
    head = await reader.journal.head()
    intents: dict[int, IntentRecord] = {}
    async for frame in reader.journal.frames(height + 1, head.height):
        for at, record in frame.numbered():
            if isinstance(record, IntentRecord) and record.kind != TIMER_SET:
                intents[at] = record
            elif isinstance(record, ReceiptRecord):
                await _record(reader, found, record, intents.pop(record.cause, None))
    return found


async def _record(
    reader: Reader, found: AnswerRows, record: ReceiptRecord, intent: IntentRecord | None
) -> None:
    if not _BY_ITSELF.isdisjoint(record.extras) or record.status in (Settled.ABANDONED, Settled.DENIED):
        return
    if intent is None:  # it was open at the fork
        intent = (await reader.frame(record.cause)).expect(record.cause, IntentRecord)
    if intent.kind == TIMER_SET:
        return
    received = await reader.stored_bytes(record.value)
    if is_sealed(received):  # an index of answers is not sealed: the fork holds the effect instead
        return
    told: Any = decode_trusted(received)
    value = found.stored(encode(told.get("value"))) if record.status == Settled.OK else None
    key = answer_key((intent.module, intent.key), intent.kind, params_digest(intent.params), record.cause)
    code, text = record.extras.get("code", ""), record.extras.get("text", "")
    found.add(key, Answer(record.status, value, code, text, always=False))


def scripted_answers(script: Script, types: WorldCodecs, manifest: Manifest) -> AnswerRows:
    """What somebody wrote; `Rejected` names the answer and the field that is wrong."""
    found = AnswerRows({}, {})
    if not isinstance(script, list | tuple):
        raise _wrong(0, "a script", "is a list of answers")
    for number, each in enumerate(script):
        if not isinstance(each, Mapping) or not set(each) <= _FIELDS:
            raise _wrong(number, "it", f"is a map of some of {', '.join(sorted(_FIELDS))}")
        found.add(*_scripted(number, each, types, manifest, found))
    return found


def _scripted(
    number: int, each: Mapping[str, Any], types: WorldCodecs, manifest: Manifest, found: AnswerRows
) -> tuple[bytes, Answer]:
    kind, status = each.get("kind"), each.get("status", "ok")
    if not isinstance(kind, str) or kind not in manifest.effects or kind == TIMER_SET:
        known = ", ".join(sorted(set(manifest.effects) - {TIMER_SET})) or "none"
        raise _wrong(number, "kind", f"is an effect of the world: {known}")
    if status not in _GIVEN:
        raise _wrong(number, "status", f"is one of {', '.join(_GIVEN)}")
    if (status == "ok") != ("value" in each):
        raise _wrong(number, "value", "stands there exactly if the status is ok")
    value = None
    if status == "ok":
        value = found.stored(receipt_bytes(types, manifest, kind, each["value"]))
    params = None
    if "params" in each:
        schema = t.Ref(manifest.effects[kind].params)
        codec = wire_codec(schema, manifest.schemas)
        params = params_digest([codec.encode(from_json(each["params"], schema, manifest.schemas))])
    cell = _cell(number, each, types, manifest)
    key = answer_key(cell, kind, params, number)
    answer = Answer(
        int(_GIVEN[status]), value, str(each.get("code", "")), str(each.get("text", "")),
        bool(each.get("always", False)),
    )  # fmt: skip
    return key, answer


def _cell(
    number: int, each: Mapping[str, Any], types: WorldCodecs, manifest: Manifest
) -> tuple[str, bytes] | None:
    if "module" not in each:
        if "key" in each:
            raise _wrong(number, "key", "needs `module`, too")
        return None
    base = types.module(each["module"])
    key = each.get("key", b"")
    return base, key_of_text(manifest, base, key) if isinstance(key, str) else key


def _wrong(number: int, field: str, what: str) -> Rejected:
    return Rejected(
        "host.script", "answer {number} of the script: {field} {what}", number=number, field=field, what=what,
        hint="For example: {'kind': 'shop.charge', 'status': 'ok', 'value': {...}, 'always': true}.",
    )  # fmt: skip
