"""`cellule effect` and `cellule receipt`: seeing effects and steering them, beside a node and without one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cellule = Any

UNKNOWN = "bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"


def effect_of(pay: Cellule, key: str, **wanted: Any) -> dict[str, Any]:
    """The open effect of an order."""
    found = pay("effect", "list", "--json").json["effects"]
    return next(each for each in found if each["key"] == key and wanted.items() <= each.items())


def settled(pay: Cellule, intent: str) -> dict[str, Any]:
    """Wait until an effect has its receipt, and show it."""
    height = pay("effect", "show", intent, "--json").json["height"]
    tail = pay.start("--json", "journal", "tail", "--after", str(height))
    try:
        while (record := tail.json())["kind"] != "receipt" or record["cause"] != height:
            pass
    finally:
        tail.end()
        tail.close()
    return pay("effect", "show", intent, "--json").json


def test_open_effects_are_listed_with_reasons(pay: Cellule) -> None:
    found = pay("effect", "list", "--json").json
    assert [each["key"] for each in found["effects"]] == ["big", "later1", "m", "t"]
    parked, retrying, alone, timer = found["effects"]
    assert parked["reason"].endswith("by rule large sums: more than 10 EUR")
    assert "after attempt 1 of 3 failed: Bearer <secret bank> is busy" in retrying["reason"]
    assert retrying["attempts"]["tried"] == 1
    assert retrying["attempts"]["progress"] == {"asked": 1, "with": "Bearer <secret bank>"}
    assert "Bearer <secret bank>" in pay("effect", "show", retrying["id"]).out.partition("progress")[2]
    assert "no process performs effects of this folder now" in alone["reason"]
    assert timer["reason"].startswith("timer at 20")
    shown = pay("effect", "list").out
    assert "large sums" in shown
    assert parked["id"] in shown


def test_the_list_is_filtered_and_paged(pay: Cellule) -> None:
    assert len(pay("effect", "list", "--status", "timer", "--json").json["effects"]) == 1
    assert len(pay("effect", "list", "--kind", "pay.mail", "--json").json["effects"]) == 1
    first = pay("effect", "list", "--limit", "3", "--json").json
    rest = pay("effect", "list", "--after", str(first["next"]), "--json").json
    assert [each["key"] for each in first["effects"] + rest["effects"]] == ["big", "later1", "m", "t"]
    assert rest["next"] is None
    assert "--after" in pay("effect", "list", "--limit", "3").err
    assert pay("effect", "list", "--after", "9999").err.strip() == "no effect is open"


def test_effects_of_a_cause_are_listed_settled_or_not(pay: Cellule) -> None:
    event = pay("why", "id-o1", "--json").json["height"]
    [found] = pay("effect", "list", "--cause", str(event), "--json").json["effects"]
    assert (found["kind"], found["status"]) == ("pay.charge", "ok")


def test_one_effect_is_shown_whole_by_id_or_height(pay: Cellule) -> None:
    event = pay("why", "id-tired1", "--json").json["height"]
    [found] = pay("effect", "list", "--cause", str(event), "--json").json["effects"]
    by_id = pay("effect", "show", found["id"], "--json").json
    assert by_id == pay("effect", "show", str(found["height"]), "--json").json
    assert by_id["params"] == {"order": "tired1", "cents": 5, "token": "Bearer ${secret:bank}"}
    assert [each["verdict"] for each in by_id["decisions"]] == ["allow"]
    receipt = by_id["receipt"]
    assert (receipt["status"], receipt["attempts"], receipt["exhausted"]) == ("failed", 3, True)
    assert "<secret bank> did not work" in receipt["text"]
    shown = pay("effect", "show", found["id"]).out
    assert "given up" in shown
    assert "attempts" in pay("effect", "show", effect_of(pay, "later1")["id"]).out


@pytest.mark.parametrize("verb", ["show", "approve", "deny", "cancel", "retry"])
def test_what_names_no_effect_is_refused(pay: Cellule, verb: str) -> None:
    assert pay("effect", verb, "nonsense", "--json", code=1).error["code"] == "host.effect_id"
    code = {"show": "host.no_effect", "retry": "host.no_letter"}.get(verb, "host.effect_not_open")
    error = pay("effect", verb, UNKNOWN, "--json", code=1).error
    assert error["code"] == code
    assert error["hint"]


def test_a_command_on_a_stopped_folder_performs_nothing(pay: Cellule) -> None:
    big = effect_of(pay, "big")
    done = pay("effect", "approve", big["id"], "--why", "a friend", "--json").json
    assert (done["verb"], done["why"], done["intent"]) == ("effect.approve", "a friend", big["id"])
    found = effect_of(pay, "big")
    assert (found["status"], found["attempts"]["tried"]) == ("open", 0)
    value = json.dumps({"order": "o9", "cents": 5})
    pay("event", "send", "Placed", value, "--app", pay.app)
    assert effect_of(pay, "o9")["attempts"]["tried"] == 0


def test_a_stopped_folder_takes_every_verb(pay: Cellule) -> None:
    assert "deny" in pay("effect", "deny", effect_of(pay, "big")["id"]).out
    assert "cancel" in pay("effect", "cancel", effect_of(pay, "t")["id"]).out
    later = effect_of(pay, "later1")
    assert "due now" in pay("effect", "retry", later["id"]).out
    moved = effect_of(pay, "later1")["attempts"]
    assert moved["next"] < later["attempts"]["next"]
    refused = pay("effect", "retry", later["id"], "--json", code=1).error
    assert refused["code"] == "host.effect_not_waiting"
    mail = effect_of(pay, "m")["id"]
    pay("receipt", "inject", mail, "--value", '{"id": "by hand"}', "--why", "posted")
    shown = pay("effect", "show", mail, "--json").json
    assert (shown["status"], shown["receipt"]["why"]) == ("ok", "posted")
    assert pay("cell", "show", "order", "m", "--json").json["state"]["charge"] == "by hand"
    [letter] = pay("stuck", "--json").json["dead_letters"]
    assert "cellule letter redrive|dismiss HEIGHT" in pay("stuck").out
    again = pay("effect", "retry", str(letter["height"]), "--json").json
    [asked] = pay("effect", "list", "--cause", str(again["height"]), "--json").json["effects"]
    assert asked["idempotency_key"] == "tired1"
    assert pay("stuck", "--json").json["dead_letters"] == []
    assert pay("verify").code == 0


def test_beside_a_running_node_every_verb_goes_through_its_inbox(paying: Cellule) -> None:
    big = effect_of(paying, "big")["id"]
    done = paying("effect", "approve", big, "--why", "a friend", "--json").json
    assert done["verb"] == "effect.approve"
    charged = settled(paying, big)
    assert (charged["status"], charged["receipt"]["value"]["value"]) == ("ok", {"id": "ch-big-1"})
    timer = effect_of(paying, "t")["id"]
    paying("effect", "cancel", timer, "--why", "awake")
    assert settled(paying, timer)["receipt"]["why"] == "awake"
    mail = effect_of(paying, "m")["id"]
    injected = paying("receipt", "inject", mail, "--value", "-", "--why", "posted", stdin='{"id": "x"}')
    assert "settled as ok" in injected.out
    assert effect_of(paying, "later1")["attempts"]["tried"] == 1
    [letter] = paying("stuck", "--json").json["dead_letters"]
    again = paying("effect", "retry", letter["intent"], "--json").json
    [asked] = paying("effect", "list", "--cause", str(again["height"]), "--json").json["effects"]
    assert settled(paying, asked["id"])["receipt"]["exhausted"]
    refused = paying("effect", "deny", effect_of(paying, "later1")["id"], "--json", code=1).error
    assert refused["code"] == "kernel.intent_not_parked"


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (("--value", "{nonsense", "--why", "x"), "cli.json", 1),
        (("--value", '{"id": 5}', "--why", "x"), "schema.mismatch", 1),
        (("--status", "failed", "--value", '{"id": "a"}', "--why", "x"), "effects.inject_value", 1),
        (("--value", '{"id": "a"}', "--why", ""), "effects.inject_unsigned", 1),
        (("--status", "abandoned", "--why", "x"), "cli.usage", 2),
        (("--value", '{"id": "a"}'), "cli.usage", 2),
    ],
)
def test_a_receipt_that_cannot_be_is_refused(
    pay: Cellule, arguments: tuple[str, ...], code: str, exit_code: int
) -> None:
    mail = effect_of(pay, "m")["id"]
    told = pay.process("receipt", "inject", mail, *arguments, "--json", code=exit_code)
    assert told.error["code"] == code
    assert effect_of(pay, "m")["status"] == "open"


def test_repair_tells_what_it_finds(pay: Cellule) -> None:
    found = pay("effect", "repair", "--dry-run", "--json").json
    assert (found["clean"], found["open"], found["missing"]) == (True, 2, [])
    assert "clean" in pay("effect", "repair").out


def test_stuck_names_approvals_retries_and_what_nobody_performs(pay: Cellule) -> None:
    found = pay("stuck", "--json").json
    assert {"big", "later1"} <= {each["key"] for each in found["effects"]} <= {"big", "later1", "m"}
    [letter] = found["dead_letters"]
    assert (letter["key"], letter["kind"]) == ("tired1", "pay.charge")
    everything = pay("stuck", "--waiting", "--json").json["effects"]
    assert [each["key"] for each in everything] == ["big", "later1", "m", "t"]
    shown = pay("stuck").out
    for text in ("approval since", "by rule large sums", "retrying at", "cellule effect retry"):
        assert text in shown


def test_a_cell_shows_what_it_waits_for(pay: Cellule) -> None:
    assert "approval since" in pay("cell", "show", "order", "big").out
    assert pay("cell", "show", "order", "t", "--json").json["reason"].startswith("timer.set: timer at")


def test_stuck_names_modules_over_budget(pay: Cellule) -> None:
    for name in ("a", "b"):
        pay("event", "send", "Mailed", json.dumps({"list": name}), "--wait", "durable")
    found = pay("stuck", "--json").json["over_budget"]
    assert found == [{"module": "pay/mailing", "open": 1, "held": 1}]
    assert "pay/mailing is over budget: 1 effect open, 1 cell waiting" in pay("stuck").out


def test_a_receipt_needs_the_key_of_the_folder(paying: Cellule) -> None:
    mail = effect_of(paying, "m")["id"]
    key = paying.data / "node.key"
    key.chmod(0o644)
    told = paying("receipt", "inject", mail, "--value", '{"id": "x"}', "--why", "x", "--json", code=1)
    assert told.error["code"] == "effects.node_key"
    key.chmod(0o600)
    paying("receipt", "inject", mail, "--value", '{"id": "x"}', "--why", "x")


def outside(paying: Cellule, order: str) -> dict[str, Any]:
    """Place an order whose adapter leaves the charge to somebody outside, and wait until it does."""
    sent = paying("event", "send", "Placed", json.dumps({"order": order, "cents": 5}), "--json").json
    tail = paying.start("--json", "journal", "tail", "--after", str(sent["height"]))
    try:
        while (record := tail.json()).get("verdict") != "outside":
            pass
    finally:
        tail.end()
        tail.close()
    return paying("effect", "show", str(record["cause"]), "--json").json


def test_an_effect_is_completed_from_outside_by_its_token(paying: Cellule) -> None:
    first, second = outside(paying, "outside1"), outside(paying, "outside2")
    assert first["status"] == "outside"
    assert "somebody outside completes" in first["reason"]
    done = paying("effect", "complete", first["token"], "--value", '{"id": "ch-9"}', "--json").json
    assert (done["kind"], done["status"], done["why"]) == ("receipt", "ok", "completed by hand")
    failed = paying(
        "effect", "complete", second["token"], "--code", "pay.refused", "--text", "no", "--json"
    ).json
    assert (failed["status"], failed["code"]) == ("failed", "pay.refused")
    again = paying("effect", "complete", first["token"], "--value", '{"id": "x"}', code=1)
    assert "not open" in again.err
    nonsense = paying("effect", "complete", "nonsense", "--value", "{}", code=1)
    assert "no token of an effect" in nonsense.err
