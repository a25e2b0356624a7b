"""The scratch file of changed cells."""

from __future__ import annotations

import gc

import pytest

from cellule.errors import Unavailable
from cellule.host.run.spill import FileSpill


def test_what_was_kept_comes_back_until_it_is_dropped(tmp_path):
    spill = FileSpill(tmp_path)
    slots = [spill.put(bytes([n]) * n) for n in range(20)]
    assert [spill.get(slot) for slot in slots] == [bytes([n]) * n for n in range(20)]
    assert len(set(slots)) == 20
    for slot in slots:
        spill.drop(slot)
    assert spill.put(b"again") == 0  # an empty file starts from the front
    spill.close()
    assert list(tmp_path.iterdir()) == []


def test_no_file_is_made_before_it_is_needed_and_a_dropped_one_is_given_back(tmp_path):
    spill = FileSpill(tmp_path / "missing")
    with pytest.raises(Unavailable) as caught:
        spill.put(b"x")
    assert caught.value.code == "host.scratch"
    spill = FileSpill(tmp_path)
    spill.close()
    spill.put(b"x")
    file = spill._file
    del spill
    gc.collect()
    assert file.closed
