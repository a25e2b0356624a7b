"""Pictures of projects: small ones are made and described, and what was made is filed; by enzymes alone.

Two enzymes take the signal `/signals/image/thumbnail` and are bound at `/env/fs/projects`, which passes the
binding on to every picture below. What they make, they file by a signal of their own, for the next beat.
"""

from __future__ import annotations

import msgspec

from cellule import RETRY, App, EnzymeContext

app = App("studio")

PROJECTS = "/env/fs/projects"
ASSETS = "/data/assets"


class Thumbnail(msgspec.Struct, frozen=True):
    """A small picture: how wide and high it is."""

    width: int
    height: int


@app.enzyme("/signals/image/thumbnail", before=["resize_image"], access="ro")
def image_metadata(ctx: EnzymeContext, _signal: str | None, target: str | None) -> int | None:
    """Looks at the picture first; one that is not there yet is looked at again in the next beats."""
    picture = ctx.read(str(target))
    if picture is None:
        return RETRY
    if picture["width"] < 1 or picture["height"] < 1:
        raise ValueError(f"{target} is {picture['width']} x {picture['height']}")
    return None


@app.enzyme("/signals/image/thumbnail", writes=[ASSETS])
def resize_image(ctx: EnzymeContext, _signal: str | None, target: str | None) -> None:
    """Makes the small picture, and asks for it to be filed in the next beat."""
    picture = ctx.read(str(target))
    if picture is None:  # the other one asks for the next beat; both run again then
        return
    scale = max(picture["width"], picture["height"]) / 128
    small = Thumbnail(round(picture["width"] / scale), round(picture["height"] / scale))
    place = f"{ASSETS}/{str(target).rpartition('/')[2].partition('.')[0]}/thumbnail"
    ctx.write(place, small)
    ctx.signal("/signals/db/write", target=place, payload={"of": target})


@app.enzyme("/signals/db/write", writes=["/data/index"])
def db_writer(ctx: EnzymeContext, _signal: str | None, target: str | None) -> None:
    """Files what was made, as the beat before left it."""
    assert target is not None
    ctx.write(f"/data/index/{ctx.payload['of'].rpartition('/')[2]}", {"at": target, **ctx.read(target)})


@app.enzyme("/sig_cei", match="prefix", writes=["/log"])
def keep_diagnostics(ctx: EnzymeContext, _signal: str | None, _target: str | None) -> None:
    """Keeps what went wrong, where people look."""
    ctx.write(f"/log/{ctx.beat}", ctx.payload["text"])
