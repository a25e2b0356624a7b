"""Records as people and programs read them: names in full, values by their schemas, keys as text.

A `RecordRenderer` knows the eras of one world: what a record holds is shown by the manifest it was written
under. It reads the journal only; what it cannot read by schema it shows as plain values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import UUID

from cellule.app.keys import TypedKey
from cellule.errors import CelluleError, readable
from cellule.host.cas_fetch import fetch_block
from cellule.host.erasure_keys import ErasureKeys
from cellule.host.read.follower import Follower
from cellule.host.read.heartbeat_fields import BeatClock, HeartbeatFields
from cellule.kernel.journal.codes import Delivery, Settled, Status, VerdictCode
from cellule.kernel.journal.fields import ScheduleTimer
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.records import (
    BaselineRecord,
    ControlRecord,
    DecisionRecord,
    EmittedRecord,
    EventRecord,
    ExpiredRecord,
    ForkRecord,
    IntentRecord,
    ManifestRecord,
    MigratedRecord,
    ReceiptRecord,
    Record,
    RefusedRecord,
    SnapshotRecord,
    StepRecord,
    TimerRecord,
    UpcastRecord,
)
from cellule.kernel.journal.table import kind_name
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.state.intent_id import intent_digest, intent_text
from cellule.kernel.state.ledger import Era
from cellule.values.cbor import decode_trusted
from cellule.values.cid import Cid
from cellule.values.envelope import value_of
from cellule.values.json_view import to_json
from cellule.values.schema import types as t
from cellule.values.schema.text_forms import time_text
from cellule.values.sealed_value import ERASED, is_sealed


@dataclass(frozen=True, slots=True)
class RecordView:
    """One record, ready to be shown: `fields` is JSON data."""

    height: int
    kind: str
    cause: int
    beat: int
    now_ns: int
    fields: dict[str, Any] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        """The record as one JSON object."""
        head = {"height": self.height, "kind": self.kind, "cause": self.cause, "beat": self.beat}
        return {**head, "time": time_text(self.now_ns), **self.fields}


class RecordRenderer:
    """Tells the records of one world."""

    def __init__(self, follower: Follower, *, opens: bool = True) -> None:
        self._opens = opens  # without it, what is sealed is shown as if it were erased
        self._follower = follower
        self._eras: list[Era] = []
        self._manifests: dict[Cid, Manifest] = {}
        self._clock = BeatClock(follower)
        self._render: dict[type[Record], Callable[[int, Any], Awaitable[dict[str, Any]]]] = {
            EventRecord: self._event, EmittedRecord: self._emitted, StepRecord: self._step,
            RefusedRecord: self._refused, TimerRecord: self._timer, ExpiredRecord: self._expired,
            ControlRecord: self._control, ManifestRecord: self._manifest, SnapshotRecord: self._snapshot,
            BaselineRecord: self._snapshot, MigratedRecord: self._migrated, UpcastRecord: self._upcast,
            IntentRecord: self._intent, DecisionRecord: self._decision, ReceiptRecord: self._receipt,
            ForkRecord: self._forked, **HeartbeatFields(self._bytes).renders(),
        }  # fmt: skip

    @cached_property
    def _keys(self) -> ErasureKeys:
        follower = self._follower
        return ErasureKeys(follower.loader.engine, follower.info.universe, opens=self._opens)

    @property
    def world(self) -> UUID:
        """The id of the world."""
        return self._follower.info.id

    async def frame(
        self, frame: Frame, only: Callable[[int, Record], bool] | None = None
    ) -> list[RecordView]:
        """The records of a frame, or `only` those that this says of a height and a record."""
        self._learn(frame)
        return [
            await self._view(frame, height)
            for height, record in frame.numbered()
            if only is None or only(height, record)
        ]

    async def at(self, height: int) -> RecordView:
        """The record at a height."""
        return await self._view(await self.frame_with(height), height)

    async def frame_with(self, height: int) -> Frame:
        """The frame that holds a height; `Rejected` beyond the journal."""
        return await self._follower.journal.frame(height)

    async def manifest(self, era: int = -1) -> Manifest:
        """The manifest of an era; by default of the newest one known."""
        if not self._eras or era >= len(self._eras):
            self._eras = list((await self._follower.world()).ledger.eras)
        cid = self._eras[era].manifest
        if cid not in self._manifests:
            self._manifests[cid] = load_manifest(await fetch_block(self._follower.cas, cid))
        return self._manifests[cid]

    async def manifests(self) -> list[Manifest]:
        """The manifests of all eras, oldest first."""
        await self.manifest()
        return [await self.manifest(era) for era in range(len(self._eras))]

    async def key(self, base: str, key: bytes, era: int = -1) -> str:
        """A key as people write it."""
        return key_text(await self.manifest(era), base, key)

    async def state(self, base: str, stored: Any, era: int) -> Any:
        """A state as JSON data."""
        if stored is None:
            return None
        manifest = await self.manifest(era)
        module = manifest.modules.get(base)
        if module is None or module.log:
            return shown(await self._bytes(stored), None, manifest)
        return shown(await self._bytes(stored), module.state, manifest)

    # Kinds

    async def _view(self, frame: Frame, height: int) -> RecordView:
        record, header = frame.at(height), frame.header
        fields = await self._render[record.__class__](height, record)
        if isinstance(record, ReceiptRecord):
            fields["unix_ts_ns"] = await self._clock.unix_ns(header)
        return RecordView(height, kind_name(record), record.cause, header.beat, header.now_ns, fields)

    def _learn(self, frame: Frame) -> None:
        """A frame may begin an era: what comes after it is told by that."""
        for height, record in frame.of(ManifestRecord):
            if self._eras and record.era == len(self._eras):
                self._eras.append(Era(record.manifest.cid, height))

    async def _event(self, height: int, record: EventRecord) -> dict[str, Any]:
        return {"id": id_text(record.id), **await self._message(height, record), **record.extras}

    async def _emitted(self, height: int, record: EmittedRecord) -> dict[str, Any]:
        return {"depth": record.depth, **await self._message(height, record)}

    async def _message(self, height: int, record: EventRecord | EmittedRecord) -> dict[str, Any]:
        schema, era = record.schema, await self._era_at(height)
        cells = [await self._cell(base, key, era) for base, key in record.targets]
        value = shown(await self._bytes(record.value), schema, await self.manifest(era))
        return {"schema": schema, "value": value, "targets": cells}

    async def _step(self, _height: int, record: StepRecord) -> dict[str, Any]:
        base, era, extras = record.module, record.era, record.extras
        fields: dict[str, Any] = {
            **await self._cell(base, record.key, era), "status": Status(record.status).name.lower(),
            "version": record.version, "born": record.born, "era": era, "prev": record.prev,
            "state": await self.state(base, record.state, era),
        }  # fmt: skip
        for name, stored in (("reply", extras.get("reply")), ("ann", extras.get("ann"))):
            if stored is not None:
                fields[name] = shown(await self._bytes(stored))
        if "code" in extras:
            text = await self._keys.opened_text(extras.get("text", ""))
            fields["error"] = {"code": extras["code"], "text": text}
        return {**fields, **_some(extras, "cancels")}

    async def _refused(self, _height: int, record: RefusedRecord) -> dict[str, Any]:
        error = {"code": record.code, "text": record.text}
        return {"id": id_text(record.id), "schema": record.schema, "error": error}

    async def _timer(self, height: int, record: TimerRecord) -> dict[str, Any]:
        due_ns, timer = record.due_ns, record.what
        fields: dict[str, Any] = {"due": time_text(due_ns) if due_ns else None}
        if timer is None:
            return {**fields, "what": None}
        if isinstance(timer, ScheduleTimer):
            state = "paused" if timer.paused else "armed" if timer.fingerprint and due_ns else "ended"
            if timer.waiting_ns:
                fields["waiting"] = time_text(timer.waiting_ns)
            return {**fields, "what": "schedule", "schedule": timer.name, "state": state}
        cell = await self._cell(timer.module, timer.key, await self._era_at(height))
        return {**fields, "what": timer.rule, **cell}

    async def _intent(self, height: int, record: IntentRecord) -> dict[str, Any]:
        base, key, born, kind = record.module, record.key, record.born, record.kind
        era = await self._era_at(height)
        params, manifest = await self._stored(record.params), await self.manifest(era)
        world = self._follower.info.lineage.world_at(record.cause).bytes
        digest = intent_digest(world, base, key, born, record.cause, record.position, kind, params)
        effect = manifest.effects.get(kind)
        return {
            "intent": intent_text(digest), "effect": kind, **await self._cell(base, key, era), "born": born,
            "params": shown(
                await self._keys.opened(params), None if effect is None else effect.params, manifest
            ),
            "idempotency_key": record.extras.get("key"), **_some(record.extras, "slot", "limits"),
            **({"entry": readable(record.extras["entry"])} if "entry" in record.extras else {}),
        }  # fmt: skip

    async def _decision(self, _height: int, record: DecisionRecord) -> dict[str, Any]:
        extras = await self._said(record.extras)
        fields = {
            "verdict": VerdictCode(record.verdict).name.lower(),
            **_some(
                extras, "rule", "grant", "code", "text", "same", "over", "under", "control", "by", "attempts"
            ),
        }
        return {**fields, "due": time_text(extras["due_ns"])} if "due_ns" in extras else fields

    async def _receipt(self, height: int, record: ReceiptRecord) -> dict[str, Any]:
        era, schema = await self._era_at(height), record.schema
        return {
            **await self._cell(record.module, record.key, era), "born": record.born,
            "status": Settled(record.status).name.lower(), "schema": schema,
            "value": shown(await self._bytes(record.value), schema, await self.manifest(era)),
            "told": Delivery(record.delivery).name.lower().replace("_", " "),
            **_some(
                await self._said(record.extras), "code", "text", "by", "attempts", "exhausted", "who", "why",
                "control", "step",
            ),
        }  # fmt: skip

    async def _expired(self, height: int, record: ExpiredRecord) -> dict[str, Any]:
        return await self._cell(record.module, record.key, await self._era_at(height))

    async def _control(self, _height: int, record: ControlRecord) -> dict[str, Any]:
        arguments = dict(record.arguments)
        cells = arguments.pop("cells", None)
        fields = {"verb": record.verb, "who": record.who, "why": record.why, "arguments": to_json(arguments)}
        if record.id is not None:
            fields["id"] = id_text(record.id)
        if cells is not None:
            fields["cells"] = [await self._cell(base, key, -1) for base, key in cells]
        return fields

    async def _manifest(self, _height: int, record: ManifestRecord) -> dict[str, Any]:
        return {"manifest": str(record.manifest.cid), "era": record.era}

    async def _forked(self, _height: int, record: ForkRecord) -> dict[str, Any]:
        parent = {"parent": str(UUID(bytes=record.parent))} if record.parent else {}
        extras: dict[str, Any] = dict(record.extras)
        if "answers" in extras:
            extras["answers"] = str(record.extras["answers"].cid)
        return {**parent, "at": record.height, "effects": record.effects, **extras}

    async def _snapshot(self, _height: int, record: SnapshotRecord | BaselineRecord) -> dict[str, Any]:
        return {"snapshot_height": record.height, "snapshot": str(record.snapshot.cid)}

    async def _migrated(self, _height: int, record: MigratedRecord) -> dict[str, Any]:
        base, era = record.module, record.era_to
        cell, state = await self._cell(base, record.key, era), await self.state(base, record.state, era)
        return {**cell, "from": record.era_from, "to": era, "state": state}

    async def _upcast(self, _height: int, record: UpcastRecord) -> dict[str, Any]:
        cell = await self._cell(record.module, record.key, -1)
        return {**cell, "from": record.schema_from, "to": record.schema_to}

    # Parts

    async def _cell(self, base: str, key: bytes, era: int) -> dict[str, str]:
        return {"module": base, "key": await self.key(base, key, era)}

    async def _era_at(self, height: int) -> int:
        """The era that routes at a height."""
        await self.manifest()
        return max(number for number, era in enumerate(self._eras) if era.height <= height)

    async def _said(self, extras: Mapping[str, Any]) -> Mapping[str, Any]:
        """The extras of a record with the text that was sealed in them."""
        if "text" not in extras:
            return extras
        return {**extras, "text": await self._keys.opened_text(extras["text"])}

    async def _bytes(self, stored: Any) -> bytes:
        return await self._keys.opened_state(await self._stored(stored))

    async def _stored(self, stored: Any) -> bytes:
        value = stored if isinstance(stored, bytes) else value_of(stored)
        return value if isinstance(value, bytes) else await fetch_block(self._follower.cas, value.cid)


def _some(extras: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Those of these fields that a record has."""
    return {name: extras[name] for name in names if name in extras}


def key_text(manifest: Manifest, base: str, key: bytes) -> str:
    """A key as people write it; `key_of_text` reads it back."""
    module = manifest.modules.get(base)
    if module is None:
        return readable(key)
    try:
        return TypedKey(manifest, module, None).text(key)
    except (CelluleError, UnicodeDecodeError):
        return readable(key)


def key_of_text(manifest: Manifest, base: str, text: str) -> bytes:
    """The bytes of a key that a person typed; `Rejected` where the module has no such key."""
    return TypedKey(manifest, manifest.modules[base], None).from_text(text)


def shown(data: bytes, schema: str | None = None, manifest: Manifest | None = None) -> Any:
    """Canonical bytes as JSON data, by their schema where the manifest has it; or that they are erased."""
    if is_sealed(data):
        return to_json(ERASED)
    value = decode_trusted(data)
    if schema is None or manifest is None or schema not in manifest.schemas:
        return to_json(value)
    return to_json(value, t.Ref(schema), manifest.schemas)


def id_text(event_id: Any) -> str | None:
    """An event's id as text."""
    if event_id is None or isinstance(event_id, str):
        return event_id
    data = event_id.bytes if isinstance(event_id, UUID) else bytes(event_id)
    return str(UUID(bytes=data)) if len(data) == 16 else f"0x{data.hex()}"
