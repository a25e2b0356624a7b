"""A node whose clock is the loop's: hours pass at once."""

from __future__ import annotations

import pytest

from cellule.testing.clock import VirtualClock


@pytest.fixture
def on_node(on_node):
    """See `on_node` of the node's tests."""

    def play(main, **more):
        async def timed(opened):
            clock = VirtualClock()

            def with_clock(*args, **options):
                return opened(*args, **{"clock": clock, **options})

            with_clock.disk = opened.disk
            return await main(with_clock)

        return on_node(timed, **more)

    return play
