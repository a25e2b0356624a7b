"""`cellule event send`: outcomes, ids, versions, refusals; on stopped and running folders."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cellule = Any

PAID = ("event", "send", "Paid", '{"order_id": "o2", "amount": 1}')


@pytest.fixture(params=["stopped", "running"])
def either(request: pytest.FixtureRequest) -> Cellule:
    """The same command on a folder that nobody owns, and on one that another process works on."""
    return request.getfixturevalue("shop" if request.param == "stopped" else "running")


def test_an_applied_event_tells_its_steps(either: Cellule) -> None:
    sent = either(*PAID, "--json").json
    [step] = sent["steps"]
    assert (step["module"], step["key"], step["status"], step["version"]) == ("shop/order", "o2", "ok", 2)
    assert sent["height"] < step["height"]
    assert sent["duplicate"] is False
    assert "shop/order/o2 ok v3" in either(*PAID).out


def test_a_reply_is_waited_for(either: Cellule) -> None:
    assert either(*PAID, "--wait", "reply", "--json").json["reply"] == "more, please"
    assert 'reply "more, please"' in either(*PAID, "--wait", "reply").out


def test_a_durable_event_is_applied_sooner_or_later(either: Cellule) -> None:
    sent = either(*PAID, "--wait", "durable", "--json").json
    assert sent["steps"] == []
    either("event", "send", "Counted", '{"number": 1}')
    assert either("cell", "show", "order", "o2", "--json").json["version"] == 2


def test_the_same_id_is_applied_once(either: Cellule) -> None:
    first = either(*PAID, "--id", "x1", "--json").json
    again = either(*PAID, "--id", "x1", "--json").json
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert again["height"] == first["height"]
    assert again["steps"] == first["steps"]
    assert "known already" in either(*PAID, "--id", "x1").out


def test_an_expected_version_that_is_not_there_conflicts(either: Cellule) -> None:
    assert either(*PAID, "--expected-version", "7", "--json", code=1).error["kind"] == "VersionConflict"
    assert either(*PAID, "--expected-version", "1", "--json").json["steps"][0]["version"] == 2


def test_a_refusal_is_told_with_reason_and_code_and_the_cell_goes_on(either: Cellule) -> None:
    returned = ("event", "send", "Returned", '{"order_id": "o2"}', "--id", "back")
    for _ in range(2):
        error = either(*returned, "--json", code=1).error
        assert (error["kind"], error["code"], error["exit_code"]) == ("Refused", "shop.not_shipped", 1)
        assert error["fields"]["reason"] == "nothing was shipped"
        assert error["fields"]["cell"] == "shop/order/o2"
    told = either(*returned, code=1).err
    assert "shop/order/o2 refused the event: nothing was shipped" in " ".join(told.split())
    assert either(*PAID, "--json").json["steps"][0]["version"] == 2
    history = either("cell", "history", "order", "o2", "--json").json["versions"]
    refused = next(row for row in history if row["status"] == "refused")
    assert (refused["error"], refused["code"]) == ("nothing was shipped", "shop.not_shipped")
    assert "nothing was shipped [shop.not_shipped]" in either("cell", "history", "order", "o2").out
    why = either("why", str(refused["height"])).out
    assert "refused v1: nothing was shipped [shop.not_shipped]" in why
    assert either("cell", "show", "order", "o2", "--json").json["status"] == "waiting"


def test_a_failed_step_has_an_exit_code_of_its_own(either: Cellule) -> None:
    error = either("event", "send", "Paid", '{"order_id": "o9", "amount": 1}', "--json", code=5).error
    assert "there is no such order" in error["message"]
    parked = either("event", "send", "Paid", '{"order_id": "o9", "amount": 2}', "--json", code=5).error
    assert (parked["code"], parked["kind"]) == ("host.parked", "Parked")


def test_an_unknown_event_gets_suggestions(either: Cellule) -> None:
    error = either("event", "send", "Plcaed", "{}", "--json", code=1).error
    assert error["code"] == "host.no_event"
    assert "Placed" in error["hint"]


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ('{"order_id": 3, "total": 1}', "order_id"),
        ('{"order_id": "o5"}', "total"),
        ('{"order_id": "o5", "total": "many"}', "total"),
        ("[]", "Placed"),
    ],
)
def test_a_value_that_does_not_fit_names_the_field(shop: Cellule, value: str, place: str) -> None:
    before = shop("world", "show", "--json").json["height"]
    assert place in shop("event", "send", "Placed", value, "--json", code=1).error["message"]
    assert shop("world", "show", "--json").json["height"] == before


@pytest.mark.parametrize("value", ["{", "order_id=o1", '{"order_id": NaN}', ""])
def test_what_is_no_json_is_refused(shop: Cellule, value: str) -> None:
    error = shop("event", "send", "Placed", value, "--json", code=1).error
    assert error["code"] == "cli.json"
    assert "Quote it" in error["hint"]


def test_a_value_comes_from_standard_input(shop: Cellule) -> None:
    sent = shop("event", "send", "Counted", "-", "--json", stdin='{"number": 12}').json
    assert sent["steps"][0]["key"] == "12"


def test_an_event_of_the_full_name_is_the_same_event(shop: Cellule) -> None:
    assert shop("event", "send", "shop/Counted@1", '{"number": 1}', "--json").json["steps"][0]["version"] == 1


def test_an_explicit_key_must_be_that_of_the_value(shop: Cellule) -> None:
    assert shop(*PAID, "--key", "o2", "--json").json["steps"][0]["version"] == 2
    assert shop(*PAID, "--key", "o1", "--json", code=1).error["kind"] == "Rejected"


def test_an_oversized_value_is_refused(shop: Cellule) -> None:
    value = json.dumps({"order_id": "x" * 2_000_000, "total": 1})
    assert shop("event", "send", "Placed", "-", "--json", stdin=value, code=1).error["kind"] == "Rejected"


def test_many_senders_at_once_all_arrive(shop: Cellule) -> None:
    """The owner of the folder changes all the time: each send is done by whoever has it."""

    def send(number: int) -> dict[str, Any]:
        return shop.process("event", "send", "Counted", json.dumps({"number": number % 2}), "--json").json

    with ThreadPoolExecutor(6) as pool:
        sent = list(pool.map(send, range(12)))
    assert {each["duplicate"] for each in sent} <= {False, True}
    cells = shop("cell", "list", "tally", "--json").json["cells"]
    assert {each["key"]: each["version"] for each in cells} == {"0": 6, "1": 6}


def test_an_event_for_an_owner_that_does_not_answer_times_out(shop: Cellule) -> None:
    owner = shop.start("--json", "--app", shop.app, "dev", "--no-reload")
    try:
        owner.json()
        os.kill(owner.process.pid, signal.SIGSTOP)
        error = shop(*PAID, "--timeout", "3", "--json", code=3).error
        assert error["code"] == "cli.timeout"
        os.kill(owner.process.pid, signal.SIGCONT)
        assert owner.end() == 0
    finally:
        owner.close()
    shop("event", "send", "Counted", '{"number": 1}')
    assert shop("cell", "show", "order", "o2", "--json").json["version"] == 2


def test_the_event_of_an_owner_that_was_killed_is_done_by_its_sender(shop: Cellule) -> None:
    owner = shop.start("--json", "--app", shop.app, "dev", "--no-reload")
    try:
        owner.json()
        os.kill(owner.process.pid, signal.SIGSTOP)
        sender = shop.start(*PAID, "--json")
        try:
            while not shop("stuck", "--json").json["inbox"]:
                assert sender.process.poll() is None
            owner.process.kill()
            owner.process.wait(60)
            sent = json.loads("".join(sender.rest()))
            assert sent["steps"][0]["version"] == 2
        finally:
            sender.close()
    finally:
        owner.close()
    assert shop("cell", "show", "order", "o2", "--json").json["state"]["paid"] == 1
