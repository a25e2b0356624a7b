"""`why` and correlation ids, through effects and their receipts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Cellule = Any


def intent_of(pay: Cellule, event: str) -> dict[str, Any]:
    height = pay("why", event, "--json").json["height"]
    [found] = pay("effect", "list", "--cause", str(height), "--json").json["effects"]
    return found


def test_why_goes_from_a_receipt_back_to_the_first_event(pay: Cellule) -> None:
    causes = pay("why", "order/o1@2", "--json").json["causes"]
    assert [each["kind"] for each in causes] == ["step", "receipt", "intent", "step", "event"]
    assert causes[-1]["id"] == "id-o1"
    assert causes[2]["effect"] == "pay.charge"
    shown = pay("why", "order/o1@2").out
    assert shown.index("receipt") < shown.index("intent") < shown.index("pay/Placed@1")


def test_why_takes_the_id_of_an_effect_open_or_settled(pay: Cellule) -> None:
    for event in ("id-o1", "id-big"):
        found = intent_of(pay, event)
        told = pay("why", found["id"], "--json").json
        assert told["height"] == found["height"]
        assert [each["kind"] for each in told["causes"]] == ["intent", "step", "event"]
        assert told["causes"][0]["intent"] == found["id"]


def test_decisions_and_what_people_did_stand_beside_the_chain(pay: Cellule) -> None:
    big = intent_of(pay, "id-big")["id"]
    pay("effect", "deny", big, "--why", "too much")
    told = pay("why", "order/big@2", "--json").json
    assert [each["kind"] for each in told["causes"]] == ["step", "receipt", "intent", "step", "event"]
    kinds = {(each["kind"], each.get("verdict") or each.get("verb")) for each in told["beside"]}
    assert kinds == {("decision", "park"), ("decision", "deny"), ("control", "effect.deny")}
    assert "too much" in pay("why", "order/big@2").out


def test_forward_goes_through_receipts_and_says_what_still_waits(pay: Cellule) -> None:
    found = pay("why", "id-o1", "--effects", "--json").json
    kinds = [each["kind"] for each in found["effects"]]
    assert kinds == ["step", "intent", "decision", "receipt", "step"]
    assert found["complete"]
    waiting = pay("why", "id-big", "--effects", "--json").json
    assert not waiting["complete"]
    assert "still waits" in pay("why", "id-big", "--effects").err


def test_what_why_cannot_know_is_a_usage_error(pay: Cellule) -> None:
    assert pay("why", "id-nobody", "--json", code=2).error["code"] == "cli.usage"
    unknown = "bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
    assert pay("why", unknown, "--json", code=1).error["code"] == "host.no_effect"


def test_a_correlation_id_filters_the_journal(pay: Cellule) -> None:
    height = pay("world", "show", "--json").json["height"]
    everything = pay("journal", "show", f"1..{height}", "--json").json["records"]
    story = pay("journal", "show", f"1..{height}", "--correlation", "s1", "--json").json["records"]
    assert [each["kind"] for each in story] == ["event", "step", "intent", "decision", "receipt", "step"]
    assert {each.get("correlation") for each in everything if each["kind"] == "event"} >= {"s1", "s2", "s3"}
    tail = pay("journal", "tail", "--no-follow", "--after", "0", "--correlation", "s1", "--json").lines
    assert tail == story
    newest = pay("journal", "tail", "--no-follow", "--after", str(story[0]["height"]), "--correlation", "s1")
    assert len(newest.out.splitlines()) == 5
    assert pay("journal", "tail", "--no-follow", "-n", "9999", "--correlation", "nobody").out == ""


def test_a_correlation_id_filters_a_cell(pay: Cellule) -> None:
    again = json.dumps({"order": "o1", "cents": 5, "how": "timer"})
    pay("event", "send", "Placed", again, "--correlation", "s9")
    versions = pay("cell", "history", "order", "o1", "--correlation", "s1", "--json").json["versions"]
    assert [each["version"] for each in versions] == [2, 1]
    assert versions[0]["changes"]
    [newest] = pay("cell", "history", "order", "o1", "--correlation", "s9", "--json").json["versions"]
    assert newest["version"] == 3


def test_a_cell_is_followed_by_correlation_id(paying: Cellule) -> None:
    tail = paying.start("cell", "tail", "order", "t", "--correlation", "mine", "--count", "1")
    try:
        assert "following pay/order t" in tail.line("err")
        for story in ("other", "mine"):
            value = json.dumps({"order": "t", "cents": 5, "how": "timer"})
            paying("event", "send", "Placed", value, "--correlation", story)
        assert "pay/order/t ok v3" in tail.line()
        assert tail.rest() == []
        assert tail.process.wait() == 0
    finally:
        tail.close()
