"""What a server's error means: another try may help, or none will. Its text is passed on scrubbed and cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cellule.effects.attempt import Attempt
from cellule.effects.http.retry_after import retry_after_s
from cellule.effects.outcomes import Failed, Retry

ERROR_BYTES_MAX = 64_000
ERROR_CHARS_MAX = 300
_MAY_PASS = {408, 409, 425, 429}
_WILL_NOT_PASS = {"insufficient_quota", "billing_hard_limit_reached"}


def outcome_of(
    status: int, headers: Mapping[str, str], body: bytes, attempt: Attempt, now_ns: int
) -> Retry | Failed:
    """Return what to raise for an answer with this status."""
    error = _error(body)
    said = f"the server answered {status}: {_said(error, attempt)}"
    if (status in _MAY_PASS or status >= 500) and _code(error) not in _WILL_NOT_PASS:
        return Retry(said, retry_after_s(headers, now_ns))
    return Failed("effects.llm_refused", said)


def outcome_in_stream(error: Any, attempt: Attempt) -> Retry | Failed:
    """Return what to raise for an error that came in the place of the answer's next piece."""
    said = f"the server stopped its answer: {_said(error, attempt)}"
    if _code(error) in _WILL_NOT_PASS or (
        isinstance(error, dict) and error.get("type") == "invalid_request_error"
    ):
        return Failed("effects.llm_refused", said)
    return Retry(said)


def _error(body: bytes) -> Any:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body.decode(errors="replace")
    return document.get("error", document) if isinstance(document, dict) else document


def _said(error: Any, attempt: Attempt) -> str:
    text = error.get("message") if isinstance(error, dict) else error
    return attempt.scrub(str(text or "nothing"))[:ERROR_CHARS_MAX]


def _code(error: Any) -> str:
    return str(error.get("code") or error.get("type") or "") if isinstance(error, dict) else ""
