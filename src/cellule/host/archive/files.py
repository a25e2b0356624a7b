"""Worlds of a node out to files, and in again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cellule.host.archive.exporter import Exported, Exporter
from cellule.host.archive.importer import Importer
from cellule.host.archive.redacted_world import export_redacted
from cellule.host.journal import Progress
from cellule.host.node import Node
from cellule.host.own.directory import UniverseInfo, WorldInfo
from cellule.host.read.follower import Follower


async def export_world(
    node: Node, info: WorldInfo, path: Path, redact: Iterable[str], progress: Progress | None
) -> Exported:
    """Write a world to a new file, or only its journal, without fields of these names."""
    cas = node.cas(info.universe)
    if fields := frozenset(redact):
        return await export_redacted(Follower(node.loader, info, cas), node.clock, path, fields, progress)
    exporter = Exporter(node.engine, cas, node.storage.pins(info.universe), node.clock)
    return await exporter.export(info, path, progress)


async def import_world(
    node: Node, universe: UniverseInfo, path: Path, name: str | None, *, dry_run: bool
) -> WorldInfo:
    """Make the world of a file, or only prove that it could be made."""
    await node.check_owner()
    await node.storage.check_new_world(universe.id)
    loader = node.loader
    importer = Importer(
        node.engine, node.cas(universe.id), node.directory, universe, loader.programs, loader.budget
    )
    return await importer.import_file(path, name, dry_run=dry_run)
