"""A week of orders, a new rule tried on them, a bank that refuses, and a fork that takes over.

python trial.py [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile

import half_price
from shop import Charge, Charged, Ordered, app, customer

import cellule
from cellule.effects.adapter import adapter

WEEK = [Ordered(name, f"{name}-{number}", 1_000) for number in range(4) for name in ("ada", "bob")]
ALL_CHARGED = [{"kind": "shop.charge", "value": {"id": "tried"}, "always": True}]
NO_MONEY = [{"kind": "shop.charge", "status": "failed", "code": "bank.refused", "always": True}]
charged: list[str] = []


@adapter("shop.charge")
async def bank(params: Charge) -> Charged:
    """The real thing: whatever is written down here was charged."""
    charged.append(params.order)
    return Charged(f"c-{params.order}")


OPTIONS = cellule.Options(adapters=[bank], tune_process=False)


def trade(folder: str) -> None:
    """What happens in production: a week of orders."""
    with cellule.open_sync(folder, app=app, options=OPTIONS) as node:
        world = node.world("main")
        for order in WEEK:
            world.send(order, id=order.order)
        world.wait_idle()


def half_the_price(folder: str) -> dict[str, tuple[int, int]]:
    """What each customer would have paid if every order after the second were half the price."""
    with cellule.open_sync(folder, app=half_price.app, deploy="never", options=OPTIONS) as node:
        found = node.what_if("main", at=0, deploy=True, replay=True, effects="scripted", script=ALL_CHARGED)
        paid = {}
        for cell in found.difference.cells:
            fields = {each.path: each for each in cell.fields}
            paid[cell.key.decode()] = (fields["state.paid"].left, fields["state.paid"].right)
        return paid


def no_money(folder: str) -> list[str]:
    """Which customers would be told that the bank refuses the next order."""
    with cellule.open_sync(folder, app=app, options=OPTIONS) as node:
        orders = [Ordered("ada", "next", 500)]
        found = node.what_if("main", orders, effects="scripted", script=NO_MONEY)
        return [
            cell.key.decode()
            for cell in found.difference.cells
            if any(each.path == "state.refused" for each in cell.fields)
        ]


def take_over(folder: str) -> tuple[int, int]:
    """Fork production, order there, then let the fork be production: bob's orders in both."""
    with cellule.open_sync(folder, app=app, options=OPTIONS) as node:
        main = node.world("main")
        trial = main.fork("trial", who="ada", why="the new rule")
        trial.send(Ordered("bob", "in the trial", 700))
        assert "in the trial" not in charged  # held: a fork asks nobody
        node.move_ref("main", "trial", expected=main.id)
        after, before = (each.cell(customer, "bob").state() for each in (node.world("main"), main))
        assert after is not None
        assert before is not None
        return before.orders, after.orders


def play(folder: str) -> None:
    trade(folder)
    print(f"{len(charged)} orders were charged")
    for name, (paid, would_pay) in half_the_price(folder).items():
        print(f"{name} paid {paid / 100:.2f}, and would have paid {would_pay / 100:.2f}")
    print(f"the bank refuses: {', '.join(no_money(folder))}")
    before, after = take_over(folder)
    print(f"bob had {before} orders, and has {after} in the world that took over")
    print(f"{len(charged)} orders were charged: nothing that was tried")


if __name__ == "__main__":
    play(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
