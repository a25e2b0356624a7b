"""`http.request` against real servers on this machine: answers, retries, bodies, reach."""

from __future__ import annotations

import asyncio

import pytest

from cellule.effects.adapter import Adapter
from cellule.effects.http import HttpRequest, HttpResponse, http_request
from cellule.effects.http.adapter import HttpAdapter
from cellule.effects.outcomes import Failed, Retry
from cellule.values.cid import cid_of
from cellule.values.requests import Request
from cellule.values.schema import codec_for, derive

PRIVATE = {"private": True, "hosts": None, "methods": None}
TOKEN = "sk_live/12345+x"


def test_it_is_an_adapter_whose_types_have_schemas():
    adapter = HttpAdapter()
    assert isinstance(adapter, Adapter)
    assert adapter.limits.needs_grant
    params = codec_for(derive(adapter.params, namespace="effect.http"))
    request = HttpRequest(url="http://h/", json={"a": [1, None, {"$secret": "x"}]}, headers={"A": "b"})
    assert params.decode(params.encode(request)) == request
    receipt = codec_for(derive(adapter.receipt, namespace="effect.http"))
    response = HttpResponse(status=200, url="http://h/", body=b"x", set_cookies=["a=b"], size=1)
    assert receipt.decode(receipt.encode(response)) == response


def test_a_step_asks_for_it():
    params = HttpRequest(url="http://h/")
    assert http_request(params, key="k", slot="web") == Request("http.request", params, "web", "k")


async def test_an_answer_becomes_a_receipt(server, http, make_attempt):
    server.answer("/a", 200, b"hello", content_type="text/plain", Set_Cookie="a=1, b", X_Two="1")
    got = await http().perform(
        HttpRequest(url=server.url("/a?x=1"), query={"q": "a b&", "r": "ü"}), make_attempt(grant=PRIVATE)
    )
    assert (got.status, got.body, got.blob, got.size) == (200, b"hello", None, 5)
    assert got.headers == {"content-type": "text/plain", "content-length": "5", "x-two": "1"}
    assert got.set_cookies == ["a=1, b"]
    assert got.url == server.url("/a?x=1&q=a+b%26&r=%C3%BC")
    method, path, headers, body = server.requests[0]
    assert (method, path, body) == ("GET", "/a?x=1&q=a+b%26&r=%C3%BC", b"")
    assert headers["host"] == f"127.0.0.1:{server.port}"
    assert headers["accept-encoding"] == "identity"
    assert "idempotency-key" not in headers


async def test_repeated_headers_are_joined_and_cookies_are_kept_apart(server, http, make_attempt):
    server.answers["/"] = (
        b"HTTP/1.1 204 X\r\nVary: a\r\nvary: b\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n"
    )
    got = await http().perform(HttpRequest(url=server.url()), make_attempt(grant=PRIVATE))
    assert (got.status, got.headers, got.set_cookies) == (204, {"vary": "a, b"}, ["a=1", "b=2"])


async def test_cookies_and_connections_of_one_request_do_not_reach_the_next(server, http, make_attempt):
    server.answer("/", 200, b"", set_cookie="session=1")
    adapter = http()
    for _ in range(2):
        await adapter.perform(HttpRequest(url=server.url()), make_attempt(grant=PRIVATE))
    assert server.connections == 1
    assert "cookie" not in server.requests[1][2]


@pytest.mark.parametrize(
    ("given", "sent", "kind"),
    [
        ({"body": b"\x00\x01"}, b"\x00\x01", "application/octet-stream"),
        ({"text": "ü"}, "ü".encode(), "text/plain; charset=utf-8"),
        ({"json": {"a": [1, 2.5, None]}}, b'{"a":[1,2.5,null]}', "application/json"),
        ({"form": {"a": "b c"}}, b"a=b+c", "application/x-www-form-urlencoded"),
        ({"json": {}, "headers": {"Content-Type": "application/x+json"}}, b"{}", "application/x+json"),
        ({}, b"", None),
    ],
)
async def test_bodies_are_sent_with_their_kind(server, http, make_attempt, given, sent, kind):
    server.answer("/", 201)
    await http().perform(HttpRequest(url=server.url(), method="POST", **given), make_attempt(grant=PRIVATE))
    method, _, headers, body = server.requests[0]
    assert (method, body, headers.get("content-type")) == ("POST", sent, kind)


async def test_a_blob_is_sent_from_the_cas(server, http, make_attempt, blobs):
    server.answer("/")
    cid = await blobs.put(b"x" * 100_000)
    await http().perform(HttpRequest(url=server.url(), method="PUT", blob=cid), make_attempt(grant=PRIVATE))
    assert server.requests[0][3] == b"x" * 100_000


async def test_a_blob_that_is_not_there_fails(server, http, make_attempt):
    with pytest.raises(Failed, match="its blob cannot be read") as caught:
        await http().perform(
            HttpRequest(url=server.url(), method="PUT", blob=cid_of(b"none", "raw")),
            make_attempt(grant=PRIVATE),
        )
    assert caught.value.code == "effects.http_params"


async def test_every_attempt_sends_the_same_idempotency_key(server, http, make_attempt):
    server.answer("/", 503)
    adapter = http()
    for number in (1, 2):
        with pytest.raises(Retry):
            await adapter.perform(
                HttpRequest(url=server.url(), method="POST"),
                make_attempt(grant=PRIVATE, number=number, key="k-7"),
            )
    assert [headers["idempotency-key"] for _, _, headers, _ in server.requests] == ["k-7", "k-7"]


@pytest.mark.parametrize("status", [200, 301, 304, 400, 401, 404, 408, 409, 500, 501])
async def test_these_answers_are_for_the_cell_to_judge(server, http, make_attempt, status):
    server.answers["/"] = f"HTTP/1.1 {status} X\r\nlocation: /next\r\ncontent-length: 0\r\n\r\n".encode()
    got = await http().perform(HttpRequest(url=server.url()), make_attempt(grant=PRIVATE))
    assert got.status == status


class At:
    """A clock that stands still."""

    def now_ns(self):
        return 1_700_000_000_000_000_000

    def monotonic_ns(self):
        return 0


@pytest.mark.parametrize("status", [429, 502, 503, 504])
@pytest.mark.parametrize(
    ("asked", "after_s"),
    [
        ("7", 7.0),
        ("999999999", 3_600.0),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0),
        ("Tue, 14 Nov 2000 22:13:50 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
async def test_these_answers_mean_another_attempt_when_the_server_says(
    server, http, make_attempt, status, asked, after_s
):
    server.answer("/", status, b"later", retry_after=asked)
    with pytest.raises(Retry, match=f"answered {status}") as caught:
        await http(clock=At()).perform(HttpRequest(url=server.url()), make_attempt(grant=PRIVATE))
    assert caught.value.after_s == after_s


async def test_what_happens_on_the_way_means_another_attempt(server, http, make_attempt, unused_port, names):
    adapter = http(resolver=names())
    server.answers["/half"] = b"HTTP/1.1 200 X\r\ncontent-length: 10\r\n\r\nhalf"
    server.answers["/junk"] = b"junk\r\n\r\n"
    cut = asyncio.create_task(
        adapter.perform(HttpRequest(url=server.url("/none")), make_attempt(grant=PRIVATE))
    )
    with pytest.raises(Retry, match="on its way"):
        await cut
    for url in (f"http://127.0.0.1:{unused_port}/", server.url("/junk")):
        with pytest.raises(Retry, match="on its way"):
            await adapter.perform(HttpRequest(url=url), make_attempt(grant=PRIVATE))
    with pytest.raises(Retry, match=r"nowhere\.test could not be resolved"):
        await adapter.perform(HttpRequest(url="http://nowhere.test/"), make_attempt(grant=PRIVATE))
    with pytest.raises(Retry, match="ReadTimeout"):
        await adapter.perform(
            HttpRequest(url=server.url("/half")), make_attempt(grant=PRIVATE, timeout_s=0.05)
        )


async def test_a_cancelled_attempt_ends_at_once_and_the_adapter_goes_on(server, http, make_attempt):
    asked, hold = asyncio.Event(), asyncio.Event()

    async def slow(reader, writer):
        asked.set()
        await hold.wait()
        writer.close()

    listening = await asyncio.start_server(slow, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    adapter = http()
    running = asyncio.create_task(
        adapter.perform(HttpRequest(url=f"http://127.0.0.1:{port}/"), make_attempt(grant=PRIVATE))
    )
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    hold.set()
    listening.close()
    server.answer("/")
    assert (await adapter.perform(HttpRequest(url=server.url()), make_attempt(grant=PRIVATE))).status == 200


@pytest.mark.parametrize(("size", "inline"), [(0, True), (32_000, True), (32_001, False), (3_000_000, False)])
async def test_a_long_body_goes_to_the_cas(server, http, make_attempt, blobs, size, inline):
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    server.answer("/", 200, body)
    got = await http().perform(HttpRequest(url=server.url()), make_attempt(grant=PRIVATE))
    assert got.size == size
    assert (got.body is not None, got.blob is None) == (inline, inline)
    assert (got.body if inline else await blobs.get(got.blob)) == body


async def test_a_body_over_the_limit_fails_whether_its_length_was_stated_or_not(server, http, make_attempt):
    server.answer("/stated", 200, b"x" * 50_000)
    chunk = b"7d00\r\n" + b"x" * 32_000 + b"\r\n"
    server.answers["/chunked"] = (
        b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n" + chunk * 3 + b"0\r\n\r\n"
    )
    adapter = http()
    for path in ("/stated", "/chunked"):
        with pytest.raises(Failed, match="more than 40000 bytes") as caught:
            await adapter.perform(
                HttpRequest(url=server.url(path), body_max=40_000), make_attempt(grant=PRIVATE)
            )
        assert caught.value.code == "effects.http_body"
    got = await adapter.perform(HttpRequest(url=server.url("/chunked")), make_attempt(grant=PRIVATE))
    assert got.size == 96_000


async def test_the_answer_to_head_states_a_length_and_has_no_body(server, http, make_attempt):
    server.answers["/"] = b"HTTP/1.1 200 X\r\ncontent-length: 999999999999\r\n\r\n"
    got = await http().perform(HttpRequest(url=server.url(), method="HEAD"), make_attempt(grant=PRIVATE))
    assert (got.body, got.size, got.headers["content-length"]) == (b"", 0, "999999999999")


async def test_a_compressed_body_is_kept_as_it_was_sent(server, http, make_attempt):
    server.answer("/", 200, b"\x1f\x8bnot unpacked", content_encoding="gzip")
    got = await http().perform(HttpRequest(url=server.url()), make_attempt(grant=PRIVATE))
    assert (got.body, got.headers["content-encoding"]) == (b"\x1f\x8bnot unpacked", "gzip")


@pytest.mark.parametrize("query", ["account=b", "x=1&account=b", "%61ccount=b", "account"])
async def test_a_parameter_of_the_query_is_given_once(server, http, make_attempt, query):
    """A grant that pinned `query.account` saw one, and the URL sent another beside it."""
    given = HttpRequest(url=server.url(f"/?{query}"), query={"account": "a"})
    with pytest.raises(Failed, match="the URL and query both give 'account'") as caught:
        await http().perform(given, make_attempt(grant=PRIVATE))
    assert caught.value.code == "effects.http_params"
    assert server.connections == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "BREW"}, "method 'BREW'"),
        ({"method": "CONNECT"}, "method 'CONNECT'"),
        ({"method": "delete"}, "method 'delete'"),  # a rule that denies DELETE has seen another method
        ({"headers": {"IDEMPOTENCY-KEY": "own"}}, "give it as key=..."),
        ({"headers": {"Authorization": "a", "authorization": "b"}}, "given twice, in different cases"),
        ({"follow_redirects": 11}, "follow_redirects"),
        ({"follow_redirects": -1}, "follow_redirects"),
        ({"body_max": -1}, "body_max"),
        ({"text": "a", "json": 1}, "json and text are given"),
        ({"headers": {"Host": "evil.com"}}, "header host"),
        ({"headers": {"Content-Length": "5"}}, "header content-length"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "header transfer-encoding"),
        ({"headers": {"a b": "x"}}, "cannot name a header"),
        ({"headers": {"": "x"}}, "cannot name a header"),
        ({"headers": {"x": "a\r\nHost: evil"}}, "control characters"),
        ({"headers": {"x": "a\nb"}}, "control characters"),
        ({"headers": {"x-mode": " live"}}, "begins or ends with a space"),  # a rule has seen another value
        ({"headers": {"x-mode": "live\t"}}, "begins or ends with a space"),
        ({"json": {"x": object()}}, "JSON"),
    ],
)
async def test_params_that_cannot_be_sent_fail_and_nothing_is_sent(server, http, make_attempt, given, said):
    with pytest.raises(Failed, match=said) as caught:
        await http().perform(HttpRequest(url=server.url(), **given), make_attempt(grant=PRIVATE))
    assert caught.value.code == "effects.http_params"
    assert server.connections == 0


async def test_without_a_grant_for_private_addresses_this_machine_is_out_of_reach(
    server, http, make_attempt, names
):
    adapter = http(resolver=names(**{"inside.test": ["127.0.0.1"], "mapped.test": ["::ffff:127.0.0.1"]}))
    server.answer("/")
    for grant in (None, {"hosts": None, "private": False}, {"hosts": ["*:*"]}):
        for host in ("127.0.0.1", "inside.test", "mapped.test", "[::1]", "[::ffff:127.0.0.1]"):
            with pytest.raises(Failed) as caught:
                await adapter.perform(HttpRequest(url=server.url(host=host)), make_attempt(grant=grant))
            assert caught.value.code == "effects.http_address"
    assert server.connections == 0


async def test_a_connection_made_by_a_private_grant_is_not_used_without_it(server, http, make_attempt):
    adapter = http()
    server.answer("/")
    await adapter.perform(HttpRequest(url=server.url()), make_attempt(grant=PRIVATE))
    with pytest.raises(Failed):
        await adapter.perform(HttpRequest(url=server.url()), make_attempt(grant={"hosts": None}))
    assert len(server.requests) == 1


async def test_a_name_is_resolved_once_and_sent_as_host(server, http, make_attempt, names):
    resolver = names(**{"shop.test": ["127.0.0.1"]})
    server.answer("/")
    grant = {"hosts": [f"shop.test:{server.port}"], "private": True}
    await http(resolver=resolver).perform(
        HttpRequest(url=server.url(host="SHOP.test.")), make_attempt(grant=grant)
    )
    assert resolver.asked == ["shop.test"]
    assert server.requests[0][2]["host"] == f"shop.test:{server.port}"


async def test_hosts_and_methods_are_those_of_the_grant(server, http, make_attempt):
    adapter = http()
    for grant, code in (
        ({"hosts": ["api.acme.com"], "private": True}, "effects.http_host"),
        ({"hosts": ["127.0.0.1"], "private": True}, "effects.http_host"),
        ({"hosts": ["127.0.0.1:*"], "methods": ["POST"], "private": True}, "effects.http_method"),
    ):
        with pytest.raises(Failed) as caught:
            await adapter.perform(HttpRequest(url=server.url()), make_attempt(grant=grant))
        assert caught.value.code == code
    assert server.connections == 0


async def test_proxies_of_the_environment_are_not_used(server, http, make_attempt, monkeypatch, unused_port):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{unused_port}")
    server.answer("/")
    got = await http().perform(HttpRequest(url=server.url()), make_attempt(grant=PRIVATE))
    assert got.status == 200


async def test_a_key_that_is_no_ascii_is_encoded_and_a_header_that_is_none_is_refused(
    server, http, make_attempt
):
    """Both were a raw UnicodeEncodeError, tried again and again."""
    server.answer("/", 200, b"")
    asked = HttpRequest(url=server.url(), method="POST")
    await http().perform(asked, make_attempt(key="order-\u00e9", grant=PRIVATE))
    assert server.requests[0][2]["idempotency-key"] == "utf-8''order-%C3%A9"
    named = HttpRequest(url=server.url(), headers={"X-Name": "Jos\u00e9"})
    with pytest.raises(Failed, match="the header x-name is not ASCII") as caught:
        await http().perform(named, make_attempt(grant=PRIVATE))
    assert caught.value.code == "effects.http_params"
    assert len(server.requests) == 1
