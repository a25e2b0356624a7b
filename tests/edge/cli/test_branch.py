"""Worlds as branches on the command line: forks, refs, templates, the tree."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    Cellule = Any


def place(shop: Cellule, order: str, world: str = "main") -> int:
    value = json.dumps({"order_id": order, "total": 5})
    return int(shop("event", "send", "shop/Placed@1", value, "--world", world, "--json").json["height"])


def orders(shop: Cellule, world: str) -> set[str]:
    cells = shop("cell", "list", "order", "--world", world, "--json")
    return {each["key"] for each in cells.json["cells"]}


def test_a_fork_goes_its_own_way_and_says_where_it_begins(shop: Cellule) -> None:
    place(shop, "a")
    made = shop("world", "fork", "try", "--why", "to see", "--json").json
    assert (made["parent_name"], made["effects"], made["live"]) == ("main", "drop", False)
    place(shop, "b", "try")
    place(shop, "c")
    assert orders(shop, "try") - orders(shop, "main") == {"b"}
    assert orders(shop, "main") - orders(shop, "try") == {"c"}
    [record] = shop("journal", "show", str(made["height"] + 1), "--world", "try", "--json").json["records"]
    assert (record["kind"], record["at"], record["why"]) == ("fork", made["height"], "to see")
    for world in ("main", "try"):
        assert shop("verify", "--world", world, "--json").code == 0
    assert shop("check", "--json").code == 0


def test_a_fork_of_a_point_of_the_past(shop: Cellule) -> None:
    first = place(shop, "a")
    place(shop, "b")
    early = shop("world", "fork", "early", "--at", str(first + 1), "--json").json
    assert early["height"] <= first + 1
    assert "b" not in orders(shop, "early")
    shop("world", "fork", "other", "--at", f"early@{early['height']}")
    assert orders(shop, "other") == orders(shop, "early")
    shop("world", "fork", "first", "--at", "2020-01-01T00:00:00Z")
    assert orders(shop, "first") == set()
    error = shop("world", "fork", "odd", "--at", "main@nothing", "--json", code=1).error
    assert error["code"] == "host.fork_point"


def test_a_world_made_from_a_template_is_live(shop: Cellule) -> None:
    place(shop, "a")
    taken = shop("world", "snapshot", "--json").json
    for number, template in enumerate((f"main@{taken['snapshot']}", f"main@{taken['height']}", "main")):
        made = shop("world", "create", f"w{number}", "--from", template, "--json").json
        assert made["live"]
        assert orders(shop, f"w{number}") == orders(shop, "main")
    error = shop("world", "create", "odd", "--from", "main", "--manifest", "x.json", code=2)
    assert "--from or --manifest" in error.err


def test_refs_are_names_that_move(shop: Cellule) -> None:
    place(shop, "a")
    child = shop("world", "fork", "try", "--json").json
    main = shop("world", "show", "main", "--json").json["id"]
    shop("ref", "create", "prod", "main")
    assert orders(shop, "prod") == orders(shop, "main")
    place(shop, "b", "try")
    moved = shop("ref", "move", "prod", "try", "--expected", main, "--json").json
    assert (moved["id"], moved["before"]) == (child["id"], main)
    assert "b" in orders(shop, "prod")
    assert (
        shop("ref", "move", "prod", "main", "--expected", main, "--json", code=1).error["code"]
        == "host.ref_moved"
    )
    refs = {each["name"]: each["world"] for each in shop("ref", "list", "--json").json["refs"]}
    assert refs == {"main": "main", "prod": "try", "try": "try"}
    assert "prod" in shop("ref", "list").out
    shop("ref", "delete", "prod")
    assert shop("ref", "delete", "prod", "--json", code=1).error["code"] == "host.no_ref"
    assert shop("ref", "delete", "main", "--json", code=1).error["code"] == "host.ref_name"
    assert shop("ref", "create", "try", "main", "--json", code=1).error["code"] == "host.ref_exists"
    shop("ref", "move", "main", "try")  # a world's own name may be another's now
    assert shop("check", "--json").code == 0
    assert orders(shop, main) != orders(shop, "main")


def test_the_tree_shows_forks_with_their_heights(shop: Cellule, tmp_path: Any) -> None:
    place(shop, "a")
    first = shop("world", "fork", "one", "--json").json
    second = shop("world", "fork", "two", "--at", "one", "--json").json
    shop("world", "fork", "three")
    lines = shop("world", "tree").out.splitlines()
    assert lines == [
        "main",
        f"|-- one  at {first['height']}",
        f"|   `-- two  at {second['height']}",
        f"`-- three  at {first['height']}",
    ]
    picture = tmp_path / "tree.svg"
    [root] = shop("world", "tree", "--svg", str(picture), "--json").json["worlds"]
    assert [each["name"] for each in root["forks"]] == ["one", "three"]
    texts = [each.text for each in ET.parse(picture).getroot().iter() if each.tag.endswith("text")]
    assert texts[0] == "main"
    assert any("two at" in (text or "") for text in texts)
    assert shop("world", "delete", "one", "--yes", "--json", code=1).error["code"] == "host.has_forks"
    shop("world", "delete", "one", "--yes", "--force")
    assert "deleted" in shop("world", "tree").out
    assert orders(shop, "two") == orders(shop, "main")


def test_a_fork_beside_a_running_node(running: Cellule) -> None:
    """Its owner opens it and makes its first record, although another process asked for it."""
    before = orders(running, "main")
    made = running("world", "fork", "try", "--json").json
    assert orders(running, "try") == before
    running("event", "send", "shop/Placed@1", '{"order_id": "new", "total": 1}', "--world", "try")
    assert orders(running, "try") == {*before, "new"}
    [record] = running("journal", "show", str(made["height"] + 1), "--world", "try", "--json").json["records"]
    assert record["kind"] == "fork"


def test_what_a_fork_holds_is_listed_and_leaves_by_a_word(pay: Cellule) -> None:
    """The bank of this folder is in no process here: what is dispatched waits in the outbox."""
    pay("world", "fork", "try", "--effects", "keep")
    held = pay("effect", "list", "--status", "held", "--world", "try", "--json").json["effects"]
    assert held
    assert "this fork holds" in held[0]["reason"]
    pay("effect", "approve", held[0]["id"], "--world", "try", "--why", "this one")
    pay("world", "live", "try", "--why", "it is the real one now")
    [opened] = pay("effect", "list", "--status", "open", "--world", "try", "--json").json["effects"]
    assert opened["id"] == held[0]["id"]
    script = pay.data.parent / "script.json"
    script.write_text('[{"kind": "pay.charge", "value": {"id": "told"}, "always": true}]')
    made = pay("world", "fork", "told", "--effects", "scripted", "--script", str(script), "--json").json
    assert made["answers"] == 1
    error = pay("world", "fork", "odd", "--effects", "scripted", "--json", code=1).error
    assert error["code"] == "host.fork_script"
    assert pay("effect", "repair", "--world", "try", "--dry-run", "--json").json["missing"] == []


def test_two_worlds_are_compared_cell_by_cell(shop: Cellule) -> None:
    place(shop, "a")
    made = shop("world", "fork", "try", "--json").json
    assert shop("world", "diff", "main", "try", "--json").json["same"]
    place(shop, "b", "try")
    value = json.dumps({"order_id": "a", "amount": 5})
    shop("event", "send", "shop/Paid@1", value, "--world", "try")
    found = shop("world", "diff", "main", "try", "--json").json
    assert {(each["key"], each["change"]) for each in found["cells"]} >= {("b", "added"), ("a", "changed")}
    lines = shop("world", "diff", f"try@{made['height']}", "try").out.splitlines()
    assert any(line.startswith("+ shop/order/b") for line in lines)
    assert any("state.paid: 0 -> 5" in line for line in lines)
    assert "are the same" in shop("world", "diff", "main", "main").out


def test_what_would_happen_is_shown_and_nothing_is_made(shop: Cellule) -> None:
    place(shop, "a")
    before = shop("world", "show", "main", "--json").json["height"]
    event = 'shop/Placed@1={"order_id": "new", "total": 7}'
    found = shop("world", "what-if", "--event", event, "--json").json
    assert ("new", "added") in [(each["key"], each["change"]) for each in found["difference"]["cells"]]
    assert "nothing was written" in shop("world", "what-if", "--event", event).out
    assert shop("world", "show", "main", "--json").json["height"] == before
    assert shop("world", "what-if", "--replay", "--at", "0", "--json").json["difference"]["same"]
    assert shop("world", "what-if", "--event", "odd={", code=2).err
    assert shop("world", "what-if", "--deploy", code=2).err


def test_a_fork_is_merged_cell_by_cell(shop: Cellule) -> None:
    place(shop, "a")
    shop("world", "fork", "try")
    place(shop, "b", "try")
    assert "1 cell would be merged" in shop("world", "merge", "try", "main", "--dry-run").out
    found = shop("world", "merge", "try", "main", "--json").json
    assert [(each["key"], each["outcome"]) for each in found["merged"]] == [("b", "merged")]
    assert "b" in orders(shop, "main")
    value = json.dumps({"order_id": "a", "amount": 5})
    for world in ("main", "try"):
        shop(
            "event",
            "send",
            "shop/Paid@1",
            value.replace("5", "4" if world == "main" else "5"),
            "--world",
            world,
        )
    error = shop("world", "merge", "try", "main", "--json", code=1).error
    assert error["code"] == "host.merge_overlaps"
    assert shop("check", "--json").code == 0
