"""The command line under test: as a real process, in this process for speed, and against a running owner."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from cellule.cli.main import app as cellule_app

SHOP = Path(__file__).parent / "cli_shop.py"
PAY = Path(__file__).parents[2] / "node_apps" / "pay.py"
SECRET = "sk_live_of_the_bank"
TIMEOUT_S = 60


@dataclass(frozen=True)
class Answer:
    """What a command wrote, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> dict[str, Any]:
        return json.loads(self.err)["error"]


class Cellule:
    """The command line on one folder."""

    def __init__(self, data: Path, app: Path = SHOP) -> None:
        self.data = data
        self.app = f"{app}:app"

    def __call__(self, *arguments: str, stdin: str | None = None, code: int | None = 0) -> Answer:
        """Run in this process."""
        result = CliRunner().invoke(cellule_app, ["--data", str(self.data), *arguments], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return checked(Answer(result.exit_code, result.stdout, result.stderr), code)

    def process(self, *arguments: str, code: int | None = 0, **options: Any) -> Answer:
        """Run as a process of its own."""
        done = subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            **options,
        )
        return checked(Answer(done.returncode, done.stdout, done.stderr), code)

    def command(self, *arguments: str) -> list[str]:
        return [str(Path(sys.executable).parent / "cellule"), "--data", str(self.data), *arguments]

    def start(self, *arguments: str, **options: Any) -> Started:
        """Start a process that goes on."""
        return Started(self.command(*arguments), **options)


class Started:
    """A running command; its output is read as it comes, so that it never waits for a reader."""

    def __init__(self, command: list[str], **options: Any) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, bufsize=1, **options)
        self._lines: dict[str, Queue[str | None]] = {"out": Queue(), "err": Queue()}
        streams = {"out": self.process.stdout, "err": self.process.stderr}
        self._readers = [Thread(target=self._read, args=row) for row in streams.items()]
        for reader in self._readers:
            reader.start()

    def line(self, stream: str = "out") -> str:
        """The next line of a stream."""
        line = self._lines[stream].get(timeout=TIMEOUT_S)
        assert line is not None, "the process ended: " + "".join(self.rest("err"))
        return line

    def json(self) -> Any:
        return json.loads(self.line())

    def rest(self, stream: str = "out") -> list[str]:
        """All lines up to the end of the process."""
        return list(iter(lambda: self._lines[stream].get(timeout=TIMEOUT_S), None))

    def end(self, sign: int = signal.SIGINT) -> int:
        """Ask the process to end, and return how it did."""
        if self.process.poll() is None:
            self.process.send_signal(sign)
        return self.process.wait(TIMEOUT_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT_S)
        for reader in self._readers:
            reader.join()

    def _read(self, name: str, stream: Any) -> None:
        with stream:
            for line in stream:
                self._lines[name].put(line)
        self._lines[name].put(None)


def checked(answer: Answer, code: int | None) -> Answer:
    if code is not None:
        assert answer.code == code, f"exit {answer.code}\n{answer.out}\n{answer.err}"
    return answer


@pytest.fixture
def empty(tmp_path: Path) -> Cellule:
    """A folder without data."""
    return Cellule(tmp_path / "data")


@pytest.fixture(scope="session")
def made_shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped folder with one world: one order paid in full, one open."""
    shop = Cellule(tmp_path_factory.mktemp("made") / "data")
    shop("world", "create", "main", "--app", shop.app)
    shop("event", "send", "Placed", '{"order_id": "o1", "total": 3}', "--id", "p1")
    shop("event", "send", "Paid", '{"order_id": "o1", "amount": 3}')
    shop("event", "send", "Placed", '{"order_id": "o2", "total": 9}')
    return shop.data


@pytest.fixture
def shop(empty: Cellule, made_shop: Path) -> Cellule:
    """A copy of it for one test."""
    shutil.copytree(made_shop, empty.data)
    return empty


@pytest.fixture
def running(shop: Cellule) -> Iterator[Cellule]:
    """The same folder, owned by a node in another process."""
    owner = shop.start("--json", "--app", shop.app, "dev", "--no-reload")
    try:
        assert owner.json()["kind"] == "ready"
        yield shop
        assert owner.end(signal.SIGTERM) == 0
    finally:
        owner.close()


@pytest.fixture(scope="session")
def vault_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the key of the vaults of these tests is."""
    return tmp_path_factory.mktemp("keys") / "vault.key"


@pytest.fixture(scope="session")
def made_pay(tmp_path_factory: pytest.TempPathFactory, vault_key: Path) -> tuple[Path, str]:
    """A stopped folder whose node performed effects: settled, parked, retrying and given up ones.

    Also all that its node wrote.
    """
    pay = Cellule(tmp_path_factory.mktemp("paid") / "data", PAY)
    with pytest.MonkeyPatch.context() as settings:
        pay("secret", "init", "--key-file", str(vault_key))
        settings.setenv("CELLULE_VAULT_KEY_FILE", str(vault_key))
        pay("secret", "set", "bank", stdin=SECRET + "\n")
        node = pay.start("--json", "--app", pay.app, "dev", "--no-reload")
        try:
            lines = [node.json()]
            for order, cents, how, story in (
                ("o1", 5, "charge", "s1"), ("big", 5_000, "charge", "s2"), ("later1", 5, "charge", "s2"),
                ("m", 5, "mail", "s2"), ("t", 5, "timer", "s2"), ("tired1", 5, "charge", "s3"),
                ("broke1", 5, "charge", "s3"),
            ):  # fmt: skip
                value = json.dumps({"order": order, "cents": cents, "how": how})
                pay("event", "send", "Placed", value, "--id", f"id-{order}", "--correlation", story)
            wanted = {("receipt", "o1"), ("receipt", "tired1"), ("receipt", "broke1")}
            wanted |= {("attempt", "pay.charge"), ("attempt", "pay.mail")}
            while wanted:
                lines.append(node.json())
                wanted.discard((lines[-1]["kind"], lines[-1].get("key")))
                wanted.discard((lines[-1]["kind"], lines[-1].get("effect")))
            assert node.end() == 0
            told = json.dumps(lines) + "".join(node.rest() + node.rest("err"))
        finally:
            node.close()
    return pay.data, told


@pytest.fixture
def pay(tmp_path: Path, made_pay: tuple[Path, str]) -> Cellule:
    """A copy of it for one test."""
    shutil.copytree(made_pay[0], tmp_path / "data")
    return Cellule(tmp_path / "data", PAY)


@pytest.fixture
def paying(pay: Cellule, vault_key: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cellule]:
    """The same folder, owned by a node in another process that performs effects."""
    monkeypatch.setenv("CELLULE_VAULT_KEY_FILE", str(vault_key))
    owner = pay.start("--json", "--app", pay.app, "dev", "--no-reload")
    try:
        assert owner.json()["kind"] == "ready"
        yield pay
        assert owner.end(signal.SIGTERM) == 0
    finally:
        owner.close()


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "CELLULE_DATA", "CELLULE_APP", "CELLULE_WORLD", "CELLULE_UNIVERSE", "CELLULE_DEV_PARENT",
        "CELLULE_VAULT_KEY_FILE", "CELLULE_VAULT_PASSPHRASE",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
