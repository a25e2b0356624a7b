"""Redirects: followed as often as asked, checked like the first request, carrying nothing personal away."""

from __future__ import annotations

import pytest

from cellule.effects.http import HttpRequest
from cellule.effects.outcomes import Failed

PRIVATE = {"private": True, "hosts": None, "methods": None}
TOKEN = "sk_live/12345+x"


async def test_redirects_are_followed_as_often_as_asked(server, http, make_attempt):
    server.redirect("/1", "/2")
    server.redirect("/2", "3?x=1#part")
    server.answer("/3", 200, b"end")
    adapter = http()
    got = await adapter.perform(
        HttpRequest(url=server.url("/1"), follow_redirects=2), make_attempt(grant=PRIVATE)
    )
    assert (got.status, got.body, got.url) == (200, b"end", server.url("/3?x=1"))
    with pytest.raises(Failed, match="more than 1 redirects") as caught:
        await adapter.perform(
            HttpRequest(url=server.url("/1"), follow_redirects=1), make_attempt(grant=PRIVATE)
        )
    assert caught.value.code == "effects.http_redirect"


@pytest.mark.parametrize("path", ["/v1/%2e%2e/admin", "/v1/..%2fadmin", "/v1/..;/admin"])
async def test_a_redirect_with_dots_that_a_server_resolves_is_not_followed(server, http, make_attempt, path):
    """The grant's pattern fitted the text, and the server went where the dots led."""
    server.redirect("/v1/a", path)
    grant = {**PRIVATE, "name": "shop", "allow": {"url": [server.url("/v1/*")]}}
    with pytest.raises(Failed, match=r"its path holds \. or \.\. as a part"):
        await http().perform(
            HttpRequest(url=server.url("/v1/a"), follow_redirects=5), make_attempt(grant=grant)
        )
    assert [path for _, path, _, _ in server.requests] == ["/v1/a"]


async def test_a_redirect_goes_where_the_grant_names_urls_and_nowhere_else(server, http, make_attempt):
    """The beat checked the first URL only: a grant of one path led to any other by a redirect."""
    server.redirect("/v1/a", "/v1/b")
    server.redirect("/v1/b", "/admin")
    server.answer("/admin", 200, b"secret")
    grant = {**PRIVATE, "name": "shop", "allow": {"url": [server.url("/v1/*")]}}
    with pytest.raises(Failed, match=r"does not allow the url .*/admin") as caught:
        await http().perform(
            HttpRequest(url=server.url("/v1/a"), follow_redirects=5), make_attempt(grant=grant)
        )
    assert caught.value.code == "effects.not_granted"
    assert [path for _, path, _, _ in server.requests] == ["/v1/a", "/v1/b"]


@pytest.mark.parametrize(
    ("status", "method", "then", "body"),
    [
        (301, "POST", "GET", b""),
        (302, "POST", "GET", b""),
        (303, "PUT", "GET", b""),
        (307, "POST", "POST", b"data"),
        (308, "PUT", "PUT", b"data"),
        (302, "PUT", "PUT", b"data"),
    ],
)
async def test_a_redirect_keeps_or_drops_method_and_body_by_its_status(
    server, http, make_attempt, status, method, then, body
):
    server.redirect("/1", "/2", status)
    server.answer("/2")
    await http().perform(
        HttpRequest(url=server.url("/1"), method=method, text="data", follow_redirects=1),
        make_attempt(grant=PRIVATE),
    )
    sent = server.requests[1]
    assert (sent[0], sent[3], "content-type" in sent[2]) == (then, body, bool(body))


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://169.254.169.254/latest/meta-data", "effects.http_host"),
        ("http://evil.test/", "effects.http_host"),
        ("//evil.test/", "effects.http_host"),
        ("http://shop.test@evil.test/", "effects.http_url"),
        ("http://2130706433/", "effects.http_url"),
        ("file:///etc/passwd", "effects.http_url"),
        ("gopher://shop.test/", "effects.http_url"),
        ("http://[::1", "effects.http_redirect"),
        ("http://shop.test\\@evil.test/", "effects.http_url"),
        ("http://ok.test:{port}/", "effects.http_address"),
        ("http://rebound.test:{port}/", "effects.http_address"),
    ],
)
async def test_a_redirect_leads_nowhere_that_the_grant_does_not(
    serve, http, make_attempt, location, code, names
):
    """The first hop is on this machine, so its address counts as public here; the redirect's do not."""
    server, inside = await serve(), await serve()
    server.redirect("/", location.format(port=inside.port), 307)
    resolver = names(**{"shop.test": ["127.0.0.1"], "ok.test": ["10.0.0.1"], "rebound.test": ["127.0.0.1"]})
    adapter = http(resolver=resolver)
    grant = {"hosts": ["shop.test:*", "ok.test:*", "rebound.test:*"], "methods": None}
    backend = adapter._transport(make_attempt(grant=grant))._pool._network_backend
    check = backend._addresses

    async def first_is_public(host, port):
        return ["127.0.0.1"] if host == "shop.test" else await check(host, port)

    backend._addresses = first_is_public
    with pytest.raises(Failed) as caught:
        await adapter.perform(
            HttpRequest(url=server.url(host="shop.test"), method="POST", follow_redirects=5),
            make_attempt(grant=grant),
        )
    assert caught.value.code == code
    assert len(server.requests) == 1
    assert inside.connections == 0


async def test_a_redirect_to_another_host_carries_nothing_personal(serve, http, make_attempt, names):
    server, other = await serve(), await serve()
    server.redirect("/", other.url("/", "other.test"), 307)
    other.redirect("/", server.url("/back", "shop.test"), 307)
    server.answer("/back")
    attempt = make_attempt(grant=PRIVATE, secrets={"stripe": TOKEN})
    headers = {"Authorization": "Basic abc", "Cookie": "a=b", "X-Token": "${secret:stripe}", "X-Plain": "1"}
    await http(resolver=names(**{"shop.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]})).perform(
        HttpRequest(url=server.url(host="shop.test"), headers=headers, follow_redirects=2), attempt
    )
    assert server.requests[0][2]["x-token"] == TOKEN
    for _, _, sent, _ in (other.requests[0], server.requests[1]):
        assert sent["x-plain"] == "1"
        assert not {"authorization", "cookie", "x-token"} & set(sent)


async def test_a_body_with_secrets_is_not_carried_to_another_host(serve, http, make_attempt):
    server, other = await serve(), await serve()
    server.redirect("/", other.url(), 307)
    with pytest.raises(Failed, match="body with secrets") as caught:
        await http().perform(
            HttpRequest(
                url=server.url(),
                method="POST",
                text="${secret:stripe}",
                body_secrets=True,
                follow_redirects=1,
            ),
            make_attempt(grant=PRIVATE, secrets={"stripe": TOKEN}),
        )
    assert caught.value.code == "effects.http_redirect"
    assert other.connections == 0
