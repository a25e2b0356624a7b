"""Worlds of one workflow; at its end each is proven to restore and to repeat."""

from __future__ import annotations

import pytest

from tests.support.workflows import Shop


@pytest.fixture
def shop_of():
    """Makes the world of a workflow."""
    made: list[Shop] = []

    def make(function, **options):
        made.append(Shop(function, **options))
        return made[-1]

    yield make
    for each in made:
        each.replays()
