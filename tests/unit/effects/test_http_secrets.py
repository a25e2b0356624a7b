"""Secrets in requests: filled in where the author writes, and in nothing that comes back."""

from __future__ import annotations

import base64
import json

import pytest

from cellule.effects.http import HttpRequest
from cellule.effects.outcomes import Failed, Retry

PRIVATE = {"private": True, "hosts": None, "methods": None}
TOKEN = "sk_live/12345+x"


async def test_secrets_are_filled_in_where_the_author_writes(server, http, make_attempt):
    server.answer("/hook/T1/" + TOKEN)
    attempt = make_attempt(grant=PRIVATE, secrets={"stripe": TOKEN})
    got = await http().perform(
        HttpRequest(
            url=server.url("/hook/T1/${secret:stripe}"),
            method="POST",
            headers={"Authorization": "Bearer ${secret:stripe}"},
            query={"key": "${secret:stripe}"},
            text="a stranger wrote ${secret:stripe}",
        ),
        attempt,
    )
    _, path, headers, body = server.requests[0]
    assert path == f"/hook/T1/{TOKEN}?key=sk_live%2F12345%2Bx"
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert body == b"a stranger wrote ${secret:stripe}"
    assert got.url == server.url("/hook/T1/${secret:stripe}?key=%24%7Bsecret%3Astripe%7D")


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"text": "t=${secret:stripe}"}, f"t={TOKEN}".encode()),
        (
            {"json": {"t": {"$secret": "stripe"}, "u": ["${secret:stripe}"]}},
            json.dumps({"t": TOKEN, "u": [TOKEN]}, separators=(",", ":")).encode(),
        ),
        ({"form": {"t": "${secret:stripe}"}}, b"t=sk_live%2F12345%2Bx"),
    ],
)
async def test_secrets_in_a_body_are_filled_in_when_asked(server, http, make_attempt, given, sent):
    server.answer("/")
    attempt = make_attempt(grant=PRIVATE, secrets={"stripe": TOKEN})
    await http().perform(HttpRequest(url=server.url(), method="POST", body_secrets=True, **given), attempt)
    assert server.requests[0][3] == sent


async def test_an_unknown_secret_fails_before_anything_is_sent(server, http, make_attempt):
    with pytest.raises(Failed) as caught:
        await http().perform(
            HttpRequest(url=server.url(), headers={"a": "${secret:none}"}), make_attempt(grant=PRIVATE)
        )
    assert caught.value.code == "effects.secret_unknown"
    assert server.connections == 0


async def test_a_secret_that_the_server_echoes_reaches_neither_receipt_nor_cas(
    server, http, make_attempt, blobs
):
    basic = base64.b64encode(f"user:{TOKEN}".encode()).decode()
    echo = f"you sent {TOKEN} and {basic} and sk_live%2f12345%2Bx ".encode()
    server.answer("/short", 200, echo, x_echo=TOKEN, set_cookie=f"t={TOKEN}")
    server.answer("/long", 200, b"-" * 40_000 + echo * 3_000)
    server.redirect("/moved", f"/short?t={TOKEN}")
    attempt = make_attempt(grant=PRIVATE, secrets={"stripe": TOKEN})
    adapter = http()
    kept = []
    for path in ("/short", "/long", "/moved"):
        got = await adapter.perform(
            HttpRequest(url=server.url(path), headers={"a": "${secret:stripe}"}, follow_redirects=1), attempt
        )
        kept += [repr(got).encode(), got.body or await blobs.get(got.blob)]
    for each in kept:
        assert TOKEN.encode() not in each
        assert b"sk_live" not in each
        assert basic[8:-4].encode() not in each
    assert b"<secret stripe>" in kept[1]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"headers": {"a": "${secret:lines}"}}, Failed),
        ({"url_end": "/${secret:lines}"}, Failed),
        ({"url_end": "/${secret:stripe}/none"}, Retry),
        ({"url_end": "/moved", "headers": {"a": "${secret:stripe}"}, "follow_redirects": 1}, Failed),
    ],
)
async def test_no_error_holds_a_secret(server, http, make_attempt, given, kind):
    attempt = make_attempt(grant=PRIVATE, secrets={"stripe": TOKEN, "lines": f"{TOKEN}\r\nx"})
    server.redirect("/moved", f"http://{TOKEN.replace('/', '.').replace('+', '@')}/")
    given = dict(given)
    with pytest.raises(kind) as caught:
        await http().perform(HttpRequest(url=server.url(given.pop("url_end", "/")), **given), attempt)
    seen, error = [], caught.value
    while error is not None:
        seen += [str(error), repr(error), repr(error.args)]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert all("12345" not in each for each in seen)
