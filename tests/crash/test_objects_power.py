"""Power is cut after every operation of the local writer, on a disk that keeps only what was synced.

The model: a sync of a file makes its content durable, a sync of a folder the names in it. Of all else a cut
keeps any part: names changed since may be old or new, each for itself; content may be cut or garbage.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from cellule.errors import Unavailable
from cellule.store.objects.local import LocalObjects
from cellule.testing.conformance.object_machine import names_in, pieces_of, sample
from cellule.testing.entropy import SeededEntropy

pytestmark = pytest.mark.crash

FULL = os.environ.get("CELLULE_CRASH") == "full"
SURVIVALS = 60 if FULL else 6
BODIES = {
    "cas/u/one": sample(200_000),
    "cas/u/two": b"",
    "cas/v/one": sample(10),
    "segments/u/w/1-9": sample(9_000),
}
DELETED = "cas/v/one"


class PowerCut(OSError):
    """The machine is off."""


class File:
    def __init__(self) -> None:
        self.content = bytearray()
        self.durable: bytes | None = None


class Folder:
    def __init__(self) -> None:
        self.names: dict[str, File | Folder] = {}
        self.durable: dict[str, File | Folder] = {}


class ModelDisk:
    """A disk in memory below `top`, which is there and durable; it works for `life` operations."""

    def __init__(self, top: Path, life: int) -> None:
        self._top = top
        self._life = life
        self._root = Folder()
        self._open: dict[int, File] = {}
        self.count = 0

    def make_folder(self, path):
        self._step()
        return self._folder(path.parent).names.setdefault(path.name, folder := Folder()) is folder

    def create(self, path):
        self._step()
        names = self._folder(path.parent).names
        assert path.name not in names
        file = names[path.name] = File()
        self._open[self.count] = file
        return self.count

    def write(self, file, data):
        self._step()
        self._open[file].content += data[:90_000]
        return min(len(data), 90_000)

    def sync(self, file):
        self._step()
        self._open[file].durable = bytes(self._open[file].content)

    def close(self, file):
        self._step()
        del self._open[file]

    def rename(self, source, target):
        self._step()
        file = self._folder(source.parent).names.pop(source.name)
        self._folder(target.parent).names[target.name] = file

    def remove(self, path):
        self._step()
        return self._folder(path.parent).names.pop(path.name, None) is not None

    def sync_folder(self, path):
        self._step()
        folder = self._folder(path)
        folder.durable = dict(folder.names)

    def survive(self, target: Path, chance: random.Random) -> None:
        """Write what one possible power cut leaves into a real folder."""
        _survive(self._root, target, chance)

    def _folder(self, path: Path) -> Folder:
        folder = self._root
        for part in path.relative_to(self._top).parts:
            folder = folder.names[part]
            assert isinstance(folder, Folder)
        return folder

    def _step(self) -> None:
        if self.count == self._life:
            raise PowerCut("off")
        self.count += 1


def _survive(folder: Folder, target: Path, chance: random.Random) -> None:
    target.mkdir(exist_ok=True)
    for name in sorted(folder.names.keys() | folder.durable.keys()):
        entry = chance.choice([folder.names.get(name), folder.durable.get(name)])
        if isinstance(entry, Folder):
            _survive(entry, target / name, chance)
        elif entry is not None:
            (target / name).write_bytes(_surviving_content(entry, chance))


def _surviving_content(file: File, chance: random.Random) -> bytes:
    if file.durable is not None:
        return file.durable
    kept = chance.randrange(len(file.content) + 1)
    return chance.choice([bytes(file.content[:kept]), bytes(len(file.content)), chance.randbytes(kept)])


async def write_until_dark(top: Path, life: int) -> tuple[ModelDisk, set[str], bool]:
    """Run the writer on a disk that dies; return it, what was acknowledged, and whether the deletion was."""
    disk, acknowledged = ModelDisk(top, life), set()
    try:
        async with await LocalObjects.open(top / "objects", disk=disk, entropy=SeededEntropy(life)) as store:
            for number, (name, body) in enumerate(BODIES.items()):
                await store.put(name, body if number % 2 else pieces_of(body, 64_000))
                acknowledged.add(name)
            acknowledged.discard(DELETED)
            await store.delete(DELETED)
            return disk, acknowledged, True
    except Unavailable:
        return disk, acknowledged, False


async def test_a_power_cut_after_any_operation_keeps_what_was_acknowledged(tmp_path):
    whole, acknowledged, deleted = await write_until_dark(tmp_path / "model", 1_000)
    assert deleted
    assert acknowledged == set(BODIES) - {DELETED}
    for life in range(whole.count + 1):
        disk, acknowledged, deleted = await write_until_dark(tmp_path / "model", life)
        for survival in range(SURVIVALS):
            target = tmp_path / f"cut-{life}-{survival}"
            disk.survive(target, random.Random(life * 1_000 + survival))
            async with await LocalObjects.open(target / "objects", create=not acknowledged) as store:
                names = set(await names_in(store, "", 10))
                assert acknowledged <= names, f"lost after operation {life}"
                assert not (deleted and DELETED in names), f"back after operation {life}"
                for name in names:
                    assert await store.get(name) == BODIES[name], f"half after operation {life}"


async def test_the_model_loses_what_is_not_synced(tmp_path):
    """A writer without the folder's sync must fail the check above, or the check proves nothing."""
    lost = 0
    for survival in range(20):
        disk = ModelDisk(tmp_path, 100)
        file = disk.create(tmp_path / "draft")
        disk.write(file, memoryview(b"body"))
        disk.sync(file)
        disk.rename(tmp_path / "draft", tmp_path / "object")
        disk.survive(tmp_path / str(survival), random.Random(survival))
        lost += not (tmp_path / str(survival) / "object").exists()
    assert 0 < lost < 20
