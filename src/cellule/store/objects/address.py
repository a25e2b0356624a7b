"""Where a remote object store is: a URL with options, and credentials apart from it.

`s3://bucket/prefix?region=eu-west-1&endpoint=http://127.0.0.1:9000`, `gs://bucket/prefix`,
`az://container/prefix?account_name=...`. Addresses are logged, shown and put into configuration files, so
they hold no credentials: those come from the environment or from `credentials`, and are never shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from cellule.errors import Rejected

SCHEMES = ("s3", "gs", "az")

_SECRET = re.compile(r"key|secret|token|password|sas|credential|certificate", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """A parsed address; `settings` are the driver's options by its names."""

    url: str
    settings: Mapping[str, str]
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def plain_http(self) -> bool:
        """Whether the endpoint is reached without TLS."""
        return self.settings.get("endpoint", "").startswith("http://")

    @classmethod
    def parse(cls, url: str, credentials: Mapping[str, str] | None = None) -> RemoteAddress:
        """Parse an address, refusing unknown schemes and credentials inside it."""
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.netloc or parts.fragment:
            raise _refused("it must read s3://bucket/prefix, gs://bucket/prefix or az://container/prefix")
        if "@" in parts.netloc or ":" in parts.netloc:
            raise _credentials("before the bucket")
        try:
            pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError as error:
            raise _refused("its options must read name=value&name=value") from error
        for name, _ in pairs:
            if _SECRET.search(name):
                raise _credentials(f"in the option {name}")
        if len(dict(pairs)) != len(pairs):
            raise _refused("an option stands in it twice")
        return cls(f"{parts.scheme}://{parts.netloc}{parts.path}", dict(pairs), dict(credentials or {}))


def _refused(reason: str) -> Rejected:
    return Rejected(
        "objects.address", "the object store's address is not understood: {reason}", reason=reason
    )


def _credentials(where: str) -> Rejected:
    return Rejected(
        "objects.credentials_in_address", "the object store's address holds credentials {where}", where=where,
        hint="Give credentials in the environment or as `credentials`; addresses are shown and logged.",
    )  # fmt: skip
