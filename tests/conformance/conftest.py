"""Conformance suites live in the package; their assertions explain themselves as those of tests do."""

from __future__ import annotations

import sys

import pytest

SUITES = "cellule.testing.conformance"

if SUITES not in sys.modules:
    pytest.register_assert_rewrite(SUITES)
