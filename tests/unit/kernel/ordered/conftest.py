"""A CAS in a dict that counts what is asked of it."""

from __future__ import annotations

import pytest

from cellule.kernel.need import Nodes, drive


class Store:
    """Blocks by CID, a view of them of the given size, and every `Need` that was answered."""

    def __init__(self, bytes_max: int = 0) -> None:
        self.blocks = {}
        self.nodes = Nodes(bytes_max)
        self.needs = []

    def read(self, cids):
        self.needs.append(cids)
        return {cid: self.blocks[cid] for cid in cids if cid in self.blocks}

    def run(self, walk):
        result = drive(walk, self.nodes, self.read)
        blocks = getattr(result, "blocks", None)
        if blocks is not None:
            self.blocks.update(blocks)
            self.nodes.unpin(blocks)
        return result


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def make_store():
    return Store
