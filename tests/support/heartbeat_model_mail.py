"""The rules of the wall clock and of mailboxes, as the shortest program that keeps them."""

from __future__ import annotations

from typing import Any


class Clock:
    """Times told of beats, and the intervals between them."""

    def __init__(self) -> None:
        self.told: dict[int, int] = {}
        self.spacing: dict[int, int] = {}
        self.window = 256

    def publish(self, beat: int, ns: int) -> bool:
        if beat in self.told:
            return self.told[beat] == ns
        if self.told and beat > max(self.told):
            self.spacing[beat] = max(0, ns - self.told[max(self.told)])
        self.told[beat] = ns
        self._trim()
        return True

    def set_window(self, window: int) -> bool:
        if window == 0:
            return False
        self.window = window
        self._trim()
        return True

    def _trim(self) -> None:
        for beat in sorted(self.spacing)[: -self.window]:
            del self.spacing[beat]


def resolve_ttl(
    specs: list[dict[str, Any] | None], context: dict[str, int | None], clock: Clock, settings: dict[str, Any]
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ok": True, "forever": False, "beat_deadline": None, "beats_source": None, "wall_deadline": None,
        "wall_source": None, "projected": False, "interval_ns": None,
    }  # fmt: skip
    named = [(name, spec or {}) for name, spec in zip(("message", "mailbox", "topology"), specs, strict=True)]
    if any(spec.get("forever") for _, spec in named):
        return {**result, "forever": True}
    beats = next(((name, spec["beats"]) for name, spec in named if spec.get("beats") is not None), None)
    wall = next(((name, spec["unix_ns"]) for name, spec in named if spec.get("unix_ns") is not None), None)
    issued, issued_ns = context.get("issued_beat"), context.get("issued_unix_ns")
    beat, now = context.get("current_beat"), context.get("current_unix_ns")
    if beats is not None and beats[1] > 0:
        start = beat if issued is None else issued
        if start is None:
            return {"ok": False}
        result["beats_source"], result["beat_deadline"] = beats[0], start + beats[1]
    if wall is not None and wall[1] > 0:
        origin = issued_ns
        if origin is None and issued in clock.told:
            origin = clock.told[issued]
        elif origin is None:
            origin = now
        if not origin:
            return {"ok": False}
        result["wall_source"], result["wall_deadline"] = wall[0], origin + wall[1]
    intervals = [clock.spacing[each] for each in sorted(clock.spacing)]
    if settings["spacing_samples"]:
        intervals = intervals[-settings["spacing_samples"] :]
    mean = sum(intervals) // len(intervals) if intervals else 0
    wants = result["wall_deadline"] is not None and result["beat_deadline"] is None
    if wants and not settings["wallclock_disabled"] and beat is not None and now is not None and mean:
        left, steps = result["wall_deadline"] - now, 0
        while steps * mean < left and (not settings["beat_lookahead"] or steps < settings["beat_lookahead"]):
            steps += 1
        result.update(beat_deadline=beat + steps, projected=True, interval_ns=mean)
    return result


class Mailbox:
    """Messages by id, and the buckets of their deadlines. An envelope is its text, or None."""

    def __init__(self) -> None:
        self.messages: dict[str, str | None] = {}  # the envelope, where it is sealed
        self.counter = 1
        self.beats: dict[int, set[str]] = {}
        self.wall: dict[int, set[str]] = {}

    def select(self, explicit: str | None, sealed: str | None) -> dict[str, Any]:
        if explicit is not None:
            if explicit not in self.messages:
                return {"ok": True, "mode": "explicit", "collision": False, "id": explicit}
            if sealed is not None and self.messages[explicit] == sealed:
                return {"ok": True, "mode": "reused", "collision": False, "id": explicit}
            return {"ok": False, "collision": True}
        if sealed is not None:
            for suffix in ("", "-1", "-2", "-3"):
                candidate = f"digest({sealed}){suffix}"
                if candidate not in self.messages:
                    return {"ok": True, "mode": "digest", "collision": suffix != "", "id": candidate}
                if self.messages[candidate] == sealed:
                    return {"ok": True, "mode": "reused", "collision": suffix != "", "id": candidate}
        collision = False
        while True:
            candidate = f"msg-{self.counter}"
            self.counter += 1
            if candidate not in self.messages:
                return {"ok": True, "mode": "counter", "collision": collision, "id": candidate}
            collision = True

    def record(self, message: str, ttl: dict[str, Any]) -> None:
        if ttl.get("beat_deadline") is not None:
            self.beats.setdefault(ttl["beat_deadline"], set()).add(message)
        if ttl.get("wall_deadline") is not None:
            self.wall.setdefault(ttl["wall_deadline"], set()).add(message)

    def plan(self, beat: int | None, now: int | None) -> dict[str, Any]:
        def due(buckets: dict[int, set[str]], at: int | None) -> list[list[Any]]:
            reached = [each for each in sorted(buckets) if at is not None and each <= at]
            return [[message, deadline] for deadline in reached for message in sorted(buckets[deadline])]

        return {
            "beats": due(self.beats, beat),
            "wallclock": due(self.wall, now),
            "future_beats": any(beat is None or each > beat for each in self.beats),
            "future_wallclock": any(now is None or each > now for each in self.wall),
        }
