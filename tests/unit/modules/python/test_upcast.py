from __future__ import annotations

import pytest

from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Nodes, drive
from cellule.kernel.program import StepFault
from cellule.modules.python import PythonPrograms, describe_upcaster
from cellule.values import decode, encode

OLD, NEW = "com.acme/Order@1", "com.acme/Order@2"
HEAD = """
import msgspec

class OrderV1(msgspec.Struct):
    cents: int

class OrderV2(msgspec.Struct):
    cents: int
    currency: str

"""


@pytest.fixture
def load_upcaster(import_app):
    def load(body, limit_s=10.0):
        source = f"{HEAD}def up(old: OrderV1) -> OrderV2:\n    {body}\n"
        module = import_app({"shop/__init__.py": "", "shop/old.py": source}, "shop.old")
        description = describe_upcaster(module.up, namespace="com.acme", old=OLD, new=NEW)
        manifest = load_manifest({
            "schemas": description.schemas.documents(), "modules": {}, "routing": {},
            "upcasters": [description.entry],
        })  # fmt: skip
        (upcaster,) = manifest.upcasters[OLD]
        nodes = Nodes(0)
        walk = PythonPrograms(limit_s=limit_s).upcaster(manifest, upcaster, nodes)
        return drive(walk, nodes, lambda cids: {cid: description.blocks[cid] for cid in cids})

    return load


def test_an_upcaster_turns_one_schema_into_the_next(load_upcaster):
    upcast = load_upcaster("return OrderV2(old.cents, 'EUR')")
    assert decode(upcast(encode({"cents": 5}))) == {"cents": 5, "currency": "EUR"}


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("return OrderV2(old.cents, 7)", "modules.upcast_invalid", "currency: expected text"),
        ("return None", "modules.upcast_invalid", "expected OrderV2"),
        ("raise ValueError('no')", "modules.upcast_failed", "ValueError: no (shop/old.py:12 in up)"),
    ],
)
def test_an_upcaster_that_fails_is_a_fault_naming_both_schemas(load_upcaster, body, code, words):
    with pytest.raises(StepFault) as caught:
        load_upcaster(body)(encode({"cents": 5}))
    assert caught.value.code == code
    assert words in caught.value.text
    assert f"{OLD} -> {NEW}" in caught.value.text


def test_an_upcaster_that_never_ends_is_stopped(load_upcaster):
    with pytest.raises(StepFault) as caught:
        load_upcaster("while True: pass", limit_s=0.1)(encode({"cents": 5}))
    assert caught.value.timed_out
    assert "shop/old.py:12 in up" in caught.value.text
