"""Apps that change while a store lives."""

from __future__ import annotations

import sys
import textwrap

import pytest

from tests.support.nodes import load_app


@pytest.fixture
def versions(tmp_path, monkeypatch):
    """Apps of the same name in folders of their own: `versions("one", text)`."""
    made = []

    def make(name, text):
        place = tmp_path / "apps" / name
        place.mkdir(parents=True)
        (place / f"change_{name}.py").write_text(textwrap.dedent(text))
        made.append(f"change_{name}")
        return load_app(place / f"change_{name}.py")

    monkeypatch.setattr(sys, "path", list(sys.path))
    yield make
    for name in made:
        sys.modules.pop(name, None)
