"""The local object store keeps every promise of the contract, and those of its folder."""

from __future__ import annotations

import asyncio
import os
from functools import partial

import pytest

from cellule.errors import Rejected, Unavailable
from cellule.store.objects.folder import DRAFTS, MARKER
from cellule.store.objects.local import DRAFT_AGE_MAX_NS, LocalObjects
from cellule.testing.clock import ManualClock
from cellule.testing.conformance.object_machine import names_in, pieces_of
from cellule.testing.conformance.objects import ObjectStoreConformance
from tests.support.file_modes import modes_of


class TestLocalObjects(ObjectStoreConformance):
    @pytest.fixture
    def open_store(self, tmp_path):
        async def open_store():
            return await LocalObjects.open(tmp_path / "objects")

        return open_store


async def test_what_one_process_put_another_reads(tmp_path):
    async with await LocalObjects.open(tmp_path / "objects") as first:
        await first.put("a/b/c", b"1")
        async with await LocalObjects.open(tmp_path / "objects") as second:
            assert await second.get("a/b/c") == b"1"
            await second.put("a/b/d", b"2")
        assert await names_in(first, "a/", 10) == ["a/b/c", "a/b/d"]


async def test_fresh_drafts_are_spared_and_old_ones_are_removed_at_open(tmp_path):
    await (await LocalObjects.open(tmp_path / "objects")).close()
    drafts = tmp_path / "objects" / DRAFTS
    written_ns = 1_000 * DRAFT_AGE_MAX_NS
    for name, age_ns in (("old", DRAFT_AGE_MAX_NS + 1), ("fresh", DRAFT_AGE_MAX_NS - 1)):
        (drafts / name).write_bytes(b"left behind")
        os.utime(drafts / name, ns=(written_ns - age_ns, written_ns - age_ns))
    async with await LocalObjects.open(tmp_path / "objects", clock=ManualClock(written_ns)) as store:
        assert [path.name for path in drafts.iterdir()] == ["fresh"]
        assert await names_in(store, "", 10) == []


async def test_a_put_leaves_no_draft_behind(tmp_path):
    async with await LocalObjects.open(tmp_path / "objects") as store:
        await store.put("a/b", b"1")
        await store.put("a/c", pieces_of(b"12345", 2))
        assert list((tmp_path / "objects" / DRAFTS).iterdir()) == []


@pytest.mark.usefixtures("open_umask")
async def test_what_it_holds_is_for_its_user_alone(tmp_path):
    """Bodies and folders were for every user of the machine to read."""
    async with await LocalObjects.open(tmp_path / "objects") as store:
        await store.put("a/b/c", b"1")
        await store.put("a/d", pieces_of(b"12345", 2))
    assert modes_of(tmp_path) == {"folder": {0o700}, "file": {0o600}}


async def test_a_folder_that_is_gone_is_unavailable_and_its_objects_are_not_missing(tmp_path):
    async with await LocalObjects.open(tmp_path / "objects") as store:
        await store.put("a/b", b"1")
        (tmp_path / "objects").rename(tmp_path / "unmounted")
        (tmp_path / "objects").mkdir()
        calls = (
            partial(store.get, "a/b"),
            partial(store.size, "a/b"),
            partial(store.delete, "a/b"),
            partial(store.list, "", limit=1),
            partial(store.put, "a/b", b"1"),
        )
        for call in calls:
            with pytest.raises(Unavailable) as caught:
                await call()
            assert caught.value.code == "objects.folder_gone"


async def test_a_folder_without_its_marker_is_only_made_when_asked_for(tmp_path):
    (tmp_path / "objects").mkdir()
    with pytest.raises(Unavailable) as caught:
        await LocalObjects.open(tmp_path / "objects", create=False)
    assert caught.value.code == "objects.folder_gone"
    assert list((tmp_path / "objects").iterdir()) == []


async def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(Rejected) as caught:
        await LocalObjects.open(tmp_path)
    assert caught.value.code == "objects.foreign_folder"
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


async def test_a_folder_of_another_format_is_refused(tmp_path):
    await (await LocalObjects.open(tmp_path / "objects")).close()
    (tmp_path / "objects" / MARKER).write_text("cellule objects 2\n")
    with pytest.raises(Rejected) as caught:
        await LocalObjects.open(tmp_path / "objects")
    assert caught.value.code == "objects.format"


async def test_a_folder_below_a_missing_one_is_unavailable(tmp_path):
    with pytest.raises(Unavailable) as caught:
        await LocalObjects.open(tmp_path / "missing" / "objects")
    assert caught.value.code == "objects.folder_gone"


async def test_two_processes_may_make_the_same_folder_at_once(tmp_path):
    stores = await asyncio.gather(*[LocalObjects.open(tmp_path / "objects") for _ in range(5)])
    for number, store in enumerate(stores):
        await store.put(f"a/{number}", b"1")
    assert len(await names_in(stores[0], "", 10)) == 5
    for store in stores:
        await store.close()


async def test_files_of_others_in_the_folder_are_not_listed(tmp_path):
    async with await LocalObjects.open(tmp_path / "objects") as store:
        await store.put("a/b/c", b"1")
        (tmp_path / "objects" / "a" / "lost+found").write_text("")
        assert await names_in(store, "", 10) == ["a/b/c"]


async def test_bodies_are_kept_in_the_documented_files(tmp_path):
    async with await LocalObjects.open(tmp_path / "objects") as store:
        await store.put("cas/u/cid/body", b"bytes, and nothing else")
    assert (tmp_path / "objects" / "cas" / "u" / "cid~body").read_bytes() == b"bytes, and nothing else"
    assert (tmp_path / "objects" / MARKER).read_bytes() == b"cellule objects 1\n"
