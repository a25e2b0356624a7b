"""What a deploy changes, and which changes cells can follow."""

from __future__ import annotations

import copy

import pytest

from cellule.errors import Rejected
from cellule.kernel.manifest.compare import compare_manifests
from cellule.kernel.manifest.load import load_manifest


@pytest.fixture
def compared(shop):
    """Compare the shop with what `change` makes of it."""

    def compare(change, *, before=None, **options):
        old, new = copy.deepcopy(shop), copy.deepcopy(shop)
        for document in (old, new):
            if before is not None:
                before(document)
        change(new)
        return compare_manifests(load_manifest(old), load_manifest(new), **options)

    return compare


def whats(change):
    return [(each.what, each.compatible) for each in change.changes]


def test_a_manifest_does_not_differ_from_itself(compared):
    change = compared(lambda document: None)
    assert change.identical
    assert change.compatible
    change.check_compatible("w")


def test_an_optional_field_is_compatible_wherever_the_schema_is_used(compared):
    def add(document):
        document["schemas"]["shop/Order@1"]["record"]["note"] = {"option": {"text": {}}}

    change = compared(add)
    assert whats(change) == [("optional field added", True)]
    assert change.changes[0].path == '$.schemas["shop/Order@1"].note'
    assert change.compatible


def test_another_change_of_a_schema_under_its_name_is_not(compared):
    def require(document):
        document["schemas"]["shop/Order@1"]["record"]["note"] = {"text": {}}

    change = compared(require)
    assert whats(change) == [("required field added", False)]
    with pytest.raises(Rejected) as caught:
        change.check_compatible("w")
    assert caught.value.code == "manifest.incompatible"
    assert "field `note` was added as required" in str(caught.value)


def test_a_change_shows_in_every_schema_that_refers_to_the_changed_one(compared):
    def basket(document):
        document["schemas"]["shop/Basket@1"] = {"list": {"ref": "shop/Order@1"}}

    def require(document):
        document["schemas"]["shop/Order@1"]["record"]["note"] = {"text": {}}

    change = compared(require, before=basket)
    assert {each.path for each in change.changes} == {
        '$.schemas["shop/Order@1"].note', '$.schemas["shop/Basket@1"][].note',
    }  # fmt: skip


def new_state(document, *, upcaster=True):
    document["schemas"]["shop/Order@2"] = {"record": {"lines": {"int": {}}}}
    document["modules"]["shop/Orders@2"] = document["modules"].pop("shop/Orders@1") | {
        "state": "shop/Order@2"
    }
    for subscription in document["routing"]["subscriptions"][:2]:
        subscription["module"] = "shop/Orders@2"
    if upcaster:
        document["upcasters"] = [{"from": "shop/Order@1", "to": "shop/Order@2"}]


def test_a_following_module_needs_an_upcaster_to_its_new_state(compared):
    change = compared(lambda document: new_state(document, upcaster=False))
    assert ("state changed", False) in whats(change)
    assert "no upcaster leads from shop/Order@1 to shop/Order@2" in str(change.changes[2])
    change = compared(new_state)
    assert change.compatible
    assert ("state changed", True) in whats(change)
    assert change.removed == ()


def test_a_pinned_module_may_change_its_state_freely(compared):
    def pinned(document):
        for module in document["modules"].values():
            module["upgrade"] = "pin"

    change = compared(lambda document: new_state(document, upcaster=False), before=pinned)
    assert change.compatible
    assert ("state changed", True) in whats(change)


def test_an_ambiguous_way_to_the_new_state_is_not_compatible(compared):
    def ambiguous(document):
        new_state(document)
        document["schemas"]["shop/Between@1"] = {"record": {}}
        document["upcasters"] += [
            {"from": "shop/Order@1", "to": "shop/Between@1"},
            {"from": "shop/Between@1", "to": "shop/Order@2"},
        ]

    assert ("state changed", False) in whats(compared(ambiguous))


def test_a_log_state_cannot_be_upcast(compared):
    def log(document):
        document["schemas"]["shop/Order@1"] = {"list": {"int": {}}}
        document["modules"]["shop/Orders@1"]["log"] = True

    def other(document):
        new_state(document)
        document["schemas"]["shop/Order@2"] = {"list": {"text": {}}}

    assert ("state changed", False) in whats(compared(other, before=log))


def test_a_state_does_not_become_a_log(compared):
    def lines(document):
        document["schemas"]["shop/Audit@1"] = {"list": {"int": {}}}

    def log(document):
        document["modules"]["shop/Audits@1"]["log"] = True

    assert whats(compared(log, before=lines)) == [("log changed", False)]


def test_another_key_requires_migration(compared):
    def bound(document):
        document["modules"]["shop/Orders@1"]["key"] = {"text": {}, "max_length": 9}

    def keyless(document):
        document["modules"]["shop/Orders@1"]["key"] = None
        for subscription in document["routing"]["subscriptions"]:
            subscription.pop("key_field", None)

    change = compared(bound)
    assert whats(change) == [("key changed", False)]
    assert "requires migration" in str(change.changes[0])
    assert ("key changed", False) in whats(compared(keyless))


def test_a_key_whose_schema_changes_under_its_name_requires_migration(compared):
    def pair(document):
        document["schemas"]["shop/Key@1"] = {"record": {"id": {"text": {}}}}
        document["modules"]["shop/Audits@1"]["key"] = "shop/Key@1"
        document["schemas"]["shop/Placed@1"]["record"]["audit"] = {"ref": "shop/Key@1"}
        document["routing"]["subscriptions"][2]["key_field"] = "audit"

    def longer(document):
        document["schemas"]["shop/Key@1"]["record"]["part"] = {"option": {"int": {}}}

    change = compared(longer, before=pair)
    assert ("key changed", False) in whats(change)


def test_a_key_from_another_field_requires_migration(compared):
    def code(document):
        document["schemas"]["shop/Paid@1"]["record"]["code"] = {"text": {}}

    def by_code(document):
        document["routing"]["subscriptions"][1]["key_field"] = "code"

    assert whats(compared(by_code, before=code)) == [("key field changed", False)]


def test_a_removed_module_is_reported_and_refused_if_it_has_cells(compared):
    def remove(document):
        del document["modules"]["shop/Audits@1"]
        document["routing"]["subscriptions"].pop()

    change = compared(remove)
    assert (change.removed, change.compatible) == (("shop/Audits",), True)
    change = compared(remove, inhabited={"shop/Audits"})
    assert (change.removed, change.compatible) == (("shop/Audits",), False)


def test_added_parts_are_compatible(compared):
    def add(document):
        document["schemas"]["shop/Shipped@1"] = {"record": {"order_id": {"text": {}}}}
        document["modules"]["shop/Parcels@1"] = {"state": "shop/Audit@1"}
        document["routing"]["subscriptions"].append(
            {"event": "shop/Shipped@1", "module": "shop/Parcels@1", "key_field": "order_id"}
        )
        document["routing"]["inboxes"] = {"a": {"module": "shop/Audits@1"}}
        document["upcasters"] = [{"from": "shop/Placed@1", "to": "shop/Shipped@1"}]
        document["effects"] = {"http.request": {}}

    change = compared(add)
    assert change.compatible
    assert {what for what, _ in whats(change)} == {
        "schema added", "module added", "subscription added", "inbox added", "event added", "upcaster added",
        "effect added",
    }  # fmt: skip


def test_removed_parts_are_told(compared):
    def all_of_it(document):
        document["schemas"]["shop/Shipped@1"] = {"record": {}}
        document["routing"]["subscriptions"].append({"event": "shop/Shipped@1", "module": "shop/Audits@1"})
        document["routing"]["inboxes"] = {"a": {"module": "shop/Audits@1"}}

    def remove(document):
        del document["schemas"]["shop/Shipped@1"]
        document["routing"]["subscriptions"].pop()
        del document["routing"]["inboxes"]

    change = compared(remove, before=all_of_it)
    assert change.compatible
    assert {what for what, _ in whats(change)} == {
        "schema removed", "event removed", "subscription removed", "inbox removed",
    }  # fmt: skip


def test_an_event_that_is_upcast_from_now_on_is_still_taken(compared):
    def listed(document):
        document["modules"]["shop/Audits@1"]["event"] = ["shop/Placed@1"]

    def upcast(document):
        document["schemas"]["shop/Placed@2"] = {"record": {"order_id": {"text": {}}}}
        document["modules"]["shop/Audits@1"]["event"] = ["shop/Placed@2"]
        document["upcasters"] = [{"from": "shop/Placed@1", "to": "shop/Placed@2"}]

    change = compared(upcast, before=listed)
    assert change.compatible
    assert "event removed" not in {what for what, _ in whats(change)}


def test_an_event_with_two_ways_to_be_upcast_is_not_compatible(compared):
    def listed(document):
        document["modules"]["shop/Audits@1"]["event"] = ["shop/Placed@1", "shop/Paid@1"]

    def ambiguous(document):
        document["schemas"] |= {"shop/Placed@2": {"record": {}}, "shop/Placed@3": {"record": {}}}
        document["modules"]["shop/Audits@1"]["event"] = ["shop/Placed@1", "shop/Placed@2", "shop/Placed@3"]
        document["upcasters"] = [
            {"from": "shop/Paid@1", "to": "shop/Placed@2"}, {"from": "shop/Paid@1", "to": "shop/Placed@3"},
        ]  # fmt: skip

    assert ("event ambiguous", False) in whats(compared(ambiguous, before=listed))


def test_a_removed_upcaster_is_not_compatible_and_a_changed_one_is_told(compared):
    def with_upcaster(document):
        document["upcasters"] = [{"from": "shop/Placed@1", "to": "shop/Paid@1", "code": {"n": 1}}]

    change = compared(lambda document: document.pop("upcasters"), before=with_upcaster)
    assert whats(change) == [("upcaster removed", False)]

    def other_code(document):
        document["upcasters"][0]["code"] = {"n": 2}

    assert whats(compared(other_code, before=with_upcaster)) == [("upcaster changed", True)]


def test_settings_and_order_are_told(compared):
    def change_all(document):
        document["modules"]["shop/Orders@1"] |= {
            "style": "fsm", "failure": "skip", "upgrade": "pin", "retention": {"ttl_ns": 1},
            "effects_emitted": ["timer.set"], "context": True, "code": {},
        }  # fmt: skip
        document["modules"]["shop/Audits@1"]["kind"] = "pure"
        document["routing"]["subscriptions"].reverse()

    change = compared(change_all)
    assert change.compatible
    assert {what for what, _ in whats(change)} == {
        "style changed", "failure changed", "upgrade changed", "retention changed", "effects_emitted changed",
        "context changed", "code changed", "kind changed", "order changed",
    }  # fmt: skip


def test_changed_inboxes_are_told(compared):
    def inbox(document):
        document["modules"]["shop/Mail@1"] = {"state": "shop/Audit@1", "key": {"uuid": {}}}
        document["routing"]["inboxes"] = {"a": {"module": "shop/Mail@1", "key_field": "from_world"}}

    def other_module(document):
        document["routing"]["inboxes"] = {"a": {"module": "shop/Audits@1"}}

    def other_key(document):
        document["routing"]["inboxes"]["a"]["key_field"] = "from_universe"

    assert ("inbox changed", True) in whats(compared(other_module, before=inbox))
    assert whats(compared(other_key, before=inbox)) == [("key field changed", False)]


# One cell for all keys


ORDERS = {"map": {"key": {"text": {}}, "value": {"ref": "shop/Order@1"}}}


def whole(document, *, state="shop/Orders@1"):
    """Make the orders one cell with the map of all."""
    document["schemas"]["shop/Orders@1"] = ORDERS
    document["modules"]["shop/Orders@1"].update(state=state, cell_mode=False)


def unkeyed(document):
    """Make the orders one cell that keeps a map by itself."""
    whole(document)
    del document["modules"]["shop/Orders@1"]["cell_mode"], document["modules"]["shop/Orders@1"]["key"]
    for route in document["routing"]["subscriptions"]:
        route.pop("key_field", None)


def cells(document):
    """Make each order a cell."""
    document["modules"]["shop/Orders@1"].update(state="shop/Order@1", key={"text": {}}, cell_mode=True)
    for route in document["routing"]["subscriptions"][:2]:
        route["key_field"] = "order_id"


@pytest.mark.parametrize("before", [whole, unkeyed])
def test_a_map_becomes_cells_by_a_migration_only(compared, before):
    change = compared(cells, before=before)
    refused = [each for each in change.changes if not each.compatible]
    assert refused[0].path == '$.modules["shop/Orders@1"].cell_mode'
    assert "cellule world migrate-cells" in refused[0].reason
    assert not compared(cells, before=before, empty=["shop/Audits"]).compatible
    assert compared(cells, before=before, empty=["shop/Orders"]).compatible
    assert compared(cells, before=before, spilled=["shop/Orders"]).compatible


def test_cells_do_not_become_a_map(compared):
    change = compared(whole)
    assert ("key changed", False) in whats(change)


def test_a_cell_that_kept_a_map_by_itself_may_be_told_the_keys(compared):
    def told(document):
        document["modules"]["shop/Orders@1"].update(key={"text": {}}, cell_mode=False)
        for route in document["routing"]["subscriptions"][:2]:
            route["key_field"] = "order_id"

    change = compared(told, before=unkeyed)
    assert change.compatible
    assert ("cell_mode changed", True) in whats(change)


def test_a_map_is_upcast_by_the_upcaster_of_its_entries(compared):
    def second(document):
        document["schemas"]["shop/Order@2"] = {"record": {"items": {"int": {}}, "note": {"text": {}}}}
        document["schemas"]["shop/Orders@2"] = {
            "map": {"key": {"text": {}}, "value": {"ref": "shop/Order@2"}}
        }
        document["modules"]["shop/Orders@1"]["state"] = "shop/Orders@2"

    def with_upcaster(document):
        second(document)
        document["upcasters"] = [{"from": "shop/Order@1", "to": "shop/Order@2", "code": {}}]

    assert "no upcaster leads from shop/Order@1 to shop/Order@2" in str(
        compared(second, before=whole).changes
    )
    assert compared(with_upcaster, before=whole).compatible


def test_a_map_with_the_same_entries_may_have_another_name(compared):
    def renamed(document):
        document["schemas"]["shop/Book@1"] = ORDERS
        document["modules"]["shop/Orders@1"]["state"] = "shop/Book@1"

    change = compared(renamed, before=whole)
    assert [each.reason for each in change.changes if each.what == "state changed"] == [
        "the entries of the map keep their schema shop/Order@1"
    ]
    assert change.compatible
