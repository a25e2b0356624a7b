"""`cellule schedule` and `cellule secret`."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cellule.effects.secrets.vault import Vault
from cellule.effects.secrets.vault_key import VaultKey

if TYPE_CHECKING:
    Cellule = Any

SECRET = "sk_live_of_the_bank"


def test_schedules_are_listed_previewed_paused_and_resumed(pay: Cellule) -> None:
    nightly, often = pay("schedule", "list", "--json").json["schedules"]
    assert (nightly["cron"], nightly["zone"], nightly["paused"]) == ("30 2 * * *", "Europe/Berlin", False)
    assert (often["every"], often["jitter"], often["value"]) == ("6h", "5m", {"note": "often"})
    assert "every 6h, up to 5m later" in " ".join(pay("schedule", "list").out.split())
    times = pay("schedule", "preview", "nightly", "-n", "2", "--after", "2026-10-24T12:00:00Z", "--json").json
    assert [each["local"] for each in times["times"]] == [
        "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00",
    ]  # fmt: skip
    done = pay("schedule", "pause", "nightly", "--why", "holidays", "--json").json
    assert (done["verb"], done["why"]) == ("schedule.pause", "holidays")
    assert pay("schedule", "list", "--json").json["schedules"][0]["paused"]
    assert "paused" in pay("schedule", "list").out
    assert pay("schedule", "pause", "nightly", "--json", code=1).error["code"] == "kernel.schedule_state"
    pay("schedule", "resume", "nightly")
    assert pay("schedule", "list", "--json").json["schedules"][0]["next"] is not None
    assert "2026-10-25" in pay("schedule", "preview", "nightly", "--after", "2026-10-24T12:00:00Z").out


def test_schedules_are_paused_beside_a_running_node(paying: Cellule) -> None:
    paying("schedule", "pause", "often", "--why", "quiet")
    assert paying("schedule", "list", "--json").json["schedules"][1]["paused"]


@pytest.mark.parametrize("verb", ["preview", "pause", "resume"])
def test_an_unknown_schedule_is_refused_with_those_like_it(pay: Cellule, verb: str) -> None:
    error = pay("schedule", verb, "nihgtly", "--json", code=1).error
    assert (error["code"], error["hint"]) == ("host.no_schedule", "Did you mean nightly?")


def test_a_schedule_is_triggered_and_made_up_for(pay: Cellule) -> None:
    sent = pay("schedule", "trigger", "nightly", "--why", "the report is missing", "--json").json
    assert (sent["verb"], sent["why"]) == ("schedule.trigger", "the report is missing")
    span = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-04T00:00:00Z")
    made = pay("schedule", "backfill", "nightly", *span, "--json").json
    assert (made["sent"], len(made["controls"])) == (3, 1)
    assert "no schedule" in pay("schedule", "trigger", "nihgtly", code=1).err
    assert "is no time" in pay("schedule", "backfill", "nightly", "--from", "x", "--to", "y", code=2).err


def test_a_preview_needs_a_time(pay: Cellule) -> None:
    told = pay("schedule", "preview", "nightly", "--after", "soon", "--json", code=2)
    assert told.error["code"] == "cli.usage"


def test_a_world_without_schedules_says_so(shop: Cellule) -> None:
    assert shop("schedule", "list").out.strip() == "world main has no schedules"


def test_secrets_are_set_listed_replaced_and_removed(
    empty: Cellule, tmp_path: Path, monkeypatch: Any
) -> None:
    key = tmp_path / "vault.key"
    made = empty("secret", "init", "--key-file", str(key)).out
    assert "CELLULE_VAULT_KEY_FILE" in made
    monkeypatch.setenv("CELLULE_VAULT_KEY_FILE", str(key))
    assert empty("secret", "list").out.strip() == "no secrets"
    assert empty("secret", "set", "bank", "--json", stdin=f"{SECRET}\n").json["new"]
    assert "replaced" in empty("secret", "set", "bank", stdin="another_value\n").out
    assert [each["name"] for each in empty("secret", "list", "--json").json["secrets"]] == ["bank"]
    vault = Vault.open(empty.data / "secrets.vault", VaultKey.of_file(key))
    assert vault.get("bank") == "another_value"
    assert "another_value" not in empty("secret", "list").out
    empty("secret", "remove", "bank")
    assert empty("secret", "list", "--json").json["secrets"] == []


def test_a_vault_opens_with_a_passphrase_too(empty: Cellule, monkeypatch: Any) -> None:
    monkeypatch.setenv("CELLULE_VAULT_PASSPHRASE", "correct horse battery")
    empty("secret", "init")
    empty("secret", "set", "bank", stdin=SECRET)
    monkeypatch.setenv("CELLULE_VAULT_PASSPHRASE", "wrong horse battery")
    error = empty("secret", "list", "--json", code=1).error
    assert error["code"] == "effects.vault_key"


def test_every_refusal_of_secrets_has_its_code(empty: Cellule, tmp_path: Path, monkeypatch: Any) -> None:
    key = tmp_path / "vault.key"
    assert empty("secret", "list", "--json", code=1).error["code"] == "effects.vault_missing"
    assert empty("secret", "init", "--json", code=1).error["code"] == "effects.vault_key_missing"
    there = tmp_path / "no folder" / "vault.key"
    assert empty("secret", "init", "--key-file", str(there), "--json", code=1).error["code"] == "cli.output"
    empty("secret", "init", "--key-file", str(key))
    assert empty("secret", "init", "--json", code=1).error["code"] == "effects.vault_exists"
    assert empty("secret", "list", "--json", code=1).error["code"] == "effects.vault_key_missing"
    monkeypatch.setenv("CELLULE_VAULT_KEY_FILE", str(key))
    refused = {
        ("set", "Bank"): "effects.secret_name",
        ("remove", "Bank"): "effects.secret_name",
        ("remove", "bank"): "effects.secret_unknown",
    }
    for arguments, code in refused.items():
        assert empty("secret", *arguments, "--json", code=1, stdin=SECRET).error["code"] == code
    short = empty("secret", "set", "bank", "--json", code=1, stdin="x")
    assert short.error["code"] == "effects.secret_unfit"
    assert empty("secret", "set", "bank", "a_value_on_the_line", "--json", code=None, stdin=SECRET).code == 2


COMMANDS = (
    "world list", "world show", "cell list", "cell show order o1", "cell history order o1",
    "cell history order tired1", "cell export order broke1", "effect list", "effect repair --dry-run",
    "stuck", "stuck --waiting", "schedule list", "schedule preview nightly", "why order/o1@2",
    "why order/tired1@2", "why order/broke1@2", "why id-tired1 --effects", "verify", "check", "doctor",
    "journal tail --no-follow -n 9999", "secret list", "universe list",
)  # fmt: skip


def test_no_command_file_or_record_holds_a_secret(
    pay: Cellule, made_pay: tuple[Path, str], vault_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adapters used the secret, told it in notes, and failed with it in their errors."""
    monkeypatch.setenv("CELLULE_VAULT_KEY_FILE", str(vault_key))
    texts = {"the node": made_pay[1]}
    height = pay("world", "show", "--json").json["height"]
    effects = pay("effect", "list", "--json").json["effects"]
    more = [f"journal show 1..{height}", *(f"effect show {each['id']}" for each in effects)]
    for command in (*COMMANDS, *more):
        for form in ((), ("--json",)):
            told = pay(*command.split(), *form, code=None)
            texts[f"{command} {form}"] = told.out + told.err
    refused = pay("effect", "approve", effects[1]["id"], "--json", code=1)
    texts["a refusal"] = refused.out + refused.err
    files = {path: path.read_bytes() for path in pay.data.rglob("*") if path.is_file()}
    assert (pay.data / "secrets.vault") in files
    leaking = [name for name, text in texts.items() if SECRET in text]
    leaking += [str(path) for path, data in files.items() if SECRET.encode() in data]
    assert leaking == []
    assert any("<secret bank>" in text for text in texts.values())
    with sqlite3.connect(pay.data / "cellule.db") as database:
        rows = "".join(database.iterdump())
    database.close()
    assert SECRET not in rows
    assert SECRET.encode().hex().upper() not in rows
