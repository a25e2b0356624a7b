"""`cellule journal`, `why` and `stuck`: what happened, why, and what waits."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cellule = Any


def test_the_journal_is_shown_record_by_record(shop: Cellule) -> None:
    height = shop("world", "show", "--json").json["height"]
    records = shop("journal", "show", f"1..{height}", "--json").json["records"]
    assert [each["height"] for each in records] == list(range(1, height + 1))
    placed = next(each for each in records if each.get("schema") == "shop/Placed@1")
    assert placed["value"] == {"order_id": "o1", "total": 3}
    assert placed["id"] == "p1"
    assert placed["targets"] == [{"module": "shop/order", "key": "o1"}]
    for record in records:
        assert shop("journal", "show", str(record["height"]), "--json").json["records"] == [record]
    assert "shop/Placed@1" in shop("journal", "show", f"1..{height}").out


@pytest.mark.parametrize("heights", ["x", "1..", "..2", "5..3", "-1", "1..99999999"])
def test_what_is_no_range_of_heights_is_a_usage_error(shop: Cellule, heights: str) -> None:
    assert shop("--json", "journal", "show", "--", heights, code=2).error["code"] == "cli.usage"


def test_heights_beyond_the_journal_are_refused(shop: Cellule) -> None:
    assert shop("journal", "show", "99999", "--json", code=1).error["code"] == "host.height"


def test_a_tail_without_following_ends(shop: Cellule) -> None:
    height = shop("world", "show", "--json").json["height"]
    lines = shop("journal", "tail", "--no-follow", "-n", "3", "--json").lines
    assert [each["height"] for each in lines] == [height - 2, height - 1, height]
    after = shop("journal", "tail", "--no-follow", "--after", "1", "--json").lines
    assert [each["height"] for each in after] == list(range(2, height + 1))
    assert shop("journal", "tail", "--no-follow", "-n", "0", "--json").out == ""


def test_a_tail_ends_after_its_count(shop: Cellule) -> None:
    assert len(shop("journal", "tail", "--after", "0", "--count", "4", "--json").lines) == 4


def test_a_tail_follows_a_running_node_and_an_interrupt_ends_it_well(running: Cellule) -> None:
    height = running("world", "show", "--json").json["height"]
    tail = running.start("--json", "journal", "tail", "--after", str(height))
    try:
        running("event", "send", "Counted", '{"number": 3}')
        event, step = tail.json(), tail.json()
        assert (event["kind"], step["kind"], step["cause"]) == ("event", "step", event["height"])
        assert tail.end(signal.SIGINT) == 0
        assert tail.rest("err") == []
    finally:
        tail.close()


def test_why_goes_back_to_the_first_event(shop: Cellule) -> None:
    causes = shop("why", "parcels", "--json").json["causes"]
    assert [each["kind"] for each in causes] == ["step", "emitted", "step", "event"]
    assert [each["cause"] for each in causes[:-1]] == [each["height"] for each in causes[1:]]
    assert causes[-1]["schema"] == "shop/Paid@1"
    assert "shop/Paid@1" in shop("why", "parcels").out


def test_why_takes_a_height_a_cell_and_a_version(shop: Cellule) -> None:
    by_version = shop("why", "order/o1@1", "--json").json
    assert [each["kind"] for each in by_version["causes"]] == ["step", "event"]
    assert shop("why", str(by_version["height"]), "--json").json == by_version
    newest = shop("why", "shop/order/o1", "--json").json
    assert newest == shop("why", "order/o1@3", "--json").json


def test_effects_go_forward(shop: Cellule) -> None:
    paid = shop("why", "order/o1@2", "--json").json["causes"][-1]["height"]
    found = shop("why", str(paid), "--effects", "--json").json
    assert [each["kind"] for each in found["effects"]] == ["step", "emitted", "step", "step"]
    assert found["complete"] is True
    assert "shop/parcels" in shop("why", str(paid), "--effects").out


def test_effects_of_a_kept_event_are_not_complete(shop: Cellule) -> None:
    shop("event", "send", "Paid", '{"order_id": "o9", "amount": 1}', code=5)
    height = shop("why", "order/o9", "--json").json["causes"][-1]["height"]
    found = shop("why", str(height), "--effects", "--json").json
    assert found["complete"] is False
    assert [each["status"] for each in found["effects"] if each["kind"] == "step"] == ["halted"]


@pytest.mark.parametrize(
    ("what", "code", "error"),
    [
        ("99999", 1, "host.height"),
        ("0", 1, "host.height"),
        ("order/o1@77", 1, "cli.no_version"),
        ("order/none", 1, "cli.no_version"),
        ("ordr/o1", 1, "host.no_module"),
        ("nonsense", 2, "cli.usage"),
    ],
)
def test_why_refuses_what_is_not_there(shop: Cellule, what: str, code: int, error: str) -> None:
    assert shop("why", what, "--json", code=code).error["code"] == error


def test_nothing_is_stuck_in_a_healthy_world(shop: Cellule) -> None:
    found = shop("stuck", "--json").json
    assert (found["paused"], found["inbox"], found["stopped"], found["dead_letters"]) == (False, 0, [], [])
    assert "nothing is stuck" in shop("stuck").out


def test_stopped_cells_and_dead_letters_are_listed_with_their_reasons(shop: Cellule) -> None:
    shop("event", "send", "Paid", '{"order_id": "o9", "amount": 1}', code=5)
    shop("event", "send", "Dropped", '{"name": "vase"}', code=5)
    found = shop("stuck", "--json").json
    [stopped] = found["stopped"]
    assert (stopped["module"], stopped["key"], stopped["status"]) == ("shop/order", "o9", "halted")
    assert "there is no such order" in stopped["text"]
    [letter] = found["dead_letters"]
    assert (letter["module"], letter["key"], letter["event"]) == ("shop/fragile", "vase", "shop/Dropped@1")
    assert "it broke" in letter["text"]
    shown = shop("stuck").out
    assert "o9" in shown
    assert "it broke" in shown
