"""Hosts: one reading of URLs and of the patterns in grants."""

from __future__ import annotations

import pytest

from cellule.values.hosts import BadHost, Host, host_fits, host_of, host_pattern, split_url


@pytest.mark.parametrize(
    ("host", "pattern", "fits"),
    [
        (Host("a.b", 80, 80), "a.b", True),
        (Host("a.b", 81, 80), "a.b", False),
        (Host("a.b", 81, 80), "a.b:80", False),
        (Host("a.b", 81, 80), "a.b:81", True),
        (Host("a.b", 81, 80), "a.b:*", True),
        (Host("a.b", 80, 80), "*", True),
        (Host("a.b", 81, 80), "*", False),
        (Host("x.a.b", 80, 80), "*.a.b", True),
        (Host("a.b", 80, 80), "*.a.b", False),
        (Host("xa.b", 80, 80), "*.a.b", False),
        (Host("::1", 80, 80), "[::1]", True),
        (Host("::1", 80, 80), "[::1]:81", False),
        (Host("a.b", None, None), "a.b", True),
    ],
)
def test_hosts_fit_patterns(host, pattern, fits):
    assert host_pattern(pattern).fits(host) is fits


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("EXAMPLE.org.", "example.org"),
        ("*.Example.org:8443", "*.example.org:8443"),
        ("[0:0::1]:*", "[::1]:*"),
        ("::1", "[::1]"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("*", "*"),
    ],
)
def test_a_pattern_has_one_spelling(text, normal):
    assert str(host_pattern(text)) == normal
    assert str(host_pattern(normal)) == normal


@pytest.mark.parametrize(
    "text",
    ["", "*.", "a.*.org", "https://a.org", "a.org/x", "a.org:0", "a.org:65536", "a.org:", "[::1]:", "[::g]",
     "[::1", "127.1", "*.0.0.1", "a b", "straße.example", "a@b"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(text):
    with pytest.raises(BadHost):
        host_pattern(text)
    assert not host_fits(Host("127.0.0.1", 80, 80), [text])


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://a.b/x", Host("a.b", 443, 443)),
        ("http://A.b.:81?x", Host("a.b", 81, 80)),
        ("nats://a.b", Host("a.b", None, None)),
        ("postgresql://me@a.b:5432/db", Host("a.b", 5432, None)),
        ("http://[::0001]/", Host("::1", 80, 80)),
    ],
)
def test_a_url_leads_to_one_host(url, host):
    assert host_of(split_url(url)) == host


@pytest.mark.parametrize(
    "url",
    [
        "a.b",
        "http://a.b\\@c.d/",
        "http://a.b@c.d/",
        "https://user:word@c.d/",
        "postgresql://me@a.b@c.d/db",
        "http://a\nb/",
        "http://a.b:99999/",
        "http://127.1/",
        "http://straße.example/",
    ],
)
def test_a_url_that_others_might_read_differently_leads_nowhere(url):
    with pytest.raises(BadHost):
        host_of(split_url(url))
