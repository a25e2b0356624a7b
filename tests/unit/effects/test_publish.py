"""Publishing: against a real NATS server, that dies, forgets, refuses and comes back."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import nats
import pytest

from cellule.effects.adapter import Adapter
from cellule.effects.outcomes import Failed, Retry
from cellule.effects.publish.adapter import NatsAdapter, check_subject, message_id
from cellule.effects.publish.options import NatsOptions
from cellule.effects.publish.types import EventPublish, EventPublished
from cellule.errors import Rejected
from cellule.values import cid_of
from cellule.values.schema import codec_for, derive
from tests.support.servers.nats import NatsServer
from tests.support.servers.process import program_path

GRANT = {"name": "events", "allow": {"subject": ["orders.*", "nobody.*"]}}


@pytest.fixture(autouse=True)
def program():
    if program_path(NatsServer.program) is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("nats-server is not installed")


@pytest.fixture
def server(tmp_path):
    with NatsServer(tmp_path) as running:
        yield running


@pytest.fixture
async def publish(server, make_attempt):
    """Publish by one adapter; `publish.read()` gives what the stream `ORDERS` holds."""
    adapter = NatsAdapter(NatsOptions((server.url,)))
    await add_stream(server)

    async def perform(
        subject="orders.placed", payload=b"{}", *, key="k1", grant=GRANT, timeout_s=60.0, **others
    ):
        params = EventPublish(subject=subject, payload=payload, **others)
        return await adapter.perform(params, make_attempt(grant=grant, key=key, timeout_s=timeout_s))

    perform.adapter = adapter
    yield perform
    await adapter.close()


async def add_stream(server, **login):
    client = await nats.connect(server.url, allow_reconnect=False, **login)
    await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
    await client.close()


async def read(server, count):
    """The messages of the stream: subject, payload, headers."""
    client = await nats.connect(server.url, allow_reconnect=False)
    stream = client.jetstream()
    found = [await stream.get_msg("ORDERS", sequence) for sequence in range(1, count + 1)]
    state = (await stream.stream_info("ORDERS")).state
    await client.close()
    assert state.messages == count
    return [(each.subject, each.data, each.headers) for each in found]


def test_it_is_an_adapter_that_needs_a_grant():
    adapter = NatsAdapter(NatsOptions(("nats://127.0.0.1:4222",)))
    assert isinstance(adapter, Adapter)
    assert adapter.limits.needs_grant


@pytest.mark.parametrize(
    "record",
    [
        EventPublish(subject="a.b", payload=b"\x00", headers={"A": "1"}),
        EventPublished(stream="S", sequence=1),
    ],
)
def test_params_and_receipts_survive_the_journal(record):
    codec = codec_for(derive(type(record), namespace="event"))
    assert codec.decode(codec.encode(record)) == record


async def test_a_message_is_stored_with_its_headers(publish, server):
    answer = await publish(payload=b"\x00\xff", headers={"Trace": "t-1"}, stream="ORDERS")
    assert answer == EventPublished(stream="ORDERS", sequence=1)
    [(subject, payload, headers)] = await read(server, 1)
    assert (subject, payload, headers["Trace"]) == ("orders.placed", b"\x00\xff", "t-1")


async def test_a_repeated_attempt_is_stored_once(publish, server):
    first = await publish(key="k1")
    again = await publish(key="k1")
    other = await publish(key="k2")
    assert (again.sequence, again.duplicate) == (first.sequence, True)
    assert (other.sequence, other.duplicate) == (2, False)
    assert len(await read(server, 2)) == 2


async def test_a_repeated_attempt_of_another_node_is_stored_once(publish, server, make_attempt):
    await publish(key="k1")
    other = NatsAdapter(NatsOptions((server.url,)))
    attempt = make_attempt(grant=GRANT, key="k1", number=2)
    answer = await other.perform(EventPublish(subject="orders.placed", payload=b"{}"), attempt)
    await other.close()
    assert answer.duplicate


def test_the_same_key_of_two_worlds_is_two_messages_and_an_intent_is_always_one(make_attempt):
    intent = str(cid_of(b"intent"))
    assert message_id(make_attempt(key="k")) == "00000000-0000-0000-0000-000000000002/k"
    assert message_id(make_attempt(key=intent)) == intent


@pytest.mark.parametrize(
    "headers",
    [{"Nats-Msg-Id": "mine"}, {"nats-msg-ID": "mine"}, {"Nats-Expected-Stream": "x"}, {"A": "1", "a": "2"}],
)
async def test_no_header_says_what_the_request_says(publish, headers):
    """Once a header took the place of the message id, by which attempts of one request are told."""
    with pytest.raises(Failed) as refused:
        await publish(headers=headers)
    assert refused.value.code == "effects.publish_headers"


async def test_many_attempts_share_one_connection(publish, server):
    await asyncio.gather(*[publish(key=f"k{number}") for number in range(50)])
    assert len(await read(server, 50)) == 50


async def test_a_subject_without_a_stream_fails_with_a_hint(publish):
    with pytest.raises(Failed, match=r"nats stream add NAME --subjects 'nobody\.hears'") as refused:
        await publish("nobody.hears")
    assert refused.value.code == "effects.publish_no_stream"


async def test_another_stream_than_expected_fails(publish):
    with pytest.raises(Failed, match="expected stream") as refused:
        await publish(stream="OTHER")
    assert refused.value.code == "effects.publish_refused"


async def test_the_connection_comes_back_with_the_server(publish, server):
    first = await publish(key="k1")
    server.kill()
    with pytest.raises(Retry):
        await publish(key="k2", timeout_s=0.5)
    server.start()
    assert (await publish(key="k1")).sequence == first.sequence
    assert (await publish(key="k2")).sequence == 2


async def test_a_server_that_does_not_answer_is_tried_again(publish, server):
    await publish(key="k1")
    server.freeze()
    with pytest.raises(Retry, match="acknowledged"):
        await publish(key="k2", timeout_s=0.2)
    server.thaw()
    assert (await publish(key="k2")).sequence == 2
    assert len(await read(server, 2)) == 2


async def test_a_cancelled_attempt_leaves_the_connection_to_the_others(publish, server):
    await publish(key="k1")
    server.freeze()
    waiting = asyncio.ensure_future(publish(key="k2"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    server.thaw()
    assert (await publish(key="k3")).stream == "ORDERS"


async def test_the_next_server_is_tried_when_one_is_down(server, make_attempt):
    await add_stream(server)
    adapter = NatsAdapter(NatsOptions(("nats://127.0.0.1:1", server.url)))
    answer = await adapter.perform(EventPublish(subject="orders.placed"), make_attempt(grant=GRANT))
    await adapter.close()
    assert answer.sequence == 1


async def test_no_server_at_all_is_tried_again(make_attempt):
    adapter = NatsAdapter(NatsOptions(("nats://127.0.0.1:1",)))
    with pytest.raises(Retry, match=r"127\.0\.0\.1:1"):
        await adapter.perform(EventPublish(subject="orders.placed"), make_attempt(grant=GRANT))
    await adapter.close()


async def test_a_server_without_streams_is_tried_again(tmp_path, make_attempt):
    with NatsServer(tmp_path, jetstream=False) as server:
        adapter = NatsAdapter(NatsOptions((server.url,)))
        with pytest.raises(Retry, match="JetStream"):
            await adapter.perform(EventPublish(subject="orders.placed"), make_attempt(grant=GRANT))
        await adapter.close()


async def test_the_password_comes_from_the_secrets_and_stays_there(tmp_path, make_attempt):
    with NatsServer(tmp_path, user="shop", password="hunter22") as server:
        await add_stream(server, user="shop", password="hunter22")
        adapter = NatsAdapter(NatsOptions((server.url,), "shop", "${secret:nats}"))
        params = EventPublish(subject="orders.placed")
        with pytest.raises(Retry, match="authorization") as refused:
            await adapter.perform(params, make_attempt(grant=GRANT, secrets={"nats": "wrong-password"}))
        assert "wrong-password" not in str(refused.value)
        answer = await adapter.perform(params, make_attempt(grant=GRANT, secrets={"nats": "hunter22"}))
        await adapter.close()
        assert answer.sequence == 1
        assert "hunter22" not in repr(adapter.__dict__)


async def test_what_the_server_forbids_fails(tmp_path, make_attempt):
    login = {"user": "shop", "password": "hunter22"}
    with NatsServer(tmp_path, **login, may_publish=["orders.>", "$JS.API.>"]) as server:
        await add_stream(server, **login)
        adapter = NatsAdapter(NatsOptions((server.url,), **login))
        with pytest.raises(Failed, match="does not let") as refused:
            await adapter.perform(
                EventPublish(subject="nobody.hears"), make_attempt(grant=GRANT, timeout_s=2.0)
            )
        await adapter.close()
    assert refused.value.code == "effects.publish_forbidden"


async def test_a_message_longer_than_the_server_takes_fails(tmp_path, make_attempt):
    with NatsServer(tmp_path, payload_max=1_000) as server:
        await add_stream(server)
        adapter = NatsAdapter(NatsOptions((server.url,)))
        with pytest.raises(Failed, match="max_payload") as refused:
            await adapter.perform(
                EventPublish(subject="orders.placed", payload=bytes(2_000)), make_attempt(grant=GRANT)
            )
        await adapter.close()
    assert refused.value.code == "effects.publish_size"


@pytest.mark.parametrize(
    "headers", [{"A\r\nB": "1"}, {"A": "1\r\nB: 2"}, {"A:B": "1"}, {"": "1"}, {"A": " 1"}]
)
async def test_headers_that_would_break_the_protocol_are_refused(publish, headers):
    with pytest.raises(Failed) as refused:
        await publish(headers=headers)
    assert refused.value.code == "effects.publish_headers"


@pytest.mark.parametrize(
    "subject",
    ["", ".", "orders.", ".orders", "orders..a", "orders.*", "orders.>", "orders a", "orders.a\r\nPUB x",
     "$JS.API.STREAM.DELETE.ORDERS", "$SYS.REQ", "_INBOX.x"],
)  # fmt: skip
def test_a_subject_that_is_none_or_the_servers_own_is_refused(subject, make_attempt):
    with pytest.raises(Failed) as refused:
        check_subject(subject, make_attempt(grant={"name": "g", "allow": {"subject": ["*"]}}))
    assert refused.value.code == "effects.publish_subject"


@pytest.mark.parametrize("grant", [None, {"name": "g"}, {"name": "g", "allow": {"subject": ["payments.*"]}}])
async def test_a_subject_the_grant_does_not_list_is_refused(publish, grant):
    with pytest.raises(Failed) as refused:
        await publish(grant=grant)
    assert refused.value.code == "effects.not_granted"


def test_options_come_from_the_environment():
    found = NatsOptions.from_environment({
        "CELLULE_NATS_SERVERS": "nats://a:4222, tls://b", "CELLULE_NATS_USER": "u",
        "CELLULE_NATS_PASSWORD": "${secret:nats}",
    })  # fmt: skip
    assert found == NatsOptions(("nats://a:4222", "tls://b"), "u", "${secret:nats}")
    assert NatsOptions.from_environment({}) is None
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    "servers", [(), ("http://a",), ("a:4222",), ("nats://",), ("nats://a:99999",), ("nats://u:p@a",)]
)
def test_addresses_that_are_none_are_refused_without_showing_credentials(servers):
    with pytest.raises(Rejected) as refused:
        NatsOptions(servers)
    assert refused.value.code == "effects.nats_servers"
    assert "u:p" not in str(refused.value)


def test_without_the_package_the_error_says_what_to_install():
    script = """
import sys
sys.modules["nats"] = sys.modules["nats.aio"] = sys.modules["nats.aio.client"] = None
from cellule.effects.publish.adapter import NatsAdapter
from cellule.effects.publish.options import NatsOptions
try:
    NatsAdapter(NatsOptions(("nats://a",)))
except Exception as error:
    print(error.code, error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("effects.nats_missing")
    assert 'pip install "cellule[nats]"' in done.stdout
