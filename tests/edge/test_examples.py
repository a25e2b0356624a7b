"""Every example has tests of its own; here they are run, each in its folder and its process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.wasm_sources import path_with_asc

EXAMPLES = sorted(path for path in (Path(__file__).parents[2] / "examples").iterdir() if path.is_dir())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_tests_of_an_example_pass(example):
    options = ("-p", "cellule.testing.plugin", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".")
    command = (sys.executable, "-W", "error", "-m", "pytest", "-q", *options, ".")
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": path_with_asc()}
    done = subprocess.run(
        command, cwd=example, env=environment, capture_output=True, text=True, check=False, timeout=250
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_has_tests(example):
    assert list(example.glob("test_*.py"))


LINES_MAX = 35  # of the subscriptions as a workflow, blank ones and its helpers included


def test_the_billing_workflow_takes_no_more_lines_than_it_may_and_the_guide_shows_both_forms():
    guide = (EXAMPLES[0].parents[1] / "docs" / "guides" / "workflows.md").read_text()
    workflow = (
        (EXAMPLES[0].parent / "10-workflow" / "billing.py").read_text().partition("# The workflow\n")[2]
    )
    reducer = (EXAMPLES[0].parent / "03-billing" / "billing.py").read_text()
    reducer = reducer.partition("# What a customer's account does\n")[2]
    assert 0 < len(workflow.strip().splitlines()) <= LINES_MAX < len(reducer.strip().splitlines()) / 2
    shown = re.search(r"```py\n(def charged\(.+?)\n```", guide, re.DOTALL)
    assert shown is not None
    assert shown[1] in reducer
    assert f"```py\n{workflow.strip()}\n```" in guide


def test_the_first_program_of_the_guide_is_whole_in_as_many_lines_as_it_says():
    guide = (EXAMPLES[0].parents[1] / "docs" / "guides" / "workflows.md").read_text()
    [_, program, *_] = re.split(r"```(?:python)?\n", guide)
    lines = [line for line in program.splitlines() if line.strip() and not line.startswith("#")]
    assert f"This is the whole program: {len(lines)} lines" in guide
    assert len(lines) <= LINES_MAX
