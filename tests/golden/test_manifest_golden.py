"""Frozen normal forms of manifests; a change here is a new format version (docs/formats/manifest.md)."""

from __future__ import annotations

from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.system import SYSTEM_SCHEMAS
from cellule.values import Link, cid_of, decode
from cellule.values.schema import identity
from cellule.values.schema.types import Ref

COUNTER = {
    "schemas": {"a/Add@1": {"record": {"id": {"text": {}}}}, "a/Count@1": {"record": {"n": {"int": {}}}}},
    "modules": {"a/Counter@1": {"state": "a/Count@1", "key": {"text": {}}}},
    "routing": {"subscriptions": [{"event": "a/Add@1", "module": "a/Counter@1", "key_field": "id"}]},
}
WHOLE = {
    **COUNTER,
    "schemas": {
        **COUNTER["schemas"],
        "a/Count@2": {"record": {"total": {"int": {}, "min": 0}}},
        "a/Event@1": {"variant": {"Add": {"ref": "a/Add@1"}, "Mail": {"ref": "sys/FabricMessage@1"}}},
    },
    "modules": {
        "a/Counter@2": {
            "kind": "workflow", "style": "fsm", "state": "a/Count@2", "event": "a/Event@1",
            "key": {"text": {}}, "context": True, "effects_emitted": ["timer.set", "http.request"],
            "retention": {"ttl_ns": 1, "idle_ns": 2}, "failure": "skip", "upgrade": "pin",
            "cap_slots": {"http": "net"}, "open_max": 29,
            "code": {"bundle": Link(cid_of(b"bundle", "raw")), "entry": "counter:step"},
        },
        "a/Sum@1": {"kind": "pure", "state": "log", "event": ["a/Add@1", "sys/StepFailed@1"]},
    },
    "routing": {
        "subscriptions": [
            {"event": "a/Add@1", "module": "a/Sum@1"},
            {"event": "sys/StepFailed@1", "module": "a/Sum@1"},
            {"event": "a/Event@1", "module": "a/Counter@2", "key_only": True},
        ],
        "inboxes": {"mailbox://counters": {"module": "a/Counter@2", "key_only": True}},
    },
    "upcasters": [{"from": "a/Count@1", "to": "a/Count@2", "code": {"entry": "counter:total"}}],
    "effects": {
        "http.request": {
            "params": "a/Add@1", "receipt": "a/Count@1", "timeout_ns": 5, "attempts": 2, "priority": 1,
            "needs_grant": True,
        },
        "payments.charge": {},
    },
    "capabilities": {
        "net": {
            "effects": ["http.request", "timer.set"], "hosts": ["example.org", "*.EXAMPLE.net:8080", "[::1]"],
            "methods": ["post", "GET"], "allow": {"id": ["x*", "a"]}, "bytes_max": 9, "private": True,
            "budget": {"count": 3, "period_ns": 7}, "expires_ns": 11,
        },
        "pay": {"effects": ["payments.charge"]},
    },
    "policy": [
        "reducers-micro-only",
        {
            "rules": [
                {"name": "large", "when": "effect.params.n > 5", "then": "require_approval",
                 "reason": "large", "expires_ns": 13}
            ],
            "default": "deny",
        },
    ],
    "schedules": {
        "daily": {"cron": "0 3 * * *", "zone": "Europe/Berlin", "event": "a/Add@1", "value": {"id": "x"}},
        "often": {
            "every_ns": 17, "start_ns": 19, "event": "a/Event@1", "key": b"k", "catch_up": "backfill",
            "limit": 23, "overlap": "skip", "value": {"$tag": "Add", "$value": {"id": "x"}},
        },
    },
}  # fmt: skip


def test_the_normal_form_of_a_small_manifest_is_frozen():
    manifest = load_manifest(COUNTER)
    assert manifest.data.hex() == (
        "a466666f726d617400676d6f64756c6573a16b612f436f756e7465724031a6636b6579a16474657874a0646b696e"
        "6468776f726b666c6f7765737461746569612f436f756e744031657374796c656772656475636572676661696c75"
        "72656468616c74677570677261646566666f6c6c6f7767726f7574696e67a16d737562736372697074696f6e7381"
        "a3656576656e7467612f4164644031666d6f64756c656b612f436f756e7465724031696b65795f6669656c646269"
        "6467736368656d6173a267612f4164644031a1667265636f7264a1626964a16474657874a069612f436f756e7440"
        "31a1667265636f7264a1616ea163696e74a0"
    )
    assert str(manifest.cid) == "bafyreiapaxhxup55spqzmu5pgqkpibxaoeqsztjzkkctzz5yqz7uinhxxq"


def test_the_normal_form_of_a_manifest_with_everything_is_frozen():
    manifest = load_manifest(WHOLE)
    assert str(manifest.cid) == "bafyreihqlncvfspdpvqu43ywbk2cvlwi2jcuut4ztls7nhuietgfrg6kiy"
    assert decode(manifest.data)["modules"]["a/Sum@1"] == {
        "kind": "pure", "style": "reducer", "state": "sys/Log@1", "log": True, "failure": "halt",
        "upgrade": "follow", "event": ["a/Add@1", "sys/StepFailed@1"],
    }  # fmt: skip
    assert load_manifest(manifest.data) == manifest


def test_the_normal_form_of_what_concerns_the_outside_is_frozen():
    found = decode(load_manifest(WHOLE).data)
    assert found["effects"]["payments.charge"] == {
        "params": "sys/Value@1", "receipt": "sys/Value@1", "timeout_ns": 0, "attempts": 0,
        "priority": 5,
    }  # fmt: skip
    assert found["capabilities"]["net"] == {
        "effects": ["http.request", "timer.set"], "hosts": ["*.example.net:8080", "[::1]", "example.org"],
        "methods": ["GET", "POST"], "allow": {"id": ["a", "x*"]}, "bytes_max": 9, "private": True,
        "budget": {"count": 3, "period_ns": 7}, "expires_ns": 11,
    }  # fmt: skip
    assert [(rule["name"], rule["then"]) for rule in found["policy"]["rules"]] == [
        ("micro-effects of reducers", "allow"), ("reducers-micro-only", "deny"),
        ("large", "require_approval"),
    ]  # fmt: skip
    assert found["policy"]["default"] == "deny"
    assert found["schedules"] == {
        "daily": {
            "cron": "0 3 * * *", "zone": "Europe/Berlin", "event": "a/Add@1",
            "value": bytes.fromhex("a16269646178"), "catch_up": "once", "overlap": "allow",
        },
        "often": {
            "every_ns": 17, "start_ns": 19, "event": "a/Event@1", "key": b"k", "catch_up": "backfill",
            "limit": 23, "overlap": "skip",
            "value": bytes.fromhex("a2642474616763416464662476616c7565a16269646178"),
        },
    }  # fmt: skip


def test_the_shipped_policy_is_frozen():
    rules = decode(load_manifest({"policy": "reducers-micro-only"}).data)["policy"]["rules"]
    assert [rule["when"] for rule in rules] == [
        'module.style == "reducer" && (effect.kind == "timer.set" || effect.kind.startsWith("blob."))',
        'module.style == "reducer"',
    ]


def test_the_schema_of_receipts_is_frozen():
    found = decode(load_manifest({"effects": {"payments.charge": {"receipt": "sys/StepFailed@1"}}}).data)
    assert found["schemas"] == {
        "effect.payments/charge@1": {
            "record": {
                "intent_id": {"text": {}}, "kind": {"text": {}},
                "status": {"enum": ["abandoned", "cancelled", "denied", "failed", "ok", "timeout"]},
                "value": {"option": {"ref": "sys/StepFailed@1"}}, "code": {"option": {"text": {}}},
                "text": {"option": {"text": {}}}, "key": {"option": {"text": {}}},
            }
        }
    }  # fmt: skip


def test_the_identities_of_the_system_schemas_are_frozen():
    found = {name: str(identity(Ref(name), SYSTEM_SCHEMAS)) for name in SYSTEM_SCHEMAS}
    assert found == {
        "sys/WorldStarted@1": "bafyreialea2n26p5czwmsvzr6hdkavypioflhpwql24dzflij6ui6jr4gu",
        "sys/StepFailed@1": "bafyreidus4dh4oojy455izewkpmpzol4wz5bbzbn2ut2h2ojjqdukil4dq",
        "sys/CallFailed@1": "bafyreihahhq5cx47kkr6atp27tvvb35zhwo6gqdn2rdswlqbuxcrnm6omq",
        "sys/CascadeStopped@1": "bafyreifzhzfasxvvbrwhs2xbtrmpfz2t4js7xow5qlzedk2xl2f2de2uam",
        "sys/TimerSet@1": "bafyreih6b3oxf2b2xm4djvbldwkag73cohg7as4acoqv7vmjizcoewz5ue",
        "sys/TimerFired@1": "bafyreiak3mg4lr6gemtu4p67llyzwzz63hhrp3aqtyaaco4mngwk56iz2y",
        "sys/EffectReceiptRejected@1": "bafyreigyvxagpirktxzllhzn5lbqhftmanqsvp6uwmleta6broxn5ngdh4",
        "sys/FabricMessage@1": "bafyreihlqm6to4kuzfpmf4eyadr3thbfm74gcacu3s7tyiblm5cidlmace",
        "sys/ReducerGaveUp@1": "bafyreie3ivu24sp4obnwqyhmsbir7ubrsqkocmf7kikdm62cmaduwccjee",
        "sys/Context@1": "bafyreib3maf6ayulswmqixv5khdsxkhnlcrxz5l43mlul4qznevrulblcm",
        "sys/ReducerContext@1": "bafyreicor3p4kadexhrrfcs76nc45yl3gv3vpowys7mf4wlbmfoaftwshq",
        "sys/Log@1": "bafyreihtif3qdtvslznsbyodfpjkhyhb3bmhyqy4hduydugef3ezxqvu4m",
        "sys/Signal@1": "bafyreihqoktc4in5a6l4dm5utsfagezme4dug4lwtpc7dnqlgfbw4lu3tu",
        "sys/Tree@1": "bafyreia6otznfuocfdb5pyi5r744mlaa5nsqe5jprac2s6kcp7yqbe5pwu",
        "sys/Value@1": "bafyreielw4hps7vztzvu5xtnpvg3zsnuto7632k2gjhnrbnum4b2qgtyui",
        "sys/Aggregate@1": "bafyreia3xi63qwyq2hcvu4g7ayysgpjkxfaribj7pksuvkm4r3feoj55gu",
        "sys/AggregationStarted@1": "bafyreichlf2obem43propgyhvudo7y6ue3n6yxzid4p5h2bh3sozc7gjzy",
        "sys/BatchProcessed@1": "bafyreihgbed7hy7dp2oedxghjjvlgybfn3xgnk2g63je4uk5sgntjy5qca",
        "sys/AggregationCompleted@1": "bafyreiecqigpj37blgkk6esygvfa276pgkniye62cvxcxssfagxgztnsui",
        "sys/AggregationFailed@1": "bafyreicsywmukh4u76he4phhdcdfcic6dsf6tebes6svmlthbi2neha2ky",
        "effect.timer/set@1": "bafyreiezat5bfqpl6b5t3ibrgrgl373dlagy34wybwivoc6eduiszzavrm",
    }
