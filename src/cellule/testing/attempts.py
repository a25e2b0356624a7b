"""Attempts in a `testing.World`: an adapter at work on one request, as often as the test says.

    [copy] = world.intents.of("files.copy")
    with pytest.raises(Retry):
        world.perform(copy)  # the first attempt, as far as it came
    world.perform(copy)  # the second one finds its progress

Each attempt has a loop of its own, in a thread, so that tests with and without a loop can call it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Protocol

from cellule.app import Built
from cellule.effects.adapter import Adapter, Attempt
from cellule.effects.outcomes import Failed, Later
from cellule.errors import Rejected
from cellule.kernel.index.keys import pair_of
from cellule.kernel.state.rows import OPEN, OpenIntent
from cellule.testing.effects import Intent, memory_blobs, new_attempt, span_of
from cellule.testing.memory_host import MemoryHost
from cellule.values.cbor import decode


class HasRequests(Protocol):
    """What the methods below need of a world."""

    host: MemoryHost

    @property
    def built(self) -> Built:
        """The app it runs."""

    def complete(self, intent: Intent | str, value: Any) -> None:
        """Answer a request."""

    def fail(self, intent: Intent | str, code: str, text: str) -> None:
        """Answer a request with `failed`."""

    def hold(self, intent: Intent, timeout: timedelta) -> str:
        """Leave a request to others."""


class Attempts:
    """The attempts that were made in one world, by the ids of their requests."""

    def __init__(self, world: HasRequests) -> None:
        self._world = world
        self._blobs = memory_blobs()
        self._made: dict[str, tuple[int, Any]] = {}

    def perform(self, intent: Intent, adapter: Adapter | None) -> None:
        """Make one attempt; see `World.perform`."""
        found, opened = self._adapter(intent, adapter), self._opened(intent)
        number, progress = self._made.get(intent.id, (0, None))
        reported = [progress]
        attempt = self._attempt(intent, opened, found, number + 1, reported)
        try:
            with ThreadPoolExecutor(1) as threads:
                value = threads.submit(asyncio.run, _attempted(found, intent.params, attempt)).result()
        except Failed as failed:
            self._world.fail(intent, failed.code, failed.text)
        except Later as later:
            self._world.hold(intent, span_of(later))
        else:
            self._world.complete(intent, value)
        finally:
            self._made[intent.id] = number + 1, reported[-1]

    def _adapter(self, intent: Intent, adapter: Adapter | None) -> Adapter:
        found = adapter or self._world.built.adapters.get(intent.kind)
        if found is None:
            raise Rejected(
                "testing.no_adapter", "the app has no adapter for {kind}.", kind=intent.kind,
                hint="Give one: world.perform(intent, adapter).",
            )  # fmt: skip
        return found

    def _opened(self, intent: Intent) -> OpenIntent:
        """The request as the world has it, if it is with an adapter."""
        for key, opened in self._world.host.open_intents():
            if pair_of(key)[0] == intent.height and opened.status == OPEN:
                return opened
        raise Rejected(
            "testing.not_open", "{intent} is not with an adapter.", intent=intent,
            hint="It is settled, or waits for an approval, its time or somebody outside.",
        )  # fmt: skip

    def _attempt(
        self, intent: Intent, opened: OpenIntent, adapter: Adapter, number: int, reported: list[Any]
    ) -> Attempt:
        grant = self._world.built.manifest.grants.get(opened.extras.get("grant", ""))
        return new_attempt(
            intent.key or intent.id, number, intent=intent.id, token=intent.token,
            timeout_s=adapter.limits.timeout_s, world=self._world.host.world_id, module=opened.module,
            cell=opened.key, blobs=self._blobs, grant=None if grant is None else grant.as_data(),
            last_progress=reported[0], on_progress=lambda data: reported.append(decode(data)),
        )  # fmt: skip


async def _attempted(adapter: Adapter, params: Any, attempt: Attempt) -> Any:
    return await adapter.perform(params, attempt)
