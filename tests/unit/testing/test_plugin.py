"""The pytest plugin, run in projects of its own."""

from __future__ import annotations

import textwrap

import pytest

pytest_plugins = "pytester"

APP = """
import msgspec
from cellule import App, Step

app = App("shop")
SEEN = []

@app.event(key="order_id")
class Placed(msgspec.Struct, frozen=True):
    order_id: str
    total: int

class Order(msgspec.Struct, frozen=True):
    total: int

@app.reducer
def order(state: Order | None, event: Placed) -> Step[Order]:
    return Step(Order(event.total))
"""
LEAKY = (
    APP
    + """
@app.reducer
def leaky(state: Order | None, event: Placed) -> Step[Order]:
    remember(event)
    return Step(Order(len(SEEN)))

def remember(event, into=SEEN):
    into.__iadd__([event])
"""
)
CONFTEST = """
import pytest
import shop

@pytest.fixture
def cellule_app():
    return shop.app
"""
TEST = """
from shop import Order, Placed, order

def test_order(world):
    assert world.send(Placed("o1", 3)).applied
    assert world.state(order, "o1") == Order(3)
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Run a project: `run(shop.py, conftest.py, test_it.py)`."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def go(app: str, conftest: str, test: str, *options: str) -> pytest.RunResult:
        for name, text in (("shop", app), ("conftest", conftest), ("test_it", test)):
            pytester.makepyfile(**{name: textwrap.dedent(text)})
        return pytester.runpytest_subprocess(
            "-p", "cellule.testing.plugin", "-p", "no:cacheprovider", *options
        )

    return go


def test_a_world_of_the_projects_app_is_at_hand_and_replayed(run):
    run(APP, CONFTEST, TEST).assert_outcomes(passed=1)


def test_a_step_that_does_not_repeat_fails_the_test_at_its_end(run):
    result = run(LEAKY, CONFTEST, TEST)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*testing.not_repeatable*"])


def test_several_worlds_and_apps_can_be_made(run):
    test = """
    from shop import Placed, order
    from cellule import App

    def test_two(make_world):
        one, two = make_world(), make_world(evict=True)
        one.send(Placed("o1", 3))
        assert not two.cell(order, "o1").exists
    """
    run(APP, CONFTEST, test).assert_outcomes(passed=1)


OLD_CONFTEST = CONFTEST.replace("cellule_app", "app")


def test_the_old_name_of_the_fixture_works_and_says_the_new_one(run):
    result = run(APP, OLD_CONFTEST, TEST)
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*DeprecationWarning: the fixture * is called `cellule_app` now*"])


def test_the_app_of_a_web_framework_is_not_taken_for_ours(run):
    result = run(APP, OLD_CONFTEST.replace("shop.app", "object()"), TEST)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*there is no fixture `cellule_app`*"])


def test_a_projects_own_app_stands_beside_ours(run):
    web = "\n@pytest.fixture\ndef app():\n    return object()\n"
    run(APP, CONFTEST + web, TEST).assert_outcomes(passed=1)


def test_a_step_that_differs_in_another_process_fails_the_test_at_its_end(run):
    step = "Step(Order(hash(event.order_id) % 10**9))  # cellule: allow identity - on purpose"
    source = APP.replace("Step(Order(event.total))", step)
    test = """
    from shop import Placed

    def test_order(make_world):
        make_world(guard=False).send(Placed("o1", 3))
    """
    result = run(source, CONFTEST, test)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*testing.differs_elsewhere*"])


def test_a_project_without_an_app_fixture_is_told_to_write_one(run):
    result = run(APP, "", TEST)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*there is no fixture `cellule_app`*"])


def test_live_worlds_run_the_code_that_debuggers_and_coverage_see(run):
    test = """
    import shop

    def test_live(world):
        assert world.built.live
        world.send(shop.Placed("o1", 1))
    """
    run(APP, CONFTEST, test, "--cellule-live").assert_outcomes(passed=1)
    bundled = test.replace("assert world.built.live", "assert not world.built.live")
    run(APP, CONFTEST, bundled).assert_outcomes(passed=1)


def test_the_plugin_loads_neither_kernel_nor_apps_until_a_world_is_made(run):
    test = """
    import sys

    def test_light():
        assert not [name for name in sys.modules if name.startswith(("cellule.kernel", "cellule.app"))]
    """
    run(APP, "", test).assert_outcomes(passed=1)
