"""A tree for mailboxes in memory: reads see what was there when the beat began."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from cellule.heartbeat.mailboxes.requests import TURN_SIGNAL
from cellule.heartbeat.mailboxes.turn import Turn
from cellule.values.cbor import decode, encode


class MailTree:
    """One run after the other in a beat; `step` makes its changes seen and runs the turns of the next."""

    def __init__(self, *, spacing_ns: int = 100) -> None:
        self.nodes: dict[str, Any] = {}
        self.beat, self.now_ns, self.spacing_ns = 1, 1_000, spacing_ns
        self.queued: dict[int, list[tuple[str | None, str | None]]] = {}
        self.turns: list[tuple[int, str]] = []
        self._staged: list[tuple[str, Any]] = []
        self._places = 0

    def step(self, beats: int = 1) -> None:
        for _ in range(beats):
            self._commit()
            self.beat += 1
            self.now_ns += self.spacing_ns
            self._places = 0
            for _, target in dict.fromkeys(self.queued.pop(self.beat, [])):
                self.turns.append((self.beat, target or ""))
                Turn(self, target or "").run()
        self._commit()

    def below(self, path: str) -> list[str]:
        return sorted(each for each in self.nodes if each.startswith(f"{path}/"))

    def _commit(self) -> None:
        for path, value in self._staged:
            if value is None:
                self.nodes = {
                    each: kept for each, kept in self.nodes.items()
                    if each != path and not each.startswith(f"{path}/")
                }  # fmt: skip
            else:
                segments = path[1:].split("/")
                for count in range(1, len(segments)):
                    self.nodes.setdefault("/" + "/".join(segments[:count]), {})
                self.nodes[path] = value
        self._staged = []

    # What an enzyme's context has.

    def next_place(self) -> str:
        self._places += 1
        return f"{self._places:06d}"

    def read(self, path: str) -> Any:
        return copy.deepcopy(self.nodes.get(path))

    def list(self, path: str, *, after: str | None = None, limit: int = 1_000) -> Sequence[str]:
        names = {each[len(path) + 1 :].partition("/")[0] for each in self.below(path)}
        ordered = sorted(names, key=str.encode)
        return [each for each in ordered if after is None or each.encode() > after.encode()][:limit]

    def write(self, path: str, value: Any) -> None:
        assert decode(encode(value)) == value
        self._staged.append((path, value))

    def delete(self, path: str) -> None:
        self._staged.append((path, None))

    def signal(
        self, signal: str | None, target: str | None = None, *, payload: Any = None, beat: int | None = None
    ) -> None:
        assert (signal, payload) == (TURN_SIGNAL, None)
        assert beat is None or beat > self.beat
        self.queued.setdefault(self.beat + 1 if beat is None else beat, []).append((signal, target))

    def intervals(self, samples: int) -> Sequence[int]:
        return [self.spacing_ns] * (self.beat - 1)
