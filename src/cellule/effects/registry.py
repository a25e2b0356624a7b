"""The adapters that come with Cellule, each loaded when its kind is first performed.

A node has all of them without loading a client: kind, classes and limits come from import-light modules, and
the client (httpx, nats) with the first attempt.

Rejected: loading them at start. httpx alone takes longer than opening a data folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from cellule.effects.adapter import Adapter, AdapterLimits
from cellule.effects.attempt import Attempt
from cellule.effects.kinds import STANDARD, StandardKind
from cellule.effects.outcomes import Failed
from cellule.errors import Rejected


class OnDemand:
    """An adapter that is made at its first attempt."""

    def __init__(self, home: StandardKind, make: Callable[[], Adapter]) -> None:
        types = import_module(home.types)
        self.kind = home.kind
        self.params: type = getattr(types, home.params)
        self.receipt: type = getattr(types, home.receipt)
        self.limits: AdapterLimits = home.limits
        self._make = make
        self._made: Adapter | None = None

    async def perform(self, params: Any, attempt: Attempt) -> Any:
        """Make the adapter if it is not there yet, and one attempt with it."""
        if self._made is None:
            try:
                self._made = self._make()
            except Rejected as error:
                raise Failed(error.code, str(error)) from error
        return await self._made.perform(params, attempt)

    async def close(self) -> None:
        """Close what was made."""
        if self._made is not None:
            await self._made.close()


def standard_adapters(environment: Mapping[str, str] | None = None) -> list[Adapter]:
    """One adapter for each kind that comes with Cellule."""
    given = os.environ if environment is None else environment
    return [OnDemand(home, _maker(home, given)) for home in STANDARD.values()]


def _maker(home: StandardKind, environment: Mapping[str, str]) -> Callable[[], Adapter]:
    def make() -> Adapter:
        made: Adapter = getattr(import_module(home.module), home.adapter)()
        return made

    def make_publisher() -> Adapter:
        from cellule.effects.publish.adapter import NatsAdapter
        from cellule.effects.publish.options import NatsOptions

        options = NatsOptions.from_environment(environment)
        if options is None:
            raise Rejected(
                "effects.nats_servers_missing", "this node knows no NATS server to publish to",
                hint="Set CELLULE_NATS_SERVERS, or give the node a NatsAdapter of your own.",
            )  # fmt: skip
        return NatsAdapter(options)

    return make_publisher if home.kind == "event.publish" else make
