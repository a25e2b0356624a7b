"""The pytest plugin: `world` and `make_world`, whose worlds are replayed when the test ends.

A project gives its app by a fixture:

    @pytest.fixture
    def cellule_app():
        return shop.app

Whatever a test did, at its end the journal of each of its worlds must restore to identical bytes and verify
by running the steps again. `pytest --cellule-live` runs all apps as they stand, for debuggers and coverage.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from cellule.errors import Rejected

if TYPE_CHECKING:
    from cellule.testing.world import World

FIXTURE: Final = "cellule_app"
_OLD_FIXTURE: Final = "app"


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
    """Make worlds of the project's `cellule_app`, or of an app; each is replayed when the test ends."""
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
    """A world of the project's `cellule_app`."""
    return make_world()


def _project_app(request: pytest.FixtureRequest) -> Any:
    from cellule.app import App

    found = _fixture(request, FIXTURE)
    if found is not None:
        return found
    found = _fixture(request, _OLD_FIXTURE)
    if not isinstance(found, App):  # the fixture of a web framework, or none
        raise Rejected(
            "testing.no_app", "there is no fixture `cellule_app` that says which app to test.",
            hint="Write one in conftest.py: @pytest.fixture def cellule_app(): return shop.app",
        )  # fmt: skip
    warnings.warn(
        "the fixture that gives the app under test is called `cellule_app` now: rename `app`",
        DeprecationWarning, stacklevel=2,
    )  # fmt: skip
    return found


def _fixture(request: pytest.FixtureRequest, name: str) -> Any:
    """What a fixture of the project gives; None where there is none of this name."""
    try:
        return request.getfixturevalue(name)
    except pytest.FixtureLookupError as error:
        if error.argname != name:
            raise
        return None
