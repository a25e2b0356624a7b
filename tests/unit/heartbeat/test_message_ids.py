"""How a message gets its id, a sentence of the rules for each test."""

from __future__ import annotations

from cellule.heartbeat.mailboxes import message_ids
from cellule.heartbeat.mailboxes.message_ids import Selected, Taken, select

DIGEST, OTHER = bytes(range(32)), bytes(reversed(range(32)))
STEM = "msg-" + bytes(range(12)).hex()


def test_a_free_explicit_id_is_taken_as_it_is():
    assert select("a", DIGEST, {}.get, 4) == Selected("a", "explicit", False, 4)
    assert select("a", None, {}.get, 4) == Selected("a", "explicit", False, 4)


def test_an_explicit_id_of_an_identical_sealed_envelope_is_reused():
    assert select("a", DIGEST, {"a": Taken(DIGEST)}.get, 1) == Selected("a", "reused", False, 1)


def test_an_explicit_id_of_anything_else_fails_with_a_collision():
    refused = Selected(None, "explicit", True, 1)
    assert select("a", DIGEST, {"a": Taken(OTHER)}.get, 1) == refused
    assert select("a", DIGEST, {"a": Taken(None)}.get, 1) == refused
    assert select("a", None, {"a": Taken(DIGEST)}.get, 1) == refused
    assert select("a", None, {"a": Taken(None)}.get, 1) == refused


def test_a_sealed_envelope_gives_the_first_12_bytes_of_its_digest():
    assert select(None, DIGEST, {}.get, 1) == Selected(STEM, "digest", False, 1)


def test_the_digest_of_an_identical_sealed_envelope_is_reused():
    assert select(None, DIGEST, {STEM: Taken(DIGEST)}.get, 1) == Selected(STEM, "reused", False, 1)


def test_a_digest_that_another_message_has_gets_suffixes_and_a_collision():
    taken = {STEM: Taken(OTHER)}
    assert select(None, DIGEST, taken.get, 1) == Selected(f"{STEM}-1", "digest", True, 1)
    taken[f"{STEM}-1"] = Taken(None)
    assert select(None, DIGEST, taken.get, 1) == Selected(f"{STEM}-2", "digest", True, 1)
    taken[f"{STEM}-2"] = Taken(DIGEST)
    assert select(None, DIGEST, taken.get, 1) == Selected(f"{STEM}-2", "reused", True, 1)


def test_a_digest_with_all_suffixes_taken_falls_to_the_counter():
    taken = {name: Taken(OTHER) for name in (STEM, f"{STEM}-1", f"{STEM}-2", f"{STEM}-3")}
    assert select(None, DIGEST, taken.get, 5) == Selected("msg-5", "counter", False, 6)


def test_the_counter_goes_one_further_at_every_attempt_and_skips_what_is_taken():
    assert select(None, None, {}.get, 1) == Selected("msg-1", "counter", False, 2)
    taken = {"msg-2": Taken(None), "msg-3": Taken(DIGEST)}
    assert select(None, None, taken.get, 2) == Selected("msg-4", "counter", True, 5)


def test_a_counter_that_finds_all_taken_refuses_and_goes_on_behind_them(monkeypatch):
    monkeypatch.setattr(message_ids, "COUNTER_ATTEMPTS_MAX", 3)
    assert select(None, None, lambda _: Taken(None), 7) == Selected(None, "counter", True, 10)
