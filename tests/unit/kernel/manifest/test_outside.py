"""What a manifest says about the outside: effects with their receipts, grants, policy and schedules."""

from __future__ import annotations

import pytest

from cellule.kernel.manifest.compare import compare_manifests
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import EffectKind, Grant, Policy, Rule, Schedule
from cellule.kernel.manifest.policies import SHIPPED, compile_rule
from cellule.kernel.manifest.system import receipt_schema
from cellule.values import decode, encode
from cellule.values.schema import types as t

MINUTE_NS = 60 * 10**9


@pytest.fixture
def paying(shop):
    """The shop with an effect, `payments.charge`, that its keyed module asks for."""
    shop["schemas"] |= {
        "shop/Charge@1": {"record": {"card": {"text": {}}, "cents": {"int": {}}}},
        "shop/Charged@1": {"record": {"id": {"text": {}}}},
    }
    shop["effects"] = {"payments.charge": {"params": "shop/Charge@1", "receipt": "shop/Charged@1"}}
    shop["modules"]["shop/Orders@1"] |= {
        "effects_emitted": ["timer.set", "payments.charge"],
        "event": ["shop/Placed@1", "shop/Paid@1", "effect.payments/charge@1", "sys/TimerFired@1"],
    }
    return shop


# Effects


def test_an_effect_has_defaults_and_receipts_of_its_own(paying):
    manifest = load_manifest(paying)
    assert manifest.effects["payments.charge"] == EffectKind(
        "payments.charge",
        "shop/Charge@1",
        "shop/Charged@1",
        "effect.payments/charge@1",
        0,
        0,
        5,
        False,
    )
    assert manifest.schemas["effect.payments/charge@1"] == receipt_schema("shop/Charged@1")
    assert dict(manifest.schemas["effect.payments/charge@1"].fields)["value"] == t.Option(
        t.Ref("shop/Charged@1")
    )
    assert "effect.payments/charge@1" in manifest.modules["shop/Orders"].events
    assert load_manifest(manifest.data) == manifest


def test_a_timer_is_always_there_and_performed_by_the_kernel(shop):
    for document in ({}, shop, {**shop, "effects": {}}, {**shop, "effects": {"timer.set": {}}}):
        manifest = load_manifest(document)
        timer = manifest.effects["timer.set"]
        assert (timer.params, timer.receipt) == ("sys/TimerSet@1", "sys/TimerFired@1")
        assert timer.event == "effect.timer/set@1"
        assert not timer.external
        assert "effects" not in decode(manifest.data)


def test_a_receipt_may_be_written_out_as_it_is_made(paying):
    manifest = load_manifest(paying)
    paying["schemas"]["effect.payments/charge@1"] = decode(manifest.data)["schemas"][
        "effect.payments/charge@1"
    ]
    assert load_manifest(paying) == manifest


def test_effects_may_be_a_list_of_nodes(paying):
    manifest = load_manifest(paying)
    paying["effects"] = [{"kind": kind, **body} for kind, body in paying["effects"].items()]
    assert load_manifest(paying) == manifest


def test_kinds_that_are_only_listed_take_and_give_any_value(shop):
    shop["modules"]["shop/Orders@1"]["effects_emitted"] = ["fs.blob.put", "timer.set"]
    manifest = load_manifest(shop)
    assert set(manifest.effects) == {"blob.put", "timer.set"}
    listed = manifest.effects["blob.put"]
    assert (listed.params, listed.receipt, listed.external) == ("sys/Value@1", "sys/Value@1", True)
    assert listed.event == "effect.blob/put@1"
    assert load_manifest(manifest.data) == manifest


def test_a_misspelt_kind_is_answered_with_the_nearest(paying, problems):
    paying["modules"]["shop/Orders@1"]["effects_emitted"] = ["payments.chrage"]
    found = problems(paying)
    assert "Did you mean payments.charge?" in found[0][2]


def test_slots_and_limits_of_a_module_are_kept(paying):
    paying["capabilities"] = {"stripe": {"effects": ["payments.charge"]}}
    paying["modules"]["shop/Orders@1"] |= {"cap_slots": {"pay": "stripe"}, "open_max": 7}
    module = load_manifest(paying).modules["shop/Orders"]
    assert (module.cap_slots, module.open_max) == ({"pay": "stripe"}, 7)
    other = load_manifest(paying).modules["shop/Audits"]
    assert (other.cap_slots, other.open_max) == ({}, 10_000)


# Grants


def test_a_grant_is_kept_in_its_normal_form(paying):
    paying["caps"] = [{
        "name": "stripe", "effects": ["payments.charge"],
        "hosts": ["B.example.org:443", "*.a.org", "*", "c.org:*"],
        "methods": ["post"], "allow": {"card": ["visa-*", "mc-*", "mc-*"]}, "bytes_max": 100,
        "budget": {"count": 3, "period_ns": MINUTE_NS}, "expires_ns": 9, "private": True,
    }]  # fmt: skip
    grant = load_manifest(paying).grants["stripe"]
    assert grant == Grant(
        "stripe", ("payments.charge",), ("*", "*.a.org", "b.example.org:443", "c.org:*"), ("POST",),
        {"card": ("mc-*", "visa-*")}, 100, (3, MINUTE_NS, None), 9, True,
    )  # fmt: skip
    assert grant.as_data() == {
        "name": "stripe", "effects": ["payments.charge"], "hosts": list(grant.hosts), "methods": ["POST"],
        "allow": {"card": ["mc-*", "visa-*"]}, "bytes_max": 100, "private": True,
        "budget": {"count": 3, "period_ns": MINUTE_NS}, "expires_ns": 9,
    }  # fmt: skip
    assert encode(grant.as_data())


def test_a_grant_that_restricts_nothing_says_so(paying):
    paying["capabilities"] = {"all": {"effects": ["payments.charge", "timer.set"]}}
    grant = load_manifest(paying).grants["all"]
    assert (grant.hosts, grant.methods, dict(grant.allow), grant.budget) == (None, None, {}, None)
    assert grant.as_data() == {"name": "all", "effects": ["payments.charge", "timer.set"]}


@pytest.mark.parametrize(
    ("host", "normal"),
    [
        ("EXAMPLE.org.", "example.org"),
        ("10.0.0.1:80", "10.0.0.1:80"),
        ("[::1]:80", "[::1]:80"),
        ("[FE80::1]", "[fe80::1]"),
    ],
)
def test_hosts_have_one_spelling(paying, host, normal):
    paying["capabilities"] = {"net": {"effects": ["payments.charge"], "hosts": [host]}}
    assert load_manifest(paying).grants["net"].hosts == (normal,)


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"record": {"to": {"option": {"ref": "shop/To@1"}}}}, "to.name"),
        ({"record": {"headers": {"map": {"key": {"text": {}}, "value": {"text": {}}}}}}, "headers.host"),
        ({"record": {"any": {"any": {}}}}, "any.thing.at.all"),
        ({"record": {"mode": {"enum": ["a", "b"]}}}, "mode"),
    ],
)
def test_allowed_texts_may_stand_anywhere_in_the_params(paying, schema, path):
    paying["schemas"] |= {"shop/To@1": {"record": {"name": {"text": {}}}}, "shop/Charge@1": schema}
    paying["capabilities"] = {"net": {"effects": ["payments.charge"], "allow": {path: ["x"]}}}
    assert load_manifest(paying).grants["net"].allow == {path: ("x",)}


# Policy


def test_without_a_policy_everything_is_allowed(shop):
    manifest = load_manifest(shop)
    assert manifest.policy == Policy((), "allow")
    assert load_manifest({**shop, "policy": {"rules": [], "default": "allow"}}) == manifest


def test_rules_keep_their_order_and_what_they_say(shop):
    shop["policy"] = {
        "rules": [
            {"name": "large", "when": "effect.params.cents > 100", "then": "require_approval",
             "reason": "large sums", "expires_ns": 5},
            {"name": "night", "when": "now_ns < 5 && module.name == 'x' && cell.key != ''", "then": "deny"},
        ],
        "default": "deny",
    }  # fmt: skip
    assert load_manifest(shop).policy == Policy(
        (
            Rule("large", "effect.params.cents > 100", "require_approval", "large sums", 5),
            Rule("night", "now_ns < 5 && module.name == 'x' && cell.key != ''", "deny"),
        ),
        "deny",
    )


def test_policies_in_a_list_are_one_after_the_other(shop):
    own = {"name": "own", "when": "grant == 'stripe'", "then": "allow"}
    shop["policies"] = [{"rules": [own]}, "reducers-micro-only", {"default": "deny"}]
    policy = load_manifest(shop).policy
    assert [rule.name for rule in policy.rules] == ["own", "micro-effects of reducers", "reducers-micro-only"]
    assert policy.default == "deny"


@pytest.mark.parametrize(
    ("style", "kind", "verdict"),
    [
        ("reducer", "timer.set", "allow"), ("reducer", "blob.put", "allow"),
        ("reducer", "http.request", "deny"), ("reducer", "blobs.put", "deny"),
        ("workflow", "http.request", None),
    ],
)  # fmt: skip
def test_the_shipped_policy_allows_reducers_only_small_effects(style, kind, verdict):
    arguments = {
        "effect": {"kind": kind, "params": {}, "priority": 5, "cap_slot": None, "idempotency_key": None},
        "module": {"name": "a/B@1", "kind": "workflow", "style": style}, "cell": {"key": ""}, "grant": None,
        "now_ns": 0,
    }  # fmt: skip
    rules = SHIPPED["reducers-micro-only"]
    decided = [rule.then for rule in rules if compile_rule(rule.when).evaluate(arguments)]
    assert decided[:1] == ([] if verdict is None else [verdict])


# Schedules


def test_a_schedule_has_defaults_and_canonical_bytes(shop):
    shop["schedules"] = {
        "nightly": {"cron": "0 3 * * *", "event": "shop/Placed@1", "value": {"order_id": "o", "items": 1}},
        "hourly": {
            "every_ns": 60 * MINUTE_NS, "start_ns": 5, "event": "shop/Placed@1", "catch_up": "backfill",
            "overlap": "skip", "value": encode({"order_id": "o", "items": 1}), "key": None,
        },
    }  # fmt: skip
    value = encode({"order_id": "o", "items": 1})
    manifest = load_manifest(shop)
    assert manifest.schedules == {
        "hourly": Schedule(
            "hourly", None, "UTC", 60 * MINUTE_NS, 5, "shop/Placed@1", value, None, "backfill", 100, "skip"
        ),
        "nightly": Schedule(
            "nightly", "0 3 * * *", "UTC", None, None, "shop/Placed@1", value, None, "once", 1, "allow"
        ),
    }
    assert load_manifest(manifest.data) == manifest


def test_a_schedule_gives_the_key_that_a_route_asks_of_the_sender(shop):
    shop["routing"]["subscriptions"] = [{"event": "shop/Paid@1", "module": "shop/Orders@1", "key_only": True}]
    value = {"order_id": "o", "cents": 1}
    shop["schedules"] = {"pay": {"every_ns": 5, "event": "shop/Paid@1", "value": value, "key": b"o"}}
    assert load_manifest(shop).schedules["pay"].key == b"o"


def test_a_schedule_without_its_key_is_refused(shop, problems):
    shop["routing"]["subscriptions"] = [{"event": "shop/Paid@1", "module": "shop/Orders@1", "key_only": True}]
    shop["schedules"] = {
        "pay": {"every_ns": 5, "event": "shop/Paid@1", "value": {"order_id": "o", "cents": 1}}
    }
    assert [each[:2] for each in problems(shop)] == [("$.schedules.pay", "manifest.schedule_route")]


# Changes


@pytest.fixture
def change(paying):
    """The changes that an edit of the paying shop makes, as (path, what, compatible)."""

    def compared(edit, before=None):
        if before is not None:
            before(paying)
        old = load_manifest(paying)
        edit(paying)
        found = compare_manifests(old, load_manifest(paying)).changes
        return [(each.path, each.what, each.compatible) for each in found]

    return compared


def test_limits_grants_policy_and_schedules_may_change(change):
    def before(document):
        document["capabilities"] = {"a": {"effects": ["timer.set"]}, "b": {"effects": ["timer.set"]}}
        document["schedules"] = {
            name: {"every_ns": 5, "event": "shop/Placed@1", "value": {"order_id": "o", "items": 1}}
            for name in ("a", "b")
        }

    def edit(document):
        document["effects"]["payments.charge"] |= {
            "timeout_ns": 1, "attempts": 2, "priority": 3, "needs_grant": True,
        }  # fmt: skip
        document["capabilities"] = {
            "b": {"effects": ["timer.set"], "bytes_max": 5}, "c": {"effects": ["timer.set"]},
        }  # fmt: skip
        document["schedules"]["b"] = {**document["schedules"]["b"], "every_ns": 6}
        document["schedules"]["c"] = document["schedules"].pop("a")
        document["policy"] = "reducers-micro-only"
        document["modules"]["shop/Orders@1"] |= {"cap_slots": {"x": "c"}, "open_max": 5}

    effect = '$.effects["payments.charge"]'
    assert set(change(edit, before)) == {
        (f"{effect}.timeout_ns", "timeout_ns changed", True),
        (f"{effect}.attempts", "attempts changed", True),
        (f"{effect}.priority", "priority changed", True),
        (f"{effect}.needs_grant", "needs_grant changed", True),
        ("$.capabilities.a", "grant removed", True), ("$.capabilities.b", "grant changed", True),
        ("$.capabilities.c", "grant added", True), ("$.schedules.a", "schedule removed", True),
        ("$.schedules.b", "schedule changed", True), ("$.schedules.c", "schedule added", True),
        ("$.policy", "policy changed", True),
        ('$.modules["shop/Orders@1"].cap_slots', "cap_slots changed", True),
        ('$.modules["shop/Orders@1"].open_max', "open_max changed", True),
    }  # fmt: skip


def test_effects_may_come_and_go(change):
    def edit(document):
        document["effects"] = {"payments.refund": document["effects"]["payments.charge"]}
        document["modules"]["shop/Orders@1"] |= {
            "effects_emitted": [],
            "event": ["shop/Placed@1", "shop/Paid@1"],
        }

    found = change(edit)
    assert ('$.effects["payments.charge"]', "effect removed", True) in found
    assert ('$.effects["payments.refund"]', "effect added", True) in found
    assert all(compatible for _, _, compatible in found)


def test_an_optional_field_of_params_or_receipt_may_be_added(change):
    def edit(document):
        for name in ("shop/Charge@1", "shop/Charged@1"):
            document["schemas"][name]["record"]["note"] = {"option": {"text": {}}}

    assert all(compatible for _, _, compatible in change(edit))


@pytest.mark.parametrize("part", ["params", "receipt"])
def test_other_params_or_receipts_under_another_name_need_a_new_kind(change, part):
    def edit(document):
        document["schemas"]["shop/Other@1"] = {"record": {"id": {"int": {}}}}
        document["effects"]["payments.charge"][part] = "shop/Other@1"

    found = change(edit)
    broken = [each for each in found if not each[2]]
    assert broken
    assert any(path.startswith(f'$.effects["payments.charge"].{part}') for path, _, _ in broken)


def test_params_that_only_changed_their_name_are_compatible(change):
    def edit(document):
        document["schemas"]["shop/Charge@2"] = document["schemas"]["shop/Charge@1"]
        document["effects"]["payments.charge"]["params"] = "shop/Charge@2"

    found = change(edit)
    assert ('$.effects["payments.charge"].params', "params changed", True) in found
    assert all(compatible for _, _, compatible in found)
