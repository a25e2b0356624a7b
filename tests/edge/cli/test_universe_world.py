"""`cellule universe` and `cellule world`, on stopped and on running folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Cellule = Any


def test_a_universe_is_made_listed_shown_and_deleted(empty: Cellule) -> None:
    made = empty("universe", "create", "north", "--json").json
    assert made["name"] == "north"
    assert [each["id"] for each in empty("universe", "list", "--json").json["universes"]] == [made["id"]]
    assert empty("universe", "show", "north", "--json").json["worlds"] == []
    assert empty("universe", "delete", "north", "--json").json == {"deleted": "north"}
    assert empty("universe", "list", "--json").json == {"universes": []}


def test_tables_for_people_hold_the_same_names(empty: Cellule) -> None:
    assert "universe north made" in empty("universe", "create", "north").out
    assert "north" in empty("universe", "list").out
    assert "none" in empty("universe", "show", "north").out
    assert "deleted" in empty("universe", "delete", "north").out


def test_a_universe_cannot_be_made_twice(empty: Cellule) -> None:
    empty("universe", "create", "north")
    assert empty("universe", "create", "north", "--json", code=1).error["code"] == "host.universe_exists"


def test_a_wrong_universe_gets_suggestions(shop: Cellule) -> None:
    error = shop("universe", "show", "defalt", "--json", code=1).error
    assert error["code"] == "host.no_universe"
    assert "default" in error["hint"]


def test_a_universe_with_worlds_is_not_deleted(shop: Cellule) -> None:
    assert shop("universe", "delete", "default", "--json", code=1).error["code"] == "host.universe_not_empty"


def test_worlds_of_another_universe_are_apart(shop: Cellule) -> None:
    shop("universe", "create", "north")
    shop("world", "create", "main", "--app", shop.app, "--universe", "north")
    listed = shop("world", "list", "--universe", "north", "--json").json["worlds"]
    assert [each["name"] for each in listed] == ["main"]
    assert shop("cell", "list", "--universe", "north", "--json").json["cells"] == []


def test_a_new_world_needs_an_app(shop: Cellule) -> None:
    error = shop("world", "create", "other", "--json", code=1).error
    assert error["code"] == "host.no_app"
    assert "--app" in error["hint"]


def test_a_new_world_without_app_leaves_no_folder_behind(empty: Cellule) -> None:
    assert empty("world", "create", "other", "--json", code=1).error["code"] == "store.no_data"
    assert not empty.data.exists()


def test_a_world_cannot_be_made_twice(shop: Cellule) -> None:
    error = shop("world", "create", "main", "--app", shop.app, "--json", code=1).error
    assert error["code"] == "host.world_exists"


def test_worlds_are_listed_with_their_heights(shop: Cellule) -> None:
    [world] = shop("world", "list", "--json").json["worlds"]
    assert (world["name"], world["universe"]) == ("main", "default")
    assert world["height"] > 5
    assert "main" in shop("world", "list").out


def test_an_empty_universe_lists_no_worlds(empty: Cellule) -> None:
    empty("universe", "create", "north")
    assert empty("world", "list", "--json").json == {"worlds": []}


def test_a_world_shows_its_cells_and_events(shop: Cellule) -> None:
    shown = shop("world", "show", "--json").json
    cells = {each["name"]: each["cells"] for each in shown["modules"]}
    assert cells == {"shop/order@1": 2, "shop/parcels@1": 1, "shop/tally@1": 0, "shop/fragile@1": 0}
    assert "shop/Placed@1" in shown["events"]
    assert shown["as_of"]["height"] == shown["height"]
    assert (shown["paused"], shown["owner"], shown["eras"]) == (False, None, 1)
    assert "shop/order@1" in shop("world", "show", "main").out


def test_a_wrong_world_gets_suggestions(shop: Cellule) -> None:
    error = shop("world", "show", "mian", "--json", code=1).error
    assert error["code"] == "host.no_world"
    assert "main" in error["hint"]


def test_one_world_needs_no_name_and_several_do(shop: Cellule) -> None:
    shop("world", "create", "a", "--app", shop.app)
    assert shop("world", "show", "--json").json["name"] == "main"
    shop("world", "delete", "main", "--yes")
    assert shop("world", "show", "--json").json["name"] == "a"
    shop("world", "create", "b", "--app", shop.app)
    error = shop("world", "show", "--json", code=1).error
    assert error["code"] == "cli.which_world"
    assert "a, b" in error["hint"]
    shop("world", "delete", "a", "--yes")
    shop("world", "delete", "b", "--yes")
    assert shop("world", "show", "--json", code=1).error["code"] == "cli.no_worlds"


def test_a_world_is_deleted_only_when_sure(shop: Cellule) -> None:
    error = shop("world", "delete", "main", "--json", code=2).error
    assert error["code"] == "cli.usage"
    assert "--yes" in error["hint"]
    assert shop("world", "delete", "main", "--yes", "--json").json["deleted"] == "main"
    assert shop("world", "list", "--json").json == {"worlds": []}


def test_a_snapshot_becomes_the_baseline(shop: Cellule) -> None:
    taken = shop("world", "snapshot", "--json").json
    shown = shop("world", "show", "--json").json
    assert taken["height"] == shown["baseline"]
    assert shown["height"] == taken["height"] + 2  # the note of it
    assert shop("cell", "show", "order", "o1", "--json").json["state"]["status"] == "shipped"


def test_a_paused_world_keeps_events_and_runs_them_after_resume(shop: Cellule) -> None:
    paused = shop("world", "pause", "--why", "a test", "--json").json
    assert (paused["verb"], paused["why"]) == ("pause", "a test")
    event = ("event", "send", "Paid", '{"order_id": "o2", "amount": 9}')
    assert shop(*event, "--json", code=5).error["code"] == "host.parked"
    assert shop("cell", "show", "order", "o2", "--json").json["state"]["paid"] == 0
    assert shop("world", "show", "--json").json["paused"] is True
    assert "paused" in shop("stuck").out
    shop("world", "resume")
    shop("event", "send", "Counted", '{"number": 1}')
    assert shop("cell", "show", "order", "o2", "--json").json["state"]["paid"] == 9


def test_a_running_world_is_paused_through_its_inbox(running: Cellule) -> None:
    assert running("world", "pause", "--json").json["verb"] == "pause"
    event = ("event", "send", "Paid", '{"order_id": "o2", "amount": 9}')
    assert running(*event, "--json", code=5).error["code"] == "host.parked"
    assert running("world", "resume", "--json").json["verb"] == "resume"
    assert running("event", "send", "Counted", '{"number": 1}', "--json").json["steps"][0]["version"] == 1


def test_a_running_world_takes_the_snapshot_that_another_process_asks_for(running: Cellule) -> None:
    taken = running.process("world", "snapshot", "--why", "before the update", "--json").json
    assert running("world", "show", "--json").json["baseline"] == taken["height"]
    told = running("journal", "tail", "--no-follow", "--json").lines
    assert any(each.get("why") == "before the update" for each in told)


def test_what_only_the_owner_can_do_says_who_that_is(running: Cellule) -> None:
    for command in (["create", "other", "--app", running.app], ["delete", "main", "--yes"]):
        error = running("world", *command, "--json", code=3).error
        assert error["code"] == "host.not_owner"
        assert "process" in error["fields"]["owner"]
    owner = running("world", "show", "--json").json["owner"]
    [session] = running("universe", "sessions", "--json").json["sessions"]
    assert session == owner
    assert (owner["pid"] > 0, owner["owns"], owner["expires_ms"]) == (True, True, None)
    assert f"{owner['host']}" in running("universe", "sessions").out
