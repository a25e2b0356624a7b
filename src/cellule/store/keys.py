"""Every key there is: one typed function per row of the layout, and nothing else builds keys.

Keys are packed tuples (`store/tuples.py`). A counter's first element is *bytes*, so its key begins with
01; every other key begins with text, 02. Universe and world ids are UUIDs of fixed width, so the name of a
world's row stands at a fixed byte. `docs/formats/keys.md` draws all of them. `..._range` gives the bounds of
a scan, `[begin, end)`. Families of keys are in `store/families.py`; what rows hold, where they are written.

Rejected: a world's rows under its universe's. What a universe lists about itself would not be one short scan.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from uuid import UUID

from cellule.errors import Rejected
from cellule.store.engine import STAMP_BYTES, Stamp
from cellule.store.families import (
    UNIVERSE_BYTES,
    UNIVERSE_HEAD,
    WORLD_BYTES,
    WORLD_HEAD,
    universe_prefix,
    world_prefix,
)
from cellule.store.tuples import INT_MAX, STAMP_CODE, Position, pack, pack_bytes, prefix_range, unpack

NAME_BYTES_MAX = 255
CID_BYTES_MAX = 128
BODY_BYTES = 16
NAMED_BYTES = 16
SHARDS = 64

Range = tuple[bytes, bytes]


def shard_of(world: UUID) -> int:
    """Return the shard of a world: 0 to 63, part of the format."""
    return sha256(world.bytes).digest()[0] & (SHARDS - 1)


def format_version() -> bytes:
    """`format`: the version of everything stored here."""
    return pack("format")


def store_objects() -> bytes:
    """`objects`: which object store belongs to this store; absent where it has none."""
    return pack("objects")


def copy_underway() -> bytes:
    """`copy`: this store is being made from a copy of another, and is not whole."""
    return pack("copy")


def probe(ident: UUID) -> bytes:
    """`probe/<id>`: written and removed again by whoever tries out a store."""
    return probe_prefix() + pack(ident)


def probe_prefix() -> bytes:
    """What the keys `probe/...` begin with."""
    return pack("probe")


def node_key() -> bytes:
    """`node_key`: what vouches for receipts, where nodes on many machines share the store."""
    return pack("node_key")


def universe_name(name: str) -> bytes:
    """`universes/<name>`: the id of the universe of that name."""
    return pack("universes", _name("universe name", name))


def universe_name_of(key: bytes) -> str:
    """Return the name that a key `universes/<name>` holds."""
    name = unpack(key)[1]
    assert isinstance(name, str)
    return name


def universe_named(name: str) -> bytes:
    """`named/<digest>`: the id of the universe of that name once more."""
    return pack("named", _digest("universe name", name))


def universe_count() -> bytes:
    """`universes`: a counter of all universes."""
    return pack(b"universes")


def universe_name_range() -> Range:
    """All universes by name."""
    return prefix_range(pack("universes"))


def universe_meta(universe: UUID) -> bytes:
    """`u/<universe>/meta`."""
    return universe_prefix(universe) + pack("meta")


def universe_world(universe: UUID, world: UUID) -> bytes:
    """`u/<universe>/worlds/<world>`."""
    return universe_prefix(universe) + pack("worlds", world)


def universe_world_range(universe: UUID) -> Range:
    """All worlds of a universe."""
    return prefix_range(universe_prefix(universe) + pack("worlds"))


def world_gone(universe: UUID, world: UUID) -> bytes:
    """`u/<universe>/gone/<world>`: the world was deleted."""
    return universe_prefix(universe) + pack("gone", world)


def row_count(rows: str, universe: UUID, *world: UUID) -> bytes:
    """`worlds/<universe>`, `holds/<universe>/<world>` and others: a counter of rows of that name."""
    return pack(rows.encode(), universe, *world)


def ref_named(universe: UUID, name: str) -> bytes:
    """`u/<universe>/named/<digest>`: the world a name points to once more."""
    return universe_prefix(universe) + pack("named", _digest("ref", name))


def ref(universe: UUID, name: str) -> bytes:
    """`u/<universe>/refs/<name>`: the world a name points to."""
    return universe_prefix(universe) + pack("refs", _name("ref", name))


def ref_name(key: bytes) -> str:
    """Return the name that a key `u/<universe>/refs/<name>` holds."""
    name = unpack(key[UNIVERSE_BYTES:])[1]
    assert isinstance(name, str)
    return name


def ref_range(universe: UUID, rows: str = "refs") -> Range:
    """All refs of a universe, by name; or of `named`, their second rows."""
    return prefix_range(universe_prefix(universe) + pack(rows))


def erasure_key(universe: UUID, key_id: bytes) -> bytes:
    """`u/<universe>/keys/<id>`: a key that a world made; destroying it erases what it sealed."""
    return universe_prefix(universe) + pack("keys", _sized("key id", key_id, 1, CID_BYTES_MAX))


def cas(universe: UUID, cid: bytes) -> bytes:
    """`u/<universe>/cas/<cid>`: one object's row; `cid` is the binary CID."""
    return universe_prefix(universe) + pack("cas", _sized("cid", cid, 1, CID_BYTES_MAX))


def cas_of(key: bytes) -> tuple[UUID, bytes] | None:
    """Return the universe and the CID that a CAS row's key names; None for any other key."""
    if not (key.startswith(UNIVERSE_HEAD) and key.startswith(b"\x02cas\0", UNIVERSE_BYTES)):
        return None
    cid = unpack(key[UNIVERSE_BYTES:])[1]
    assert isinstance(cid, bytes)
    return UUID(bytes=key[UNIVERSE_BYTES - 16 : UNIVERSE_BYTES]), cid


def cas_range(universe: UUID) -> Range:
    """All objects of a universe, by CID."""
    return prefix_range(universe_prefix(universe) + pack("cas"))


def cas_chunk(universe: UUID, body: bytes, number: int) -> bytes:
    """`u/<universe>/chunks/<body>/<n>`: one piece of a body kept in the engine; `body` has 16 bytes."""
    return _body(universe, body) + pack(_whole("chunk", number))


def cas_chunk_range(universe: UUID, body: bytes) -> Range:
    """All pieces of one body, in order."""
    return prefix_range(_body(universe, body))


def cas_generation(universe: UUID) -> bytes:
    """`u/<universe>/generation`: the collection generation that `put` writes into rows."""
    return universe_prefix(universe) + pack("generation")


def cas_mark(universe: UUID, cid: bytes) -> bytes:
    """`u/<universe>/marks/<cid>`: a collection under way has reached the object."""
    return universe_prefix(universe) + pack("marks", _sized("cid", cid, 1, CID_BYTES_MAX))


def cas_mark_range(universe: UUID) -> Range:
    """All marks of a universe."""
    return prefix_range(universe_prefix(universe) + pack("marks"))


def cas_unread(universe: UUID, cid: bytes) -> bytes:
    """`u/<universe>/unread/<cid>`: a collection has reached the object, but not what it links."""
    return universe_prefix(universe) + pack("unread", _sized("cid", cid, 1, CID_BYTES_MAX))


def cas_unread_range(universe: UUID) -> Range:
    """All objects that a collection has yet to read."""
    return prefix_range(universe_prefix(universe) + pack("unread"))


def cas_unread_cid(key: bytes) -> bytes:
    """Return the CID that a key `u/<universe>/unread/<cid>` holds."""
    cid = unpack(key[UNIVERSE_BYTES:])[1]
    assert isinstance(cid, bytes)
    return cid


def collection(universe: UUID) -> bytes:
    """`u/<universe>/collection`: how far the collection of garbage is, and how the last one ended."""
    return universe_prefix(universe) + pack("collection")


def universe_quotas(universe: UUID) -> bytes:
    """`u/<universe>/quotas`: how much of everything it may have."""
    return universe_prefix(universe) + pack("quotas")


def universe_events(universe: UUID, second: int) -> bytes:
    """`events/<universe>/<second>`: a counter of the events that its worlds were sent in that second."""
    return pack(b"events", universe, _whole("second", second))


def pin(universe: UUID, ident: UUID) -> bytes:
    """`u/<universe>/pins/<id>`: objects that are kept until a time."""
    return universe_prefix(universe) + pack("pins", ident)


def pin_range(universe: UUID) -> Range:
    """All pins of a universe."""
    return prefix_range(universe_prefix(universe) + pack("pins"))


def world_meta(universe: UUID, world: UUID) -> bytes:
    """`w/<universe>/<world>/meta`."""
    return world_prefix(universe, world) + b"\x02meta\0"


def world_epoch(universe: UUID, world: UUID) -> bytes:
    """`w/<universe>/<world>/epoch`: who owns the world."""
    return world_prefix(universe, world) + b"\x02epoch\0"


def world_head(universe: UUID, world: UUID) -> bytes:
    """`w/<universe>/<world>/head`: the newest committed frame."""
    return world_prefix(universe, world) + b"\x02head\0"


def world_desired(universe: UUID, world: UUID) -> bytes:
    """`w/<universe>/<world>/desired`: where the orchestrator wants the world."""
    return world_prefix(universe, world) + b"\x02desired\0"


def world_baseline(universe: UUID, world: UUID) -> bytes:
    """`w/<universe>/<world>/baseline`: the snapshot restore starts from."""
    return world_prefix(universe, world) + b"\x02baseline\0"


def world_trouble(universe: UUID, world: UUID) -> bytes:
    """`w/<universe>/<world>/trouble`: what the world's owner cannot do for now."""
    return world_prefix(universe, world) + b"\x02trouble\0"


def journal(universe: UUID, world: UUID, height: int) -> bytes:
    """`w/<universe>/<world>/journal/<height>`: a frame, by its last height."""
    return world_prefix(universe, world) + b"\x02journal\0" + pack(_whole("height", height))


def journal_part(universe: UUID, world: UUID, height: int, part: int) -> bytes:
    """`w/<universe>/<world>/journal/<height>/<part>`: a piece of a long frame, behind its first."""
    return journal(universe, world, height) + pack(_whole("part", part))


def journal_range(universe: UUID, world: UUID, first: int = 0, last: int = INT_MAX) -> Range:
    """The frames whose last height is `first` to `last`, both included, with their parts."""
    return journal(universe, world, first), prefix_range(journal(universe, world, last))[1]


def journal_height(key: bytes) -> int:
    """Return the height a journal key (or one of its parts) names."""
    height = unpack(key[WORLD_BYTES:])[1]
    assert isinstance(height, int)
    return height


def segment(universe: UUID, world: UUID, height: int) -> bytes:
    """`w/<universe>/<world>/segments/<height>`: a compacted run of frames, by its last height."""
    return world_prefix(universe, world) + pack("segments", _whole("height", height))


def segment_range(universe: UUID, world: UUID, first: int = 0, last: int = INT_MAX) -> Range:
    """The segments of heights `first` to `last`, both included."""
    return segment(universe, world, first), prefix_range(segment(universe, world, last))[1]


def snapshot(universe: UUID, world: UUID, height: int) -> bytes:
    """`w/<universe>/<world>/snapshots/<height>`."""
    return world_prefix(universe, world) + pack("snapshots", _whole("height", height))


def snapshot_range(universe: UUID, world: UUID, first: int = 0, last: int = INT_MAX) -> Range:
    """The snapshots of heights `first` to `last`, both included."""
    return snapshot(universe, world, first), prefix_range(snapshot(universe, world, last))[1]


def snapshot_height(key: bytes) -> int:
    """Return the height a snapshot key names."""
    height = unpack(key[WORLD_BYTES:])[1]
    assert isinstance(height, int)
    return height


def world_retention(universe: UUID, world: UUID) -> bytes:
    """`w/<universe>/<world>/retention`: what is kept of the world's history and snapshots."""
    return world_prefix(universe, world) + pack("retention")


def history_hold(universe: UUID, world: UUID, name: str) -> bytes:
    """`w/<universe>/<world>/holds/<name>`: somebody needs the history from a height on."""
    return world_prefix(universe, world) + pack("holds", _name("hold", name))


def history_hold_range(universe: UUID, world: UUID) -> Range:
    """All holds of a world's history."""
    return prefix_range(world_prefix(universe, world) + pack("holds"))


def history_hold_name(key: bytes) -> str:
    """Return the name that a key `w/<universe>/<world>/holds/<name>` holds."""
    name = unpack(key[WORLD_BYTES:])[1]
    assert isinstance(name, str)
    return name


def inbox_prefix(universe: UUID, world: UUID) -> bytes:
    """`w/<universe>/<world>/inbox/`: what an `ordered` entry gives, to be completed by a stamp."""
    return world_prefix(universe, world) + b"\x02inbox\0" + bytes((STAMP_CODE,))


def inbox(universe: UUID, world: UUID, stamp: Stamp) -> bytes:
    """`w/<universe>/<world>/inbox/<stamp>`: one waiting item."""
    return world_prefix(universe, world) + pack("inbox", Position(stamp))


def inbox_range(universe: UUID, world: UUID) -> Range:
    """All waiting items of a world, by stamp."""
    return prefix_range(world_prefix(universe, world) + b"\x02inbox\0")


def inbox_prefix_of(key: bytes) -> bytes | None:
    """Return the prefix of an inbox key, without its stamp; None for any other key."""
    if key.startswith(WORLD_HEAD) and key.startswith(b"\x02inbox\0", WORLD_BYTES):
        return key[:-STAMP_BYTES]
    return None


def inbox_stamp(key: bytes) -> Stamp:
    """Return the stamp an inbox key ends with."""
    return Stamp(key[-STAMP_BYTES:])


def aside(universe: UUID, world: UUID, stamp: Stamp) -> bytes:
    """`w/<universe>/<world>/aside/<stamp>`: an inbox item that its world could not take."""
    return world_prefix(universe, world) + pack("aside", Position(stamp))


def aside_range(universe: UUID, world: UUID) -> Range:
    """All items of a world that were set aside, by the stamps they had."""
    return prefix_range(world_prefix(universe, world) + pack("aside"))


def effect(shard: int, priority: int, ready_ns: int, intent: bytes) -> bytes:
    """`effects/<shard>/<priority>/<ready_ns>/<intent>`: an intent to perform; lower priorities sort first."""
    return pack("effects", _shard(shard), priority, _whole("ready_ns", ready_ns), _intent(intent))


def effect_keys(shard: int, priority: int, ready_ns: int) -> Callable[[bytes], tuple[bytes, bytes]]:
    """For many intents of one place and time: what gives the keys `effect` and `effect_at` of each."""
    row = pack("effects", _shard(shard), priority, _whole("ready_ns", ready_ns))

    def keys_of(intent: bytes) -> tuple[bytes, bytes]:
        packed = pack_bytes(_intent(intent))
        return row + packed, _EFFECT_AT + packed

    return keys_of


def effect_range(shard: int, priority: int, until_ns: int = INT_MAX) -> Range:
    """The intents of one shard and priority that are ready at `until_ns` or before."""
    row = pack("effects", _shard(shard), priority)
    return row, prefix_range(row + pack(_whole("until_ns", until_ns)))[1]


def effect_at(intent: bytes) -> bytes:
    """`effects/at/<intent>`: the key its outbox row has now."""
    return _EFFECT_AT + pack_bytes(_intent(intent))


_EFFECT_AT = pack("effects", "at")


def effect_cancel(intent: bytes) -> bytes:
    """`effects/cancel/<intent>`: a marker read before each attempt."""
    return pack("effects", "cancel", _intent(intent))


def wake(shard: int, due_ns: int, universe: UUID, world: UUID) -> bytes:
    """`wake/<shard>/<due_ns>/<universe>/<world>`: the earliest timer of a world."""
    return pack("wake", _shard(shard), _whole("due_ns", due_ns), universe, world)


def wake_range(shard: int, until_ns: int = INT_MAX) -> Range:
    """The timers of a shard that are due at `until_ns` or before."""
    row = pack("wake", _shard(shard))
    return row, prefix_range(row + pack(_whole("until_ns", until_ns)))[1]


def ready(shard: int, universe: UUID, world: UUID) -> bytes:
    """`ready/<shard>/<universe>/<world>`: the world has work in its inbox."""
    return pack("ready", _shard(shard), universe, world)


def ready_range(shard: int) -> Range:
    """The worlds of a shard that have work."""
    return prefix_range(pack("ready", _shard(shard)))


def bell(shard: int) -> bytes:
    """`bell/<shard>`: a counter that rises when a world of the shard gets work."""
    return pack(b"bell", _shard(shard))


def session(node: UUID) -> bytes:
    """`session/<node>`: a node's lease."""
    return pack("session", node)


def session_node(key: bytes) -> UUID:
    """Return the node a session key names."""
    return UUID(bytes=key[-16:])


def store_owner() -> bytes:
    """`owner`: which node's session has the claim on the store."""
    return pack("owner")


def session_range() -> Range:
    """The leases of all nodes."""
    return prefix_range(pack("session"))


def _body(universe: UUID, body: bytes) -> bytes:
    return universe_prefix(universe) + pack("chunks", _sized("body", body, BODY_BYTES, BODY_BYTES))


def _intent(intent: bytes) -> bytes:
    return _sized("intent", intent, 1, CID_BYTES_MAX)


def _digest(field: str, name: str) -> bytes:
    return sha256(_name(field, name).encode()).digest()[:NAMED_BYTES]


def _name(field: str, name: str) -> str:
    if not isinstance(name, str):
        raise _refused(field, f"is text, not {type(name).__name__}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise _refused(field, "is not valid Unicode") from error
    if not 1 <= size <= NAME_BYTES_MAX:
        raise _refused(field, f"has {size} bytes of UTF-8; it must have 1 to {NAME_BYTES_MAX}")
    return name


def _sized(field: str, value: bytes, least: int, most: int) -> bytes:
    if not least <= len(value) <= most:
        raise _refused(field, f"has {len(value)} bytes; it must have {least} to {most}")
    return value


def _whole(field: str, number: int, limit: int = INT_MAX) -> int:
    if not 0 <= number <= limit:
        raise _refused(field, f"is {number}; it must be 0 to {'2^64-1' if limit == INT_MAX else limit}")
    return number


def _shard(shard: int) -> int:
    return _whole("shard", shard, SHARDS - 1)


def _refused(field: str, reason: str) -> Rejected:
    return Rejected("store.key_field", "{field} {reason}", field=field, reason=reason)
