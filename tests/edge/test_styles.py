"""One process in every style, side by side in one world: the same events, the same outcome, the same journal.

In memory with and without loss of memory between beats, and on a node that is restarted, and killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import cellule
from cellule.testing import World
from tests.support.nodes import load_app
from tests.support.styles import (
    REACTS,
    STORIES,
    STYLES,
    WAITS,
    changed,
    life_of,
    styles_app,
    view_of,
    views_of,
)

BANK = Path(__file__).parents[1] / "node_apps" / "order_bank.py"
ORDERS = tuple(f"order-{number}" for number in range(20))
WAIT_S = 120
WHOLE_LIFE = [
    ("step", "ok"), ("intent", "shop.charge"), ("receipt", "effect.shop/charge@1"), ("step", "ok"),
    ("step", "ok"), ("intent", "shop.letter"), ("receipt", "effect.shop/letter@1"), ("step", "ok"),
]  # fmt: skip


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return styles_app(tmp_path_factory.mktemp("styles"))


def do(world: World, orders: ModuleType, deed: str, key: str) -> None:
    """One deed, to the order in every style."""
    match deed:
        case "place":
            world.send(orders.Placed(key, "berlin", 30), check=False)
        case "ship":
            world.send(orders.Shipped(key, "p1"), check=False)
        case "pay" | "no money":
            for asked in world.intents.of(orders.charge):
                if asked.cell[1] == key:
                    world.complete(asked, orders.Charged("r1")) if deed == "pay" else world.fail(asked)
        case _:
            for asked in world.intents.of(orders.letter):
                if asked.cell[1] == key:
                    world.complete(asked, orders.Sent()) if deed == "told" else world.fail(asked)


def lived(orders: ModuleType, **options: Any) -> World:
    """A world in which every story happened, a deed of each in turn."""
    world = World(orders.app, elsewhere=False, **options)
    for at in range(max(len(story.deeds) for story in STORIES.values())):
        for key, story in STORIES.items():
            if at < len(story.deeds):
                do(world, orders, story.deeds[at], key)
    return world


@pytest.fixture(scope="module")
def world(orders: ModuleType) -> World:
    return lived(orders)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("key", STORIES)
def test_the_same_events_lead_through_the_same_views(world: World, key: str, style: str) -> None:
    story = STORIES[key]
    history = world.cell(style, key).history()
    assert changed(view_of(each.state) for each in history) == views_of(story, style)
    if style in REACTS:
        assert len(history) == len(story.views)


@pytest.mark.parametrize("style", STYLES)
def test_the_same_effects_are_asked_for_with_the_same_params(
    world: World, style: str, orders: ModuleType
) -> None:
    for key, story in STORIES.items():
        asked = [each.params for each in world.effects if each.cell == (f"shop/{style}", key)]
        statuses = [view[0] for view in views_of(story, style)]
        wanted = [orders.Charge(key, 30)] if "charging" in statuses else []
        assert asked == wanted + ([orders.Letter(key, "p1")] if "sending" in statuses else [])


@pytest.mark.parametrize("style", REACTS)
def test_what_does_not_fit_is_refused_alike(world: World, style: str) -> None:
    for key, story in STORIES.items():
        life = life_of(world.host.frames, f"shop/{style}", key)
        assert life.count(("step", "refused")) == story.refused, key


@pytest.mark.parametrize("style", WAITS)
def test_what_waits_refuses_nothing_and_is_changed_by_nothing_that_does_not_fit(
    world: World, style: str
) -> None:
    for key in STORIES:
        assert ("step", "refused") not in life_of(world.host.frames, f"shop/{style}", key)
    assert world.state(style, "never-placed") is None


@pytest.mark.parametrize("style", STYLES)
def test_the_journal_of_an_order_has_the_same_records(world: World, style: str) -> None:
    assert life_of(world.host.frames, f"shop/{style}", "shipped") == WHOLE_LIFE
    for key, story in STORIES.items():
        if story.kept is None and not story.refused:
            ours = life_of(world.host.frames, f"shop/{style}", key)
            assert ours == life_of(world.host.frames, "shop/in_python", key), key


@pytest.mark.parametrize("style", STYLES)
def test_lists_hold_the_same_orders(world: World, style: str) -> None:
    assert [each.key for each in world.cells(style)] == sorted(set(STORIES) - {"never-placed"})
    assert [each.key for each in world.cells(style, prefix="shipped")] == [
        "shipped", "shipped-early", "shipped-twice",
    ]  # fmt: skip


def test_the_aggregate_comes_to_what_the_orders_come_to(world: World) -> None:
    events = sum(story.deeds.count("place") for story in STORIES.values())
    results = world.state("sales", "berlin")["windows"][0]["results"]
    assert results == {"orders": events, "cents": 30 * events}


def test_a_world_that_forgets_everything_after_each_beat_writes_the_same_bytes(
    world: World, orders: ModuleType
) -> None:
    evicted = lived(orders, evict=True)
    assert evicted.host.frames == world.host.frames
    evicted.assert_replays()
    world.assert_replays()


# On a node


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory, orders: ModuleType) -> ModuleType:
    """The same app with adapters; which orders the bank has no money for is in their name."""
    return load_app(BANK)


async def settled(world: Any, key: str, *statuses: str) -> None:
    """Wait until an order has one of these statuses in every style."""
    for style in STYLES:
        await world.cell(style, key).wait_until(
            lambda state: (view_of(state) or ("",))[0] in statuses, timeout=WAIT_S
        )


async def views(world: Any, style: str, key: str) -> tuple[Any, ...]:
    history = await world.cell(style, key).history()
    return changed(view_of(each.state) for each in reversed(history))


NODE_STORIES = {key: STORIES[key] for key in ("shipped", "unpaid", "placed-twice", "never-placed")}


def test_a_node_that_is_restarted_between_all_events_comes_to_the_same(
    bank: ModuleType, tmp_path: Path
) -> None:
    heights: list[int] = []

    async def once(key: str, deed: str) -> None:
        async with cellule.open(tmp_path / "data", app=bank.app) as node:
            world = await node.world("w")
            if deed == "place":
                event = bank.orders.Placed(key, "berlin", 30)
            else:
                event = bank.orders.Shipped(key, "p1")
            await world.send(event, wait="durable")
            if key != "never-placed":
                await settled(world, key, "paid" if deed == "place" else "done", "unpaid", "done")
            heights.append((await world.head()).height)

    async def look() -> None:
        async with cellule.open(tmp_path / "data", app=bank.app) as node:
            world = await node.world("w")
            for style in STYLES:
                for key, story in NODE_STORIES.items():
                    assert await views(world, style, key) == views_of(story, style), (style, key)
                page = await world.cells(style)
                assert [each.key for each in page.cells] == sorted(set(NODE_STORIES) - {"never-placed"})
                done = await world.cells(style, where="key == 'shipped'")
                assert [view_of(each.state) for each in done.cells] == [STORIES["shipped"].views[-1]]
                past = [view_of(await world.cell(style, "shipped").state(at=each)) for each in heights]
                assert changed(past) == (STORIES["shipped"].views[1], STORIES["shipped"].views[-1])

    for key, story in NODE_STORIES.items():
        for deed in story.deeds:
            if deed in ("place", "ship"):
                asyncio.run(once(key, deed))
    asyncio.run(look())
    check(tmp_path / "data")


def check(data: Path) -> None:
    """Nothing is damaged, and every step runs again to the same."""
    for command in ("check", "verify"):
        line = (sys.executable, "-m", "cellule", "--data", str(data), command)
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_orders_of_every_style_go_on_where_their_node_was_killed(bank: ModuleType, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = (sys.executable, str(BANK), str(tmp_path / "data"), *ORDERS)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == f"ack {ORDERS[-1]}":
                break
        process.send_signal(signal.SIGKILL)
        assert process.wait(WAIT_S) == -signal.SIGKILL

    async def go_on() -> None:
        async with cellule.open(tmp_path / "data", app=bank.app) as node:
            world = await node.world("w")
            for key in ORDERS:
                await settled(world, key, "paid", "done")
                await world.send(bank.orders.Shipped(key, "p1"), id=f"ship-{key}")
            for key in ORDERS:
                await settled(world, key, "done")
                for style in STYLES:
                    assert await views(world, style, key) == STORIES["shipped"].views, (style, key)
                    assert len(await world.cell(style, key).history()) == 4
            totals = await world.cell("sales", "berlin").state()
            assert totals["windows"][0]["results"] == {"orders": len(ORDERS), "cents": 30 * len(ORDERS)}

    asyncio.run(go_on())
    check(tmp_path / "data")
