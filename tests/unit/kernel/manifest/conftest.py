"""A small shop as a manifest document, and ways to change it."""

from __future__ import annotations

import copy

import pytest

from cellule.errors import Rejected
from cellule.kernel.manifest.load import load_manifest

SHOP = {
    "schemas": {
        "shop/Order@1": {"record": {"items": {"int": {}}}},
        "shop/Placed@1": {"record": {"order_id": {"text": {}}, "items": {"int": {}}}},
        "shop/Paid@1": {"record": {"order_id": {"text": {}}, "cents": {"int": {}}}},
        "shop/Audit@1": {"record": {"count": {"int": {}}}},
    },
    "modules": {
        "shop/Orders@1": {"state": "shop/Order@1", "key": {"text": {}}, "code": {"python": "shop:order"}},
        "shop/Audits@1": {"state": "shop/Audit@1"},
    },
    "routing": {
        "subscriptions": [
            {"event": "shop/Placed@1", "module": "shop/Orders@1", "key_field": "order_id"},
            {"event": "shop/Paid@1", "module": "shop/Orders@1", "key_field": "order_id"},
            {"event": "shop/Placed@1", "module": "shop/Audits@1"},
        ]
    },
}


@pytest.fixture
def shop():
    """A document of its own for every test."""
    return copy.deepcopy(SHOP)


@pytest.fixture
def problems():
    """Load a document that must be refused, and return its problems."""

    def load(document):
        with pytest.raises(Rejected) as caught:
            load_manifest(document)
        found = caught.value.fields["problems"]
        assert caught.value.code == found[0][1]
        assert all(path in str(caught.value) and text in str(caught.value) for path, _, text in found)
        return found

    return load
