"""`cellule mailbox` on a folder, with an app that has mailboxes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.edge.cli.conftest import Cellule

MAIL = Path(__file__).parents[2] / "node_apps" / "mail.py"


@pytest.fixture
def mail(tmp_path: Path) -> Any:
    cellule = Cellule(tmp_path / "data", MAIL)
    cellule("--app", cellule.app, "world", "create", "main")
    return cellule


def test_a_message_from_its_post_to_its_acknowledgement(mail: Any) -> None:
    assert "board" in mail("mailbox", "create", "/mail/news", "--ttl", '{"forever": true}').out
    mail("mailbox", "create", "/mail/ana", "--owner", "ana")
    id = mail("mailbox", "post", "/mail/news", '{"text": "hello"}', "--sender", "bob").out.strip()
    assert id.startswith("msg-")
    assert mail("mailbox", "post", "/mail/ana", "1", "--unsealed", "--json").json["id"] == "msg-1"
    [message] = mail("mailbox", "read", "/mail/news", "--json").json["messages"]
    assert (message["id"], message["body"], message["sender"]) == (id, {"text": "hello"}, "bob")
    assert "hello" in mail("mailbox", "read", "/mail/news").out
    mail("mailbox", "ack", "/mail/news", id, "--reader", "eve")
    assert "no messages" in mail("mailbox", "read", "/mail/news", "--reader", "eve").out
    mail("mailbox", "ack", "/mail/ana", "msg-1", "--reader", "ana")
    assert mail("mailbox", "read", "/mail/ana", "--reader", "ana", "--json").json["messages"] == []


def test_what_is_wrong_is_refused_with_a_code(mail: Any) -> None:
    mail("mailbox", "create", "/mail/ana", "--owner", "ana")
    wrong = [
        (("post", "/mail/none", "1"), "mailbox.unknown"),
        (("post", "/mail/ana", "1", "--ttl", '{"hours": 1}'), "mailbox.argument"),
        (("post", "/mail/ana", "{"), "cli.json"),
        (("read", "/mail/ana"), "mailbox.private"),
        (("ack", "/mail/ana", "x", "--reader", "bob"), "mailbox.private"),
        (("ack", "/mail/ana", "x", "--reader", "ana"), "mailbox.no_message"),
        (("create", "/rt/ops"), "mailbox.argument"),
    ]
    for arguments, code in wrong:
        assert mail("mailbox", *arguments, "--json", code=1).error["code"] == code
