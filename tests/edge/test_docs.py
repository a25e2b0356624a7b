"""The pages run: every `python` block of the start page and the guides is executed as it stands.

A block that begins with a comment like `# shop.py` is that file, also a `yaml` or `wat` block; all other
`python` blocks of a page are one script, in order. Files named `test_*.py` are run by pytest, other Python
files as modules. Fragments that cannot run alone are marked `py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "start.md", *sorted((DOCS / "guides").glob("*.md"))]
SHOP = (Path(__file__).parents[2] / "examples/00-orders/shop.py").read_text()
GIVEN = {
    # what a page takes as known: the shop of the start page
    "sync.md": "import atexit, contextlib\nimport cellule\nfrom shop import Paid, Placed, app, order\n",
}

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w/]+\.py)\n")
_DATA = re.compile(
    r"^```(?:yaml|wat)\n((?:#|;;) ([\w./]+\.(?:yaml|wat))\n.*?)^```$", re.MULTILINE | re.DOTALL
)


def files_of(page: Path) -> dict[str, str]:
    """The files of a page by name; what belongs to none is `page.py`."""
    files: dict[str, str] = {}
    if page.name in GIVEN:
        files = {"shop.py": SHOP, "page.py": GIVEN[page.name]}
    for block in _BLOCK.findall(page.read_text()):
        named = _FILE.match(block)
        name = named[1] if named else "page.py"
        files[name] = files.get(name, "") + block
    return files | {name: text for text, name in _DATA.findall(page.read_text())}


def run(folder: Path, *command: str, told_by: str = "stdout", code: int = 0) -> str:
    places = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": places}
    command = (sys.executable, "-W", "error", *command)
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=250
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if told_by == "stderr" else done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page, tmp_path):
    files = files_of(page)
    assert files, f"{page.name} shows no code"
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    modules = [
        name for name in files if name.endswith(".py") and not re.match(r"(test_.*|conftest|page)\.py", name)
    ]
    for name in modules:
        run(tmp_path, "-m", name.removesuffix(".py").replace("/", "."))
    if "page.py" in files:
        run(tmp_path, "page.py")
    tests = [name for name in files if name.startswith("test_")]
    if tests:
        shown = run(tmp_path, "-m", "pytest", "-q", "-p", "cellule.testing.plugin", "-p", "no:cacheprovider")
        assert re.search(r"\d+ passed", shown)


SAID = "import logging, runpy\nlogging.basicConfig()\nrunpy.run_path('main.py', run_name='__main__')\n"


def test_what_the_start_page_says_about_an_app_without_its_letters(tmp_path):
    """The page said that its `main.py` is refused; it works beside the newer app."""
    for name, text in files_of(DOCS / "start.md").items():
        (tmp_path / name).write_text(text)
    for script in ("main.py", "post.py"):
        run(tmp_path, script)
    (tmp_path / "said.py").write_text(SAID)
    assert "world shop has moved on from this app" in run(tmp_path, "said.py", told_by="stderr")
    assert "shop/letters" in run(tmp_path, "-m", "cellule", "cell", "list", "--world", "shop")
    (tmp_path / "data").rename(tmp_path / "other")
    run(tmp_path, "post.py")
    refused = run(tmp_path, "main.py", told_by="stderr", code=1)
    assert "cells of world shop: $.modules" in refused
    assert "Was the file that declares it imported?" in refused


def test_a_second_run_of_the_start_page_gets_the_same_answers(tmp_path):
    for name, text in files_of(DOCS / "start.md").items():
        (tmp_path / name).write_text(text)
    first, second = (run(tmp_path, "main.py") for _ in range(2))
    assert "left to pay: 0" in first
    assert second == first
