"""The tool that plants defects: what it plants is Python, can be drawn again, and is told as it is."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEST = "tests/unit/kernel/test_cells.py::test_a_log_state_appends_and_seals_chunks"


@pytest.fixture(scope="module")
def mutants():
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
    module = sys.modules["mutants"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mutants"]


def test_every_defect_is_python_and_another_program(mutants):
    found = mutants.all_mutants("state/dedupe.py")
    assert len(found) > 50
    for each in found:
        text = (ROOT / mutants.KERNEL / each.file).read_text()
        planted = text[: each.start] + each.after + text[each.start + len(each.before) :]
        assert ast.dump(ast.parse(planted)) != ast.dump(ast.parse(text)), each.name


def test_the_same_seed_draws_the_same_defects(mutants):
    assert mutants.draw(20, 1) == mutants.draw(20, 1)
    assert mutants.draw(20, 1) != mutants.draw(20, 2)


def test_checks_messages_and_types_are_left_alone(mutants):
    text = 'def f(a: int = 1) -> Literal[2]:\n    """3"""\n    ensure(a > 4, "x", "y")\n    raise E(5)\n'
    assert [each.before for each in mutants.Source("f.py", text).mutants()] == ["1"]


def test_what_became_of_a_defect_is_told(mutants, tmp_path):
    place = mutants.Place(tmp_path)
    [no_list] = [each for each in mutants.all_mutants("state/log_state.py") if each.before == "!="]
    assert place.try_one(no_list, [TEST]) == "caught"
    assert place.try_one(no_list._replace(after="!="), [TEST]) == "survived"
    assert place.try_one(no_list, []) == "not executed"
