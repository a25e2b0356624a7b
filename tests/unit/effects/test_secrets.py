"""References to secrets: how they are written, resolved, and kept out of every text."""

from __future__ import annotations

import base64
import copy
import html
import io
import json
import logging
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, quote_plus, urlencode

import httpx
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cellule.effects.outcomes import Failed, Retry
from cellule.effects.secrets import Redactor, Secret, Secrets, secret
from cellule.effects.secrets.redactor import RedactingFilter, redacted_logs
from cellule.errors import Rejected, Unavailable
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Link
from cellule.values.schema import codec_for, derive

VALUE = "sk/live+9 ü\"\\'&<x>\tend"


class Params(msgspec.Struct, frozen=True):
    token: Secret
    header: str = ""
    more: tuple[str, ...] = ()


class Table:
    def __init__(self, **values):
        self.values = values

    async def get(self, name):
        return self.values.get(name)

    def how_to_add(self, name):
        return f"Write {name} down."


class Broken:
    def __init__(self, error):
        self.error = error

    async def get(self, name):
        raise self.error

    def how_to_add(self, name):
        return ""


def test_a_reference_shows_its_name_only_and_travels_as_a_record():
    assert repr(secret("stripe")) == "Secret(name='stripe')"
    assert str(secret("stripe")) == "${secret:stripe}"
    codec = codec_for(derive(Params, namespace="com.acme"))
    assert codec.to_wire(Params(secret("stripe")))["token"] == {"secret": "stripe"}
    assert codec.decode(codec.encode(Params(secret("stripe")))) == Params(secret("stripe"))


@pytest.mark.parametrize("name", ["", "Stripe", "a-b", "1a", "../x", "a/b", "x" * 65, 5, None, "ä"])
def test_a_malformed_name_is_refused(name):
    with pytest.raises(Rejected) as caught:
        secret(name)
    assert caught.value.code == "effects.secret_name"


async def test_references_are_resolved_wherever_they_stand():
    secrets = Secrets(Table(stripe="value-1", other="value-2"))
    assert await secrets.resolve(secret("stripe")) == "value-1"
    assert await secrets.resolve("a ${secret:stripe}, ${secret:other}!") == "a value-1, value-2!"
    assert await secrets.resolve({"a": [{"$secret": "stripe"}, "x"], "b": 1}) == {
        "a": ["value-1", "x"],
        "b": 1,
    }
    params = Params(secret("stripe"), "Bearer ${secret:other}", ("${secret:stripe}",))
    resolved = await secrets.resolve(params)
    assert (resolved.token, resolved.header, resolved.more) == ("value-1", "Bearer value-2", ("value-1",))


async def test_what_holds_no_reference_is_returned_as_it_is():
    secrets = Secrets(Table())
    for value in ("plain $ {text}", "$secret", 5, None, b"${secret:x}", 1.5):
        assert await secrets.resolve(value) is value
    params = Params("text", "x")
    assert await secrets.resolve(params) is params


async def test_a_value_is_not_searched_for_references_again():
    secrets = Secrets(Table(stripe="${secret:other}", other="value-2"))
    assert await secrets.resolve("${secret:stripe}") == "${secret:other}"


async def test_the_first_source_that_knows_a_name_gives_its_value():
    secrets = Secrets(Table(a="first-1"), Table(a="second", b="second-b"))
    assert (await secrets.get("a"), await secrets.get("b")) == ("first-1", "second-b")


async def test_resolved_values_never_show_in_a_repr():
    secrets = Secrets(Table(stripe="value-1"))
    resolved = await secrets.resolve(
        Params(secret("stripe"), "Bearer ${secret:stripe}", ("${secret:stripe}",))
    )
    held = [resolved, {"x": resolved.token}, [resolved.header], (resolved.token,), secrets, secrets.redactor]
    for each in held:
        assert "value-1" not in repr(each)
        assert "value-1" not in str(each)
    assert repr(resolved.token) == "<secret stripe>"
    assert repr(resolved.header) == "<Bearer ${secret:stripe}>"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(resolved.token)
    with pytest.raises(TypeError, match="not pickled"):
        copy.copy(resolved.token)


@pytest.mark.parametrize(
    ("sources", "hint"), [((Table(),), "Write stripe down."), ((), "no source of secrets")]
)
async def test_an_unknown_secret_fails_with_its_name_and_how_to_add_it(sources, hint):
    with pytest.raises(Failed, match=hint) as caught:
        await Secrets(*sources).resolve("${secret:stripe}")
    assert caught.value.code == "effects.secret_unknown"
    assert "stripe" in caught.value.text


async def test_a_malformed_name_in_a_template_fails():
    with pytest.raises(Failed) as caught:
        await Secrets(Table()).resolve("${secret:../etc/passwd}")
    assert caught.value.code == "effects.secret_name"


async def test_a_source_that_is_away_means_another_attempt():
    with pytest.raises(Retry, match="locked"):
        await Secrets(Broken(Unavailable("effects.vault_io", "locked"))).get("stripe")


@pytest.mark.parametrize("value", ["", "short", "x" * 65_537, "nul\0inside", "\ud800 half"])
async def test_a_value_that_cannot_be_kept_secret_is_not_used(value):
    with pytest.raises(Failed) as caught:
        await Secrets(Table(stripe=value)).get("stripe")
    assert caught.value.code == "effects.secret_unfit"
    assert not value or value not in caught.value.text


def _spellings(value: str) -> dict[str, str]:
    raw = value.encode()
    return {
        "as it is": value,
        "quoted": quote(value, safe=""),
        "quoted, slashes kept": quote(value),
        "quoted in lower case": quote(value, safe="").replace("%2F", "%2f").replace("%2B", "%2b"),
        "form": quote_plus(value),
        "query": urlencode({"q": value}),
        "as a URL of httpx": str(httpx.URL("http://h/", params={"q": value})),
        "json": json.dumps(value),
        "json, other letters kept": json.dumps(value, ensure_ascii=False),
        "json, slashes escaped": json.dumps(value).replace("/", "\\/"),
        "html": html.escape(value),
        "repr": repr(value),
        "repr of bytes": repr(raw),
        "hex": raw.hex(),
        "HEX": raw.hex().upper(),
        "base64": base64.b64encode(raw).decode(),
        "base64 for URLs": base64.urlsafe_b64encode(raw).decode(),
        "base64 inside": base64.b64encode(b"u:" + raw + b"tail").decode(),
        "base64 inside, shifted": base64.b64encode(b"user:" + raw).decode(),
        "base64 inside, shifted twice": base64.b64encode(b"user1:" + raw + b"x").decode(),
    }


@settings(max_examples=60, deadline=None)
@given(
    value=st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=6, max_size=40
    ).filter(lambda text: text == text.strip() and len(text.splitlines()) == 1)
)
@example(value=VALUE)
@example(value="aaaaaa")
@example(value="<secret stripe>")
def test_every_spelling_of_a_value_is_scrubbed(value):
    redactor = Redactor()
    redactor.learn("stripe", value)
    for spelling, text in _spellings(value).items():
        scrubbed = redactor.scrub_text(f"[{text}]")
        assert "<secret stripe>" in scrubbed, spelling
        assert text not in scrubbed.replace("<secret stripe>", ""), spelling
        assert redactor.scrub_bytes(f"[{text}]".encode()) == scrubbed.encode(), spelling


def test_a_longer_secret_that_begins_like_another_is_scrubbed_whole():
    redactor = Redactor()
    redactor.learn("short", "abcdef")
    redactor.learn("long", "abcdefghij")
    assert redactor.scrub_text("abcdefghij abcdef") == "<secret long> <secret short>"


def test_a_single_line_of_a_long_secret_is_scrubbed():
    redactor = Redactor()
    redactor.learn("pem", "-----BEGIN-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END-----\n")
    assert redactor.scrub_text("near MIIEvQIBADANBgkqhkiG9w0BAQEFAASC") == "near <secret pem>"
    assert redactor.scrub_text("-----END-----") == "-----END-----"


def test_records_maps_and_errors_are_scrubbed():
    redactor = Redactor()
    redactor.learn("stripe", "value-1")
    assert redactor.scrub({"value-1": {"value-1"}, 3: Params(secret("stripe"), "value-1")}) == {
        "<secret stripe>": ["<secret stripe>"],
        3: {"token": {"name": "stripe"}, "header": "<secret stripe>", "more": []},
    }
    assert redactor.scrub(ValueError("value-1")) == "<secret stripe>"
    assert redactor.scrub_error(ValueError("value-1")) == "ValueError: <secret stripe>"
    assert redactor.scrub_error(ValueError()) == "ValueError"


def test_links_and_other_bytes_stay_what_they_are():
    redactor = Redactor()
    redactor.learn("stripe", "value-1")
    link, cid = Link(cid_of(b"x", "raw")), cid_of(b"y", "raw")
    scrubbed = redactor.scrub({"link": link, "cid": cid, "text": "value-1"})
    assert scrubbed == {"link": link, "cid": cid, "text": "<secret stripe>"}
    assert (type(scrubbed["link"]), type(scrubbed["cid"])) == (Link, Cid)


def test_endless_data_is_cut():
    endless: list = []
    endless.append(endless)
    assert "..." in str(Redactor().scrub(endless))


@settings(max_examples=60, deadline=None)
@given(
    data=st.lists(st.sampled_from([b"abcdef", b"abc", b"def", b"xyzxyz", b"x", b"-"]), max_size=30),
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=60),
)
async def test_a_stream_is_scrubbed_wherever_it_is_cut(data, sizes):
    redactor = Redactor()
    redactor.learn("one", "abcdef")
    redactor.learn("two", "xyzxyz")
    whole = b"".join(data)

    async def chunks():
        at = 0
        for size in sizes:
            yield whole[at : at + size]
            at += size
        yield whole[at:]

    scrubbed = b"".join([chunk async for chunk in redactor.scrub_stream(chunks())])
    assert scrubbed == redactor.scrub_bytes(whole)


def test_logs_are_scrubbed_with_their_tracebacks(caplog):
    redactor = Redactor()
    redactor.learn("stripe", "value-1")
    caplog.handler.addFilter(RedactingFilter(redactor))
    log = logging.getLogger("cellule.test")
    try:
        raise ValueError("value-1")
    except ValueError:
        log.exception("it was %s", "value-1", stack_info=True)
    assert "it was <secret stripe>" in caplog.text
    assert "ValueError: <secret stripe>" in caplog.text
    # The traceback quotes this file's source line, which holds the value as well.
    assert "value-1" not in caplog.text


class Unreadable:
    def __str__(self):
        raise SystemExit(1)

    __repr__ = __str__


def test_what_a_log_call_gives_as_extra_is_scrubbed_too(caplog):
    """Handlers that write JSON showed it whole."""
    redactor = Redactor()
    redactor.learn("stripe", "value-1")
    caplog.handler.addFilter(RedactingFilter(redactor))
    request, pair = object(), ("a", 1)
    told = {"token": "value-1", "headers": {"a": ["value-1"]}, "cause": ValueError("value-1")}
    more = {"both": ("value-1", 1), "some": {"value-1"}, "broken": Unreadable()}
    kept = {"request": request, "pair": pair, "count": 3}
    logging.getLogger("a.library").warning("asked", extra={**told, **more, **kept})
    [record] = caplog.records
    assert (record.token, record.headers) == ("<secret stripe>", {"a": ["<secret stripe>"]})
    assert (record.cause, record.both) == ("<secret stripe>", ["<secret stripe>", 1])
    assert (record.some, record.broken) == (["<secret stripe>"], "<not shown: SystemExit>")
    assert (record.request, record.pair, record.count, record.name) == (request, pair, 3, "a.library")


def test_every_handler_that_is_there_is_scrubbed(capsys):
    """Those of an app's own loggers were not, nor the one of a program that set none up."""
    redactor, out = Redactor(), io.StringIO()
    redactor.learn("stripe", "value-1")
    handler, own = logging.StreamHandler(out), logging.getLogger("tests.shop")
    own.addHandler(handler)
    try:
        with redacted_logs(redactor):
            logging.getLogger("tests.shop.bank").warning("it is %s", "value-1")
            logging.lastResort.handle(logging.makeLogRecord({"msg": "it is value-1", "levelno": 30}))
    finally:
        own.removeHandler(handler)
    assert (out.getvalue(), capsys.readouterr().err) == ("it is <secret stripe>\n",) * 2
    assert (handler.filters, logging.lastResort.filters) == ([], [])


def test_a_log_call_whose_arguments_do_not_fit_raises_nothing(caplog):
    """The filter raised into whoever logged, any library, where logging itself only complains."""
    redactor = Redactor()
    redactor.learn("stripe", "value-1")
    caplog.handler.addFilter(RedactingFilter(redactor))
    arguments = ("value-1",)
    logging.getLogger("a.library").warning("%d of %s", *arguments)
    assert "%d of %s ('<secret stripe>',) (not formatted: " in caplog.text
    assert "value-1" not in caplog.messages[0]


def test_a_secret_is_learned_while_other_threads_scrub():
    """Blocking adapters and logs scrub on their own threads: the values they went through grew under them."""
    redactor, over = Redactor(), threading.Event()
    redactor.learn("first", "the first value")

    def scrub():
        found = set()
        while not over.is_set():
            found.add(redactor.scrub_text("it is the first value"))
        return found

    with ThreadPoolExecutor(1) as threads:
        scrubbing = threads.submit(scrub)
        for number in range(1_500):
            redactor.learn("other", f"another value {number}")
        over.set()
        assert scrubbing.result() == {"it is <secret first>"}
