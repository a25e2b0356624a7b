"""Banks whose worlds are replayed at the end of each test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cellule.values.cbor import decode
from tests.support.kernel_bank import PROGRAMS, Bank, document
from tests.support.kernel_world import KernelWorld


@pytest.fixture
def make_bank(make_world: Callable[..., KernelWorld]) -> Callable[..., Bank]:
    def make(**changes: Any) -> Bank:
        return Bank(make_world(document(**changes), PROGRAMS))

    return make


@pytest.fixture
def bank(make_bank: Callable[..., Bank]) -> Bank:
    return make_bank()


@pytest.fixture
def bank_document() -> Callable[..., dict[str, Any]]:
    """The bank's manifest, with changes."""
    return document


@pytest.fixture
def read() -> Callable[[bytes], Any]:
    return decode
