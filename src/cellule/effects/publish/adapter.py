"""The adapter `event.publish`: one message to JetStream, acknowledged by the stream that stored it.

Every attempt sends the same `Nats-Msg-Id`, so a message that was stored but not acknowledged is not stored
again within the stream's duplicate window. An idempotency key is unique in its world only and a stream is
shared, so a key that a step chose goes out with the world's id before it; an intent's id goes out as it is.
No grant allows subjects of the server: a cell that could publish to `$JS.API...` could delete streams.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from cellule.effects.adapter_limits import AdapterLimits
from cellule.effects.attempt import Attempt
from cellule.effects.header_text import header_key
from cellule.effects.kinds import limits_of
from cellule.effects.outcomes import Failed, Retry
from cellule.effects.publish.connection import SharedConnection
from cellule.effects.publish.options import NatsOptions
from cellule.effects.publish.types import EventPublish, EventPublished
from cellule.errors import Rejected
from cellule.values.cid import Cid

if TYPE_CHECKING:
    from nats.aio.client import Client
from cellule.effects.grant_check import check_allowed

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


ACK_S = 5.0
MESSAGE_ID = "Nats-Msg-Id"
_OURS = frozenset({MESSAGE_ID.lower(), "nats-expected-stream"})
_HEADER_NAME = re.compile(r"[!-9;-~]+")
_HEADER_VALUE = re.compile(r"(\S([^\x00-\x1f\x7f]*\S)?)?")


class NatsAdapter:
    """Publishes over one shared connection; `Rejected` when the package `nats` is missing."""

    kind: Literal["event.publish"] = "event.publish"
    params = EventPublish
    receipt = EventPublished

    def __init__(self, options: NatsOptions, *, limits: AdapterLimits | None = None) -> None:
        self.limits = limits_of("publish", limits)
        self._connection = SharedConnection(options)

    async def perform(self, params: EventPublish, attempt: Attempt) -> EventPublished:
        """Publish once and wait for the stream's acknowledgement."""
        check_subject(params.subject, attempt)
        check_headers(params.headers)
        client = await self._connection.get(attempt)
        return await self._published(client, params, attempt)

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def _published(self, client: Client, params: EventPublish, attempt: Attempt) -> EventPublished:
        import nats.errors
        import nats.js.errors

        headers = {MESSAGE_ID: message_id(attempt), **params.headers}
        try:
            stored = await client.jetstream().publish(
                params.subject, params.payload, timeout=min(ACK_S, attempt.timeout_s),
                stream=params.stream, headers=headers,
            )  # fmt: skip
        except nats.js.errors.NoStreamResponseError:
            raise await self._no_stream(client, params.subject) from None
        except nats.js.errors.APIError as error:
            raise _refused(error.code, error.description) from error
        except nats.errors.MaxPayloadError as error:
            raise Failed(
                "effects.publish_size",
                f"{len(params.payload)} bytes are more than the server takes ({client.max_payload}). "
                "Publish a CID of blob.put, or raise max_payload there.",
            ) from error
        except nats.errors.TimeoutError:
            raise self._unanswered(params.subject) from None
        except (OSError, nats.errors.Error) as error:
            raise Retry(f"the connection to NATS was lost: {type(error).__name__}") from error
        return EventPublished(stream=stored.stream, sequence=stored.seq, duplicate=bool(stored.duplicate))

    async def _no_stream(self, client: Client, subject: str) -> Retry | Failed:
        """Nobody answered: because no stream listens, or because one has no leader at the moment."""
        import nats.errors
        import nats.js.errors

        try:
            stream = await client.jsm(timeout=ACK_S).find_stream_name_by_subject(subject)
        except nats.js.errors.NotFoundError:
            return Failed(
                "effects.publish_no_stream",
                f"No stream listens to {subject!r}. Add one: nats stream add NAME --subjects '{subject}'.",
            )
        except (OSError, nats.errors.Error) as error:
            return Retry(f"JetStream does not answer: {type(error).__name__}")
        return Retry(f"the stream {stream} takes no messages at the moment")

    def _unanswered(self, subject: str) -> Retry | Failed:
        if self._connection.forbids(subject):
            return Failed(
                "effects.publish_forbidden",
                f"The NATS server does not let this node publish to {subject!r}. Permit it there.",
            )
        return Retry(f"no stream acknowledged the message within {ACK_S:g} s")


def check_headers(headers: Mapping[str, str]) -> None:
    """`Failed` when a header would not arrive as it is, or says what a part of the request says."""
    names = [name.lower() for name in headers]
    if len(set(names)) < len(names):
        raise Failed("effects.publish_headers", "A header is given twice, in different cases. Give it once.")
    for name, value in headers.items():
        if name.lower() in _OURS:
            raise Failed(
                "effects.publish_headers",
                f"The header {name!r} is made from the request: give its key=... and stream=... instead.",
            )
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise Failed(
                "effects.publish_headers",
                f"The header {name!r} cannot be sent. Names are printable ASCII without spaces and colons, "
                "values have one line without spaces around it.",
            )


def message_id(attempt: Attempt) -> str:
    """What the server tells repeated messages by."""
    try:
        Cid.parse(attempt.key)
    except Rejected:
        return f"{attempt.world}/{header_key(attempt.key)}"
    return attempt.key


def _refused(status: int | None, description: str | None) -> Retry | Failed:
    said = f"the stream answered {status}: {description}"
    return Retry(said) if status is None or status >= 500 else Failed("effects.publish_refused", said)
