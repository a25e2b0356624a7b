"""Objects in S3, Google Cloud Storage or Azure, through obstore; the only module that imports it.

Large bodies are uploaded in parts and become visible as a whole when the last part is acknowledged; a
crash in between leaves hidden parts that a lifecycle rule of the bucket should remove. The driver retries
what is safe to retry, within `RemoteOptions`; after that the errors here say `Unavailable`.

Rejected: chaining the driver's errors. Their text holds whole requests and answers, and those may hold
credentials; status, error code and a shortened first line are kept instead.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import obstore
from obstore import exceptions
from obstore.store import from_url

from cellule.errors import CelluleError, OutcomeUnknown, Rejected, Unavailable
from cellule.store.address import BucketAddress, parse_bucket
from cellule.store.object_store import (
    WHOLE_BYTES_MAX,
    ObjectInfo,
    ObjectPage,
    Source,
    check_list,
    check_name,
    closed,
    not_found,
    too_large,
)
from cellule.store.objects.options import RemoteOptions
from cellule.store.resource import Resource

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta
    from obstore.store import ObjectStore as Driver

PIECE_BYTES = 1_000_000
REQUEST_TIMEOUT = timedelta(hours=6)
EXIT_PAUSE_S = 0.05

_BUCKET_MISSING = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist|ContainerBeingDeleted")
_REFUSED = re.compile(r"\b(401 Unauthorized|403 Forbidden)\b")
_ERROR_CODE = re.compile(r"<Code>(\w+)</Code>")


class RemoteObjects(Resource):
    """An object store behind a network; made by `open`."""

    remote = True

    def __init__(self, driver: Driver, address: BucketAddress, options: RemoteOptions) -> None:
        self._driver = driver
        self._address = address
        self._options = options
        self._closed = False

    def __repr__(self) -> str:
        return f"RemoteObjects({self._address.text!r})"

    @classmethod
    def open(
        cls,
        url: str | BucketAddress,
        *,
        credentials: Mapping[str, str] | None = None,
        options: RemoteOptions | None = None,
    ) -> Self:
        """Prepare a store from its address (see `store/address.py`); nothing is sent yet.

        `credentials` are the driver's options by name (`access_key_id`, `secret_access_key`, `account_key`,
        `service_account_path`, ...); what is not given is taken from the environment.
        """
        address = parse_bucket(url, credentials) if isinstance(url, str) else url
        options = options or RemoteOptions()
        return cls(_driver(address, options), address, options)

    async def put(self, name: str, data: Source) -> None:
        """Store a body; see the contract."""
        check_name(name)
        self._check_open()
        source = _Source(data)
        head, rest = await source.split(self._options.part_bytes)
        try:
            await obstore.put_async(
                self._driver,
                name,
                head if rest is None else rest,
                use_multipart=rest is not None,
                chunk_size=self._options.part_bytes,
                max_concurrency=self._options.parts_in_flight,
            )
        except (exceptions.BaseError, OSError, ValueError) as error:
            if source.error is not None:
                raise source.error from None
            raise self._unknown(name, error) from None

    async def get(self, name: str, *, bytes_max: int = WHOLE_BYTES_MAX) -> bytes:
        """Return a whole body; see the contract."""
        check_name(name)
        result = await self._request(name)
        size = result.meta["size"]
        if size > bytes_max:
            raise too_large(name, size, bytes_max)
        try:
            body = bytes(await result.bytes_async())
        except (exceptions.BaseError, OSError) as error:
            raise self._mapped("get", name, error) from None
        _check_whole(name, len(body), size)
        return body

    async def stream(self, name: str) -> AsyncGenerator[bytes, None]:
        """Yield a body in pieces; see the contract."""
        check_name(name)
        result = await self._request(name)
        size, seen = result.meta["size"], 0
        pieces = aiter(result.stream(min_chunk_size=PIECE_BYTES))
        while True:
            try:
                piece = await anext(pieces, b"")
            except (exceptions.BaseError, OSError) as error:
                raise self._mapped("get", name, error) from None
            if not piece:
                break
            seen += len(piece)
            yield piece
        _check_whole(name, seen, size)

    async def size(self, name: str) -> int:
        """Return the size of a body; see the contract."""
        check_name(name)
        self._check_open()
        try:
            return (await obstore.head_async(self._driver, name))["size"]
        except FileNotFoundError:
            # An answer to HEAD has no text, so it cannot tell a missing bucket from a missing object.
            return (await self._request(name)).meta["size"]
        except (exceptions.BaseError, OSError) as error:
            raise self._mapped("size", name, error) from None

    async def delete(self, name: str) -> None:
        """Remove a body; see the contract."""
        check_name(name)
        self._check_open()
        try:
            await obstore.delete_async(self._driver, name)
        except (exceptions.BaseError, OSError) as error:
            mapped = self._mapped("delete", name, error)
            if mapped.code != "objects.not_found":
                raise mapped from None

    async def list(self, prefix: str, *, limit: int, start_after: str = "") -> ObjectPage:
        """Return a page of names; see the contract."""
        check_list(prefix, limit)
        self._check_open()
        folder = prefix.removesuffix("/") or None
        stream = obstore.list(self._driver, folder, offset=start_after or None, chunk_size=limit + 1)
        try:
            found: Sequence[ObjectMeta] = await anext(aiter(stream), [])
        except (exceptions.BaseError, OSError) as error:
            raise self._mapped("list", prefix, error) from None
        # Some servers name an object twice while it is being replaced.
        items = [ObjectInfo(name, size) for name, size in {e["path"]: e["size"] for e in found}.items()]
        if any(first.name >= second.name for first, second in pairwise(items)):
            raise Unavailable(
                "objects.order", "the object store {store} does not list names in order",
                store=self._address.text, hint="Use a store that lists by name, as S3 does.",
            )  # fmt: skip
        return ObjectPage(items[:limit], len(found) > limit)

    async def close(self) -> None:
        """Refuse further calls.

        The pause lets the driver's threads let go of their last results: one that still holds some when
        the interpreter ends aborts the process (measured: one exit in four right after an error).
        """
        self._closed = True
        await asyncio.sleep(EXIT_PAUSE_S)

    async def _request(self, name: str) -> GetResult:
        self._check_open()
        try:
            return await obstore.get_async(self._driver, name)
        except (exceptions.BaseError, OSError) as error:
            raise self._mapped("get", name, error) from None

    def _check_open(self) -> None:
        if self._closed:
            raise closed()

    def _mapped(self, verb: str, name: str, error: Exception) -> CelluleError:
        """Turn a driver's error into ours, without its text."""
        text = str(error)
        if _BUCKET_MISSING.search(text):
            return Unavailable(
                "objects.no_bucket", "the bucket or container of {store} does not exist",
                store=self._address.text, hint="Create it, or correct the address.",
            )  # fmt: skip
        if isinstance(error, FileNotFoundError) and verb != "put":
            # For a put it is the upload of parts that the server forgot, by a restart for example.
            return not_found(name)
        # A listing that is refused comes as an error of no kind: its text tells.
        refused = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError)
        if refused or _REFUSED.search(text):
            return Unavailable(
                "objects.denied", "the object store {store} refused {verb} of {name!r}: {reason}",
                store=self._address.text, verb=verb, name=name, reason=self._reason(text),
                hint="Check the credentials and what they allow.",
            )  # fmt: skip
        return Unavailable(
            "objects.remote", "{verb} of {name!r} in {store} failed: {reason}",
            verb=verb, name=name, store=self._address.text, reason=self._reason(text),
            hint="Check endpoint, region and network, then retry.",
        )  # fmt: skip

    def _unknown(self, name: str, error: Exception) -> CelluleError:
        """A failed upload: refused before it began, or of unknown outcome."""
        mapped = self._mapped("put", name, error)
        if mapped.code != "objects.remote":
            return mapped
        return OutcomeUnknown(
            "objects.outcome_unknown", "it is unknown whether the object {name} is durable: {reason}",
            name=name, reason=mapped.fields["reason"], hint="Put it again.",
        )  # fmt: skip

    def _reason(self, text: str) -> str:
        """The first line without markup, queries of URLs and credentials, and the server's error code."""
        line = re.sub(r"\?\S*", "", text.partition("\n")[0].partition("<")[0])[:300].strip()
        for secret in self._address.credentials.values():
            line = line.replace(secret, "***") if secret else line
        code = _ERROR_CODE.search(text)
        return f"{line} ({code[1]})" if code else line


class _Source:
    """A body to upload; keeps the error of its iterator, which must reach the caller as it is."""

    def __init__(self, data: Source) -> None:
        self._data = data
        self.error: BaseException | None = None

    async def split(self, part_bytes: int) -> tuple[bytes, AsyncIterator[bytes] | None]:
        """Return the whole body if it fits one part, else an iterator over all of it."""
        if isinstance(self._data, bytes):
            return (self._data, None) if len(self._data) <= part_bytes else (b"", _pieces(self._data))
        head = bytearray()
        async for piece in self._data:
            head += piece
            if len(head) > part_bytes:
                return b"", self._all(bytes(head), self._data)
        return bytes(head), None

    async def _all(self, head: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        yield head
        try:
            async for piece in rest:
                if piece:
                    yield piece
        except Exception as error:
            self.error = error
            raise


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]


def _check_whole(name: str, seen: int, size: int) -> None:
    if seen != size:
        raise Unavailable(
            "objects.cut", "the object {name} ended after {seen} of {size} bytes",
            name=name, seen=seen, size=size, hint="Read it again.",
        )  # fmt: skip


def _driver(address: BucketAddress, options: RemoteOptions) -> Driver:
    # Its overloads tell the kinds of stores apart by their options; here the address decides.
    make: Callable[..., Driver] = from_url
    try:
        return make(
            address.text,
            config={**address.settings, **address.credentials},
            client_options={
                "allow_http": address.is_plain_http,
                "connect_timeout": timedelta(milliseconds=options.connect_timeout_ms),
                "read_timeout": timedelta(milliseconds=options.stall_timeout_ms),
                "timeout": REQUEST_TIMEOUT,
            },
            retry_config={
                "max_retries": options.retries_max,
                "retry_timeout": timedelta(milliseconds=options.retry_for_ms),
                "backoff": {
                    "init_backoff": timedelta(milliseconds=options.backoff_min_ms),
                    "max_backoff": timedelta(milliseconds=options.backoff_max_ms),
                    "base": 2,
                },
            },
        )
    except (exceptions.BaseError, ValueError, TypeError) as error:
        kind = type(error).__name__
        raise Rejected(
            "objects.configuration", "the object store {store} cannot be configured: {kind}",
            store=address.text, kind=kind, names=sorted({*address.settings, *address.credentials}),
            hint="Check the names and values of its options.",
        ) from None  # fmt: skip
