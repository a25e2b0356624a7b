"""The orders of `examples/13-styles` with a bank and a post, for nodes; as a program it is one to be killed.

The folder of the example's copy is on the path, so that the module in C is there. `order_bank.py DATA KEY...`
places an order for each key, prints `ack KEY` once it is durable, and goes on until it is killed.
"""

from __future__ import annotations

import asyncio
import os
import sys

import orders
from orders import Charge, Charged, Letter, Sent, app, charge, letter

import cellule
from cellule import Attempt, Failed


@app.adapter(charge)
async def bank(params: Charge, attempt: Attempt) -> Charged:
    """Money for all but those who have none."""
    if params.order_id.startswith("unpaid"):
        raise Failed("bank.no_money", "the account is empty")
    return Charged("r1")


@app.adapter(letter)
async def post(params: Letter, attempt: Attempt) -> Sent:
    """Every letter arrives."""
    return Sent()


async def place(data: str, keys: list[str]) -> None:
    async with cellule.open(data, app=app) as node:
        world = await node.world("w")
        for key in keys:
            await world.send(orders.Placed(key, "berlin", 30), id=f"place-{key}", wait="durable")
            os.write(1, f"ack {key}\n".encode())
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(place(sys.argv[1], sys.argv[2:]))
