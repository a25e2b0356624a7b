"""What a handle of a deleted world says of its storage: that it is gone, and nothing is written for it."""

from __future__ import annotations

import pytest

from cellule.errors import Gone
from cellule.host.storage.history import hold_history
from cellule.host.storage.policy import Retention, write_retention
from tests.support.virtual_tests import in_virtual_time


@in_virtual_time
async def test_the_storage_of_a_deleted_world_is_gone(node, tally, tmp_path):
    """It told of no snapshots and no holds, and refused to keep any by the key of a row."""
    world = await node.world("w")
    await world.send(tally.Add("a", 1))
    storage, engine = await node.storage("w"), node.node.engine
    await node.delete_world("w")
    rows = [key async for page in engine.rows() for key, _ in page]
    calls = (
        storage.snapshots, storage.compact, storage.holds, storage.retention,
        lambda: storage.retain(snapshots=2), lambda: storage.hold("audit", 1),
        lambda: storage.release("audit"), lambda: storage.promote(1),
        lambda: storage.export_keys(tmp_path / "keys"), lambda: storage.import_keys(tmp_path / "keys"),
        lambda: hold_history(engine, world.info, "audit", 1),
        lambda: write_retention(engine, world.info, Retention("drop", 1)),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(Gone) as caught:
            await call()
        assert caught.value.code == "host.world_gone"
    assert not (tmp_path / "keys").exists()
    assert [key async for page in engine.rows() for key, _ in page] == rows
