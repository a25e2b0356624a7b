"""Eras: deploys, pin and follow, upcaster chains, needs migration, projection."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.items import ControlItem, EventItem
from cellule.kernel.journal.codes import HALTED, OK, PARKED
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import (
    ControlRecord,
    EventRecord,
    ManifestRecord,
    MigratedRecord,
    StepRecord,
    UpcastRecord,
)
from cellule.kernel.journal.writer import RECORD_BYTES
from cellule.kernel.program import StepFault
from cellule.values.cbor import decode, encode
from tests.support.frames import with_change
from tests.support.kernel_world import FunctionPrograms

V1 = {
    "schemas": {
        "shop/Add@1": {"record": {"cart": {"text": {}}, "item": {"text": {}}}},
        "shop/Cart@1": {"record": {"items": {"list": {"text": {}}}}},
    },
    "modules": {
        "shop/Cart@1": {"kind": "pure", "state": "shop/Cart@1", "key": {"text": {}}, "event": ["shop/Add@1"]}
    },
    "routing": {"subscriptions": [{"event": "shop/Add@1", "module": "shop/Cart@1", "key_field": "cart"}]},
}


def v2(*, upcasters=(("shop/Cart@1", "shop/Cart@2"),), upgrade="follow", events=("shop/Add@1",)):
    schemas = {
        **V1["schemas"],
        "shop/Cart@2": {"record": {"items": {"list": {"text": {}}}, "count": {"int": {}}}},
        "shop/Cart@3": {"record": {"count": {"int": {}}}},
        "shop/Add@2": {"record": {"cart": {"text": {}}, "items": {"list": {"text": {}}}}},
    }
    return {
        "schemas": schemas,
        "modules": {
            "shop/Cart@2": {
                "kind": "pure", "state": "shop/Cart@2", "key": {"text": {}}, "event": list(events),
                "upgrade": upgrade,
            }
        },
        "routing": {
            "subscriptions": [
                {"event": event, "module": "shop/Cart@2", "key_field": "cart"} for event in events
            ]
        },
        "upcasters": [{"from": old, "to": new, "code": {"test": "x"}} for old, new in upcasters],
    }  # fmt: skip


def cart_1(state, schema, event, ctx):
    return {"items": [*(state or {"items": []})["items"], event["item"]]}


def cart_2(state, schema, event, ctx):
    state = state or {"items": [], "count": 0}
    added = [event["item"]] if schema == "shop/Add@1" else event["items"]
    return {"items": [*state["items"], *added], "count": state["count"] + len(added)}


PROGRAMS = FunctionPrograms(
    {"shop/Cart@1": cart_1, "shop/Cart@2": cart_2},
    {
        ("shop/Cart@1", "shop/Cart@2"): lambda old: {**old, "count": len(old["items"])},
        ("shop/Cart@1", "shop/Cart@3"): lambda old: {"count": len(old["items"])},
        ("shop/Cart@3", "shop/Cart@2"): lambda old: {"items": [], **old},
        ("shop/Add@1", "shop/Add@2"): lambda old: {"cart": old["cart"], "items": [old["item"]]},
    },
)


def add(world, cart="c1", item="pear"):
    return world.send("shop/Add@1", {"cart": cart, "item": item})


@pytest.fixture
def pinned(make_world):
    manifest = {**V1, "modules": {"shop/Cart@1": {**V1["modules"]["shop/Cart@1"], "upgrade": "pin"}}}
    return make_world(manifest, PROGRAMS)


@pytest.fixture
def following(make_world):
    return make_world(V1, PROGRAMS)


def test_a_deploy_is_a_record_and_begins_an_era(following):
    beat = following.deploy(v2())
    assert [type(record) for record in decode_frame(beat.frame).records] == [ControlRecord, ManifestRecord]
    assert len(following.world.ledger.eras) == 2


def test_a_following_cell_is_upcast_inside_its_next_step(following):
    add(following)
    following.deploy(v2())
    assert following.entry("shop/Cart", b"c1").era == 0
    beat = add(following, item="fig")
    kinds = [type(record) for record in decode_frame(beat.frame).records]
    assert kinds == [EventRecord, UpcastRecord, StepRecord]
    assert following.state("shop/Cart", b"c1") == {"items": ["pear", "fig"], "count": 2}
    entry = following.entry("shop/Cart", b"c1")
    assert (entry.version, entry.era) == (2, 1)
    assert UpcastRecord not in [type(record) for record in decode_frame(add(following).frame).records]


def test_a_new_cell_starts_in_the_current_era(following):
    following.deploy(v2())
    add(following)
    assert following.entry("shop/Cart", b"c1").era == 1
    assert following.state("shop/Cart", b"c1") == {"items": ["pear"], "count": 1}


def test_a_chain_of_upcasters_is_found(following):
    add(following)
    following.deploy(v2(upcasters=(("shop/Cart@1", "shop/Cart@3"), ("shop/Cart@3", "shop/Cart@2"))))
    beat = add(following, item="fig")
    assert [type(record) for record in decode_frame(beat.frame).records].count(UpcastRecord) == 2
    assert following.state("shop/Cart", b"c1") == {"items": ["fig"], "count": 2}


def test_without_an_upcaster_the_cell_waits_and_says_why(following):
    add(following)
    following.deploy(v2(upcasters=()))
    step = add(following, item="fig").steps[0]
    assert (step.status, step.code) == (PARKED, "kernel.needs_migration")
    assert "no upcaster leads from state shop/Cart@1 to shop/Cart@2" in step.text
    assert following.entry("shop/Cart", b"c1").get("status") == "needs migration"
    following.deploy(v2())
    beat = following.control("cell.migrate")
    assert MigratedRecord in [type(record) for record in decode_frame(beat.frame).records]
    assert following.state("shop/Cart", b"c1") == {"items": ["pear", "fig"], "count": 2}


def test_a_migration_without_a_way_is_refused(following):
    add(following)
    following.deploy(v2(upcasters=()))
    outcome = following.control("cell.migrate", module="shop/Cart", key=b"c1").outcomes[0]
    assert outcome.error.code == "kernel.cannot_migrate"
    assert following.entry("shop/Cart", b"c1").era == 0


def test_all_cells_of_older_eras_are_moved_at_once(following, monkeypatch):
    """A migration moved only cells that had stopped for it: none, after a deploy with an upcaster."""
    monkeypatch.setattr("cellule.kernel.decide.migrations.MIGRATE_SCAN_MAX", 4)
    monkeypatch.setattr("cellule.kernel.decide.migrations.MIGRATE_SCAN_PAGE", 2)
    carts = [f"c{number}" for number in range(7)]
    for cart in carts:
        add(following, cart=cart)
    following.deploy(v2())
    add(following, cart="c3")
    assert written(following, following.control("cell.migrate"))["cells"] == []
    moved, arguments = [], {"all": True}
    while True:
        done = written(following, following.control("cell.migrate", **arguments))
        moved += [key for _, key in done["cells"]]
        if "next" not in done:
            break
        arguments["after"] = done["next"]
    assert moved == [cart.encode() for cart in carts if cart != "c3"]
    assert {following.entry("shop/Cart", cart.encode()).era for cart in carts} == {1}
    assert following.state("shop/Cart", b"c0") == {"items": ["pear"], "count": 1}
    assert written(following, following.control("cell.migrate", all=True, module="shop/Cart"))["cells"] == []


def test_a_migration_looks_at_as_many_cells_as_it_may_and_at_no_more(following, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.migrations.MIGRATE_SCAN_MAX", 3)
    monkeypatch.setattr("cellule.kernel.decide.migrations.MIGRATE_SCAN_PAGE", 1)
    for cart in "abcd":
        add(following, cart=cart)
    following.deploy(v2())
    done = written(following, following.control("cell.migrate", all=True))
    assert done["cells"] == [["shop/Cart", b"a"], ["shop/Cart", b"b"], ["shop/Cart", b"c"]]
    assert done["next"][0] == "shop/Cart"
    assert b"c" < done["next"][1] <= b"d"


def test_a_cell_that_cannot_be_moved_holds_up_no_other(pinned):
    add(pinned, cart="a")
    pinned.deploy(v2(upgrade="pin", upcasters=()))
    add(pinned, cart="b")
    done = written(pinned, pinned.control("cell.migrate", all=True))
    assert done["cells"] == []
    ((base, key, why),) = done["stays"]
    assert (base, key) == ("shop/Cart", b"a")
    assert "write one (old: shop/Cart@1) -> shop/Cart@2" in why
    assert pinned.entry("shop/Cart", b"a").era == 0
    pinned.deploy(v2(upgrade="pin"))
    done = written(pinned, pinned.control("cell.migrate", all=True))
    assert done["cells"] == [["shop/Cart", b"a"], ["shop/Cart", b"b"]]
    assert pinned.entry("shop/Cart", b"a").era == 2


def test_a_migration_names_only_so_many_cells_that_stay(pinned, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.migrations.MIGRATE_STAYS_MAX", 2)
    monkeypatch.setattr("cellule.kernel.decide.migrations.MIGRATE_REASON_MAX", 11)
    for cart in ("a", "b", "c"):
        add(pinned, cart=cart)
    pinned.deploy(v2(upgrade="pin", upcasters=()))
    done = written(pinned, pinned.control("cell.migrate", all=True))
    assert [[key, why] for _, key, why in done["stays"]] == [[b"a", "no upcaster"], [b"b", "no upcaster"]]


def test_a_pinned_cell_is_moved_to_a_named_era_and_no_further(pinned):
    for cart in ("a", "b"):
        add(pinned, cart=cart)
    pinned.deploy(v2(upgrade="pin"))
    pinned.deploy(v2(upgrade="pin", events=("shop/Add@1", "shop/Add@2")))
    add(pinned, cart="c")
    pinned.control("cell.migrate", module="shop/Cart", key=b"a", to=1)
    assert [pinned.entry("shop/Cart", key).era for key in (b"a", b"b", b"c")] == [1, 0, 2]
    done = written(pinned, pinned.control("cell.migrate", all=True, to=1))
    assert (done["cells"], "stays" in done) == ([["shop/Cart", b"b"], ["shop/Cart", b"c"]], False)
    add(pinned, cart="b", item="fig")
    assert pinned.state("shop/Cart", b"b") == {"items": ["pear", "fig"], "count": 2}
    assert [pinned.entry("shop/Cart", key).era for key in (b"a", b"b", b"c")] == [1, 1, 1]


@pytest.mark.parametrize("era", [2, -1, True, "1"])
def test_a_migration_to_an_era_that_is_not_there_is_refused(pinned, era):
    add(pinned)
    pinned.deploy(v2(upgrade="pin"))
    refused = pinned.control("cell.migrate", all=True, to=era).outcomes[0]
    assert refused.error.code == "kernel.argument"
    assert "0 to 1" in str(refused.error)


def test_a_following_cell_moves_to_no_era_but_the_current_one(following):
    add(following)
    following.deploy(v2())
    following.deploy(v2(events=("shop/Add@1", "shop/Add@2")))
    refused = following.control("cell.migrate", module="shop/Cart", key=b"c1", to=1).outcomes[0]
    assert refused.error.code == "kernel.cannot_migrate"
    assert "follows" in str(refused.error)
    following.control("cell.migrate", module="shop/Cart", key=b"c1", to=2)
    assert following.entry("shop/Cart", b"c1").era == 2


def test_a_frame_takes_what_it_has_room_for_and_says_where_it_goes_on(following, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.migrations.FRAME_BYTES_ADMIT", 0)
    for cart in ("a", "b"):
        add(following, cart=cart)
    following.deploy(v2())
    done = written(following, following.control("cell.migrate", all=True))
    assert (done["cells"], done["next"]) == ([["shop/Cart", b"a"]], ["shop/Cart", b"b"])
    done = written(following, following.control("cell.migrate", all=True, after=done["next"]))
    assert (done["cells"], "next" in done) == ([["shop/Cart", b"b"]], False)


def test_where_a_migration_goes_on_is_a_module_and_a_key(following):
    add(following)
    refused = following.control("cell.migrate", all=True, after=5).outcomes[0]
    assert refused.error.code == "kernel.argument"


def written(world, beat):
    """The arguments of a beat's control, with what it did."""
    ((_, record),) = decode_frame(beat.frame).of(ControlRecord)
    return record.arguments


def test_a_failing_upcaster_is_a_failed_step(make_world):
    programs = FunctionPrograms(
        PROGRAMS.steps, {**PROGRAMS.upcasters, ("shop/Cart@1", "shop/Cart@2"): _broken}
    )
    world = make_world(V1, programs)
    add(world)
    world.deploy(v2())
    step = add(world).steps[0]
    assert step.status == HALTED
    assert "broken upcaster" in step.text
    assert world.state("shop/Cart", b"c1") == {"items": ["pear"]}


def test_a_pinned_cell_keeps_its_era_and_its_code(pinned):
    add(pinned)
    pinned.deploy(v2(upgrade="pin"))
    add(pinned, item="fig")
    add(pinned, cart="c2")
    assert pinned.state("shop/Cart", b"c1") == {"items": ["pear", "fig"]}
    assert pinned.entry("shop/Cart", b"c1").era == 0
    assert pinned.state("shop/Cart", b"c2") == {"items": ["pear"], "count": 1}
    pinned.snapshot()
    pinned.world = pinned.restored(len(pinned.snapshots) - 1)
    add(pinned, item="nut")
    assert pinned.state("shop/Cart", b"c1") == {"items": ["pear", "fig", "nut"]}


def test_a_pinned_cell_waits_with_a_schema_its_era_does_not_take(pinned):
    add(pinned)
    pinned.deploy(v2(upgrade="pin", events=("shop/Add@1", "shop/Add@2")))
    step = pinned.send("shop/Add@2", {"cart": "c1", "items": ["a", "b"]}).steps[0]
    assert step.status == PARKED
    assert "does not take shop/Add@2" in step.text
    later = add(pinned, item="fig")
    assert later.steps == []
    beat = pinned.control("cell.migrate", module="shop/Cart", key=b"c1")
    assert [step.status for step in beat.steps] == [OK, OK]
    assert pinned.state("shop/Cart", b"c1") == {"items": ["pear", "a", "b", "fig"], "count": 4}
    assert pinned.entry("shop/Cart", b"c1").era == 1


def test_a_queued_event_of_an_old_schema_is_upcast_for_the_new_era(following):
    following.control("pause")
    add(following)
    following.deploy(
        v2(upcasters=(("shop/Cart@1", "shop/Cart@2"), ("shop/Add@1", "shop/Add@2")), events=("shop/Add@2",))
    )
    following.control("resume")
    assert following.state("shop/Cart", b"c1") == {"items": ["pear"], "count": 1}


def test_an_event_of_a_newer_compatible_schema_is_projected_onto_the_cells_era(pinned):
    add(pinned)
    newer = v2(upgrade="pin")
    newer["schemas"]["shop/Add@1"] = {
        "record": {"cart": {"text": {}}, "item": {"text": {}}, "note": {"option": {"text": {}}}}
    }
    pinned.deploy(newer)
    seen = []
    pinned.programs.steps["shop/Cart@1"] = lambda state, schema, event, ctx: (
        seen.append(event) or {"items": ["x"]}
    )
    pinned.world.eras._compiled.clear()
    pinned.world = pinned.restored()
    pinned.send("shop/Add@1", {"cart": "c1", "item": "fig", "note": "new"})
    assert seen == [{"cart": "c1", "item": "fig"}]
    pinned.same_code = False
    pinned.programs.steps["shop/Cart@1"] = cart_1


def test_a_removed_module_parks_its_cells(following):
    add(following)
    following.control("pause")
    add(following, item="fig")
    without = v2()
    without["modules"] = {"shop/Other@1": {**without["modules"]["shop/Cart@2"], "state": "shop/Cart@2"}}
    without["routing"] = {
        "subscriptions": [{"event": "shop/Add@1", "module": "shop/Other@1", "key_field": "cart"}]
    }
    following.deploy(without)
    beat = following.control("resume")
    assert [step.status for step in beat.steps] == [OK]
    assert decode(following.entry("shop/Cart", b"c1").state) == {"items": ["pear", "fig"]}


def test_an_invalid_manifest_is_refused_and_the_era_stays(following):
    cid = following.world.ledger.eras[0].manifest
    following.cas[cid] = following.cas[cid]
    broken = following.control("deploy", manifest=_link(following, b"\xa0"))
    assert broken.outcomes[0].error.code.startswith("manifest.")
    assert len(following.world.ledger.eras) == 1


def _link(world, data):
    from cellule.values.cid import cid_of
    from cellule.values.link import Link

    world.cas[cid_of(data)] = data
    return Link(cid_of(data))


def _broken(old):
    raise ValueError("broken upcaster")


@pytest.mark.parametrize(("field", "value"), [("born", 1), ("era_from", 1), ("era_to", 2), ("key", b"c2")])
def test_a_journal_that_lies_about_a_migrated_cell_is_corrupted(following, field, value):
    add(following)
    following.deploy(v2())
    following.control("cell.migrate", module="shop/Cart", key=b"c1")
    frame = following.frames[-1]
    [at] = [
        position
        for position, record in enumerate(decode_frame(frame).records)
        if isinstance(record, MigratedRecord)
    ]
    lie = with_change(frame, at, lambda fields: fields.update({field: value}))
    with pytest.raises(Corrupted, match=r"the migrated cell is not the one recorded|there is no era 2"):
        following.restored(frames=[*following.frames[:-1], lie])


def test_a_migration_takes_the_room_that_is_left_in_its_frame(following, monkeypatch):
    for cart in ("a", "b"):
        add(following, cart=cart)
    following.deploy(v2())
    monkeypatch.setattr("cellule.kernel.decide.migrations.FRAME_BYTES_ADMIT", 2_000)
    long = EventItem("shop/Add@1", encode({"cart": "c", "item": "x" * 2_000}))
    beat = following.beat([long, ControlItem("cell.migrate", "ada", "as planned", {"all": True})])
    [done] = [each for each in decode_frame(beat.frame).records if isinstance(each, ControlRecord)]
    assert (done.arguments["cells"], done.arguments["next"]) == ([["shop/Cart", b"a"]], ["shop/Cart", b"b"])


def test_a_cell_that_never_had_a_state_takes_the_code_of_the_day(make_world):
    """Pinned to the code it was born with is a state; what halted at its first event has none."""

    def fails(state, schema, event, ctx):
        raise StepFault("shop.no", "not yet")

    programs = FunctionPrograms({"shop/Cart@1": fails, "shop/Cart@2": cart_2}, PROGRAMS.upcasters)
    manifest = {**V1, "modules": {"shop/Cart@1": {**V1["modules"]["shop/Cart@1"], "upgrade": "pin"}}}
    world = make_world(manifest, programs)
    assert [step.status for step in add(world).steps] == [HALTED]
    world.deploy(v2(upgrade="pin"))
    moved = decode_frame(world.control("cell.migrate", all=True).frame).records
    assert [type(record) for record in moved] == [ControlRecord]  # nothing of it is of another era
    world.control("cell.resume", module="shop/Cart", key=b"c1")
    assert world.state("shop/Cart", b"c1") == {"items": ["pear"], "count": 1}


@pytest.mark.parametrize(("more", "moved"), [(0, 1), (1, 2)])
def test_a_frame_takes_moved_cells_until_it_is_full(following, monkeypatch, more, moved):
    for cart in "ab":
        add(following, cart=cart)
    following.deploy(v2())
    state = encode({"items": ["pear"], "count": 1})
    room = RECORD_BYTES + len(b"a") + len(state) + more
    monkeypatch.setattr("cellule.kernel.decide.migrations.FRAME_BYTES_ADMIT", room)
    done = written(following, following.control("cell.migrate", all=True))
    assert len(done["cells"]) == moved


def test_an_event_of_an_older_version_goes_where_its_newer_one_goes(following):
    both = (("shop/Cart@1", "shop/Cart@2"), ("shop/Add@1", "shop/Add@2"))
    following.deploy(v2(upcasters=both, events=("shop/Add@2",)))
    beat = add(following)
    assert [step.status for step in beat.steps] == [OK]
    assert following.state("shop/Cart", b"c1") == {"items": ["pear"], "count": 1}
