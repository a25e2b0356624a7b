"""What an owner looks at before it acknowledges: the folder's times, and all files where those changed."""

from __future__ import annotations

import os
import shutil

import pytest

from cellule.host.limits import FOLDER_FINE_NS, FOLDER_GRAIN_FINE_S, FOLDER_GRAIN_S
from cellule.host.own import folder as folder_module
from cellule.host.own.folder import FolderOwnership
from cellule.testing.entropy import SeededEntropy

LONG_AGO_NS = 1_600_000_000 * 1_000_000_000
COARSE_NS = 3 * FOLDER_FINE_NS


class Hand:
    """A clock that is set by hand."""

    def __init__(self):
        self.at_ns = 0

    def now_ns(self):
        return self.at_ns

    def monotonic_ns(self):
        return self.at_ns


class Owned:
    """An owned folder with one file."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "data"
        folder.mkdir()
        self.file.write_text("1")
        self.clock = Hand()
        self.ownership = FolderOwnership(folder, [self.file], self.clock, SeededEntropy(0))

    def calm(self):
        """Let the folder's last change lie far back, and look until that is believed."""
        os.utime(self.folder, ns=(LONG_AGO_NS, LONG_AGO_NS))
        assert self.ownership.claim.is_valid()
        self.clock.at_ns += int(FOLDER_GRAIN_S * 1e9)
        assert self.ownership.claim.is_valid()


@pytest.fixture
async def owned(tmp_path):
    found = Owned(tmp_path / "folder")
    async with found.ownership.contending(lambda: None):
        yield found


def copied(owned):
    shutil.copy(owned.file, owned.folder / "copy")
    (owned.folder / "copy").rename(owned.file)


def emptied(owned):
    shutil.rmtree(owned.folder)
    owned.folder.mkdir()


WAYS = {
    "the file removed": lambda owned: owned.file.unlink(),
    "the file replaced": copied,
    "the lock removed": lambda owned: (owned.folder / "lock").unlink(),
    "the folder moved": lambda owned: owned.folder.rename(owned.folder.parent / "moved"),
    "another folder": emptied,
}


@pytest.mark.parametrize("damage", WAYS.values(), ids=WAYS)
async def test_a_claim_ends_with_its_files_also_when_the_folder_was_calm_for_long(owned, damage):
    owned.calm()
    damage(owned)
    assert not owned.ownership.claim.is_valid()


async def test_a_calm_folder_costs_one_look(owned, monkeypatch):
    """Each look at a file lets other threads run, which cost an event sent alone a seventh of its time."""
    owned.calm()
    seen = []
    stat = os.stat
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", lambda path, **options: seen.append(path) or stat(path, **options))
        assert owned.ownership.claim.is_valid()
        assert seen == [str(owned.folder)]
        (owned.folder / "another").write_text("")
        assert owned.ownership.claim.is_valid()
        assert str(owned.file) in seen


async def test_the_times_of_a_folder_are_believed_when_no_second_change_can_look_like_the_first(
    owned, monkeypatch
):
    """A file system whose times stand still: what it says is the same before and after."""
    monkeypatch.setattr(folder_module, "_look", lambda _folder: (1, 1, COARSE_NS, COARSE_NS))
    assert owned.ownership.claim.is_valid()
    owned.clock.at_ns += int(FOLDER_GRAIN_S * 1e9) - 1
    assert owned.ownership.claim.is_valid()
    owned.file.unlink()
    assert not owned.ownership.claim.is_valid()


async def test_fine_times_of_a_folder_are_believed_soon(owned, monkeypatch):
    monkeypatch.setattr(folder_module, "_look", lambda _folder: (1, 1, COARSE_NS + 1, COARSE_NS + 1))
    assert owned.ownership.claim.is_valid()
    owned.clock.at_ns += int(FOLDER_GRAIN_FINE_S * 1e9)
    assert owned.ownership.claim.is_valid()
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", None)  # no file is looked at any more
        assert owned.ownership.claim.is_valid()


async def test_fine_times_of_a_folder_are_not_believed_at_once(owned, monkeypatch):
    monkeypatch.setattr(folder_module, "_look", lambda _folder: (1, 1, COARSE_NS + 1, COARSE_NS + 1))
    assert owned.ownership.claim.is_valid()
    owned.clock.at_ns += int(FOLDER_GRAIN_FINE_S * 1e9) - 1
    assert owned.ownership.claim.is_valid()
    owned.file.unlink()
    assert not owned.ownership.claim.is_valid()


async def test_all_files_are_looked_at_now_and_then_whatever_the_times_say(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_module, "_look", lambda _folder: (1, 1, COARSE_NS, COARSE_NS))
    monkeypatch.setattr(folder_module, "FOLDER_LOOK_S", 0.001)
    owned = Owned(tmp_path / "folder")
    changed = folder_module.asyncio.Event()
    async with owned.ownership.contending(changed.set):
        owned.calm()
        owned.file.unlink()
        await changed.wait()
        assert owned.ownership.claim is None
