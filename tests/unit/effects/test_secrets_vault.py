"""The vault: what is put is there, what is damaged is refused, a crash leaves the old file or the new one."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from threading import Thread

import pytest

from cellule.effects.secrets import vault as vault_module
from cellule.effects.secrets.vault import Vault
from cellule.effects.secrets.vault_bytes import HEADER_BYTES, TAG_BYTES
from cellule.effects.secrets.vault_key import VaultKey, create_key_file
from cellule.errors import Corrupted, Rejected, Unavailable
from cellule.sources import SystemEntropy

WORDS = "correct horse battery staple"


@pytest.fixture
def key(tmp_path):
    return create_key_file(tmp_path / "key", SystemEntropy())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "secrets.vault"


def test_what_is_put_is_listed_and_found_after_reopening(path, key):
    vault = Vault.create(path, key)
    vault.put("stripe", "value-1", now_ns=5)
    vault.put("other", "välue-2", now_ns=6)
    again = Vault.open(path, key)
    assert again.names() == [("other", 6), ("stripe", 5)]
    assert (again.get("stripe"), again.get("other"), again.get("none")) == ("value-1", "välue-2", None)


def test_a_secret_is_replaced_and_removed(path, key):
    vault = Vault.create(path, key)
    vault.put("stripe", "value-1", now_ns=5)
    vault.put("stripe", "value-2", now_ns=6)
    assert Vault.open(path, key).names() == [("stripe", 6)]
    vault.remove("stripe")
    assert Vault.open(path, key).names() == []
    with pytest.raises(Rejected) as caught:
        vault.remove("stripe")
    assert caught.value.code == "effects.secret_unknown"


def test_a_passphrase_opens_it_and_a_wrong_one_does_not(path):
    Vault.create(path, VaultKey.of_passphrase(WORDS)).put("stripe", "value-1", now_ns=5)
    assert Vault.open(path, VaultKey.of_passphrase(WORDS)).get("stripe") == "value-1"
    with pytest.raises(Rejected, match="the passphrase does not open the vault") as caught:
        Vault.open(path, VaultKey.of_passphrase("wrong horse battery"))
    assert caught.value.code == "effects.vault_key"


def test_another_kind_of_key_is_told_apart(path, key):
    Vault.create(path, key)
    with pytest.raises(Rejected, match="opened by a key file, not by a passphrase"):
        Vault.open(path, VaultKey.of_passphrase(WORDS))


def test_the_file_shows_neither_names_nor_values_and_is_for_its_owner_only(path, key):
    Vault.create(path, key).put("stripe", "value-1", now_ns=5)
    raw = path.read_bytes()
    assert b"stripe" not in raw
    assert b"value-1" not in raw
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_shows_what_it_holds(path, key):
    vault = Vault.create(path, key)
    vault.put("stripe", "value-1", now_ns=5)
    for each in (vault, key, vault._contents, vault._sealing, VaultKey.of_passphrase(WORDS)):
        assert "value-1" not in repr(each)
        assert WORDS not in repr(each)
    assert repr(key) == "<vault key: file>"


def test_every_write_has_a_nonce_of_its_own(path, key):
    vault = Vault.create(path, key)
    vault.put("stripe", "value-1", now_ns=5)
    first = path.read_bytes()
    vault.put("stripe", "value-1", now_ns=5)
    second = path.read_bytes()
    assert first[:45] == second[:45]
    assert first[45:57] != second[45:57]
    assert first[57:] != second[57:]


def test_a_changed_bit_anywhere_is_noticed(path, key):
    Vault.create(path, key).put("stripe", "value-1", now_ns=5)
    raw = path.read_bytes()
    for at in range(len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        with pytest.raises((Rejected, Corrupted)) as caught:
            Vault.open(path, key)
        assert caught.value.code in {"effects.vault_format", "effects.vault_key", "effects.vault_damaged"}


def test_a_file_cut_short_is_noticed(path, key):
    Vault.create(path, key)
    raw = path.read_bytes()
    for size in (0, 7, 8, HEADER_BYTES, HEADER_BYTES + TAG_BYTES - 1, len(raw) - 1):
        path.write_bytes(raw[:size])
        with pytest.raises((Rejected, Corrupted)):
            Vault.open(path, key)


def test_a_newer_version_is_refused_by_number(path, key):
    Vault.create(path, key)
    raw = path.read_bytes()
    path.write_bytes(raw[:8] + b"\x02" + raw[9:])
    with pytest.raises(Rejected, match="has version 2; this program reads 1"):
        Vault.open(path, key)


def test_a_forged_header_cannot_ask_for_all_memory(path):
    Vault.create(path, VaultKey.of_passphrase(WORDS))
    raw = path.read_bytes()
    path.write_bytes(raw[:10] + b"\x3f" + raw[11:])
    with pytest.raises(Corrupted, match="out of bounds"):
        Vault.open(path, VaultKey.of_passphrase(WORDS))


def test_an_existing_file_is_not_replaced_by_a_new_vault(path, key):
    path.write_text("something else")
    with pytest.raises(Rejected) as caught:
        Vault.create(path, key)
    assert caught.value.code == "effects.vault_exists"
    assert path.read_text() == "something else"
    with pytest.raises(Rejected, match="is no vault"):
        Vault.open(path, key)


def test_a_folder_that_is_not_there_is_refused(tmp_path, key):
    with pytest.raises(Rejected) as caught:
        Vault.create(tmp_path / "none" / "vault", key)
    assert caught.value.code == "effects.vault_missing"


@pytest.mark.parametrize(
    ("name", "value"), [("Bad", "value-1"), ("stripe", "short"), ("stripe", "x" * 65_537)]
)
def test_what_cannot_be_a_secret_is_not_put(path, key, name, value):
    vault = Vault.create(path, key)
    before = path.read_bytes()
    with pytest.raises(Rejected):
        vault.put(name, value, now_ns=5)
    assert path.read_bytes() == before


def test_a_full_vault_takes_no_more(path, key):
    vault = Vault.create(path, key)
    vault._write({f"s{number}": vault_module.Kept("value-1", 1) for number in range(1_000)})
    before = path.read_bytes()
    with pytest.raises(Rejected) as caught:
        vault.put("more", "value-1", now_ns=5)
    assert caught.value.code == "effects.vault_full"
    assert path.read_bytes() == before
    vault.put("s1", "value-2", now_ns=5)


def test_the_key_can_be_changed(path, key):
    vault = Vault.create(path, key)
    vault.put("stripe", "value-1", now_ns=5)
    vault.change_key(VaultKey.of_passphrase(WORDS))
    vault.put("other", "value-2", now_ns=6)
    assert Vault.open(path, VaultKey.of_passphrase(WORDS)).names() == [("other", 6), ("stripe", 5)]
    with pytest.raises(Rejected, match="opened by a passphrase"):
        Vault.open(path, key)


def test_two_writers_lose_nothing(path, key):
    Vault.create(path, key)

    def put(word):
        vault = Vault.open(path, key)
        for number in range(20):
            vault.put(f"{word}_{number}", "value-1", now_ns=number)

    threads = [Thread(target=put, args=(word,)) for word in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Vault.open(path, key).names()) == 40


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_old_vault(path, key, monkeypatch, fails):
    vault = Vault.create(path, key)
    vault.put("stripe", "value-1", now_ns=5)
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if fails == "fsync" else Path, fails, fail)
    with pytest.raises(Unavailable, match="No space left") as caught:
        vault.put("stripe", "value-2", now_ns=6)
    with pytest.raises(Unavailable):
        vault.change_key(VaultKey.of_passphrase(WORDS))
    monkeypatch.undo()
    assert caught.value.code == "effects.vault_io"
    assert path.read_bytes() == before
    assert sorted(each.name for each in path.parent.iterdir()) == ["key", "secrets.vault"]
    vault.put("other", "value-3", now_ns=7)
    assert Vault.open(path, key).get("stripe") == "value-1"


def test_what_a_crash_left_beside_the_vault_does_not_matter(path, key):
    vault = Vault.create(path, key)
    path.with_name(".secrets.vault.new").write_bytes(b"half")
    vault.put("stripe", "value-1", now_ns=5)
    assert Vault.open(path, key).get("stripe") == "value-1"
    assert not path.with_name(".secrets.vault.new").exists()


def test_a_key_file_is_made_once_and_read_again(tmp_path, path):
    made = create_key_file(tmp_path / "key", SystemEntropy())
    Vault.create(path, made)
    assert Vault.open(path, VaultKey.of_file(tmp_path / "key")).names() == []
    with pytest.raises(Rejected, match="exists already"):
        create_key_file(tmp_path / "key", SystemEntropy())


@pytest.mark.parametrize(
    ("contents", "mode", "said"),
    [
        (b"ab" * 32, 0o644, "other users"),
        (b"zz" * 32, 0o600, "not hex"),
        (b"ab" * 31, 0o600, "31 bytes"),
        (b"\xff", 0o600, "cannot be read"),
        (None, 0, "cannot be read"),
    ],
)
def test_an_unfit_key_file_is_refused_without_quoting_it(tmp_path, contents, mode, said):
    if contents is not None:
        (tmp_path / "key").write_bytes(contents)
        (tmp_path / "key").chmod(mode)
    with pytest.raises(Rejected, match=said) as caught:
        VaultKey.of_file(tmp_path / "key")
    assert caught.value.code == "effects.vault_key"
    assert "abab" not in str(caught.value)


def test_a_short_passphrase_is_refused():
    with pytest.raises(Rejected, match="fewer than 8"):
        VaultKey.of_passphrase("short")
