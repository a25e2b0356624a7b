"""Events of Cellule itself as Python classes, for reducers that subscribe to them."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from cellule.kernel.manifest.system import CASCADE_STOPPED, STEP_FAILED, WORLD_STARTED

Count = Annotated[int, msgspec.Meta(ge=0)]


class WorldStarted(msgspec.Struct, frozen=True):
    """The first event of every world."""


class StepFailed(msgspec.Struct, frozen=True):
    """A step failed; `height` is its record, `cause` the event it handled."""

    module: str
    key: bytes
    height: Count
    cause: Count
    code: str
    text: str


class CascadeStopped(msgspec.Struct, frozen=True):
    """An event was too many emits away from the outside and was not delivered."""

    module: str
    key: bytes
    height: Count
    depth: Count
    schema: str


SYSTEM_NAMES: Final = {WorldStarted: WORLD_STARTED, StepFailed: STEP_FAILED, CascadeStopped: CASCADE_STOPPED}
