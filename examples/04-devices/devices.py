"""Fifty thousand devices report now and then. One that is silent for too long is offline until it reports.

Every device is a cell. Each reading sets the timer `silence` anew, so there is one timer for each device
however often it reports, and it fires only when a device went silent. The fleet is one more cell: it counts,
and once a day it asks for a report.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import assert_never

import msgspec
from msgspec.structs import replace

from cellule import App, Context, Receipt, Step, TimerFired, timer

REPORTS = "DEVICES_REPORTS"  # the environment names the folder that reports are written to
SILENT_AFTER = 3  # periods without a reading

app = App("devices")


@app.event(key="device")
class Reading(msgspec.Struct, frozen=True):
    """What a device measured; it measures again after `every`."""

    device: str
    celsius: float
    every: timedelta = timedelta(minutes=1)


@app.event
class Joined(msgspec.Struct, frozen=True):
    device: str


@app.event
class WentSilent(msgspec.Struct, frozen=True):
    device: str


@app.event
class CameBack(msgspec.Struct, frozen=True):
    device: str


@app.event
class ReportDue(msgspec.Struct, frozen=True):
    pass


class Device(msgspec.Struct, frozen=True):
    name: str
    celsius: float
    seen: datetime
    online: bool = True


class Fleet(msgspec.Struct, frozen=True):
    devices: int = 0
    offline: int = 0
    reports: int = 0


class Report(msgspec.Struct, frozen=True):
    day: str
    devices: int
    offline: int


class Written(msgspec.Struct, frozen=True):
    file: str


@app.adapter("devices.report", timeout_s=10)
def write_report(params: Report) -> Written:
    """Write a report; a second attempt writes the same file again."""
    file = Path(os.environ[REPORTS]) / f"{params.day}.json"
    file.write_text(json.dumps(msgspec.to_builtins(params)))
    return Written(str(file))


@app.reducer(effects=[timer], emits=[Joined, WentSilent, CameBack])
def device(state: Device | None, event: Reading | TimerFired, ctx: Context) -> Step[Device]:
    """One device."""
    match event:
        case Reading():
            news: list[Joined | CameBack] = []
            if state is None:
                news = [Joined(event.device)]
            elif not state.online:
                news = [CameBack(event.device)]
            silence = timer(after=event.every * SILENT_AFTER, key="silence")
            return Step(Device(event.device, event.celsius, ctx.now), emit=news, effects=[silence])
        case TimerFired():
            assert state is not None  # a timer goes with its cell
            return Step(replace(state, online=False), emit=[WentSilent(state.name)])
        case _:
            assert_never(event)


@app.reducer(effects=[write_report], keyed=False)
def fleet(
    state: Fleet | None, event: Joined | WentSilent | CameBack | ReportDue | Receipt[Written], ctx: Context
) -> Step[Fleet]:
    """All devices, counted."""
    now = state or Fleet()
    match event:
        case Joined():
            return Step(replace(now, devices=now.devices + 1))
        case WentSilent():
            return Step(replace(now, offline=now.offline + 1))
        case CameBack():
            return Step(replace(now, offline=now.offline - 1))
        case ReportDue():
            day = f"{ctx.now:%Y-%m-%d}"
            return Step(now, effects=[write_report(Report(day, now.devices, now.offline), key=day)])
        case Receipt():
            return Step(replace(now, reports=now.reports + event.ok))
        case _:
            assert_never(event)


app.schedule("daily report", cron="0 7 * * *", zone="Europe/Berlin", event=ReportDue())
