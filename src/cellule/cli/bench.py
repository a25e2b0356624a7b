"""`cellule bench`: how fast this machine and this folder's disk are, in a few seconds.

A thousand counters in a folder of its own beside the data, with full durability; it is removed afterwards.
For numbers that can be compared across machines and versions there is the bench of the repository.
"""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from cellule.app import App
from cellule.assembly import open as open_node
from cellule.cli.app_file import load_app
from cellule.cli.output import Step, facts
from cellule.cli.session import Session, in_session
from cellule.errors import Rejected
from cellule.host.ingress.handles import WorldHandle
from cellule.store.store import DATABASE

KEYS = 1_000
IN_FLIGHT = 1_000
Event = tuple[str, dict[str, Any]]


@in_session
async def bench(
    session: Session,
    seconds: Annotated[float, typer.Option(help="How long each measurement takes.", min=0.1, max=600)] = 2.0,
) -> None:
    """Measure events per second on this machine and disk."""
    folder = session.address.folder
    beside = folder if folder is not None and folder.is_dir() else Path.cwd()
    try:
        scratch = tempfile.TemporaryDirectory(prefix="cellule-bench-", dir=beside)
    except OSError as error:
        raise Rejected(
            "cli.folder", "{folder} cannot be written: {why}", folder=str(beside), why=error.strerror,
            hint="Name a folder with --data whose disk is to be measured.",
        ) from error  # fmt: skip
    with scratch as made, session.output.progress("measuring") as step:
        data = await _measured(Path(made), seconds, step)
    data = {"disk": str(beside), **data}
    pairs = {
        "disk": str(beside), "machine": f"{data['cpus']} CPUs, Python {data['python']}",
        "one at a time": f"{data['alone']['events_per_second']:,.0f} events/s, "
        f"p50 {data['alone']['p50_ms']:.2f} ms, p99 {data['alone']['p99_ms']:.2f} ms",
        f"{IN_FLIGHT:,} in flight": f"{data['together']['events_per_second']:,.0f} events/s",
        "on disk": f"{data['bytes_per_event']:.0f} bytes an event",
    }  # fmt: skip
    session.output.document(data, facts(pairs))


async def _measured(folder: Path, seconds: float, step: Step) -> dict[str, Any]:
    async with open_node(folder / "data", _app(folder)) as node:
        world = await node.world("bench")
        alone = await _alone(world, seconds, step)
        together = await _together(world, seconds, step)
        size = sum(file.stat().st_size for file in (folder / "data").glob(f"{DATABASE}*"))
    return {
        "cpus": os.cpu_count(), "python": platform.python_version(), "alone": alone, "together": together,
        "bytes_per_event": size / (alone["events"] + together["events"]),
    }  # fmt: skip


def _app(folder: Path) -> App:
    source = (files("cellule.cli") / "bench_app.py.txt").read_text(encoding="utf-8")
    file = folder / "cellule_bench_app.py"
    file.write_text(source, encoding="utf-8")
    return load_app(str(file))


def _event(number: int) -> Event:
    return "Added", {"name": f"c{number % KEYS}", "amount": number}


async def _alone(world: WorldHandle, seconds: float, step: Step) -> dict[str, Any]:
    """One event after the other, each acknowledged before the next."""
    took: list[float] = []
    begin = time.perf_counter()
    while (now := time.perf_counter()) - begin < seconds:
        await world.send(_event(len(took)))
        took.append(time.perf_counter() - now)
        step(int((now - begin) * 500 / seconds), 1_000)
    elapsed = time.perf_counter() - begin
    cuts = statistics.quantiles(took, n=100) if len(took) > 1 else took * 99
    return {
        "events": len(took), "events_per_second": len(took) / elapsed, "p50_ms": cuts[49] * 1e3,
        "p99_ms": cuts[98] * 1e3,
    }  # fmt: skip


async def _together(world: WorldHandle, seconds: float, step: Step) -> dict[str, Any]:
    """A thousand in flight: handed over and not yet acknowledged."""
    count = 0
    begin = time.perf_counter()
    while (now := time.perf_counter()) - begin < seconds:
        await world.send_many([_event(number) for number in range(count, count + IN_FLIGHT)])
        count += IN_FLIGHT
        step(500 + int((now - begin) * 500 / seconds), 1_000)
    return {"events": count, "events_per_second": count / (time.perf_counter() - begin)}
