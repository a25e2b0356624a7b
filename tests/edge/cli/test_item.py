"""`cellule item`, and how `stuck` and `doctor` tell what a world could not do."""

from __future__ import annotations

import asyncio
from typing import Any

from cellule.assembly import Options
from cellule.assembly import open as open_node
from cellule.host.trouble import Trouble
from cellule.store import keys
from cellule.store.engine import Batch, Stamp
from cellule.values.cbor import encode
from cellule.values.envelope import seal
from tests.edge.cli.conftest import Cellule

STAMP = Stamp(bytes(11) + b"\7")
PLACED = {
    "kind": "event",
    "schema": "shop/Placed@1",
    "id": "late",
    "value": seal(encode({"order_id": "o7", "total": 5})),
}


def write(shop: Cellule, trouble: Trouble | None = None) -> None:
    """What the owner of the folder leaves when it cannot take an item, or a snapshot."""

    async def main() -> None:
        options = Options(own=False, tune_process=False)
        async with open_node(str(shop.data), None, deploy="never", options=options) as node:
            info = (await node.world("main", create=False)).info
            kept: dict[bytes, Any] = {
                keys.aside(info.universe, info.id, STAMP): encode(
                    {"item": seal(encode(PLACED)), "why": "a defect of steps", "at_ns": 0}
                )
            }
            if trouble is not None:
                kept[keys.world_trouble(info.universe, info.id)] = trouble.row()
            await node.node.engine.commit(Batch(set=kept))

    asyncio.run(main())


def test_an_item_that_was_set_aside_is_listed_and_retried(shop: Cellule) -> None:
    assert shop("item", "list", "--json").json["items"] == []
    write(shop)
    [item] = shop("item", "list", "--json").json["items"]
    assert (item["name"], item["event_id"], item["why"]) == ("shop/Placed@1", "late", "a defect of steps")
    assert item["id"] in shop("item", "list").out
    assert shop("stuck", "--json").json["items"] == [item]
    assert "cellule item retry" in shop("stuck").out
    shop("item", "retry", item["id"])
    assert shop("item", "list").out.strip() == "nothing is set aside"
    shop("event", "send", "Placed", '{"order_id": "o8", "total": 5}', "--app", shop.app)
    assert shop("cell", "show", "order", "o7", "--json").json["state"]["total"] == 5


def test_an_item_that_was_set_aside_is_dropped(shop: Cellule) -> None:
    write(shop)
    [item] = shop("item", "list", "--json").json["items"]
    shop("item", "drop", item["id"])
    assert shop("stuck", "--json").json["items"] == []
    for verb in ("drop", "retry"):
        for name in (item["id"], "nonsense"):
            assert shop("item", verb, name, "--json", code=1).error["code"] == "host.no_item_aside"


def test_the_doctor_and_stuck_tell_what_a_world_cannot_do(shop: Cellule) -> None:
    write(shop, Trouble(0, 3, "the block is too long"))
    found = shop("doctor", "--json").json
    [world] = [each for each in found["findings"] if each["what"] == "default/main"]
    assert found["ok"] is True
    assert world["status"] == "warn"
    assert "items set aside: 1 (cellule item list)" in world["text"]
    assert "the block is too long" in world["text"]
    assert shop("stuck", "--json").json["snapshot"]["attempts"] == 3
    assert "no snapshot could be taken since 1970" in shop("stuck").out


def test_a_cell_is_halted_and_resumed(shop: Cellule) -> None:
    halted = shop("cell", "halt", "order", "o1", "--why", "to look at it", "--json").json
    assert halted["cells"] == [{"module": "shop/order", "key": "o1"}]
    [cell] = shop("stuck", "--json").json["stopped"]
    assert (cell["key"], cell["status"], cell["text"]) == ("o1", "halted", "to look at it")
    again = shop("cell", "halt", "order", "o1", "--json", code=1).error
    assert again["code"] == "kernel.cannot_halt"
    assert shop("cell", "halt", "order", "nobody", "--json", code=1).error["code"] == "kernel.cannot_halt"
    shop("cell", "resume", "order", "o1")
    assert shop("stuck", "--json").json["stopped"] == []
