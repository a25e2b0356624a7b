"""The memory object store keeps every promise of the contract."""

from __future__ import annotations

import pytest

from cellule.testing.conformance.objects import ObjectStoreConformance
from tests.support.memory_objects import MemoryObjects


class TestMemoryObjects(ObjectStoreConformance):
    @pytest.fixture
    def open_store(self):
        async def open_store():
            return MemoryObjects()

        return open_store
