"""What was trimmed and collected is restored whole: on an empty machine, and with all that waits in it."""

from __future__ import annotations

from pathlib import Path

from cellule.assembly import Options, copy
from cellule.effects.adapter import adapter
from cellule.effects.outcomes import Retry
from cellule.sources import SystemClock
from tests.support.nodes import load_app
from tests.support.places import folder_place
from tests.support.retained import reached

APPS = Path(__file__).parents[1] / "node_apps"
TALLY, PAY = load_app(APPS / "tally.py"), load_app(APPS / "pay.py")
Charge, Charged, Mail, Sent = PAY.Charge, PAY.Charged, PAY.Mail, PAY.Sent
DAYS_NS = 4 * 24 * 3_600 * 1_000_000_000


async def trimmed(node, name):
    """Let go of all that the newest snapshot does not need."""
    world, storage = await node.world(name), await node.storage(name)
    await storage.retain(history="drop", snapshots=1)
    await world.snapshot()
    done = await storage.compact(everything=True)
    for _ in range(2):
        await node.collect_garbage(grace_s=0)
    return done


async def test_a_trimmed_world_is_restored_on_an_empty_machine(place, tmp_path, monkeypatch):
    """By a copy of the store, and by a file: neither needs what was let go of, or anything kept at hand."""
    monkeypatch.setattr("cellule.host.storage.compaction.SEGMENT_BYTES", 50_000)
    async with place.open(TALLY.app) as node:
        world = await node.world("main")
        for number in range(6):
            await world.send_many(
                [TALLY.Keep(f"k{key}", f"{number} {key}" + "y" * 2_000) for key in range(20)]
            )
            await world.send(TALLY.Keep("long", f"{number}" + "x" * 200_000))
            await world.send(TALLY.Add("a", number))
        assert (await trimmed(node, "main")).dropped > 0
        await world.send(TALLY.Add("a", 100))
        head = await world.head()
        await node.export_world("main", tmp_path / "main.car")
    target = folder_place(tmp_path / "copied")
    await copy(place.parsed, target.parsed, Options(store=place.options))
    by_file = folder_place(tmp_path / "imported", objects=True)
    async with by_file.open(TALLY.app) as node:
        await node.import_world(tmp_path / "main.car")
    for restored in (target, by_file):
        async with restored.open(TALLY.app) as node:
            world = await node.world("main", create=False)
            assert (await world.head()).height >= head.height
            assert (await world.cell(TALLY.account, "a").state()).total == 115
            assert (await world.cell(TALLY.shelf, "long").state()).text.startswith("5x")
            assert (await world.cell(TALLY.shelf, "k7").state()).text.startswith("5 7")
            await world.send(TALLY.Add("a", 1))
        await restored.prove()


class LaterClock(SystemClock):
    """The machine's clock, some days ahead."""

    def now_ns(self) -> int:
        return super().now_ns() + DAYS_NS


class Bank:
    """Charges and mails; while it is closed they are tried again in an hour."""

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self.mails = 0

        @adapter("pay.charge")
        async def charge(params: Charge, attempt) -> Charged:
            self._check_open()
            return Charged(f"ch-{params.order}")

        @adapter("pay.mail")
        async def mail(params: Mail, attempt) -> Sent:
            self._check_open()
            self.mails += 1
            return Sent(f"m-{params.to}")

        self.adapters = [charge, mail]

    def _check_open(self) -> None:
        if not self.is_open:
            raise Retry("closed", after_s=3600)


async def test_after_a_collection_every_waiting_cell_goes_on(place, monkeypatch):
    """Effects that failed so far, one that waits for a person, timers of days, an event behind an effect."""
    monkeypatch.setattr("cellule.host.storage.compaction.SEGMENT_BYTES", 10_000)
    async with place.open(PAY.app, adapters=Bank(is_open=False).adapters) as node:
        world = await node.world("main")
        for number in range(30):
            await world.send(PAY.Placed(f"rest{number}", 1, "timer"))
        await world.send(PAY.Placed("hold", 1))
        await world.send(PAY.Placed("large", 5_000))
        await world.send(PAY.Mailed("list"), wait="durable")
        await world.send(PAY.Mailed("list"), wait="durable")
        await trimmed(node, "main")
        universe = (await node.node.universe()).id
    async with place.store() as store:
        kept = await reached(store.engine, store.objects, universe, SystemClock())
        assert len(kept) > 3
    bank = Bank(is_open=True)
    async with place.open(PAY.app, adapters=bank.adapters, clock=LaterClock()) as node:
        world = await node.world("main", create=False)
        [approval] = await world.effects(status="parked")
        await world.approve(approval.id, who="ann", why="it is right")
        await world.wait_idle(timeout=60)
        assert await world.effects() == []
        for name in ("hold", "large"):
            assert await world.cell(PAY.order, name).state() == PAY.Order("pay.charge ok", f"ch-{name}")
        for number in range(30):
            assert (await world.cell(PAY.order, f"rest{number}").state()).status == "rested"
        assert bank.mails == 2
