"""The frozen bytes of vaults: an older file must open for ever."""

from __future__ import annotations

import pytest

from cellule.effects.secrets.vault import Vault
from cellule.effects.secrets.vault_key import VaultKey

KEY_FILE = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
PASSPHRASE = "correct horse battery staple"
BY_KEY_FILE = (
    "43454c5641554c540102000000000102030405060708090a0b0c0d0e0ff9ea76eabf4787ff5ff4de2b420ba2c51c1d1e"
    "1f2021222324252627b62cd8fab266235cd0575ca0aaafd1954181954e060532efa164a2d107406a3a76bf06b5448dff"
    "accd98fea4aef1ad04"
)
BY_PASSPHRASE = (
    "43454c5641554c5401010f0801000102030405060708090a0b0c0d0e0f9fce8a53ace9346c26d1dac795a526951c1d1e"
    "1f202122232425262788625fb0cb6d3e6590145bd146465050142381d69a811c3032b5b408ea88dc30486c8faec4c48e"
    "b2cc1e0b9294177ee9"
)


class Counting:
    """Bytes 0, 1, 2 ... in the place of chance."""

    def __init__(self):
        self.at = 0

    def bytes(self, count):
        self.at += count
        return bytes(number % 256 for number in range(self.at - count, self.at))


def _key(tmp_path, kind):
    if kind == "passphrase":
        return VaultKey.of_passphrase(PASSPHRASE)
    (tmp_path / "key").write_text(KEY_FILE)
    (tmp_path / "key").chmod(0o600)
    return VaultKey.of_file(tmp_path / "key")


CASES = [("key file", BY_KEY_FILE), ("passphrase", BY_PASSPHRASE)]


@pytest.mark.parametrize(("kind", "frozen"), CASES)
def test_a_vault_has_these_bytes(tmp_path, kind, frozen):
    vault = Vault.create(tmp_path / "vault", _key(tmp_path, kind), entropy=Counting())
    vault.put("stripe", "sk_live_12345", now_ns=1_700_000_000_000_000_000)
    assert (tmp_path / "vault").read_bytes().hex() == frozen


@pytest.mark.parametrize(("kind", "frozen"), CASES)
def test_these_bytes_are_read(tmp_path, kind, frozen):
    (tmp_path / "vault").write_bytes(bytes.fromhex(frozen))
    vault = Vault.open(tmp_path / "vault", _key(tmp_path, kind))
    assert vault.names() == [("stripe", 1_700_000_000_000_000_000)]
    assert vault.get("stripe") == "sk_live_12345"
