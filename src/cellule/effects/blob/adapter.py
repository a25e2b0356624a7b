"""The adapters `blob.put` and `blob.get`: a cell's way to bytes that are too long for a state or an event.

Both are safe to repeat: the same bytes are the same blob. A blob lives as long as something links to it, so a
cell that wants to keep one keeps its CID in its state.

Rejected: `blob.get` of DAG-CBOR nodes. The world's own snapshots and frames are such nodes.
"""

from __future__ import annotations

from typing import Literal

from cellule.effects.attempt import Attempt
from cellule.effects.blob.types import BLOB_BYTES_MAX, BlobContent, BlobGet, BlobPut, BlobStored
from cellule.effects.kinds import STANDARD
from cellule.effects.outcomes import Failed
from cellule.errors import Corrupted, Rejected


class BlobPutAdapter:
    """Performs `blob.put`."""

    kind: Literal["blob.put"] = "blob.put"
    params = BlobPut
    receipt = BlobStored
    limits = STANDARD["blob_put"].limits

    async def perform(self, params: BlobPut, attempt: Attempt) -> BlobStored:
        """Store the bytes and name them."""
        if (params.data is None) == (params.text is None):
            raise Failed(
                "effects.blob_params", "blob.put takes either data or text. Give exactly one of them."
            )
        data = params.data if params.text is None else params.text.encode()
        assert data is not None
        return BlobStored(cid=await attempt.blobs.put(data), size=len(data), media=params.media)

    async def close(self) -> None:
        """Nothing is kept between attempts."""


class BlobGetAdapter:
    """Performs `blob.get`."""

    kind: Literal["blob.get"] = "blob.get"
    params = BlobGet
    receipt = BlobContent
    limits = STANDARD["blob_get"].limits

    async def perform(self, params: BlobGet, attempt: Attempt) -> BlobContent:
        """Read the blob, verified, and answer the part that was asked for."""
        if params.cid.codec != "raw":
            raise Failed("effects.blob_codec", f"{params.cid} is no blob. Only what blob.put stored is read.")
        try:
            whole = await attempt.blobs.get(params.cid)
        except (Rejected, Corrupted) as error:
            raise Failed(error.code, str(error)) from error
        end = len(whole) if params.length is None else params.offset + params.length
        part = whole[params.offset : end]
        if len(part) > BLOB_BYTES_MAX:
            raise Failed(
                "effects.blob_size",
                f"{len(part)} bytes do not fit a receipt, which takes {BLOB_BYTES_MAX}. "
                "Read parts of the blob with offset and length, or pass on its CID.",
            )
        return BlobContent(data=part, size=len(whole))

    async def close(self) -> None:
        """Nothing is kept between attempts."""
