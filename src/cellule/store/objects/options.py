"""How patient a remote object store is, and how much it sends at once."""

from __future__ import annotations

from dataclasses import dataclass

from cellule.errors import Rejected

PART_BYTES_MIN = 5 * 1024 * 1024
"""What S3 asks of every part but the last."""


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """How long to wait and how much to send at once.

    A transfer may take hours; it fails once nothing moved for `stall_timeout_ms`. Memory for one upload
    is at most `part_bytes * parts_in_flight`; a body has at most 10,000 parts.
    """

    connect_timeout_ms: int = 5_000
    stall_timeout_ms: int = 30_000
    retries_max: int = 6
    retry_for_ms: int = 60_000
    backoff_min_ms: int = 100
    backoff_max_ms: int = 5_000
    part_bytes: int = 8_000_000
    parts_in_flight: int = 4

    def __post_init__(self) -> None:
        """Refuse what the driver would fail at only in the middle of a retry or an upload."""
        times = (self.connect_timeout_ms, self.stall_timeout_ms, self.retry_for_ms, self.backoff_min_ms)
        if min(times) < 1 or self.retries_max < 0 or self.backoff_max_ms <= self.backoff_min_ms:
            raise _bad_options("times must be positive, and backoff_max_ms above backoff_min_ms")
        if self.part_bytes < PART_BYTES_MIN or self.parts_in_flight < 1:
            raise _bad_options(f"part_bytes must be {PART_BYTES_MIN} or more, and parts_in_flight 1 or more")


def _bad_options(reason: str) -> Rejected:
    return Rejected("objects.options", "the options of the object store are wrong: {reason}", reason=reason)
