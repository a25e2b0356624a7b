"""Where messages may go: to subjects that are written out, that the grant lists, and not the server's own.

A cell that could publish to `$JS.API...` could delete streams; no grant allows that.
"""

from __future__ import annotations

import re

from cellule.effects.attempt import Attempt
from cellule.effects.grant_check import check_allowed
from cellule.effects.outcomes import Failed

_TOKEN = re.compile(r"[^\s.*>\x00-\x20\x7f]+")
_OWN = ("$", "_")


def check_subject(subject: str, attempt: Attempt) -> None:
    """`Failed` unless a message may be published to `subject`."""
    if not all(_TOKEN.fullmatch(token) for token in subject.split(".")):
        raise Failed(
            "effects.publish_subject",
            f"{subject!r} is no subject to publish to. Write words with dots between, without * and >.",
        )
    if subject.startswith(_OWN):
        raise Failed(
            "effects.publish_subject",
            f"{subject!r} belongs to the server. Subjects of messages do not begin with $ or _.",
        )
    check_allowed(attempt, "subject", subject)
