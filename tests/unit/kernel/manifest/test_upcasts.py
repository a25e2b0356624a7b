"""Chains of upcasters: found, missing, ambiguous."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cellule.errors import Rejected
from cellule.kernel.manifest import upcasts
from cellule.kernel.manifest.load import load_manifest


def manifest_of(*edges):
    names = sorted({name for edge in edges for name in edge})
    return load_manifest({
        "schemas": {f"a/{name}@1": {"record": {}} for name in names},
        "upcasters": [{"from": f"a/{old}@1", "to": f"a/{new}@1"} for old, new in edges],
    })  # fmt: skip


def steps(chain):
    return None if chain is None else [(step.old, step.new) for step in chain]


def named(text):
    return [(f"a/{old}@1", f"a/{new}@1") for old, new in pairwise(text)]


@pytest.mark.parametrize("order", [["AB", "BC", "CD", "BX"], ["BX", "CD", "BC", "AB"]])
def test_a_chain_is_found_in_any_order_of_the_upcasters(order):
    manifest = manifest_of(*order)
    assert steps(upcasts.path(manifest, "a/A@1", "a/D@1")) == named("ABCD")
    assert steps(upcasts.path(manifest, "a/A@1", "a/X@1")) == named("ABX")


def test_a_schema_leads_to_itself_without_a_step():
    assert upcasts.path(manifest_of("AB"), "a/A@1", "a/A@1") == []
    assert upcasts.to_any(manifest_of("AB"), "a/A@1", {"a/A@1", "a/B@1"}) == []


def test_a_missing_chain_is_none():
    manifest = manifest_of("AB", "CD")
    assert upcasts.path(manifest, "a/A@1", "a/D@1") is None
    assert upcasts.path(manifest, "a/B@1", "a/A@1") is None
    assert upcasts.path(manifest, "a/Z@1", "a/A@1") is None
    assert upcasts.to_any(manifest, "a/A@1", {"a/D@1"}) is None


def test_two_chains_to_one_schema_are_ambiguous():
    manifest = manifest_of("AB", "BD", "AC", "CD", "DE")
    for new in ("a/D@1", "a/E@1"):
        with pytest.raises(Rejected) as caught:
            upcasts.path(manifest, "a/A@1", new)
        assert caught.value.code == "manifest.upcast_ambiguous"
        assert "a/A@1" in str(caught.value)
    assert steps(upcasts.path(manifest, "a/B@1", "a/E@1")) == named("BDE")
    assert steps(upcasts.path(manifest, "a/A@1", "a/C@1")) == named("AC")


def test_a_direct_way_beside_a_longer_one_is_ambiguous():
    with pytest.raises(Rejected):
        upcasts.path(manifest_of("AB", "BC", "AC"), "a/A@1", "a/C@1")


def test_the_nearest_accepted_schema_of_a_chain_is_taken():
    manifest = manifest_of("AB", "BC", "CD")
    assert steps(upcasts.to_any(manifest, "a/A@1", {"a/C@1", "a/D@1"})) == named("ABC")


def test_two_accepted_schemas_on_different_ways_are_ambiguous():
    with pytest.raises(Rejected) as caught:
        upcasts.to_any(manifest_of("AB", "AC"), "a/A@1", {"a/B@1", "a/C@1"})
    assert caught.value.code == "manifest.upcast_ambiguous"


def test_ways_that_lead_nowhere_do_not_disturb():
    assert steps(upcasts.path(manifest_of("AB", "AX", "XY", "AY"), "a/A@1", "a/B@1")) == named("AB")


def test_very_many_ways_are_counted_without_walking_them():
    edges = [edge for i in range(40) for edge in (
        (f"N{i}", f"L{i}"), (f"N{i}", f"R{i}"), (f"L{i}", f"N{i + 1}"), (f"R{i}", f"N{i + 1}"),
    )]  # fmt: skip
    with pytest.raises(Rejected):
        upcasts.path(manifest_of(*edges), "a/N0@1", "a/N40@1")


def test_a_chain_may_be_as_long_as_there_are_upcasters():
    edges = [(f"N{i}", f"N{i + 1}") for i in range(3_000)]
    assert len(upcasts.path(manifest_of(*edges), "a/N0@1", "a/N3000@1")) == 3_000
