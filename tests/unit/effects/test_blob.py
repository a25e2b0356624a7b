"""Blobs: what is put is got, and what does not fit is refused with a way out."""

from __future__ import annotations

import pytest

from cellule.effects.adapter import Adapter
from cellule.effects.blob.adapter import BlobGetAdapter, BlobPutAdapter
from cellule.effects.blob.types import BLOB_BYTES_MAX, BlobContent, BlobGet, BlobPut, BlobStored
from cellule.effects.outcomes import Failed
from cellule.values import Link, cid_of, encode
from cellule.values.schema import codec_for, derive

PUT, GET = BlobPutAdapter(), BlobGetAdapter()


def wire_round(value):
    """The value as it is after a journal has kept it."""
    codec = codec_for(derive(type(value), namespace="blob"))
    return codec.decode(codec.encode(value))


def test_both_are_adapters():
    assert isinstance(PUT, Adapter)
    assert isinstance(GET, Adapter)


async def test_what_is_put_is_got(make_attempt):
    attempt = make_attempt()
    stored = await PUT.perform(wire_round(BlobPut(data=b"\x00page", media="image/png")), attempt)
    assert wire_round(stored) == BlobStored(cid=cid_of(b"\x00page", "raw"), size=5, media="image/png")
    got = await GET.perform(wire_round(BlobGet(cid=stored.cid)), attempt)
    assert wire_round(got) == BlobContent(data=b"\x00page", size=5)


async def test_a_text_is_stored_as_utf8_and_twice_is_once(make_attempt):
    first = await PUT.perform(BlobPut(text="größer"), make_attempt())
    second = await PUT.perform(BlobPut(data="größer".encode()), make_attempt())
    assert first == second


@pytest.mark.parametrize("params", [BlobPut(), BlobPut(data=b"", text="")])
async def test_a_put_without_exactly_one_content_is_refused(params, make_attempt):
    with pytest.raises(Failed, match="exactly one") as refused:
        await PUT.perform(params, make_attempt())
    assert refused.value.code == "effects.blob_params"


async def test_an_empty_blob_is_a_blob(make_attempt):
    stored = await PUT.perform(BlobPut(data=b""), make_attempt())
    assert (await GET.perform(BlobGet(cid=stored.cid), make_attempt())).data == b""


async def test_a_blob_beyond_a_receipt_is_read_in_parts(make_attempt, blobs):
    whole = bytes(range(256)) * 8_000
    cid = await blobs.put(whole)
    with pytest.raises(Failed, match="offset and length") as refused:
        await GET.perform(BlobGet(cid=cid), make_attempt())
    assert refused.value.code == "effects.blob_size"
    parts = [
        await GET.perform(BlobGet(cid=cid, offset=at, length=BLOB_BYTES_MAX), make_attempt())
        for at in range(0, len(whole), BLOB_BYTES_MAX)
    ]
    assert b"".join(part.data for part in parts) == whole
    assert {part.size for part in parts} == {len(whole)}


async def test_a_part_beyond_the_end_is_empty(make_attempt, blobs):
    cid = await blobs.put(b"abc")
    assert (await GET.perform(BlobGet(cid=cid, offset=9, length=9), make_attempt())).data == b""


async def test_a_streamed_blob_is_got_whole(make_attempt, blobs):
    async def pieces():
        for piece in (b"one ", b"two ", b"three"):
            yield piece

    cid = await blobs.put(pieces())
    assert (await GET.perform(BlobGet(cid=cid), make_attempt())).data == b"one two three"


async def test_an_unknown_blob_fails_with_its_name(make_attempt):
    missing = cid_of(b"never put", "raw")
    with pytest.raises(Failed, match=str(missing)) as refused:
        await GET.perform(BlobGet(cid=missing), make_attempt())
    assert refused.value.code == "cas.not_found"


async def test_a_node_of_the_world_is_no_blob(make_attempt):
    with pytest.raises(Failed, match="no blob") as refused:
        await GET.perform(BlobGet(cid=cid_of(encode({"state": 1}))), make_attempt())
    assert refused.value.code == "effects.blob_codec"


def test_the_cid_of_a_receipt_is_a_link_so_that_collection_keeps_the_blob():
    value = codec_for(derive(BlobStored, namespace="blob")).encode(
        BlobStored(cid=cid_of(b"x", "raw"), size=1)
    )
    assert value == encode({"cid": Link(cid_of(b"x", "raw")), "size": 1})
