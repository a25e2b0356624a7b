"""The pytest plugin: `world` and `make_world`, whose worlds are replayed when the test ends.

A project gives its app by a fixture:

    @pytest.fixture
    def app():
        return shop.app

Whatever a test did, at its end the journal of each of its worlds must restore to identical bytes and verify
by running the steps again. `pytest --cellule-live` runs all apps as they stand, for debuggers and coverage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from cellule.errors import Rejected

if TYPE_CHECKING:
    from cellule.testing.world import World


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options."""
    parser.getgroup("cellule").addoption(
        "--cellule-live",
        action="store_true",
        default=False,
        help="run the reducers of testing worlds as they stand, for debuggers and coverage",
    )


@pytest.fixture
def make_world(request: pytest.FixtureRequest) -> Iterator[Callable[..., World]]:
    """Make worlds of the project's `app`, or of the app given; each is replayed when the test ends."""
    from cellule.testing.world import World

    made: list[World] = []

    def make(app: Any = None, **options: Any) -> World:
        if request.config.getoption("--cellule-live", default=False):
            options.setdefault("live", True)
        made.append(World(_project_app(request) if app is None else app, **options))
        return made[-1]

    yield make
    for world in made:
        world.assert_replays()
        world.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world of the project's `app`."""
    return make_world()


def _project_app(request: pytest.FixtureRequest) -> Any:
    try:
        return request.getfixturevalue("app")
    except pytest.FixtureLookupError as error:
        if error.argname != "app":
            raise
        raise Rejected(
            "testing.no_app", "there is no fixture `app` that says which app to test.",
            hint="Write one in conftest.py: @pytest.fixture def app(): return shop.app",
        ) from error  # fmt: skip
