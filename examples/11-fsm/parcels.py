"""Parcels: a machine that a YAML file describes, its events and its carrier."""

from __future__ import annotations

import msgspec

from cellule import App

app = App("post")


@app.event(key="parcel_id")
class HandedIn(msgspec.Struct, frozen=True):
    """The sender has brought the parcel. The other events are the contract's own."""

    parcel_id: str


class Post(msgspec.Struct, frozen=True):
    """What the carrier is told."""

    parcel_id: str
    weight: int


class Posted(msgspec.Struct, frozen=True):
    """What the carrier answers."""

    code: str


app.effect("carrier.post", params=Post, receipt=Posted)
parcel = app.fsm("parcel.fsm.yaml")
