"""Frozen bytes of every kind of record, of a snapshot and of an empty world's baseline.

A fixed script is run again and must write the same bytes. The frames hold texts of errors: where only such a
text was reworded, freezing the bytes anew is right; any other difference means that stored worlds can no
longer be read. `frames.json` has one frame for each step of the script; long blocks stand there by CID only.
"""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from cellule.kernel.index.keys import pair_of
from cellule.kernel.items import ControlItem, EventItem, Pace, SignalItem
from cellule.kernel.journal.codes import Kind, Status
from cellule.kernel.journal.heartbeat_records import (
    AgendaRecord,
    SignalRecord,
    WriteRecord,
)
from cellule.kernel.journal.records import (
    DecisionRecord,
    EventRecord,
    ForkRecord,
    IntentRecord,
    ReceiptRecord,
    StepRecord,
)
from cellule.kernel.journal.table import BY_CLASS, KINDS
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Need, drive
from cellule.kernel.program import StepFault, refusal
from cellule.kernel.prove.check import Position, check_frames
from cellule.kernel.state import dedupe
from cellule.kernel.state import log_state as log
from cellule.kernel.state.snapshot import SnapshotJob
from cellule.kernel.world import World
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.kernel_world import Did, FunctionPrograms

FROZEN = Path(__file__).with_name("frames.json")
START_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000
BLOCK_SHOWN_MAX = 2_000
BLOB = Link(cid_of(encode({"a": "blob"})))
TEXT = {"text": {}}

SCHEMAS = {
    "gold/Do@1": {"record": {"who": TEXT, "do": TEXT}},
    "gold/Only@1": {"record": {"who": TEXT, "do": TEXT}},
    "gold/Lone@1": {"record": {}},
    "gold/Coin@1": {"record": {"sum": {"int": {}}, "pad": TEXT, "link": {"option": {"hash": {}}}}},
    "gold/Coin@2": {"record": {"sum": {"int": {}}, "pad": TEXT}},
    "gold/Seen@1": {"record": {"count": {"int": {}}}},
}
EVENTS = ["gold/Do@1"]
UPCASTER = {"from": "gold/Coin@1", "to": "gold/Coin@2", "code": {"gold": "up"}}


ENZYME = {"name": "bell", "query": "/gold/**", "match": "prefix", "module": "gold/Bell", "retry_limit": 1}


def document(version: int = 1, *, upcasts: bool = False, enzymes: bool = False) -> dict[str, object]:
    coin = f"gold/Coin@{version}"
    whole = {
        "schemas": SCHEMAS,
        "modules": {
            coin: {
                "kind": "pure", "state": coin, "key": TEXT, "context": True,
                "event": [*EVENTS, "gold/Only@1"],
                "retention": {"idle_ns": 60 * SECOND_NS, "ttl_ns": 90 * SECOND_NS},
            },
            "gold/Diary@1": {"kind": "pure", "state": "log", "key": TEXT, "event": EVENTS},
            "gold/Seen@1": {
                "kind": "pure", "state": "gold/Seen@1", "event": ["gold/Do@1", "sys/WorldStarted@1"],
                "failure": "skip",
            },
        },
        "routing": {"subscriptions": [
            {"event": "gold/Do@1", "module": coin, "key_field": "who"},
            {"event": "gold/Only@1", "module": coin, "key_field": "who"},
            {"event": "gold/Do@1", "module": "gold/Diary@1", "key_field": "who"},
            {"event": "gold/Do@1", "module": "gold/Seen@1"},
            {"event": "sys/WorldStarted@1", "module": "gold/Seen@1"},
        ]},
        "upcasters": [UPCASTER] if upcasts else [],
    }  # fmt: skip
    if enzymes:
        bell = {"state": "sys/Value@1", "style": "enzyme", "code": {"gold": "bell"}, "writes": ["/gold"]}
        whole["modules"]["gold/Bell@1"] = bell
        listener = {"kind": "pure", "state": "gold/Seen@1", "event": ["sys/Signal@1"]}
        whole["modules"]["gold/Heard@1"] = listener
        whole["enzymes"] = [ENZYME]
    return whole


def coin(state, schema, event, ctx):
    state = {**(state or {"sum": 0, "pad": ""})}
    state["sum"] += 1
    match event["do"]:
        case "ask":
            return Did(state, reply={"height": ctx.journal_height}, ann={"entropy": ctx.entropy})
        case "emit":
            again = ("gold/Do@1", {"who": "z", "do": "add"})
            return Did(state, emit=[again, ("gold/Lone@1", {})])
        case "fail":
            raise StepFault("gold.fails", "as told")
        case "refuse":
            raise refusal("as told", "gold.no")
        case "grow":
            return Did({**state, "pad": "x" * 5_000})
        case "link":
            return Did({**state, "link": BLOB}, reply=BLOB)
        case "delete":
            return Did(None)
    return Did(state)


def seen(state, schema, event, ctx):
    if event.get("do") == "fail":
        raise StepFault("gold.late", "took too long", timed_out=True)
    return Did({"count": (state or {"count": 0})["count"] + 1})


def bell(call, tree):
    match call.signal:
        case "/gold/again":
            return -1
        case "/gold/fail":
            raise StepFault("gold.cracked", "as told")
        case "/gold/quiet":
            return 3
    entry = {"name": "late", "query": "/late", "module": "gold/Bell", "before": ["bell"], "access": "ro"}
    return 0, [
        {"do": "write", "path": "/gold/" + "x" * 512, "value": "far"},
        {"do": "write", "path": "/gold/long", "value": "x" * 5_000},
        {"do": "delete", "path": "/gold/old"},
        {
            "do": "signal",
            "signal": "/gold/quiet",
            "target": "/gold/long",
            "payload": [1],
            "beat": call.beat + 2,
        },
        {"do": "signal", "signal": "/late", "target": "/cells/gold/Heard", "payload": "y" * 2_000},
        {"do": "bind", "path": "/gold/long", "name": "bell", "propagate": True},
        {"do": "unbind", "path": "/gold", "name": "bell"},
        {"do": "register", "entry": entry},
        {"do": "report", "severity": "info", "text": "rung"},
    ]


def heard(state, schema, event, ctx):
    return Did({"count": (state or {"count": 0})["count"] + 1})


PROGRAMS = FunctionPrograms(
    {
        "gold/Coin": coin,
        "gold/Seen": seen,
        "gold/Bell": bell,
        "gold/Heard": heard,
        "gold/Diary": lambda state, schema, event, ctx: Did([event["do"]]),
    },
    {("gold/Coin@1", "gold/Coin@2"): lambda old: {"sum": old["sum"], "pad": old["pad"]}},
)


def do(who: str, deed: str, **options: object) -> EventItem:
    return EventItem("gold/Do@1", encode({"who": who, "do": deed}), **options)


def only(who: str, **options: object) -> EventItem:
    return EventItem("gold/Only@1", encode({"who": who, "do": "add"}), **options)


def control(verb: str, /, **arguments: object) -> ControlItem:
    return ControlItem(verb, "ada", "for the record", arguments)


class Museum:
    """Runs the script; entropy counts up, so that nothing but the kernel decides a byte."""

    def __init__(self) -> None:
        self.cas: dict[object, bytes] = {BLOB.cid: encode({"a": "blob"})}
        self.frames: list[tuple[str, bytes]] = []
        self.now_ns = START_NS
        manifest = load_manifest(document())
        self.cas[manifest.cid] = manifest.data
        self.world = World.create(manifest, UUID(int=7), START_NS, PROGRAMS, pace=Pace(100, 4))
        self.baseline = self.save()

    def beat(self, name: str, *items: object, after_s: int = 0) -> None:
        self.now_ns += after_s * SECOND_NS
        answer = self.world.beat(list(items), self.now_ns, bytes([len(self.frames)]) * 16)
        while isinstance(answer, Need):
            answer = self.world.resume(self.fetch(answer.cids))
        assert answer.frame is not None, name
        self.cas.update(answer.blocks)
        self.frames.append((name, answer.frame))

    def save(self) -> SnapshotJob:
        """Write a snapshot; the job keeps its blocks."""
        job = self.world.snapshot()
        root = None
        while root is None:
            answer = self.world.snapshot_slice()
            if isinstance(answer, Need):
                self.world.ledger.nodes.add(self.fetch(answer.cids))
            elif isinstance(answer, bytes):
                root = answer
        self.cas.update(job.blocks)
        job.saved()
        job.root = root
        return job

    def letter(self) -> int:
        """The height of the newest dead letter."""
        letters = self.world.ledger.dead_letters
        return pair_of(drive(letters.scan(b"", None, 100), self.world.ledger.nodes, self.fetch)[-1][0])[0]

    def fetch(self, cids):
        return {cid: self.cas[cid] for cid in cids if cid in self.cas}

    def deploy(self, *manifest: object, **options: object) -> ControlItem:
        loaded = load_manifest(document(*manifest, **options))
        self.cas[loaded.cid] = loaded.data
        return control("deploy", manifest=Link(loaded.cid))


def script(museum: Museum) -> SnapshotJob:
    beat = museum.beat
    beat("the first event of a world", World.started())
    beat("an event, three steps, two timers", do("a", "add"))
    asked = do("a", "ask", id=UUID(int=9), explicit=True, correlation="c")
    beat("an id, a correlation, a reply and an annotation", asked)
    beat("an id for the records only", only("a", id="note 1"))
    beat("an expected version that is met, and one that is not", *[only("a", expected_version=3)] * 2)
    beat("events emitted, one that nobody takes", do("b", "emit"))
    beat("an emitted event is delivered")
    beat("a halted step and a skipped one that timed out", do("a", "fail"))
    beat("a message waits behind a halted one", do("a", "add"))
    beat("a resumed cell halts again", control("cell.resume", module="gold/Coin", key=b"a"))
    beat("a message that a person drops", control("cell.drop", module="gold/Coin", key=b"a"))
    beat("a cell that a person deletes", control("cell.delete", module="gold/Coin", key=b"a"))
    beat("a dead letter redriven", control("letter.redrive", letter=museum.letter()))
    beat("it fails again")
    beat("a dead letter dismissed", control("letter.dismiss", letter=museum.letter()))
    beat("a long state as a block", do("c", "grow"))
    beat("a state and a reply with links", do("c", "link"))
    beat("a deleted cell", do("b", "delete"))
    beat("a refused event", do("c", "refuse"))
    unknown = EventItem("gold/Nope@1", encode({}), id="r", durable=True)
    beat("refused items", unknown, ControlItem("dance", "bob", "", {}, durable=True))
    beat("a paused world", control("pause"), do("c", "add"))
    beat("a world that goes on", control("resume"))
    beat("a deploy", museum.deploy(2))
    beat("a cell that needs migration, and a new one", only("z"), only("d"))
    beat("a way to migrate", museum.deploy(2, upcasts=True))
    beat("a cell upcast inside its step", only("c"))
    beat("a migrated cell runs", control("cell.migrate"))
    beat("timers are dropped, moved, and end cells", after_s=61)
    beat("timers of cells that are gone are dropped", after_s=40)
    crowd = (do("e", "add", id=f"crowd {at}", explicit=True) for at in range(20))
    beat("a crowd", *crowd, do("d", "fail"), do("d", "emit"), do("f", "emit"))
    beat("an id of 16 bytes", do("g", "emit", id=bytes(range(16)), explicit=True))
    etag = {"expected_version": 1, "expected_born": 1}
    beat("an id that a conflict leaves unused", only("g", id="again", explicit=True, **etag))
    beat("a verb with an id", ControlItem("pause", "ada", "once", {}, id=UUID(int=11)))
    beat("a message waits for its version", only("g", id="later", explicit=True, **etag))
    beat("it goes on", control("resume"))
    heartbeat(museum)
    job = museum.save()
    arguments = {"height": job.height, "snapshot": Link(job.root)}
    noted = [control(verb, **arguments) for verb in ("snapshot", "baseline")]
    beat("a snapshot and a baseline are noted", *noted)
    return job


def heartbeat(museum: Museum) -> None:
    beat = museum.beat
    beat("enzymes of a manifest", museum.deploy(2, upcasts=True, enzymes=True))
    late = {"name": "other", "query": "/none", "module": "gold/Bell"}
    beat("an entry, and another one", *[control("enzyme.register", entry=late)] * 2)
    beat("an entry that is gone", control("enzyme.unregister", number=1))
    beat("nodes of the tree", control("tree.write", path="/gold/old/leaf", value={"a": 1}))
    beat("a binding", control("enzyme.bind", path="/gold", name="bell", propagate=False))
    beat("an impulse", SignalItem("/gold/ring", "/gold", id="bing", explicit=True))
    beat("an enzyme does all that it can")
    beat("a message for a cell, and a report that nobody takes")
    beat("a bound target")
    failing = [SignalItem(f"/gold/{what}") for what in ("again", "fail", "quiet", "quiet")]
    beat("impulses that go wrong", *failing)
    beat("a retry, a failure, and a repeat")
    beat("the last retry")
    beat("a warning that nobody takes")
    beat("a paused heartbeat", control("heartbeat.pause"), SignalItem("/gold/quiet", beat=10_000))
    beat("it counts on demand", control("heartbeat.beat"))
    beat("it goes on", control("heartbeat.resume"))
    beat("a node is deleted", control("tree.delete", path="/gold/long"))
    payload = encode({"rows": 5})
    started = control("op.start", verb="op/gold", target="/gold", mode="opm:states", ttl=9, payload=payload)
    beat("an operation", started)
    op = f"{museum.world.ledger.beat}-1"
    waits = [("ist:melt", "/gold/quiet", 1), ("ist:melt", "/gold/quiet", 0), ("sts:ok", "/gold/quiet", 500)]
    awaits = [control("op.await", operation=op, want=want, cont=cont, ttl=ttl) for want, cont, ttl in waits]
    beat("it is waited for", *awaits)
    beat(
        "a state that was waited for", control("op.state", operation=op, state="ist:melt", code=3, note="hot")
    )
    beat("beats have times", *[control("heartbeat.publish", beat=at, ns=at * at) for at in (3, 1, 7)])
    other = control("op.start", verb="op/gold", target="/gold", mode="opm:direct")
    beat("an operation that ends", other, control("heartbeat.window", window=9))
    ended = f"{museum.world.ledger.beat}-1"
    beat("its end", control("op.close", operation=ended, status="sts:fail", summary="cold"))


def told(cid, data):
    return {"cid": str(cid), "hex": data.hex() if len(data) <= BLOCK_SHOWN_MAX else f"{len(data)} bytes"}


def written() -> dict[str, object]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dedupe, "DEDUPE_BUCKET_IDS", 10)
        patch.setattr(log, "LOG_CHUNK_BYTES", 30)
        museum = Museum()
        job = script(museum)
    return {
        "baseline": [told(cid, data) for cid, data in sorted(museum.baseline.blocks.items())],
        "frames": [
            {"name": name, "cid": str(cid_of(data)), "hex": data.hex()} for name, data in museum.frames
        ],
        "snapshot": {
            "root": str(job.root),
            "blocks": [told(cid, data) for cid, data in sorted(job.blocks.items())],
        },
    }


@pytest.fixture(scope="module")
def again():
    return written()


@pytest.fixture(scope="module")
def frozen():
    return json.loads(FROZEN.read_text("utf-8"))


def test_the_baseline_of_an_empty_world_has_the_frozen_bytes(again, frozen):
    assert again["baseline"] == frozen["baseline"]


def test_every_frame_has_the_frozen_bytes(again, frozen):
    assert [row["name"] for row in again["frames"]] == [row["name"] for row in frozen["frames"]]
    for now, before in zip(again["frames"], frozen["frames"], strict=True):
        assert now == before


def test_the_snapshot_and_its_blocks_have_the_frozen_bytes(again, frozen):
    assert again["snapshot"] == frozen["snapshot"]


def test_the_frozen_frames_hold_every_kind_of_record_and_every_status(frozen):
    frames = [bytes.fromhex(row["hex"]) for row in frozen["frames"]]
    decoded = list(check_frames(frames, Position(0, None)))
    records = [record for frame in decoded for record in frame.records]
    elsewhere = {ReceiptRecord, IntentRecord, DecisionRecord, ForkRecord}  # in intents.json and forks.json
    assert {type(record) for record in records} == set(BY_CLASS) - elsewhere
    statuses = {record.status for record in records if isinstance(record, StepRecord)}
    assert statuses == {int(status) for status in Status}
    beaten = [record for record in records if isinstance(record, SignalRecord | AgendaRecord | WriteRecord)]
    told_of = {name for record in beaten for name in record.extras}
    own = {*KINDS[Kind.SIGNAL].extras, *KINDS[Kind.AGENDA].extras, *KINDS[Kind.WRITE].extras}
    assert told_of == own - {"cycle", "over", "dropped"}
    extended = [record for record in records if isinstance(record, EventRecord | StepRecord)]
    found = {name for record in extended for name in record.extras}
    elsewhere_too = {"cancels", "cut", "calls"}  # beside the intents that it cancels; in workflow.json
    assert found == {*KINDS[Kind.EVENT].extras, *KINDS[Kind.STEP].extras} - elsewhere_too
