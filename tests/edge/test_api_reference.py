"""The API reference names every public name, with the signature it has, and its examples run."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cellule
import cellule.testing

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "api.md"

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate_api", ROOT / "tools" / "generate_api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("module", [cellule, cellule.testing], ids=lambda module: module.__name__)
def test_every_public_name_is_on_the_page(generator, module):
    part = PAGE.read_text().partition(f"## Public names of `{module.__name__}`\n")[2].partition("\n## ")[0]
    elsewhere = (
        generator.HANDLES if module is cellule else {}
    )  # what an open node gives has a part of its own
    named = [name for name in module.__all__ if name not in elsewhere]
    assert re.findall(r"^### (\w+)$", part, re.MULTILINE) == named


def test_the_page_is_what_the_code_says(generator):
    assert PAGE.read_text() == generator.generate(), "run: python tools/generate_api.py"


def test_a_public_name_without_an_example_is_refused(generator, monkeypatch):
    monkeypatch.setattr(cellule, "__all__", [*cellule.__all__, "__version__"])
    with pytest.raises(generator.Undocumented, match="__version__"):
        generator.generate()


def test_the_examples_run(tmp_path):
    script = []
    for block in _BLOCK.findall(PAGE.read_text()):
        if block.startswith("# shop.py\n"):
            (tmp_path / "shop.py").write_text(block)
        else:
            script.append(block)
    (tmp_path / "page.py").write_text("\n".join(script))
    done = subprocess.run(
        [sys.executable, "-W", "error", "page.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
