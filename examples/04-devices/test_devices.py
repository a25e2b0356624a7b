"""Days pass at once here."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import devices
import pytest
from devices import Device, Fleet, Reading, Written, device, fleet, write_report


@pytest.fixture
def cellule_app() -> Any:
    return devices.app


def test_each_reading_replaces_the_timer_of_the_one_before(world: Any) -> None:
    for _ in range(10):
        world.send(Reading("d1", 20.0))
        world.advance(minutes=2)
    assert len(world.intents.of("timer.set")) == 1
    assert world.state(device, "d1").online
    world.advance(minutes=1)
    assert not world.state(device, "d1").online
    assert world.intents.of("timer.set") == []


def test_a_silent_device_is_found_and_comes_back(world: Any) -> None:
    world.send_many([Reading(f"d{number}", 20.0) for number in range(5)])
    world.advance(minutes=2)
    world.send_many([Reading(f"d{number}", 21.0) for number in range(4)])
    world.advance(minutes=2)
    [silent] = world.cells(device, where="!state.online")
    assert (silent.key, silent.state.celsius) == ("d4", 20.0)
    assert world.state(fleet) == Fleet(devices=5, offline=1)
    world.send(Reading("d4", 19.0))
    assert world.state(fleet) == Fleet(devices=5, offline=0)
    seen: Device = world.state(device, "d4")
    assert seen.online
    assert world.cells(device, where="state.celsius < 20.0")[0].key == "d4"


def test_a_report_is_written_every_morning(world: Any) -> None:
    world.on(write_report, lambda params: Written(params.day))
    world.send(Reading("d1", 20.0, timedelta(days=30)))
    world.advance(days=3)
    reports = [each.params for each in world.effects.of(write_report)]
    assert [each.devices for each in reports] == [1, 1, 1]
    assert len({each.day for each in reports}) == 3
    assert world.state(fleet).reports == 3
