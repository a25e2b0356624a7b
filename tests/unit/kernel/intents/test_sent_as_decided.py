"""What is decided upon is what is sent: manifest, beat and adapter read hosts, headers and methods alike."""

from __future__ import annotations

import pytest

from cellule.effects.http.target import check_grant, split_url, target_of
from cellule.effects.outcomes import Failed
from cellule.errors import Rejected
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.policies import compile_rule
from tests.support.kernel_bank import CHARGE, SCHEMAS

SLOT = {"cap_slots": {"pay": "net"}}
WITH_HEADERS = {
    **SCHEMAS,
    "bank/Charge@1": {"record": {
        **SCHEMAS["bank/Charge@1"]["record"], "base_url": {"option": {"text": {}}},
        "headers": {"option": {"map": {"key": {"text": {}}, "value": {"text": {}}}}},
    }},
}  # fmt: skip


@pytest.fixture
def asked(make_bank):
    """What a grant with these limits and a policy with these rules say to a request."""

    def ask(params, *, rules=(), **limits):
        policy = {"policy": {"rules": list(rules)}} if rules else {}
        bank = make_bank(
            order=SLOT, schemas=WITH_HEADERS, capabilities={"net": {"effects": [CHARGE], **limits}}, **policy
        )
        beat = bank.charge(slot="pay", **params)
        bank.world.settle()
        return "allow" if beat.opened else bank.last()[1]["code"]

    return ask


HOSTS = [
    ("api.example", "https://api.example/x", True),
    ("api.example", "https://API.example./x", True),
    ("api.example", "https://api.example:443/", True),
    ("api.example", "https://api.example:8443/", False),
    ("api.example:8443", "https://api.example:8443/", True),
    ("api.example:*", "https://api.example:8443/", True),
    ("api.example", "https://evil.example/", False),
    ("api.example", "https://api.example.evil.example/", False),
    ("api.example", "http://evil.example\\@api.example/", False),
    ("api.example", "http://api.example\\.evil.example/", False),
    ("api.example", "https://evil.example@api.example/", False),
    ("api.example", "https://api.example@evil.example/", False),
    ("api.example", "https://user:word@api.example/", False),
    ("api.example", "https://api.example\t.evil.example/", False),
    ("api.example", "https://api.example\n/", False),
    ("api.example", "https://api.exa%6dple/", False),
    ("api.example", "//api.example/", False),
    ("api.example", "api.example", False),
    ("*.example", "https://api.example/", True),
    ("*.example", "https://a.b.example/", True),
    ("*.example", "https://example/", False),
    ("*.example", "https://xexample/", False),
    ("*", "https://anything.example/", True),
    ("*", "https://anything.example:1/", False),
    ("bücher.example", "https://xn--bcher-kva.example/", True),
    ("bücher.example", "https://bücher.example/", True),
    ("xn--bcher-kva.example", "https://BÜCHER.example/", True),
    ("xn--bcher-kva.example", "https://bücher。example/", True),
    ("strasse.example", "https://straße.example/", False),
    ("[::1]", "http://[::1]/", True),
    ("[::1]", "http://[0:0:0:0:0:0:0:1]/", True),
    ("::1", "http://[::1]/", True),
    ("[::1]", "http://[::2]/", False),
    ("[::1]:8080", "http://[::1]:8080/", True),
    ("127.0.0.1", "http://127.0.0.1/", True),
    ("127.0.0.1", "http://127.1/", False),
    ("127.0.0.1", "http://0x7f000001/", False),
    ("127.0.0.1", "http://2130706433/", False),
    ("*.0.0.1.example", "http://127.0.0.1/", False),
]


@pytest.mark.parametrize(("pattern", "url", "fits"), HOSTS)
def test_the_manifest_the_beat_and_the_adapter_agree_on_hosts(asked, pattern, url, fits):
    """Once three parsers differed, and the beat took http://evil.example\\@api.example/ for allowed."""
    assert asked({"url": url}, hosts=[pattern]) == ("allow" if fits else "kernel.grant_host")
    assert _adapter(url, load_hosts(pattern)) == _adapter(url, [pattern]) == ("allow" if fits else "refused")


def load_hosts(pattern):
    """The pattern in the manifest's normal form, as a row carries it."""
    document = {
        "schemas": WITH_HEADERS,
        "effects": {CHARGE: {"params": "bank/Charge@1", "receipt": "bank/Charged@1"}},
        "capabilities": {"net": {"effects": [CHARGE], "hosts": [pattern]}},
        "modules": {},
    }
    return load_manifest(document).grants["net"].hosts


def _adapter(url, hosts):
    try:
        check_grant(target_of(split_url(url)), "GET", {"hosts": list(hosts)})
    except Failed as refused:
        return "refused" if refused.code in ("effects.http_url", "effects.http_host") else refused.code
    return "allow"


def test_every_url_of_the_params_must_fit(asked):
    """Once only the first was looked at; an adapter may use the other."""
    both = {"url": "https://api.example/", "base_url": "https://evil.example/"}
    assert asked(both, hosts=["api.example"]) == "kernel.grant_host"
    assert (
        asked({"url": "", "base_url": "https://api.example/"}, hosts=["api.example"]) == "kernel.grant_host"
    )
    assert asked({"base_url": "https://api.example/"}, hosts=["api.example"]) == "allow"


@pytest.mark.parametrize("name", ["Authorization", "authorization", "AUTHORIZATION"])
@pytest.mark.parametrize("pinned", ["Authorization", "authorization"])
def test_a_pinned_header_is_pinned_in_every_case(asked, name, pinned):
    """Once `authorization` passed by a grant that pins `Authorization`."""
    allow = {f"headers.{pinned}": ["Bearer good"]}
    assert asked({"headers": {name: "Bearer good"}}, allow=allow) == "allow"
    assert asked({"headers": {name: "Bearer evil"}}, allow=allow) == "kernel.grant_param"


def test_a_header_in_two_cases_is_denied_before_anything_is_decided(asked):
    twice = {"headers": {"Authorization": "Bearer good", "authorization": "Bearer evil"}}
    assert asked(twice, allow={"headers.Authorization": ["Bearer good"]}) == "kernel.params_unclear"
    rule = {"name": "all", "when": "true", "then": "allow"}
    assert asked(twice, rules=[rule]) == "kernel.params_unclear"


@pytest.mark.parametrize("name", ["X-Admin", "x-admin", "X-ADMIN"])
def test_a_rule_sees_headers_in_lower_case(asked, name):
    no_admin = {"name": "no", "when": "has(effect.params.headers) && 'x-admin' in effect.params.headers",
                "then": "deny"}  # fmt: skip
    other = {"name": "rest", "when": "true", "then": "allow"}
    assert asked({"headers": {name: "1"}}, rules=[no_admin, other]) == "kernel.policy_denied"
    assert asked({"headers": {"X-Other": "1"}}, rules=[no_admin, other]) == "allow"


@pytest.mark.parametrize(
    "when",
    [
        "effect.params.headers.Authorization == 'x'",
        "effect.params.headers['Authorization'] == 'x'",
        "has(effect.params.headers.Authorization)",
    ],
)
def test_a_rule_that_names_a_header_in_capitals_is_refused_when_it_is_made(when):
    """It could never hold, so a rule that denies would let everything pass."""
    with pytest.raises(Rejected, match="lower case") as refused:
        compile_rule(when)
    assert "headers['authorization']" in str(refused.value)


@pytest.mark.parametrize(
    "url", ["https://EVIL.example/", "https://evil.example.:443/x", "https://evil.example?x"]
)
def test_a_rule_sees_the_host_in_its_one_spelling(asked, url):
    deny = {"name": "no", "when": "effect.host == 'evil.example'", "then": "deny"}
    rest = {"name": "rest", "when": "true", "then": "allow"}
    assert asked({"url": url}, rules=[deny, rest]) == "kernel.policy_denied"
    assert asked({"url": "https://api.example/"}, rules=[deny, rest]) == "allow"
    assert asked({}, rules=[deny, rest]) == "allow"
