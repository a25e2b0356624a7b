"""Apps for `testing.World`: built, loaded as a node loads them, and run under the determinism guard."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from typing import Any

from cellule.app import App, Built
from cellule.errors import Rejected
from cellule.kernel.manifest.model import Manifest, Module, Upcaster
from cellule.kernel.need import Need, Nodes
from cellule.kernel.program import Program
from cellule.modules.kinds import CodeKinds
from cellule.modules.python.runtime_guard import runtime_guard
from cellule.values.cid import Cid

_log = logging.getLogger("cellule.testing")


class AppPrograms:
    """The code of all apps that a world has run, by manifest."""

    def __init__(self, *, guard: bool, limit_s: float | None) -> None:
        self._guard = guard
        self._limit_s = limit_s
        self._known: dict[Cid, CodeKinds] = {}

    def add(self, built: Built) -> None:
        """Make the code of a built app known."""
        self._known[built.manifest.cid] = CodeKinds(
            limit_s=self._limit_s, live=built.descriptions if built.live else (), guarded=self._guard
        )

    def knows(self, manifest: Cid) -> bool:
        """Whether the code of this manifest is known."""
        return manifest in self._known

    def close(self) -> None:
        """End the watchdogs."""
        for programs in self._known.values():
            programs.close()

    def check(self, code: Mapping[str, Any], what: str) -> None:
        """See `Programs.check`: the code of a built app was checked when it was built."""

    def pack(
        self, code: Mapping[str, Any], folder: str | None, what: str
    ) -> tuple[Mapping[str, Any], Mapping[Cid, bytes]]:
        """See `Programs.pack`: there is nothing to pack."""
        return code, {}

    def program(self, manifest: Manifest, module: Module, nodes: Nodes) -> Generator[Need, None, Program]:
        """See `Programs.program`."""
        return (yield from self._known[manifest.cid].program(manifest, module, nodes))

    def upcaster(
        self, manifest: Manifest, upcaster: Upcaster, nodes: Nodes
    ) -> Generator[Need, None, Callable[[bytes], bytes]]:
        """See `Programs.upcaster`."""
        found = yield from self._known[manifest.cid].upcaster(manifest, upcaster, nodes)
        return _guarded(found) if self._guard else found


def _guarded(function: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def upcast(data: bytes) -> bytes:
        with runtime_guard():
            return function(data)

    return upcast


def build_for_tests(app: App, live: bool | None) -> Built:
    """Build an app as a node would, or live if asked for or if it has no file; the latter is said once."""
    if not isinstance(app, App):
        raise Rejected(
            "testing.not_an_app", "a testing world needs a cellule.App, not {value!r}.", value=app,
            hint="Give the object that your decorators belong to: World(app).",
        )  # fmt: skip
    if live is not None:
        return app.build(live=live)
    try:
        return app.build()
    except Rejected as error:
        if error.code != "app.not_bundled":
            raise
        first = not app.is_built(live=True)
        built = app.build(live=True)
        if first:
            _log.warning("%s Until then it runs here as it stands, without a bundle.", error)
        return built
