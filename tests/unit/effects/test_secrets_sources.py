"""Where secrets are kept: the environment, a folder, a vault behind an adapter's question."""

from __future__ import annotations

import pytest

from cellule.effects.outcomes import Failed, Retry
from cellule.effects.secrets import Secrets
from cellule.effects.secrets.sources import EnvironmentSecrets, FolderSecrets, VaultSecrets
from cellule.effects.secrets.vault import Vault
from cellule.effects.secrets.vault_key import create_key_file
from cellule.sources import SystemEntropy


async def test_the_environment_gives_secrets_by_their_upper_case_name():
    secrets = Secrets(EnvironmentSecrets({"CELLULE_SECRET_STRIPE": "value-1", "CELLULE_SECRET_EMPTY": ""}))
    assert await secrets.get("stripe") == "value-1"
    for name in ("empty", "other"):
        with pytest.raises(Failed, match=f"Set CELLULE_SECRET_{name.upper()}"):
            await secrets.get(name)


async def test_the_environment_of_the_process_is_the_default(monkeypatch):
    monkeypatch.setenv("CELLULE_SECRET_STRIPE", "value-1")
    source = EnvironmentSecrets()
    assert await source.get("stripe") == "value-1"
    assert "value-1" not in repr(source)


async def test_a_folder_gives_one_secret_a_file_and_is_read_anew(tmp_path):
    (tmp_path / "stripe").write_text("value-1\n")
    (tmp_path / "stripe").chmod(0o600)
    secrets = Secrets(FolderSecrets(tmp_path))
    assert await secrets.get("stripe") == "value-1"
    (tmp_path / "stripe").write_text("value-2 \r\n")
    assert await secrets.get("stripe") == "value-2 "
    with pytest.raises(Failed, match="other"):
        await secrets.get("other")


@pytest.mark.parametrize(
    ("mode", "said"), [(0o620, "may change"), (0o602, "may change"), (0o644, "may read it")]
)
async def test_a_file_that_others_may_change_or_everyone_may_read_is_refused(tmp_path, mode, said):
    (tmp_path / "stripe").write_text("value-1")
    (tmp_path / "stripe").chmod(mode)
    with pytest.raises(Failed, match=said) as caught:
        await Secrets(FolderSecrets(tmp_path)).get("stripe")
    assert caught.value.code == "effects.secret_file"
    assert "value-1" not in str(caught.value)


async def test_inside_a_container_everyone_may_read(tmp_path):
    (tmp_path / "stripe").write_text("value-1")
    (tmp_path / "stripe").chmod(0o444)
    assert await FolderSecrets(tmp_path, readable_by_all=True).get("stripe") == "value-1"


async def test_a_link_is_judged_by_the_file_it_leads_to(tmp_path):
    (tmp_path / "real").write_text("value-1")
    (tmp_path / "real").chmod(0o644)
    (tmp_path / "stripe").symlink_to("real")
    with pytest.raises(Failed, match="may read it"):
        await Secrets(FolderSecrets(tmp_path)).get("stripe")


async def test_what_is_no_text_or_no_file_is_refused_without_quoting_it(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "raw").write_bytes(b"value-1\xff")
    (tmp_path / "raw").chmod(0o600)
    secrets = Secrets(FolderSecrets(tmp_path))
    for name, said in (("folder", "is a folder"), ("raw", "no UTF-8")):
        with pytest.raises(Failed, match=said) as caught:
            await secrets.get(name)
        assert "value-1" not in str(caught.value)
        assert caught.value.__suppress_context__


async def test_a_file_that_cannot_be_read_means_another_attempt(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Retry, match="could not be read"):
        await Secrets(FolderSecrets(tmp_path / "file")).get("stripe")


async def test_a_vault_is_opened_again_when_it_was_replaced(tmp_path):
    key = create_key_file(tmp_path / "key", SystemEntropy())
    vault = Vault.create(tmp_path / "vault", key)
    source = VaultSecrets(tmp_path / "vault", key)
    secrets = Secrets(source)
    with pytest.raises(Failed, match="Put stripe into the vault"):
        await secrets.get("stripe")
    vault.put("stripe", "value-1", now_ns=1)
    assert await secrets.get("stripe") == "value-1"
    vault.put("stripe", "value-2", now_ns=2)
    assert await secrets.get("stripe") == "value-2"
    assert "value" not in repr(source)


async def test_a_missing_vault_and_a_wrong_key_fail_with_their_reason(tmp_path):
    key = create_key_file(tmp_path / "key", SystemEntropy())
    secrets = Secrets(VaultSecrets(tmp_path / "vault", key))
    with pytest.raises(Failed) as caught:
        await secrets.get("stripe")
    assert caught.value.code == "effects.vault_missing"
    Vault.create(tmp_path / "vault", create_key_file(tmp_path / "other", SystemEntropy()))
    with pytest.raises(Failed) as caught:
        await secrets.get("stripe")
    assert caught.value.code == "effects.vault_key"
