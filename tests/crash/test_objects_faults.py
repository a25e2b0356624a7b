"""Every durable operation of the local writer fails in turn: the acknowledged is there, nothing is half."""

from __future__ import annotations

import errno

import pytest

from cellule.errors import OutcomeUnknown, Rejected, Unavailable
from cellule.store.objects.disk import Disk
from cellule.store.objects.local import LocalObjects
from cellule.testing.conformance.object_machine import names_in, pieces_of, sample

pytestmark = pytest.mark.crash

BODIES = {"a/b/one": sample(300_000), "a/c": b"", "a/b/two": sample(70_000)}


class FaultyDisk:
    """The machine's disk, whose operation number `failing` fails; writes are short, as they may be.

    With `stays_broken` all later ones fail too, the removal of leftovers included.
    """

    def __init__(self, failing: int, number: int, stays_broken: bool) -> None:
        self._disk = Disk()
        self._failing = failing
        self._number = number
        self._stays_broken = stays_broken
        self.count = 0
        self.failed: list[str] = []

    def make_folder(self, path):
        self._step("make_folder")
        return self._disk.make_folder(path)

    def create(self, path):
        self._step("create")
        return self._disk.create(path)

    def write(self, file, data):
        self._step("write")
        return self._disk.write(file, data[:100_000])

    def sync(self, file):
        self._step("sync")
        self._disk.sync(file)

    def close(self, file):
        # The descriptor is released even when close reports an error, as Linux does.
        self._disk.close(file)
        self._step("close")

    def rename(self, source, target):
        self._step("rename")
        self._disk.rename(source, target)

    def remove(self, path):
        self._step("remove")
        return self._disk.remove(path)

    def sync_folder(self, path):
        self._step("sync_folder")
        self._disk.sync_folder(path)

    def _step(self, name):
        self.count += 1
        if self.count == self._failing or (self._stays_broken and self.count > self._failing > 0):
            self.failed.append(name)
            raise OSError(self._number, "injected")


async def write_all(store) -> tuple[dict[str, bytes], list[Unavailable]]:
    """Put every body, in bytes or in pieces, and delete one; return what was acknowledged and the errors."""
    acknowledged, errors = {}, []
    for number, (name, body) in enumerate(BODIES.items()):
        try:
            await store.put(name, pieces_of(body, 64_000) if number == 0 else body)
            acknowledged[name] = body
        except Unavailable as error:
            errors.append(error)
    try:
        await store.delete("a/c")
        acknowledged.pop("a/c", None)
    except Unavailable as error:
        acknowledged.pop("a/c", None)
        errors.append(error)
    return acknowledged, errors


async def check(folder, acknowledged) -> None:
    async with await LocalObjects.open(folder) as store:
        names = await names_in(store, "", 10)
        assert set(acknowledged) <= set(names)
        for name in names:
            assert await store.get(name) == BODIES[name]


async def operations(tmp_path) -> int:
    """Count the operations of a run without faults."""
    disk = FaultyDisk(0, 0, stays_broken=False)
    async with await LocalObjects.open(tmp_path / "counted", disk=disk) as store:
        acknowledged, errors = await write_all(store)
    assert not errors
    assert set(acknowledged) == {"a/b/one", "a/b/two"}
    return disk.count


@pytest.mark.parametrize("stays_broken", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
async def test_every_operation_may_fail_in_turn(tmp_path, number, stays_broken):
    kinds = set()
    for failing in range(1, await operations(tmp_path) + 1):
        folder = tmp_path / f"objects-{failing}"
        disk = FaultyDisk(failing, number, stays_broken)
        acknowledged = {}
        try:
            async with await LocalObjects.open(folder, disk=disk) as store:
                acknowledged, errors = await write_all(store)
        except Unavailable as error:
            errors = [error]
        assert disk.failed
        kinds.update(disk.failed)
        assert errors or set(disk.failed) <= {"remove"}, (
            f"operation {failing} failed unnoticed: {disk.failed}"
        )
        await check(folder, acknowledged)
    assert kinds == {"make_folder", "create", "write", "sync", "close", "rename", "remove", "sync_folder"}


async def test_a_failed_sync_of_the_file_leaves_nothing_and_says_so(tmp_path):
    await (await LocalObjects.open(tmp_path / "objects")).close()

    class NoSync(Disk):
        def sync(self, file):
            raise OSError(errno.EIO, "injected")

    async with await LocalObjects.open(tmp_path / "objects", disk=NoSync()) as store:
        with pytest.raises(Unavailable) as caught:
            await store.put("a/b", b"1")
        assert not isinstance(caught.value, OutcomeUnknown)
        assert "Input/output error" in str(caught.value)
        with pytest.raises(Rejected):
            await store.get("a/b")


async def test_a_failed_sync_of_the_folder_is_an_unknown_outcome(tmp_path):
    async with await LocalObjects.open(tmp_path / "objects") as store:
        await store.put("a/first", b"1")

    class NoFolderSync(Disk):
        def sync_folder(self, path):
            if path.name == "objects":
                raise OSError(errno.EIO, "injected")
            super().sync_folder(path)

    store = await LocalObjects.open(tmp_path / "objects")
    store._disk = NoFolderSync()
    async with store:
        with pytest.raises(OutcomeUnknown) as caught:
            await store.put("a/b", b"1")
        assert caught.value.code == "objects.outcome_unknown"
