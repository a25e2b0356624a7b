"""The service as a client meets it: a real node in a folder, and real effects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bank
import pytest
from fastapi.testclient import TestClient
from web import create_api


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_api(str(tmp_path / "data"))) as client:
        yield client


def settled(client: TestClient, customer: str, field: str, value: object) -> Any:
    """The account, once one of its fields has a value: effects take their time."""
    for _ in range(1_000):
        found: Any = client.get(f"/customers/{customer}").json()
        if found[field] == value:
            return found
    raise AssertionError(f"{field} of {customer} did not become {value}")


def test_a_customer_subscribes_once_however_often_the_client_sends(client: TestClient) -> None:
    new, key = {"card": "good", "cents": 900}, {"Idempotency-Key": "k1"}
    for _ in range(2):
        assert client.put("/customers/ada", json=new, headers=key).json() == {"status": "charging"}
    assert len(settled(client, "ada", "status", "active")["invoices"]) == 1
    again = client.put("/customers/ada", json=new)
    assert (again.status_code, again.json()["code"]) == (409, "exists")


def test_charges_before_and_after_a_restart_have_different_ids(tmp_path: Path) -> None:
    """The bank of this process counted them, and counted again from one."""
    found = []
    for customer in ("ada", "bob"):
        bank.BOOKED.clear()
        with TestClient(create_api(str(tmp_path / "data"))) as client:
            client.put(f"/customers/{customer}", json={"card": "good", "cents": 900})
            [invoice] = settled(client, customer, "status", "active")["invoices"]
            found.append(invoice["charge_id"])
    assert len(set(found)) == 2


def test_who_did_not_pay_can_be_listed(client: TestClient) -> None:
    client.put("/customers/ada", json={"card": "good", "cents": 900})
    client.put("/customers/bob", json={"card": "bad", "cents": 900})
    settled(client, "bob", "status", "past due")
    assert client.get("/customers").json() == {"customers": ["bob"]}
    client.put("/customers/bob/card", json={"card": "good"})
    settled(client, "bob", "status", "active")
    assert client.get("/customers").json() == {"customers": []}


def test_a_large_refund_is_decided_by_a_person(client: TestClient) -> None:
    client.put("/customers/ada", json={"card": "good", "cents": 9_000})
    [invoice] = settled(client, "ada", "status", "active")["invoices"]
    wanted = {"charge_id": invoice["charge_id"], "cents": 9_000}
    assert client.post("/customers/ada/refunds", json=wanted).status_code == 202
    [waiting] = client.get("/refunds").json()
    assert waiting["customer"] == "ada"
    assert "by rule large refunds" in waiting["reason"]
    decision = {"approve": True, "who": "grace", "why": "fair enough"}
    assert client.post(f"/refunds/{waiting['id']}", json=decision).status_code == 204
    settled(client, "ada", "refunds", {})
    assert client.get("/refunds").json() == []


def test_what_cannot_be_meant_is_told_as_such(client: TestClient) -> None:
    new, key = {"card": "good", "cents": 900}, {"Idempotency-Key": "k1"}
    client.put("/customers/ada", json=new, headers=key)
    wrong = [
        client.put("/customers/ada", json={**new, "cents": 901}, headers=key),
        client.put("/customers/bob", json={**new, "cents": 10**30}),
        client.put(f"/customers/{'b' * 600}", json=new),
        client.post("/refunds/none", json={"approve": True, "who": "grace", "why": "fair"}),
        client.post("/refunds/none", json={"approve": True, "who": "", "why": ""}),
    ]
    assert [each.status_code for each in wrong] == [400] * len(wrong)
    assert [each.json()["code"] for each in wrong[:3]] == [
        "kernel.id_reused",
        "schema.mismatch",
        "routing.key_too_long",
    ]


def test_nobody_knows_a_stranger(client: TestClient) -> None:
    assert client.get("/customers/eve").status_code == 404
    assert client.delete("/customers/eve").json()["code"] == "unknown"
