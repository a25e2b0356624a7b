"""Where the NATS servers are and who we are there: given by the node, never by a cell."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from cellule.errors import Rejected

SERVERS_MAX = 32
SCHEMES = ("nats", "tls", "ws", "wss")


@dataclass(frozen=True, slots=True)
class NatsOptions:
    """Servers in the order they are tried. `password` and `token` may be texts with `${secret:name}`."""

    servers: tuple[str, ...]
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.servers) <= SERVERS_MAX:
            raise Rejected(
                "effects.nats_servers", "{count} NATS servers are named; name 1 to {most}",
                count=len(self.servers), most=SERVERS_MAX,
            )  # fmt: skip
        for server in self.servers:
            _check_server(server)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """Read `CELLULE_NATS_SERVERS` (with commas), `_USER`, `_PASSWORD`, `_TOKEN`; None without servers."""
        servers = [part.strip() for part in environment.get("CELLULE_NATS_SERVERS", "").split(",")]
        named = tuple(server for server in servers if server)
        if not named:
            return None
        user, password, token = (
            environment.get(f"CELLULE_NATS_{part}", "") for part in ("USER", "PASSWORD", "TOKEN")
        )
        return cls(named, user, password, token)


def _check_server(server: str) -> None:
    """Refuse an address that is none, or that holds credentials: they would stand in logs and errors."""
    try:
        parts = urlsplit(server)
        is_address = parts.scheme in SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0
        has_credentials = parts.username is not None
    except ValueError:
        is_address, has_credentials = False, "@" in server
    if has_credentials:
        raise Rejected(
            "effects.nats_servers", "the address of a NATS server holds credentials",
            hint="Give user and password as options, the password as ${secret:name}.",
        )  # fmt: skip
    if not is_address:
        raise Rejected(
            "effects.nats_servers", "{server!r} is no address of a NATS server",
            server=server[:200], hint="Write nats://host:4222 or tls://host:4222.",
        )  # fmt: skip
