"""Where a request may go: URLs read in one way, hosts by grant, addresses by table."""

from __future__ import annotations

import ipaddress

import httpcore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.effects.http.addresses import address_fault
from cellule.effects.http.target import check_grant, check_no_dot_segments, split_url, target_of
from cellule.effects.http.transport import CheckedBackend
from cellule.effects.outcomes import Failed, Retry


def target(url):
    return target_of(split_url(url))


@pytest.mark.parametrize(
    ("url", "origin", "path"),
    [
        ("https://api.acme.com", "https://api.acme.com", "/"),
        ("HTTPS://API.Acme.COM:443/A?b=c#d", "https://api.acme.com", "/A?b=c"),
        ("http://api.acme.com:8080?x=1", "http://api.acme.com:8080", "/?x=1"),
        ("http://api.acme.com./x", "http://api.acme.com", "/x"),
        ("http://93.184.216.34/", "http://93.184.216.34", "/"),
        ("http://[2606:2800:0220::1]:81/", "http://[2606:2800:220::1]:81", "/"),
        ("http://bücher.example/ü?ü", "http://xn--bcher-kva.example", "/%C3%BC?%C3%BC"),
        ("http://a。b/", "http://a.b", "/"),
        ("http://host/@evil.com//x", "http://host", "/@evil.com//x"),
        ("http://host?@evil.com", "http://host", "/?@evil.com"),
        ("http://host#@evil.com", "http://host", "/"),
        ("http://host//evil.com/", "http://host", "//evil.com/"),
        ("http://my_service/", "http://my_service", "/"),
    ],
)
def test_a_url_is_read_in_one_way(url, origin, path):
    read = target(url)
    assert (read.origin, read.path) == (origin, path)
    assert str(read.url) == origin + path


@pytest.mark.parametrize(
    "url",
    [
        "", "api.acme.com", "//api.acme.com/", "ftp://api.acme.com/", "file:///etc/passwd", "gopher://x/",
        "http:/api.acme.com", "http:api.acme.com", "http://", "http:///x", "http://:80/",
        "http://user@host/", "http://user:pass@host/", "http://api.acme.com@evil.com/", "http://@host/",
        "http://api.acme.com\\@evil.com/", "http://api.acme.com\\.evil.com/", "http://a b/", "http://a\tb/",
        "http://a\r\nhost: x/", " http://host/", "http://host/a b", "http://host/\x00",
        "http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/",
        "http://127.0.0.01/", "http://127.0.0.1.1/", "http://1/", "http://127.0.0.0x1/", "http://256.0.0.1/",
        "http://\uff11\uff12\uff17.0.0.1/", "http://[::1/", "http://[::1]x/", "http://[fe80::1%25eth0]/", "http://[::g]/",
        "http://[1.2.3.4]/", "http://host:0/", "http://host:65536/", "http://host:0x50/", "http://host:-1/",
        "http://a..b/", "http://.a/", "http://a../", "http://-a/", "http://a-/", "http://" + "a" * 64 + "/",
        "http://" + "a." * 127 + "com/", "http://exa%6dple.com/", "http://${secret:host}/", "http://ho$t/",
        "http://host/" + "a" * 8_192, "http://ⓔxample.com/", "http://a*b/", "http://*/",
    ],
)  # fmt: skip
def test_a_doubtful_url_is_refused(url):
    with pytest.raises(Failed) as caught:
        target(url)
    assert caught.value.code == "effects.http_url"


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("aA0.x7f:/@\\[]%#?-_ é$"), max_size=20))
def test_a_url_that_passes_goes_to_the_host_that_was_checked(rest):
    try:
        read = target("http://" + rest)
    except Failed:
        return
    assert read.url.raw_host.decode() == read.host.name
    assert not read.url.userinfo
    assert (read.url.port or 80) == read.host.port
    assert target(str(read.url)) == read


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("api.acme.com", "https://api.acme.com/"),
        ("api.acme.com", "http://api.acme.com/"),
        ("API.acme.com.", "https://api.acme.com./"),
        ("*.acme.com", "https://a.acme.com/"),
        ("*.acme.com", "https://a.b.acme.com/"),
        ("*.acme.com:8080", "https://a.acme.com:8080/"),
        ("api.acme.com:8080", "http://api.acme.com:8080/"),
        ("api.acme.com:443", "https://api.acme.com/"),
        ("api.acme.com:*", "http://api.acme.com:1234/"),
        ("bücher.example", "http://xn--bcher-kva.example/"),
        ("*.bücher.example", "http://a.xn--bcher-kva.example/"),
        ("127.0.0.1:80", "http://127.0.0.1/"),
        ("[::1]:8080", "http://[0:0::1]:8080/"),
        ("::1", "http://[::1]/"),
        ("*", "http://anything/"),
    ],
)
def test_a_grant_allows_what_its_pattern_says(pattern, url):
    check_grant(target(url), "GET", {"hosts": ["other.com", pattern]})


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("api.acme.com", "https://api.acme.com:8443/"),
        ("api.acme.com", "https://evil.com/"),
        ("api.acme.com", "https://api.acme.com.evil.com/"),
        ("api.acme.com", "https://xapi.acme.com/"),
        ("api.acme.com", "https://evil.com/api.acme.com"),
        ("api.acme.com:443", "http://api.acme.com/"),
        ("api.acme.com:8080", "http://api.acme.com/"),
        ("*.acme.com", "https://acme.com/"),
        ("*.acme.com", "https://evilacme.com/"),
        ("*.acme.com", "https://a.acme.com:8443/"),
        ("*.0.0.1", "http://127.0.0.1/"),
        ("*", "http://anything:8080/"),
    ],
)
def test_a_grant_allows_nothing_else(pattern, url):
    with pytest.raises(Failed, match="does not allow the host") as caught:
        check_grant(target(url), "GET", {"hosts": [pattern]})
    assert caught.value.code == "effects.http_host"


def test_a_grant_without_hosts_allows_all_and_one_with_none_allows_none():
    check_grant(target("http://a.com"), "GET", None)
    check_grant(target("http://a.com"), "GET", {"hosts": None, "methods": None})
    with pytest.raises(Failed):
        check_grant(target("http://a.com"), "GET", {"hosts": []})


def test_a_grant_names_methods():
    check_grant(target("http://a.com"), "POST", {"methods": ["get", "Post"]})
    with pytest.raises(Failed, match="DELETE") as caught:
        check_grant(target("http://a.com"), "DELETE", {"methods": ["get", "Post"]})
    assert caught.value.code == "effects.http_method"


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "93.184.216.34",
        "172.32.0.1",
        "100.128.0.1",
        "2606:2800:220::1",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
    ],
)
def test_public_addresses_pass(address):
    assert address_fault(address, private=False) == ""


PRIVATE = [
    "10.0.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255",
    "192.168.1.1", "100.64.0.1", "192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1",
    "203.0.113.1",
    "::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "2001::1", "2001:db8::1",
    "2002:7f00:1::", "3fff::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "64:ff9b::7f00:1",
    "64:ff9b:1::1", "::7f00:1", "100::1", "4000::1",
]  # fmt: skip
NEVER = [
    "0.0.0.0",
    "0.1.2.3",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "ff02::1",
    "::ffff:0.0.0.0",
]


@pytest.mark.parametrize(
    "rest",
    ["/..", "/a/../b", "/./a", "/a/.", "/%2e%2E/a", "/a/.%2e?x", "/v1/..", "/a/%2e", "/a/..%2fb", "/a%2F../b",
     "/a/..%5Cb", "/a/..;/b", "/a/..%3bx/b", "/a%5c..%5cb"],
)  # fmt: skip
def test_a_path_with_dots_is_refused_since_a_pattern_would_be_read_before_it(rest):
    with pytest.raises(Failed) as caught:
        check_no_dot_segments(split_url("http://host" + rest).rest)
    assert caught.value.code == "effects.http_url"


@pytest.mark.parametrize(
    "rest", ["/a..b", "/...", "/.well-known/x", "/a?b=/../c", "", "/a.", "/a%2fb", "/a;..", "/a?b=..%2f"]
)
def test_other_dots_are_left_alone(rest):
    check_no_dot_segments(split_url("http://host" + rest).rest)


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public_need_a_grant(address):
    assert address_fault(address, private=False)
    assert address_fault(address, private=True) == ""


@pytest.mark.parametrize("address", NEVER)
def test_addresses_of_nobody_are_never_connected_to(address):
    assert address_fault(address, private=False)
    assert address_fault(address, private=True)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_passes_is_public_to_python_as_well(address):
    if address_fault(str(address), private=False) == "":
        carried = getattr(address, "ipv4_mapped", None) or address
        if carried in ipaddress.ip_network("64:ff9b::/96"):
            carried = ipaddress.IPv4Address(int(carried) & 0xFFFF_FFFF)
        assert carried.is_global
        assert not carried.is_multicast


class Recording:
    """The network below: takes note of what it is asked to connect to, and reaches nothing."""

    def __init__(self):
        self.asked = []

    async def connect_tcp(self, host, port, limit_s, local_address, socket_options):
        self.asked.append((host, port, limit_s))
        raise httpcore.ConnectError("not here")


def backend(*answers, private=False):
    left = list(answers)

    async def resolver(host, port):
        return left.pop(0)

    made = CheckedBackend(resolver, private=private)
    made._inner = Recording()
    return made


async def test_the_address_that_was_checked_is_the_one_connected_to_although_the_name_changes():
    rebinding = backend(["93.184.216.34"], ["127.0.0.1"])
    with pytest.raises(httpcore.ConnectError):
        await rebinding.connect_tcp("evil.com", 80, 3.0)
    assert rebinding._inner.asked == [("93.184.216.34", 80, 3.0)]
    with pytest.raises(Failed, match=r"evil.com leads to 127\.0\.0\.1, an address of this machine") as caught:
        await rebinding.connect_tcp("evil.com", 80, 3.0)
    assert caught.value.code == "effects.http_address"
    assert len(rebinding._inner.asked) == 1


async def test_one_private_address_among_public_ones_refuses_the_name():
    mixed = backend(["93.184.216.34", "2606:2800:220::1", "10.0.0.1"])
    with pytest.raises(Failed, match=r"10\.0\.0\.1"):
        await mixed.connect_tcp("evil.com", 80)
    assert mixed._inner.asked == []


async def test_all_addresses_are_tried_in_order_within_a_limit():
    many = backend([f"93.184.216.{number}" for number in range(1, 20)])
    with pytest.raises(httpcore.ConnectError):
        await many.connect_tcp("big.com", 443, 60.0)
    assert [asked[0] for asked in many._inner.asked] == [f"93.184.216.{number}" for number in range(1, 9)]
    assert many._inner.asked[0][2] == 10.0


@pytest.mark.parametrize("literal", ["127.0.0.1", "::1", "169.254.169.254"])
async def test_an_address_in_the_url_is_checked_without_the_resolver(literal):
    with pytest.raises(Failed):
        await backend().connect_tcp(literal, 80)


async def test_a_name_without_addresses_or_resolver_means_another_attempt():
    with pytest.raises(Retry, match="has no address"):
        await backend([]).connect_tcp("empty.com", 80)

    async def broken(host, port):
        raise OSError("no resolver")

    with pytest.raises(Retry, match=r"lost\.com could not be resolved"):
        await CheckedBackend(broken, private=False).connect_tcp("lost.com", 80)
