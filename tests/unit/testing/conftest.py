"""The fixtures of the pytest plugin, whether or not it is installed."""

from __future__ import annotations

from cellule.testing.plugin import make_world  # noqa: F401 - a fixture
