"""Transfers run together within their bound, and the first failure ends them all."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from cellule.errors import Unavailable
from cellule.store.cas.contract import TRANSFERS_MAX
from cellule.store.cas.transfers import all_of


async def test_no_more_than_the_bound_are_under_way():
    running, most, done = 0, 0, []

    async def transfer(number):
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(3):
            await asyncio.sleep(0)
        running -= 1
        done.append(number)

    await all_of([partial(transfer, number) for number in range(50)])
    assert sorted(done) == list(range(50))
    assert most == TRANSFERS_MAX
    await all_of([])


async def test_the_first_failure_stops_the_rest_and_is_raised_itself():
    cancelled, never = [], asyncio.Event()

    async def waiting(number):
        try:
            await never.wait()
        finally:
            cancelled.append(number)

    async def failing():
        raise Unavailable("objects.remote", "gone")

    with pytest.raises(Unavailable) as caught:
        await all_of([partial(waiting, 0), partial(waiting, 1), failing, *[partial(waiting, 2)] * 50])
    assert caught.value.code == "objects.remote"
    assert sorted(cancelled)[:2] == [0, 1]
