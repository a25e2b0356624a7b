"""Sealed values: their frozen bytes, what they are bound to, and what is not taken for one."""

from __future__ import annotations

import hmac

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from cellule.errors import Rejected
from cellule.values.cbor import decode, encode, links_of
from cellule.values.cid import cid_of
from cellule.values.cipher import mark_of, nonce_for, open_bytes, seal_bytes
from cellule.values.json_view import to_json
from cellule.values.link import Link
from cellule.values.sealed_value import (
    ERASED,
    HEAD,
    KeyReference,
    Sealed,
    is_sealed,
    is_sealed_text,
    key_ids_within,
    links_within,
    sealed_of,
    text_of,
    unwrap,
    wrap,
)

KEYS = [bytes([number] * 32) for number in (1, 2)]
REFERENCES = tuple(
    KeyReference(bytes([number] * 32), mark_of(key)) for number, key in zip((7, 8), KEYS, strict=True)
)
NONCE = bytes(range(12))
VALUE = encode({"address": "Elm Street 1", "photo": Link(cid_of(b"photo", "raw"))})


def sealed(keys=KEYS, references=REFERENCES, value=VALUE, nonce=NONCE):
    made = Sealed(tuple(references), nonce, b"", links_within(value))
    return made._replace(ciphertext=seal_bytes(keys, nonce, value, made.bound))


def test_a_sealed_value_has_the_frozen_bytes():
    small = sealed(KEYS[:1], REFERENCES[:1], encode(1))
    assert wrap(small).hex() == (
        "a16724736561 6c6564 83"
        "5828 0707070707070707070707070707070707070707070707070707070707070707 1f884fe5a2e0138e"
        "4c 000102030405060708090a0b 51 74757d1e0a8b3eaad266e25790484ebe5a"
    ).replace(" ", "")


def test_the_cipher_is_the_one_that_the_page_names():
    found = sealed()
    key = hmac.new(KEYS[0] + KEYS[1], b"cellule erasure 1", "sha256").digest()
    bound = encode([b"".join(map(bytes, REFERENCES)), [Link(cid_of(b"photo", "raw"))]])
    assert AESGCMSIV(key).decrypt(NONCE, found.ciphertext, bound) == VALUE


def test_a_sealed_value_is_a_value_with_the_links_of_what_it_hides():
    data = wrap(sealed())
    assert is_sealed(data)
    assert encode(decode(data)) == data
    assert links_of(data) == [cid_of(b"photo", "raw")]
    found = unwrap(data)
    assert found == sealed()
    assert open_bytes(KEYS, found.nonce, found.ciphertext, found.bound) == VALUE
    assert b"Elm" not in data


@pytest.mark.parametrize("wrong", [KEYS[:1], KEYS[1:], KEYS[::-1], [bytes(32), KEYS[1]]])
def test_it_takes_all_keys_in_their_order_to_open_it(wrong):
    found = sealed()
    assert open_bytes(wrong, found.nonce, found.ciphertext, found.bound) is None


def test_ciphertext_does_not_open_beside_other_keys_links_or_nonces():
    found = sealed()
    for other in (
        found._replace(keys=REFERENCES[::-1]), found._replace(links=()), found._replace(nonce=bytes(12)),
        found._replace(ciphertext=found.ciphertext[:-1] + b"x"),
    ):  # fmt: skip
        assert open_bytes(KEYS, other.nonce, other.ciphertext, other.bound) is None


def test_nonces_come_from_the_place_and_for_values_to_be_known_again_from_the_value():
    assert nonce_for(KEYS, b"here") == nonce_for([], b"here")
    assert nonce_for(KEYS, b"here") != nonce_for(KEYS, b"there")
    assert nonce_for(KEYS, b"here", VALUE) == nonce_for(KEYS, b"here", VALUE)
    others = (
        nonce_for(KEYS, b"there", VALUE), nonce_for(KEYS, b"here", encode(1)),
        nonce_for(KEYS[:1], b"here", VALUE), nonce_for(KEYS, b"here"),
    )  # fmt: skip
    assert nonce_for(KEYS, b"here", VALUE) not in others


@pytest.mark.parametrize(
    "value",
    [
        {"$sealed": 0}, {"$sealed": []}, {"$sealed": [b"", NONCE, b""]}, {"$sealed": [bytes(39), NONCE, b""]},
        {"$sealed": [bytes(40), b"", b""]}, {"$sealed": [bytes(40), NONCE, "text"]},
        {"$sealed": [bytes(40), NONCE, b"", []]}, {"$sealed": [bytes(40), NONCE, b"", [1]]},
        {"$sealed": [bytes(40), NONCE, b""], "more": 1}, {"sealed": [bytes(40), NONCE, b""]}, [1], "$sealed",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_sealed_value_is_a_value_like_others(value):
    assert not is_sealed(encode(value))
    with pytest.raises(Rejected) as caught:
        unwrap(encode(value))
    assert caught.value.code == "values.sealed"


def test_a_text_is_sealed_as_a_text():
    data = wrap(sealed(value=encode("too bad")))
    text = text_of(data)
    assert is_sealed_text(text)
    assert sealed_of(text) == data
    for other in ("", "$sealed:", "$sealed:!", "$sealed:" + "AAAA", "sealed"):
        assert not is_sealed_text(other)


def test_what_is_erased_is_shown_as_such_and_counts_as_nothing():
    assert repr(ERASED) == "<erased>"
    assert not ERASED
    assert to_json(ERASED) == {"erased": True}
    assert encode({"$sealed": 1}).startswith(HEAD)


def test_the_keys_of_sealed_values_are_found_in_whatever_they_stand():
    one, other = wrap(sealed()), wrap(sealed(KEYS[:1], REFERENCES[:1]))
    found = {bytes([7] * 32), bytes([8] * 32)}
    assert key_ids_within(encode([[one], {"deep": [other, b"$sealed"]}, "$sealed:"])) == found
    assert key_ids_within(other) == {bytes([7] * 32)}
    for cut in range(len(one)):
        assert key_ids_within(one[:cut]) <= found
    assert key_ids_within(encode({"$sealed": 1})) == key_ids_within(b"") == set()
