"""Engines are laid out alike: whoever knows one finds the same life-stage in the same file of another."""

from __future__ import annotations

from pathlib import Path

import pytest

import cellule.store.engines

ENGINES = Path(cellule.store.engines.__file__).parent
COMMON = {"connection", "engine", "errors", "layout", "reader", "watch", "writer"}


@pytest.mark.parametrize("engine", [path.name for path in ENGINES.iterdir() if (path / "engine.py").exists()])
def test_an_engine_has_the_files_that_engines_share(engine):
    files = {path.stem for path in (ENGINES / engine).glob("*.py")}
    assert files >= COMMON
