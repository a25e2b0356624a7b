"""The story of a picture, beat by beat."""

from __future__ import annotations

from typing import Any

import pytest
import thumbnails as example
from thumbnails import ASSETS, PROJECTS

from cellule.testing import World

PICTURE = f"{PROJECTS}/p1/img123.jpg"
THUMBNAIL = f"{ASSETS}/img123/thumbnail"


@pytest.fixture
def cellule_app() -> Any:
    return example.app


@pytest.fixture
def studio(world: World) -> World:
    """A world with one project and its bindings."""
    for name in ("image_metadata", "resize_image"):
        world.heartbeat.bind(PROJECTS, name, propagate=True)
    world.heartbeat.bind(ASSETS, "db_writer", propagate=True)
    world.heartbeat.write(PICTURE, {"width": 4_000, "height": 3_000})
    return world


def test_a_picture_is_made_small_in_one_beat_and_filed_in_the_next(studio: World) -> None:
    studio.signal("/signals/image/thumbnail", PICTURE)
    assert studio.agenda()[0].enzymes == ["image_metadata", "resize_image"]
    first = studio.beat()
    assert [(line.enzyme, line.code) for line in first.agenda] == [("image_metadata", 0), ("resize_image", 0)]
    assert studio.heartbeat.read(THUMBNAIL) == {"width": 128, "height": 96}
    assert studio.heartbeat.list("/data") == ["assets"]
    assert [(each.signal, each.target) for each in first.queued] == [("/signals/db/write", THUMBNAIL)]
    second = studio.beat()
    assert [line.enzyme for line in second.agenda] == ["db_writer"]
    filed = studio.heartbeat.read("/data/index/img123.jpg")
    assert filed == {"at": THUMBNAIL, "width": 128, "height": 96}


def test_a_signal_without_a_target_goes_to_all_that_are_registered_for_it(studio: World) -> None:
    studio.signal("/signals/image/thumbnail")
    assert studio.agenda()[0].enzymes == ["image_metadata", "resize_image"]


def test_a_binding_does_not_reach_what_it_is_taken_from(studio: World) -> None:
    studio.heartbeat.write(f"{PROJECTS}/secret/img7.jpg", {"width": 10, "height": 10})
    studio.heartbeat.unbind(f"{PROJECTS}/secret", "resize_image")
    studio.signal("/signals/image/thumbnail", f"{PROJECTS}/secret/img7.jpg")
    assert [line.enzyme for line in studio.beat().agenda] == ["image_metadata"]
    assert not studio.heartbeat.exists(f"{ASSETS}/img7")


def test_a_picture_that_is_not_there_is_nobodys_work(studio: World) -> None:
    studio.signal("/signals/image/thumbnail", f"{PROJECTS}/p1/none.jpg")
    assert studio.beat().agenda[0].no_match


def test_an_empty_node_is_looked_at_again_until_the_picture_has_come(studio: World) -> None:
    late = f"{PROJECTS}/p1/late.jpg"
    studio.heartbeat.write(late)
    studio.signal("/signals/image/thumbnail", late)
    assert studio.beat().queued[-1].kind == "retry"
    studio.heartbeat.write(late, {"width": 256, "height": 128})
    studio.settle()
    assert studio.heartbeat.read(f"{ASSETS}/late/thumbnail") == {"width": 128, "height": 64}


def test_a_broken_picture_stops_the_enzymes_behind_and_is_told(studio: World) -> None:
    broken = f"{PROJECTS}/p1/broken.jpg"
    studio.heartbeat.write(broken, {"width": 0, "height": 0})
    studio.signal("/signals/image/thumbnail", broken)
    beat = studio.beat()
    assert [(line.enzyme, line.code) for line in beat.agenda] == [("image_metadata", -2)]
    studio.settle()
    (name,) = studio.heartbeat.list("/log")
    assert "broken.jpg is 0 x 0" in studio.heartbeat.read(f"/log/{name}")
