"""Apps in files of their own, and worlds that are replayed when a test ends."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from cellule.testing.plugin import make_world  # noqa: F401 - a fixture


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModuleType]]:
    """Write files into a folder of their own and import one: `project({"shop.py": "..."}, "shop")`."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(files: dict[str, str], module: str) -> ModuleType:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        importlib.invalidate_caches()
        return importlib.import_module(module)

    yield make
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", "") and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]
