"""A wrong clock on the command line: what `stuck` and `doctor` say, and `world accept-clock`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from cellule.sources import SystemClock

if TYPE_CHECKING:
    Cellule = Any

TEN_YEARS = 3_652 * 86_400 * 1_000_000_000
COUNTED = ("event", "send", "Counted", '{"number": 1}')


def test_a_world_ahead_of_the_clock_is_shown(shop: Cellule, monkeypatch) -> None:
    """`stuck` said that nothing is stuck, and `doctor` was content."""
    assert shop("stuck", "--json").json["clock"] is None
    with monkeypatch.context() as patch:
        patch.setattr(SystemClock, "now_ns", lambda _: time.time_ns() + TEN_YEARS)
        shop("world", "accept-clock", "--why", "I trust it")
        shop(*COUNTED)
    assert "ahead of this machine's clock" in shop("stuck", "--json").json["clock"]
    assert "ahead of this machine's clock" in shop("stuck").out.replace("\n", " ")
    findings = shop("doctor", "--json").json["findings"]
    [world] = [each for each in findings if each["what"] == "default/main"]
    assert world["status"] == "warn"
    assert "timers and schedules wait" in world["text"]


def test_a_clock_far_ahead_of_a_world_is_shown_and_accepted(shop: Cellule, monkeypatch) -> None:
    monkeypatch.setattr(SystemClock, "now_ns", lambda _: time.time_ns() + TEN_YEARS)
    assert "not believed" in shop("stuck", "--json").json["clock"]
    findings = shop("doctor", "--json").json["findings"]
    [world] = [each for each in findings if each["what"] == "default/main"]
    assert (world["status"], "accept-clock" in world["text"]) == ("warn", True)
    done = shop("world", "accept-clock", "--why", "the machine was in a box", "--id", "a1", "--json").json
    assert (done["verb"], done["why"], done["id"]) == ("clock.accept", "the machine was in a box", "a1")
    again = shop("world", "accept-clock", "--why", "the machine was in a box", "--id", "a1", "--json").json
    assert (again["duplicate"], again["height"]) == (True, done["height"])
    assert shop("stuck", "--json").json["clock"] is None
