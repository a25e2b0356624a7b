"""A cell's versions as JSON data and as lines, each with what changed since the one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from cellule.cli.changes import change_text, changes
from cellule.host.ingress.cell_handle import CellHandle
from cellule.host.journal import Progress
from cellule.host.limits import HISTORY_MAX
from cellule.host.read.history import Version
from cellule.modules.workflow.view import Timeline
from cellule.values.json_view import to_json
from cellule.values.schema.text_forms import time_text


async def read_versions(
    cell: CellHandle[Any], limit: int | None, progress: Progress
) -> tuple[list[Version[Any]], bool]:
    """A cell's newest versions, all if there is no limit, and whether there are, or may be, older ones."""
    found: list[Version[Any]] = []
    before: int | None = None
    while True:
        left = HISTORY_MAX if limit is None else min(HISTORY_MAX, limit - len(found))
        page = await cell.history(limit=left, before=before)
        found += page
        newest = found[0].height if found else page.next or 0
        if page.next is None or len(found) == limit:
            return found, page.next is not None
        before = page.next
        progress(newest - before, newest)


def history_json(versions: Sequence[Version[Any]]) -> list[dict[str, Any]]:
    """Versions, newest first; a step that failed changed nothing and has no state."""
    found: list[dict[str, Any]] = []
    state: Any = None
    for version in reversed(versions):
        row: dict[str, Any] = {
            "height": version.height, "version": version.version, "status": version.status,
            "event": version.schema, "cause": version.cause, "time": time_text(version.now_ns),
        }  # fmt: skip
        if isinstance(version.state, Timeline):
            row["lines"] = list(version.state)
        elif version.status == "ok":
            row["changes"] = changes(state, version.state) if state is not None else _born(version.state)
            row["state"] = state = version.state
        if version.ann is not None:
            row["ann"] = to_json(version.ann)
        if version.error:
            row["error"] = version.error
        if version.code:
            row["code"] = version.code
        found.append(row)
    return found[::-1]


def version_line(row: dict[str, Any]) -> Text:
    """One version for people."""
    style = "green" if row["status"] == "ok" else "red"
    line = Text(f"v{row['version']:<5}")
    line.append(f"{row['status']:<9}", style=style)
    line.append(f"height {row['height']:<8} {row['time'][:23]:<24} {row['event']}")
    for added in row.get("lines", ()):
        line.append(f"\n      {added}", style="dim")
    for change in row.get("changes", ()):
        line.append(f"\n      {change_text(change)}", style="dim")
    if "error" in row:
        line.append(f"\n      {row['error']} [{row['code']}]", style="red")
    return line


def _born(state: Any) -> list[dict[str, Any]]:
    """The first state known: every field is new."""
    return changes({}, state) if isinstance(state, dict) else changes(None, state)
