"""A ref, and an id, stand wherever the name of a world does."""

from __future__ import annotations

import pytest

from tests.support.virtual_tests import in_virtual_time


@pytest.mark.parametrize("called", ["by a ref", "by its id"])
def test_a_world_is_the_same_by_every_name_it_has(on_node, tally, tmp_path, called):
    async def main(opened):
        async with opened() as node:
            own = await node.world("w")
            await own.send(tally.Add("a", 1))
            await node.create_ref("prod", "w")
            name = "prod" if called == "by a ref" else str(own.id)
            world = await node.world(name)
            await world.send(tally.Add("a", 2))
            assert (world.id, world.name) == (own.id, "w")
            child = await node.fork_world(name, "child")
            assert child.info.origin.parent == own.id
            await child.send(tally.Add("b", 1))
            assert [each.key for each in (await node.diff_worlds(name, "child")).cells] == [b"b"]
            assert (await node.what_if(name, [tally.Add("c", 1)])).difference.cells
            assert (await node.merge_worlds("child", name)).merged
            assert (await world.cell("account", "b").state()).total == 1
            assert await node.shadow_world(name, era=0)
            assert (await node.deploy_world(name, dry_run=True)).identical
            storage = await node.storage(name)
            assert (await storage.snapshots())[0].height == 0
            assert (await node.export_world(name, tmp_path / "w.car")).height > 0
            await node.create_ref("second", name)
            await node.move_ref("second", name)
            assert {each.world for each in await node.refs() if each.name in ("prod", "second")} == {own.id}
            await node.delete_world("child")
            await node.delete_world(name)
            assert await node.worlds() == []
            assert await node.refs() == []

    on_node(main)


@in_virtual_time
async def test_who_holds_a_world_open_stays_with_it_when_the_ref_moves(node, tally):
    one, other = await node.world("one"), await node.world("other")
    await node.create_ref("prod", "one")
    held = await node.world("prod")
    await node.move_ref("prod", "other", expected=one.id)
    await held.send(tally.Add("a", 1))
    assert (await one.cell("account", "a").state()).total == 1
    assert (await node.world("prod")).id == other.id
