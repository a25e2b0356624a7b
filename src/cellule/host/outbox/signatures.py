"""The node's key: it vouches for receipts, so that nothing but the node can settle an intent.

A receipt in an inbox carries the key's id and an HMAC-SHA256 over the universe, the world and the item's
canonical bytes without the mac. The key is 32 bytes, made once: a file of the data folder, readable by its
owner only, or a row of a store that machines share. What a receipt holds does not matter here.

    a4..  62 "by" 70 <16 hex digits>  63 "mac" 58 20 <32 bytes>  the other fields

No field has a shorter name, so `by` and `mac` stand at the front of every signed item. The bytes that are
signed are those without the second, and one less in the head: they are cut out, not encoded again.

Rejected: signing without universe and world. A receipt copied into another world's inbox would be believed.
"""

from __future__ import annotations

import hmac
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

from cellule.errors import CelluleError, Conflict, Rejected
from cellule.host.own.folder import folder_error
from cellule.sources import Entropy
from cellule.store import keys
from cellule.store.engine import Batch, Engine
from cellule.store.store import Store
from cellule.values.cbor import encode, encode_flat

KEY_BYTES = 32
MAC_BYTES = 32
KEY_FILE = "node.key"
_TEMPORARY_BYTES = 8
_BLOCK_BYTES = 64  # of SHA-256
_MAC_AT = 1 + 3 + 1 + 16  # behind the head of the map and `by`
_MAC_HEAD = b"\x63mac\x58\x20"
_MAC_BEGIN, _MAC_END = _MAC_AT + len(_MAC_HEAD), _MAC_AT + len(_MAC_HEAD) + MAC_BYTES


class NodeKey:
    """A secret of 32 bytes; `id` names it in receipts and tells nothing about it."""

    __slots__ = ("_begun", "_inner", "_outer", "id")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise Rejected(
                "effects.node_key",
                "a node key has {most} bytes, not {size}",
                most=KEY_BYTES,
                size=len(secret),
            )
        padded = secret.ljust(_BLOCK_BYTES, b"\0")
        self._inner = sha256(bytes(byte ^ 0x36 for byte in padded))  # HMAC's two hashes, begun once: every
        self._outer = sha256(bytes(byte ^ 0x5C for byte in padded))  # receipt needs two macs
        self._begun: tuple[UUID | None, UUID | None, Any] = None, None, self._inner
        self.id = sha256(secret).digest()[:8].hex()

    def __repr__(self) -> str:
        return f"NodeKey({self.id})"

    def sign(self, universe: UUID, world: UUID, item: dict[str, Any]) -> dict[str, Any]:
        """The item with `by` and `mac`; neither may be there yet."""
        signed = {**item, "by": self.id}
        signed["mac"] = self._mac(universe, world, signed)
        return signed

    def sealed(self, universe: UUID, world: UUID, item: dict[str, Any]) -> bytes:
        """The canonical bytes of the signed item, which is shallow and without floats."""
        bare = encode_flat({**item, "by": self.id})
        mac = self._digest(universe, world, bare)
        return b"".join((bytes((bare[0] + 1,)), bare[1:_MAC_AT], _MAC_HEAD, mac, bare[_MAC_AT:]))

    def verify(self, universe: UUID, world: UUID, item: Mapping[str, Any]) -> bool:
        """Tell whether this node signed the item for this world."""
        bare = dict(item)
        mac = bare.pop("mac", None)
        if bare.get("by") != self.id or not isinstance(mac, bytes):
            return False
        try:
            return hmac.compare_digest(mac, self._mac(universe, world, bare))
        except Rejected:
            return False

    def vouches(self, universe: UUID, world: UUID, stored: bytes) -> bool:
        """Tell whether this node signed these bytes, as they are, for this world."""
        if stored[_MAC_AT:_MAC_BEGIN] != _MAC_HEAD:
            return False
        bare = b"".join((bytes(((stored[0] - 1) & 0xFF,)), stored[1:_MAC_AT], stored[_MAC_END:]))
        return hmac.compare_digest(stored[_MAC_BEGIN:_MAC_END], self._digest(universe, world, bare))

    def _mac(self, universe: UUID, world: UUID, item: dict[str, Any]) -> bytes:
        return self._digest(universe, world, encode(item))

    def _digest(self, universe: UUID, world: UUID, bare: bytes) -> bytes:
        """HMAC-SHA256. What was begun for a world is kept: the next item is mostly of the same one."""
        begun_universe, begun_world, begun = self._begun
        if begun_universe is not universe or begun_world is not world:
            begun = self._inner.copy()
            begun.update(universe.bytes + world.bytes)
            self._begun = universe, world, begun
        inner, outer = begun.copy(), self._outer.copy()
        inner.update(bare)
        outer.update(inner.digest())
        return outer.digest()


def memory_key(entropy: Entropy) -> NodeKey:
    """The key of a node that keeps nothing."""
    return NodeKey(entropy.bytes(KEY_BYTES))


def folder_key(folder: Path, entropy: Entropy) -> NodeKey:
    """The key of a data folder, made when it is missing; whoever comes second finds the first one's."""
    path = folder / KEY_FILE
    try:
        found = _read(path)
        if found is None:
            _make(path, entropy.bytes(KEY_BYTES), entropy)
            found = _read(path)
    except OSError as error:
        raise folder_error(folder, error) from error
    if found is None:
        raise _unusable(path, "it vanished while it was made")
    return NodeKey(found)


async def shared_key(engine: Engine, entropy: Entropy) -> NodeKey:
    """The key of a store that machines share: a row, made once; each verifies the receipts of the others.

    Whoever may write to such a store could forge its journals as well: a key beside the rows guards no less.
    """
    key = keys.node_key()
    [stored] = await engine.read([key])
    if stored is None:
        with suppress(Conflict):  # then another node has made it
            await engine.commit(Batch(expect={key: None}, set={key: entropy.bytes(KEY_BYTES)}))
        [stored] = await engine.read([key])
    if stored is None:
        raise _unusable("of the store", "it vanished while it was made")
    return NodeKey(stored)


async def copy_key(source: Store, target: Store, entropy: Entropy) -> None:
    """Give a copy of a store the key of the store: receipts that wait in its inboxes stay believed."""
    folder = source.address.folder
    if folder is None:
        [secret] = await source.engine.read([keys.node_key()])
    else:
        secret = _read(folder / KEY_FILE)
    if secret is None:
        return
    if target.address.folder is None:
        await target.engine.commit(Batch(set={keys.node_key(): secret}))
    else:
        _make(target.address.folder / KEY_FILE, secret, entropy)


def _read(path: Path) -> bytes | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        mode = os.fstat(file).st_mode
        data = os.read(file, KEY_BYTES + 1)
    finally:
        os.close(file)
    if not stat.S_ISREG(mode) or stat.S_IMODE(mode) & 0o077:
        raise _unusable(path, "others may read or write it", hint=f"Run: chmod 600 {path}")
    if len(data) != KEY_BYTES:
        raise _unusable(path, f"it does not hold {KEY_BYTES} bytes")
    return data


def _make(path: Path, secret: bytes, entropy: Entropy) -> None:
    """Write the key aside and link it into place: there is a whole key of ours, or somebody else's."""
    aside = path.with_name(f"{KEY_FILE}.{entropy.bytes(_TEMPORARY_BYTES).hex()}")
    file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.write(file, secret)
            os.fsync(file)
        finally:
            os.close(file)
        with suppress(FileExistsError):
            os.link(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _unusable(path: Path | str, why: str, hint: str = "") -> CelluleError:
    return Rejected(
        "effects.node_key", "the node key {path} cannot be used: {why}", path=str(path), why=why,
        hint=hint or "Restore it from a copy, or remove it: receipts that wait in inboxes are then refused.",
    )  # fmt: skip
