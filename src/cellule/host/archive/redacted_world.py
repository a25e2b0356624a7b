"""A world's journal without some fields, as a CAR file: for people and tools, and no world any more.

    root  = {kind: "cellule/redacted-world", format: 0, name, world, made_ns, first, height, head: bytes?,
             before: bytes?, redacted: [text], manifests: [Link], pages: [Link]}
    page  = [[last, Link(frame)]]
    frame = {first, last, beat, now_ns, frame: bytes, prev: bytes?, records: [{height, kind, cause, ...}]}

Records stand as `cellule journal` shows them. A field of a hidden name is null, at any depth; texts of
failures, and what controls carried, are left out whole, as they may say the same. A record that would make
its frame longer than a block may be is a block of its own. Snapshots are not in the file. `frame` and `prev`
are the digests of the frames themselves, so the file shows which journal it is of, without gaps up to the
head, and whoever has the journal can compare.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cellule.errors import Corrupted, Rejected
from cellule.host.archive.car import CarFile
from cellule.host.archive.car_writer import CarWriter, write_linked
from cellule.host.archive.cell_exporter import check_keys_hidden, redacted
from cellule.host.archive.document import PAGE_FRAMES, page_block, read_page
from cellule.host.archive.exporter import Exported
from cellule.host.archive.fields import bytes_of, count_of, redacted_file, wrong
from cellule.host.journal import Journal, Progress
from cellule.host.limits import EXPORT_FRAME_BYTES
from cellule.host.read.follower import Follower
from cellule.host.read.record_view import RecordRenderer, RecordView
from cellule.kernel.journal.frame import Frame, Header
from cellule.kernel.journal.links import Links
from cellule.sources import Clock
from cellule.values.cbor import decode, decode_trusted, encode
from cellule.values.cid import Cid
from cellule.values.link import Link, Value

KIND = "cellule/redacted-world"
FORMAT = 0
_KEPT_ARGUMENTS = ("module", "key", "height", "at", "count", "era")  # of controls: what says no value


async def export_redacted(
    follower: Follower, clock: Clock, path: Path, redact: Iterable[str], progress: Progress | None = None
) -> Exported:
    """Write the journal of a world without these fields to a new file."""
    hidden, info = frozenset(redact), follower.info
    renderer = RecordRenderer(follower, opens=False)
    manifests = {each.cid: each for each in await renderer.manifests()}
    for manifest in manifests.values():
        check_keys_hidden(manifest, hidden)
    head = await follower.journal.head()
    oldest = await Journal(follower.loader.engine, follower.cas, info.lineage).oldest()
    writer = CarWriter(path)
    try:
        await writer.begin(next(iter(manifests)))  # until the root is known
        pages: list[Cid] = []
        listed: list[tuple[int, Cid]] = []
        start: Header | None = None
        count = 0
        async for frame in follower.journal.frames(oldest, head.height):
            start, count = start or frame.header, count + 1
            records = [encode(_record(each, hidden)) for each in await renderer.frame(frame)]
            block = await _frame(frame, records, writer)
            listed.append((frame.header.last, await writer.put(block)))
            if len(listed) == PAGE_FRAMES or frame.header.last == head.height:
                pages.append(await writer.put(page_block(listed)))
                listed = []
            if progress is not None:
                progress(frame.header.last, head.height)
        first, before = (oldest, None) if start is None else (start.first, start.prev)
        await write_linked(writer, follower.cas, Links(set(manifests), set()))
        root = await writer.put(encode({
            "kind": KIND, "format": FORMAT, "name": info.name, "world": info.id.bytes,
            "made_ns": clock.now_ns(), "first": first, "height": head.height, "head": head.frame,
            "before": before, "redacted": [*map(str, sorted(hidden))],
            "manifests": list(map(Link, sorted(manifests))), "pages": list(map(Link, pages)),
        }))  # fmt: skip
        writer.finish(root)
    finally:
        writer.drop()
    return Exported(path, root, head.height, first, count, len(writer.seen), writer.size)


async def _frame(frame: Frame, records: list[bytes], writer: CarWriter) -> bytes:
    header, told, size = frame.header, [], 0
    for record in records:
        size += len(record)
        told.append(decode_trusted(record) if size < EXPORT_FRAME_BYTES else Link(await writer.put(record)))
    return encode({
        "first": header.first, "last": header.last, "beat": header.beat, "now_ns": header.now_ns,
        "frame": frame.cid.digest, "prev": header.prev, "records": told,
    })  # fmt: skip


def _record(record: RecordView, hidden: frozenset[str]) -> Value:
    told: Any = redacted(record.fields, hidden)
    if "text" in told:
        told["text"] = None
    if isinstance(told.get("error"), dict):
        told["error"] = {**told["error"], "text": None}
    if isinstance(told.get("arguments"), dict):
        told["arguments"] = {
            name: value if name in _KEPT_ARGUMENTS else None for name, value in told["arguments"].items()
        }
    return {**told, "height": record.height, "kind": record.kind, "cause": record.cause}


def is_redacted_world(root: bytes) -> bool:
    """Tell whether a file begins with the root of such an export."""
    value: Any = decode(root)
    return isinstance(value, dict) and value.get("kind") == KIND


def refuse_redacted_world(car: CarFile) -> Rejected:
    """The error of such a file, once what can be proven is; `Rejected`, too, if it is not whole."""
    root: Any = decode(car.read(car.root))
    try:
        fields, before, last = tuple(map(str, root["redacted"])), root["before"], count_of(root, "first") - 1
        count = 0
        for page in root["pages"]:
            for height, cid in read_page(car.read(page.cid)):
                frame: Any = decode(car.read(cid))
                follows = frame["prev"] == before and count_of(frame, "first") == last + 1
                if not follows or count_of(frame, "last") != height:
                    raise Corrupted(
                        "host.frame_missing", "the frame of height {height} is another", height=height
                    )
                before, last, count = bytes_of(frame, "frame", 32), height, count + 1
        if (before, last) != (root["head"], root["height"]):
            raise Corrupted(
                "host.head_mismatch", "the frames do not end at height {head}", head=root["height"]
            )
    except (KeyError, TypeError, AttributeError) as error:
        raise wrong("root", f"it lacks {error}") from error
    except Corrupted as error:
        raise Rejected(
            "archive.world_broken", "the file holds no whole journal: {why}", why=error,
            hint="Nothing was changed. Make the export again.",
        ) from error  # fmt: skip
    proven = (
        f"its {count} frames to height {last} follow each other, as far as can be told without these fields"
    )
    return redacted_file(fields, proven)
