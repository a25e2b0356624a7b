"""Frozen bytes and CIDs of values, envelopes and blobs: they never change, whatever libraries do.

`values.json` writes what JSON cannot hold as a map of one key: `$bytes` (hex), `$link` (CID), `$float`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellule.values import Cid, Link, cid_of, decode, decode_trusted, encode, links_of, open_envelope, seal
from cellule.values.scanner import scan
from cellule.values.writer import write

FROZEN = json.loads(Path(__file__).with_name("values.json").read_text(encoding="utf-8"))
READERS = {"$bytes": bytes.fromhex, "$link": lambda text: Link(Cid.parse(text)), "$float": float}


def built(described: object) -> object:
    if isinstance(described, dict):
        for key, reader in READERS.items():
            if described.keys() == {key}:
                return reader(described[key])
        return {key: built(item) for key, item in described.items()}
    return [built(item) for item in described] if isinstance(described, list) else described


@pytest.mark.parametrize("entry", FROZEN["values"], ids=lambda entry: entry["name"])
def test_a_value_has_the_frozen_bytes_and_cid(entry):
    value, data = built(entry["value"]), bytes.fromhex(entry["hex"])
    assert encode(value).hex() == write(value).hex() == entry["hex"]
    assert decode(data) == decode_trusted(data) == scan(data) == value
    assert str(cid_of(data)) == entry["cid"]


@pytest.mark.parametrize("entry", FROZEN["blobs"], ids=lambda entry: entry["name"])
def test_a_blob_has_the_frozen_cid(entry):
    assert str(cid_of(bytes.fromhex(entry["hex"]), "raw")) == entry["cid"]


@pytest.mark.parametrize("entry", FROZEN["envelopes"], ids=lambda entry: entry["name"])
def test_an_envelope_has_the_frozen_bytes(entry):
    links = [Cid.parse(text) for text in entry["links"]]
    assert encode(seal(bytes.fromhex(entry["data"]))).hex() == entry["hex"]
    assert list(open_envelope(decode(bytes.fromhex(entry["hex"]))).links) == links
    assert links_of(bytes.fromhex(entry["hex"])) == links
